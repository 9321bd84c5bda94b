"""Decision sets and loss sets: minimizers, projections, sizes, regularized leaders on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains


def l1_ball(dim):
    """An l1 ball of radius 2 that is known by its linear minimizer only."""

    def minimizer(g):
        largest = jnp.arange(dim) == jnp.argmax(jnp.abs(g))
        return jnp.where(largest, jnp.where(g > 0, -2.0, 2.0), 0.0)

    return domains.from_minimizer(
        dim,
        minimizer,
        centre=np.zeros(dim),
        diameter=4.0,
        losses=domains.box_losses(dim),
        steps=400,
    )


DOMAINS = {
    "simplex": domains.simplex(4),
    "simplex of two": domains.simplex(2),
    "ball": domains.ball(4),
    "large ball": domains.ball(3, 5.0),
    "interval": domains.ball(1),
    "cube": domains.cube(4),
    "small cube": domains.cube(3, 0.1),
    "l1 ball": l1_ball(4),
}
CLOSED = [name for name in DOMAINS if name != "l1 ball"]
LOSSES = {
    "box": domains.box_losses(3),
    "unit box": domains.box_losses(3, 0.0, 1.0),
    "ball": domains.ball_losses(3, 2.0),
    "l1 ball": domains.l1_losses(3, 0.5),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)
every_loss_set = pytest.mark.parametrize("name", LOSSES)


def points(domain, count=1000):
    """Points of a domain: vertices where its minimizer finds them, and mixtures of those."""
    vertices = jax.vmap(domain.minimizer)(jr.normal(jr.key(0), (count, domain.dim)))
    others = jnp.roll(vertices, 1, axis=0)
    share = jr.uniform(jr.key(1), (count, 1))
    return np.asarray(jnp.concatenate([vertices, share * vertices + (1 - share) * others]))


def directions(dim, count=50):
    return jr.normal(jr.key(2), (count, dim))


@every_domain
def test_minimizer_and_support_function_are_the_least_and_the_largest(name):
    domain = DOMAINS[name]
    known = points(domain)
    g = directions(domain.dim)
    least = jnp.sum(g * jax.vmap(domain.minimizer)(g), axis=1)
    assert (np.asarray(least)[:, None] <= np.asarray(g) @ known.T + 1e-5).all()
    largest = jax.vmap(lambda g: domains.support_function(domain, g))(g)
    assert (np.asarray(largest)[:, None] >= np.asarray(g) @ known.T - 1e-5).all()
    np.testing.assert_allclose(largest, (np.asarray(g) @ known.T).max(axis=1), rtol=0.2, atol=1e-3)


def test_support_functions_in_closed_form():
    g = directions(4)
    for name, expected in {
        "simplex": jnp.max(g, axis=1),
        "ball": jnp.sqrt(jnp.sum(g**2, axis=1)),
        "cube": jnp.sum(jnp.abs(g), axis=1),
        "l1 ball": 2 * jnp.max(jnp.abs(g), axis=1),
    }.items():
        value = jax.vmap(lambda g, d=DOMAINS[name]: domains.support_function(d, g))(g)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_ties_go_to_the_first_and_the_zero_direction_is_legal():
    np.testing.assert_array_equal(domains.simplex(3).minimizer(jnp.array([1.0, 0, 0])), [0, 1, 0])
    for domain in DOMAINS.values():
        assert np.isfinite(domain.minimizer(jnp.zeros(domain.dim))).all()


@every_domain
def test_projection_is_the_nearest_point(name):
    """By the variational inequality <y - x, w - x> <= 0; points stay; huge y are no trouble."""
    domain = DOMAINS[name]
    known = points(domain)
    tolerance = 0.05 if name == "l1 ball" else 1e-4
    for size in (0.5, 3.0):
        y = size * np.asarray(directions(domain.dim)) + np.asarray(domain.centre)
        x = np.asarray(jax.vmap(domain.project)(jnp.asarray(y, jnp.float32)))
        inner = (y - x) @ known.T - np.sum((y - x) * x, axis=1)[:, None]
        assert inner.max() < tolerance
    if name in CLOSED:
        np.testing.assert_allclose(jax.vmap(domain.project)(jnp.asarray(known)), known, atol=1e-6)
        for size in (1e10, 1e30):
            far = jax.vmap(domain.project)(jnp.float32(size) * directions(domain.dim))
            assert np.isfinite(far).all()


@every_domain
def test_radius_and_diameter_are_the_largest_distances(name):
    domain = DOMAINS[name]
    known = points(domain)
    apart = np.linalg.norm(known[:, None] - known[None, :300], axis=-1).max()
    away = np.linalg.norm(known - domain.centre, axis=1).max()
    assert apart <= domain.diameter * (1 + 1e-5)
    assert apart >= 0.9 * domain.diameter
    if name in CLOSED:  # of a set that is known by its minimizer the diameter stands for both
        assert away == pytest.approx(domain.radius, rel=1e-4)


REGULARIZED = {
    "simplex": lambda x: np.sum(x * np.log(np.maximum(x, 1e-30)), axis=-1),
    "ball": lambda x: np.sum(x * x, axis=-1),
    "cube": lambda x: np.sum(x * x, axis=-1),
}


@pytest.mark.parametrize("name", REGULARIZED)
def test_regularized_argmin_is_the_least_and_the_range_is_exact(name):
    """Against 2000 points, at two rates; D_R from the vertices and the centre."""
    domain, function = DOMAINS[name], REGULARIZED[name]
    known = points(domain).astype(np.float64)
    s = directions(4)
    for rate in (1.0, 3.0):
        x = np.asarray(jax.vmap(lambda s, r=rate: domain.regularizer.argmin(s, r))(s), np.float64)
        value = rate * np.sum(np.asarray(s) * x, axis=1) + function(x)
        others = rate * np.asarray(s) @ known.T + function(known)
        assert (value[:, None] <= others + 1e-4).all()
        assert (value <= others.min(axis=1) + 1e-4).all()
    spread = function(known).max() - function(np.asarray(domain.centre, np.float64))
    assert domain.regularizer.range == pytest.approx(spread, rel=1e-5)


def test_exponential_weights_stay_finite_where_the_noise_is_huge():
    """s of 1e11 in a compiled program, scaled within it, for 200 draws one by one and at once."""
    argmin = domains.simplex(5).regularizer.argmin
    s = 1e11 * jr.normal(jr.key(0), (200, 5))
    alone = jax.jit(lambda s, rate: argmin(s, rate))
    for x in [jax.vmap(lambda s: argmin(s, 0.3))(s), jnp.stack([alone(row, 0.3) for row in s])]:
        np.testing.assert_allclose(jnp.sum(x, axis=1), 1.0, rtol=1e-6)
        np.testing.assert_array_equal(jnp.argmax(x, axis=1), jnp.argmin(s, axis=1))


@pytest.mark.parametrize("name", REGULARIZED)
def test_regret_of_the_regularized_leader_is_within_its_bound_and_near_it_somewhere(name):
    """D_R / eta + eta S T for 200 sequences, random, alternating and constant, three rates.

    With S / 8 in place of S some sequence is beyond it.
    """
    domain = DOMAINS[name]
    regularizer, losses, rounds = domain.regularizer, domain.losses, 50
    random = jax.vmap(jax.vmap(losses.maximizer))(jr.normal(jr.key(3), (150, rounds, 4)))
    signs = jnp.where(jnp.arange(rounds) % 2 == 0, 1.0, -1.0)[None, :, None]
    steady = jr.normal(jr.key(4), (25, 1, 4))
    swinging = jax.vmap(jax.vmap(losses.maximizer))(signs * steady)
    constant = jax.vmap(jax.vmap(losses.maximizer))(jnp.repeat(steady, rounds, axis=1))
    sequences = jnp.concatenate([random, swinging, constant])
    stability = regularizer.stability(losses)
    best_rate = (regularizer.range / (stability * rounds)) ** 0.5

    def regret(sequence, rate):
        sums = jnp.concatenate([jnp.zeros((1, 4)), jnp.cumsum(sequence, axis=0)])
        x = jax.vmap(lambda s: regularizer.argmin(s, rate))(sums[:-1])
        return jnp.sum(x * sequence) + domains.support_function(domain, -sums[-1])

    exceeded = False
    for factor in (0.2, 1.0, 20.0):
        rate = factor * best_rate
        values = np.asarray(jax.jit(jax.vmap(lambda s, r=rate: regret(s, r)))(sequences))
        assert (values <= regularizer.range / rate + rate * stability * rounds + 1e-3).all()
        exceeded |= (values > regularizer.range / (8 * rate) + rate * stability * rounds / 8).any()
    assert exceeded


def test_numerical_regularizer_finds_the_closed_form_and_any_other_optimum():
    """|x|^2, whose argmin is known; x^T A x / 2 by the gap of Frank-Wolfe; more steps, less gap."""
    for name in ("ball", "cube", "simplex"):
        domain = DOMAINS[name]
        s = directions(4, 20)
        own = domains.numerical_regularizer(
            domain, lambda x: jnp.sum(x * x), range=1.0, strong_convexity=2.0, smoothness=2.0
        )
        closed = domains.squared_norm(domain.project, np.zeros(4), 1.0)
        np.testing.assert_allclose(jax.vmap(own.argmin)(s), jax.vmap(closed.argmin)(s), atol=1e-5)
        a = jnp.diag(jnp.array([1.0, 2.0, 5.0, 20.0])) + 0.1

        def gap(steps, domain=domain, s=s, a=a):
            regularizer = domains.numerical_regularizer(
                domain, lambda x: x @ a @ x / 2, range=1.0, strong_convexity=0.9, smoothness=21.0,
                steps=steps,
            )  # fmt: skip

            def one(s):
                x = regularizer.argmin(s)
                gradient = s + a @ x
                return jnp.sum(gradient * x) + domains.support_function(domain, -gradient)

            return float(jnp.max(jax.jit(jax.vmap(one))(s)))

        assert gap(200) < 1e-4
        assert gap(3) > 10 * gap(200)
    assert own.stability(domains.ball_losses(4, 3.0)) == pytest.approx(9 / 4)


@every_loss_set
def test_loss_sets_clip_to_the_nearest_vector(name):
    losses = LOSSES[name]
    vertices = jax.vmap(losses.maximizer)(directions(3, 1000))
    share = jr.uniform(jr.key(5), (1000, 1))
    known = np.asarray(share * vertices + (1 - share) * jnp.roll(vertices, 7, axis=0))
    y = np.asarray(2.0 * directions(3))
    x = np.asarray(jax.vmap(losses.clip)(jnp.asarray(y)))
    inner = (y - x) @ known.T - np.sum((y - x) * x, axis=1)[:, None]
    assert inner.max() < 1e-4
    np.testing.assert_allclose(jax.vmap(losses.clip)(jnp.asarray(known)), known, atol=1e-5)


@every_loss_set
def test_sizes_of_loss_sets_are_attained_and_never_exceeded(name):
    losses = LOSSES[name]
    corners = jnp.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], jnp.float32)
    pairs = jnp.array([[1.0, -1, 0], [0, 1, -1], [1, 0, 0], [-1, 0, 0], [1, 1, 1]])
    g = jnp.concatenate([directions(3, 1000), corners, pairs])
    known = np.asarray(jax.vmap(losses.maximizer)(g), np.float64)
    for order, norm, diameter in zip((1, 2), losses.norms, losses.diameters, strict=True):
        assert np.linalg.norm(known, order, axis=1).max() == pytest.approx(norm, rel=1e-4)
        apart = np.linalg.norm(known[:, None] - known[None], order, axis=-1).max()
        assert apart == pytest.approx(diameter, rel=1e-4)
    assert np.ptp(known, axis=1).max() == pytest.approx(losses.spread, rel=1e-4)
    assert (known.min(), known.max()) == pytest.approx(losses.entry, rel=1e-4)
    values = np.asarray(g, np.float64) @ known.T
    assert (np.diag(values) >= values.max(axis=1) - 1e-4).all()


def test_known_sensitivities():
    """The paper's instances, N = 9: replaced and zeroed out, whole vectors and entries."""
    for losses, replace, zero_out, entry in [
        (domains.box_losses(9), (18, 6), (9, 3), (2, 1)),
        (domains.box_losses(9, 0.0, 1.0), (9, 3), (9, 3), (1, 1)),
        (domains.ball_losses(9), (6, 2), (3, 1), (2, 1)),
        (domains.l1_losses(9), (2, 2), (1, 1), (2, 1)),
    ]:
        assert domains.sensitivity(losses, "replace", "round") == pytest.approx(replace)
        assert domains.sensitivity(losses, "zero_out", "round") == pytest.approx(zero_out)
        assert domains.sensitivity(losses, "replace", "entry") == pytest.approx((entry[0],) * 2)
        assert domains.sensitivity(losses, "zero_out", "entry") == pytest.approx((entry[1],) * 2)


BAD = {
    "dim": lambda: domains.simplex(1),
    "radius": lambda: domains.ball(3, -1.0),
    "low": lambda: domains.box_losses(3, 1.0, 1.0),
    "centre": lambda: domains.from_minimizer(
        3, lambda g: g, centre=np.zeros(2), diameter=1.0, losses=domains.box_losses(3)
    ),
    "diameter": lambda: domains.from_minimizer(
        3, lambda g: g, centre=np.zeros(3), diameter=0.0, losses=domains.box_losses(3)
    ),
    "minimizer": lambda: domains.from_minimizer(
        3, lambda g: g[:2], centre=np.zeros(3), diameter=1.0, losses=domains.box_losses(3)
    ),
    "losses": lambda: domains.from_minimizer(
        3, lambda g: g, centre=np.zeros(3), diameter=1.0, losses=domains.box_losses(2)
    ),
    "smoothness": lambda: domains.numerical_regularizer(
        domains.ball(3), jnp.sum, range=1.0, strong_convexity=2.0, smoothness=1.0
    ),
    "steps": lambda: domains.numerical_regularizer(
        domains.ball(3), jnp.sum, range=1.0, strong_convexity=1.0, smoothness=1.0, steps=0
    ),
    "domain": lambda: domains.fitting("simplex", None),
    "neighbours": lambda: domains.sensitivity(domains.box_losses(2), "add", "round"),
}


@pytest.mark.parametrize("argument", BAD)
def test_bad_arguments_are_refused_by_name(argument):
    with pytest.raises((ValueError, TypeError), match=rf"\b{argument}\b"):
        BAD[argument]()
