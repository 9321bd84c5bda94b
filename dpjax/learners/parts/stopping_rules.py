"""Rules for stopping and recommending an arm: ours, and those of AdaP-TT.

Our rules err with probability at most ``failure``, whichever arms are played. The releases of an
arm are fixed random variables, so a union bound over the phases of both arms of a pair suffices.
The pair of phases j and j', counted from the first that can pass, has the share failure / ((K - 1)
j (j + 1) j' (j' + 1)). The negative logarithm of this share is the exponent of the test.
"""

import jax.numpy as jnp

from dpjax.core import Number
from dpjax.learners.parts import identification
from dpjax.learners.parts.sum_noise import SumNoise
from dpjax.maths import sampling_phases, transport
from dpjax.maths.clipping import within


def hoeffding(
    arms: int, epsilon: Number, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """Stop when every other mean exceeds the best by Hoeffding's radius, with Laplace noise.

    See :func:`dpjax.maths.transport.hoeffding_radius`. The means are those of losses in [0, 1].
    """
    least = sampling_phases.first_phase(failure, arms, epsilon, grid.ratio, grid.forget)

    def passes(phases, best):
        pair = _pairs(arms, failure, grid, least, phases, best)
        return phases.means - phases.means[best] >= transport.hoeffding_radius(*pair, epsilon)

    return identification.all_pairs(least, passes)


def chernoff(
    arms: int, law: SumNoise, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """Like :func:`hoeffding`, with any :class:`SumNoise`, by Chernoff's bound on a pair of means.

    The rule is not evaluated before the first phase in which the radius of one mean is at most 1.
    """
    least = sampling_phases.first_phase_of(
        law.least_rounds(1.0, jnp.log((arms - 1.0) / failure)), grid.ratio, grid.forget
    )

    def passes(phases, best):
        n, m, *draws, exponent = _pairs(arms, failure, grid, least, phases, best)
        counts = jnp.stack([jnp.broadcast_to(n, m.shape), m], axis=-1)
        draws = jnp.stack([jnp.broadcast_to(draws[0], m.shape), draws[1]], axis=-1)
        radius = law.error(1.0 / counts, counts, draws.astype(jnp.float32), exponent)
        return phases.means - phases.means[best] >= radius

    return identification.all_pairs(least, passes)


def cost_of_transport(
    arms: int, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """Stop when the transport cost of making another arm the best is large enough for every other.

    The costs are those of :func:`dpjax.maths.transport.transport_cost` without noise. They are for
    Bernoulli losses. For other losses in [0, 1], whose sums deviate less, the rule does not err
    more.
    """
    return _costly(arms, jnp.inf, failure, grid, lambda exponent, draws: _plain(exponent))


def private_cost_of_transport(
    arms: int, epsilon: Number, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """Like :func:`cost_of_transport`, on means with Laplace noise, clipped to [0, 1].

    The threshold grows with the number of draws in the sums, not with their scale. Without noise it
    is smaller.
    """

    def threshold(exponent, draws):
        if grid.forget:
            noisy = transport.transport_threshold(exponent)
        else:
            noisy = transport.transport_threshold_kept(exponent, jnp.maximum(*draws))
        return jnp.where(jnp.isinf(epsilon), _plain(exponent), noisy)

    return _costly(arms, epsilon, failure, grid, threshold)


def released(
    arms: int, epsilon: Number, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """The rule in the public code of AdaP-TT, which errs more often than stated.

    It tests the optimistic arm of the sampling rule against all others, and recommends the arm with
    the smallest private mean. The number of tests is not accounted for.
    """
    del arms, grid
    log = jnp.log(1.0 / failure)

    def verdict(key, phases):
        tested = identification.optimistic_arm(key, phases, identification.laplace_bounds(epsilon))
        statistic, n, m, noise = _likelihood_ratios(phases, tested, log, epsilon)
        threshold = log + jnp.log1p(jnp.log(n)) + jnp.log1p(jnp.log(m)) + noise
        itself = jnp.arange(m.shape[0]) == tested
        return jnp.all(itself | (statistic >= threshold)), identification.best_arm(key, phases)

    return identification.StoppingRule(jnp.int32(1), verdict)


def printed(
    arms: int, epsilon: Number, failure: Number, grid: identification.Grid
) -> identification.StoppingRule:
    """The threshold of the paper of AdaP-TT, as reconstructed.

    With k the larger number of phases of a pair, zeta = pi^2 / 6 and C(x) = x + ln x, a likelihood
    ratio must reach 2 C(ln((K - 1) zeta k^2 / failure) / 2) + 2 ln(4 + ln n)
    + 2 ln(4 + ln m) + (1 / n + 1 / m) (ln(2 K zeta k^2 / failure) / epsilon)^2.
    """
    del grid

    def passes(phases, best):
        phase = jnp.maximum(phases.complete[best], phases.complete).astype(jnp.float32)
        union = jnp.log(jnp.pi**2 / 6.0 * phase**2 / failure)
        statistic, n, m, noise = _likelihood_ratios(
            phases, best, union + jnp.log(2.0 * arms), epsilon
        )
        half = (union + jnp.log(arms - 1.0)) / 2.0
        losses = 2.0 * (half + jnp.log(half))
        slow = 2.0 * jnp.log(4.0 + jnp.log(n)) + 2.0 * jnp.log(4.0 + jnp.log(m))
        return statistic >= losses + slow + noise

    return identification.all_pairs(jnp.int32(1), passes)


def _plain(exponent):
    return transport.transport_threshold_plain(exponent)


def _costly(arms, epsilon, failure, grid, threshold) -> identification.StoppingRule:
    least = sampling_phases.first_phase(failure, arms, epsilon, grid.ratio, grid.forget)

    def passes(phases, best):
        n, m, *draws, exponent = _pairs(arms, failure, grid, least, phases, best)
        means = within(phases.means, 0.0, 1.0)
        cost = transport.transport_cost(means[best], means, n, m, epsilon)
        return cost >= threshold(exponent, draws)

    return identification.all_pairs(least, passes)


def _pairs(arms, failure, grid, least, phases, best):
    """For the best arm () and each arm (K,): samples, draws in their sums, and the exponents."""
    samples = jnp.maximum(phases.samples, 1).astype(jnp.float32)
    draws = jnp.ones_like(phases.complete) if grid.forget else jnp.maximum(phases.complete, 1)
    place = jnp.maximum(phases.complete - least + 1, 1)
    exponent = sampling_phases.phase_exponent(failure, arms, place[best], place)
    return samples[best], samples, draws[best], draws, exponent


def _likelihood_ratios(phases, arm, log, epsilon):
    """D^2 / (2 (1 / n + 1 / m)) (K,), n (), m (K,), and the noise's part of the threshold (K,)."""
    m = jnp.maximum(phases.samples, 1).astype(jnp.float32)
    n = m[arm]
    inverse = 1.0 / n + 1.0 / m
    gap = phases.means - phases.means[arm]
    return 0.5 * gap * gap / inverse, n, m, inverse * jnp.square(log / epsilon)
