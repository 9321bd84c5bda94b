"""Anytime-Lazy-UCB and Lazy-DP-TS: an arm's mean is replaced when its losses have doubled."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import Arms, Array, Learner, Number, _check
from dpjax.feedback import bandit
from dpjax.learners.parts import arm_sums
from dpjax.learners.parts.doubling_means import DoublingMeans, no_means, renewed
from dpjax.maths.laws import smallest


class LazyState(NamedTuple):
    round: Array  # () int32, t
    kept: DoublingMeans  # noisy means of O losses, and the losses observed since
    arm: Array  # () int32, the current arm


def lazy_ucb(
    horizon: int, arms: int, *, epsilon: Number, exploration: Number = 3.0, log_base: Number = 2.0
) -> Learner:
    """Anytime-Lazy-UCB: UCB on private means of recent losses, replaced at doubling times.

    Each arm is first played once. The losses of an arm are collected in a buffer. Let O_a be the
    number of losses in the mean of arm a. When the buffer holds 2 O_a losses, their mean with
    Laplace noise replaces the old one, and O_a doubles. Each round plays the arm with the smallest

        mean_a - sqrt(alpha log t / O_a) - alpha log t / (epsilon O_a).

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      exploration: alpha, positive; the paper has 3. At the same alpha the term for the losses' own
        noise is sqrt(2) times that of :func:`adap_ucb`, apart from the base of the logarithm.
      log_base: base of log t, above 1. Base 2 reproduces the printed figures of Hu & Hegde 2022.

    Returns:
      A Learner with bandit feedback.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. Each loss is in
    one released mean. Each round chooses the arm anew from the current released means.

    Regret: O(sum ln T / min(epsilon, Delta_a)) for alpha = 3.

    Reference: Hu, Huang & Mehta, "Near-optimal algorithms for private online learning in a
    stochastic environment", 2021, as recalled.

    Examples:
      >>> learner = learners.lazy_ucb(1000, 4, epsilon=0.25)
      >>> users = combinators.user_level(learner, rounds_per_user=4)
      >>> learner.privacy.epsilon, float(users.privacy.epsilon)
      (0.25, 1.0)
    """

    def choose(key, means, samples, log_t):
        bonus = exploration * log_t / epsilon / samples
        return smallest(key, means - jnp.sqrt(exploration * log_t / samples) - bonus)

    return _lazy(horizon, arms, epsilon, log_base, choose)


def lazy_thompson(
    horizon: int, arms: int, *, epsilon: Number, exploration: Number = 3.0, log_base: Number = 2.0
) -> Learner:
    """Lazy-DP-TS: Thompson sampling on private means that are replaced at doubling times.

    The means are those of :func:`lazy_ucb`. With m_a = mean_a - alpha log t / (epsilon O_a),
    clipped to [0, 1], each round draws for each arm

        theta_a ~ Beta(m_a O_a + 1, (1 - m_a) O_a + 1)

    and plays the arm with the smallest draw.

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise but keeps the posterior draws.
      exploration: alpha, positive; the paper has 3. It has no effect at epsilon = inf.
      log_base: base of log t, above 1. The paper's text has base 2; base e reproduces its figures.

    Returns:
      A Learner with bandit feedback.

    Privacy: epsilon-DP as for :func:`lazy_ucb`, which releases the same means.

    Regret: O(sum ln T / min(epsilon, Delta_a)) for alpha = 3.

    Reference: Hu & Hegde, "Near-optimal Thompson sampling-based algorithms for differentially
    private stochastic bandits", 2022.

    Examples:
      >>> made = [learners.lazy_thompson(1000, 4, epsilon=x) for x in (0.5, float("inf"))]
      >>> [x.privacy.epsilon for x in made]  # nothing is declared for the posterior draws
      [0.5, inf]
    """

    def choose(key, means, samples, log_t):
        optimistic = jnp.clip(means - exploration * log_t / epsilon / samples, 0.0, 1.0)
        draws = arm_sums.posterior_draws(key, optimistic * samples, (1.0 - optimistic) * samples)
        return jnp.argmin(draws).astype(jnp.int32)

    return _lazy(horizon, arms, epsilon, log_base, choose)


def _lazy(horizon, arms, epsilon, log_base, choose) -> Learner:
    """Play choose: (key, means, samples, log t) -> arm, on lazily replaced private means."""
    _check.inside(1.0, jnp.inf, log_base=log_base)
    scale = privacy.laplace_scale(1.0, epsilon)  # for a sum of losses with one replaced

    def init(key):
        del key
        zero = jnp.zeros((), jnp.int32)
        return LazyState(zero, no_means(arms), zero), zero

    def step(state, key, loss):
        noise_key, choice_key = jax.random.split(key)
        kept, _ = renewed(
            state.kept, state.arm, loss, lambda total: noise.laplace.total(noise_key, total, scale)
        )
        t = state.round + 1
        log_t = jnp.log(t.astype(jnp.float32) + 1.0) / jnp.log(log_base)  # of the next round
        samples = jnp.maximum(kept.samples, 1).astype(jnp.float32)
        arm = jnp.where(t < arms, t, choose(choice_key, kept.means, samples, log_t))
        return LazyState(t, kept, arm), arm

    return Learner(init, step, bandit, Arms(arms), horizon, arm_sums.one_release(epsilon))
