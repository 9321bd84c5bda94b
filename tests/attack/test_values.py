"""Numbers that are no numbers, or extreme: every factory, every argument, every learner."""

import inspect
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import domains, environments, learners, losses, mechanisms
from tests import test_conformance as conformance

# Valid arguments of every factory of the three registries, by the names of its parameters.
ENVIRONMENTS = {
    "arms": 3,
    "dim": 3,
    "horizon": 8,
    "means": [0.2, 0.5],
    "rounds": 2,
    "deviation": 0.1,
    "domain": domains.ball(2),
    "losses": "iid",
    "family": losses.linear(domains.ball(2)),
    "features": np.ones((4, 2, 3)),
    "actions": np.eye(2),
    "parameter": [0.5, 0.5],
}
OWN = {
    "table": {"losses": np.full((4, 2), 0.5)},
    "contextual_table": {"losses": np.full((4, 2), 0.5)},
    "gap_arms": {"losses": "bernoulli"},
}
MECHANISMS = {"horizon": 8, "shape": (2,), "scale": 1.0}


def learner_arguments(name):
    return conformance.ARGUMENTS | {"horizon": 17}


def environment_arguments(name):
    return ENVIRONMENTS | OWN.get(name, {})


FACTORIES = {
    **{name: (getattr(learners, name), learner_arguments(name)) for name in learners.__all__},
    **{
        name: (getattr(environments, name), environment_arguments(name))
        for name in environments.__all__
    },
    **{name: (getattr(mechanisms, name), MECHANISMS) for name in mechanisms.__all__},
}


def call(name, **changes):
    """The factory with valid arguments where one is needed, and these changes."""
    factory, known = FACTORIES[name]
    positional, keywords = [], {}
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.name in changes:
            value = changes[parameter.name]
        elif parameter.default is inspect.Parameter.empty or parameter.name == "epsilon":
            value = known[parameter.name]
        else:
            value = parameter.default
        if parameter.kind is parameter.KEYWORD_ONLY:
            keywords[parameter.name] = value
        else:
            positional.append(value)
    return factory(*positional, **keywords)


def numbers_of(name):
    """The parameters that take one number, found by giving 0.3 or 1.3 to each of the others."""
    found = []
    for parameter in inspect.signature(FACTORIES[name][0]).parameters.values():
        if parameter.name in ("gap", "epsilon", "delta", "rounds"):
            found.append(parameter.name)
            continue
        if isinstance(parameter.default, bool | str) or parameter.name in ("means", "parameter"):
            continue
        needed = {"floor": {"shifted": True}, "tau": {"epsilon": None}}.get(parameter.name, {})
        for probe in (0.3, 1.3):
            try:
                call(name, **needed, **{parameter.name: probe})
            except Exception:  # an argument of another kind
                continue
            found.append(parameter.name)
            break
    return found


WRONG = [
    "1", b"1", [1.0], (0.5,), np.array([0.5]), jnp.ones((1, 1)), 0.5j, np.complex64(0.5),
    True, np.True_, jnp.array(True), {}, object(), float("nan"),
]  # fmt: skip


def refusal(name, argument, value, **changes):
    """What is wrong with how the factory takes this value, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(name, **changes, **{argument: value})
    except (TypeError, ValueError) as error:
        text = str(error)
        if "\n" in text or argument not in text:
            return f"{name}({argument}={value!r}): {text!r} does not name it"
        return None
    except Exception as error:
        return f"{name}({argument}={value!r}): {type(error).__name__} {error}"
    return f"{name}({argument}={value!r}) is accepted"


@pytest.mark.attack
def test_no_factory_takes_what_is_no_number(capsys):
    """Words, arrays, complex numbers, truth values, None: a sentence that names the argument."""
    tried, wrong, arguments = 0, [], 0
    for name, (factory, _) in FACTORIES.items():
        for argument in numbers_of(name):
            arguments += 1
            default = inspect.signature(factory).parameters[argument].default
            needed = {"tau": {"epsilon": None}}.get(argument, {})
            for value in WRONG if default is None else [*WRONG, None]:
                tried += 1
                wrong.append(refusal(name, argument, value, **needed))
    wrong = [line for line in wrong if line]
    with capsys.disabled():
        print(
            f"\nno numbers: {len(FACTORIES)} factories, {arguments} arguments, {tried} values, "
            f"{len(wrong)} taken or refused without their name"
        )
    assert not wrong, "\n".join(wrong)
