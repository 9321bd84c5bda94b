"""SCRiBLE: bandit linear optimization over a convex set, by a self-concordant barrier."""

from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import privacy
from dpjax.combinators import private_reduction
from dpjax.core import Array, Learner, Number, Privacy, PyTree
from dpjax.domains import Domain, fitting
from dpjax.feedback import linear, unclipped
from dpjax.learners.parts.one_point import unit_vector
from dpjax.maths.barriers import Barrier, rounded, rounded_product
from dpjax.privacy.printed import Calibration, is_printed


class ScribleState(NamedTuple):
    sums: Array  # (d,) L~, the sum of the estimates; in coordinates of the barrier's path, if any
    dual: Array  # (d,) A^-1 u of the current point
    violations: Array  # () int32
    centre: PyTree = ()  # (n,) x, if the barrier has a path
    residual: PyTree = ()  # ()


class ScribleReport(NamedTuple):
    violations: Array  # () int32, rounds with eta n |f| > 1/4, which the regret proof excludes
    residual: PyTree = ()  # () largest remaining Newton decrement; () if x has a closed form


def step_size(horizon: int, barrier: Barrier, bound: Number, variance: Number):
    """eta = sqrt(nu ln T / (2 n^2 T (M^2 + s^2))), for noise of variance s^2.

    It minimizes nu ln T / eta + 2 eta n^2 T (M^2 + s^2). The printed eta has n = N and s^2 =
    lambda^2 N |X|_2^2.
    """
    spread = 2.0 * barrier.dim**2 * horizon * (bound * bound + variance)
    return jnp.sqrt(barrier.parameter * np.log(horizon) / spread)


def no_estimates(key: Array, dim: int):
    """Zeros (dim,), the sum of no estimates, computed from a key so that they are not constant.

    A compiler would precompute the first point from constant zeros, possibly rounded differently
    from a program that computes it at run time.
    """
    return 0.0 * jr.uniform(key, (dim,))


def ellipsoid_play(horizon: int, domain, eta: Number, centre: Number) -> Learner:
    """SCRiBLE on the received losses, which may be noisy and outside any range.

    ``centre`` is subtracted from each loss. As E[u] = 0, the estimate remains unbiased.
    """
    barrier = domain.barrier
    n, path = barrier.dim, barrier.path

    def act(key, sums, violations, x, residual):
        s, u = rounded_product(eta, sums), unit_vector(key, n)
        if path is None:
            point, dual = barrier.explore(s, u)
        else:
            x, left, point, dual = path.explore(s, x, u)
            residual = jnp.maximum(residual, left)
        return ScribleState(sums, dual, violations, x, residual), point

    def init(key):
        zero_key, key = jr.split(key)
        none = jnp.zeros((), jnp.int32)
        if path is None:
            return act(key, no_estimates(zero_key, domain.dim), none, (), ())
        start = jnp.asarray(path.start)
        return act(key, no_estimates(zero_key, n), none, start, jnp.zeros((), jnp.float32))

    def step(state, key, loss):
        f = loss - centre
        violations = state.violations + (eta * n * jnp.abs(f) > 0.25).astype(jnp.int32)
        sums = state.sums + rounded(n * f * state.dual)
        return act(key, sums, violations, state.centre, state.residual)

    def report(state):
        return ScribleReport(state.violations, state.residual)

    return Learner(init, step, linear, domain, horizon, Privacy(), report, clip=unclipped)


def scrible(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    rate: Number | None = None,
    noise: Literal["scalar", "vector"] = "scalar",
    calibration: Calibration = "derived",
) -> Learner:
    """SCRiBLE on noisy losses: bandit linear optimization on balls and polytopes.

    Let L~ be the estimate of the sum of the losses, initially zero, and R'' the Hessian of a
    barrier R. Each round computes

        x = argmin eta <x, L~> + R(x),   A = R''(x)^(-1/2)

    and plays y = x + A u on the surface of the Dikin ellipsoid around x, which lies in the domain.
    u is uniform on the unit sphere of dimension n.
    The learner observes f = <l, y> plus noise, and adds l~ = n f A^-1 u, whose mean is l, to the
    estimate.

    Args:
      horizon: T, rounds.
      domain: a Domain with a barrier: simplex(d) with n = d - 1, ball(d), cube(d), or polytope(A,
        b) with n = d and nu the number of rows that are facets. On a polytope x is found by five
        Newton steps from the previous round's x.
      epsilon: privacy parameter; inf adds no noise and gives SCRiBLE with its own rate.
      rate: eta, positive; default sqrt(nu ln T / (2 n^2 T (M^2 + s^2))), with nu the parameter of
        the barrier, M half the width of the range of <l, x>, and s^2 the variance of the noise.
      noise: "scalar", one draw in each round, or "vector", a draw for each coordinate, as printed.
        The variance is 8 M^2 / epsilon^2 with "scalar", and up to 8 |X|_2^2 |Y|_1^2 / epsilon^2
        with "vector".
      calibration: "derived", or "printed" for the paper's noise and eta (vector noise only).

    Returns:
      A Learner whose action is a point y, (d,), and which observes only <l, y>. The report counts
      the rounds with eta n |f| > 1/4, which the proof excludes. In these rounds f is not clipped,
      since that would bias the estimate. On a polytope the report also has the largest Newton
      decrement that remained at an x (residual): about 1e-6 if there are no such rounds.

    Privacy: epsilon-DP, local, for replacement of one round. Released values: actions 1..T. Epsilon
    does not depend on eta, since the noise is added to the observed value. "printed" has noise of
    scale |Y|_1 / epsilon in each coordinate. Under replacement (the paper's Definition 2.1), it
    declares 2 epsilon if losses are symmetric and epsilon if their values have one sign. (The scale
    is correct if a round is zeroed out.)

    Regret: with the default rate at most 2 n sqrt(2 nu T ln T (M^2 + s^2)) + 2 M in expectation
    (oblivious losses), as long as eta n |f| <= 1/4, with M and s^2 as for ``rate``. The paper
    bounds the variance of <Z, y> by N lambda^2 |X|_2^2. This variance is 2 lambda^2 |y|_2^2, which
    is smaller for N >= 3.

    Raises:
      ValueError: the domain has no barrier.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithm 4, Theorem 4.5; Abernethy, Hazan & Rakhlin, "Competing in the dark", 2008 (axes), and
    "Interior-point methods for full-information and bandit online learning", 2012.

    Examples:
      >>> learner = learners.scrible(
      ...     1000, domains.ball(3), epsilon=1.0, noise="vector", calibration="printed"
      ... )
      >>> learner.privacy.model, float(learner.privacy.epsilon)
      ('local', 2.0)
    """
    losses = fitting(domain, None)
    if domain.barrier is None:
        raise ValueError(
            "domain must have a self-concordant barrier, as simplex, ball, cube and polytope have"
        )
    printed = is_printed(calibration)
    barrier, norm = domain.barrier, losses.norms[0]
    low, high = barrier.values(losses)
    bound, centre = (high - low) / 2, (high + low) / 2
    farthest = float(np.linalg.norm(domain.centre)) + domain.radius  # at least |X|_2
    if printed:
        if noise != "vector":
            raise ValueError("calibration: the paper prints vector noise only")
        bound, centre = max(abs(low), abs(high)), 0.0
        scale = privacy.laplace_scale(norm, epsilon)
        variance = domain.dim * jnp.square(scale * farthest)
        barrier = barrier._replace(dim=domain.dim)
    elif noise == "vector":
        variance = 2.0 * jnp.square(privacy.laplace_scale(2.0 * norm, epsilon) * farthest)
    else:
        variance = 2.0 * jnp.square(privacy.laplace_scale(high - low, epsilon))
    eta = step_size(horizon, barrier, bound, variance)
    if rate is not None:
        eta = jnp.asarray(rate, jnp.float32)
    return private_reduction(
        ellipsoid_play(horizon, domain, eta, centre),
        epsilon=epsilon,
        loss_range=(low, high),
        noise=noise,
        norm=norm,
        calibration=calibration,
    )
