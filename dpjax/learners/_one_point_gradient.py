"""Online gradient descent without a gradient: bandit convex optimization by projections."""

from typing import NamedTuple

import jax.numpy as jnp

from dpjax.core import Array, Learner, Number, Privacy
from dpjax.domains import Domain
from dpjax.feedback import value
from dpjax.learners.parts import one_point
from dpjax.maths.barriers import rounded_product


class OnePointGradientState(NamedTuple):
    base: Array  # (d,) y_t
    direction: Array  # (n,) u_t


def one_point_gradient(
    horizon: int,
    domain: Domain,
    *,
    loss_range: str | tuple[float, float] = "signed",
    smoothing: Number | None = None,
    rate: Number | None = None,
) -> Learner:
    """Gradient descent on one-point estimates, projected every round, without privacy.

    Let C be half the width of the loss range, and R and r the outer and inner radius of the domain.
    With u_t uniform on the unit sphere,

        x_t = y_t + zeta u_t,   y_(t+1) = projection of y_t - nu f_t(x_t) u_t on the domain shrunk
        by 1 - zeta / r.

    Args:
      horizon: T, rounds.
      domain: a Domain with a known inradius. L is the length of the longest vector of its loss set;
        to change it use ``domain._replace(losses=domains.ball_losses(d, L))``.
      loss_range: the range of the losses on the domain, as in :func:`projection_free`, with
        zeta = 0.
      smoothing: zeta, in (0, r); default T^(-1/4) sqrt(R n C r / (3 (L r + C))), at most r / 2.
      rate: nu, positive; default R / (C sqrt T).

    Returns:
      A Learner that observes only the value of its loss. An action is x_t (d,), in the domain.

    Privacy: none is declared.

    Regret: at most 2 T^(3/4) sqrt(3 R n C (L + C / r)) in expectation, for large T and the default
    constants.

    Reference: Flaxman, Kalai & McMahan, "Online convex optimization in the bandit setting: gradient
    descent without a gradient", 2005, Theorem 2, as recalled.

    Examples:
      >>> learner = learners.one_point_gradient(1000, domains.ball(2))
      >>> float(learner.feedback(jnp.array([0.5, 0.25]), jnp.array([1.0, 0.0])))  # all that it sees
      0.5
    """
    space, losses, zeta, inner = one_point.exploration(horizon, domain, loss_range, smoothing)
    if rate is None:
        rate = domain.radius / (losses.bound * horizon**0.5)
    nu = jnp.asarray(rate, jnp.float32)

    def play(base, key):
        direction = space.draw(key)
        point = base + rounded_product(zeta, space.lift(direction))
        return OnePointGradientState(base, direction), point

    def init(key):
        return play(jnp.asarray(domain.centre, jnp.float32), key)

    def step(state, key, loss):
        move = rounded_product(nu, loss - losses.middle, space.lift(state.direction))
        return play(inner.project(state.base - move), key)

    return Learner(
        init, step, value, domain, horizon, Privacy(loss_range=(losses.low, losses.high))
    )
