"""Public functions annotate their parameters and results; mypy checks the annotations."""

import importlib
import inspect
import types
from importlib.resources import files

import pytest

import dpjax

# Those that dpjax and dpjax.report export, and modules of a room that are public beside it.
EXPORTED = [getattr(dpjax, name) for name in dir(dpjax)]
EXPORTED += [getattr(dpjax.report, name) for name in dpjax.report.__all__]
WITHIN = ["cli", "engine.settings", "learners.parts.gram", "learners.parts.prefix_sums",
          "maths.designs", "game.batches", "game.checkpoints", "game.checks", "game.play",
          "game.rounds", "study.compare", "study.sweep", "study.theorems",
          "study.worst_case"]  # fmt: skip
ROOMS = {dpjax, *(importlib.import_module(f"dpjax.{name}") for name in WITHIN)}
ROOMS |= {module for module in EXPORTED if inspect.ismodule(module)}


def _functions(module):
    """(place, function, whether it has a self) of the public functions, factories and methods."""
    listed = module is dpjax or hasattr(module, "__all__")
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        ours = listed or getattr(value, "__module__", None) == module.__name__
        if inspect.ismodule(value) and hasattr(value, "reproduce"):  # a paper
            yield f"{name}.reproduce", value.reproduce, False
        if name.startswith("_") or not ours or not callable(value):
            continue
        if not inspect.isclass(value):
            yield name, value, False
            continue
        for own, method in vars(value).items():
            plain = getattr(method, "__func__", method)  # of a class method or a static method
            if getattr(value, "_is_protocol", False):
                continue
            if inspect.isfunction(plain) and (own == "__init__" or not own.startswith("_")):
                yield f"{name}.{own}", plain, not isinstance(method, staticmethod)


def _typed(module) -> tuple[dict[str, bool], dict[str, bool]]:
    """Whether each parameter and each result of a module's public functions has a type."""
    parameters, results = {}, {}
    for place, function, has_self in _functions(module):
        signature = inspect.signature(function)
        for parameter in list(signature.parameters.values())[has_self:]:
            parameters[f"{place}({parameter.name})"] = parameter.annotation is not parameter.empty
        if not place.endswith(".__init__"):
            results[place] = signature.return_annotation is not signature.empty
    return parameters, results


@pytest.mark.parametrize("room", sorted(ROOMS, key=lambda room: room.__name__))
def test_parameters_and_results_have_types(room):
    parameters, results = _typed(room)
    assert [place for place, typed in (parameters | results).items() if not typed] == []


def test_what_has_no_type_is_found():
    class Kind:
        def method(self, bare, typed: int) -> None: ...

        @staticmethod
        def plain(bare): ...

    module = types.ModuleType("module")
    module.__all__ = ["Kind"]
    module.Kind = Kind
    parameters, results = _typed(module)
    assert parameters == {
        "Kind.method(bare)": False,
        "Kind.method(typed)": True,
        "Kind.plain(bare)": False,
    }
    assert results == {"Kind.method": True, "Kind.plain": False}


def test_the_package_says_that_it_has_types():
    assert (files("dpjax") / "py.typed").is_file()
