"""Domains, loss sets and regularizers, each against the same set written in NumPy."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from scipy import special

from dpjax import domains

# --- the sets in NumPy ---


class Known(NamedTuple):
    """A convex set by its definition, in float64."""

    excess: Callable  # x (..., d) -> the largest violation of its constraints
    least: Callable  # g (..., d) -> the least <g, x>
    points: np.ndarray  # extreme points, including all that attain a size, then 1000 more


def known_simplex(dim):
    return Known(
        lambda x: np.maximum(np.abs(x.sum(axis=-1) - 1), -x.min(axis=-1)),
        lambda g: g.min(axis=-1),
        np.concatenate([np.eye(dim), np.random.default_rng(0).dirichlet(np.ones(dim), 1000)]),
    )


def known_box(dim, low, high):
    inside = np.random.default_rng(1).uniform(low, high, (1000, dim))
    return Known(
        lambda x: np.maximum(x - high, low - x).max(axis=-1),
        lambda g: np.where(g > 0, low * g, high * g).sum(axis=-1),
        np.concatenate([list(product([low, high], repeat=dim)), inside]),
    )


def special_directions(dim):
    """All vectors with entries -1, 0, 1: axes, diagonals, differences of two axes."""
    grid = np.array(list(product([-1.0, 0.0, 1.0], repeat=dim)))
    return grid[np.abs(grid).sum(axis=1) > 0]


def known_ball(dim, radius):
    rng = np.random.default_rng(2)
    directions = np.concatenate([special_directions(dim), rng.normal(size=(1000, dim))])
    sphere = radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    inside = rng.uniform(size=(1000, 1)) * sphere[-1000:]
    return Known(
        lambda x: np.linalg.norm(x, axis=-1) - radius,
        lambda g: -radius * np.linalg.norm(g, axis=-1),
        np.concatenate([sphere, inside]),
    )


def known_l1(dim, radius):
    rng = np.random.default_rng(3)
    inside = rng.dirichlet(np.ones(dim + 1), 1000)[:, :dim] * rng.choice([-1.0, 1.0], (1000, dim))
    return Known(
        lambda x: np.abs(x).sum(axis=-1) - radius,
        lambda g: -radius * np.abs(g).max(axis=-1),
        radius * np.concatenate([np.eye(dim), -np.eye(dim), inside]),
    )


def beaten(g, x, points, slack):
    """No point has a product with g (n, d) above that of x by more than the slack."""
    return (g @ points.T <= np.sum(g * x, axis=1)[:, None] + slack).all()


def own_l1_ball(steps=100):
    """Radius 2, dimension 4, given to the library by its linear minimizer only."""

    def minimizer(g):
        largest = jnp.arange(4) == jnp.argmax(jnp.abs(g))
        return jnp.where(largest, jnp.where(g > 0, -2.0, 2.0), 0.0)

    return domains.from_minimizer(
        4, minimizer, centre=np.zeros(4), diameter=4, losses=domains.box_losses(4), project=steps
    )


def own_ball(steps=100):
    """Radius 1.5, dimension 3, likewise; projections start away from its centre."""
    return domains.from_minimizer(
        3, domains.ball(3, 1.5).minimizer, centre=[0.5, 0.0, -1.0], diameter=3.0,
        losses=domains.ball_losses(3), project=steps,
    )  # fmt: skip


DOMAINS = {
    "simplex, 2": (domains.simplex(2), known_simplex(2)),
    "simplex, 5": (domains.simplex(5), known_simplex(5)),
    "ball, 1": (domains.ball(1, 2.0), known_ball(1, 2.0)),
    "ball, 4": (domains.ball(4), known_ball(4, 1.0)),
    "small ball, 3": (domains.ball(3, 0.1), known_ball(3, 0.1)),
    "cube, 1": (domains.cube(1), known_box(1, -1.0, 1.0)),
    "cube, 4": (domains.cube(4), known_box(4, -1.0, 1.0)),
    "large cube, 3": (domains.cube(3, 5.0), known_box(3, -5.0, 5.0)),
    "own l1 ball": (own_l1_ball(), known_l1(4, 2.0)),
    "own ball": (own_ball(), known_ball(3, 1.5)),
}
CLOSED = [name for name in DOMAINS if not name.startswith("own")]
LOSSES = {
    "box, 3": (domains.box_losses(3), known_box(3, -1.0, 1.0)),
    "unit box, 4": (domains.box_losses(4, 0.0, 1.0), known_box(4, 0.0, 1.0)),
    "lopsided box, 2": (domains.box_losses(2, -2.0, 0.5), known_box(2, -2.0, 0.5)),
    "interval": (domains.box_losses(1), known_box(1, -1.0, 1.0)),
    "ball, 3": (domains.ball_losses(3, 2.0), known_ball(3, 2.0)),
    "ball, 1": (domains.ball_losses(1), known_ball(1, 1.0)),
    "l1 ball, 4": (domains.l1_losses(4, 0.5), known_l1(4, 0.5)),
    "l1 ball, 1": (domains.l1_losses(1), known_l1(1, 1.0)),
}
every_closed_form = pytest.mark.parametrize("name", CLOSED)
every_loss_set = pytest.mark.parametrize("name", LOSSES)

RANDOM, RATE = 40, 0.7


def inputs(known):
    """Inputs for every function, float32: 0, sizes from 0.5 to 1e30, points of the set."""
    dim = known.points.shape[1]
    random = np.random.default_rng(4).normal(size=(RANDOM, dim))
    scaled = [size * random for size in (3.0, 0.5, 1e10, 1e30)]
    rows = [*scaled, np.zeros((1, dim)), np.ones((1, dim)), np.eye(dim), known.points[:300]]
    return np.concatenate(rows).astype(np.float32)


def unit(g):
    return g / np.maximum(np.linalg.norm(g, axis=-1, keepdims=True), 1.0)


@cache
def values(name):
    """Every function of a domain at its inputs, compiled once."""
    domain, known = DOMAINS[name]

    def every(g):
        return {"nearest": domain.project(g), "argmin": domain.regularizer.argmin(g, RATE)}

    g = inputs(known)
    found = jax.jit(jax.vmap(every))(g)
    return g.astype(np.float64), {key: np.asarray(v, np.float64) for key, v in found.items()}


# --- domains ---


@pytest.mark.parametrize(
    ("name", "make", "exact"),
    [
        ("own l1 ball", own_l1_ball, domains.l1_losses(4, 2.0).clip),
        ("own ball", own_ball, domains.ball(3, 1.5).project),
    ],
)
def test_projection_by_linear_minimization_is_within_its_error(name, make, exact):
    """2 diameter / sqrt(steps + 2) after 1, 10 and 100 steps; smaller with more; never outside."""
    domain, known = DOMAINS[name]
    steps = np.array([1, 10, 100])
    made = [make(count) for count in steps]
    y = inputs(known)
    found = jax.jit(jax.vmap(lambda y: [domain.project(y) for domain in made]))(y)
    found, nearest = np.asarray(found, np.float64), np.asarray(jax.jit(jax.vmap(exact))(y))
    assert known.excess(found).max() <= 2e-6
    errors = np.linalg.norm(found - nearest, axis=-1).max(axis=1)
    assert (errors <= 2 * domain.diameter / np.sqrt(steps + 2)).all()
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.1
    # Far away, where one vertex is nearest, there is no error; 100 is the default.
    far = slice(2 * RANDOM, 4 * RANDOM)
    np.testing.assert_allclose(values(name)[1]["nearest"][far], nearest[far], atol=1e-5)


# --- regularizers ---


def regularizer_in_numpy(name):
    """R by definition."""
    centre = DOMAINS[name][0].centre
    if name.startswith("simplex"):
        return lambda x: special.xlogy(x, x).sum(axis=-1)
    return lambda x: ((x - centre) ** 2).sum(axis=-1)


@every_closed_form
def test_regularized_minimizer_against_the_closed_form_and_against_points(name):
    """softmax(-s), clip(-s / 2), -s / 2 scaled into the ball; no point has less <s, x> + R(x)."""
    domain, known = DOMAINS[name]
    s, found = values(name)
    x, s = found["argmin"], RATE * s
    if name.startswith("simplex"):
        expected = special.softmax(-s, axis=1)
    elif "cube" in name:
        expected = np.clip(-s / 2, known.points.min(), known.points.max())
    else:
        length = np.linalg.norm(s / 2, axis=1, keepdims=True) / known.points.max()
        expected = -s / 2 / np.maximum(1.0, length)
    np.testing.assert_allclose(x, expected, rtol=2e-6, atol=1e-6 * domain.radius)
    function = regularizer_in_numpy(name)
    usual = np.linalg.norm(s, axis=1) < 1e3
    x, s = x[usual], s[usual]
    value = np.sum(s * x, axis=1) + function(x)
    others = s @ known.points.T + function(known.points)
    assert (value[:, None] <= others + 1e-5).all()


def test_squared_norm_is_taken_from_the_centre():
    """Known by its minimizer only, it gives the projection of centre - s / 2 up to its error."""
    domain = DOMAINS["own ball"][0]
    s, found = values("own ball")
    y = domain.centre - RATE * s / 2
    expected = y / np.maximum(1.0, np.linalg.norm(y, axis=1, keepdims=True) / 1.5)
    assert np.linalg.norm(found["argmin"] - expected, axis=1).max() < 0.1
    assert domain.regularizer.range == domain.diameter**2


@every_closed_form
def test_range_is_the_largest_less_the_least(name):
    """Of R: between vertices and the centre."""
    domain, known = DOMAINS[name]
    function = regularizer_in_numpy(name)
    found = function(known.points).max() - function(domain.centre)
    assert domain.regularizer.range == pytest.approx(found, rel=1e-9)
    assert (function(known.points) >= function(domain.centre) - 1e-12).all()


def test_exponential_weights_stay_finite_where_the_noise_is_huge():
    """s of 1e11, scaled within a compiled program, for 20 draws one by one and at once."""
    argmin = domains.simplex(5).regularizer.argmin
    s = 1e11 * jr.normal(jr.key(0), (20, 5))
    alone = jax.jit(lambda s, rate: argmin(s, rate))
    for x in [jax.vmap(lambda s: argmin(s, 0.3))(s), jnp.stack([alone(row, 0.3) for row in s])]:
        np.testing.assert_allclose(jnp.sum(x, axis=1), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(jnp.argmax(x, axis=1), jnp.argmin(s, axis=1))


ROUNDS, RATES = 48, (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def regrets(domain, losses, known_losses):
    """Regret of x_t = argmin(rate L_(t-1)), (sequences, rates), and its two terms, (rates,).

    The sequences are constant; alternating between a vector and its mirror image; blocks of four
    vectors; random; and one that maximizes the loss of the current x.
    """
    regularizer, rng = domain.regularizer, np.random.default_rng(5)
    extreme = known_losses.points[:-1000]
    constant = np.repeat(extreme[:, None], ROUNDS, axis=1)
    centred = extreme[:, None] - losses.centre
    swinging = losses.centre + centred * (-1.0) ** np.arange(ROUNDS)[:, None]
    random = extreme[rng.integers(len(extreme), size=(100, ROUNDS))]
    blocks = np.repeat(np.concatenate([random[:, :4], extreme[None, :4]]), ROUNDS // 4, axis=1)
    sequences = np.concatenate([constant, swinging, blocks, random, random[:1]])
    greedy = np.arange(len(sequences)) == len(sequences) - 1
    centre = jnp.asarray(domain.centre, jnp.float32)

    def game(sequence, greedy, rate):
        def one_round(total, row):
            x = regularizer.argmin(total, rate)
            loss = jnp.where(greedy, losses.maximizer(x - centre + 1e-3 * row), row)
            return total + loss, jnp.vdot(loss, x)

        total, suffered = lax.scan(one_round, jnp.zeros(domain.dim), sequence)
        return jnp.sum(suffered) + domains.support_function(domain, -total)

    over_rates = jax.vmap(game, (None, None, 0))
    over_both = jax.jit(jax.vmap(over_rates, (0, 0, None)))
    found = over_both(sequences.astype(np.float32), greedy, jnp.array(RATES))
    rates, size = np.array(RATES), regularizer.stability(losses)
    return np.asarray(found), regularizer.range / rates, rates * size * ROUNDS


@pytest.mark.parametrize(
    ("name", "losses", "known"),
    [
        ("simplex, 5", domains.simplex(5).losses, known_box(5, 0.0, 1.0)),
        ("simplex, 5", domains.box_losses(5, -1.0, 1.0), known_box(5, -1.0, 1.0)),
        ("ball, 4", domains.ball(4).losses, known_ball(4, 1.0)),
        ("cube, 4", domains.cube(4).losses, known_l1(4, 1.0)),
        ("cube, 4", domains.box_losses(4, -0.5, 0.5), known_box(4, -0.5, 0.5)),
    ],
)
def test_regret_of_the_regularized_leader_is_within_its_bound_and_of_no_smaller_one(
    name, losses, known
):
    """D_R / eta + eta S T holds for all sequences and rates; with D_R / 2 or S / 2 it fails."""
    regret, range_term, stability_term = regrets(DOMAINS[name][0], losses, known)
    assert (regret <= range_term + stability_term + 1e-3).all()
    assert (regret > range_term / 2 + stability_term).any()
    assert (regret > range_term + stability_term / 2).any()


# --- loss sets ---


@every_loss_set
def test_clipping_gives_the_nearest_vector_and_the_maximizer_the_largest_product(name):
    """<y - l, w - l> <= 0 for 1000 vectors w of the set; its vectors do not move; also g = 0."""
    losses, known = LOSSES[name]
    g = inputs(known)
    clipped, largest = (
        np.asarray(v, np.float64)
        for v in jax.jit(jax.vmap(lambda g: (losses.clip(g), losses.maximizer(g))))(g)
    )
    g = g.astype(np.float64)
    assert max(known.excess(clipped).max(), known.excess(largest).max()) <= 1e-6
    assert beaten(unit(g - clipped), clipped, known.points, 5e-6)
    inside = known.points[:300]
    np.testing.assert_allclose(clipped[-len(inside) :], inside, atol=1e-6)
    attained = np.sum(unit(g) * largest, axis=1)
    np.testing.assert_allclose(attained, -known.least(-unit(g)), rtol=1e-6, atol=1e-6)


@every_loss_set
def test_sizes_of_a_loss_set_are_attained_and_never_exceeded(name):
    """Norms, distances, spread, range of an entry: over extreme and 1000 more vectors."""
    losses, known = LOSSES[name]
    points = known.points
    assert losses.dim == points.shape[1] and losses.centre.shape == (losses.dim,)
    np.testing.assert_allclose(losses.centre, (points.max(axis=0) + points.min(axis=0)) / 2)
    for order in (1, 2):
        norm = np.linalg.norm(points, order, axis=1).max()
        apart = np.linalg.norm(points[:, None] - points[None, :100], order, axis=-1).max()
        assert losses.norms[order - 1] == pytest.approx(norm, rel=1e-9)
        assert losses.diameters[order - 1] == pytest.approx(apart, rel=1e-9)
    assert losses.spread == pytest.approx(np.ptp(points, axis=1).max(), rel=1e-9)
    assert losses.entry == pytest.approx((points.min(), points.max()), rel=1e-9)


def changes(known, neighbours, unit):
    """Changes of one vector between neighbours, by search, (n, d)."""
    points = known.points[:400]
    if unit == "round":
        if neighbours == "zero_out":
            return points
        return (points[:, None] - points[None]).reshape(-1, points.shape[1])
    # The first entry takes every value on a grid that keeps the vector in the set.
    vectors = np.concatenate([points[:100], 0 * points[:1]])
    if neighbours == "zero_out":
        return vectors * (np.arange(points.shape[1]) == 0)
    grid = np.linspace(points.min(), points.max(), 41)
    others = np.repeat(vectors[:, None], len(grid), axis=1)
    others[..., 0] = grid
    difference = others - vectors[:, None]
    return difference[(known.excess(others) < 1e-9) & (known.excess(vectors) < 1e-9)[:, None]]


@pytest.mark.parametrize("neighbours", ["replace", "zero_out"])
@pytest.mark.parametrize("unit", ["round", "entry"])
@every_loss_set
def test_sensitivity_is_the_largest_change_between_neighbours(name, unit, neighbours):
    """L1 and L2, by search over extreme vectors and entries of neighbours."""
    losses, known = LOSSES[name]
    found = changes(known, neighbours, unit)
    expected = [np.linalg.norm(found, order, axis=1).max() for order in (1, 2)]
    assert domains.sensitivity(losses, neighbours, unit) == pytest.approx(expected, rel=1e-9)


def test_domains_come_with_the_losses_that_they_are_usually_played_against():
    """Experts' losses in [0, 1], the unit ball, and the dual of the unit cube."""
    for domain, losses in [
        (domains.simplex(3), domains.box_losses(3, 0.0, 1.0)),
        (domains.ball(3, 5.0), domains.ball_losses(3, 1.0)),
        (domains.cube(3, 5.0), domains.l1_losses(3, 1.0)),
    ]:
        assert domains.fitting(domain, None) is domain.losses
        for field in ("dim", "norms", "diameters", "spread", "entry"):
            assert getattr(domain.losses, field) == getattr(losses, field)
        assert domains.fitting(domain, losses) is losses


def test_a_common_shift_does_not_move_a_projection_onto_the_simplex():
    """Beside a shift of 10^7, float32 has no digits for the sum of 1, and no fractions."""
    x = np.float32([0.0, 0.25, 1.5, -0.5])
    for shift in (0.0, 1e3, -1e3, 2.0**22):
        nearest = np.asarray(jax.jit(domains.simplex(4).project)(x + np.float32(shift)))
        np.testing.assert_allclose(nearest, [0.0, 0.0, 1.0, 0.0], atol=1e-6)
    for size in (1e7, 3e38):
        nearest = np.asarray(domains.simplex(3).project(np.float32([size, size, 0.0])))
        np.testing.assert_allclose(nearest, [0.5, 0.5, 0.0], atol=1e-6)
    # The matrices with eigenvalues -10^7 and 0 clip to the edge of their loss set.
    losses = domains.fantope(2, 1).losses
    np.testing.assert_allclose(losses.clip(-1e7 * jnp.eye(2).ravel()), -0.5 * np.eye(2).ravel())
