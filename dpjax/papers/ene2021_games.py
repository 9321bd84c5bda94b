"""Ene, Nguyen & Vladu 2021: instances, baselines, and PRIVATEBANDIT with noise of a given scale.

The scale is an argument, so that one program plays all calibrations of the noise.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np

from dpjax import domains, environments, learners, mechanisms
from dpjax.core import Learner, Privacy
from dpjax.domains import Domain
from dpjax.feedback import value
from dpjax.learners._projection_free import printed_scale, smoothing_radius, step_size
from dpjax.learners.parts.one_point import directions
from dpjax.privacy import default_delta

BIAS = 2.0
RATES = (1.0, 1 / 64, 1 / 4096)  # times the default rate
CALIBRATIONS = ("single_change", "batch_norm", "printed")


def grid_graph(side: int) -> list[tuple[int, int]]:
    """Edges to the right and down of a square grid of nodes."""
    right = [(side * i + j, side * i + j + 1) for i in range(side) for j in range(side - 1)]
    down = [(side * i + j, side * i + j + side) for i in range(side - 1) for j in range(side)]
    return right + down


# Decision sets as functions of the dimension; losses are unit vectors in R^d, so L = 1.
INSTANCES: dict[str, Callable] = {
    "ball": lambda dim: domains.ball(5 if dim is None else dim),
    "matroid": lambda _: domains.capped_simplex(8, 3),
    "paths": lambda _: domains.paths(grid_graph(3), 0, 8),
}


def of_unit_losses(domain: Domain):
    """The domain, with losses of length at most 1."""
    return domain._replace(losses=domains.ball_losses(domain.dim))


def losses(domain: Domain):
    """I.i.d. unit vectors, biased towards a direction drawn for each trial."""
    return environments.linear_losses(of_unit_losses(domain), "iid", bias=BIAS)


def delta_of(horizon: int, noise: str):
    """T^-2 for Gaussian noise, None for Laplace noise."""
    return default_delta(horizon) if noise == "gaussian" else None


def _private(factory, horizon, domain, epsilon, noise="gaussian", **options) -> Learner:
    """A private learner for losses with L = 1."""
    return factory(horizon, of_unit_losses(domain), epsilon=epsilon, noise=noise,
                   delta=delta_of(horizon, noise), **options)  # fmt: skip


def _tree_with(stream) -> Callable:
    """The tree mechanism with the stream that a function (tree, shape, scale=) returns."""

    def mechanism(length, *, noise):
        tree = mechanisms.tree(length, noise=noise)
        return tree._replace(stream=partial(stream, tree))

    return mechanism


def noise_scale(
    domain: Domain, horizon: int, noise: str, calibration: str, epsilon: float
) -> float:
    """The scale of a node's noise on the tree."""
    if calibration == "none":
        return 0.0
    if calibration == "printed":
        dim, delta = directions(domain).dim, delta_of(horizon, noise)
        return float(printed_scale(horizon, dim, 1.0, epsilon, delta))
    asked = []

    def spy(tree, shape, *, scale):
        asked.append(float(scale))
        return tree.stream(shape, scale=scale)

    _private(learners.projection_free, horizon, domain, epsilon, noise,
             mechanism=_tree_with(spy), calibration=calibration)  # fmt: skip
    return asked[0]


def scaled(horizon: int, domain: Domain, noise: str, scale: float, rate: float) -> Learner:
    """PRIVATEBANDIT with noise of a given scale, so that one program plays all calibrations."""
    # The given scale replaces the one that the learner requests.
    mechanism = _tree_with(lambda tree, shape, **_: tree.stream(shape, scale=scale))
    return _private(learners.projection_free, horizon, domain, 1.0, noise, mechanism=mechanism,
                    rate=rate * default_rate(horizon, domain))  # fmt: skip


def default_rate(horizon: int, domain: Domain) -> float:
    """The learner's default rate for signed losses with L = 1."""
    n, batch = directions(domain).dim, int(horizon**0.5)
    zeta = smoothing_radius(horizon, domain.diameter, n)
    bound = domain.diameter + zeta
    return step_size(-(-horizon // batch), batch, domain.diameter, n, zeta, bound, 1.0)


def signal_to_noise(scale: float, horizon: int, noise: str, dim: int, gradient: float) -> float:
    """The ratio of the final norm of the summed gradients to that of their noise, by formula.

    Args:
      scale: noise scale of a node.
      horizon: T, rounds.
      noise: "laplace" or "gaussian".
      dim: n.
      gradient: mean length of the mean loss vector in the hull.
    """
    if scale == 0.0:
        return float("inf")
    nodes = np.log2(horizon) / 4  # half of the levels of sqrt T leaves, on average
    variance = (2.0 if noise == "laplace" else 1.0) * nodes * dim
    return float(horizon * gradient / (scale * np.sqrt(variance)))


def resting(horizon: int, domain: Domain) -> Learner:
    """A learner that always plays the centre, the best point without data."""
    centre, nothing = jnp.asarray(domain.centre, jnp.float32), jnp.zeros((), jnp.float32)
    return Learner(
        init=lambda key: (nothing, centre),
        step=lambda state, key, seen: (state, centre),
        feedback=value,
        action_set=domain,
        horizon=horizon,
        privacy=Privacy(),
    )


BASELINES: dict[str, Callable] = {
    "the centre": resting,
    "Flaxman et al., projected": lambda horizon, domain: learners.one_point_gradient(
        horizon, of_unit_losses(domain)
    ),
    "PRIVATEBANDIT": partial(_private, learners.projection_free),
    "PRIVATEBANDIT, buffered": partial(
        _private, learners.projection_free, mechanism=mechanisms.buffered
    ),
    "ST13-style, projected": partial(_private, learners.private_one_point),
}
