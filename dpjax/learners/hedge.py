"""Hedge, private through its own sampling."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy
from dpjax.feedback import full
from dpjax.learners.parts.arm_sums import ClippedReport
from dpjax.maths import exact_sums
from dpjax.maths.clipping import clip_loss
from dpjax.maths.exact_sums import ExactSum


class HedgeState(NamedTuple):
    losses: ExactSum  # (K,) L
    clipped: Array  # () int32, losses seen outside [0, 1]


def plain_rate(horizon, arms):
    """eta = sqrt(8 ln K / T), which minimizes the bound ln K / eta + eta T / 8."""
    return jnp.sqrt(8.0 * jnp.log(jnp.float32(arms)) / horizon)


def private_rate(horizon, epsilon, delta):
    """The largest eta that :func:`declared_epsilon` puts at epsilon; inf at epsilon = inf.

    With n = T - 1 draws, the larger of epsilon / (2 n) and sqrt(2 rho / n) for the rho of epsilon.
    """
    draws = jnp.asarray(horizon - 1, jnp.float32)
    by_sum = epsilon / (2.0 * draws)
    by_zcdp = jnp.sqrt(2.0 / draws) / privacy.zcdp_inverse_root(epsilon, delta)
    return jnp.maximum(by_sum, by_zcdp)


def declared_epsilon(horizon, rate, delta):
    """(epsilon, rho) of T rounds at rate eta; the first draw sees no data.

    A replaced round moves each exponent by at most eta, up or down, and by the same amount in
    every later round. A log-ratio of one draw is then u_i - ln sum_j p_j exp(u_j), in a window of
    length max(u) - min(u) <= 2 eta around 0: (2 eta)^2 / 8 = eta^2 / 2 of zCDP. As a bound on the
    log-ratio itself 2 eta cannot be made smaller, it is approached where p_i is.
    """
    draws = jnp.asarray(horizon - 1, jnp.float32)
    rho = privacy.bounded_range_rho(2.0 * rate, draws)
    return jnp.minimum(2.0 * rate * draws, privacy.zcdp_epsilon(rho, delta)), rho


def probabilities(losses, rate):
    """p = softmax(-eta L)."""
    weights = jnp.exp(-rate * exact_sums.excess(losses))
    return weights / jnp.sum(weights)


def hedge(horizon: int, arms: int, *, epsilon: Number, delta: Number | None = None) -> Learner:
    """Hedge, or exponential weights, whose draws are exponential mechanisms.

    With L (K,) the sums of the losses so far, each round draws an arm

        i ~ softmax(-eta L),    eta = min(sqrt(8 ln K / T), the largest that epsilon allows).

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy to reach by the choice of eta; inf gives plain Hedge.
      delta: at which epsilon is declared, in (0, 1); default T^-2.

    Returns:
      A Learner with full information that plays arms. Losses outside [0, 1] are clipped and
      counted.

    Privacy: (epsilon, delta)-DP, central, for replacement of one round, released: actions 1..T.
    Each of the T - 1 draws that depend on data is an exponential mechanism whose exponents change
    by at most eta, of bounded range 2 eta. They compose by zCDP, eta^2 / 2 a draw, or as 2 eta a
    draw where that sum is smaller. The arms must be drawn: the probabilities themselves tell the
    losses, and are not private. At epsilon = inf the declaration is what plain Hedge has by
    itself.

    Regret: at most ln K / eta + eta T / 8 in expectation (oblivious losses), sqrt(T ln K / 2)
    for plain Hedge.

    Reference: Freund & Schapire, "A decision-theoretic generalization of on-line learning and an
    application to boosting", 1997; Cesa-Bianchi & Lugosi, "Prediction, learning, and games", 2006,
    Theorem 2.2; as an exponential mechanism: McSherry & Talwar, "Mechanism design via differential
    privacy", 2007, accounted by Cesar & Rogers 2021.
    """
    horizon = _check.size(1, horizon=horizon)
    arms = _check.arms(arms)
    epsilon = _check.epsilon(epsilon)
    if delta is not None:
        _check.delta(delta)
    delta = privacy.default_delta(horizon) if delta is None else delta
    epsilon = jnp.asarray(epsilon, jnp.float32)
    eta = jnp.minimum(plain_rate(horizon, arms), private_rate(horizon, epsilon, delta))
    reached, rho = declared_epsilon(horizon, eta, delta)

    def draw(key, state):
        return state, noise.choose(key, probabilities(state.losses, eta))

    def init(key):
        return draw(key, HedgeState(exact_sums.nothing((arms,)), jnp.zeros((), jnp.int32)))

    def step(state, key, loss):
        inside, clipped = clip_loss(loss, state.clipped)
        losses = exact_sums.add(state.losses, exact_sums.of(inside))
        return draw(key, HedgeState(losses, clipped))

    declared = Privacy(
        epsilon=reached,
        delta=delta,
        rho=rho,
        accountant="zCDP of bounded-range draws, or the sum of their log-ratios where smaller",
    )
    return Learner(
        init=init,
        step=step,
        feedback=full,
        action_set=Arms(arms),
        horizon=horizon,
        privacy=declared,
        report=lambda state: ClippedReport(state.clipped),
    )
