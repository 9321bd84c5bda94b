"""DP-SE: successive elimination in epochs, each on fresh losses."""

from typing import Literal

import jax.numpy as jnp

from dpjax.core import BatchLearner, Number
from dpjax.learners.parts.arm_sums import check_failure
from dpjax.learners.parts.elimination import elimination_learner
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums
from dpjax.noise import LawName, name_of


def epoch_length(
    epoch: Number, active: Number, epsilon: Number, failure: Number, exploration: Number = 1.0
):
    """R_e for epoch e = 1, 2, ... and |S| active arms, each played ceil(R_e) times.

    It is max(32 A / Delta_e^2, 8 B / (epsilon Delta_e)) + 1 with Delta_e = 2^-e,
    A = alpha ln(8 |S| e^2 / beta) and B = alpha ln(4 |S| e^2 / beta). By default alpha is 1.
    """
    first, second = _logarithms(epoch, active, failure, exploration)
    gap = jnp.exp2(-jnp.asarray(epoch, jnp.float32))
    return jnp.maximum(32.0 * first / (gap * gap), 8.0 * second / (epsilon * gap)) + 1.0


def epoch_radius(
    epoch: Number, active: Number, epsilon: Number, failure: Number, exploration: Number = 1.0
):
    """h_e + c_e, a bound on the error of a noisy mean of epoch e, unless the epoch fails.

    The losses contribute h_e = sqrt(A / (2 R_e)) and the noise c_e = B / (epsilon R_e), with A and
    B as in :func:`epoch_length`. Their sum is at most Delta_e / 4.
    """
    first, second = _logarithms(epoch, active, failure, exploration)
    rounds = epoch_length(epoch, active, epsilon, failure, exploration)
    return jnp.sqrt(first / (2.0 * rounds)) + second / epsilon / rounds


def _logarithms(epoch, active, failure, exploration):
    """alpha ln(8 |S| e^2 / beta) and alpha ln(4 |S| e^2 / beta)."""
    inverse = jnp.asarray(active, jnp.float32) * jnp.square(jnp.asarray(epoch, jnp.float32))
    inverse = inverse / failure
    return exploration * jnp.log(8.0 * inverse), exploration * jnp.log(4.0 * inverse)


def successive_elimination(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    noise: LawName = "laplace",
    radius: Literal["printed", "chernoff"] | None = None,
    failure: Number | None = None,
    exploration: Number = 1.0,
) -> BatchLearner:
    """DP-SE: play active arms equally often, eliminate the worse, and forget all losses.

    Epoch e targets the gap Delta_e = 2^-e. Each active arm is played ceil(R_e) times, and only the
    mean of these losses is released, with Laplace noise. Arms are eliminated if their noisy mean
    exceeds the smallest by more than 2 (h_e + c_e) (:func:`epoch_length`, :func:`epoch_radius`). If
    one active arm is left, it is played to the end.

    The arms of an epoch are played one after the other, in random order, so that regret does not
    depend on their numbering. If the remaining rounds are too few for an epoch, they are divided
    equally among its arms, up to one round, and no arm is eliminated.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), a plain number, for noise that needs it.
      noise: the law of the noise, which also sets the trust model: "laplace", "gaussian" or
        "discrete_gaussian" (trusted server), "discrete_laplace" or "skellam" (secure sum),
        "binomial" (shuffler), "local_laplace" or "randomized_response" (local model). See
        :func:`dpjax.learners.parts.sum_noise.sum_noise`.
      radius: "printed" is h_e + c_e with the paper's R_e. It is for Laplace noise only, and its
        default. "chernoff", the default for every other law, is Chernoff's bound for losses and
        noise together, at the exponent alpha ln(4 |S| e^2 / beta) (:class:`SumNoise`). R_e is then
        the smallest number of rounds for which this bound is Delta_e / 4. Use "chernoff" to compare
        noise laws.
      failure: beta in (0, 1), the probability that the best arm is eliminated, or that some epoch
        does not eliminate all arms with a gap of at least Delta_e; default 1 / T (1/2 if T is 1).
      exploration: alpha, positive. It multiplies ln(1 / beta) and the logarithms added to it. With
        beta = 1 / T the error bound of a mean of n losses is about sqrt(alpha ln T / (2 n)) + alpha
        ln T / (epsilon n), as in :func:`adap_ucb`. Below 1 the probability of failure may exceed
        beta.

    Returns:
      A BatchLearner with bandit feedback. Its report contains the fields of an
      IdentificationReport, and also epochs and active. The learner stops when one arm is left; with
      probability at least 1 - beta this is the best arm.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. Each loss is in
    one released mean, of sensitivity 1 / ceil(R_e). The batch to which a round belongs is a
    function of earlier releases, so the releases compose in parallel. This requires that losses are
    forgotten: a sum kept for the next epoch would be released twice. Other noise gives (epsilon,
    delta)-DP or another model, as declared in the learner's ``privacy``. If the noise protects only
    bits, each loss is rounded to the nearer of 0 and 1.

    Regret: with probability 1 - beta and alpha = 1, an arm with gap Delta is pulled at most
    sum_{e <= ceil(log2(1 / Delta))} ceil(R_e) times (:func:`dpjax.bounds.successive_elimination`).
    This gives O(sum ln T / Delta + K ln T / epsilon). If the noise is small, epoch e eliminates an
    arm with gap Delta_e / 4 in about half of the runs, so the law of the regret has several modes.

    Reference: Sajed & Sheffet, "An optimal private stochastic-MAB algorithm based on an optimal
    private stopping rule", 2019, in the form of Chari's survey and of two public implementations.

    Examples:
      >>> laws = ("laplace", "discrete_laplace", "randomized_response")
      >>> made = [learners.successive_elimination(1000, 4, epsilon=1.0, noise=x) for x in laws]
      >>> [x.privacy.model for x in made]
      ['central', 'distributed', 'local']
    """
    noise = name_of(noise)
    law = sum_noise(noise, epsilon, delta)
    if radius is None:
        radius = "printed" if noise == "laplace" else "chernoff"
    if radius == "printed" and noise != "laplace":
        raise ValueError("radius: the paper prints one for Laplace noise only")
    failure = check_failure(failure, 1.0 / max(horizon, 2))
    budget = jnp.asarray(epsilon, jnp.float32)

    def epoch_plan(epoch, active):
        """R_e, and the error bound of its means."""
        if radius == "printed":
            return (
                epoch_length(epoch, active, budget, failure, exploration),
                epoch_radius(epoch, active, budget, failure, exploration),
            )
        exponent = _logarithms(epoch, active, failure, exploration)[1]
        quarter = 0.25 * jnp.exp2(-jnp.asarray(epoch, jnp.float32))
        rounds = jnp.maximum(law.least_rounds(quarter, exponent), 1.0)
        return rounds, law.radius(jnp.ceil(rounds), exponent)

    def mean_of(key, epoch, active, total, rounds):
        del epoch, active
        return exact_sums.mean(law.release(key, total, rounds), rounds)

    learner = elimination_learner(horizon, arms, epoch_plan, mean_of, law.privacy)
    return learner._replace(clip=law.clip)
