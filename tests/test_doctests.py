"""Examples in the docstrings of all that the reference shows: they run, and none is missing.

An example may use the names that ``docs/reference/index.md`` lists, and no others.
"""

import doctest
import importlib
import inspect
import re
from types import ModuleType

import pytest

from tests import ROOT

# Lines of the reference that need no example, and why.
WITHOUT = {
    "dpjax.learners.parts.prefix_sums": "calibrations that learners make for themselves",
    "dpjax.papers": "a paper is played for minutes; tests/papers",
}
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
LINE = re.compile(r"^::: (dpjax[\w.]*)$(?:\n    options:\n      members: \[(.*)\])?", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def found(path):
    """The module with this dotted name, or else the object in the module above it."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


def members(path, selected=""):
    """The objects that one line of the reference shows: {dotted name: function or class}."""
    held = found(path)
    if not isinstance(held, ModuleType):
        return {path: held}
    own = [name for name, value in vars(held).items() if is_own(value, held)]
    names = selected.split(", ") if selected else getattr(held, "__all__", own)
    shown = {}
    for name in names:
        value = getattr(held, name)
        if isinstance(value, ModuleType):  # a paper
            shown |= members(f"{path}.{name}", "reproduce")
        elif inspect.isclass(value) or (callable(value) and hasattr(value, "__module__")):
            shown[f"{path}.{name}"] = value
    return shown


def is_own(value, module):
    """Whether a module that is not a package defines this name for others."""
    name = getattr(value, "__name__", "_")
    return getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")


def methods(value):
    """A class and its documented functions: {name relative to the class: function}."""
    inside = vars(value) if inspect.isclass(value) else {}
    plain = {name: getattr(each, "__func__", each) for name, each in inside.items()}
    plain = {name: getattr(each, "fget", each) for name, each in plain.items()}
    public = {f".{name}": each for name, each in plain.items() if not name.startswith("_")}
    return {"": value} | {name: each for name, each in public.items() if inspect.isroutine(each)}


def is_named_tuple(value):
    """Whether a class only names fields or types, with nothing to call; it may have examples."""
    fields_only = inspect.isclass(value) and issubclass(value, tuple)
    return fields_only or getattr(value, "_is_protocol", False)


REFERENCE = {path: selected for page in PAGES for path, selected in LINE.findall(page.read_text())}


def assumed():
    """The names that examples may use: those of index.md."""
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[1], names)
    return names


def examples(name, value, names):
    """The examples of a function, or of a class and its functions."""
    for behind, each in methods(value).items():
        text = inspect.getdoc(each) if behind == "" or each.__doc__ else ""
        yield doctest.DocTestParser().get_doctest(text or "", dict(names), name + behind, None, 0)


def failures(test):
    """The failures that doctest reports for one docstring."""
    report = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.append)
    return "".join(report)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("path", REFERENCE)
def test_examples_print_what_they_say(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = assumed()
    for name, value in members(path, REFERENCE[path]).items():
        for test in examples(name, value, names):
            assert not (report := failures(test)), report


@pytest.mark.parametrize("path", [path for path in REFERENCE if path not in WITHOUT])
def test_all_that_a_line_shows_has_an_example(path):
    shown = members(path, REFERENCE[path]).items()
    bare = [test.name for item in shown for test in examples(*item, {}) if not test.examples]
    bare = [name for name in bare if not is_named_tuple(dict(shown).get(name))]
    assert not bare, f"no example: {', '.join(bare)}"


def test_no_example_is_skipped():
    for path in (ROOT / "dpjax").rglob("*.py"):
        assert "doctest: +SKIP" not in path.read_text(), path


def test_a_wrong_output_is_reported():
    def double(number):
        """Twice a number.

        Examples:
          >>> 2 * 3
          6
        """

    (right,) = examples("double", double, {})
    assert not failures(right)
    double.__doc__ = double.__doc__.replace("6", "7")
    (wrong,) = examples("double", double, {})
    assert "Expected:\n    7\nGot:\n    6" in failures(wrong)
