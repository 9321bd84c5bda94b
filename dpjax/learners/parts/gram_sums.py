"""Private Gram matrices of rows (features, loss): where row bounds, noise and epsilon meet.

A linear learner reads the past through sum v v', v = (x, loss) of d + 1 entries: its first d rows
and columns are the Gram matrix of the features, its last row the sum of the features times the
losses. Here it is released with symmetric Gaussian or with Wishart noise. Matrices are packed as
:mod:`dpjax.maths.ellipsoids` has it; the last entry, the sum of squared losses, is not used.

A *regularizer* is what noise and shift add to the Gram matrix; it is accurate where its
eigenvalues and the noise of the last row are within stated bounds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import mechanisms, noise, privacy
from dpjax.core import Array, Privacy, add_compensated, within
from dpjax.maths import ellipsoids
from dpjax.mechanisms import prefix
from dpjax.noise import gaussian_prefix


def _real(value):
    return jnp.asarray(value, jnp.result_type(float))


# Calibration


def levels_of(horizon, calibration) -> int:
    """m, levels of the tree: ceil(log2 T) hold data; the paper has one more."""
    return max((horizon - 1).bit_length(), 1) + (calibration != "derived")


def per_round_failure(horizon, failure, calibration):
    """p, with which a regularizer may be inaccurate in one round: alpha / (2 T).

    "code" divides alpha / 2 by the next power of 2, as the authors' program does.
    """
    rounds = 2 ** (horizon - 1).bit_length() if calibration == "code" else horizon
    return _real(failure) / (2.0 * rounds)


def printed_gaussian_scale(row_bound, levels, epsilon, delta):
    """s = 4 sqrt(m) L~^2 ln(4 / delta) / epsilon, off the diagonal: Shariff & Sheffet 2018, 4.2.

    The classical Gaussian mechanism at epsilon / sqrt(8 m ln(2 / delta)) a node, rounded up. In
    zCDP it has rho = epsilon^2 / (32 ln(4 / delta)^2): 6 to 14 times what is needed.
    """
    log_term = jnp.log(4.0 / _real(delta))
    return 4.0 * jnp.sqrt(_real(levels)) * _real(row_bound) ** 2 * log_term / _real(epsilon)


def wishart_freedom(size, levels, epsilon, delta, calibration):
    """k, degrees of freedom of the Wishart noise of each node, W_p(L~^2 I, k) with p = ``size``.

    Sheffet 2015, Theorem 4.1: k = p + floor(28 ln(4 / delta_0) / epsilon_0^2) makes one Gram matrix
    (epsilon_0, delta_0)-DP for a changed row, epsilon_0 < 1 (which caps it here). Over m nodes:

        printed   epsilon_0 = epsilon / sqrt(8 m ln(2 / delta)), delta_0 = delta / (2 m): advanced
                  composition, fine for epsilon up to about 4 ln(2 / delta)
        code      delta / (m + 1) for delta_0 and for delta / 2: the authors' program
        derived   epsilon_0 = sqrt(2 rho / m), delta_0 = delta / (2 m), rho the zCDP of
                  (epsilon, delta / 2): (epsilon_0, delta_0)-DP is delta_0-approximate
                  epsilon_0^2 / 2-zCDP (Bun & Steinke 2016)
    """
    m, delta = _real(levels), _real(delta)
    if calibration == "derived":
        inverse = m * privacy.zcdp_inverse_root(epsilon, 0.5 * delta) ** 2 / 2.0
        node_delta = delta / (2.0 * m)
    else:
        node_delta = delta / (m + 1.0) if calibration == "code" else delta / (2.0 * m)
        slack = node_delta if calibration == "code" else delta / 2.0
        inverse = 8.0 * m * jnp.log(1.0 / slack) / _real(epsilon) ** 2
    added = 28.0 * jnp.log(4.0 / node_delta) * jnp.maximum(inverse, 1.0)
    return size + (jnp.ceil(added) if calibration == "printed" else jnp.floor(added))


def wishart_rho(size, levels, freedom, delta):
    """rho of ``levels`` nodes of Wishart noise, but for delta / 2: derived freedom backwards.

    Their epsilon is :func:`dpjax.privacy.zcdp_epsilon` of it at delta / 2. inf where a node has an
    epsilon_0 beyond 1, of which the theorem does not speak.
    """
    m = _real(levels)
    log_term = jnp.log(8.0 * m / _real(delta))  # ln(4 / delta_0)
    squared = 28.0 * log_term / (_real(freedom) - size)  # epsilon_0^2
    return jnp.where(squared <= 1.0, 0.5 * m * squared, jnp.inf)


# Accuracy


class Regularizer(NamedTuple):
    """Centred noise + offset I, and what holds of it in a round, but for a small probability."""

    offset: Array  # () added to the diagonal
    smallest: Array  # () rho_min, at most its smallest eigenvalue
    largest: Array  # () rho_max, at least its largest eigenvalue
    tilt: Array  # () gamma, at least the norm |h| in the inverse of it, h the noise of the last row


def gaussian_norm(dim, failure, norm_bound):
    """What |Z| stays below but for probability p; Z symmetric, variance 1, and 2 on the diagonal.

    paper   sqrt(2) (4 sqrt(d) + 2 ln(1 / p))
    tight   2 sqrt(d) + 2 sqrt(ln(2 / p)): |Z| is sqrt(2)-Lipschitz in independent normal
            numbers, and E[largest eigenvalue] <= 2 sqrt(d)
    """
    root, level = np.sqrt(dim), jnp.log(1.0 / failure)
    if norm_bound == "paper":
        return np.sqrt(2.0) * (4.0 * root + 2.0 * level)
    return 2.0 * root + 2.0 * jnp.sqrt(level + np.log(2.0))


def normal_length(dim, failure):
    """sqrt(d) + sqrt(2 ln(1 / p)): what the length of d standard normal numbers stays below."""
    return np.sqrt(dim) + jnp.sqrt(2.0 * jnp.log(1.0 / failure))


def gaussian_regularizer(deviation, dim, failure, *, norm_bound, floor=None) -> Regularizer:
    """Of symmetric Gaussian noise, ``deviation`` off the diagonal: Proposition 11.

    The shift is rho_min + Upsilon, Upsilon the bound on the norm of the noise; by default
    rho_min = Upsilon (and at least 1).
    """
    deviation = _real(deviation)
    # One failure is shared by two events; the paper's norm bound has room enough.
    share = failure if norm_bound == "paper" else 0.5 * failure
    norm = deviation * gaussian_norm(dim, share, norm_bound)
    smallest = jnp.maximum(norm, 1.0) if floor is None else _real(floor)
    tilt = deviation * normal_length(dim, share) / jnp.sqrt(smallest)
    return Regularizer(smallest + norm, smallest, smallest + 2.0 * norm, tilt)


def wishart_regularizer(scale, freedom, dim, failure, *, shifted=True, floor=None) -> Regularizer:
    """Of centred noise W - n I, W ~ Wishart(``scale`` I, n), n ``freedom`` of all nodes together.

    Claim 9 and Corollary 10. With D = sqrt(d) + sqrt(2 ln(4 / p)) the eigenvalues of W are within
    scale (sqrt(n) -+ D)^2. Shifted, these become rho_min = 4 scale sqrt(n) D, or the given floor,
    and as much above it as before; gamma grows by the root of the ratio of the two rho_min (not
    where the floor lies above the noise). All of it in a form where the large n cancels.
    """
    scale, root = _real(scale), jnp.sqrt(_real(freedom))
    spread = normal_length(dim, 0.25 * failure)
    lowest = scale * (root - spread) ** 2
    if not shifted:
        smallest = lowest
    elif floor is None:
        smallest = 4.0 * scale * root * spread
    else:
        smallest = _real(floor)
    # Without noise (scale 0) what is left is the ridge of LinUCB.
    if floor is None:
        smallest = jnp.maximum(smallest, 1.0)
    growth = jnp.sqrt(jnp.maximum(lowest / smallest, 1.0))
    tilt = jnp.sqrt(scale) * normal_length(dim, failure) * growth
    offset = smallest + scale * spread * (2.0 * root - spread)
    return Regularizer(offset, smallest, smallest + 4.0 * scale * root * spread, tilt)


def loss_regularizer(deviation, dim, failure, parameter_bound, *, floor=None) -> Regularizer:
    """Of noise on the last row alone: the floor that makes S sqrt(rho) + gamma least."""
    length = _real(deviation) * normal_length(dim, failure)
    smallest = jnp.maximum(length / parameter_bound, 1.0) if floor is None else _real(floor)
    return Regularizer(smallest, smallest, smallest, length / jnp.sqrt(smallest))


# Release


class NodesState(NamedTuple):
    round: Array  # () int32, t
    nodes: Array  # (m + 1, packed), row j the noise of the levels from j on; the last row is 0


def every_level(levels, size, draw):
    """(init, step) of the noise of a tree with exactly one node a level in every release.

    Level j holds the node of the rounds [i 2^j, (i + 1) 2^j), i = t >> j, drawn anew whenever i
    changes: where i is odd it is the node of the data before, else padding. Two draws a round on
    average. ``draw`` maps a key to the noise of a node.
    """

    def refresh(key, nodes, highest):
        """Fresh nodes at the levels ``highest`` .. 0."""

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


def _gaussian_draw(size, scale):
    return lambda key: noise.gaussian(key, jnp.zeros(size, jnp.float32), scale)


def _noise_of(mechanism, size):
    """(init, step) of a mechanism's noise alone."""

    def step(state, key):
        return mechanism.step(state, key, jnp.zeros(size, jnp.float32))

    return mechanism.init, step


def _wishart_draw(rows, scale, freedom):
    lower, left = ellipsoids.indices(rows)

    def draw(key):
        return noise.wishart(key, jnp.zeros((rows, rows), jnp.float32), scale, freedom)[lower, left]

    return draw


def largest_variance(mechanism, horizon) -> float:
    """The largest squared norm of a row of B, or a number above it."""
    plain = mechanism.func if isinstance(mechanism, partial) else mechanism
    if plain in (mechanisms.tree, mechanisms.honaker):
        return float((horizon - 1).bit_length())
    return float(np.max(mechanism(horizon, (), scale=0.0, noise="gaussian").variance()))


class GramSumsState(NamedTuple):
    total: Array  # (packed,) exact sum of v v' so far
    error: Array  # (packed,) what rounding has added to it (Kahan)
    noise: Any
    clipped: Array  # () int32


class GramSums(NamedTuple):
    """A calibrated release of the Gram matrix, which clips its rows."""

    init: Callable  # key -> (state, release of no rows, packed, with the regularizer)
    step: Callable  # (state, key, features (d,), loss ()) -> (state, release of the rows so far)
    regularizer: Regularizer
    noisy: Any  # () bool, whether there is any noise
    privacy: Privacy


def gram_sums(
    horizon, dim, *, epsilon, delta, noise, shifted, floor, calibration, norm_bound, mechanism,
    protected, feature_bound, loss_bound, parameter_bound, failure,
) -> GramSums:  # fmt: skip
    """Noisy Gram matrices of the rows of rounds 1 .. t, t = 0 .. T - 1, with a declared privacy.

    Arguments are those of :func:`dpjax.learners.linucb`. A changed row v -> w moves v v' by at most
    sqrt(2) L~^2 in Frobenius norm, L~ the bound on |v|. Symmetric noise with variance s^2 off the
    diagonal and 2 s^2 on it weighs a change D by |D|_F^2 / (2 s^2), since an entry off the diagonal
    is there twice: it has the sensitivity L~^2. (With s^2 on the diagonal too it would be
    sqrt(2) L~^2, so the larger variance is needed.) Sums are float32 with Kahan's correction: one
    row shows as it should while they stay below 2^24 times the noise.
    """
    size = ellipsoids.packed_size(dim + 1)
    rows, columns = ellipsoids.indices(dim + 1)
    encoder = mechanism(horizon, (), scale=0.0, noise="gaussian").sensitivity[1]
    if encoder == float("inf"):  # the exact sums: no scale has a meaning
        encoder, epsilon = 0.0, float("inf")
    epsilon = _real(epsilon)
    finite = jnp.isfinite(epsilon)
    row_bound = jnp.sqrt(_real(feature_bound) ** 2 + _real(loss_bound) ** 2)
    levels = levels_of(horizon, calibration)
    per_round = per_round_failure(horizon, failure, calibration)
    rho, shown = float("nan"), epsilon
    # A row is in that many nodes, whatever levels the noise has beside them.
    holding = levels_of(horizon, "derived")

    weights, change = np.where(rows == columns, np.sqrt(2.0), 1.0), row_bound**2
    if protected == "losses":
        weights = np.where((rows == dim) & (columns < dim), 1.0, 0.0)
        change = 2.0 * feature_bound * loss_bound
    if noise == "wishart":
        k = wishart_freedom(dim + 1, levels, jnp.where(finite, epsilon, 1.0), delta, calibration)
        scale = jnp.where(finite, row_bound**2, 0.0)
        regularizer = wishart_regularizer(
            scale, levels * k, dim, per_round, shifted=shifted, floor=floor
        )
        weights = np.ones(size)
        begin, advance = every_level(levels, size, _wishart_draw(dim + 1, scale, k))
        mark = None
        accountant = "Sheffet 2015, Theorem 4.1, a node; composed by approximate zCDP"
        if calibration != "derived":
            by_node = wishart_rho(dim + 1, holding, k, delta)
            shown = privacy.zcdp_epsilon(by_node, 0.5 * _real(delta))
            shown = jnp.where(finite, shown, jnp.inf)
    else:
        if calibration == "derived":
            scale = privacy.gaussian_scale(encoder * change, epsilon, delta)
            variance = largest_variance(mechanism, horizon)
            begin, advance = _noise_of(
                mechanism(horizon, (size,), scale=scale, noise="gaussian"), size
            )
            rho = 0.5 / privacy.gaussian_inverse_mu(epsilon, delta) ** 2
        else:
            scale = printed_gaussian_scale(row_bound, levels, epsilon, delta)
            variance, encoder = levels, holding**0.5
            mu = privacy.noise_ratio(encoder * change, scale)
            shown, rho = privacy.gaussian_epsilon(mu, delta), 0.5 * mu * mu
            begin, advance = every_level(levels, size, _gaussian_draw(size, scale))
        mark = gaussian_prefix
        accountant = "one Gaussian mechanism on the encoded stream, exact"
        deviation = scale * np.sqrt(variance)
        if protected == "losses":
            regularizer = loss_regularizer(deviation, dim, per_round, parameter_bound, floor=floor)
        elif shifted:
            regularizer = gaussian_regularizer(
                deviation, dim, per_round, norm_bound=norm_bound, floor=floor
            )
        else:
            regularizer = Regularizer(1.0, 1.0, 1.0, 0.0)

    regularizer = Regularizer(*(jnp.asarray(x, jnp.float32) for x in regularizer))
    farthest, largest = (jnp.asarray(x, jnp.float32) for x in (feature_bound, loss_bound))
    weights = jnp.asarray(weights, jnp.float32)

    def init(key):
        inner, now = begin(key)
        zeros = jnp.zeros(size, jnp.float32)
        start = GramSumsState(zeros, zeros, inner, jnp.zeros((), jnp.int32))
        return start, ellipsoids.add_to_diagonal(weights * now, dim + 1, regularizer.offset)

    def step(state, key, features, loss):
        # Entries beyond 1000 bounds, whose squares may overflow, are cut; NaN counts as the least.
        finite = within(features, -1e3 * farthest, 1e3 * farthest)
        length = jnp.sqrt(ellipsoids.squared_length(finite))
        inside = finite * (farthest / jnp.maximum(length, farthest))
        kept = within(loss, -largest, largest)
        # A row on the border moves by rounding.
        outside = (length > 1.00001 * farthest) | ~(jnp.abs(loss) <= 1.00001 * largest)
        gram = ellipsoids.outer(jnp.append(inside, kept))
        total, error = add_compensated(state.total, state.error, gram)
        inner, now = advance(state.noise, key)
        noisy = total + weights * now
        if mark is not None:
            # For audits, which know the law of Gaussian noise, not that of Wishart's.
            noisy = mark(noisy, key, gram, scale * weights, encoder)
        release = ellipsoids.add_to_diagonal(noisy, dim + 1, regularizer.offset)
        clipped = state.clipped + outside.astype(jnp.int32)
        return GramSumsState(total, error, inner, clipped), release

    declared = Privacy(
        epsilon=shown,
        delta=delta,
        rho=rho,
        neighbours="replace",
        unit="round" if protected == "rows" else "entry",
        loss_range=(-loss_bound, loss_bound),
        model="joint",
        released="policies 1..T",
        calibration=calibration,
        accountant=accountant,
        paper_epsilon=float("nan") if calibration == "derived" else epsilon,
    )
    return GramSums(init, step, regularizer, finite, declared)
