"""Noise of the sum of a batch's losses, for every trust model: its draws, widths and privacy.

A learner that plays batches asks for noise by name. From one law to another three things change:
how a sum is released, how far the release may be off, and what is declared.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import _check, noise, privacy
from dpjax.core import Clip, Number, Privacy, Sums
from dpjax.feedback import to_bit
from dpjax.learners.parts.arm_sums import gaussian_draws, one_release
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

WITH_DELTA = ("gaussian", "discrete_gaussian", "binomial", "skellam")
LOCAL = ("local_laplace", "randomized_response")
LAWS = ("laplace", "discrete_laplace", *WITH_DELTA, *LOCAL)


# Where Chernoff's bound is tried, as parts of a tilt that is at least the best one.
_PARTS = np.sin(np.arange(2, 40) * np.pi / 80.0).astype(np.float32)


class SumNoise(NamedTuple):
    """The release of the sum of n losses in [0, 1], and how far it is off.

    The losses and what is part of them have the variance proxy v, so that ln E e^(l x) of their sum
    less its mean is at most n v l^2 / 2. The noise consists of one draw z, or of one for each loss.
    ``cumulant`` bounds ln E e^(l z), and is at least l^2 E z^2 / 2. All bounds on errors below are
    Chernoff's.
    """

    release: Callable  # (key, sum of the losses, () ExactSum, n () int32) -> () ExactSum
    per_loss: Number  # () v
    cumulant: Callable  # l -> bound on ln E e^(l z), for |l| below the pole
    variance: Number  # () of a draw z, or its proxy
    pole: Number  # () inf where there is none
    each: bool  # whether each loss has a draw of its own
    clip: Clip | None  # of the learner: to_bit, if the noise hides bits alone
    privacy: Privacy

    def error(self, weights, counts, draws, exponent):
        """What a weighted sum of releases may be off by in one direction, but for e^-x, (...).

        With l in (0, pole / max |w_i|) it is the least (x + sum_i K_i(l w_i)) / l, where K_i bounds
        the logarithm of the moment-generating function of release i. It is the minimum over a grid,
        at most one percent above the least.

        Args:
          weights: w_i, (..., m).
          counts: n_i, the losses in each release, (..., m) float32.
          draws: how many draws each release has in it where losses have none, (..., m).
          exponent: x, () or (...); below 1e-6 it counts as that.

        Returns:
          (...), 0 where no release has a weight.
        """
        size = jnp.where(counts > 0.0, jnp.abs(weights), 0.0)
        weighty = jnp.max(size, axis=-1) > 0.0
        size = jnp.where(weighty[..., None], size, 1.0)
        exponent = jnp.broadcast_to(jnp.maximum(exponent, 1e-6), weighty.shape)
        draws = counts if self.each else jnp.where(counts > 0.0, draws, 0.0)
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
        """How far the mean of n losses may be off in one direction, but for probability e^-x."""
        counts = jnp.asarray(rounds, jnp.float32)[..., None]
        return self.error(1.0 / counts, counts, jnp.ones_like(counts), exponent)

    def least_rounds(self, radius, exponent):
        """The least n, not rounded up, for which Chernoff's bound on a mean is this radius, ()."""
        own = self.per_loss + (self.variance if self.each else 0.0)
        most = jnp.minimum(self.pole, radius / own)
        if not self.each:
            most = jnp.minimum(most, jnp.sqrt(2.0 * exponent / jnp.asarray(self.variance)))
        tilt = most * _PARTS
        noise = self.cumulant(tilt)
        gained = radius * tilt - 0.5 * self.per_loss * tilt * tilt - (noise if self.each else 0.0)
        needed = exponent + (0.0 if self.each else noise)
        return jnp.min(jnp.where(gained > 0.0, needed / gained, jnp.inf))


def sum_noise(law: str, epsilon: Number, delta: Number | None) -> SumNoise:
    """The noise of that name, calibrated for sums of which one loss is replaced.

    - "laplace" and "gaussian": the server adds a real number to the sum of a batch.
    - "discrete_gaussian": the server adds an integer.
    - "discrete_laplace" and "skellam", distributed: each user adds a part of an integer, and only
      the sum of a batch is opened. Both laws are sums of independent parts. (The draw is that of
      the whole. Nobody's modulus is simulated, nor users who drop out.)
    - "binomial", shuffle: users and fair coins send bits, a shuffler mixes them, and the server
      sees how many are 1.
    - "local_laplace" and "randomized_response", local: each loss has its own noise, or is a bit
      that is flipped with probability 1 / (1 + e^epsilon).

    Only Laplace and Gaussian noise takes losses that are no bits. For the others each loss is
    rounded to the nearer of 0 and 1, so play them on Bernoulli losses. A sum that is no integer all
    the same, as one of averages, is rounded to the nearest integer before its noise is added. If
    one summand changes by at most 1, the rounded sum does too.

    Args:
      law: one of :data:`LAWS`.
      epsilon: inf for no noise.
      delta: in (0, 1) for "gaussian", "discrete_gaussian", "binomial" and "skellam"; else None.
        For the last three it is a plain number, and the amount of noise is the least one by the
        exact delta of the law, up to a percent (:func:`dpjax.privacy.integer_noise`).

    Returns:
      A SumNoise. It declares what holds where each loss is in one released sum, and where earlier
      releases alone decide which sum that is.
    """
    _check.one_of(*LAWS, noise=law)
    if (law in WITH_DELTA) != (delta is not None):
        raise ValueError(
            f"delta must be given where noise is {law}, which is never pure DP"
            if delta is None
            else f"delta must not be given where noise is {law}, which is pure DP"
        )
    epsilon = _check.epsilon(epsilon)
    if delta is not None:
        _check.delta(delta)
    make = _local if law in LOCAL else _pure if delta is None else _approximate
    return make(law, epsilon, delta, one_release(epsilon))


def zcdp_noise(horizon: int, rho: Number, delta: Number | None) -> SumNoise:
    """Gaussian noise of sums, of variance 1 / (2 rho), by which a release is rho-zCDP.

    Args:
      horizon: T.
      rho: inf for no noise.
      delta: of the epsilon that is declared beside rho, which changes nothing but that number; None
        for T^-2.
    """
    _check.positive(rho=rho)
    variance = 0.5 / jnp.asarray(rho, jnp.float32)
    accountant = "parallel composition of Gaussian mechanisms"
    declared = gaussian_draws(1.0 / variance, horizon, delta, accountant)
    declared = declared._replace(sums=Sums("gaussian", "releases"))
    release = _of_sum("gaussian_total", jnp.sqrt(variance))
    return _gaussian(release, variance, None, declared)


def _gaussian(release, variance, clip, declared):
    """Noise of sums with a Gaussian moment-generating function, or one below it."""
    return SumNoise(
        release, 0.25, lambda tilt: 0.5 * variance * tilt * tilt, variance, jnp.inf, False,
        clip, declared,
    )  # fmt: skip


def _laplace_cumulant(scale):
    """ln E e^(l z) = -ln(1 - (l scale)^2) of a Laplace draw; a discrete one has less."""
    return lambda tilt: -jnp.log1p(-jnp.square(tilt * scale))


def _pole(epsilon):
    """The pole of the cumulant of Laplace noise of scale 1 / epsilon, () float32."""
    return jnp.asarray(epsilon, jnp.float32)


def _pure(law, epsilon, delta, declared):
    del delta
    scale = privacy.laplace_scale(1.0, epsilon)  # of a sum of losses, one of which is replaced
    release, clip = _of_sum("laplace_total", scale), None
    if law == "discrete_laplace":
        release, clip = _of_sum("discrete_laplace_total", scale), to_bit
        declared = _declared(declared, "distributed", "discrete Laplace mechanisms")
    return SumNoise(
        release, 0.25, _laplace_cumulant(scale), 2.0 * scale * scale, _pole(epsilon), False,
        clip, declared,
    )  # fmt: skip


def _approximate(law, epsilon, delta, declared):
    declared = declared._replace(delta=delta)
    if law == "gaussian":
        scale = privacy.gaussian_scale(1.0, epsilon, delta)
        declared = _declared(declared, "central", "Gaussian mechanisms")
        sums = Sums("gaussian", "releases")
        declared = declared._replace(rho=0.5 / (scale * scale), sums=sums)
        release = _of_sum("gaussian_total", scale)
        return _gaussian(release, scale * scale, None, declared)
    amount = privacy.integer_noise(law, epsilon, delta)
    if isinstance(amount, jax.core.Tracer):  # It is NaN where a plain epsilon is refused.
        declared = declared._replace(epsilon=jnp.where(jnp.isnan(amount), jnp.nan, epsilon))
    if law == "discrete_gaussian":
        declared = _declared(declared, "central", "discrete Gaussian mechanisms")
        sums = Sums("discrete_gaussian", "releases")
        declared = declared._replace(rho=0.5 / (amount * amount), sums=sums)
        release = _of_sum("discrete_gaussian_total", amount)
        return _gaussian(release, amount * amount, to_bit, declared)
    if law == "binomial":
        declared = _declared(declared, "shuffle", "binomial mechanisms")
        release = _of_sum("binomial_total", amount)
        return _gaussian(release, 0.25 * amount, to_bit, declared)
    declared = _declared(declared, "distributed", "Skellam mechanisms")
    release = _of_sum("skellam_total", amount)
    return SumNoise(
        release, 0.25, lambda tilt: amount * (jnp.cosh(tilt) - 1.0), amount, jnp.inf, False,
        to_bit, declared,
    )  # fmt: skip


def _local(law, epsilon, delta, declared):
    del delta
    scale = privacy.laplace_scale(1.0, epsilon)
    if law == "local_laplace":

        def release(key, losses, count):
            return noise.laplace_sum(key, losses, scale, count)

        accountant = "Laplace mechanism on each observed loss"
        declared = declared._replace(model="local", accountant=accountant)
        return SumNoise(
            release, 0.25, _laplace_cumulant(scale), 2.0 * scale * scale, _pole(epsilon), True,
            None, declared,
        )  # fmt: skip
    # Let p be the probability of a flip. Then 1 / (1 - 2p) is 1 / tanh(epsilon / 2).
    stretch = 1.0 / jnp.tanh(0.5 * jnp.asarray(epsilon, jnp.float32))

    def debiased(key, losses, count):
        ones = noise.randomized_response(key, _nearest(losses).whole, scale, count)
        excess = (2 * ones - count).astype(jnp.float32)  # Where 2 * ones wraps, this wraps back.
        return exact_sums.shifted(exact_sums.repeated(0.5, count), 0.5 * stretch * excess)

    declared = declared._replace(
        model="local",
        released="randomized losses 1..T",
        accountant="randomized response, each loss",
    )
    # A stretched bit lies in an interval of that length, so that Hoeffding's lemma holds for it.
    return _gaussian(debiased, jnp.float32(0.0), to_bit, declared)._replace(
        per_loss=0.25 * stretch * stretch
    )


def _of_sum(name, amount) -> Callable:
    """The release of a sum by one draw of :mod:`dpjax.noise`, however many losses it has."""
    of_integers = name not in ("laplace_total", "gaussian_total")

    def release(key, losses, count) -> ExactSum:
        del count
        return getattr(noise, name)(key, _nearest(losses) if of_integers else losses, amount)

    return release


def _nearest(total) -> ExactSum:
    """The integer nearest to a sum, which hides what noise of integers cannot."""
    whole = exact_sums.add(total, exact_sums.of(0.5)).whole
    return ExactSum(whole, jnp.zeros_like(whole))


def _declared(declared, model, mechanisms):
    seen = {
        "central": "",
        "shuffle": "shuffled bits of each batch, ",
        "distributed": "opened sums, ",
    }
    return declared._replace(
        model=model,
        released=f"{seen[model]}actions 1..T",
        accountant=f"parallel composition of {mechanisms}",
    )
