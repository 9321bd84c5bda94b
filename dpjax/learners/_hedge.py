"""Hedge, private through its own sampling."""

import jax.numpy as jnp

from dpjax import noise, privacy
from dpjax.core import Arms, Learner, Number, Privacy, _check
from dpjax.feedback import full
from dpjax.learners.parts.arm_sums import check_delta
from dpjax.learners.parts.fixed_share import complexity, shared
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
from dpjax.privacy.printed import Calibration, is_printed, stated


def plain_rate(horizon: int, arms: int, share: Number = 0.0):
    """eta = sqrt(8 D / T), which minimizes the regret bound D / eta + eta T / 8.

    D is ln K without sharing, and otherwise the D of :func:`hedge` for alpha (T - 1) shifts.
    """
    shifts = share * (horizon - 1)
    return jnp.sqrt(8.0 * complexity(float(horizon), arms, shifts, share) / horizon)


def private_rate(horizon: int, epsilon: Number, delta: Number):
    """The largest eta whose :func:`declared_epsilon` is epsilon. It is inf at epsilon = inf.

    With n = T - 1 draws it is the larger of epsilon / (2 n) and sqrt(2 rho / n), where rho is the
    zCDP parameter that gives epsilon.
    """
    draws = jnp.asarray(horizon - 1, jnp.float32)
    by_sum = epsilon / (2.0 * draws)
    by_zcdp = jnp.sqrt(2.0 / draws) / privacy.zcdp_inverse_root(epsilon, delta)
    return jnp.maximum(by_sum, by_zcdp)


def printed_rate(horizon: int, epsilon: Number, delta: Number):
    """eta = 2 epsilon / sqrt(8 T ln(1 / delta)): Jain & Thakurta 2014, on losses centred at 1/2."""
    return 2.0 * epsilon / _printed_root(horizon, delta)


def printed_epsilon(horizon: int, rate: Number, delta: Number):
    """The epsilon whose :func:`printed_rate` is eta."""
    return 0.5 * rate * _printed_root(horizon, delta)


def _printed_root(horizon, delta):
    return jnp.sqrt(8.0 * horizon * jnp.log(1.0 / jnp.asarray(delta, jnp.float32)))


def declared_epsilon(horizon: int, rate: Number, delta: Number):
    """(epsilon, rho) of T rounds at rate eta; the first draw depends on no data.

    A replaced round changes the exponents of every later round by the same u, whose entries are at
    most eta in absolute value. The log-ratio of one draw is u_i - ln sum_j p_j exp(u_j). It lies in
    a window around 0 of length max(u) - min(u) <= 2 eta, so its zCDP cost is
    (2 eta)^2 / 8 = eta^2 / 2. The bound 2 eta on the log-ratio itself is tight: it is approached as
    p_i goes to 0.
    """
    draws = jnp.asarray(horizon - 1, jnp.float32)
    rho = privacy.bounded_range_rho(2.0 * rate, draws)
    return jnp.minimum(2.0 * rate * draws, privacy.zcdp_epsilon(rho, delta)), rho


def logits(losses: ExactSum, rate: Number):
    """-eta L, up to a constant."""
    return -rate * exact_sums.excess(losses)


def hedge(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    rate: Number | None = None,
    share: Number | None = None,
    calibration: Calibration = "derived",
) -> Learner:
    """Hedge (exponential weights), whose draws are exponential mechanisms.

    With L (K,) the sums of the losses so far, each round draws an arm

        i ~ softmax(-eta L),    eta = min(rate, the largest that epsilon allows).

    With sharing it tracks a best arm that changes occasionally. The law P (K,) of the next arm is
    then uniform at first. After losses l it becomes

        P <- (1 - alpha) v / sum v + alpha / K,    v = P exp(-eta l).

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: target epsilon for the choice of eta; inf gives plain Hedge.
      delta: the delta at which epsilon is declared, in (0, 1); default T^-2.
      rate: the largest eta, positive; default sqrt(8 D / T), where D is ln K, or with sharing the D
        of the regret bound at S = alpha (T - 1). If epsilon is inf, eta is this rate.
      share: alpha, in [0, 1/2]; the best value for S shifts is S / (T - 1). By default nothing is
        shared. Values below 1e-25 count as 0.
      calibration: "derived" or "printed", how eta follows from epsilon and delta. "printed" does
        not allow sharing.

    Returns:
      A Learner with full information that plays arms.

    Privacy: (epsilon, delta)-DP, central, for replacement of one round. Released values: actions
    1..T. Each of the T - 1 draws that depend on data is an exponential mechanism. Its exponents
    change by at most eta, so it has bounded range 2 eta. The draws compose by zCDP at eta^2 / 2
    each, or by the sum of 2 eta each if that is smaller. The arms must be drawn, since the
    probabilities themselves reveal the losses. The declared epsilon is that of eta: it may be below
    the requested epsilon, and is finite at epsilon = inf. Sharing does not change it: P is the
    posterior over sequences of arms, whose exponents also change by at most eta. The printed
    calibration has eta = 2 epsilon / sqrt(8 T ln(1 / delta)), on losses centred at 1/2. It omits a
    second-order term, and its conversion to epsilon is not the tightest. At delta = 1e-6 its eta
    has epsilon = 0.85 if the paper states 1, and 26 if it states 20.

    Differences from the paper: the paper charges 4 R / lambda for a draw, with losses in [-R, R]
    and rate 1 / lambda. Advanced composition of such draws would need sqrt(32 T ln(1 / delta)). The
    printed sqrt(8 T ln(1 / delta)) is correct to first order, since draws have bounded range. In
    the paper's formula (10) we read the sum of the losses without the factor 1 / t.

    Regret: at most ln K / eta + eta T / 8 in expectation (oblivious losses), which is
    sqrt(T ln K / 2) for plain Hedge. With sharing it is at most D / eta + eta T / 8 against the
    best sequence of arms with S shifts. Here
    D = ln K + S ln(K / alpha) - (T - 1 - S) ln(1 - alpha + alpha / K).

    Reference: Freund & Schapire, "A decision-theoretic generalization of on-line learning and an
    application to boosting", 1997; Cesa-Bianchi & Lugosi, "Prediction, learning, and games", 2006,
    Theorem 2.2; as an exponential mechanism: McSherry & Talwar, "Mechanism design via differential
    privacy", 2007, accounted by Cesar & Rogers 2021; with sharing: Herbster & Warmuth, "Tracking
    the best expert", 1998; printed: Jain & Thakurta, "(Near) dimension independent risk bounds for
    differentially private learning", 2014, section 5.2 and Theorem 3.

    Examples:
      >>> made = [learners.hedge(1000, 4, epsilon=x, delta=1e-6) for x in (1.0, float("inf"))]
      >>> [round(float(x.privacy.epsilon), 1) for x in made]  # plain Hedge has an epsilon, too
      [1.0, 21.9]
    """
    epsilon = jnp.asarray(epsilon, jnp.float32)
    delta = check_delta(horizon, delta)
    _check.between(0.0, 0.5, **_check.specified(share=share))
    printed = is_printed(calibration)
    if printed and share is not None:
        raise ValueError("share must be None for the printed calibration: the paper has no sharing")
    if rate is None:
        rate = plain_rate(horizon, arms, 0.0 if share is None else share)
    private = printed_rate if printed else private_rate
    eta = jnp.minimum(jnp.asarray(rate, jnp.float32), private(horizon, epsilon, delta))
    reached, rho = declared_epsilon(horizon, eta, delta)

    # The state is L as an ExactSum (K,). With sharing, the correction for sharing is subtracted, so
    # that the law of the next arm is still softmax(-eta L).
    def draw(key, losses):
        return losses, noise.categorical(key, logits(losses, eta))

    def init(key):
        return draw(key, exact_sums.nothing((arms,)))

    def step(losses, key, loss):
        losses = exact_sums.add(losses, exact_sums.of(loss))
        if share is not None:
            losses = shared(losses, eta, share)
        return draw(key, losses)

    declared = Privacy(
        epsilon=reached,
        delta=delta,
        rho=rho,
        accountant="zCDP of bounded-range draws, or the sum of their log-ratios if smaller",
    )
    declared = stated(declared, calibration, printed_epsilon(horizon, eta, delta))
    return Learner(init, step, full, Arms(arms), horizon, declared)
