"""One-point estimates: directions, unbiasedness, ranges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains
from dpjax.environments import loss_families
from dpjax.learners.parts.one_point import directions, flaxman_radius, values

DRAWS = 200_000
DOMAINS = {
    "ball": domains.ball(3),
    "simplex": domains.simplex(3),
    "paths": domains.paths([(0, 1), (0, 1), (1, 2), (1, 2), (0, 2)], 0, 2),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def sample(name):
    """Directions (DRAWS, n), and lifted (DRAWS, d)."""
    space = directions(DOMAINS[name])

    @jax.jit
    def draw(key):
        u = jax.vmap(space.draw)(jr.split(key, DRAWS))
        return u, jax.vmap(space.lift)(u)

    return space.dim, *draw(jr.key(4))


def worst_z(estimates, truth):
    estimates = np.asarray(estimates, np.float64)
    error = estimates.std(axis=0) / len(estimates) ** 0.5
    return np.abs((estimates.mean(axis=0) - truth) / np.maximum(error, 1e-9)).max()


@every_domain
def test_directions_are_uniform_on_the_sphere_of_the_hull(name):
    """Length 1, in the tangent, E[u] = 0 and E[u u'] = I / n."""
    n, u, lifted = sample(name)
    domain = DOMAINS[name]
    np.testing.assert_allclose(np.linalg.norm(lifted, axis=1), 1.0, atol=1e-5)
    if domain.tangent is not None:
        assert n == domain.tangent.shape[1] < domain.dim
        outside = lifted - lifted @ domain.tangent @ domain.tangent.T
        assert np.abs(outside).max() < 1e-5
    assert worst_z(u, 0.0) < 4.5
    squares = np.asarray(u)[:, :, None] * np.asarray(u)[:, None]
    assert worst_z(squares.reshape(DRAWS, -1), np.eye(n).ravel() / n) < 4.5


@pytest.mark.parametrize("family", ["linear", "distance", "absolute", "quadratic", "largest"])
@pytest.mark.parametrize("name", ["ball", "paths"])
def test_ranges_cover_what_is_played(name, family):
    """Up to zeta outside the domain, f stays in its family's range and comes near both ends.

    Its slope stays below L. The words for ranges agree with the families'.
    """
    domain, reach = DOMAINS[name], 0.4
    made = getattr(loss_families, family)(domain)
    _, _, lifted = sample(name)
    rng = np.random.default_rng(0)
    vertices = np.asarray(
        jax.vmap(domain.minimizer)(rng.normal(size=(300, domain.dim)).astype("f"))
    )
    keys = jr.split(jr.key(0), 300)
    parameters = jax.vmap(made.draw)(keys, jnp.asarray(vertices))
    # At and beyond the vertices, and at the point of least loss.
    points = np.concatenate([vertices + r * lifted[:300] for r in (0.0, reach)])
    grid = jax.vmap(jax.vmap(made.function, (None, 0)), (0, None))
    seen = np.asarray(jax.jit(grid)(parameters, jnp.asarray(points, jnp.float32)))
    low, high = made.range(reach)
    assert low - 1e-5 <= seen.min() and seen.max() <= high + 1e-5
    assert seen.max() > 0.5 * high
    slopes = jax.vmap(jax.vmap(jax.grad(made.function, 1), (None, 0)), (0, None))
    steep = np.linalg.norm(jax.jit(slopes)(parameters, jnp.asarray(points)), axis=-1).max()
    assert steep <= made.lipschitz(reach) * (1 + 1e-5)
    if family != "quadratic":  # its L gives B = L (D + reach), twice its range
        word = {"linear": "nonnegative_inside", "largest": "signed"}.get(family, "nonnegative")
        words = values(domain, word, made.lipschitz(reach), reach)
        assert (words.low, words.high) == pytest.approx((low, high))


def test_ranges_of_values():
    v = values(domains.ball(2), (0.0, 4.0), 1.0, 0.0)
    assert (v.bound, v.middle) == (2.0, 2.0)


def test_flaxman_radius():
    """By hand: R = r = 1, n = 4, C = 1, L = 1, T = 10^4: sqrt(4 / 6) / 10; capped at r / 2."""
    ball = domains.ball(4)
    assert float(flaxman_radius(10**4, ball, 1.0, 1.0)) == pytest.approx((4 / 6) ** 0.5 / 10)
    assert float(flaxman_radius(1, ball, 1.0, 1.0)) == 0.5
