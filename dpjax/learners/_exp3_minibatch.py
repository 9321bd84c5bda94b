"""EXP3_tau: EXP3 on batches of rounds, private through its own sampling."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import privacy
from dpjax.combinators import minibatch
from dpjax.core import BatchLearner, Number
from dpjax.learners._exp3 import default_mixing, derived_privacy, exp3
from dpjax.learners.parts.arm_sums import check_delta
from dpjax.maths import quotients
from dpjax.privacy.printed import Calibration, is_printed, stated


@jax.jit
def switching_cost_tau(horizon: int, arms: int):
    """tau = (7 K ln K)^(-1/3) T^(1/3), before rounding.

    This batch length balances the two terms of the regret bound for switching costs. It is a
    corollary of Tossou & Dimitrakakis 2017, as reconstructed.
    """
    return jnp.cbrt(horizon / (7.0 * arms * jnp.log(jnp.asarray(arms, jnp.float32))))


@jax.jit
def printed_epsilon(horizon: int, tau: Number, delta: Number):
    """epsilon = 4T / tau^3 + sqrt(8 ln(1/delta) T / tau^3), as reconstructed.

    It is the advanced composition of T / tau draws, each (2 / tau)-DP.
    """
    return privacy.advanced_composition(horizon / jnp.asarray(tau, jnp.float32), 2.0 / tau, delta)


def printed_tau(horizon: int, epsilon: Number, delta: Number):
    """The tau at which :func:`printed_epsilon` is epsilon, before rounding. It is 0 at inf.

    With y^2 = T / tau^3 and L = ln(1/delta) it solves 4 y^2 + sqrt(8 L) y = epsilon, so that
    tau^3 = 4 T (epsilon + L + sqrt(L^2 + 2 L epsilon)) / epsilon^2.
    """
    inverse = 1.0 / jnp.asarray(epsilon, jnp.float32)
    scaled = jnp.log(1.0 / jnp.asarray(delta, jnp.float32)) * inverse
    root = jnp.sqrt(scaled * scaled + 2.0 * scaled)
    return jnp.cbrt(4.0 * horizon * inverse * (1.0 + scaled + root))


def derived_tau(horizon: int, epsilon: Number, delta: Number):
    """The tau at which T / tau batches, each with rho = 1 / (8 tau^2), have epsilon; 0 at inf."""
    return jnp.cbrt(horizon / 8.0 * jnp.square(privacy.zcdp_inverse_root(epsilon, delta)))


def exp3_minibatch(
    horizon: int,
    arms: int,
    *,
    epsilon: Number | None = None,
    tau: Number | None = None,
    delta: Number | None = None,
    mixing: Number | None = None,
    calibration: Calibration = "derived",
) -> BatchLearner:
    """EXP3_tau: EXP3 on the average gains of batches, private through its own sampling.

    Each arm that EXP3 draws is played for tau rounds, and EXP3 receives the average of their gains.
    The default mixing of EXP3 is for ceil(T / tau) rounds, as the regret bound assumes; the paper
    does not state it. No noise is added: one changed round moves an average by at most 1 / tau, and
    the random draws of EXP3 hide this change.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: target epsilon for the choice of tau; inf gives tau = 1, which is EXP3.
      tau: rounds in a batch, at least 1 and rounded down; may be traced. Pass exactly one of
        epsilon and tau.
      delta: the delta at which epsilon is declared, in (0, 1); default T^-2.
      mixing: gamma of EXP3, in (0, 1]; default min(1, sqrt(K ln K / ((e - 1) J))) for the
        J = ceil(T / tau) batches.
      calibration: "derived" or "printed", the privacy accounting that sets tau from epsilon.

    Returns:
      A BatchLearner with bandit feedback.

    Privacy: (epsilon, delta)-DP for replacement of one round. Released values: actions 1..T. The
    declaration covers the ceil(T / tau) - 1 draws that depend on data. Each has bounded range
    1 / tau and so is 1 / (8 tau^2)-zCDP, or less if ``mixing`` is near 1
    (``derived_privacy`` in ``dpjax/learners/_exp3.py``). The paper, as reconstructed, states
    4T / tau^3 + sqrt(8 ln(1/delta) T / tau^3), about nine times as much at its own tau. Both need
    the gain form of EXP3. A tau computed from epsilon is rounded up, so neither exceeds the
    requested epsilon. A tau above T is cut to T: no action then depends on data, and 0 is declared.
    Averages and draws have float32 precision, so if tau is above about 2^22, the declaration holds
    only for the algorithm in real numbers.

    Regret: at most sqrt(7 T tau K ln K) + T m / tau + tau in expectation, against adaptive
    adversaries with memory m < tau (policy regret).

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017; Arora, Dekel & Tewari 2012 for the batches.

    Examples:
      >>> learner = learners.exp3_minibatch(10**6, 4, epsilon=1.0, delta=1e-6)
      >>> state, batch = jax.jit(learner.init)(jax.random.key(0))
      >>> int(batch.rounds), round(float(learner.privacy.epsilon), 3)  # tau, and its epsilon
      (173, 0.995)
    """
    printed = is_printed(calibration)
    if (epsilon is None) == (tau is None):
        raise ValueError("exp3_minibatch takes either epsilon or tau, exactly one of the two")
    delta = check_delta(horizon, delta)
    if epsilon is not None:
        solve = printed_tau if printed else derived_tau
        tau = jnp.maximum(1.0, jnp.ceil(solve(horizon, epsilon, delta)))
    # Whole numbers above 2^31 are cut to T, too.
    tau, batches = _batches(horizon, tau if isinstance(tau, jax.Array) else np.float32(tau))
    gamma = default_mixing(batches, arms) if mixing is None else jnp.asarray(mixing, jnp.float32)
    declared = derived_privacy(batches, arms, gamma, 1.0 / tau, delta)
    declared = stated(declared, calibration, printed_epsilon(horizon, tau, delta))
    return minibatch(exp3(horizon, arms, mixing=gamma), horizon, tau)._replace(privacy=declared)


@jax.jit
def _batches(horizon, tau):
    """tau as a whole number, and the number of batches."""
    # tau is cut before the conversion to an integer: at epsilon = 1e-9 it would overflow int32.
    tau = jnp.minimum(jnp.floor(tau.astype(jnp.float32)), horizon)
    return tau, quotients.whole(horizon, tau)[1].astype(jnp.float32)
