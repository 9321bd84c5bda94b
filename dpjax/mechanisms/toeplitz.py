"""Toeplitz factorizations, which have the least error for Gaussian noise."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy

from dpjax.core import Array, Mechanism, PyTree, _arrays, _check
from dpjax.mechanisms import normalized as columns
from dpjax.mechanisms import prefix
from dpjax.mechanisms.buffered_parameters import BUFFERED
from dpjax.noise import LawName

# square_root holds several float64 arrays of this length while it is built.
LONGEST = 2**26


class BandedState(NamedTuple):
    recent: Array  # (p, *shape) the latest draws, newest first
    noise: Array  # (*shape) of the prefix


def square_root(
    horizon: int,
    *,
    noise: LawName = "gaussian",
    normalized: bool = False,
    bands: int | None = None,
) -> Mechanism:
    """Prefix sums by the square root of their matrix: B = C, A = B C.

    C is the Toeplitz matrix of the series of (1 - x)^(-1/2): c_0 = 1, c_j = c_(j - 1)
    (2j - 1) / (2j). The largest error of this factorization is the smallest among Toeplitz
    factorizations, up to lower-order terms. Every prefix needs all earlier draws. So the noise of
    the whole horizon is drawn at the start, with one Fourier transform, and kept. Memory grows with
    the horizon.

    Args:
      horizon: T, rounds of the learner; at most 2^26.
      noise: "gaussian", or "laplace", which is poor since the L1 sensitivity grows as sqrt T.
      normalized: divides each column of C by its L2 norm d_t over the released rows. Columns of
        late values are short, so plain noise hides these values more than necessary. C becomes
        C D^-1 and B becomes A D C^-1 for D = diag(d). The largest standard deviation of Gaussian
        noise is 6 % smaller at T = 2^10. ``variance`` then needs T^2 operations, which take a
        second for 2^14 rounds; ``buffered`` needs T.
      bands: p, the number of diagonals of C^-1, whose others are set to 0. The noise of a value is
        then a weighted sum of the latest p draws, so memory does not grow with the horizon. If a
        user has many rounds at a fixed distance, the error of sums is smaller than with all
        diagonals for p near this distance (:func:`dpjax.privacy.user_sensitivity`). Running means
        need fewer diagonals. If a user has one round, the error of sums is larger.

    Returns:
      A Mechanism with L2 sensitivity sqrt(c_0^2 + ... + c_(T-2)^2), about sqrt(ln T / pi + 1.07)
      without ``bands``; with ``normalized`` it is 1.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Fichtenberger, Henzinger & Upadhyay 2023, "Constant matters"; Henzinger, Upadhyay &
    Upadhyay 2023. normalized: Henzinger, Kalinin & Upadhyay 2026, "Normalized square root: sharper
    matrix factorization bounds for differentially private continual counting" (FORC). bands:
    Kalinin, McKenna, Upadhyay & Lampert 2026, "Back to square roots" (ICLR), as reconstructed.

    Examples:
      >>> mechanism = mechanisms.square_root(4)
      >>> B, C = mechanism.matrices()
      >>> print(B)
      [[0.    0.    0.   ]
       [1.    0.    0.   ]
       [0.5   1.    0.   ]
       [0.375 0.5   1.   ]]
      >>> round(float(mechanism.sensitivity[1]), 3)
      1.179
    """
    horizon, law = prefix.check(horizon, noise, longest=LONGEST)
    count = horizon - 1
    coefficients = square_root_coefficients(count)
    if bands is not None:
        bands = _check.size(1, bands=bands)
        if normalized:
            raise ValueError("normalized must be False if bands is given")
        return _banded(horizon, law, bands)

    def prefix_noise(shape, scale):
        def path(key):
            draws = prefix.draw(law, key, (count, *shape), scale)
            rows = convolve(coefficients, draws, horizon)
            return (
                columns.with_weights(columns.column_norms(coefficients), rows)
                if normalized
                else rows
            )

        return prefix.kept_path(path)

    return from_columns(
        horizon, law, prefix_noise, normalized=normalized, sensitivity=_norms(coefficients),
        encoder=lambda: coefficients, decoder=lambda: coefficients,
        inverse=lambda: _inverse_square_root_coefficients(count),
    )  # fmt: skip


def _banded(horizon, law, bands) -> Mechanism:
    """The square root with the first ``bands`` diagonals of C^-1 only."""
    count = horizon - 1
    diagonals = _inverse_square_root_coefficients(bands)

    def inverse():
        """The first column of C^-1."""
        return np.concatenate([diagonals, np.zeros(count)])[:count]

    def encoder():
        """The series 1 / c, of C."""
        return scipy.signal.lfilter([1.0], diagonals, np.eye(1, count)[0])

    def prefix_noise(shape, scale):
        weights = jnp.asarray(diagonals, jnp.float32).reshape(-1, *[1] * len(shape))

        def init(key):
            del key
            zero = jnp.zeros(shape, jnp.float32)
            return BandedState(jnp.zeros((bands, *shape), jnp.float32), zero), zero

        def step(state, key):
            drawn = prefix.draw(law, key, shape, scale)
            recent = jnp.concatenate([drawn[None], state.recent[:-1]])
            total = state.noise + jnp.sum(weights * recent, axis=0)
            return BandedState(recent, total), total

        return prefix.PrefixNoise(init, step)

    return from_columns(
        horizon, law, prefix_noise, sensitivity=_norms(encoder()), encoder=encoder,
        decoder=lambda: np.cumsum(inverse()),
    )  # fmt: skip


class BufferedState(NamedTuple):
    buffers: Array  # (m, *shape) decaying sums of the noise of the values so far
    noise: Array  # (*shape) of the prefix
    round: PyTree = ()  # () int32, t, if the noise has weights that depend on t


def buffered(
    horizon: int,
    *,
    noise: LawName = "gaussian",
    parameters: PyTree = None,
    made_for: int | None = None,
    normalized: bool = False,
) -> Mechanism:
    """Prefix sums by a buffered linear Toeplitz matrix (BLT): nearly the square root, O(1) memory.

    C is the Toeplitz matrix of c_0 = 1, c_j = w_1 theta_1^(j - 1) + ... + w_m theta_m^(j - 1). The
    noise of value t is z_t minus a weighted sum of m buffers of earlier noise. The noise of prefix
    t is the sum of the noise of its values. So B = A C^-1 is applied without a history.

    Args:
      horizon: T, rounds of the learner; at most 2^20 + 1 without parameters.
      noise: "gaussian", or "laplace" as in :func:`square_root`.
      parameters: decays theta in (0, 1) and scales w > 0, two sequences of m numbers. By default
        four of each, optimised for the smallest maximal error over T - 1 prefixes, rounded up to a
        power of 2. ``python benchmarks/buffered.py`` computes others.
      made_for: the number of prefixes for which the default parameters are optimised, if the length
        of the stream is not known. The sensitivity is then that of an infinite stream. So neither
        it nor the noise of prefix t depends on the horizon, which may even exceed ``made_for``.
        From prefix 16 on there is less noise than in the Gaussian ``hybrid``.

    Returns:
      A Mechanism. Its sensitivity is that of C over this horizon, or over all rounds with
      ``made_for``.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Dvijotham, McMahan, Pillutla, Steinke & Thakurta 2024, "Efficient and near-optimal
    noise generation for streaming differential privacy"; McMahan, Xu & Zhang 2024.

    Examples:
      >>> made = mechanisms.square_root(1024), mechanisms.buffered(1024)
      >>> largest = [x.sensitivity[1] * x.variance().max() ** 0.5 for x in made]
      >>> [round(float(error), 2) for error in largest]
      [3.27, 3.27]
    """
    horizon, law = prefix.check(horizon, noise)
    count = horizon - 1
    if made_for is not None:
        made_for = _check.size(1, made_for=made_for)
        if parameters is not None:
            raise ValueError("made_for must be None if parameters are given")
        if normalized:
            raise ValueError(
                "normalized must be False if made_for is given, since its weights depend on the "
                "horizon, which made_for assumes to be unknown"
            )
    if parameters is None:
        asked = {"horizon": count} if made_for is None else {"made_for": made_for}
        decays, scales = _cached(**asked)
    else:
        decays, scales = _as_parameters(parameters)

    def prefix_noise(shape, scale):
        decay = jnp.asarray(decays, jnp.float32).reshape(-1, *[1] * len(shape))
        weight = jnp.asarray(scales, jnp.float32).reshape(-1, *[1] * len(shape))

        def step(state, key):
            drawn, t = prefix.draw(law, key, shape, scale), state.round
            added = fresh = drawn - jnp.sum(weight * state.buffers, axis=0)
            if normalized:
                t = t + 1
                added = columns.geometric_norm(decays, scales, count - t) * fresh
            total = state.noise + added
            return BufferedState(decay * state.buffers + fresh[None], total, t), total

        def init(key):
            del key
            zero, t = jnp.zeros(shape, jnp.float32), jnp.zeros((), jnp.int32)
            buffers = jnp.zeros((len(decays), *shape), jnp.float32)
            return BufferedState(buffers, zero, t if normalized else ()), zero

        return prefix.PrefixNoise(init, step)

    def encoder():
        """The first column of C."""
        return np.concatenate([[1.0], _series(decays, scales, count - 1)])[:count]

    def inverse():
        """The series 1 / c."""
        return np.concatenate([[1.0], _series(*_inverse_series(decays, scales), count - 1)])[:count]

    return from_columns(
        horizon, law, prefix_noise, normalized=normalized,
        sensitivity=_series_norms(decays, scales, count if made_for is None else np.inf),
        encoder=encoder, decoder=lambda: np.cumsum(inverse()), inverse=inverse,
        series=_inverse_series(decays, scales),
    )  # fmt: skip


def from_columns(
    horizon, law, prefix_noise, *, sensitivity, encoder, decoder,
    normalized=False, inverse=None, series=None,
) -> Mechanism:  # fmt: skip
    """The mechanism of Toeplitz matrices, from the first columns of C, of B = A C^-1 and of C^-1.

    ``sensitivity`` is that of C. It is not used with ``normalized``, which alone uses ``inverse``.
    """

    def matrices():
        zeros = np.zeros(horizon - 1)
        first = scipy.linalg.toeplitz(encoder(), zeros)
        if normalized:
            norms = columns.column_norms(encoder())
            first = first / norms
            released = np.cumsum(norms[:, None] * scipy.linalg.toeplitz(inverse(), zeros), axis=0)
        else:
            released = scipy.linalg.toeplitz(decoder(), zeros)
        return np.concatenate([zeros[None], released]), first

    def variance():
        if normalized:
            return columns.weighted_row_norms(inverse(), columns.column_norms(encoder()), series)
        return np.concatenate([[0.0], np.cumsum(decoder() ** 2)])

    return prefix.from_noise(
        horizon, law, prefix_noise, matrices=matrices, variance=prefix.rows_of(variance),
        sensitivity=columns.normalized_sensitivity(encoder()) if normalized else sensitivity,
    )  # fmt: skip


def square_root_coefficients(count) -> np.ndarray:
    j = np.arange(1.0, count)
    return np.cumprod(np.concatenate([[1.0], (2 * j - 1) / (2 * j)]))[:count]


def _inverse_square_root_coefficients(count) -> np.ndarray:
    """The series of (1 - x)^(1/2)."""
    j = np.arange(1.0, count)
    return np.cumprod(np.concatenate([[1.0], (j - 1.5) / j]))[:count]


def _inverse_series(decays, scales) -> tuple[np.ndarray, np.ndarray]:
    """Ratios and amplitudes of the series 1 / c, whose term 0 is 1."""
    # Since buffers' = (diag(theta) - 1 w^T) buffers + z, the series 1 / c consists of powers of
    # this matrix. Its eigenvalues are real, since it is similar to a symmetric matrix.
    root = np.sqrt(scales)
    values, vectors = np.linalg.eigh(np.diag(decays) - np.outer(root, root))
    return values, -((vectors.T @ root) ** 2)


def _series(ratios, amplitudes, count) -> np.ndarray:
    """sum_i amplitude_i ratio_i^j for j = 0 .. count - 1."""
    powers = np.arange(max(count, 0))
    return sum(a * r**powers for a, r in zip(amplitudes, ratios, strict=True))


def _series_norms(decays, scales, count) -> tuple[float, float]:
    """(L1, L2) norms of 1 and the first ``count`` - 1 positive terms of :func:`_series`."""
    if not count:
        return 0.0, 0.0

    def geometric(ratio):
        return -np.expm1((count - 1) * np.log(ratio)) / (1.0 - ratio)

    pairs = np.outer(scales, scales) * geometric(np.outer(decays, decays))
    return float(1.0 + np.sum(scales * geometric(decays))), float(np.sqrt(1.0 + np.sum(pairs)))


def _norms(column) -> tuple[float, float]:
    """(L1, L2) norms of the first column of a Toeplitz matrix, the largest of all columns."""
    return float(np.abs(column).sum()), float(np.sqrt(np.sum(column**2)))


def convolve(column, draws, horizon):
    """A row of zeros, then the column's Toeplitz matrix times the draws (N, ...); (T, ...)."""
    if horizon == 1:
        return jnp.zeros((1, *draws.shape[1:]), jnp.float32)
    length = 2 * horizon
    column = jnp.asarray(column, jnp.float32).reshape(-1, *[1] * (draws.ndim - 1))
    spectrum = jnp.fft.rfft(column, length, axis=0) * jnp.fft.rfft(draws, length, axis=0)
    rows = jnp.fft.irfft(spectrum, length, axis=0)[: horizon - 1]
    return jnp.concatenate([jnp.zeros((1, *draws.shape[1:]), jnp.float32), rows])


def _cached(**prefixes):
    """The stored parameters for a number of prefixes, which is passed by its argument's name."""
    ((name, count),) = prefixes.items()
    for size in sorted(BUFFERED):
        if count <= size:
            return tuple(np.asarray(values, np.float64) for values in BUFFERED[size])
    raise ValueError(
        f"{name}: parameters are stored for up to {max(BUFFERED)} prefixes, got {count}; pass "
        "parameters"
    )


def _as_parameters(parameters):
    try:
        decays, scales = parameters
    except (TypeError, ValueError):
        raise ValueError("parameters must be decays and scales, two sequences of numbers") from None
    decays = _arrays.real("parameters: decays", decays, what="decays")
    scales = _arrays.real("parameters: scales", scales, what="scales")
    if decays.ndim != 1 or decays.shape != scales.shape or not len(decays):
        raise ValueError("parameters must be as many decays as scales, one or more of each")
    if not (np.all((decays > 0) & (decays < 1)) and np.all(scales > 0)):
        raise ValueError("parameters must be decays between 0 and 1 and scales greater than 0")
    return decays, scales
