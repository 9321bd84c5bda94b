"""What mkdocs needs beside mkdocs.yml: links out of this folder, packages and docstrings.

Pages link to files of the repository, as examples. The site has copies of these files, and the
links lead there. The line ``::: dpjax.learners`` stands for the docstring of the package and all
that its ``__all__`` names. In docstrings, roles such as ``:func:`` become links, and the comment
beside a field becomes its docstring.
"""

import ast
import functools
import os
import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
MODULE = re.compile(r"^::: (dpjax[\w.]*)$", flags=re.MULTILINE)


@functools.cache
def exported(package):
    """{name: path of its definition} for the ``__all__`` of a package; None for a module."""
    file = ROOT / package.replace(".", "/") / "__init__.py"
    if not file.is_file() or package == "dpjax":
        return None
    paths, names = {}, []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                paths[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            names = ast.literal_eval(node.value)
    return {name: paths[name] for name in sorted(names, key=str.lower)}


@functools.cache
def public():
    """Where the names that packages export are defined: {dpjax.learners.exp3: its module's}."""
    packages = [file.parent.relative_to(ROOT) for file in (ROOT / "dpjax").rglob("__init__.py")]
    packages = [".".join(folder.parts) for folder in packages]
    top = {"dpjax.simulate": "dpjax.simulate.simulate", "dpjax.sweep": "dpjax.sweep.sweep"}
    return top | {
        f"{package}.{name}": path
        for package in packages
        for name, path in (exported(package) or {}).items()
    }


def place(path):
    """Where a file of the repository is on the site."""
    return path.removeprefix("docs/")


def origin(uri):
    """The file of the repository that is there on the site."""
    return f"docs/{uri}" if (ROOT / "docs" / uri).is_file() else uri


def targets(text, path):
    """All links of a page to files of the repository: (link, path)."""
    for link, _ in LINK.findall(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        if (ROOT / target).is_file():
            yield link, target


def on_files(files, config):
    """Adds the files outside of docs that pages link."""
    pages = [origin(file.src_uri) for file in files.documentation_pages()]
    while pages:
        page = pages.pop()
        for _, target in targets((ROOT / page).read_text(), page):
            if not target.startswith("docs/") and place(target) not in files.src_uris:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
                if target.endswith(".md"):
                    pages.append(target)
    return files


def on_page_markdown(markdown, page, **_):
    """Has links lead to the copies, and writes out what a package exports."""
    uri = page.file.src_uri
    found = dict(targets(markdown, origin(uri)))

    def link(match):
        if match[1] not in found:
            return match[0]
        path = os.path.relpath(place(found[match[1]]), posixpath.dirname(uri) or ".")
        return f"]({path}{match[2] or ''})"

    return MODULE.sub(members, LINK.sub(link, markdown))


def members(match):
    """The lines of a package in place of its name."""
    names = exported(match[1])
    if names is None:
        return match[0]
    hidden = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
    lines = [f"::: {match[1]}\n    options: {hidden}"]
    for name, path in names.items():
        if not (name.isupper() and unpacked(path)):
            lines += [f"[](){{#{match[1]}.{name}}}", f"::: {path}"]
    return "\n\n".join(lines)


def unpacked(path):
    """Whether a constant comes out of a tuple, which no tool reads."""
    module, _, name = path.rpartition(".")
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    return re.search(rf"^{name}(:.*)? = ", text, flags=re.MULTILINE) is None


ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):`~?([\w.]+)`")
SECTION = re.compile(r"^(Privacy|Regret|Reference|References): (?=\S)", flags=re.MULTILINE)


def meant(name, obj):
    """The full path of what a role in the docstring of an object names."""
    if name in public():
        return public()[name]
    try:
        return obj.resolve(name)
    except griffe.NameResolutionError:
        package = obj.module.package if obj.module.is_init_module else obj.module.parent
        near = f"{package.path if package else ''}.{name}"
        ends = [path for known, path in public().items() if known.endswith(f".{name}")]
        return public().get(near, ends[0] if len(ends) == 1 else name)


class Docstrings(griffe.Extension):
    """Has docstrings say in Markdown what they say in roles and comments."""

    def on_object(self, *, obj, **_):
        if obj.docstring is None:
            return

        def link(match):
            path = meant(match[1], obj)
            return f'<autoref identifier="{path}" optional><code>{match[1]}</code></autoref>'

        obj.docstring.value = SECTION.sub(r"**\1.** ", ROLE.sub(link, obj.docstring.value))

    def on_attribute_instance(self, *, attr, **_):
        """A comment behind a field, and the lines of comment that go on with it."""
        if attr.docstring or not attr.parent or not attr.parent.is_class or not attr.lineno:
            return
        lines = attr.lines_collection[attr.filepath]
        words = lines[attr.endlineno - 1].partition("  # ")[2].strip()
        for line in lines[attr.endlineno :]:
            more = line.strip().removeprefix("# ")
            if not words or not line.strip().startswith("# ") or more[0].isupper():
                break
            words += " " + more
        words = words.partition("type: ignore[assignment] # ")[2] or words
        if words:
            attr.docstring = griffe.Docstring(words, parent=attr)
