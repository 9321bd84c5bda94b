"""EXP3_tau: EXP3 on batches of rounds, private through its own sampling."""

import jax.numpy as jnp

from dpjax import _check, privacy
from dpjax.combinators import minibatch
from dpjax.core import BatchLearner, Number
from dpjax.feedback import clipped_bandit
from dpjax.learners.exp3 import default_mixing, derived_privacy, exp3


def switching_cost_tau(horizon, arms):
    """tau = (7 K ln K)^(-1/3) T^(1/3), before rounding.

    The batch that balances the two terms of the regret bound against switching costs: corollary
    of Tossou & Dimitrakakis 2017, as reconstructed.
    """
    return jnp.cbrt(horizon / (7.0 * arms * jnp.log(jnp.float32(arms))))


def printed_epsilon(horizon, tau, delta):
    """epsilon = 4T / tau^3 + sqrt(8 ln(1/delta) T / tau^3), as reconstructed.

    Advanced composition of T / tau draws, each 2 / tau-DP.
    """
    return privacy.advanced_composition(horizon / jnp.asarray(tau, jnp.float32), 2.0 / tau, delta)


def printed_tau(horizon, epsilon, delta):
    """The tau at which :func:`printed_epsilon` is epsilon, before rounding; 0 at inf.

    With y^2 = T / tau^3 and L = ln(1/delta) it solves 4 y^2 + sqrt(8 L) y = epsilon:
    tau^3 = 4 T (epsilon + L + sqrt(L^2 + 2 L epsilon)) / epsilon^2.
    """
    inverse = 1.0 / jnp.asarray(epsilon, jnp.float32)
    scaled = jnp.log(1.0 / jnp.asarray(delta, jnp.float32)) * inverse
    root = jnp.sqrt(scaled * scaled + 2.0 * scaled)
    return jnp.cbrt(4.0 * horizon * inverse * (1.0 + scaled + root))


def derived_tau(horizon, epsilon, delta):
    """The tau at which T / tau batches of rho = 1 / (8 tau^2) have epsilon; 0 at inf."""
    return jnp.cbrt(horizon / 8.0 * jnp.square(privacy.zcdp_inverse_root(epsilon, delta)))


def exp3_minibatch(
    horizon: int,
    arms: int,
    *,
    epsilon: Number | None = None,
    tau: Number | None = None,
    delta: Number | None = None,
    calibration: str = "derived",
) -> BatchLearner:
    """EXP3_tau: EXP3 on the average gains of batches, private through its own sampling.

    Each arm of EXP3 is played for tau rounds, and EXP3 is fed the average of their gains. It runs
    with its exploration rate for ceil(T / tau) rounds, as its regret bound assumes (the paper is
    silent). Nothing is added: a change of one round moves an average by at most 1 / tau, and the
    draws of EXP3 hide the rest.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy to reach by the choice of tau; inf gives tau = 1, which is EXP3.
      tau: or the rounds in a batch, at least 1 and rounded down; exactly one of the two. Both may
        be traced.
      delta: at which epsilon is declared; default T^-2.
      calibration: "derived" or "printed", the accounting by which tau follows from epsilon.

    Returns:
      A BatchLearner with bandit feedback. Losses outside [0, 1] are clipped before they are
      averaged.

    Privacy: replacement of one round, released: actions 1..T. Declared is what the
    ceil(T / tau) - 1 draws that depend on data have, each of bounded range 1 / tau and so
    1 / (8 tau^2)-zCDP. The paper, as reconstructed, states
    4T / tau^3 + sqrt(8 ln(1/delta) T / tau^3), about nine times as much at its own tau. Both need
    the gain form of EXP3. tau is rounded up, so that neither is more than the epsilon asked for; a
    tau beyond T is cut to T, where no action depends on data and 0 is declared. Averages and draws
    have the digits of a float32: from about tau = 2^22 on the declaration is of the algorithm in
    real numbers.

    Regret: at most sqrt(7 T tau K ln K) + T m / tau + tau in expectation, against adaptive
    adversaries with memory m < tau (policy regret).

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017; Arora, Dekel & Tewari 2012 for the batches.
    """
    horizon = _check.size(1, horizon=horizon)
    arms = _check.arms(arms)
    _check.one_of("derived", "printed", calibration=calibration)
    if (epsilon is None) == (tau is None):
        raise ValueError("exp3_minibatch takes either epsilon or tau, exactly one of the two")
    epsilon = epsilon if epsilon is None else _check.epsilon(epsilon)
    _check.between(1.0, jnp.inf, **_check.given(tau=tau))
    if delta is not None:
        _check.delta(delta)
    delta = privacy.default_delta(horizon) if delta is None else delta
    if tau is None:
        solve = derived_tau if calibration == "derived" else printed_tau
        tau = jnp.maximum(1.0, jnp.ceil(solve(horizon, epsilon, delta)))
    # Clipped before it becomes an integer: at epsilon = 1e-9 it would overflow int32.
    tau = jnp.minimum(jnp.floor(jnp.asarray(tau, jnp.float32)), horizon)
    batches = jnp.ceil(horizon / tau)
    mixing = default_mixing(batches, arms)
    declared = derived_privacy(batches, arms, mixing, 1.0 / tau, delta)
    if calibration == "printed":
        declared = declared._replace(
            calibration="printed", paper_epsilon=printed_epsilon(horizon, tau, delta)
        )
    base = exp3(horizon, arms, mixing=mixing)
    batched = minibatch(base, horizon, tau)
    return batched._replace(feedback=clipped_bandit, privacy=declared)
