"""Noise on a batch's loss sum, for every trust model: its draws, widths and privacy.

A learner that plays batches selects its noise by name. A law determines three things: the release
of a sum, its error bounds, and the declared privacy.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import noise, privacy
from dpjax.core import Clip, Number, Privacy, Sums, _check
from dpjax.feedback import to_bit
from dpjax.learners.parts.arm_sums import check_delta_of, gaussian_draws, one_release
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

LOCAL = ("local_laplace", "randomized_response")

# Trial points for Chernoff's bound, as fractions of a tilt that is at least the best one.
_PARTS = np.sin(np.arange(2, 40) * np.pi / 80.0).astype(np.float32)


class SumNoise(NamedTuple):
    """The release of the sum of n losses in [0, 1], with bounds on its error.

    The centred sum x of n losses, with the flips of randomized response included, has ln E e^(l x)
    of at most n v l^2 / 2. All other noise is one draw z, or one draw for each loss. ``cumulant``
    bounds ln E e^(l z), and is at least l^2 E z^2 / 2. All error bounds below are Chernoff's.
    """

    release: Callable  # (key, sum of the losses, () ExactSum, n () int32) -> () ExactSum
    per_loss: Number  # () v
    cumulant: Callable  # l -> bound on ln E e^(l z), for |l| below the pole
    variance: Number  # () of a draw z, or its proxy
    pole: Number  # () inf if there is none
    on_losses: bool  # whether each loss has its own draw
    clip: Clip | None  # of the learner: to_bit, if the noise protects only bits
    privacy: Privacy

    def error(self, weights, counts, draws, exponent):
        """One-sided error bound of a weighted sum of releases, (...).

        It fails with probability at most e^-x. It is the minimum of (x + sum_i K_i(l w_i)) / l over
        l in (0, pole / max |w_i|), where K_i bounds the logarithm of the moment-generating function
        of release i. A grid over l is used, which gives at most one percent more.

        Args:
          weights: w_i, (..., m).
          counts: n_i, the losses in each release, (..., m) float32.
          draws: the number of draws in each release if losses have none of their own, (..., m).
          exponent: x, () or (...); smaller values are raised to 1e-6.

        Returns:
          (...), 0 if no release has a weight.
        """
        size = jnp.where(counts > 0.0, jnp.abs(weights), 0.0)
        weighty = jnp.max(size, axis=-1) > 0.0
        size = jnp.where(weighty[..., None], size, 1.0)
        exponent = jnp.broadcast_to(jnp.maximum(exponent, 1e-6), weighty.shape)
        draws = counts if self.on_losses else jnp.where(counts > 0.0, draws, 0.0)
        proxy = counts * self.per_loss + draws * self.variance
        most = jnp.sqrt(2.0 * exponent / jnp.sum(size * size * proxy, axis=-1))
        most = jnp.minimum(most, self.pole / jnp.max(size, axis=-1))
        tilt = most[..., None] * jnp.broadcast_to(_PARTS, (*most.shape, len(_PARTS)))
        inner = tilt[..., None, :] * size[..., None]
        cumulants = 0.5 * self.per_loss * counts[..., None] * inner * inner
        cumulants = cumulants + draws[..., None] * self.cumulant(inner)
        bounds = (exponent[..., None] + jnp.sum(cumulants, axis=-2)) / tilt
        return jnp.where(weighty, jnp.min(bounds, axis=-1), 0.0)

    def radius(self, rounds, exponent):
        """One-sided error bound of the mean of n losses, exceeded with probability at most e^-x."""
        counts = jnp.asarray(rounds, jnp.float32)[..., None]
        return self.error(1.0 / counts, counts, jnp.ones_like(counts), exponent)

    def least_rounds(self, radius, exponent):
        """The smallest n, not rounded up, at which Chernoff's bound on a mean is ``radius``, ()."""
        proxy = self.per_loss + (self.variance if self.on_losses else 0.0)
        most = jnp.minimum(self.pole, radius / proxy)
        if not self.on_losses:
            most = jnp.minimum(most, jnp.sqrt(2.0 * exponent / jnp.asarray(self.variance)))
        tilt = most * _PARTS
        noise = self.cumulant(tilt)
        gained = (
            radius * tilt - 0.5 * self.per_loss * tilt * tilt - (noise if self.on_losses else 0.0)
        )
        needed = exponent + (0.0 if self.on_losses else noise)
        return jnp.min(jnp.where(gained > 0.0, needed / gained, jnp.inf))


def sum_noise(law: noise.LawName, epsilon: Number, delta: Number | None) -> SumNoise:
    """The named noise, calibrated for sums in which one loss is replaced.

    A law of ``dpjax.noise.LAWS`` is added to the sum of a batch, and its trust model is declared:

    - "central": the server adds it.
    - "distributed": each user adds a part of it, and only the sum of a batch is opened. The law
      must be a sum of independent parts. (Here the sum of the parts is drawn at once. Modular
      arithmetic and users who drop out are not simulated.)
    - "shuffle": users and fair coins send bits, a shuffler mixes them, and the server sees the
      number of ones.

    Two more laws are local, for each loss separately. "local_laplace" adds Laplace noise, and
    "randomized_response" flips a bit with probability 1 / (1 + e^epsilon).

    Real-valued noise accepts any losses. For the other laws each loss is rounded to the nearer of 0
    and 1, so use them with Bernoulli losses. A sum that is still not an integer, such as one of
    averages, is rounded to the nearest integer before noise is added. If one summand changes by at
    most 1, so does the rounded sum.

    Args:
      law: a name in ``dpjax.noise.LAWS``, a law itself, or one of :data:`LOCAL`.
      epsilon: inf for no noise.
      delta: in (0, 1) for a law that is not pure; otherwise None. For integer laws it must be a
        plain number, and the noise is the smallest that satisfies the exact delta of the law, up to
        a percent.

    Returns:
      A SumNoise. Its declaration holds if each loss is in one released sum, and only earlier
      releases decide which sum that is.
    """
    law = noise.name_of(law)
    _check.one_of(*noise.LAWS, *LOCAL, noise=law)
    check_delta_of(law, law in LOCAL or noise.LAWS[law].pure, delta)
    declared = one_release(epsilon)
    if law in LOCAL:
        return _local(law, epsilon, declared)
    return _of_law(noise.LAWS[law], epsilon, delta, declared)


def zcdp_noise(horizon: int, rho: Number, delta: Number | None) -> SumNoise:
    """Gaussian noise of variance 1 / (2 rho) on sums, which makes a release rho-zCDP.

    Args:
      horizon: T.
      rho: inf for no noise.
      delta: the delta at which epsilon is declared; it changes nothing else. None for T^-2.
    """
    _check.positive_or_inf(rho=rho)
    variance = 0.5 / jnp.asarray(rho, jnp.float32)
    accountant = "parallel composition of Gaussian mechanisms"
    declared = gaussian_draws(1.0 / variance, horizon, delta, accountant)
    declared = declared._replace(sums=Sums("gaussian", "releases"))
    return _with_draws(noise.gaussian, jnp.sqrt(variance), declared)


# The observable part of batch sums.
_SEEN = {"central": "", "shuffle": "shuffled bits of each batch, ", "distributed": "opened sums, "}


def _of_law(law, epsilon, delta, declared) -> SumNoise:
    calibrated = law.single(epsilon, delta)
    if isinstance(calibrated.scale, jax.core.Tracer):  # NaN if it would be refused as a number
        epsilon = jnp.where(jnp.isnan(calibrated.scale), jnp.nan, epsilon)
    declared = declared._replace(
        epsilon=epsilon,
        delta=0.0 if delta is None else delta,
        rho=calibrated.rho,
        model=law.model,
        released=f"{_SEEN[law.model]}actions 1..T",
        accountant=f"parallel composition of {law.title} mechanisms",
        sums=None if law.pure or law.of_rho is None else Sums(law.name, "releases"),
    )
    return _with_draws(law, calibrated.scale, declared)


def _with_draws(law, scale, declared) -> SumNoise:
    """One draw of a law in each released sum, for any number of losses."""

    def release(key, losses, count) -> ExactSum:
        del count
        return law.total(key, _nearest(losses) if law.integers else losses, scale)

    return SumNoise(
        release, 0.25, lambda tilt: law.cumulant(tilt, scale), law.variance(scale), law.pole(scale),
        False, to_bit if law.integers else None, declared,
    )  # fmt: skip


def _local(law, epsilon, declared) -> SumNoise:
    laplace = noise.laplace
    scale = privacy.laplace_scale(1.0, epsilon)
    if law == "local_laplace":

        def release(key, losses, count):
            return laplace.sum(key, losses, scale, count)

        accountant = "Laplace mechanism on each observed loss"
        declared = declared._replace(model="local", accountant=accountant)
        return SumNoise(
            release, 0.25, lambda tilt: laplace.cumulant(tilt, scale), laplace.variance(scale),
            laplace.pole(scale), True, None, declared,
        )  # fmt: skip
    # Let p be the probability of a flip. Then 1 / (1 - 2p) is 1 / tanh(epsilon / 2).
    stretch = 1.0 / jnp.tanh(0.5 * jnp.asarray(epsilon, jnp.float32))

    def debiased(key, losses, count):
        ones = noise.randomized_response(key, _nearest(losses).whole, scale, count)
        excess = (2 * ones - count).astype(jnp.float32)  # if 2 * ones wraps, this wraps back
        return exact_sums.shifted(exact_sums.repeated(0.5, count), 0.5 * stretch * excess)

    declared = declared._replace(
        model="local",
        released="randomized losses 1..T",
        accountant="randomized response, each loss",
    )
    # A debiased bit lies in an interval of that length, so Hoeffding's lemma holds for it.
    return SumNoise(
        debiased, 0.25 * stretch * stretch, lambda tilt: 0.0 * tilt, jnp.float32(0.0), jnp.inf,
        False, to_bit, declared,
    )  # fmt: skip


def _nearest(total) -> ExactSum:
    """The integer nearest to a sum, so that integer noise can hide it."""
    whole = exact_sums.add(total, exact_sums.of(0.5)).whole
    return ExactSum(whole, jnp.zeros_like(whole))
