"""DP-UCB-Int: UCB whose means are released at intervals, each time with little noise."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dpjax import noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy, _check
from dpjax.feedback import bandit
from dpjax.learners.parts import arm_sums
from dpjax.maths import exact_sums
from dpjax.maths.laws import smallest
from dpjax.privacy.printed import Calibration, is_printed, stated


class DpUcbIntState(NamedTuple):
    round: Array  # () int32, t
    sums: arm_sums.ArmSums
    means: Array  # (K,) float32, noisy, from each arm's latest release
    samples: Array  # (K,) int32, losses in them
    arm: Array  # () int32, the current arm


def most_releases(horizon: int, arms: int, interval: Number):
    """The largest number of releases of one arm that an action may depend on, () int32.

    The first K f rounds play the arms in turn, independently of the releases. An arm that is played
    in all later rounds has T - 1 - (K - 1) f losses before the last action.
    """
    return jnp.maximum((horizon - 1) // interval - (arms - 1), 0)


def interval_spending(interval: Number, releases: Number, delta: Number, exponent: Number):
    """(rho, epsilon at delta) of the releases at n = f, 2f, ..., each n^(-v / 2)-DP.

    rho is half the sum of n^-v. Epsilon is the smaller of two numbers: the sum of n^(-v / 2), which
    is smaller if there are few releases, and the epsilon of rho at delta. Both decrease in f.
    """
    size = jnp.asarray(interval, jnp.float32) ** -exponent
    rho = 0.5 * size * _power_sum(exponent, releases)
    pure = jnp.sqrt(size) * _power_sum(0.5 * exponent, releases)
    return rho, jnp.minimum(pure, privacy.zcdp_epsilon(rho, delta))


def _power_sum(power, count):
    """1 + 2^-p + ... + count^-p: 16 terms, and the rest by the Euler-Maclaurin formula."""
    count = jnp.asarray(count, jnp.float32)
    terms = jnp.arange(1.0, 17.0, dtype=jnp.float32)
    head = jnp.sum(jnp.where(terms <= count, terms**-power, 0.0))
    last = jnp.maximum(count, 16.0)
    logs = jnp.log(last / 16.0)
    growth = (1.0 - power) * logs
    flat = growth == 0.0
    ratio = jnp.where(flat, 1.0, jnp.expm1(growth) / jnp.where(flat, 1.0, growth))
    integral = 16.0 ** (1.0 - power) * logs * ratio
    ends = 0.5 * (last**-power - 16.0**-power)
    slopes = power / 12.0 * (16.0 ** (-power - 1.0) - last ** (-power - 1.0))
    return head + integral + ends + slopes


@partial(jax.jit, static_argnums=(0, 1))
def derived_interval(horizon: int, arms: int, epsilon: Number, delta: Number, exponent: Number):
    """The smallest f whose releases within the horizon are (epsilon, delta)-DP, () int32.

    It is found by bisection. From f = floor((T - 1) / K) + 1 on, no action depends on a release.
    """

    def halve(_, ends):
        low, high = ends
        middle = low + (high - low) // 2
        releases = most_releases(horizon, arms, middle)
        fits = interval_spending(middle, releases, delta, exponent)[1] <= epsilon
        return jnp.where(fits, low, middle + 1), jnp.where(fits, middle, high)

    silent = (horizon - 1) // arms + 1
    ends = jnp.int32(1), jnp.int32(silent)
    return lax.fori_loop(0, silent.bit_length(), halve, ends)[1]


def dp_ucb_int(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    exponent: Number = 1.1,
    exploration: Number = 4.0,
    calibration: Calibration = "derived",
) -> Learner:
    """DP-UCB-Int: UCB that releases an arm's mean whenever its pulls are a multiple of f.

    The first K f rounds play the arms in turn. When n_a reaches a multiple of f, the mean of arm a
    is released with noise Lap(n_a^-(1 - v / 2)) and kept until the next multiple. Later rounds play
    the arm with the smallest

        mean~_a - sqrt(alpha ln t / (2 m_a)),    m_a the number of losses in that mean.

    The interval f depends on epsilon, but the noise does not. As we read the paper, the exploration
    term grows with t between releases. Otherwise an unlucky arm would never be played again.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: target epsilon for the choice of f; inf adds no noise and gives UCB1.
      delta: the delta at which epsilon is declared, in (0, 1); default T^-2.
      exponent: v in (1, 1.5].
      exploration: alpha, positive, as in :func:`ucb1`. The paper's 4 gives sqrt(2 ln t / m_a).
      calibration: "derived" uses the smallest f whose releases within the horizon cost at most
        epsilon at delta. "printed" uses f = ceil(1 / epsilon) and declares the epsilon of this f at
        delta, which is far above the requested one.

    Returns:
      A Learner with bandit feedback.

    Privacy: (epsilon, delta)-DP for replacement of one round. Released values: actions 1..T. A loss
    is in every later release of its arm. The release at n pulls has sensitivity 1 / n. It is
    n^(-v / 2)-DP and therefore (n^-v / 2)-zCDP. The declared epsilon assumes one arm that is played
    in all rounds after the first K f, with releases at n = f, 2f, ..., up to T - 1 - (K - 1) f. It
    is the smaller of the sum of their epsilons and the epsilon of their rho at delta. If K f >= T,
    no action depends on a loss, and epsilon is 0. For a requested epsilon = 1 at v = 1.1, T = 10^5
    and delta = 10^-5, the printed f = 1 has rho = 3.7 and epsilon = 15.7.

    Regret: logarithmic in T, with an additive term K f, according to the paper. With the paper's
    constants some runs never leave a worse arm: about one run in seven in our measurements on arms
    .75, .625, .5, .375, .25 with a requested epsilon of 10.

    Reference: Tossou & Dimitrakakis, "Algorithms for differentially private multi-armed bandits",
    2016, via two public implementations.

    Examples:
      >>> made = [
      ...     learners.dp_ucb_int(10**5, 5, epsilon=1.0, delta=1e-5, calibration=x)
      ...     for x in ("derived", "printed")
      ... ]
      >>> [round(float(x.privacy.epsilon), 3) for x in made]
      [0.997, 15.745]
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    delta = arm_sums.check_delta(horizon, delta)
    _check.inside(1.0, jnp.inf, exponent=exponent)
    _check.between(1.0, 1.5, exponent=exponent)
    printed = is_printed(calibration)
    exponent = jnp.asarray(exponent, jnp.float32)
    if printed:
        every = jnp.clip(jnp.ceil(1.0 / epsilon), 1.0, horizon // 2 + 1).astype(jnp.int32)
    else:
        every = derived_interval(horizon, arms, epsilon, delta, exponent)
    noiseless = jnp.isinf(epsilon)
    releases = most_releases(horizon, arms, every)
    # If no action can depend on a release, there are no releases.
    every = jnp.where(releases > 0, every, horizon)
    rho, spent = interval_spending(every, releases, delta, exponent)
    rho, spent = (jnp.where(noiseless, jnp.inf, value) for value in (rho, spent))

    def init(key):
        del key
        zero = jnp.zeros((), jnp.int32)
        sums = arm_sums.no_losses(arms)
        return DpUcbIntState(zero, sums, jnp.zeros(arms, jnp.float32), sums.pulls, zero), zero

    def step(state, key, loss):
        noise_key, tie_key = jax.random.split(key)
        sums = arm_sums.record(state.sums, state.arm, loss)
        t = state.round + 1
        pulls = sums.pulls[state.arm]
        # The noise of the sum is n_a times that of the mean.
        scale = jnp.where(noiseless, 0.0, pulls.astype(jnp.float32) ** (0.5 * exponent))
        total = noise.laplace.total(noise_key, arm_sums.losses_of(sums, state.arm), scale)
        noisy = exact_sums.mean(total, jnp.maximum(pulls, 1))
        released = pulls % every == 0
        noisy_means = jnp.where(released, state.means.at[state.arm].set(noisy), state.means)
        samples = jnp.where(released, state.samples.at[state.arm].set(pulls), state.samples)
        real = jnp.maximum(samples, 1).astype(jnp.float32)
        log_t = jnp.log(t.astype(jnp.float32))
        bounds = noisy_means - jnp.sqrt(0.5 * exploration * log_t / real)
        # The first K f rounds play the arms in turn.
        arm = jnp.where(t // arms < every, t % arms, smallest(tie_key, bounds))
        return DpUcbIntState(t, sums, noisy_means, samples, arm), arm

    declared = Privacy(
        epsilon=spent,
        delta=delta,
        rho=rho,
        accountant="zCDP of Laplace mechanisms, or the sum of their epsilons",
    )
    declared = stated(declared, calibration, epsilon)
    return Learner(init, step, bandit, Arms(arms), horizon, declared)
