"""Private follow the approximate leader, with losses made strongly convex."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import mechanisms
from dpjax.core import Array, Learner, Neighbours, Number, PyTree, Unit
from dpjax.domains import Domain, fitting
from dpjax.feedback import full
from dpjax.learners.parts.prefix_sums import PrefixSums, noise_length, prefix_sums
from dpjax.maths.two_words import add_compensated
from dpjax.noise import LawName


class PrivateFtalState(NamedTuple):
    sums: PyTree  # state of the private prefix sums
    round: Array  # () int32, actions played
    point_sum: Array  # (d,) of the actions played
    error: Array  # (d,) its rounding error


def default_convexity(horizon: int, domain: Domain, sums: PrefixSums):
    """The H that minimizes H D^2 T / 2 + (G^2 / 2 + G s)(1 + ln T) / H.

    s is the root mean square length of a prefix's noise.
    """
    length, bound = noise_length(horizon, domain.dim, sums), domain.losses.norms[1]
    stability = (bound**2 / 2 + bound * length) * float(1 + np.log(horizon))
    return jnp.sqrt(2 * stability / (domain.diameter**2 * horizon))


def private_ftal(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: LawName = "laplace",
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    strong_convexity: Number | None = None,
) -> Learner:
    """Private follow the approximate leader: each loss gets a quadratic around its action.

    Let L~_t be the noisy sum of the gradients, which are the loss vectors if losses are linear.
    Then

        w_(t+1) = argmin <L~_t, w> + (H / 2) sum_(s <= t) |w - w_s|^2
                = projection of mean(w_1, ..., w_t) - L~_t / (H t).

    This is a baseline for strongly convex losses. Its regret includes the noise of every round;
    that of FTRL includes the noise once. If the losses are H-strongly convex themselves, such as
    :func:`dpjax.loss_families.quadratic` with H = 1, run it on their gradients
    (:func:`dpjax.combinators.on_gradients`). Then nothing needs to be added to the losses.

    Args:
      horizon: T, rounds.
      domain: a Domain.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), with Gaussian or discrete Gaussian noise.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace", "gaussian" or another law, as in :func:`ftrl`.
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      strong_convexity: H > 0; default the minimizer of the bound below (:func:`default_convexity`).

    Returns:
      A Learner with full information. An action is w, (d,), at first the centre of the domain.

    Privacy: epsilon-DP (Laplace, on each coordinate; the paper draws a noise vector of Gamma
    length) or (epsilon, delta)-DP (Gaussian, exact), central. Released values: actions 1..T.

    Regret: by our derivation for linear losses, H D^2 T / 2 + (G^2 / 2 + G s)(1 + ln T) / H up to
    constants, with D the diameter, G the largest |loss|_2 and s the root mean square length of a
    prefix's noise. For the best H it grows as sqrt(T s). Here the terms in T and s are multiplied;
    in FTRL's bound they are added. On H-strongly convex losses with gradients up to length G, also
    adaptive ones, it is at most ((G + H D)^2 / 2 + G z)(1 + ln T) / H by our derivation, with z the
    largest root mean square length of a prefix's noise.

    Reference: Smith & Thakurta, "(Nearly) optimal algorithms for private online learning in
    full-information and bandit settings", 2013, as recalled.

    Examples:
      >>> learner = learners.private_ftal(1000, domains.simplex(2), epsilon=1.0)
      >>> state, action = learner.init(jax.random.key(0))
      >>> action.tolist(), learner.privacy.delta
      ([0.5, 0.5], 0.0)
    """
    losses = fitting(domain, None)
    sums = prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise,
        neighbours=neighbours, unit=unit,
    )  # fmt: skip
    if strong_convexity is None:
        strong_convexity = default_convexity(horizon, domain, sums)
    curvature = jnp.asarray(strong_convexity, jnp.float32)

    def init(key):
        state, _ = sums.init(key)
        centre = jnp.asarray(domain.centre, jnp.float32)
        one = jnp.ones((), jnp.int32)
        return PrivateFtalState(state, one, centre, jnp.zeros_like(centre)), centre

    def step(state, key, loss):
        inner, release = sums.step(state.sums, key, loss)
        played = state.round.astype(jnp.float32)
        point = domain.project(state.point_sum / played - release / (curvature * played))
        point_sum, error = add_compensated(state.point_sum, state.error, point)
        return PrivateFtalState(inner, state.round + 1, point_sum, error), point

    return Learner(init, step, full, domain, horizon, sums.privacy, clip=sums.clip)
