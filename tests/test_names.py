"""Every package name that tests, benchmarks and examples use exists.

Slow tests run in turn, so otherwise a missing name would be found only days later.
"""

import ast
import importlib
import pkgutil
import types

import pytest

from tests import ROOT


def modules_of(tree) -> dict[str, types.ModuleType]:
    """The modules of the package by the names under which a file imports them."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpjax":
            for name in node.names:
                member = pkgutil.resolve_name(f"{node.module}.{name.name}")
                if isinstance(member, types.ModuleType):
                    found[name.asname or name.name] = member
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "dpjax":
                    module = importlib.import_module(name.name if name.asname else "dpjax")
                    found[name.asname or "dpjax"] = module
    return found


def gone(text) -> list[str]:
    """``line: module.name`` for each attribute that a module of the package lacks."""
    tree = ast.parse(text)
    modules = modules_of(tree)
    return [
        f"{node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in modules
        and not hasattr(modules[node.value.id], node.attr)
    ]


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_names_of_the_package_exist(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert {str(file): found for file in files if (found := gone(file.read_text()))} == {}


def test_a_name_that_is_gone_is_found():
    assert gone("from dpjax.cli import audits\naudits.pairs_for\naudits.build") == [
        "2: audits.pairs_for"
    ]
    with pytest.raises(AttributeError):
        gone("from dpjax import no_such_learner")
