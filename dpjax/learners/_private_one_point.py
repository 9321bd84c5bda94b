"""Private bandit convex optimization with projections, in the style of Smith & Thakurta."""

from collections.abc import Callable

import jax.numpy as jnp

from dpjax import mechanisms
from dpjax.core import Learner, Number
from dpjax.domains import Domain
from dpjax.feedback import value
from dpjax.learners.parts import one_point
from dpjax.learners.parts.prefix_sums import calibrate
from dpjax.maths.barriers import rounded_product
from dpjax.noise import LawName


def private_one_point(
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
) -> Learner:
    """Projected descent on private one-point estimates, in the style of Smith & Thakurta.

    This baseline for :func:`projection_free` projects in every round. Let s~_t be the noisy sum of
    the estimates (n / zeta) f_s(x_s) u_s of rounds 1 .. t, released in every round. Then

        x_t = y_t + zeta u_t,   y_(t+1) = projection of c - eta s~_t on the domain shrunk by
        1 - zeta / r around its centre c.

    The paper adds a quadratic to each loss and analyses strong convexity. Both are left out here.

    Args:
      horizon: T, rounds.
      domain: a Domain with a known inradius, with L as in :func:`one_point_gradient`.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), with Gaussian or discrete Gaussian noise.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace", "gaussian" or another law, as in :func:`ftrl`.
      loss_range: the range of the losses on the domain, as in :func:`projection_free`, with
        zeta = 0.
      smoothing: zeta, in (0, r), with r the inradius of the domain; default as in
        :func:`one_point_gradient`.
      rate: eta, positive; default R zeta / (n C sqrt T), with R the radius of the domain and C half
        the width of the loss range.

    Returns:
      A Learner that observes only the value of its loss. An action is x_t (d,), in the domain.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central, for replacement
    of one round's loss function. Released values: actions 1..T. A change of f_t changes one
    estimate, by at most (n / zeta) W along u_t, with W the width of the range. So the noise grows
    as 1 / zeta and does not depend on eta. Estimates are rounded to integers before integer noise
    is added.

    Regret: O~(T^(3/4)), with terms as in :func:`one_point_gradient` and others for the noise. No
    bound with constants is claimed.

    Reference: the idea is that of Smith & Thakurta, "(Nearly) optimal algorithms for private online
    learning in full-information and bandit settings", 2013, simplified and as recalled.

    Examples:
      >>> learner = learners.private_one_point(1000, domains.ball(2), epsilon=1.0)
      >>> learner.feedback.name, learner.privacy.sums.horizon  # a release in each round
      ('value', 1000)
    """
    space, losses, zeta, inner = one_point.exploration(horizon, domain, loss_range, smoothing)
    n, weight = space.dim, space.dim / zeta
    eta = domain.radius / (weight * losses.bound * horizon**0.5)
    if rate is not None:
        eta = jnp.asarray(rate, jnp.float32)
    change = weight * (losses.high - losses.low)
    calibrated = calibrate(
        horizon, (n,), (n**0.5 * change, change), epsilon=epsilon, delta=delta,
        mechanism=mechanism, noise=noise, value_range=one_point.entries_of(weight, losses),
        loss_range=(losses.low, losses.high),
    )  # fmt: skip
    centre = jnp.asarray(domain.centre, jnp.float32)

    def act(release, direction):
        base = inner.project(centre - rounded_product(eta, space.lift(release)))
        return base + rounded_product(zeta, space.lift(direction))

    def estimate(loss, direction):
        return rounded_product(weight, loss - losses.middle, direction)

    init, step = one_point.on_private_estimates(calibrated, space, act, estimate)
    return Learner(init, step, value, domain, horizon, calibrated.privacy)
