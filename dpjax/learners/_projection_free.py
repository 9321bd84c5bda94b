"""PRIVATEBANDIT: private bandit convex optimization without projections."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import mechanisms, privacy
from dpjax.core import Array, Learner, Number, PyTree, _check
from dpjax.domains import Domain, check_domain, conditional_gradient_step
from dpjax.feedback import value
from dpjax.learners.parts import one_point
from dpjax.learners.parts.prefix_sums import RELEASED, calibrate
from dpjax.maths.barriers import rounded_product
from dpjax.noise import LawName


class ProjectionFreeState(NamedTuple):
    round: Array  # () int32, t
    base: Array  # (d,) x~_(R-1), the base of batch R
    solver: Array  # (d,) the iterate of the conditional gradient method, x~_R at the batch's end
    linear: Array  # (d,) eta s~_(R-1), the linear part of the method's objective
    direction: Array  # (n,) u_t
    estimate: Array  # (n,) g_R so far
    sums: PyTree  # of the mechanism
    gap: Array  # () the smallest gap in this batch
    worst_gap: Array  # () the largest of the smallest gaps of previous batches


class ProjectionFreeReport(NamedTuple):
    distance: Array  # () bound on the distance of any base from the minimizer that it approximates
    reach: Array  # () the largest distance of an action from the domain


def smoothing_radius(horizon: int, diameter: Number, dim: int):
    """zeta = D sqrt(n) / T^(1/4), as the proof of the paper's Lemma 7 requires."""
    return diameter * dim**0.5 / horizon**0.25


def step_size(batches, batch, diameter, dim, zeta, bound, lipschitz):
    """eta = D / (kappa sqrt(batches)), kappa^2 = b M^2 + b^2 L^2 with M = n B / zeta.

    kappa bounds the root mean square length of a batch's estimate. With b = sqrt T and B = L D the
    first term is T n L^2. Without the second term eta is as printed, D / (T^(3/4) sqrt(n) L).
    """
    weight = dim * bound / zeta
    kappa = jnp.sqrt(batch * weight * weight + (batch * lipschitz) ** 2)
    return diameter / (kappa * batches**0.5)


def printed_scale(horizon: int, dim: int, lipschitz: Number, epsilon: Number, delta: Number | None):
    """The scale of each node: lambda of Lemma 7 if delta is None, otherwise sigma of Lemma 10.

    With O(1) = 1 and natural logarithms they are

        lambda = sqrt(T) n L ln T / epsilon,
        sigma = T^(1/4) sqrt(n) L ln T ln(T/delta) sqrt((1 + sqrt(T)/n) ln((n+T)/delta)) / epsilon.
    """
    log, epsilon = math.log(horizon), jnp.asarray(epsilon, jnp.float32)
    if delta is None:
        return horizon**0.5 * dim * lipschitz * log / epsilon
    tail = (1.0 + horizon**0.5 / dim) * jnp.log((dim + horizon) / delta)
    size = horizon**0.25 * dim**0.5 * lipschitz * log * jnp.log(horizon / delta)
    return size * jnp.sqrt(tail) / epsilon


def batch_norms(batch: Number, batches: Number, dim: int, epsilon: Number, delta: Number | None):
    """Bounds (L1, L2) on the sum of b vectors c_r u_r, |c_r| <= 1, as the paper's proof needs.

    The L1 bound is b sqrt(n). The L2 bound is the smaller of b and sqrt(b) t, which holds for all
    batches with probability 1 - delta / 2. Here matrix Bernstein (Tropp 2015) gives
    P(|[u_1 .. u_b]| >= t) <= (n + b) exp(-t^2 / (2 (1 + b/n) + 2t/3)), which is the paper's Lemma 9
    for |c|_2 <= 1. Only half of delta is left for the noise, so the L2 bound includes the factor by
    which this increases the noise.
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
    noise: LawName = "laplace",
    loss_range: str | tuple[float, float] = "signed",
    smoothing: Number | None = None,
    rate: Number | None = None,
    calibration: Literal["single_change", "batch_norm", "printed"] = "single_change",
) -> Learner:
    """PRIVATEBANDIT: private bandit convex optimization without projections.

    Rounds are grouped in batches of b = floor(sqrt(T)); the last batch may be shorter. Batch R
    plays around a base x~_(R-1), sums one-point gradient estimates, and releases their noisy prefix
    sum s~_R:

        x_t = x~_(R-1) + zeta u_t, u_t uniform on the unit sphere,   f_t(x_t) is seen,
        g_R = sum over the batch of (n / zeta) f_t(x_t) u_t,         s~_R = g_1 + ... + g_R + noise.

    During the batch, b steps of the conditional gradient method (one linear minimization in each
    round) lead from x~_(R-1) to x~_R. This point is near the minimizer of
    |x - c|^2 / 2 + eta <s~_(R-1), x>, with c the centre of the domain. So batch R depends on the
    data of batches 1 .. R - 2. The first two batches use no data, and the estimates of the last two
    are never summed.

    Args:
      horizon: T, rounds.
      domain: a Domain with a linear minimizer. Actions may be up to zeta outside of it, and losses
        must be defined there. If the domain has no interior, actions stay in its affine hull, whose
        dimension is n. L is the length of the longest vector of its loss set, as in
        :func:`one_point_gradient`. On ``domains.shrunk(domain, 1 - zeta / r)``, with r the
        inradius, actions stay in the domain.
      epsilon: privacy parameter; inf adds no noise. The algorithm is then in the style of Garber &
        Kretzu 2020, with a fixed number of steps instead of their stopping rule.
      delta: in (0, 1), with Gaussian or discrete Gaussian noise.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace", "gaussian" or another law, as in :func:`ftrl`.
      loss_range: the range of the values f_t(x_t): (low, high), or one of three words for losses
        that are 0 somewhere on the domain. With B = L (D + zeta) and D the diameter, "signed" is
        [-B, B] and "nonnegative" is [0, B]. "nonnegative_inside" is [-L zeta, B], for losses that
        become negative outside the domain, as linear ones do. The middle of the range is
        subtracted.
      smoothing: zeta > 0; default D sqrt(n) / T^(1/4).
      rate: eta > 0; default D / (kappa sqrt(T / b)) with kappa^2 = b (n B / zeta)^2 + b^2 L^2, for
        every epsilon.
      calibration: "single_change", "batch_norm" or "printed" (the last for the tree).

    Returns:
      A Learner that observes only the value of its loss. An action is x_t, (d,). The report bounds
      the distance of any base from the minimizer that it approximates: it is at most sqrt(2 gap),
      for the smallest gap of the batch. This is at most D sqrt(13.5 / (b + 1)) (Jaggi 2013, Theorem
      2).

    Raises:
      ValueError, TypeError: an argument is invalid. A smoothing outside the theory is accepted with
        a warning that names the statement that no longer holds.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central, for replacement
    of one round's loss function. Released values: actions 1..T. With W the width of the range:

        single_change   Given all earlier releases, a change of f_t changes one summand of one g_R,
                        by at most (n / zeta) W along u_t. So Delta_2 = (n / zeta) W and
                        Delta_1 = sqrt(n) Delta_2 for any directions. (Directions cannot hide
                        anything, since plays reveal them.)
        batch_norm      The norm of a whole batch's sum, which the paper's argument bounds. It is
                        b Delta_1, and in L2 the smaller of b Delta_2 and a tail bound.
        printed         The scales of Lemmas 7 and 10, with O(1) = 1 and natural logarithms. The
                        declared privacy is that of this noise by "single_change".

    "single_change" is our derivation, and not peer-reviewed. The printed noise suffices for large
    T, but the proof in the AAAI text has a gap. (We have not seen the full version.) For
    nonnegative losses on a tree of h levels, the printed Laplace scale is at least that of
    "single_change" if sqrt(T) ln T >= h (T^(1/4) + sqrt n). For signed losses twice the right-hand
    side is needed. The proof bounds the L1 norm of a batch by T^(3/4) n L and prints T^(1/2) n L.
    The proof of the Gaussian scale applies Lemma 9, which is correct for |c|_2 <= 1, to c with
    |c|_inf <= 1.

    Regret: by the paper's Lemma 5, O(T^(3/4) sqrt(n) L D + T^(1/4) D mu log T), with mu the mean
    length of one noise draw. With "single_change" and Gaussian noise we obtain O~(sqrt(T) n L
    D / epsilon) for the second term, which is below the first. Privacy would then be free for large
    T. This is a hypothesis to test, not a theorem. Regret compares the played points, also those
    outside the domain, with the best point of the domain, so it may be negative.

    Reference: Ene, Nguyen & Vladu, "Projection-free bandit optimization with privacy guarantees",
    2021, Algorithm 1, in the AAAI text; we reconstruct its zeta. Garber & Kretzu 2020.

    Examples:
      >>> learners.projection_free(1000, domains.ball(2), epsilon=1.0).privacy.sums.horizon
      32
    """
    check_domain(domain)
    _check.positive(**_check.specified(smoothing=smoothing))
    lipschitz = domain.losses.norms[1]
    batch = math.isqrt(horizon)
    batches = -(-horizon // batch)
    space = one_point.directions(domain)
    n = space.dim
    zeta = smoothing_radius(horizon, domain.diameter, n) if smoothing is None else smoothing
    losses = one_point.values(domain, loss_range, lipschitz, zeta)
    if rate is None:
        rate = step_size(batches, batch, domain.diameter, n, zeta, losses.bound, lipschitz)
    eta, weight = jnp.asarray(rate, jnp.float32), n / zeta
    norms, scale = (n**0.5, 1.0), None
    if calibration == "batch_norm":
        norms = batch_norms(batch, batches, n, epsilon, delta)
    if calibration == "printed":
        scale = printed_scale(horizon, n, lipschitz, epsilon, delta)
    # Given all releases, a changed loss moves one batch's sum, by (n / zeta) W times ``norms``. The
    # last prefix that an action depends on contains all batches but two.
    change = weight * (losses.high - losses.low)
    calibrated = calibrate(
        max(batches - 1, 1), (n,), tuple(change * norm for norm in norms), epsilon=epsilon,
        delta=delta, mechanism=mechanism, noise=noise,
        value_range=one_point.entries_of(weight, losses, batch),
        loss_range=(losses.low, losses.high), printed_scale=scale,
    )  # fmt: skip
    # The party that sums a batch sees its rounds without noise, for any mechanism.
    declared = calibrated.privacy._replace(model="central", released=RELEASED["central"])
    last_summed = batch * (batches - 2)
    centre = jnp.asarray(domain.centre, jnp.float32)
    weight, radius = jnp.asarray(weight, jnp.float32), jnp.asarray(zeta, jnp.float32)

    def play(base, direction):
        return base + rounded_product(radius, space.lift(direction))

    def against(release):
        return rounded_product(eta, space.lift(release))

    def init(key):
        direction_key, sums_key = jr.split(key)
        sums, release = calibrated.init(sums_key)
        direction, zero = space.draw(direction_key), jnp.zeros((), jnp.float32)
        state = ProjectionFreeState(
            round=jnp.zeros((), jnp.int32),
            base=centre,
            solver=centre,
            linear=against(release),
            direction=direction,
            estimate=jnp.zeros(n, jnp.float32),
            sums=sums,
            gap=zero + jnp.inf,
            worst_gap=zero,
        )
        return state, play(centre, direction)

    def step(state, key, loss):
        direction_key, sums_key = jr.split(key)
        moved = rounded_product(weight, loss - losses.middle, state.direction)
        estimate = state.estimate + moved
        gradient = state.solver - centre + state.linear
        solver, gap = conditional_gradient_step(domain, state.solver, gradient)
        t, gap = state.round + 1, jnp.minimum(state.gap, gap)
        done = t % batch == 0

        def sum_up():
            sums, release = calibrated.step(state.sums, sums_key, estimate)
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
        )
        return state, play(state.base, direction)

    def report(state):
        return ProjectionFreeReport(jnp.sqrt(2.0 * state.worst_gap), radius)

    return Learner(init, step, value, domain, horizon, declared, report=report)
