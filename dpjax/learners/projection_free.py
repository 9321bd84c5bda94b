"""Projection-free private bandit convex optimization: PRIVATEBANDIT."""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import _check, mechanisms, privacy
from dpjax.core import Array, Learner, Number
from dpjax.domains import Domain, check_domain, conditional_gradient_step, shrunk
from dpjax.feedback import value
from dpjax.learners.parts.one_point import as_floats, directions, inradius_of, is_known, values
from dpjax.learners.parts.prefix_sums import calibrate
from dpjax.maths.barriers import rounded


class ProjectionFreeState(NamedTuple):
    round: Array  # () int32, t
    base: Array  # (d,) x~_(R-1), around which batch R plays
    solver: Array  # (d,) the iterate of the conditional gradient method, x~_R at the batch's end
    linear: Array  # (d,) eta s~_(R-1), what it minimizes against
    direction: Array  # (n,) u_t
    estimate: Array  # (n,) g_R so far
    sums: Any  # of the mechanism
    gap: Array  # () least gap of this batch
    worst_gap: Array  # () largest of the batches before
    clipped: Array  # () int32


class ProjectionFreeReport(NamedTuple):
    clipped: Array  # () int32, values out of the declared range, clipped before noise
    distance: Array  # () certified: no base was further than this from the minimizer it stands for
    reach: Array  # () how far from the domain a play can be


def smoothing_radius(horizon, diameter, dim):
    """zeta = D sqrt(n) / T^(1/4): as in Lemma 7 of the paper, where it is needed in this form."""
    return diameter * dim**0.5 / horizon**0.25


def step_size(batches, batch, diameter, dim, zeta, bound, lipschitz):
    """eta = D / (kappa sqrt(batches)), kappa^2 = b M^2 + b^2 L^2 with M = n B / zeta.

    kappa bounds the length of a batch's estimate in mean square. With b = sqrt T and B = L D the
    first term is T n L^2, and without the second eta is as printed, D / (T^(3/4) sqrt(n) L).
    """
    weight = dim * bound / zeta
    kappa = jnp.sqrt(batch * weight * weight + (batch * lipschitz) ** 2)
    return diameter / (kappa * batches**0.5)


def printed_scale(horizon, dim, lipschitz, epsilon, delta):
    """lambda of Lemma 7 (delta None) or sigma of Lemma 10, of each node, with O(1) = 1, log = ln.

    lambda = sqrt(T) n L ln T / epsilon,
    sigma = T^(1/4) sqrt(n) L ln T ln(T/delta) sqrt((1 + sqrt(T)/n) ln((n+T)/delta)) / epsilon.
    """
    log, epsilon = math.log(horizon), jnp.asarray(epsilon, jnp.float32)
    if delta is None:
        return horizon**0.5 * dim * lipschitz * log / epsilon
    tail = (1.0 + horizon**0.5 / dim) * jnp.log((dim + horizon) / delta)
    size = horizon**0.25 * dim**0.5 * lipschitz * log * jnp.log(horizon / delta)
    return size * jnp.sqrt(tail) / epsilon


def batch_norms(batch, batches, dim, epsilon, delta):
    """Bounds (L1, L2) on the sum of b vectors c_r u_r, |c_r| <= 1, as the paper's proof needs them.

    L1: b sqrt(n). L2: the lesser of b and what holds with probability 1 - delta / 2 for all
    batches: sqrt(b) t, where matrix Bernstein (Tropp 2015) gives
    P(|[u_1 .. u_b]| >= t) <= (n + b) exp(-t^2 / (2 (1 + b/n) + 2t/3)); this is Lemma 9 of the
    paper for |c|_2 <= 1. Then half of delta is left for the noise, which is charged to the bound.
    """
    if delta is None:
        return batch * dim**0.5, float(batch)
    log = jnp.log(2.0 * batches * (dim + batch) / delta)
    t = log / 3.0 + jnp.sqrt(log * log / 9.0 + 2.0 * (1.0 + batch / dim) * log)
    half = privacy.gaussian_inverse_mu(epsilon, 0.5 * jnp.asarray(delta, jnp.float32))
    price = jnp.where(half > 0, half / privacy.gaussian_inverse_mu(epsilon, delta), 1.0)
    return batch * dim**0.5, jnp.minimum(float(batch), batch**0.5 * t * price)


def projection_free(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: str = "laplace",
    lipschitz: float | None = None,
    loss_range: str | tuple[float, float] = "signed",
    batch: int | None = None,
    smoothing: Number | None = None,
    rate: Number | None = None,
    shrink: bool = False,
    calibration: str = "single_change",
) -> Learner:
    """PRIVATEBANDIT: private bandit convex optimization without projections.

    Rounds come in batches of b. With c the centre of the domain, batch R plays around a base
    x~_(R-1), sums up one-point gradient estimates, and releases their noisy prefix sum s~_R:

        x_t = x~_(R-1) + zeta u_t, u_t uniform on the unit sphere,   f_t(x_t) is seen,
        g_R = sum over the batch of (n / zeta) f_t(x_t) u_t,         s~_R = g_1 + ... + g_R + noise.

    In the meantime b steps of the conditional gradient method, one linear minimization a round,
    lead from x~_(R-1) to x~_R, near the minimizer of |x - c|^2 / 2 + eta <s~_(R-1), x>. So batch R
    plays on batches 1 .. R - 2, the first two batches are free of data, and of the last two nothing
    is ever summed.

    Args:
      horizon: T, rounds.
      domain: a Domain, of which the learner uses the linear minimizer. Losses must be defined up to
        zeta away from it, since plays leave it by as much. On a set without inner points plays stay
        in its affine hull, and n is the dimension of that.
      epsilon: privacy; inf adds no noise (in the style of Garber & Kretzu 2020, with a fixed number
        of steps in place of their stopping rule).
      delta: with Gaussian noise, in (0, 1).
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace" or "gaussian".
      lipschitz: L, of the losses in the Euclidean norm; by default that of the domain's own loss
        set, the length of its longest vector.
      loss_range: of the values f_t(x_t): (low, high), or with B = L (D + zeta) and D the diameter,
        for losses that are 0 somewhere on the domain: "signed" [-B, B]; "nonnegative" [0, B];
        "nonnegative_inside" [-L zeta, B], for losses that fall below 0 outside, as linear ones.
        Values out of range are clipped and counted; the middle of the range is subtracted.
      batch: b; by default the integer part of sqrt(T), and then the last batch may be shorter. A
        given one must divide T.
      smoothing: zeta > 0; default D sqrt(n) / T^(1/4), with ``shrink`` at most r / 2.
      rate: eta > 0; default D / (kappa sqrt(T / b)), kappa^2 = b (n B / zeta)^2 + b^2 L^2, whatever
        epsilon is.
      shrink: plays stay in the domain, for the bases are those of c + (1 - zeta / r) (domain - c),
        r the inradius. D + zeta is then D in the ranges above.
      calibration: "single_change", "batch_norm" or "printed" (the last for the tree).

    Returns:
      A Learner that sees the value of its loss alone, and whose action is x_t, (d,). The report
      counts clipped values and certifies how far bases were from the minimizers that they stand
      for, sqrt(2 gap) with the least gap of each batch; it is at most D sqrt(13.5 / (b + 1)) (Jaggi
      2013, Theorem 2).

    Raises:
      ValueError, TypeError: bad arguments, by name. A smoothing beyond what the theory covers is
      played, with a warning that says what it voids.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central, for
    replacement of one round's loss function, released: actions 1..T. With W the width of the range:

        single_change   a change of f_t, given all releases before, changes one summand of one g_R,
                        by at most (n / zeta) W along u_t: Delta_2 = (n / zeta) W and
                        Delta_1 = sqrt(n) Delta_2, whatever the directions are (they may not be
                        used to hide anything: plays reveal them)
        batch_norm      what the paper's argument bounds, the norm of a whole batch's sum:
                        b Delta_1, and for L2 the least of b Delta_2 and a tail bound
        printed         Lemmas 7 and 10, with O(1) = 1 and natural logarithms; declared is what
                        that noise has by "single_change"

    "single_change" is our derivation, not peer-reviewed; the printed noise suffices in the stated
    range of T, and the gap is in the AAAI text's proof (the full version was not seen). That range:
    the printed Laplace scale is at least that of "single_change" for nonnegative losses on the tree
    of h levels if sqrt(T) ln T >= h (T^(1/4) + sqrt n), twice the right side for signed losses. The
    proof bounds the L1 norm of a batch by T^(3/4) n L and prints T^(1/2) n L; that of the Gaussian
    scale applies Lemma 9, right for |c|_2 <= 1, to c with |c|_inf <= 1.

    Regret: the paper's Lemma 5, O(T^(3/4) sqrt(n) L D + T^(1/4) D mu log T), mu the mean length of
    one draw of noise. With "single_change" the second term is O~(sqrt(T) n L D / epsilon) for
    Gaussian noise by our count, lower than the first: privacy would be free for large T, a
    hypothesis to be tested here and no theorem. Regret counts the points that are played, outside
    the domain too, against the best point of the domain, so it may be negative.

    Reference: Ene, Nguyen & Vladu, "Projection-free bandit optimization with privacy guarantees",
    2021, Algorithm 1, in the AAAI text, whose zeta we reconstruct; Garber & Kretzu 2020.
    """
    horizon = _check.size(1, horizon=horizon)
    check_domain(domain)
    epsilon = _check.epsilon(epsilon)
    _check.positive(**_check.given(smoothing=smoothing, rate=rate))
    _check.one_of("single_change", "batch_norm", "printed", calibration=calibration)
    (lipschitz,) = as_floats(lipschitz=domain.losses.norms[1] if lipschitz is None else lipschitz)
    if batch is None:
        batch = math.isqrt(horizon)
    batch = _check.size(1, batch=batch)
    batches = -(-horizon // batch)
    if horizon % batch and batch != math.isqrt(horizon):
        raise ValueError(f"batch must divide the horizon, {horizon}, got {batch}")
    space = directions(domain)
    n = space.dim
    zeta = smoothing_radius(horizon, domain.diameter, n)
    if shrink:
        zeta = min(zeta, inradius_of(domain) / 2)
    zeta = zeta if smoothing is None else smoothing
    _warn_beyond(zeta, domain, shrink)
    losses = values(domain, loss_range, lipschitz, 0.0 if shrink else zeta)
    weight = n / zeta
    if rate is None:
        rate = step_size(batches, batch, domain.diameter, n, zeta, losses.bound, lipschitz)
    eta = jnp.asarray(rate, jnp.float32)

    change = weight * (losses.high - losses.low)
    norms = (n**0.5, 1.0)
    if calibration == "batch_norm":
        norms = batch_norms(batch, batches, n, epsilon, delta)
    calibrated = calibrate(
        # The last prefix that a play depends on is that of all batches but two.
        max(batches - 1, 1), (n,), tuple(change * norm for norm in norms), epsilon=epsilon,
        delta=delta, mechanism=mechanism, noise=noise, loss_range=(losses.low, losses.high),
        printed_scale=(
            printed_scale(horizon, n, lipschitz, epsilon, delta)
            if calibration == "printed"
            else None
        ),
    )  # fmt: skip
    last_summed = batch * (batches - 2)

    inner = domain
    if shrink:
        inner = shrunk(domain, jnp.maximum(1.0 - zeta / inradius_of(domain), 1e-3))
    centre = jnp.asarray(domain.centre, jnp.float32)
    weight, radius = jnp.asarray(weight, jnp.float32), jnp.asarray(zeta, jnp.float32)

    def play(base, direction):
        return base + rounded(radius * space.lift(direction))

    def against(release):
        return rounded(eta * space.lift(release))

    def init(key):
        direction_key, sums_key = jr.split(key)
        sums, release = calibrated.stream.init(sums_key)
        direction, zero = space.draw(direction_key), jnp.zeros((), jnp.float32)
        none = jnp.zeros((), jnp.int32)
        state = ProjectionFreeState(
            none, centre, centre, against(release), direction, jnp.zeros(n, jnp.float32), sums,
            zero + jnp.inf, zero, none,
        )  # fmt: skip
        return state, play(centre, direction)

    def step(state, key, loss):
        direction_key, sums_key = jr.split(key)
        seen, out_of_range = losses.read(loss)
        estimate = state.estimate + rounded(rounded(weight * seen) * state.direction)
        gradient = state.solver - centre + state.linear
        solver, gap = conditional_gradient_step(inner, state.solver, gradient)
        t, gap = state.round + 1, jnp.minimum(state.gap, gap)
        done = t % batch == 0

        def sum_up():
            sums, release = calibrated.stream.step(state.sums, sums_key, estimate)
            return sums, against(release), jnp.zeros_like(estimate)

        sums, linear, estimate = lax.cond(
            done & (t <= last_summed), sum_up, lambda: (state.sums, state.linear, estimate)
        )
        direction = space.draw(direction_key)
        state = ProjectionFreeState(
            round=t,
            base=jnp.where(done, solver, state.base),
            solver=solver,
            linear=linear,
            direction=direction,
            estimate=estimate,
            sums=sums,
            gap=jnp.where(done, jnp.inf, gap),
            worst_gap=jnp.where(done, jnp.maximum(state.worst_gap, gap), state.worst_gap),
            clipped=state.clipped + out_of_range.astype(jnp.int32),
        )
        return state, play(state.base, direction)

    def report(state):
        return ProjectionFreeReport(state.clipped, jnp.sqrt(2.0 * state.worst_gap), radius)

    return Learner(
        init=init,
        step=step,
        feedback=value,
        action_set=domain,
        horizon=horizon,
        privacy=calibrated.privacy,
        report=report,
    )


def _warn_beyond(zeta, domain, shrink) -> None:
    if not is_known(zeta):
        return
    if shrink and zeta > inradius_of(domain):
        warnings.warn(
            f"smoothing: zeta = {zeta:.3g} is beyond the inradius, {domain.inradius:.3g}: plays "
            "leave the domain in spite of shrink, and no regret bound is known",
            stacklevel=3,
        )
    elif zeta > domain.diameter:
        warnings.warn(
            f"smoothing: zeta = {zeta:.3g} is beyond the diameter, {domain.diameter:.3g}: the "
            "regret bound is then above T L D and says nothing",
            stacklevel=3,
        )
