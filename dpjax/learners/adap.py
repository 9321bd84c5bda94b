"""AdaP-UCB, AdaP-KLUCB and AdaC-UCB: episodes that double an arm's pulls, on fresh losses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Number
from dpjax.learners.parts.growing_batches import growing_batches
from dpjax.learners.parts.sum_noise import SumNoise, sum_noise, zcdp_noise
from dpjax.maths import divergences, exact_sums


class AdapReport(NamedTuple):
    episodes: Array  # () int32, completed episodes


def adap_ucb(
    horizon: int, arms: int, *, epsilon: Number, exploration: Number = 3.1
) -> BatchLearner:
    """AdaP-UCB: play the arm with the best private bound until its pulls have doubled.

    The private mean mean_a uses only the n_a losses of arm a's latest episode, with Laplace noise.
    Each arm is first played once. Then an episode that starts in round t plays the arm with the
    smallest

        mean_a - sqrt(alpha ln t / (2 n_a)) - alpha ln t / (epsilon n_a),

    with ties broken at random.

    Args:
      horizon: T, rounds. Only the end of the last episode depends on it.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      exploration: alpha, positive; the analysis requires more than 3.

    Returns:
      A BatchLearner with bandit feedback.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. Each loss is in
    one released mean of n_a losses, with sensitivity 1 / n_a. (Lemma 1 of the submitted version
    divides by n_a - 1.) Noise is drawn once for each episode.

    Regret: at most sum_a (16 alpha ln T / min(Delta_a, epsilon) + alpha / (alpha - 3)).

    Reference: Azize & Basu, "When privacy meets partial information: a refined analysis of
    differentially private bandits", 2022. The submission has ln(2t) under the square root, which we
    read as ln t.

    Examples:
      >>> learner = learners.adap_ucb(1000, 4, epsilon=0.5)
      >>> state, batch = learner.init(jax.random.key(0))
      >>> int(batch.rounds), learner.privacy.epsilon  # each arm plays once at first
      (1, 0.5)
    """

    def bound(mean, samples, log_t):
        width = jnp.sqrt(exploration * log_t / (2.0 * samples))
        return mean - width - exploration * log_t / epsilon / samples

    return _episodes(horizon, arms, sum_noise("laplace", epsilon, None), bound)


def adap_klucb(
    horizon: int, arms: int, *, epsilon: Number, exploration: Number = 3.1
) -> BatchLearner:
    """AdaP-KLUCB: AdaP-UCB with the confidence bound of the Kullback-Leibler divergence.

    With p_a = mean_a - alpha ln t / (epsilon n_a), clipped to [0, 1], the bound of arm a is the
    smallest q such that kl(p_a, q) <= alpha ln t / n_a (:func:`dpjax.maths.divergences.kl_lower`).
    If epsilon is small, many bounds are 0 at first. Ties are broken at random.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      exploration: alpha, positive; the analysis requires more than 3.

    Returns:
      A BatchLearner with bandit feedback.

    Privacy: epsilon-DP as for :func:`adap_ucb`, which releases the same means.

    Regret: O(sum Delta_a ln T / min(kl(mu_a, mu*), epsilon Delta_a)). The paper does not print the
    constants.

    Reference: Azize & Basu 2022.

    Examples:
      >>> declared = learners.adap_klucb(1000, 4, epsilon=0.5).privacy
      >>> declared.epsilon, declared.delta, declared.accountant
      (0.5, 0.0, 'parallel composition of Laplace mechanisms')
    """

    def bound(mean, samples, log_t):
        optimistic = jnp.clip(mean - exploration * log_t / epsilon / samples, 0.0, 1.0)
        return divergences.kl_lower(optimistic, exploration * log_t / samples)

    return _episodes(horizon, arms, sum_noise("laplace", epsilon, None), bound)


def adac_ucb(
    horizon: int, arms: int, *, rho: Number, delta: Number | None = None, exploration: Number = 3.1
) -> BatchLearner:
    """AdaC-UCB: AdaP-UCB with Gaussian noise, for zero-concentrated differential privacy.

    Episodes and means are those of :func:`adap_ucb`, with noise of variance 1 / (2 rho) on the loss
    sum of an episode. An episode that starts in round t plays the arm with the smallest

        mean_a - sqrt(beta ln t (1 / (2 n_a) + 1 / (rho n_a^2))).

    Args:
      horizon: T, rounds. Only the end of the last episode and the default delta depend on it.
      arms: K, at least 2.
      rho: zCDP parameter; inf adds no noise. An epsilon-DP learner has rho = epsilon^2 / 2.
      delta: the delta at which epsilon is declared; it changes nothing else. Default T^-2.
      exploration: beta, positive; the analysis requires more than 3.

    Returns:
      A BatchLearner with bandit feedback.

    Privacy: rho-zCDP and sqrt(2 rho)-GDP for replacement of one round. Released values: actions
    1..T. Each loss is in one released sum, of sensitivity 1. The epsilon at delta is that of
    sqrt(2 rho)-GDP.

    Regret: at most sum_a (max(16 beta ln T / Delta_a, 8 sqrt(2 beta ln T / rho)) +
    beta / (beta - 3)), with our own constants. So privacy costs sqrt(ln T / rho) for each
    arm, compared with ln T / epsilon in :func:`adap_ucb`.

    Reference: Azize & Basu, "Concentrated differential privacy for bandits", 2023. The constants
    of the bound are our own derivation.

    Examples:
      >>> made = [learners.adac_ucb(1000, 4, rho=0.5, delta=x) for x in (1e-3, 1e-6)]
      >>> [round(float(x.privacy.epsilon), 2) for x in made]  # the same noise
      [3.14, 4.89]
    """
    law = zcdp_noise(horizon, rho, delta)

    def bound(mean, samples, log_t):
        variance = law.per_loss / samples + law.variance / samples / samples
        return mean - jnp.sqrt(2.0 * (exploration * log_t) * variance)

    return _episodes(horizon, arms, law, bound)


def _episodes(horizon, arms, law: SumNoise, bound) -> BatchLearner:
    """Play the arm with the smallest bound(means, samples, ln t), (K,), in doubling episodes."""

    def mean(key, before, total, rounds):
        del before
        return exact_sums.mean(law.release(key, total, rounds), rounds)

    def index(means, pulls, log_t):
        samples = jnp.maximum(pulls // 2, 1).astype(jnp.float32)  # of the latest episode
        return bound(means, samples, log_t)

    def episodes(state):
        # Episodes have 1, 1, 2, 4, ... rounds, so an arm with N pulls has had log2(N) + 1 episodes.
        return AdapReport(jnp.sum(32 - jax.lax.clz(state.pulls), dtype=jnp.int32))

    return growing_batches(horizon, arms, 2.0, mean, index, law.privacy, episodes)
