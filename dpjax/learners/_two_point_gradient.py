"""Follow the regularized leader on private two-point gradient estimates of convex losses."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp

from dpjax import mechanisms
from dpjax.core import Learner, Number, _check
from dpjax.domains import Domain, check_domain, shrunk
from dpjax.feedback import difference
from dpjax.learners.parts.one_point import directions, inradius_of, on_private_estimates
from dpjax.learners.parts.prefix_sums import calibrate, noise_length
from dpjax.maths.barriers import rounded_product
from dpjax.maths.clipping import into_range
from dpjax.noise import LawName


def default_smoothing(horizon: int, domain: Domain) -> float:
    """zeta = R / T, at least R / 2000 since values are float32, and at most r / 2."""
    return min(domain.radius / min(horizon, 2000), inradius_of(domain) / 2)


def two_point_gradient(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: LawName = "laplace",
    smoothing: float | None = None,
    rate: Number | None = None,
) -> Learner:
    """Follow the regularized leader on private gradient estimates from two points a round.

    Let u_t be uniform on the unit sphere of R^n, and s~_t the noisy sum of the estimates
    g_1 .. g_t. Then

        g_t = (n / (2 zeta)) (f_t(y_t + zeta u_t) - f_t(y_t - zeta u_t)) u_t,
        y_(t+1) = projection of c - eta s~_t / 2 on the domain shrunk by 1 - zeta / r around c.

    Both points are played, and the loss of the round is the mean of their losses. The difference of
    the two values is clipped to 2 zeta G. So the length of g_t is at most n G for any zeta, while
    the one-point estimate grows as 1 / zeta.

    Args:
      horizon: T, rounds.
      domain: a Domain with a known inradius r. If it has no interior, u_t is a direction of its
        affine hull, whose dimension is n. G is the length of the longest vector of its loss set, as
        in :func:`one_point_gradient`.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), with Gaussian noise.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace" or "gaussian".
      smoothing: zeta, in (0, r); default R / T with R the radius of the domain, and at least
        R / 2000. Values are float32, so smaller differences would be lost to rounding.
      rate: eta, positive; default R / sqrt(T (S / 4 + G z / 2)) with S = n^2 G^2 / max(n - 1, 1)
        and z the root mean square length of a prefix's noise.

    Returns:
      A Learner that observes the difference of the loss at its two points, (). An action is both
      points, (2, d), in the domain.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central, for replacement
    of one round's loss function. Released values: actions 1..T. Given all earlier releases, a
    change of f_t changes only g_t, along u_t, by at most 2 n G in L2 and so 2 n^1.5 G in L1.

    Regret: at most R sqrt(T (S + 2 G z)) + (2 + R / r) G zeta T in expectation, for the default
    rate. S bounds the mean square of an estimate. The reason is that half the difference is an odd
    function on the sphere with slope zeta G. By the inequality of Poincare its variance is at most
    (zeta G)^2 / (n - 1). The noise enters as in :func:`ftrl` with the rate "noisy". The derivation
    is ours.

    Reference: Agarwal, Dekel & Xiao, "Optimal algorithms for online convex optimization with
    multi-point bandit feedback", 2010; Shamir 2017; both as recalled. The noise is ours.

    Examples:
      >>> learner = learners.two_point_gradient(1000, domains.ball(3), epsilon=1.0)
      >>> state, points = jax.eval_shape(learner.init, jax.random.key(0))
      >>> points.shape, learner.feedback.name
      ((2, 3), 'difference')
    """
    check_domain(domain)
    _check.one_of("laplace", "gaussian", noise=noise)
    longest = domain.losses.norms[1]
    _check.inside(0.0, inradius_of(domain), **_check.specified(smoothing=smoothing))
    zeta = default_smoothing(horizon, domain) if smoothing is None else smoothing
    space = directions(domain)
    n, most = space.dim, 2.0 * zeta * longest
    calibrated = calibrate(
        horizon, (n,), (2 * n**1.5 * longest, 2 * n * longest), epsilon=epsilon, delta=delta,
        mechanism=mechanism, noise=noise, value_range=(-n * longest, n * longest),
        loss_range=(-most, most),
    )  # fmt: skip
    if rate is None:
        square = n**2 * longest**2 / max(n - 1, 1)
        length = noise_length(horizon, n, calibrated)
        rate = domain.radius / jnp.sqrt(horizon * (square / 4 + longest * length / 2))
    eta = jnp.asarray(rate, jnp.float32)
    inner = shrunk(domain, 1.0 - zeta / inradius_of(domain))
    centre = jnp.asarray(domain.centre, jnp.float32)

    def act(release, direction):
        base = inner.project(centre - rounded_product(0.5 * eta, space.lift(release)))
        move = rounded_product(zeta, space.lift(direction))
        return jnp.stack([base + move, base - move])

    def estimate(loss, direction):
        return rounded_product(n / (2.0 * zeta), loss, direction)

    init, step = on_private_estimates(calibrated, space, act, estimate)
    # The values are rounded, so a difference may slightly exceed its bound.
    clip = partial(into_range, low=-most, high=most, tolerance=1e-3 * most)
    return Learner(init, step, difference, domain, horizon, calibrated.privacy, clip=clip)
