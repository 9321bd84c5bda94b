"""Noisy sums of packed rows v v', by trees of nodes and by prefix-sum mechanisms."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import mechanisms, noise, privacy
from dpjax.core import Array, Mechanism, Number, Privacy, PyTree
from dpjax.learners.parts.gram_calibration import levels_of, printed_gaussian_scale, real
from dpjax.learners.parts.prefix_sums import accountant_of, build
from dpjax.maths.barriers import rounded_product
from dpjax.maths.two_words import add_compensated
from dpjax.mechanisms import prefix


class NodesState(NamedTuple):
    round: Array  # () int32, t
    nodes: Array  # (m + 1, packed), row j: noise of the levels from j on; last row 0


def every_level(levels: int, size: int, draw: Callable):
    """(init, step) of the noise of a tree with one node of each level in every release.

    The noise of level j is redrawn whenever i = t >> j changes. If i is odd, it is the noise of the
    rounds [(i - 1) 2^j, i 2^j), which are in the release. If i is even, it is padding. On average
    there are two draws in a round. ``draw`` maps a key to the noise of a node.
    """

    def refresh(key, nodes, highest):
        """Redraw the nodes at the levels ``highest`` .. 0."""

        def one(count, nodes):
            level = highest - count
            above = prefix.read(nodes, level + 1)
            return prefix.write(nodes, level, above + draw(jr.fold_in(key, level)))

        return lax.fori_loop(0, highest + 1, one, nodes)

    def init(key):
        empty = jnp.zeros((levels + 1, size), jnp.float32)
        nodes = refresh(key, empty, jnp.int32(levels - 1))
        return NodesState(jnp.zeros((), jnp.int32), nodes), nodes[0]

    def step(state, key):
        t = state.round + 1
        highest = jnp.minimum(prefix.trailing_zeros(t), levels - 1)
        nodes = refresh(key, state.nodes, highest)
        return NodesState(t, nodes), nodes[0]

    return init, step


class NoisySumState(NamedTuple):
    total: Array  # (packed,) exact sum of v v' so far
    error: Array  # (packed,) its rounding error (Kahan)
    noise: PyTree


def on_exact_sums(
    init: Callable, step: Callable, weights=1.0, release: Callable = lambda noisy, key, row: noisy
):
    """(init, step) of the sum of all rows plus noise that depends on no row.

    Sums are float32 with Kahan's correction. This is accurate enough to hide one row as long as
    sums stay below 2^24 times the noise.

    Args:
      init: key -> (state, noise of no rows).
      step: (state, key) -> (state, noise of one row more).
      weights: () or (packed,), factors on the noise of each entry.
      release: (noisy sum, key, v v' of the latest row) -> that sum, marked for audits.
    """

    def begin(key):
        inner, now = init(key)
        zeros = jnp.zeros(now.shape, jnp.float32)
        return NoisySumState(zeros, zeros, inner), weights * now

    def add(state, key, row):
        total, error = add_compensated(state.total, state.error, row)
        inner, now = step(state.noise, key)
        return NoisySumState(total, error, inner), release(total + weights * now, key, row)

    return begin, add


class ItemsState(NamedTuple):
    round: Array  # () int32, rows so far
    sums: PyTree  # of the mechanism


class GramStream(NamedTuple):
    """Noisy sums of packed rows v v', and their declared privacy."""

    init: Callable  # key -> (state, noise of no rows)
    step: Callable  # (state, key, v v' of the next row) -> (state, noisy sum)
    deviation: PyTree  # () largest standard deviation of an entry of weight 1; the scale of Wishart
    growing: Callable | None  # state -> that deviation now; None if it is constant
    asked: PyTree  # () epsilon; inf if the mechanism has exact sums
    privacy: Privacy  # epsilon, delta, rho, model of the mechanism, accountant and sums


def derived_gaussian(horizon, weights, change, epsilon, delta, mechanism) -> GramStream:
    """Noise calibrated by the exact privacy curve of the Gaussian mechanism.

    Args:
      horizon: T.
      weights: (packed,), factors on the draws of each entry.
      change: the largest L2 change of a sum by one row, each entry divided by its weight.
      epsilon, delta: of the release.
      mechanism: a factory of ``dpjax.mechanisms``.
    """
    built = build(mechanism, horizon, "gaussian")
    sensitivity = built.sensitivity
    if sensitivity[1] == float("inf"):  # exact sums, for which no scale is defined
        sensitivity, epsilon = (0.0, 0.0), float("inf")
    epsilon = real(epsilon)
    scale = privacy.gaussian_scale(sensitivity[1] * change, epsilon, delta)
    stream = built.stream((len(weights),), scale=scale)
    if built.model == "central":
        nothing = jnp.zeros(len(weights), jnp.float32)
        init, step = _weighed(
            stream.init, lambda state, key: stream.step(state, key, nothing), weights, scale,
            sensitivity,
        )  # fmt: skip
        deviation, growing = scale * np.sqrt(largest_variance(mechanism, built)), None
    else:
        init, step = _on_each_item(stream, weights)
        deviation = scale * np.sqrt(built.variance(np.array([horizon - 1]))[0])

        def growing(state):
            return scale * jnp.sqrt(built.variance(state.round))

    rho = 0.5 / privacy.gaussian_inverse_mu(epsilon, delta) ** 2
    declared = _of_mechanism(built, epsilon, delta, rho)
    return GramStream(init, step, deviation, growing, epsilon, declared)


def _of_mechanism(built, epsilon, delta, rho) -> Privacy:
    return Privacy(
        epsilon=epsilon, delta=delta, rho=rho, model=built.model, accountant=accountant_of(built),
        sums=built.sums,
    )  # fmt: skip


def _on_each_item(stream, weights):
    """(init, step) of a stream that adds noise to each row, or to the rows of each batch."""
    if not np.all(weights):
        raise ValueError("mechanism: losses_only requires one for the central model")
    weights = jnp.asarray(weights, jnp.float32)

    def init(key):
        state, first = stream.init(key)
        return ItemsState(jnp.zeros((), jnp.int32), state), weights * first

    def step(state, key, row):
        sums, release = stream.step(state.sums, key, row / weights)
        return ItemsState(state.round + 1, sums), rounded_product(weights, release)

    return init, step


def printed_gaussian(
    horizon: int, weights: np.ndarray, bounds, epsilon: Number, delta: Number, calibration: str
) -> GramStream:
    """Noise of the paper's scale, on a tree with one node of each level in every release."""
    epsilon, levels, size = real(epsilon), levels_of(horizon, calibration), len(weights)
    scale = printed_gaussian_scale(bounds.row, levels, epsilon, delta)
    # A row is in one node of each level that holds data.
    levels_of_data = levels_of(horizon, "derived")
    sensitivity = float(levels_of_data), levels_of_data**0.5
    mu = privacy.noise_ratio(sensitivity[1] * bounds.row**2, scale)

    def draw(key):
        # A plain draw: audits do not find releases in a loop, so ``_weighed`` marks the sums.
        return noise.gaussian.draw(key, scale, (size,))

    init, step = every_level(levels, size, draw)
    init, step = _weighed(init, step, weights, scale, sensitivity)
    spent = privacy.gaussian_epsilon(mu, delta)
    like = mechanisms.tree(horizon, noise="gaussian")
    declared = _of_mechanism(like, spent, delta, 0.5 * mu * mu)
    return GramStream(init, step, scale * np.sqrt(levels), None, epsilon, declared)


def _weighed(init, step, weights, scale, sensitivity):
    """(init, step) of the exact sum of rows plus draws multiplied by ``weights``."""
    weights = jnp.asarray(weights, jnp.float32)

    def release(noisy, key, row):
        return noise.gaussian.prefix(key, noisy, row, scale * weights, sensitivity)

    return on_exact_sums(init, step, weights, release)


def largest_variance(factory: Callable, built: Mechanism) -> float:
    """The largest squared norm of a row of B of a mechanism, or an upper bound on it."""
    plain = factory.func if isinstance(factory, partial) else factory
    if plain in (mechanisms.tree, mechanisms.honaker):
        return float((built.horizon - 1).bit_length())
    return float(np.max(built.variance()))
