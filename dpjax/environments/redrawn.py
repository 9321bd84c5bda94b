"""The fully oblivious adversary, and the oblivious one, which repeats its losses."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.core import Arms, Array, Environment, Number, Outcome, _check
from dpjax.environments.arms import best_fixed_arm


def _draw_round(key, arms, half_width):
    """The losses (K,) of a round with fresh mean gains; that of arm 1 is from a higher interval."""
    means_key, gains_key = jr.split(key)
    lowest = jnp.where(jnp.arange(arms) == 0, 0.5, 0.5 - half_width)
    means = lowest + 2.0 * half_width * jr.uniform(means_key, (arms,))
    return (jr.uniform(gains_key, (arms,)) >= means).astype(jnp.float32)


def fully_oblivious(arms: int, *, half_width: Number = 0.05) -> Environment:
    """Independent rounds, each with freshly drawn means of the arms.

    The mean gain is p ~ U[1/2, 1/2 + 2e] for the first arm and p ~ U[1/2 - e, 1/2 + e] for the
    others. Each gain is then Bernoulli(p). Because p is fresh in each round, the losses have the
    law of ``bernoulli([1/2 - e, 1/2, ...])``.

    Args:
      arms: K, at least 2.
      half_width: e in [0, 1/4]; may be traced.

    Returns:
      An Environment; regret is against the best arm on the drawn losses.

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017, fully oblivious adversary (its intervals are reconstructed).

    Examples:
      >>> environment = environments.fully_oblivious(3)
      >>> tally = jnp.array([2.0, -1.0, 0.0])  # the suffered losses minus those of each arm
      >>> float(environment.regret((), tally))
      2.0
    """
    arms = _check.arms(arms)
    _check.between(0.0, 0.25, half_width=half_width)

    def step(state, key, arm):
        loss = _draw_round(key, arms, half_width)
        return state, Outcome(loss, loss[arm] - loss)

    return Environment(init=lambda key: (), step=step, regret=best_fixed_arm, action_set=Arms(arms))


class ObliviousState(NamedTuple):
    round: Array  # () int32, the next round
    loss: Array  # (K,) of the last round


def oblivious(arms: int, period: int = 200, *, half_width: Number = 0.05) -> Environment:
    """The fully oblivious adversary with each draw of losses repeated for many rounds.

    Losses are redrawn if t is a multiple of ``period`` and repeated otherwise. The rounds before
    the first multiple share a separate draw, because the paper does not specify them. There are so
    few independent draws that the best arm on the losses often is not the arm with the best mean.

    Args:
      arms: K, at least 2.
      period: rounds between draws, at least 1.
      half_width: e in [0, 1/4]; may be traced.

    Returns:
      An Environment; regret is against the best arm on the drawn losses.

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017, oblivious adversary.

    Examples:
      >>> environment, key = environments.oblivious(3, period=100), jax.random.key(0)
      >>> first = jax.jit(environment.init)(key)
      >>> second, outcome = jax.jit(environment.step)(first, key, 0)
      >>> bool((outcome.loss == first.loss).all())  # drawn before round 1
      True
    """
    arms = _check.arms(arms)
    period = _check.size(1, period=period)
    _check.between(0.0, 0.25, half_width=half_width)

    def init(key):
        return ObliviousState(jnp.ones((), jnp.int32), _draw_round(key, arms, half_width))

    def step(state, key, arm):
        loss = lax.cond(
            state.round % period == 0,
            lambda: _draw_round(key, arms, half_width),
            lambda: state.loss,
        )
        return ObliviousState(state.round + 1, loss), Outcome(loss, loss[arm] - loss)

    return Environment(init=init, step=step, regret=best_fixed_arm, action_set=Arms(arms))
