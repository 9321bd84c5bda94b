"""Noise for private Gram matrices, of three kinds, each with its regularizer and declaration."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import mechanisms, noise, privacy
from dpjax.core import Privacy
from dpjax.learners.parts.gram_calibration import (
    Regularizer,
    gaussian_regularizer,
    levels_of,
    loss_regularizer,
    per_round_failure,
    real,
    wishart_freedom,
    wishart_regularizer,
    wishart_rho,
)
from dpjax.learners.parts.gram_streams import (
    derived_gaussian,
    every_level,
    on_exact_sums,
    printed_gaussian,
)
from dpjax.learners.parts.prefix_sums import RELEASED
from dpjax.maths import ellipsoids


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
    """Noisy Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1."""

    init: Callable  # key -> (state, noise of no rows (packed,))
    step: Callable  # (state, key, v v' of the next row) -> (state, noisy sum so far (packed,))
    regularizer: Regularizer  # of round T
    by_round: Callable  # function of a Regularizer -> (state -> its value in the next round)
    noisy: Any  # () bool, whether there is any noise
    events: Any  # () how many confidence bounds of losses fail separately, 1 .. T
    privacy: Privacy


def _constant(regularizer):
    """(regularizer, by_round) where the regularizer is the same in all rounds."""

    def by_round(function):
        value = function(regularizer)
        return lambda state: value

    return regularizer, by_round


def _regularized(stream, regularizer_of):
    """(regularizer, by_round) of a Gaussian stream.

    Args:
      stream: a Gaussian.
      regularizer_of: deviation of the noise -> Regularizer.
    """
    last = regularizer_of(stream.deviation)
    if stream.growing is None:
        return _constant(last)
    return last, lambda function: lambda state: function(regularizer_of(stream.growing(state)))


def _of_gaussian(horizon, stream, regularizer_of, declared) -> GramNoise:
    # The confidence bound of OFUL holds for all rounds at once only where the regularizer is the
    # same in all of them.
    regularizer, by_round = _regularized(stream, regularizer_of)
    return GramNoise(
        init=stream.init,
        step=stream.step,
        regularizer=regularizer,
        by_round=by_round,
        noisy=jnp.isfinite(stream.asked),
        events=1.0 if stream.growing is None else float(horizon),
        privacy=declared,
    )


def _declared(bounds, delta, calibration, asked, model="central", **found) -> Privacy:
    """The declaration of Gram matrices where epsilon ``asked`` was asked for.

    The model is that of the mechanism. A round's own arm depends on its features without noise, so
    that the central one is joint here. In the others the user chooses the arm from the public
    policy.
    """
    return Privacy(
        delta=delta,
        loss_range=(-bounds.loss, bounds.loss),
        model="joint" if model == "central" else model,
        released="policies 1..T" if model == "central" else RELEASED[model],
        calibration=calibration,
        paper_epsilon=float("nan") if calibration == "derived" else asked,
        **found,
    )


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
    weights = np.where(rows == columns, np.sqrt(2.0), 1.0)
    if calibration == "derived":
        stream = derived_gaussian(horizon, weights, bounds.row**2, epsilon, delta, mechanism)
    else:
        stream = printed_gaussian(horizon, weights, bounds, epsilon, delta, calibration)

    def regularizer_of(deviation):
        if not shifted:
            return Regularizer(ridge, ridge, ridge, 0.0)
        return gaussian_regularizer(
            deviation,
            dim,
            per_round_failure(horizon, failure, calibration),
            norm_bound=norm_bound,
            floor=floor,
            ridge=ridge,
        )

    declared = _declared(
        bounds, delta, calibration, stream.asked, stream.model,
        epsilon=stream.epsilon, rho=stream.rho, unit="round", accountant=stream.accountant,
        sums=stream.sums,
    )  # fmt: skip
    return _of_gaussian(horizon, stream, regularizer_of, declared)


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
    weights = np.where((rows == dim) & (columns < dim), 1.0, 0.0)
    change = 2.0 * bounds.features * bounds.loss
    stream = derived_gaussian(horizon, weights, change, epsilon, delta, mechanism)

    def regularizer_of(deviation):
        return loss_regularizer(
            deviation,
            dim,
            per_round_failure(horizon, failure, "derived"),
            bounds.parameter,
            floor=floor,
            ridge=ridge,
        )

    declared = _declared(
        bounds, delta, "derived", stream.asked,
        epsilon=stream.epsilon, rho=stream.rho, unit="entry", accountant=stream.accountant,
        sums=stream.sums,
    )  # fmt: skip
    return _of_gaussian(horizon, stream, regularizer_of, declared)


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

    # No audit knows the law of its releases.
    init, step = every_level(levels, len(lower), draw)
    init, step = on_exact_sums(init, step, lambda noisy, key, row: noisy)
    per_round = per_round_failure(horizon, failure, calibration)
    regularizer, by_round = _constant(
        wishart_regularizer(
            scale, levels * k, dim, per_round, shifted=shifted, floor=floor, ridge=ridge
        )
    )
    return GramNoise(
        init=init,
        step=step,
        regularizer=regularizer,
        by_round=by_round,
        noisy=finite,
        events=1.0,
        privacy=_declared(
            bounds, delta, calibration, epsilon,
            epsilon=shown, rho=float("nan"), unit="round",
            accountant="Sheffet 2015, Theorem 4.1, a node; composed by approximate zCDP",
        ),
    )  # fmt: skip
