"""Noise for private Gram matrices, of three kinds, each with its regularizer and declaration."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import mechanisms, noise, privacy
from dpjax.core import Array, Privacy
from dpjax.learners.parts.gram_calibration import (
    Regularizer,
    gaussian_regularizer,
    levels_of,
    loss_regularizer,
    per_round_failure,
    printed_gaussian_scale,
    real,
    wishart_freedom,
    wishart_regularizer,
    wishart_rho,
)
from dpjax.learners.parts.prefix_sums import build
from dpjax.maths import ellipsoids
from dpjax.mechanisms import prefix


class NodesState(NamedTuple):
    round: Array  # () int32, t
    nodes: Array  # (m + 1, packed), row j the noise of the levels from j on; the last row is 0


def every_level(levels, size, draw):
    """(init, step) of the noise of a tree with one node of each level in every release.

    Level j holds the node of the rounds [i 2^j, (i + 1) 2^j), i = t >> j, whose noise is drawn anew
    whenever i changes. Where i is odd the node before it holds data of the release, and else it is
    padding. There are two draws in a round on average. ``draw`` maps a key to the noise of a node.
    """

    def refresh(key, nodes, highest):
        """The nodes, drawn anew at the levels ``highest`` .. 0."""

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


class Bounds(NamedTuple):
    """Bounds on each round. A row beyond them is clipped before it is summed."""

    features: Any  # L, the largest length of features
    loss: Any  # the largest absolute value of a loss
    parameter: Any  # S, at least |theta|

    @property
    def row(self):
        """L~, the largest length of a row v = (features, loss)."""
        return jnp.sqrt(real(self.features) ** 2 + real(self.loss) ** 2)


class GramNoise(NamedTuple):
    """Noise for the Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1."""

    init: Callable  # key -> (state, noise of no rows (packed,))
    step: Callable  # (state, key) -> (state, noise of one row more (packed,))
    release: Callable  # (noisy sum, key, v v' of the latest row) -> that sum, named for audits
    regularizer: Regularizer
    noisy: Any  # () bool, whether there is any noise
    privacy: Privacy


def _declared(bounds, delta, calibration, asked, **found) -> Privacy:
    """The declaration of Gram matrices where epsilon ``asked`` was asked for."""
    return Privacy(
        delta=delta,
        loss_range=(-bounds.loss, bounds.loss),
        model="joint",
        released="policies 1..T",
        calibration=calibration,
        paper_epsilon=float("nan") if calibration == "derived" else asked,
        **found,
    )


class _Gaussian(NamedTuple):
    """One Gaussian mechanism over all releases."""

    init: Callable
    step: Callable
    scale: Any  # () standard deviation of a draw
    sensitivity: Any  # of the encoder
    variance: Any  # of a release, in units of that of a draw
    asked: Any  # () epsilon; inf where the mechanism has exact sums
    epsilon: Any  # () that the noise has
    rho: Any


def _derived_gaussian(horizon, size, change, epsilon, delta, mechanism) -> _Gaussian:
    """Noise by the exact curve of the Gaussian mechanism. A row moves a sum by ``change``."""
    built = build(mechanism, horizon, "gaussian")
    sensitivity = built.sensitivity[1]
    if sensitivity == float("inf"):  # exact sums, for which no scale has a meaning
        sensitivity, epsilon = 0.0, float("inf")
    epsilon = real(epsilon)
    scale = privacy.gaussian_scale(sensitivity * change, epsilon, delta)
    stream = built.stream((size,), scale=scale)

    def step(state, key):
        return stream.step(state, key, jnp.zeros(size, jnp.float32))

    variance = largest_variance(mechanism, built)
    rho = 0.5 / privacy.gaussian_inverse_mu(epsilon, delta) ** 2
    return _Gaussian(stream.init, step, scale, sensitivity, variance, epsilon, epsilon, rho)


def _printed_gaussian(horizon, size, bounds, epsilon, delta, calibration) -> _Gaussian:
    """Noise of the paper's scale, on a tree with one node of each level in every release."""
    epsilon, levels = real(epsilon), levels_of(horizon, calibration)
    scale = printed_gaussian_scale(bounds.row, levels, epsilon, delta)
    # A row is in one node of each level that holds data.
    sensitivity = levels_of(horizon, "derived") ** 0.5
    mu = privacy.noise_ratio(sensitivity * bounds.row**2, scale)

    def draw(key):
        return noise.gaussian(key, jnp.zeros(size, jnp.float32), scale)

    init, step = every_level(levels, size, draw)
    found = privacy.gaussian_epsilon(mu, delta)
    return _Gaussian(init, step, scale, sensitivity, levels, epsilon, found, 0.5 * mu * mu)


def _weighed(stream, weights, regularizer, declared) -> GramNoise:
    """A Gaussian mechanism whose draws are multiplied by ``weights``, one for each entry."""
    weights = jnp.asarray(weights, jnp.float32)

    def weigh(state, drawn):
        return state, weights * drawn

    def release(noisy, key, row):
        return noise.gaussian_prefix(noisy, key, row, stream.scale * weights, stream.sensitivity)

    return GramNoise(
        init=lambda key: weigh(*stream.init(key)),
        step=lambda state, key: weigh(*stream.step(state, key)),
        release=release,
        regularizer=regularizer,
        noisy=jnp.isfinite(stream.asked),
        privacy=declared,
    )


_GAUSSIAN = "one Gaussian mechanism on the encoded stream, exact"


def symmetric(
    horizon, dim, bounds, *, epsilon, delta, failure, calibration="derived",
    mechanism=mechanisms.tree, shifted=True, floor=None, ridge=1.0, norm_bound="tight",
) -> GramNoise:  # fmt: skip
    """Symmetric Gaussian noise: variance s^2 off the diagonal, and 2 s^2 on it.

    A changed row v -> w moves v v' by at most sqrt(2) L~^2 in Frobenius norm. Entries off the
    diagonal are there twice, so that a change D has |D|_F^2 / (2 s^2) in units of this noise, and
    the sensitivity is L~^2. With variance s^2 on the diagonal, too, it would be sqrt(2) L~^2, so
    the larger variance is needed.

    Args:
      horizon: T, rounds.
      dim: d, entries of the features.
      bounds: Bounds.
      epsilon, delta: of the release.
      failure: alpha, the probability that the regularizer is inaccurate in some round.
      calibration: "derived", "printed" or "code", as of :func:`dpjax.learners.linucb`.
      mechanism: a factory of ``dpjax.mechanisms``, for derived noise.
      shifted: whether the eigenvalues are shifted up. Without a shift there is a ridge.
      floor: rho_min; by default the bound on the norm of the noise, and at least the ridge.
      ridge: what is added to the eigenvalues at least, or without a shift.
      norm_bound: "tight" or "paper" (:func:`gaussian_norm`).
    """
    rows, columns = ellipsoids.indices(dim + 1)
    if calibration == "derived":
        stream = _derived_gaussian(horizon, len(rows), bounds.row**2, epsilon, delta, mechanism)
    else:
        stream = _printed_gaussian(horizon, len(rows), bounds, epsilon, delta, calibration)
    regularizer = Regularizer(ridge, ridge, ridge, 0.0)
    if shifted:
        regularizer = gaussian_regularizer(
            stream.scale * np.sqrt(stream.variance),
            dim,
            per_round_failure(horizon, failure, calibration),
            norm_bound=norm_bound,
            floor=floor,
            ridge=ridge,
        )
    declared = _declared(
        bounds, delta, calibration, stream.asked,
        epsilon=stream.epsilon, rho=stream.rho, unit="round", accountant=_GAUSSIAN,
    )  # fmt: skip
    weights = np.where(rows == columns, np.sqrt(2.0), 1.0)
    return _weighed(stream, weights, regularizer, declared)


def losses_only(
    horizon,
    dim,
    bounds,
    *,
    epsilon,
    delta,
    failure,
    mechanism=mechanisms.tree,
    floor=None,
    ridge=1.0,
) -> GramNoise:
    """Gaussian noise on the last row alone, where features are public.

    A changed loss moves the last row by at most twice L times the bound on losses. Arguments are
    those of :func:`symmetric`, and the calibration is the derived one.
    """
    rows, columns = ellipsoids.indices(dim + 1)
    change = 2.0 * bounds.features * bounds.loss
    stream = _derived_gaussian(horizon, len(rows), change, epsilon, delta, mechanism)
    regularizer = loss_regularizer(
        stream.scale * np.sqrt(stream.variance),
        dim,
        per_round_failure(horizon, failure, "derived"),
        bounds.parameter,
        floor=floor,
        ridge=ridge,
    )
    declared = _declared(
        bounds, delta, "derived", stream.asked,
        epsilon=stream.epsilon, rho=stream.rho, unit="entry", accountant=_GAUSSIAN,
    )  # fmt: skip
    weights = np.where((rows == dim) & (columns < dim), 1.0, 0.0)
    return _weighed(stream, weights, regularizer, declared)


def largest_variance(factory, built) -> float:
    """The largest squared norm of a row of B of a mechanism, or a number above it."""
    plain = factory.func if isinstance(factory, partial) else factory
    if plain in (mechanisms.tree, mechanisms.honaker):
        return float((built.horizon - 1).bit_length())
    return float(np.max(built.variance()))


def wishart(
    horizon, dim, bounds, *, epsilon, delta, failure, calibration="derived", shifted=True,
    floor=None, ridge=1.0,
) -> GramNoise:  # fmt: skip
    """Centred Wishart noise W_p(L~^2 I, k), p = d + 1, in each node of a tree, and its shift.

    It rests on Sheffet 2015, Theorem 4.1, in all calibrations (:func:`wishart_freedom`). Arguments
    are those of :func:`symmetric`.
    """
    lower, left = ellipsoids.indices(dim + 1)
    epsilon, levels = real(epsilon), levels_of(horizon, calibration)
    finite = jnp.isfinite(epsilon)
    scale = jnp.where(finite, bounds.row**2, 0.0)
    k = wishart_freedom(dim + 1, levels, jnp.where(finite, epsilon, 1.0), delta, calibration)
    shown = epsilon
    if calibration != "derived":
        # A row is in one node of each level that holds data.
        by_node = wishart_rho(dim + 1, levels_of(horizon, "derived"), k, delta)
        shown = privacy.zcdp_epsilon(by_node, 0.5 * real(delta))
        shown = jnp.where(finite, shown, jnp.inf)

    def draw(key):
        square = jnp.zeros((dim + 1, dim + 1), jnp.float32)
        return noise.wishart(key, square, scale, k)[lower, left]

    init, step = every_level(levels, len(lower), draw)
    per_round = per_round_failure(horizon, failure, calibration)
    return GramNoise(
        init=init,
        step=step,
        release=lambda noisy, key, row: noisy,  # no audit knows its law
        regularizer=wishart_regularizer(
            scale, levels * k, dim, per_round, shifted=shifted, floor=floor, ridge=ridge
        ),
        noisy=finite,
        privacy=_declared(
            bounds, delta, calibration, epsilon,
            epsilon=shown, rho=float("nan"), unit="round",
            accountant="Sheffet 2015, Theorem 4.1, a node; composed by approximate zCDP",
        ),
    )  # fmt: skip
