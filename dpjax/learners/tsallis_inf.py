"""Tsallis-INF: follow the regularized leader with the Tsallis entropy of order 1/2."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from dpjax import _check, noise
from dpjax.core import Arms, Array, Learner, Privacy
from dpjax.feedback import bandit
from dpjax.learners.parts.arm_sums import ClippedReport
from dpjax.maths.clipping import clip_loss

# Of thousands of estimates (equal, far apart, in two groups) the worst sum after 6 steps is off by
# 1e-15 at K = 100, by 7e-13 at K = 10^4.
_NEWTON_STEPS = 6


class TsallisInfState(NamedTuple):
    estimates: Array  # (K,) sums of estimated losses, shifted so that the least is 0
    arm: Array  # () int32, the arm in play
    probability: Array  # () float32, with which it was drawn
    round: Array  # () int32, that is being played, from 1
    clipped: Array  # () int32


def probabilities(estimates, rate):
    """The minimizer p of rate <L, p> - 2 sum_i sqrt(p_i): p_i = (rate L_i + m)^-2, sum 1.

    For estimates L (K,) whose least is 0. The root m lies in [1, sqrt(K)]; it is found by Newton's
    method on (sum_i p_i)^(-1/2), which is concave in m and nearly linear: from 1 its steps increase
    and never pass the root.
    """
    scaled = rate * estimates

    def newton(_, m):
        x = 1.0 / (scaled + m)
        total = jnp.sum(x * x)
        return m + total * (jnp.sqrt(total) - 1.0) / jnp.sum(x * x * x)

    m = lax.fori_loop(0, _NEWTON_STEPS, newton, jnp.ones((), jnp.float32), unroll=True)
    p = 1.0 / jnp.square(scaled + m)
    return p / jnp.sum(p)


def tsallis_inf(horizon: int, arms: int) -> Learner:
    """Tsallis-INF: the minimax rate of non-private bandits, with no logarithm.

    With estimates L (K,) of the sums of losses, round t draws an arm from

        p = argmin <L, p> - (4 / eta_t) sum_i (sqrt(p_i) - p_i / 2),     eta_t = 2 / sqrt(t),

    that is p_i = 4 (eta_t (L_i - z))^-2, and adds l_a / p_a to the estimate of the arm played.

    Args:
      horizon: T, rounds; the algorithm does not use it.
      arms: K, at least 2.

    Returns:
      A Learner with bandit feedback. Losses outside [0, 1] are clipped and counted.

    Privacy: none is declared.

    Regret: at most 4 sqrt(K T) + 1 in expectation (oblivious losses).

    Reference: Zimmert & Seldin, "Tsallis-INF: an optimal algorithm for stochastic and adversarial
    bandits", 2021, Theorem 1.
    """
    horizon = _check.size(1, horizon=horizon)
    arms = _check.arms(arms)

    def draw(key, estimates, t, clipped):
        # eta_t / 2, since 4 (eta (L - z))^-2 = ((eta / 2) (L - z))^-2.
        p = probabilities(estimates, 1.0 / jnp.sqrt(t.astype(jnp.float32)))
        arm = noise.choose(key, p)
        return TsallisInfState(estimates, arm, p[arm], t, clipped), arm

    def init(key):
        zero = jnp.zeros((), jnp.int32)
        return draw(key, jnp.zeros(arms, jnp.float32), zero + 1, zero)

    def step(state, key, loss):
        inside, clipped = clip_loss(loss, state.clipped)
        estimates = add(state.estimates, state.arm, inside / state.probability)
        return draw(key, estimates, state.round + 1, clipped)

    return Learner(
        init=init,
        step=step,
        feedback=bandit,
        action_set=Arms(arms),
        horizon=horizon,
        privacy=Privacy(),
        report=lambda state: ClippedReport(state.clipped),
    )


def add(estimates, arm, value):
    """``value`` more for one arm, shifted so that the least estimate is 0."""
    moved = estimates.at[arm].add(value)
    return moved - jnp.min(moved)
