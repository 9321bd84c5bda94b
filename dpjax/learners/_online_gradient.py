"""Any optax optimizer on privately released gradients."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from dpjax import mechanisms
from dpjax.core import Array, Learner, Neighbours, Number, PyTree, Unit
from dpjax.domains import Domain, fitting
from dpjax.feedback import full
from dpjax.learners.parts.prefix_sums import prefix_sums
from dpjax.noise import LawName


class OnlineGradientState(NamedTuple):
    sums: PyTree  # state of the private prefix sums
    release: Array  # (d,) the latest release
    optimizer: PyTree  # the optimizer's state
    point: Array  # (d,) x_t


def online_gradient(
    horizon: int,
    domain: Domain,
    optimizer: Any = None,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: LawName = "laplace",
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    rate: Number | None = None,
) -> Learner:
    """Projected steps of any optax optimizer on privately released gradients.

    The gradient of a linear loss is its loss vector. For round t the optimizer receives g~_t = L~_t
    - L~_(t-1), the difference of two noisy prefix sums. Plain descent follows the sum of these
    differences, in which the noise of earlier prefixes cancels. x_(t+1) is the projection of
    x_t + the optimizer's update.

    Args:
      horizon: T, rounds.
      domain: a Domain.
      optimizer: an optax.GradientTransformation that needs only gradients and points, not values of
        losses; default gradient descent with steps eta / sqrt(t).
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), with Gaussian or discrete Gaussian noise.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: "laplace", "gaussian" or another law, as in :func:`ftrl`.
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      rate: eta of the default optimizer, positive; default D / G, with D the diameter of the domain
        and G the largest |loss|_2. Other optimizers have their own rates.

    Returns:
      A Learner with full information. An action is x, (d,), at first the centre of the domain.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central. Released
    values: actions 1..T. The optimizer only post-processes the prefix sums.

    Regret: at most 1.5 D G sqrt(T) at epsilon = inf with the default optimizer and rate. With noise
    no bound is claimed: each step is then as long as its noise, and the projection cuts it off.

    Reference: Zinkevich, "Online convex programming and generalized infinitesimal gradient
    ascent", 2003; Kairouz, McMahan, Song, Thakkar, Thakurta & Xu 2021 for prefix sums under
    gradient steps.

    Examples:
      >>> learner = learners.online_gradient(
      ...     1000, domains.ball(2), epsilon=1.0, delta=1e-6, noise="gaussian"
      ... )
      >>> round(float(learner.privacy.rho), 3), learner.init(jax.random.key(0))[1].tolist()
      (0.028, [0.0, 0.0])
    """
    import optax  # on first use, because the import is slow

    losses = fitting(domain, None)
    if optimizer is not None and rate is not None:
        raise ValueError("rate must be left out if optimizer is given, which has its own rates")
    if optimizer is None:
        eta = domain.diameter / losses.norms[1] if rate is None else rate
        optimizer = optax.sgd(lambda count: eta / jnp.sqrt(count.astype(jnp.float32) + 1.0))
    if not hasattr(optimizer, "init") or not hasattr(optimizer, "update"):
        raise TypeError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r}")
    sums = prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise,
        neighbours=neighbours, unit=unit,
    )  # fmt: skip

    def init(key):
        state, release = sums.init(key)
        centre = jnp.asarray(domain.centre, jnp.float32)
        return OnlineGradientState(state, release, optimizer.init(centre), centre), centre

    def step(state, key, loss):
        inner, release = sums.step(state.sums, key, loss)
        gradient = release - state.release
        updates, optimizer_state = optimizer.update(gradient, state.optimizer, state.point)
        point = domain.project(optax.apply_updates(state.point, updates))
        return OnlineGradientState(inner, release, optimizer_state, point), point

    return Learner(init, step, full, domain, horizon, sums.privacy, clip=sums.clip)
