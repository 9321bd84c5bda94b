"""UCB1 and KL-UCB: confidence bounds without privacy."""

import jax.numpy as jnp

from dpjax.core import Learner, Number, Privacy
from dpjax.learners.parts import arm_sums
from dpjax.maths import divergences
from dpjax.maths.laws import smallest


def ucb1(horizon: int, arms: int, *, exploration: Number = 4.0) -> Learner:
    """UCB1: play the arm with the smallest mean_a - sqrt(alpha ln t / (2 n_a)).

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      arms: K, at least 2. Each is first played once, in random order.
      exploration: alpha, positive. A bound on n_a losses fails with probability at most t^-alpha.
        The paper's 4 gives sqrt(2 ln t / n_a).

    Returns:
      A Learner with bandit feedback.

    Privacy: none.

    Regret: at most 8 sum ln T / Delta_a + (1 + pi^2 / 3) sum Delta_a for alpha = 4.

    Reference: Auer, Cesa-Bianchi & Fischer, "Finite-time analysis of the multiarmed bandit
    problem", 2002, Theorem 1, whose t is the number of played rounds.

    Examples:
      >>> learner = learners.ucb1(1000, 2)
      >>> learner.privacy.epsilon, round(float(bounds.ucb1(1000, [0.4, 0.6])))  # its regret
      (inf, 277)
    """

    def bound(mean, pulls, played):
        return mean - jnp.sqrt(0.5 * exploration * jnp.log(played) / pulls)

    return _optimism(horizon, arms, bound)


def kl_ucb(horizon: int, arms: int, *, exploration: Number = 1.0) -> Learner:
    """KL-UCB: play the arm with the least q such that kl(mean_a, q) <= alpha ln t / n_a.

    Args:
      horizon: T, rounds. Only the end of the game depends on it.
      arms: K, at least 2. Each is first played once, in random order.
      exploration: alpha, positive. A bound on n_a losses fails with probability at most
        t^-alpha.

    Returns:
      A Learner with bandit feedback.

    Privacy: none.

    Regret: asymptotically sum Delta_a ln T / kl(mu_a, mu*) for alpha = 1. No learner can do better
    (:func:`dpjax.bounds.lai_robbins`).

    Reference: Garivier & Cappe, "The KL-UCB algorithm for bounded stochastic bandits and beyond",
    2011, with the constant c = 0 that they recommend in practice.

    Examples:
      >>> learner = learners.kl_ucb(1000, 2)
      >>> learner.privacy.accountant
      'none'
      >>> [round(float(x(1000, [0.1, 0.3]))) for x in (bounds.lai_robbins, bounds.ucb1)]  # regret
      [9, 277]
    """

    def bound(mean, pulls, played):
        return divergences.kl_lower(mean, exploration * jnp.log(played) / pulls)

    return _optimism(horizon, arms, bound)


def _optimism(horizon, arms, bound) -> Learner:
    """Play the arm with the smallest bound(means, pulls, rounds played), (K,); random ties."""

    def choose(key, t, sums):
        bounds = bound(
            arm_sums.means(sums),
            jnp.maximum(sums.pulls, 1).astype(jnp.float32),
            jnp.maximum(t, 1).astype(jnp.float32),
        )
        return smallest(key, jnp.where(sums.pulls == 0, -jnp.inf, bounds))

    return arm_sums.learner_of_sums(horizon, arms, choose, Privacy())
