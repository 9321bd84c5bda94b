"""Law, the record of a law of noise. All calibrations and audits use it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp

from dpjax import privacy
from dpjax.core import Array, Number, PyTree
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from dpjax.noise.release import kind, release

Change = tuple[Any, Any]  # the (L1, L2) norms of a change


class Calibration(NamedTuple):
    """A noise scale and its privacy."""

    scale: Number  # () of each draw
    epsilon: Number  # ()
    rho: Number  # () of zCDP; nan if none is declared


class Cost(NamedTuple):
    """The privacy loss of one release."""

    pure: Number  # () epsilon of pure differential privacy, by basic composition
    rho: Number  # () rho of zCDP
    gaussian: Number  # () the part of rho that comes from Gaussian noise


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """A law of noise. Calling it adds noise to a value.

    Learners and mechanisms use its calibration and its moments. Audits use the privacy loss of a
    release. The sensitivity is always an argument: the largest norms of a change by one unit.

    Attributes:
      name: as in ``LAWS`` and in the ``noise=`` of learners.
      draw: (key, scale, shape) -> noise (*shape), of the dtype of the scale or float32.
      variance: scale -> the variance of a draw, or an upper bound.
      cumulant: (tilt, scale) -> ln E e^(tilt z) of a draw z, or an upper bound.
      pole: scale -> the least tilt at which the cumulant is infinite.
      calibrate: (Change, epsilon, delta) -> Calibration for a vector with this change. Delta is
        None for pure differential privacy. ``calibrate`` is None if only one integer can have this
        noise.
      declare: (Change, scale, delta) -> Calibration of a given scale. None if no paper prints a
        scale.
      cost: (...), the change of each entry divided by the scale -> Cost of the release. None if the
        cost is computed on the host, by ``epsilon`` or ``together``.
      norm: 1 or 2, the norm of a change that determines its cost.
      integers: whether the noise hides only changes by integers.
      pure: whether the noise gives pure differential privacy.
      of_one: (epsilon, delta) -> Calibration of one integer that changes by 1, by the exact delta.
        None if ``calibrate`` is used.
      epsilon: (scale, delta, change) -> the exact epsilon of one integer that changes by
        ``change``, on the host. None if ``cost`` is used.
      delta: (scale, epsilon, change) -> the exact delta of such an integer.
      together: (L1 (n,) and L2 (n,) norms of changes, scales (n,), delta) -> the epsilon of n
        releases of vectors.
      of_rho: (rho, delta) -> the epsilon of rho-zCDP by this noise. None if no rho is declared.
      draw_sum: (key, scale, counts (*shape)) -> the sum of ``counts`` draws, (*shape).
      log_density: (noise (*shape), scale) -> the log-density of each draw, or its log-probability
        for a law on integers. The scale is above 0. None if the density is not known.
      model: the trust model of a batch sum with this noise, as in ``Privacy``: "central", "shuffle"
        or "distributed".
      limit: a trust model, if this continuous noise idealises integer noise added in this model;
        otherwise None.

    The scale is a scale parameter, a standard deviation or a number of coins, as the law's file
    says. A scale of 0 adds no noise.

    Examples:
      >>> key = jax.random.key(0)
      >>> noisy, noisier = noise.laplace(key, 0.0, 1.0), noise.laplace(key, 0.0, 2.0)
      >>> float(noisier / noisy)
      2.0
    """

    name: str
    draw: Callable
    variance: Callable
    cumulant: Callable
    norm: int
    pole: Callable = field(default_factory=lambda: lambda scale: jnp.inf)
    calibrate: Any = None
    declare: Any = None
    cost: Callable | None = None
    integers: bool = False
    pure: bool = False
    of_one: Callable | None = None
    epsilon: Callable | None = None
    delta: Callable | None = None
    together: Callable | None = None
    of_rho: Any = privacy.zcdp_epsilon
    draw_sum: Callable | None = None
    log_density: Callable | None = None
    model: str = "central"
    limit: str | None = None

    @property
    def title(self) -> str:
        """The name for use within a sentence.

        Examples:
          >>> noise.discrete_gaussian.title
          'discrete Gaussian'
        """
        lower = ("binomial", "discrete", "logistic")
        words = self.name.split("_")
        return " ".join(word if word in lower else word.capitalize() for word in words)

    def __repr__(self) -> str:
        return f"noise.{self.name}"

    def __call__(self, key: Array, value: PyTree, scale: Number) -> Array:
        """``value`` plus independent noise in each entry, with the same shape and dtype."""
        return release("value", self, key, value, scale)

    def total(self, key: Array, total: ExactSum, scale: Number) -> ExactSum:
        """An ExactSum plus independent noise in each entry. The sum is not rounded to float32.

        So the noise hides one loss among any number of losses. (Noise of scale 1 changes a float32
        sum of 2^27 only one time in a hundred.) The noise is a float32, rounded to a multiple of
        2^-30. Results beyond 2^31 are clipped. This begins to matter at a scale of 10^8. If the
        scale is NaN, the result is clipped.

        Examples:
          >>> from dpjax.maths import exact_sums
          >>> noisy = noise.skellam.total(jax.random.key(0), exact_sums.of(2.5), 2.0)
          >>> float(exact_sums.to_float(noisy) % 1.0)  # the noise is an integer
          0.5
        """
        return ExactSum(*release("words", self, key, jnp.stack(total), scale))

    def sum(self, key: Array, total: ExactSum, scale: Number, count: Array) -> ExactSum:
        """An ExactSum plus the sum of ``count`` independent draws, as exact as :meth:`total`.

        Examples:
          >>> from dpjax.maths import exact_sums
          >>> noisy = noise.laplace.sum(jax.random.key(0), exact_sums.of(2.5), 1.0, 0)
          >>> float(exact_sums.to_float(noisy))  # of no draws
          2.5
        """
        return ExactSum(*release("draws", self, key, jnp.stack(total), scale, count))

    def along(self, key: Array, value: Array, scale: Number, weights: Array) -> Array:
        """``value`` () plus <Z, weights> for a vector Z of independent draws.

        If Z is the noise on a loss vector, this is the value of the noisy linear loss at the point
        ``weights`` (d,).

        Examples:
          >>> float(noise.laplace.along(jax.random.key(0), 0.5, 1.0, jnp.zeros(3)))  # weights 0
          0.5
        """
        return release("along", self, key, value, scale, weights)

    def prefix(
        self, key: Array, noisy: Array, value: Array, scale: Number, sensitivity: Change
    ) -> Array:
        """``noisy``, marked for audits as a noisy prefix sum that includes ``value``.

        Args:
          key: the key from which the noise of this round was drawn.
          noisy: the sum of all values so far, with noise.
          value: the latest value.
          scale: of each draw.
          sensitivity: the largest (L1, L2) norm of a column of the mechanism's encoder.

        Examples:
          >>> float(noise.laplace.prefix(jax.random.key(0), 7.5, 1.0, 2.0, (1.0, 1.0)))
          7.5
        """
        l1, l2 = map(float, sensitivity)
        return release("prefix", self, key, noisy, value, scale, sensitivity=(l1, l2))

    def single(self, epsilon: Number, delta: Number | None) -> Calibration:
        """The Calibration of one number that changes by at most 1.

        Examples:
          >>> [int(noise.binomial.single(epsilon, 1e-6).scale) for epsilon in (0.5, 1.0, np.inf)]
          [272, 80, 0]
        """
        if self.of_one is not None:
            return self.of_one(epsilon, delta)
        return self.calibrate((1.0, 1.0), epsilon, delta)


def of_pure(units: Array) -> Cost:
    """The cost of noise with pure privacy. Its epsilon is the sum of changes over scales."""
    pure = jnp.sum(units)
    return Cost(pure, pure * pure / 2.0, jnp.float32(0.0))


def _scale(law, scale, dtype):
    return scale if law.integers else jnp.asarray(scale, dtype)


@kind("value")
def _value(law, key, value, scale):
    draw = law.draw(key, _scale(law, scale, value.dtype), value.shape)
    return value + draw.astype(value.dtype)


def _with_noise(words, draw):
    return jnp.stack(exact_sums.shifted(ExactSum(*words), draw))


@kind("words")
def _words(law, key, words, scale):
    return _with_noise(words, law.draw(key, _scale(law, scale, jnp.float32), words.shape[1:]))


@kind("draws")
def _draws(law, key, words, scale, count):
    count = jnp.broadcast_to(count, words.shape[1:]).astype(jnp.float32)
    return _with_noise(words, law.draw_sum(key, jnp.asarray(scale, jnp.float32), count))


@kind("along")
def _along(law, key, value, scale, weights):
    draw = law.draw(key, _scale(law, scale, weights.dtype), weights.shape)
    return value + jnp.sum(draw * weights)


@kind("prefix")
def _prefix(law, key, noisy, value, scale):
    del law, key, value, scale
    return noisy
