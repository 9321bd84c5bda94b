"""Public functions annotate their parameters and results; mypy checks the annotations.

The table has the share of annotated parameters that each room must reach. To raise a share,
annotate parameters, set it to 1, and run this test: its message names the parameters without a
type. If some remain, enter the share in the message, rounded down. A share never goes down. In a
room with share 1, every function also annotates its result.
"""

import importlib
import inspect
import types
from importlib.resources import files

import pytest

import dpjax

LEAST = {
    "dpjax": 1.0,
    "dpjax.bounds": 1.0,
    "dpjax.report.accessor": 1.0,
    "dpjax.report.arrays": 1.0,
    "dpjax.audit": 1.0,
    "dpjax.cli": 1.0,
    "dpjax.combinators": 1.0,
    "dpjax.study.compare": 1.0,
    "dpjax.core": 1.0,
    "dpjax.domains": 1.0,
    "dpjax.environments": 1.0,
    "dpjax.environments.families": 1.0,
    "dpjax.environments.loss_families": 1.0,
    "dpjax.feedback": 1.0,
    "dpjax.core.generators": 1.0,
    "dpjax.learners": 1.0,
    "dpjax.learners.parts.gram": 1.0,
    "dpjax.learners.parts.prefix_sums": 1.0,
    "dpjax.maths.designs": 1.0,
    "dpjax.maths.divergences": 1.0,
    "dpjax.mechanisms": 1.0,
    "dpjax.noise": 1.0,
    "dpjax.papers": 1.0,
    "dpjax.privacy": 1.0,
    "dpjax.engine.settings": 1.0,
    "dpjax.game.batches": 1.0,
    "dpjax.game.checkpoints": 1.0,
    "dpjax.game.checks": 1.0,
    "dpjax.game.play": 1.0,
    "dpjax.game.rounds": 1.0,
    "dpjax.learners.stopping": 1.0,
    "dpjax.store": 1.0,
    "dpjax.study": 1.0,
    "dpjax.report.choice": 1.0,
    "dpjax.report.estimates": 1.0,
    "dpjax.report.latex": 1.0,
    "dpjax.study.theorems": 1.0,
    "dpjax.report.trends": 1.0,
    "dpjax.study.sweep": 1.0,
    "dpjax.study.worst_case": 1.0,
}
ROOMS = {name: importlib.import_module(name) for name in LEAST}


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


@pytest.mark.parametrize("room", LEAST)
def test_parameters_and_results_have_types(room):
    parameters, results = _typed(ROOMS[room])
    share = sum(parameters.values()) / max(len(parameters), 1)
    bare = [place for place, typed in (parameters | results).items() if not typed]
    message = f"a share of {share:.3f} in {room}; without a type: {', '.join(bare)}"
    assert share >= LEAST[room], message
    assert LEAST[room] < 1.0 or not bare, message


def test_every_public_module_is_in_the_table():
    listed = [getattr(dpjax, name) for name in dir(dpjax) if name != "report"]
    listed += [getattr(dpjax.report, name) for name in dpjax.report.__all__]
    assert {module.__name__ for module in listed if inspect.ismodule(module)} <= LEAST.keys()


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
