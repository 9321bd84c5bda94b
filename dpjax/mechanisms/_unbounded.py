"""A Toeplitz factorization for streams of unknown length: the square root with a logarithm."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import scipy

from dpjax.core import Mechanism, _check
from dpjax.mechanisms import prefix, toeplitz
from dpjax.noise import LawName


def unbounded(horizon: int, *, noise: LawName = "gaussian", made_for: int = 2**20) -> Mechanism:
    """Prefix sums of a stream of unknown length, with Gaussian noise that grows slowly.

    Let l(z) = ln(1 / (1 - z)). B and C are the Toeplitz matrices of the series of

        (1 - z)^(-1/2) (1 + l(z) / k)  and  (1 - z)^(-1/2) / (1 + l(z) / k).

    Their product is the series 1 / (1 - z) of the matrix of prefix sums. The square root, without
    the logarithm, has columns of infinite norm in an infinite stream. The columns of C are finite:
    entry j is about k / (ln j sqrt(pi j)). So one noise scale holds for every horizon, and the
    variance of prefix t does not depend on the horizon. It is O(log^3 t).

    At equal privacy, :func:`square_root` made for t prefixes has less variance at prefix t. The
    factor is asymptotically 1 + k / ln t + ln t / (3 k). It is least at ln t = sqrt(3) k, where it
    is 1 + 2 / sqrt(3) = 2.15. So k is ln(made_for) / sqrt(3). Noise is drawn and kept as in
    :func:`square_root`. ``buffered(made_for=2**20)`` has less noise from prefix 171 to prefix
    2.1e7. Beyond, its variance grows in proportion to t.

    Args:
      horizon: T, rounds of the learner; at most 2^26. Only the length of the state depends on it.
      noise: "gaussian", or another law that is scaled by the L2 sensitivity. Laplace noise is
        refused, since the L1 norm of an infinite column is infinite; :func:`hybrid` allows it.
      made_for: the number of prefixes, at least 4, at which the factor above is least.

    Returns:
      A Mechanism. Its L2 sensitivity is the norm of an infinite column of C. The columns of
      ``matrices()`` are cut off at the horizon, and are shorter. Its L1 sensitivity is infinite.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Jacobsen & Fawaz 2025, "Private continual counting of unbounded streams" (NeurIPS),
    as reconstructed from its abstract and its public code. The paper's factor is l(z) / z to the
    power 1/2 + a for a small a > 0, which gives the variance O(log^(2 + 2a) t). Here a is 1/2, and
    the scale k is ours. At the paper's a = 0.01 the squared norm of an infinite column is 16.6.
    Entries beyond 2^20 contribute 15.1 of it.

    Examples:
      >>> print(mechanisms.unbounded(8).variance()[1:].round(3))
      [1.    1.391 1.64  1.827 1.978 2.105 2.214]
      >>> [round(mechanisms.unbounded(T).sensitivity[1], 4) for T in (2, 100, 10_000)]
      [1.7342, 1.7342, 1.7342]
    """
    horizon, law = prefix.check(horizon, noise, longest=toeplitz.LONGEST)
    if law.norm != 2:
        raise ValueError(
            f"noise must be scaled by the L2 sensitivity, as gaussian is, for unbounded, whose L1 "
            f"sensitivity is infinite, got {law.name}; hybrid allows {law.name} noise"
        )
    # From 4 on, k exceeds ln 2. Otherwise C has a pole in the unit disc, at z = 1 - e^k.
    scale_of_log = float(np.log(_check.size(4, made_for=made_for)) / np.sqrt(3.0))
    count = horizon - 1
    # The derivative of the series of (1 - z)^(-a) in a multiplies entry j by 1/a + ... + 1/(a+j-1).
    terms = 1.0 / (np.arange(count) + 0.5)
    logarithms = np.cumsum(terms) - terms
    decoder = toeplitz.square_root_coefficients(count) * (1.0 + logarithms / scale_of_log)

    def prefix_noise(shape, scale):
        def path(key):
            draws = prefix.draw(law, key, (count, *shape), scale)
            return toeplitz.convolve(decoder, draws, horizon)

        return prefix.kept_path(path)

    def encoder():
        """The first column of C, which solves B C = A."""
        if not count:
            return decoder
        return scipy.linalg.solve_toeplitz((decoder, np.eye(1, count)[0]), np.ones(count))

    return toeplitz.from_columns(
        horizon, law, prefix_noise, encoder=encoder, decoder=lambda: decoder,
        sensitivity=(float("inf"), _column_norm(scale_of_log)) if count else (0.0, 0.0),
    )  # fmt: skip


@lru_cache
def _column_norm(scale_of_log: float) -> float:
    """The L2 norm of an infinite column of C, by Parseval's identity.

    Its square is the integral of |f|^2 / pi over z = exp(i theta), 0 < theta < pi. The integrand is
    integrated in s = -ln theta, since 45 % of the square at the default k comes from theta < 1e-3.
    """

    def density(s):
        chord = 2.0 * np.sin(np.exp(-s) / 2.0)  # |1 - z|
        angle = (np.pi - np.exp(-s)) / 2.0  # ln(1 / (1 - z)) = -ln(chord) + i angle
        real = 1.0 - np.log(chord) / scale_of_log
        return np.exp(-s) / chord / (real**2 + (angle / scale_of_log) ** 2)

    # Beyond s = 40 chord is theta and the angle is pi / 2, up to 1e-17: an elementary integral.
    ends = (-np.log(np.pi), 0.0, 4.0, 40.0)
    parts = [
        scipy.integrate.quad(density, *pair, epsabs=0.0, epsrel=1e-13, limit=200)[0]
        for pair in pairwise(ends)
    ]
    tail = 2.0 / np.pi * scale_of_log**2 * np.arctan2(np.pi / 2.0, scale_of_log + ends[-1])
    return float(np.sqrt((sum(parts) + tail) / np.pi))
