"""EXP3 in gain form, and the privacy of its own sampling."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import Arms, Array, Learner, Number, Privacy
from dpjax.feedback import bandit
from dpjax.privacy.printed import Calibration, is_printed, stated


class Exp3State(NamedTuple):
    exponents: Array  # (K,) theta = (gamma / K) G, shifted so that the largest is 0
    arm: Array  # () int32, the current arm
    probability: Array  # () float32, its probability when it was drawn


@jax.jit
def default_mixing(horizon: Number, arms: int):
    """gamma = min(1, sqrt(K ln K / ((e - 1) T))). The horizon may be traced."""
    horizon = jnp.asarray(horizon, jnp.float32)
    return jnp.minimum(1.0, jnp.sqrt(arms * jnp.log(arms) / ((jnp.e - 1.0) * horizon)))


def probabilities(exponents: Array, mixing: Number):
    """p = (1 - gamma) softmax(theta) + gamma / K, for exponents whose largest is 0."""
    weights = jnp.exp(exponents)
    return (1.0 - mixing) * weights / jnp.sum(weights) + mixing / exponents.shape[0]


def update(exponents: Array, arm: Array, probability: Number, gain: Number, mixing: Number):
    """theta_arm += (gamma / K) gain / p_arm, then shifted so that the largest is 0.

    The shift does not change the probabilities. It keeps float32 accurate for the differences
    between the best arms. As gains are >= 0, the largest exponent before the shift is either still
    0, or that of ``arm``.
    """
    arms = exponents.shape[0]
    moved = exponents.at[arm].add(mixing / arms * gain / probability)
    return moved - jnp.maximum(moved[arm], 0.0)


def derived_privacy(
    draws: Number, arms: int, mixing: Number, sensitivity: Number, delta: Number
) -> Privacy:
    """The declared privacy of ``draws`` actions of EXP3; the first depends on no data.

    ``sensitivity`` is the largest change of one gain: 1, or 1 / tau for averages over tau rounds.

    One changed gain moves its exponent by at most (gamma / K) sensitivity / p <= sensitivity. Let u
    be the difference between the exponents of the two neighbours. No later round widens the range
    of u: a round that plays arm j maps theta_j to theta_j + c / p_j(theta) with
    0 <= c <= gamma / K. This map increases in theta_j (with slope at least 3/4) and in the other
    exponents, and it commutes with common shifts, so that min(u) <= u_j' <= max(u). Each later draw
    is therefore that of an exponential mechanism whose exponents change by u, of range at most
    ``sensitivity``. The mixing only post-processes it. This requires gains >= 0 and exactly the
    step size gamma / K. With losses instead of gains the same map is expansive, and the claim is
    false. (In a search the log-ratio of a draw never exceeded .2855, the effect of the changed
    round alone. A search is not a proof, so this is not declared.)

    Every probability also stays in [gamma / K, 1 - gamma + gamma / K], which caps the
    log-likelihood ratio of a draw at ln((K (1 - gamma) + gamma) / gamma).
    """
    epsilon, rho = _epsilon_and_rho(draws, arms, mixing, sensitivity, delta)
    return Privacy(
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        accountant="zCDP of bounded-range draws, or the sum of their log-ratios if smaller",
    )


@jax.jit
def _epsilon_and_rho(draws, arms, mixing, sensitivity, delta):
    dependent = jnp.asarray(draws - 1, jnp.float32)
    cap = log_ratio_cap(arms, mixing)
    rho = privacy.bounded_range_rho(jnp.minimum(sensitivity, 2.0 * cap), dependent)
    pure = dependent * jnp.minimum(sensitivity, cap)
    return jnp.minimum(pure, privacy.zcdp_epsilon(rho, delta)), rho


def log_ratio_cap(arms: int, mixing: Number):
    """ln(max p / min p) = ln((K (1 - gamma) + gamma) / gamma), for any data."""
    return jnp.log((arms * (1.0 - mixing) + mixing) / mixing)


@jax.jit
def printed_epsilon(horizon: int, arms: int, mixing: Number, delta: Number):
    """min{2T, T ln((K(1 - gamma) + gamma) / gamma), 2(1 - gamma)T + sqrt(2T ln(1/delta))}."""
    mixed = 2.0 * (1.0 - mixing) * horizon + jnp.sqrt(2.0 * horizon * jnp.log(1.0 / delta))
    return jnp.minimum(jnp.minimum(2.0, log_ratio_cap(arms, mixing)) * horizon, mixed)


def exp3(
    horizon: int, arms: int, *, mixing: Number | None = None, calibration: Calibration = "derived"
) -> Learner:
    """EXP3: exponential weights with exploration, on importance-weighted gains.

    Gains are g = 1 - loss in [0, 1], and their estimates G (K,) start at zero. Each round draws

        p_i = (1 - gamma) exp(gamma G_i / K) / sum_j exp(gamma G_j / K) + gamma / K

    and then adds g / p_a to the estimate of the played arm a.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      mixing: gamma in (0, 1]; default min(1, sqrt(K ln K / ((e - 1) T))).
      calibration: "derived", or "printed" to state the paper's epsilon as well. The algorithm is
        the same.

    Returns:
      A Learner with bandit feedback.

    Privacy: (epsilon, delta)-DP at delta = T^-2 for replacement of one round. Released values:
    actions 1..T. No noise is added, since the draws themselves are random. Each of the T - 1
    actions that depend on data has a log-likelihood ratio of at most 1, and they compose by zCDP.
    The paper states min{2T, T ln((K(1 - gamma) + gamma) / gamma), 2(1 - gamma)T + sqrt(2T
    ln(1/delta))}, which is larger. Both grow linearly in T. The paper's proof sketch bounds only
    the direct change of one estimate. Our proof (:func:`derived_privacy`) covers all later draws,
    for gains but not for losses.

    Regret: at most 2 sqrt(e - 1) sqrt(T K ln K) in expectation (oblivious losses).

    Reference: Auer, Cesa-Bianchi, Freund & Schapire, "The nonstochastic multiarmed bandit
    problem", 2002, Corollary 3.2; privacy: Tossou & Dimitrakakis, "Achieving privacy in the
    adversarial multi-armed bandit", 2017.

    Examples:
      >>> declared = [learners.exp3(T, 4, calibration="printed").privacy for T in (10, 1000)]
      >>> [(round(float(x.epsilon)), round(float(x.paper_epsilon))) for x in declared]
      [(5, 14), (206, 2000)]
    """
    gamma = default_mixing(horizon, arms) if mixing is None else jnp.asarray(mixing, jnp.float32)

    delta = privacy.default_delta(horizon)  # as in the paper
    declared = derived_privacy(horizon, arms, gamma, 1.0, delta)
    if is_printed(calibration):
        declared = stated(declared, calibration, printed_epsilon(horizon, arms, gamma, delta))

    def draw(key, exponents):
        p = probabilities(exponents, gamma)
        arm = noise.choose(key, p)
        return Exp3State(exponents, arm, p[arm]), arm

    def init(key):
        return draw(key, jnp.zeros(arms, jnp.float32))

    def step(state, key, loss):
        gain = 1.0 - loss
        exponents = update(state.exponents, state.arm, state.probability, gain, gamma)
        return draw(key, exponents)

    return Learner(init, step, bandit, Arms(arms), horizon, declared)
