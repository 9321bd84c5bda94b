"""Shared by learners over arms: each arm's loss sum, posterior draws, and declarations."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy, _check
from dpjax.feedback import bandit
from dpjax.maths import exact_sums, laws
from dpjax.maths.exact_sums import ExactSum


class ArmSums(NamedTuple):
    """Pulls and loss sums of each arm."""

    pulls: Array  # (K,) int32
    losses: ExactSum  # (K,)


def no_losses(arms: int) -> ArmSums:
    """The sums before the first round."""
    return ArmSums(jnp.zeros(arms, jnp.int32), exact_sums.nothing((arms,)))


def record(sums: ArmSums, arm: Array, loss: Array) -> ArmSums:
    """Add a loss in [0, 1] of an arm to the sums."""
    losses = exact_sums.add_at(sums.losses, arm, exact_sums.of(loss))
    return ArmSums(sums.pulls.at[arm].add(1), losses)


def losses_of(sums: ArmSums, arm: Array) -> ExactSum:
    """The sum of the losses of one arm, ()."""
    return jax.tree.map(lambda leaf: leaf[arm], sums.losses)


def totals(sums: ArmSums):
    """The sums of the losses, (K,) float32."""
    return exact_sums.to_float(sums.losses)


def means(sums: ArmSums):
    """The mean losses, (K,) float32. The mean of an arm that was not pulled is 0."""
    return totals(sums) / jnp.maximum(sums.pulls, 1).astype(jnp.float32)


def posterior_draws(key: Array, losses: Array, gains: Array, prior: Number = 1.0):
    """ln(theta / (1 - theta)) for theta ~ Beta(losses + prior, gains + prior), (K,).

    A Beta variable is X / (X + Y) for two Gamma variables X and Y. One call that draws both is
    cheaper than two calls, and ln X - ln Y orders the arms even if theta rounds to 0 or 1.
    """
    one, other = laws.log_gamma(key, jnp.stack([losses, gains]) + prior)
    return one - other


def check_delta(horizon: int, delta: Number | None):
    """Check ``delta``, and replace None by T^-2."""
    delta = privacy.default_delta(horizon) if delta is None else delta
    _check.delta(delta)
    return delta


def check_delta_of(noise: str, pure: bool, delta: Number | None) -> None:
    """Raise if delta is given for pure-DP noise, or missing for other noise."""
    if not pure and delta is None:
        raise ValueError(f"delta must be given if noise is {noise}, which is never pure DP")
    if pure and delta is not None:
        raise ValueError(f"delta must be left out if noise is {noise}, which is pure DP")
    if delta is not None:
        _check.delta(delta)


def check_failure(failure: Number | None, default: Number | None = None):
    """The probability of failure, () float32 in (0, 1), or the default if it is None."""
    failure = default if failure is None else failure
    _check.inside(0.0, 1.0, failure=failure)
    return jnp.asarray(failure, jnp.float32)


def one_release(
    epsilon: Number, accountant: str = "parallel composition of Laplace mechanisms"
) -> Privacy:
    """The declaration of a learner in which each loss enters exactly one epsilon-DP release.

    Given the releases so far, a round belongs to the same batch for both neighbours. A replaced
    loss then changes one released sum, by at most 1.
    """
    return Privacy(epsilon=epsilon, accountant=accountant)


def gaussian_draws(square, horizon, delta, accountant="composition of Gaussian mechanisms"):
    """The declaration of Gaussian draws: rho = mu^2 / 2, and the epsilon at delta.

    Args:
      square: mu^2, the largest sum of (shift / deviation)^2 over the draws affected by a replaced
        loss. It may be 0 or inf.
      horizon: T.
      delta: the delta at which epsilon is declared; None for T^-2.
      accountant: as in Privacy.
    """
    delta = check_delta(horizon, delta)
    epsilon = privacy.gaussian_epsilon(jnp.sqrt(square), delta)
    return Privacy(epsilon=epsilon, delta=delta, rho=0.5 * square, accountant=accountant)


class SumsState(NamedTuple):
    round: Array  # () int32, rounds so far
    sums: ArmSums  # of the losses of each arm
    arm: Array  # () int32, the current arm


def learner_of_sums(horizon: int, arms: int, choose: Callable, privacy: Privacy) -> Learner:
    """A bandit learner whose next arm is choose(key, rounds so far, sums of the losses so far)."""

    def play(key, t, sums):
        arm = choose(key, t, sums)
        return SumsState(t, sums, arm), arm

    def init(key):
        return play(key, jnp.zeros((), jnp.int32), no_losses(arms))

    def step(state, key, loss):
        return play(key, state.round + 1, record(state.sums, state.arm, loss))

    return Learner(init, step, bandit, Arms(arms), horizon, privacy)
