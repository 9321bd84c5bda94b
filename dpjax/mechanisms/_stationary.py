"""A factorization into circulant matrices, whose noise has the same law at every prefix."""

import jax.numpy as jnp
import numpy as np
import scipy

from dpjax.core import Mechanism
from dpjax.mechanisms import prefix
from dpjax.noise import LawName

# The number of draws that are made and kept is twice the horizon.
_LONGEST = 2**25


def stationary(horizon: int, *, noise: LawName = "gaussian") -> Mechanism:
    """Prefix sums with stationary Gaussian noise, which has the same law at every prefix.

    The matrix of prefix sums is a corner of the circulant matrix of order 2T whose first column has
    T ones and then T zeros. Let lambda be its eigenvalues. The rows of B are rows of the circulant
    matrix with eigenvalues sqrt |lambda|. The columns of C are columns of the circulant matrix with
    eigenvalues lambda / sqrt |lambda|. Each row of B and each column of C has the squared norm

        V = sum |lambda| / (2T), about 0.98 + ln T / pi.

    So all prefixes are equally noisy, including the empty one, as in
    :func:`dpjax.mechanisms.tree` with ``identical_law``, at a tenth of its variance for T = 2^10.
    The covariance of two prefixes depends only on their distance. B is not triangular: the noise of
    the whole horizon is drawn at the start and kept. Memory grows with the horizon.

    Args:
      horizon: T, rounds of the learner; at most 2^25.
      noise: "gaussian", or "laplace", which is poor since the L1 sensitivity grows as sqrt T.

    Returns:
      A Mechanism with L2 sensitivity sqrt V.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Henzinger & Upadhyay 2024, "Improved differentially private continual observation
    using group algebra"; Mathias 1993.

    Examples:
      >>> mechanism = mechanisms.stationary(1024)
      >>> print(np.round(mechanism.variance()[:3], 3))
      [3.188 3.188 3.188]
      >>> round(float(mechanism.sensitivity[1] ** 2), 3)
      3.188
    """
    horizon, law = prefix.check(horizon, noise, longest=_LONGEST)
    column = np.repeat([1.0, 0.0], horizon) * (horizon > 1)  # one round releases nothing
    eigenvalues = np.fft.rfft(column)
    eigenvalues[2::2] = 0.0  # exactly, without the transform's rounding error
    roots = np.sqrt(np.abs(eigenvalues))
    phases = eigenvalues / np.where(roots > 0.0, roots, 1.0)
    decoder, encoder = (np.fft.irfft(values, 2 * horizon) for values in (roots, phases))

    def prefix_noise(shape, scale):
        def path(key):
            draws = prefix.draw(law, key, (2 * horizon, *shape), scale)
            weights = jnp.asarray(roots, jnp.complex64).reshape(-1, *[1] * len(shape))
            spectrum = weights * jnp.fft.rfft(draws, axis=0)
            return jnp.fft.irfft(spectrum, 2 * horizon, axis=0)[:horizon]

        return prefix.kept_path(path)

    released = horizon > 1
    return prefix.from_noise(
        horizon, law, prefix_noise,
        sensitivity=(
            float(np.abs(encoder).sum()) * released, float(np.linalg.norm(encoder)) * released
        ),
        variance=prefix.constant(float(np.sum(decoder**2))),
        matrices=lambda: (
            scipy.linalg.circulant(decoder)[:horizon], scipy.linalg.circulant(encoder)[:, 1:horizon]
        ),
    )  # fmt: skip
