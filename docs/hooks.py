"""Hooks of mkdocs: links to files outside this folder, package listings, and docstrings.

Pages link to files of the repository, such as examples. On the site these links lead to copies of
the files. Notes on pages of the reference, for readers of the repository, are left out. The line
``::: dpjax.learners`` expands to the docstring of the package and of every name in its ``__all__``.
In docstrings, roles such as ``:func:`` become links, and the comment beside a field becomes its
docstring.
"""

import ast
import functools
import importlib
import os
import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
NAME = re.compile(r"(?<!\[)`(\w+)`")
# The note on a page of the reference, for readers of the repository.
NOTE = re.compile(r"(?:^> .*\n|^>\n)+", flags=re.MULTILINE)
MODULE = re.compile(r"^::: (dpjax[\w.]*)$(?!\n    options)", flags=re.MULTILINE)


def starred(module):
    """The functions and classes that a module defines."""
    tree = ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


@functools.cache
def exported(package):
    """{name: path of its definition} for the ``__all__`` of a package; None for a module."""
    file = ROOT / package.replace(".", "/") / "__init__.py"
    if not file.is_file() or package == "dpjax":
        return None
    paths, names = {}, []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            for name in starred(node.module) if node.names[0].name == "*" else ():
                paths[name] = f"{node.module}.{name}"
            for alias in node.names:
                paths[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = importlib.import_module(package).__all__
    return {name: paths.get(name, f"{package}.{name}") for name in sorted(names, key=str.lower)}


@functools.cache
def public():
    """{exported name: path of its definition} for all packages, such as dpjax.learners.exp3."""
    packages = [file.parent.relative_to(ROOT) for file in (ROOT / "dpjax").rglob("__init__.py")]
    packages = [".".join(folder.parts) for folder in packages]
    top = {
        "dpjax.simulate": "dpjax.game.play.simulate",
        "dpjax.sweep": "dpjax.study.sweep.sweep",
    }
    return top | {
        f"{package}.{name}": path
        for package in packages
        for name, path in (exported(package) or {}).items()
    }


def place(path):
    """Returns the path on the site of a file of the repository."""
    return path.removeprefix("docs/")


def origin(uri):
    """Returns the file of the repository at this path on the site."""
    return f"docs/{uri}" if (ROOT / "docs" / uri).is_file() else uri


def targets(text, path):
    """All links of a page to files of the repository: (link, path)."""
    for link, _ in LINK.findall(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        if (ROOT / target).is_file():
            yield link, target


def shown(text, path):
    """A page without its note for readers of the repository."""
    return NOTE.sub("", text, count=1) if path.startswith("docs/reference/") else text


def on_files(files, config):
    """Adds files outside docs to which pages link."""
    pages = [origin(file.src_uri) for file in files.documentation_pages()]
    while pages:
        page = pages.pop()
        for _, target in targets(shown((ROOT / page).read_text(), page), page):
            if not target.startswith("docs/") and place(target) not in files.src_uris:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
                if target.endswith(".md"):
                    pages.append(target)
    return files


def on_page_markdown(markdown, page, **_):
    """Points links to the copies, and expands packages to their exports."""
    uri = page.file.src_uri
    markdown = shown(markdown, origin(uri))
    found = dict(targets(markdown, origin(uri)))

    def link(match):
        if match[1] not in found:
            return match[0]
        path = os.path.relpath(place(found[match[1]]), posixpath.dirname(uri) or ".")
        return f"]({path}{match[2] or ''})"

    if uri in ("learners.md", "guides/mechanisms.md"):
        names = {
            name: f"dpjax.{package}.{name}"
            for package in ("learners", "environments", "mechanisms")
            for name in exported(f"dpjax.{package}")
        }
        markdown = NAME.sub(
            lambda match: f"[{match[0]}][{names[match[1]]}]" if match[1] in names else match[0],
            markdown,
        )
    return MODULE.sub(members, LINK.sub(link, markdown))


def on_page_content(html, **_):
    """Links each figure to its file, since figures are wider than a page."""
    return re.sub(r'(<img [^>]*?src="([^"]+)"[^>]*>)', r'<a href="\2">\1</a>', html)


def members(match):
    """The lines that replace a package's name."""
    names, anchor = exported(match[1]), f"[](){{#{match[1]}}}"
    if names is None:
        module = (ROOT / f"{match[1].replace('.', '/')}.py").is_file()
        hidden = "{show_root_heading: false, show_root_toc_entry: false}"
        return f"{anchor}\n\n{match[0]}\n    options: {hidden}" if module else match[0]
    hidden = "{members: false, show_root_heading: false, show_root_toc_entry: false}"
    lines = [anchor, f"::: {match[1]}\n    options: {hidden}"]
    for name, path in names.items():
        if not (name.isupper() and unpacked(path)):
            lines += [f"[](){{#{match[1]}.{name}}}", f"::: {path}"]
            if match[1] == "dpjax.papers":  # its other functions are parts of reproduce
                lines[-1] += "\n    options: {members: [reproduce], show_signature: false}"
    return "\n\n".join(lines)


def unpacked(path):
    """Whether a constant is assigned by unpacking a tuple, which documentation tools ignore."""
    module, _, name = path.rpartition(".")
    folder = ROOT / module.replace(".", "/")
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return re.search(rf"^{name}(:.*)? = ", file.read_text(), flags=re.MULTILINE) is None


ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):`~?([\w.]+)`")
MARKUP = re.compile(r"<|\*(?= )|(?<=\b[A-Z])\*|(?<!\w)_|_(?!\w)")
SECTION = re.compile(r"^(Privacy|Regret|Reference|References): (?=\S)", flags=re.MULTILINE)


def meant(name, obj):
    """The full path of the target of a role in an object's docstring."""
    if name in public():
        return public()[name]
    try:
        found = obj.resolve(name)
        return public().get(found, found)
    except griffe.NameResolutionError:
        package = obj.module.package if obj.module.is_init_module else obj.module.parent
        near = f"{package.path if package else ''}.{name}"
        ends = [path for known, path in public().items() if known.endswith(f".{name}")]
        return public().get(near, ends[0] if len(ends) == 1 else name)


def plain(paragraph):
    """Escapes tags and emphasis in a paragraph of a docstring, except in code."""
    if re.match(r"\n*    |Examples:|  >>>", paragraph):
        return paragraph
    parts = re.split(r"(``.*?``|`.*?`)", paragraph, flags=re.DOTALL)
    parts[::2] = [MARKUP.sub(lambda match: f"&#{ord(match[0])};", part) for part in parts[::2]]
    return "".join(parts)


def fields(named_tuple):
    """The section on a class's fields, made from the comments beside them."""
    lines = named_tuple.lines_collection[named_tuple.filepath]
    section, above = "\n\nAttributes:", named_tuple.lineno
    for field in named_tuple.attributes.values():
        first, last = field.lineno - 1, field.endlineno
        words = lines[last - 1].partition("  # ")[2].removeprefix("type: ignore[assignment] # ")
        # A comment behind a field may continue below it. One above a field begins with a capital.
        before = [line.strip()[2:] for line in lines[above:first] if line.strip().startswith("# ")]
        while words and last < len(lines) and lines[last].strip().startswith("# "):
            if lines[last].strip()[2].isupper():
                break
            words += " " + lines[last].strip()[2:]
            last += 1
        starts = [i for i, line in enumerate(before) if line[0].isupper()]
        words = words or " ".join(before[starts[0] :] if starts else [])
        section, above = f"{section}\n  {field.name}: {words}", field.endlineno
    return section


class Docstrings(griffe.Extension):
    """Converts roles and field comments in docstrings to Markdown."""

    def on_object(self, *, obj, **_):
        if obj.docstring is None:
            return
        if obj.is_class and "NamedTuple" in map(str, obj.bases):
            obj.docstring.value += fields(obj)

        def link(match):
            path = meant(match[1], obj)
            return f'<autoref identifier="{path}" optional><code>{match[1]}</code></autoref>'

        text = re.sub(r"::$", ":", obj.docstring.value, flags=re.MULTILINE)
        text = "\n\n".join(map(plain, text.split("\n\n")))
        obj.docstring.value = SECTION.sub(r"**\1.** ", ROLE.sub(link, text))
