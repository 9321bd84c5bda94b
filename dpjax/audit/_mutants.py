"""Copies of a learner with one privacy mistake each, to test which audit finds it."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import noise
from dpjax.audit._pairs import check_fits
from dpjax.audit.rules import RULES
from dpjax.audit.visits import Rewritten, releases
from dpjax.combinators import as_learner
from dpjax.core import BatchLearner, Learner, PyTree
from dpjax.domains import LossSet
from dpjax.game.rounds import first_arguments
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from dpjax.noise.release import Site, bind, over_members

SHARPER = 16


def mutants(learner: Learner | BatchLearner, losses: LossSet) -> dict[str, Learner]:
    """Copies of a learner, each with one mistake in its releases, by the name of the mistake.

    - ``noise halved``: the scale is halved, as if a radius were used instead of a diameter.
    - ``level missing``: the scale is that of an encoder with one level less. Only for prefix sums
      of at least two levels.
    - ``natural logarithm``: the scale is multiplied by ln 2 (for Gaussian noise, by its root), as
      if levels were counted by ln T. Only for prefix sums of at least two levels.
    - ``scale from data``: the scale grows with the value that it hides.
    - ``noise reused``: all rounds use the same key.
    - ``noise forgotten``: the value is released without noise. Not for prefix sums.
    - ``draws sharper``: probabilities are raised to the power 16. Only for learners whose privacy
      comes from draws and coins.
    - ``one user counted as one round``: the scale is divided by a user's number of rounds. Only for
      learners that declare user-level privacy.

    The first three mistakes and the last one only multiply the scale by a constant. A replay at the
    worst losses detects a change of any size. An empirical audit detects a factor of about 2 or
    more.

    Args:
      learner: a Learner or BatchLearner.
      losses: one side of a :class:`Pair`; only the shapes matter.

    Returns:
      Learners with the declaration of the original.

    Raises:
      ValueError: no release is seen in the learner's steps, or the losses do not fit it.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(4), (), scale=2.0)
      >>> sorted(audit.mutants(learner, jnp.zeros(4)))
      ['level missing', 'natural logarithm', 'noise halved', 'noise reused', 'scale from data']
    """
    factors, others = mistakes(learner, losses)
    scaled = {name: partial(with_scale_times, factor) for name, factor in factors.items()}
    return {name: rewritten(learner, rewrite) for name, rewrite in (scaled | others).items()}


def mistakes(
    learner: Learner | BatchLearner, losses: PyTree
) -> tuple[dict[str, float], dict[str, Callable]]:
    """The mistakes of :func:`mutants` by name: factors of the scale, and rewritten releases."""
    learner = as_learner(learner)
    check_fits(learner, losses)
    seen = releases(traced_step(learner, losses).jaxpr)
    if not seen:
        raise ValueError(
            "learner: no release was seen in its steps, so mutants cannot be made; noise must come "
            "from dpjax.noise to be seen"
        )
    factors: dict[str, float] = {}
    prefixes = [site for site in seen if site.kind == "prefix"]
    noisy = any(RULES[site.kind].scale is not None for site in seen)
    if noisy:
        factors["noise halved"] = 0.5
        # The L2 sensitivity is the root of the number of levels, as in a tree.
        levels = max((s.sensitivity[s.law.norm - 1] ** s.law.norm for s in prefixes), default=1.0)
        if levels > 1.0:
            power = 1.0 / max(site.law.norm for site in prefixes)
            factors["level missing"] = ((levels - 1.0) / levels) ** power
            factors["natural logarithm"] = np.log(2.0) ** power
        if learner.privacy.rounds_per_user > 1:
            factors["one user counted as one round"] = 1.0 / learner.privacy.rounds_per_user
    others = {"scale from data": _from_data} if noisy else {"draws sharper": _sharper}
    return factors, others | {"noise reused": _reused} | (
        {} if prefixes else {"noise forgotten": _forgotten}
    )


def traced_step(learner: Learner | BatchLearner, losses: PyTree):
    def first_step(key, losses):
        return first_arguments(learner, key, jax.tree.map(lambda leaf: leaf[0], losses))

    key = jr.key(0, impl="threefry2x32")
    return jax.make_jaxpr(learner.step)(*jax.eval_shape(first_step, key, losses))


def rewritten(learner: Learner | BatchLearner, rewrite: Callable) -> Learner:
    """The Learner with each release replaced by ``rewrite(site, inputs)``."""

    def changed(function):
        def run(*arguments):
            program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
            outputs = Rewritten(rewrite).evaluate(program, jax.tree.leaves(arguments))
            return jax.tree.unflatten(jax.tree.structure(shape), outputs)

        run.tested = getattr(function, "tested", False)  # The actions are of the same kind.
        return run

    learner = as_learner(learner)
    return learner._replace(init=changed(learner.init), step=changed(learner.step))


def with_scale_times(factor: float, site: Site, inputs: Sequence):
    """The release with its scale multiplied by a number, () float32."""
    return _with_scale(site, inputs, lambda value: jnp.asarray(factor, jnp.float32))


def _from_data(site, inputs):
    return _with_scale(site, inputs, lambda value: jnp.exp(jnp.reshape(value, -1)[0]))


def _with_scale(site, inputs, factor):
    """The release with its scale multiplied by ``factor(value)``. Draws have no scale."""
    inputs, scale = list(inputs), RULES[site.kind].scale
    if scale is not None:
        value = inputs[scale - 1]  # The value precedes the scale.
        if site.kind in ("words", "draws"):
            value = exact_sums.to_float(ExactSum(*value))
        amount = jnp.asarray(inputs[scale])
        if not jnp.issubdtype(amount.dtype, jnp.inexact):
            amount = amount.astype(jnp.float32)  # a number of coins
        inputs[scale] = amount * factor(value)
    return bind(site, *inputs)


def _reused(site, inputs):
    key, *rest = inputs
    same = jr.wrap_key_data(jnp.zeros_like(jr.key_data(key)), impl=jr.key_impl(key))
    return bind(site, same, *rest)


def _sharper(site, inputs):
    def draw(key, probability):
        if site.kind == "categorical":
            return noise.categorical(key, SHARPER * probability)
        if site.kind == "coin":  # its log-odds are multiplied; a small distance from 1/2 is kept
            lead = 2.0 * jnp.sum(jnp.atleast_1d(probability).at[0].add(-0.5))
            lead = jnp.tanh(SHARPER * jnp.arctanh(lead))
            return noise.coin(key, jnp.stack([jnp.full_like(lead, 0.5), 0.5 * lead]))
        powers = (probability / jnp.max(probability)) ** SHARPER
        return noise.choose(key, powers / jnp.sum(powers))

    return over_members(draw, site)(*inputs)


# Releases without noise, as functions of the inputs after the key; of other kinds, the value.
_BARE: dict[str, Callable] = {
    "coin": lambda probability: jnp.sum(probability) >= 0.5,
    "choice": lambda probabilities: jnp.argmax(probabilities).astype(jnp.int32),
    "categorical": lambda logits: jnp.argmax(logits).astype(jnp.int32),
    "comparison": lambda armed, threshold, value, scale: value > threshold,
    "least": lambda value, scale: jnp.argmin(value).astype(jnp.int32),
}


def _forgotten(site, inputs):
    bare = _BARE.get(site.kind, lambda value, *_: value)
    return over_members(lambda key, *rest: bare(*rest), site)(*inputs)
