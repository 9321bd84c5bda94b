"""Copies of a learner with a mistake in their privacy, to see which audit finds it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from jax.extend.core import Literal

from dpjax import noise
from dpjax.audit.pairs import check_fits
from dpjax.audit.rules import RULES
from dpjax.combinators import as_learner
from dpjax.core import BatchLearner, Learner
from dpjax.domains import LossSet
from dpjax.engine import interpret
from dpjax.feedback import seen_inside
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

SHARPER = 16


def mutants(learner: Learner | BatchLearner, losses: LossSet) -> dict[str, Learner]:
    """Copies of a learner, each with one mistake at its releases, by the name of the mistake.

    - ``noise halved``: the scale is half, as if a radius stood in place of a diameter.
    - ``level missing``: the scale is that of an encoder with one level less. Only for prefix sums
      of two levels or more.
    - ``natural logarithm``: the scale is multiplied by ln 2 (Gaussian noise: by its root), as if
      levels were counted by ln T. Only for prefix sums of two levels or more.
    - ``scale from data``: the scale grows with the value that it hides.
    - ``noise reused``: all rounds have one key.
    - ``noise forgotten``: the value is released without noise. Not for prefix sums.
    - ``draws sharper``: probabilities are raised to the power 16. Only for learners whose privacy
      comes from draws and coins.
    - ``one user counted as one round``: the scale is divided by the rounds of a user, as if a user
      had one. Only for learners that declare the privacy of a user of several rounds.

    The first three and the last change a number only. A replay at the worst losses sees that to any
    precision, an empirical audit from a factor of about 2 on.

    Args:
      learner: a Learner or BatchLearner.
      losses: one side of a :class:`Pair`; only the shapes matter.

    Returns:
      Learners that declare what the original declares.

    Raises:
      ValueError: no release is seen in the learner's steps, or the losses do not fit it.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(4), (), scale=2.0)
      >>> sorted(audit.mutants(learner, jnp.zeros(4)))
      ['level missing', 'natural logarithm', 'noise halved', 'noise reused', 'scale from data']
    """
    learner = as_learner(learner)
    check_fits(learner, losses)
    sensitivities: list[float] = []
    kinds: set[str] = set()
    _survey(_traced_step(learner, losses), sensitivities, kinds)
    if not kinds:
        raise ValueError(
            "learner: no release was seen in its steps, so that there is none to make a mistake "
            "at; noise must come from dpjax.noise to be seen"
        )
    found = {}
    if kinds - {"choose", "categorical", "coin"}:
        height = max(sensitivities, default=1.0)
        found["noise halved"] = _scaled(0.5)
        if height > 1.0:
            # As in a tree, the L1 sensitivity is the number of levels and L2 its root.
            laplace = bool(kinds & {"laplace_prefix", "discrete_laplace_prefix"})
            levels = height if laplace or "skellam_prefix" in kinds else height * height
            missing = (levels - 1.0) / levels
            found["level missing"] = _scaled(missing if laplace else missing**0.5)
            found["natural logarithm"] = _scaled(np.log(2.0) ** (1.0 if laplace else 0.5))
        if learner.privacy.rounds_per_user > 1:
            found["one user counted as one round"] = _scaled(1.0 / learner.privacy.rounds_per_user)
        found["scale from data"] = _from_data
    else:
        found["draws sharper"] = _sharper
    found["noise reused"] = _reused
    if not sensitivities:
        found["noise forgotten"] = _forgotten
    return {name: _rewritten(learner, rewrite) for name, rewrite in found.items()}


def _traced_step(learner, losses):
    state, action = jax.eval_shape(learner.init, jr.key(0))
    first = jax.eval_shape(lambda losses: jax.tree.map(lambda leaf: leaf[0], losses), losses)
    seen, _ = jax.eval_shape(partial(seen_inside, learner), first, action)
    return jax.make_jaxpr(learner.step)(state, jr.key(0), seen)


def _survey(closed, sensitivities, kinds) -> None:
    """Appends the sensitivities of a program's mechanisms, and adds the names of its sites."""
    for eqn in closed.jaxpr.eqns:
        name = interpret.site(eqn)
        if name is None:
            for inner in interpret.programs(eqn):
                _survey(inner, sensitivities, kinds)
            continue
        kinds.add(name)
        if name.endswith("_prefix") and isinstance(eqn.invars[-1], Literal):
            sensitivities.append(float(eqn.invars[-1].val))


def _rewritten(learner, rewrite) -> Learner:
    """The learner with each of its releases replaced by ``rewrite(name, inputs)``."""

    def changed(function):
        def run(*arguments):
            program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)

            def visit(index, name, function, inputs):
                del index, function
                return [rewrite(name, inputs)], ()

            outputs, _ = interpret.run(program, jax.tree.leaves(arguments), visit, loops=True)
            return jax.tree.unflatten(jax.tree.structure(shape), outputs)

        return run

    return learner._replace(init=changed(learner.init), step=changed(learner.step))


def _scaled(factor):
    def rewrite(name, inputs):
        return _with_scale(name, inputs, lambda value: jnp.float32(factor))

    return rewrite


def _from_data(name, inputs):
    return _with_scale(name, inputs, lambda value: jnp.exp(jnp.reshape(value, -1)[0]))


def _with_scale(name, inputs, factor):
    """The release with its scale multiplied by ``factor(value)``. A draw has no scale and stays."""
    inputs, scale = list(inputs), RULES[name].scale
    if scale is not None:
        value = inputs[scale - 1]  # The value stands before the scale.
        if name.endswith("_words"):
            value = exact_sums.to_float(ExactSum(*value))
        amount = jnp.asarray(inputs[scale])
        if not jnp.issubdtype(amount.dtype, jnp.inexact):
            amount = amount.astype(jnp.float32)  # a number of coins
        inputs[scale] = amount * factor(value)
    return getattr(noise, name)(*inputs)


def _reused(name, inputs):
    position = RULES[name].key
    key = inputs[position]
    same = jr.wrap_key_data(jnp.zeros_like(jr.key_data(key)), impl=jr.key_impl(key))
    return getattr(noise, name)(*inputs[:position], same, *inputs[position + 1 :])


def _sharper(name, inputs):
    key, probability = inputs
    if name == "categorical":
        return noise.categorical(key, SHARPER * probability)
    coin = name == "coin"
    probability = jnp.sum(probability) if coin else probability
    probabilities = jnp.stack([probability, 1.0 - probability]) if coin else probability
    powers = (probabilities / jnp.max(probabilities)) ** SHARPER
    sharper = powers / jnp.sum(powers)
    return noise.coin(key, sharper[0]) if coin else noise.choose(key, sharper)


def _forgotten(name, inputs):
    if name == "coin":
        return jnp.sum(inputs[1]) >= 0.5
    if name in ("choose", "categorical"):
        return jnp.argmax(inputs[1]).astype(jnp.int32)
    if name == "exceeds":
        return inputs[3] > inputs[2]
    if name == "least":
        return jnp.argmin(inputs[1]).astype(jnp.int32)
    if name.endswith("_prefix"):
        return inputs[0]
    return jnp.asarray(inputs[1])
