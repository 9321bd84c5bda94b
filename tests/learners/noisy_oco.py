"""NoisyOCO, a reference for tests: online convex optimization with noisy oracles.

:func:`dpjax.learners.projection_free` is an instance of it, which its tests check.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Array, Learner, Privacy, _check
from dpjax.feedback import full


class NoisyMap(NamedTuple):
    """An approximate gradient of omega*, as a stream that may remember its inputs."""

    init: Callable  # key -> (state, x near the gradient of omega* at 0, (d,))
    step: Callable  # (state, key, dual (d,)) -> (state, x near the gradient of omega* at the dual)


class NoisyOcoState(NamedTuple):
    map: Any  # of the map
    total: Array  # (d,) s_t, the sum of the noisy gradients
    point: Array  # (d,) x_(t+1)


def noisy_oco(horizon, domain, noisy_gradient, noisy_map, *, rate) -> Learner:
    """The meta-algorithm NoisyOCO of Ene, Nguyen & Vladu, with its two oracles as arguments.

        x_t = NoisyMap(-eta s_(t-1)),   g_t = NoisyGrad(f_t, x_t),   s_t = s_(t-1) + g_t.

    All additions of an algorithm are part of an oracle: noise for privacy, early stopping,
    gradients of smoothed losses, and delayed answers. In the instance
    :func:`dpjax.learners.projection_free`, rounds are batches, and the gradient is the sum of a
    batch's one-point estimates. Its map adds the noise of the tree, finds points by the conditional
    gradient method, and returns the point requested one round before.

    Args:
      horizon: T, rounds.
      domain: the Domain that the map's points lie in.
      noisy_gradient: (key, loss, x (d,)) -> g (d,), unbiased, with E|g|^2 <= kappa^2.
      noisy_map: a NoisyMap, off by at most gamma in mean.
      rate: eta > 0; D / (kappa sqrt T) where the mirror map's range is D^2.

    Returns:
      A Learner that sees whatever the environment reveals and hands it to the gradient oracle.

    Privacy: none is declared, since the oracles see to it.

    Regret: O(sqrt(T) kappa D + T kappa gamma) in expectation.

    Reference: Ene, Nguyen & Vladu, "Projection-free bandit optimization with privacy guarantees",
    2021, Algorithm 2 and Lemma 6.
    """
    horizon = _check.size(1, horizon=horizon)
    _check.positive(rate=rate)
    eta = jnp.asarray(rate, jnp.float32)

    def init(key):
        state, point = noisy_map.init(key)
        return NoisyOcoState(state, jnp.zeros_like(point), point), point

    def step(state, key, loss):
        gradient_key, map_key = jax.random.split(key)
        total = state.total + noisy_gradient(gradient_key, loss, state.point)
        inner, point = noisy_map.step(state.map, map_key, -eta * total)
        return NoisyOcoState(inner, total, point), point

    return Learner(
        init=init,
        step=step,
        feedback=full,
        action_set=domain,
        horizon=horizon,
        privacy=Privacy(),
    )
