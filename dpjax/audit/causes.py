"""Causes of a failed replay other than a wrong calibration: unseen noise, and too many releases."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import noise
from dpjax.audit._epsilon import play
from dpjax.audit._mutants import rewritten, traced_step
from dpjax.audit._pairs import Pair
from dpjax.audit.filters import hidden
from dpjax.combinators import as_learner
from dpjax.core import Array, BatchLearner, Learner
from dpjax.engine.settings import FIRST_LEVEL
from dpjax.noise.release import bind

# Primitives that draw random numbers, or may do so outside of JAX.
_RANDOM = {"random_bits", "rng_bit_generator", "rng_uniform", "pure_callback", "io_callback"}


def draws_unseen(learner: Learner | BatchLearner, pairs: Pair) -> bool:
    """Whether a learner draws random numbers other than in its releases."""
    learner = as_learner(learner)
    step = traced_step(learner, jax.tree.map(lambda leaf: leaf[0], pairs.losses))
    begin = jax.make_jaxpr(learner.init)(jr.key(0, impl="threefry2x32"))
    return any(hidden(program.jaxpr) & _RANDOM for program in (step, begin))


def with_least(learner: Learner | BatchLearner, pairs: Pair, key: Array) -> Learner | None:
    """The learner with :func:`dpjax.noise.least` in place of vectors with Laplace noise.

    It is None if a learner that keeps only the index of each smallest noisy value, or of each
    largest one, plays other actions on some pair, or if there is no such vector.
    """
    learner = as_learner(learner)
    sites: list = []
    first = jax.tree.map(lambda leaf: leaf[0], pairs.losses)
    traced_step(rewritten(learner, _index_alone(1.0, sites)), first)
    if not sites:
        return None
    keys = jr.split(key, len(jax.tree.leaves(pairs.losses)[0]))

    def plays(learner):
        run = jax.vmap(lambda losses, key: play(learner, losses, key))
        run = jax.jit(run, compiler_options=FIRST_LEVEL)
        return [np.asarray(leaf) for side in pairs for leaf in jax.tree.leaves(run(side, keys))]

    usual = plays(learner)
    for sign in (1.0, -1.0):
        same = zip(usual, plays(rewritten(learner, _index_alone(sign, sites))), strict=True)
        if all(np.array_equal(*both) for both in same):
            return rewritten(learner, _least(sign))
    return None


def _is_vector(site, inputs) -> bool:
    """Whether a release is a vector with Laplace noise of one scale, or its members are."""
    if site.kind != "value" or site.law is not noise.LAWS["laplace"] or len(site.mapped) > 1:
        return False
    _, value, scale, *_ = inputs
    return jnp.ndim(value) == 1 and len(value) > 1 and jnp.ndim(scale) == 0


def _index_alone(sign, sites):
    """Keep only which entry is the smallest (1) or largest (-1), and append each site to a list."""

    def rewrite(site, inputs):
        release = bind(site, *inputs)
        if not _is_vector(site, inputs):
            return release
        sites.append(site)
        return _marked(jnp.argmin(sign * release), release, sign)

    return rewrite


def _least(sign):
    def rewrite(site, inputs):
        if not _is_vector(site, inputs):
            return bind(site, *inputs)
        keys, value, scale = inputs
        return _marked(noise.least(keys.reshape(-1)[0], sign * value, scale), value, sign)

    return rewrite


def _marked(index, like, sign):
    """A vector whose smallest (1) or largest (-1) entry is at the index."""
    return jnp.where(jnp.arange(len(like)) == index, -sign, 0.0).astype(like.dtype)
