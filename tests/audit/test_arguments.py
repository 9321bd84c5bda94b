"""Public functions of audits refuse wrong arguments and actions in one sentence."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import Learner, Privacy, audit, feedback, learners, noise
from dpjax.audit.audited import examined
from dpjax.core import Arms

ROUNDS, ARMS = 4, 3
NOUNS = ("learner", "pair", "pairs", "key", "choice")
FUNCTIONS = [name for name in audit.__all__ if inspect.isfunction(getattr(audit, name))]
SHARED = [(function, noun) for function in FUNCTIONS for noun in NOUNS
          if noun in inspect.signature(getattr(audit, function)).parameters]  # fmt: skip


def right() -> dict:
    learner = learners.hedge(ROUNDS, ARMS, epsilon=1.0)
    pair = audit.Pair(jnp.zeros((ROUNDS, ARMS)).at[0].set(1.0), jnp.zeros((ROUNDS, ARMS)))
    pairs = jax.tree.map(lambda leaf: leaf[None], pair)
    return {"learner": learner, "pair": pair, "pairs": pairs, "key": jr.key(0), "choice": jr.key(1)}


def call(function, values):
    """The function with these values for the arguments that it takes, and None for the others."""
    taken = {
        name: values.get(name)
        for name, parameter in inspect.signature(function).parameters.items()
        if name in values or (parameter.default is parameter.empty and name != "limits")
    }
    return function(**taken)


@pytest.mark.parametrize(("function", "noun"), SHARED)
def test_a_wrong_argument_is_named(function, noun):
    for value in (1, learners.hedge, jr.split(jr.key(0), 2), right()):
        with pytest.raises(TypeError, match=rf"^{noun} must be (a|one) "):
            call(getattr(audit, function), right() | {noun: value})


@pytest.mark.parametrize("entry", [np.nan, np.inf, None, "a"])
def test_losses_of_a_pair_that_are_not_finite_numbers_are_refused(entry):
    losses, others = map(np.array, right()["pair"])
    others = others.astype(object)
    others.flat[0] = entry
    with pytest.raises(ValueError, match="^pair: others: row 1.* must be finite in float32"):
        call(audit.epsilon, right() | {"pair": audit.Pair(losses, others)})


def from_one(horizon) -> Learner:
    """Arms are numbered from 1 by mistake."""

    def init(key):
        del key
        return jnp.zeros(ARMS), jnp.int32(0)

    def step(sums, key, loss):
        sums = sums + loss
        return sums, noise.least(key, sums, 2.0 * (horizon - 1)) + 1

    return Learner(init, step, feedback.full, Arms(ARMS), horizon, Privacy(epsilon=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [*sorted({name for name, noun in SHARED if noun in ("pair", "pairs")} - {"black_box"}), "all"],
)
def test_an_arm_outside_of_the_action_set_is_refused(function):
    values = right() | {"learner": from_one(ROUNDS)}
    with pytest.raises(ValueError, match=r"^learner: its action in round \d is not in .* to 2$"):
        if function == "all":
            examined(from_one, [ROUNDS], [jr.key(i) for i in range(4)], {}, count=16)
        else:
            call(getattr(audit, function), values)
