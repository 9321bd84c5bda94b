"""The noise that a private Gram matrix needs, and its effect on the eigenvalues.

A *regularizer* is the sum of noise and shift that is added to the Gram matrix. It is accurate if
its eigenvalues and the noise of the last row are within stated bounds.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import privacy
from dpjax.core import Number, PyTree


def real(value: Number):
    """A number as an array of JAX's default precision, for calibrations."""
    return jnp.asarray(value, jnp.result_type(float))


def levels_of(horizon: int, calibration: str) -> int:
    """m, the levels of the tree. ceil(log2 T) of them hold data, and the paper has one more."""
    return max((horizon - 1).bit_length(), 1) + (calibration != "derived")


def per_round_failure(horizon: int, failure: Number, calibration: str):
    """p = alpha / (2 T), the probability that a regularizer is inaccurate in one round.

    "code" uses the next power of 2 instead of T, as in the authors' program.
    """
    rounds = 2 ** (horizon - 1).bit_length() if calibration == "code" else horizon
    return real(failure) / (2.0 * rounds)


def printed_gaussian_scale(row_bound: Number, levels: int, epsilon: Number, delta: Number):
    """s = 4 sqrt(m) L~^2 ln(4 / delta) / epsilon, off the diagonal: Shariff & Sheffet 2018, 4.2.

    It is the classical Gaussian mechanism with epsilon / sqrt(8 m ln(2 / delta)) for each node,
    with the constant rounded up. It has rho = epsilon^2 / (32 ln(4 / delta)^2) of zCDP, and is 6 to
    14 times as large as needed.
    """
    log_term = jnp.log(4.0 / real(delta))
    return 4.0 * jnp.sqrt(real(levels)) * real(row_bound) ** 2 * log_term / real(epsilon)


def wishart_freedom(size: int, levels: int, epsilon: Number, delta: Number, calibration: str):
    """k, the degrees of freedom of the Wishart noise W_p(L~^2 I, k) of each node, p = ``size``.

    By Sheffet 2015, Theorem 4.1, k = p + floor(28 ln(4 / delta_0) / epsilon_0^2) makes one Gram
    matrix (epsilon_0, delta_0)-DP under a change of one row. The theorem requires epsilon_0 < 1, so
    epsilon_0 is cut at 1. The m nodes share the budget as follows:

        printed   epsilon_0 = epsilon / sqrt(8 m ln(2 / delta)) and delta_0 = delta / (2 m), by
                  advanced composition, which holds for epsilon up to about 4 ln(2 / delta)
        code      delta / (m + 1) in place of both delta_0 and delta / 2, as in the authors' program
        derived   epsilon_0 = sqrt(2 rho / m) and delta_0 = delta / (2 m), with rho the zCDP of
                  (epsilon, delta / 2), since (epsilon_0, delta_0)-DP is delta_0-approximate
                  (epsilon_0^2 / 2)-zCDP (Bun & Steinke 2016)
    """
    m, delta = real(levels), real(delta)
    if calibration == "derived":
        inverse = m * privacy.zcdp_inverse_root(epsilon, 0.5 * delta) ** 2 / 2.0
        node_delta = delta / (2.0 * m)
    else:
        node_delta = delta / (m + 1.0) if calibration == "code" else delta / (2.0 * m)
        slack = node_delta if calibration == "code" else delta / 2.0
        inverse = 8.0 * m * jnp.log(1.0 / slack) / real(epsilon) ** 2
    added = 28.0 * jnp.log(4.0 / node_delta) * jnp.maximum(inverse, 1.0)
    return size + (jnp.ceil(added) if calibration == "printed" else jnp.floor(added))


def wishart_rho(size: int, levels: int, freedom: Number, delta: Number):
    """rho of ``levels`` nodes of Wishart noise, up to a probability of delta / 2.

    It inverts the derived :func:`wishart_freedom`. The epsilon of the nodes is
    :func:`dpjax.privacy.zcdp_epsilon` of rho at delta / 2. rho is inf if a node has an epsilon_0
    above 1, which the theorem does not cover.
    """
    m = real(levels)
    log_term = jnp.log(8.0 * m / real(delta))  # ln(4 / delta_0)
    squared = 28.0 * log_term / (real(freedom) - size)  # epsilon_0^2
    return jnp.where(squared <= 1.0, 0.5 * m * squared, jnp.inf)


class Regularizer(NamedTuple):
    """Centred noise + offset I, and bounds that hold in a round up to a small probability."""

    offset: PyTree  # () added to the diagonal
    smallest: PyTree  # () rho_min, at most its smallest eigenvalue
    largest: PyTree  # () rho_max, at least its largest eigenvalue
    tilt: PyTree  # () gamma, at least |h| in the norm of its inverse, h the noise of the last row


def gaussian_norm(dim: int, failure: Number, norm_bound: str):
    """A bound on the norm |Z| of a symmetric Gaussian matrix, exceeded with probability at most p.

    The entries of Z have variance 1, and 2 on the diagonal.

    paper   sqrt(2) (4 sqrt(d) + 2 ln(1 / p))
    tight   2 sqrt(d) + 2 sqrt(ln(2 / p)), since |Z| is sqrt(2)-Lipschitz in independent normal
            numbers, and E[largest eigenvalue] <= 2 sqrt(d)
    """
    root, level = np.sqrt(dim), jnp.log(1.0 / failure)
    if norm_bound == "paper":
        return np.sqrt(2.0) * (4.0 * root + 2.0 * level)
    return 2.0 * root + 2.0 * jnp.sqrt(level + np.log(2.0))


def normal_length(dim: int, failure: Number):
    """sqrt(d) + sqrt(2 ln(1 / p)), which |z| exceeds with probability at most p, z ~ N(0, I_d)."""
    return np.sqrt(dim) + jnp.sqrt(2.0 * jnp.log(1.0 / failure))


def gaussian_regularizer(
    deviation, dim, failure, *, norm_bound, floor=None, ridge=1.0
) -> Regularizer:
    """The regularizer of symmetric Gaussian noise of ``deviation`` off the diagonal.

    By Proposition 11 the shift is rho_min + Upsilon, with Upsilon the bound on the norm of the
    noise. By default rho_min = Upsilon, and at least ``ridge``.
    """
    deviation = real(deviation)
    # Two events share one failure probability. The paper's norm bound is too loose to need this.
    share = failure if norm_bound == "paper" else 0.5 * failure
    norm = deviation * gaussian_norm(dim, share, norm_bound)
    smallest = jnp.maximum(norm, ridge) if floor is None else real(floor)
    tilt = deviation * normal_length(dim, share) / jnp.sqrt(smallest)
    return Regularizer(smallest + norm, smallest, smallest + 2.0 * norm, tilt)


def wishart_regularizer(
    scale, freedom, dim, failure, *, shifted=True, floor=None, ridge=1.0
) -> Regularizer:
    """The regularizer of W - n I, W ~ Wishart(``scale`` I, n), n the ``freedom`` of all nodes.

    By Claim 9 and Corollary 10 the eigenvalues of W are within scale (sqrt(n) -+ D)^2, with
    D = sqrt(d) + sqrt(2 ln(4 / p)). The shift moves the lower end to rho_min = 4 scale sqrt(n) D,
    or to the given floor, and keeps the length of the interval. gamma grows by the root of the
    ratio of the two lower ends, if that is above 1. The formulas are arranged so that the large n
    cancels.
    """
    scale, root = real(scale), jnp.sqrt(real(freedom))
    spread = normal_length(dim, 0.25 * failure)
    lowest = scale * (root - spread) ** 2
    if not shifted:
        smallest = lowest
    elif floor is None:
        smallest = 4.0 * scale * root * spread
    else:
        smallest = real(floor)
    # Without noise (scale 0) the ridge of LinUCB remains.
    if floor is None:
        smallest = jnp.maximum(smallest, ridge)
    growth = jnp.sqrt(jnp.maximum(lowest / smallest, 1.0))
    tilt = jnp.sqrt(scale) * normal_length(dim, failure) * growth
    offset = smallest + scale * spread * (2.0 * root - spread)
    return Regularizer(offset, smallest, smallest + 4.0 * scale * root * spread, tilt)


def loss_regularizer(
    deviation, dim, failure, parameter_bound, *, floor=None, ridge=1.0
) -> Regularizer:
    """The regularizer of noise on the last row only, with the smallest S sqrt(rho) + gamma."""
    length = real(deviation) * normal_length(dim, failure)
    smallest = jnp.maximum(length / parameter_bound, ridge) if floor is None else real(floor)
    return Regularizer(smallest, smallest, smallest, length / jnp.sqrt(smallest))
