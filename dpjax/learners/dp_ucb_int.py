"""DP-UCB-Int: UCB whose means are released now and then, each time with little noise."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import zeta

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy
from dpjax.feedback import bandit
from dpjax.learners.parts.arm_sums import (
    ArmSums,
    ClippedReport,
    check_arms,
    losses_of,
    no_losses,
    record,
)
from dpjax.maths import exact_sums
from dpjax.maths.clipping import clip_loss
from dpjax.maths.laws import smallest


class DpUcbIntState(NamedTuple):
    round: Array  # () int32, t
    sums: ArmSums
    means: Array  # (K,) float32, noisy, each as of its latest release
    samples: Array  # (K,) int32, losses in them
    arm: Array  # () int32, the arm in play
    clipped: Array  # () int32


def interval_rho(horizon, interval, exponent):
    """rho of the releases at n = f, 2f, 3f, ... <= T, each n^(-v / 2)-DP: sum n^-v / 2.

    (f^-v / 2) (zeta(v) - zeta(v, floor(T / f) + 1)), zeta(v, q) being Hurwitz's.
    """
    interval = jnp.asarray(interval, jnp.float32)
    tail = zeta(exponent, jnp.floor(horizon / interval) + 1.0)
    return 0.5 * interval**-exponent * (zeta(exponent, jnp.float32(1.0)) - tail)


def dp_ucb_int(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    exponent: Number = 1.1,
    calibration: str = "derived",
) -> Learner:
    """DP-UCB-Int: an arm's mean is released when its pulls are a multiple of f.

    The first K f rounds play the arms in turn. When n_a reaches a multiple of f, the mean of arm a
    is released with noise Lap(n_a^-(1 - v / 2)), and kept until the next multiple. Each round plays
    the smallest

        mean~_a - sqrt(2 ln t / m_a),    m_a the losses in that mean.

    The noise does not depend on epsilon, f does. The exploration term moves with t, as we read it:
    if it were kept with the mean, an unlucky arm would never be played again.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy to reach by the choice of f; inf adds no noise, and gives UCB1.
      delta: at which epsilon is declared, in (0, 1); default T^-2.
      exponent: v in (1, 1.5].
      calibration: "derived" takes the smallest f for which (epsilon, delta) can be declared;
        "printed" is f = ceil(1 / epsilon), and declares the epsilon that this has at delta, which
        is far more than the one asked for.

    Returns:
      A Learner with bandit feedback. Losses outside [0, 1] are clipped and counted.

    Privacy: for replacement of one round, released: actions 1..T. A loss is in every later release
    of its arm: release n has sensitivity 1 / n and is n^(-v / 2)-DP, hence n^-v / 2-zCDP, and rho
    is their sum (:func:`interval_rho`). At v = 1.1 and T = 10^5 the printed f = 1 has rho = 3.7,
    epsilon = 16.8 at delta = 10^-5, where epsilon = 1 was asked for.

    Regret: logarithmic in T, with an additive term K f, by the paper. Measured with its constants,
    some runs stay on a worse arm for good: about one in eight on arms .75, .625, .5, .375, .25
    where epsilon = 10 is asked.

    Reference: Tossou & Dimitrakakis, "Algorithms for differentially private multi-armed bandits",
    2016, by way of two public implementations.
    """
    horizon, arms = check_arms(horizon, arms)
    epsilon = _check.epsilon(epsilon)
    if delta is not None:
        _check.delta(delta)
    _check.inside(1.0, jnp.inf, exponent=exponent)
    _check.between(1.0, 1.5, exponent=exponent)
    _check.one_of("derived", "printed", calibration=calibration)
    delta = privacy.default_delta(horizon) if delta is None else delta
    epsilon = jnp.asarray(epsilon, jnp.float32)
    exponent = jnp.asarray(exponent, jnp.float32)
    if calibration == "printed":
        interval = jnp.ceil(1.0 / epsilon)
    else:
        # f^v = zeta(v) / (2 rho) covers any number of releases.
        root = privacy.zcdp_inverse_root(epsilon, delta)
        limit = 0.5 * zeta(exponent, jnp.float32(1.0)) * root * root
        interval = jnp.ceil(limit ** (1.0 / exponent))
    # Beyond T no release is ever made.
    interval = jnp.clip(interval, 1.0, horizon + 1.0)
    noiseless = jnp.isinf(epsilon)
    rho = jnp.where(noiseless, jnp.inf, interval_rho(horizon - 1, interval, exponent))
    every = interval.astype(jnp.int32)

    def init(key):
        del key
        zero = jnp.zeros((), jnp.int32)
        sums = no_losses(arms)
        return DpUcbIntState(zero, sums, jnp.zeros(arms, jnp.float32), sums.pulls, zero, zero), zero

    def step(state, key, loss):
        noise_key, tie_key = jax.random.split(key)
        inside, clipped = clip_loss(loss, state.clipped)
        sums = record(state.sums, state.arm, inside)
        t = state.round + 1
        pulls = sums.pulls[state.arm]
        # Of the sum, n_a times that of the mean.
        scale = jnp.where(noiseless, 0.0, pulls.astype(jnp.float32) ** (0.5 * exponent))
        total = noise.laplace_total(noise_key, losses_of(sums, state.arm), scale)
        noisy = exact_sums.mean(total, jnp.maximum(pulls, 1))
        released = pulls % every == 0
        noisy_means = jnp.where(released, state.means.at[state.arm].set(noisy), state.means)
        samples = jnp.where(released, state.samples.at[state.arm].set(pulls), state.samples)
        real = jnp.maximum(samples, 1).astype(jnp.float32)
        bounds = noisy_means - jnp.sqrt(2.0 * jnp.log(t.astype(jnp.float32)) / real)
        # The arms in turn, K f rounds, before any bound counts.
        arm = jnp.where(t // arms < every, t % arms, smallest(tie_key, bounds))
        return DpUcbIntState(t, sums, noisy_means, samples, arm, clipped), arm

    declared = Privacy(
        epsilon=privacy.zcdp_epsilon(rho, delta),
        delta=delta,
        rho=rho,
        calibration=calibration,
        accountant="zCDP of Laplace mechanisms",
        paper_epsilon=epsilon if calibration == "printed" else float("nan"),
    )
    return Learner(
        init=init,
        step=step,
        feedback=bandit,
        action_set=Arms(arms),
        horizon=horizon,
        privacy=declared,
        report=lambda state: ClippedReport(state.clipped),
    )
