"""Public functions annotate their parameters and results; mypy checks the annotations."""

import inspect

import pytest

from tests.test_doctests import REFERENCE, members, methods


def untyped(name, value):
    """The parameters and results without a type, of a function or of a class and its functions."""
    functions = {} if getattr(value, "_is_protocol", False) else methods(value)
    if "" in functions and inspect.isclass(value):
        functions[""] = vars(value).get("__init__", lambda: None)
    for behind, function in functions.items():
        signature = inspect.signature(function)
        kinds = {key: parameter.annotation for key, parameter in signature.parameters.items()}
        if behind or not inspect.isclass(value):
            kinds["return"] = signature.return_annotation
        bare = [key for key, kind in kinds.items() if kind is signature.empty]
        yield from (f"{name}{behind}({key})" for key in bare if key not in ("self", "cls"))


@pytest.mark.parametrize("path", REFERENCE)
def test_parameters_and_results_have_types(path):
    shown = members(path, REFERENCE[path]).items()
    assert [place for item in shown for place in untyped(*item)] == []


def test_what_has_no_type_is_found():
    class Kind:
        def method(self, bare, typed: int) -> None: ...

        @staticmethod
        def plain(bare): ...

    bare = ["Kind.method(bare)", "Kind.plain(bare)", "Kind.plain(return)"]
    assert [*untyped("Kind", Kind)] == bare
