"""Noise of the sum of a batch's losses, for every trust model: its draws, widths and privacy.

A learner that plays batches asks for noise by name. From one law to another three things change:
how a sum is released, how far the release may be off, and what is declared.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpjax import _check, noise, privacy
from dpjax.core import Number, Privacy
from dpjax.feedback import bandit, clipped_bandit
from dpjax.learners.parts.arm_sums import gaussian_draws, one_release
from dpjax.maths import exact_sums
from dpjax.maths.clipping import within
from dpjax.maths.exact_sums import ExactSum

WITH_DELTA = ("gaussian", "discrete_gaussian", "binomial", "skellam")
LOCAL = ("local_laplace", "randomized_response")
LAWS = ("laplace", "discrete_laplace", *WITH_DELTA, *LOCAL)


class SumNoise(NamedTuple):
    """The release of the sum of n losses in [0, 1], and how far it is off.

    It is off by more than sqrt(2 x (v n + s^2)) + c x with probability at most e^-x, in either
    direction. Here v is ``per_loss``, s^2 is ``per_sum`` and c is ``tail``.
    """

    release: Callable  # (key, sum of the losses, () ExactSum, n () int32) -> () ExactSum
    per_loss: Number  # () variance proxy of a loss and of the noise that it has for itself
    per_sum: Number  # () variance proxy of the noise that the sum has
    tail: Number  # () how much longer the tail is than a Gaussian one
    feedback: Callable  # what a learner sees of a round, as in BatchLearner
    privacy: Privacy

    def radius(self, rounds, exponent):
        """How far the mean of n losses may be off in one direction, but for probability e^-x."""
        variance = self.per_loss / rounds + self.per_sum / rounds / rounds
        return jnp.sqrt(2.0 * exponent * variance) + self.tail * exponent / rounds

    def least_rounds(self, radius, exponent):
        """The n, not rounded up, for which :meth:`radius` is this one."""
        losses = self.per_loss * exponent / radius
        tail = self.tail * exponent
        inner = losses * (losses + 2.0 * tail) + 2.0 * exponent * self.per_sum
        return (losses + tail + jnp.sqrt(inner)) / radius


def bits(loss, arm):
    """Bandit feedback rounded to the nearer of 0 and 1, (), for noise that hides bits alone."""
    return jnp.round(within(bandit(loss, arm), 0.0, 1.0))


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
    rounded to the nearer of 0 and 1, so play them on Bernoulli losses.

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
    release = _of_sum("gaussian_total", jnp.sqrt(variance))
    return SumNoise(release, 0.25, variance, 0.0, clipped_bandit, declared)


def _pure(law, epsilon, delta, declared):
    del delta
    scale = privacy.laplace_scale(1.0, epsilon)  # of a sum of losses, one of which is replaced
    release, feedback = _of_sum("laplace_total", scale), clipped_bandit
    if law == "discrete_laplace":
        release, feedback = _of_sum("discrete_laplace_total", scale), bits
        declared = _declared(declared, "distributed", "discrete Laplace mechanisms")
    # For both laws ln E e^(l z) is at most -ln(1 - (l / epsilon)^2).
    return SumNoise(release, 0.25, 2.0 * scale * scale, scale, feedback, declared)


def _approximate(law, epsilon, delta, declared):
    declared = declared._replace(delta=delta)
    if law == "gaussian":
        scale = privacy.gaussian_scale(1.0, epsilon, delta)
        declared = _declared(declared, "central", "Gaussian mechanisms")
        declared = declared._replace(rho=0.5 / (scale * scale))
        release = _of_sum("gaussian_total", scale)
        return SumNoise(release, 0.25, scale * scale, 0.0, clipped_bandit, declared)
    amount = privacy.integer_noise(law, epsilon, delta)
    if law == "discrete_gaussian":
        declared = _declared(declared, "central", "discrete Gaussian mechanisms")
        declared = declared._replace(rho=0.5 / (amount * amount))
        release = _of_sum("discrete_gaussian_total", amount)
        return SumNoise(release, 0.25, amount * amount, 0.0, bits, declared)
    if law == "binomial":
        declared = _declared(declared, "shuffle", "binomial mechanisms")
        release = _of_sum("binomial_total", amount.astype(jnp.int32))
        return SumNoise(release, 0.25, 0.25 * amount, 0.0, bits, declared)
    declared = _declared(declared, "distributed", "Skellam mechanisms")
    release = _of_sum("skellam_total", amount)
    # cosh(l) - 1 <= l^2 / (2 (1 - l / 3)).
    tail = jnp.where(amount > 0.0, 1.0 / 3.0, 0.0)
    return SumNoise(release, 0.25, amount, tail, bits, declared)


def _local(law, epsilon, delta, declared):
    del delta
    scale = privacy.laplace_scale(1.0, epsilon)
    if law == "local_laplace":

        def release(key, losses, count):
            return noise.laplace_sum(key, losses, scale, count)

        accountant = "Laplace mechanism on each observed loss"
        declared = declared._replace(model="local", accountant=accountant)
        proxy = 0.25 + 2.0 * scale * scale
        return SumNoise(release, proxy, 0.0, scale, clipped_bandit, declared)
    # Let p be the probability of a flip. Then 1 / (1 - 2p) is 1 / tanh(epsilon / 2).
    stretch = 1.0 / jnp.tanh(0.5 * jnp.asarray(epsilon, jnp.float32))

    def debiased(key, losses, count):
        ones = noise.randomized_response(key, losses.whole, scale, count)
        excess = (2 * ones - count).astype(jnp.float32)  # Where 2 * ones wraps, this wraps back.
        return exact_sums.shifted(exact_sums.repeated(0.5, count), 0.5 * stretch * excess)

    declared = declared._replace(
        model="local",
        released="randomized losses 1..T",
        accountant="randomized response, each loss",
    )
    return SumNoise(debiased, 0.25 * stretch * stretch, 0.0, 0.0, bits, declared)


def _of_sum(name, amount) -> Callable:
    """The release of a sum by one draw of :mod:`dpjax.noise`, however many losses it has."""

    def release(key, losses, count) -> ExactSum:
        del count
        return getattr(noise, name)(key, losses, amount)

    return release


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
