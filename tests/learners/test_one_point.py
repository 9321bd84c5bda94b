"""One-point and two-point estimates, and the learners that play them."""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, domains, feedback, learners, mechanisms
from dpjax.environments import loss_families
from dpjax.learners import scrible
from dpjax.learners._projection_free import batch_norms, printed_scale
from dpjax.learners._projection_free import step_size as projection_free_step
from dpjax.learners._scrible import ellipsoid_play, step_size
from dpjax.learners._two_point_gradient import default_smoothing
from dpjax.learners.parts.one_point import directions, entries_of, flaxman_radius, values
from dpjax.learners.parts.prefix_sums import of_rounded
from tests.learners.replay import play, worlds
from tests.play import play_table

DRAWS = 200_000
DOMAINS = {
    "ball": domains.ball(3),
    "simplex": domains.simplex(3),
    "paths": domains.paths([(0, 1), (0, 1), (1, 2), (1, 2), (0, 2)], 0, 2),
}


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


@pytest.mark.parametrize("name", DOMAINS)
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


def direction(domain, key, t, split=True):
    """u_t in float64, from a learner's key in round t."""
    space, own = directions(domain), jr.fold_in(key, t)
    return np.asarray(space.lift(space.draw(jr.split(own)[0] if split else own)), np.float64)


def unit(domain):
    """The domain with losses of length at most 1."""
    return domain._replace(losses=domains.ball_losses(domain.dim))


ROUNDS, RANGE = 24, (-1.0, 2.0)
PLANES = {"ball": domains.ball(2), "simplex": domains.simplex(3)}


def transcribed(domain, losses, key, horizon, private):
    """Both updates in NumPy, without noise; u_t from the learners' keys."""
    zeta = float(flaxman_radius(horizon, domain, 1.5, 1.0))
    nu = domain.radius / (1.5 * horizon**0.5)
    shrink = 1 - zeta / domain.inradius

    def project(x):
        halfway = domain.centre + (x - domain.centre) / shrink
        nearest = np.asarray(domain.project(jnp.asarray(halfway, jnp.float32)), np.float64)
        return domain.centre + shrink * (nearest - domain.centre)

    y = lazy = np.array(domain.centre)
    plays = []
    for t in range(horizon):
        u = direction(domain, key, t, private)
        plays.append(y + zeta * u)
        move = nu * (np.clip(losses[t] @ plays[-1], *RANGE) - 0.5) * u
        lazy = lazy - move
        y = project(lazy if private else y - move)
    return np.array(plays)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("name", PLANES)
def test_the_updates_of_one_point_gradient(name, private):
    domain, key = PLANES[name], jr.key(3)
    given = 3.0 * jr.normal(jr.key(0), (ROUNDS, domain.dim))
    make = learners.one_point_gradient
    if private:
        make = partial(learners.private_one_point, epsilon=np.inf)
    learner = make(ROUNDS, unit(domain), loss_range=RANGE)
    plays, _, _ = jax.jit(lambda: play(learner, given, key))()
    expected = transcribed(domain, np.asarray(given, np.float64), key, ROUNDS, private)
    np.testing.assert_allclose(plays, expected, atol=1e-4)
    assert jax.vmap(domain.contains)(plays).all()
    assert np.ptp(np.asarray(plays), axis=0).max() > 0.3


PAIRS, DIM = 64, 3
BALL = domains.ball(DIM)


@pytest.mark.parametrize("domain", [BALL, domains.simplex(4)], ids=["ball", "simplex"])
def test_the_updates_of_two_point_gradient(domain):
    """In NumPy without noise, with u_t from the learners' keys; both points are in the set."""
    given = np.asarray(0.5 * jr.normal(jr.key(0), (PAIRS, domain.dim)))
    steep = domain._replace(losses=domains.ball_losses(domain.dim, 3.0))
    learner = learners.two_point_gradient(PAIRS, steep, epsilon=np.inf)
    game = play_table(learner, given, jr.key(1))
    n, zeta = directions(domain).dim, default_smoothing(PAIRS, domain)
    assert zeta == min(domain.radius / PAIRS, domain.inradius / 2)
    eta = domain.radius / np.sqrt(PAIRS * n**2 * 9.0 / (4 * (n - 1)))
    inner = domains.shrunk(domain, 1.0 - zeta / domain.inradius)
    total = np.zeros(domain.dim)
    for t in range(PAIRS):
        u = direction(domain, jr.key(1), t)
        base = np.asarray(inner.project(jnp.asarray(domain.centre - eta / 2 * total, jnp.float32)))
        expected = base + zeta * np.array([[1.0], [-1.0]]) * u
        np.testing.assert_allclose(game.actions[t], expected, atol=2e-4)
        total = total + n * (given[t] @ u) * u  # <l, x+ - x-> / (2 zeta) = <l, u>
    assert jax.vmap(jax.vmap(domain.contains))(game.actions).all()
    assert int(game.clipped) == 0


def test_two_point_values_and_their_mean_are_those_of_the_points():
    points = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    loss = jnp.array([0.25, 1.0, 0.0])
    np.testing.assert_array_equal(feedback.values(loss, points), [0.25, 0.5])
    assert float(feedback.mean_value(loss, points)) == 0.375
    assert float(feedback.mean_value(loss, points[0])) == 0.25
    np.testing.assert_array_equal(feedback.middle(points), [0.5, 0.25, 0.0])
    np.testing.assert_array_equal(feedback.middle(points[0]), points[0])


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("domain", [BALL, domains.ball(1)], ids=["3", "1"])
def test_a_replaced_loss_of_two_point_gradient_spends_at_most_what_is_declared(domain):
    """Opposite slopes of 100 are clipped to 2 n G along u; half the noise would spend twice that.

    In L1 a direction has norm sqrt(n) only if its entries are equal in size: in one dimension
    always.
    """
    rows = 100.0 * jnp.ones((8, domain.dim))
    pair = audit.Pair(rows, rows.at[0].set(-rows[0]))
    learner = learners.two_point_gradient(8, domain, epsilon=1.0)
    spent = float(audit.spent(audit.replay(learner, pair, jr.key(0)), 0.0))
    assert 0.6 < spent <= 1.0 + 1e-3
    assert domain.dim > 1 or spent == pytest.approx(1.0, rel=1e-3)


def make(horizon, domain, **given):
    """PRIVATEBANDIT for losses with L = 1."""
    return learners.projection_free(horizon, unit(domain), **given)


HORIZON, BATCH = 36, 6
SETS = {
    "ball": domains.ball(2),
    "capped simplex": domains.capped_simplex(4, 2),
    "paths": DOMAINS["paths"],
}


def vectors(domain, seed=0, horizon=HORIZON):
    """Losses with one direction and random lengths, (T, d)."""
    way = domain.losses.maximizer(jr.normal(jr.key(seed), (domain.dim,)))
    return jr.uniform(jr.key(seed + 1), (horizon, 1), minval=0.2) * way[None]


# --- the algorithm ---


def as_printed(domain, losses, key, batch, zeta, eta):
    """Algorithm 1 in NumPy, batch by batch, without noise; u_t from the learner's keys."""

    def conditional_gradient(x, s):
        for _ in range(batch):
            gradient = x - domain.centre + eta * s
            v = np.asarray(domain.minimizer(jnp.asarray(gradient, jnp.float32)), np.float64)
            gap, length = gradient @ (x - v), np.sum((x - v) ** 2)
            x = x + np.clip(gap / max(length, 1e-30), 0, 1) * (v - x)
        return x

    horizon = len(losses)
    s, x, plays = np.zeros(domain.dim), np.array(domain.centre), []
    for first in range(0, horizon, batch):
        g = np.zeros(domain.dim)
        for t in range(first, first + batch):
            u = direction(domain, key, t)
            plays.append(x + zeta * u)
            g += directions(domain).dim / zeta * float(losses[t] @ plays[-1]) * u
        # The answer to the sums of earlier batches, played in the next one.
        x, s = conditional_gradient(x, s), s + g
    return np.array(plays)


@pytest.mark.parametrize("name", SETS)
def test_projection_free_is_algorithm_1(name):
    """Without noise, against a transcription of the paper's lines.

    The losses of the last two batches are not summed, so they change neither points nor sums.
    """
    domain = SETS[name]
    learner = make(HORIZON, domain, epsilon=np.inf, smoothing=0.3, rate=0.2)
    given = vectors(domain)
    both = jnp.stack([given, given.at[-2 * BATCH :].multiply(-1.0)])
    plays, _, last = worlds(learner, both, jr.key(3))
    expected = as_printed(domain, np.asarray(given, np.float64), jr.key(3), BATCH, 0.3, 0.2)
    np.testing.assert_allclose(plays[0], expected, atol=2e-4)
    np.testing.assert_array_equal(*plays)
    np.testing.assert_array_equal(*last.linear)


# --- dependence ---


def scale_of(**arguments):
    """The scale requested from a factory of mechanisms."""
    asked = []

    def spy(horizon, *, noise):
        built = mechanisms.tree(horizon, noise=noise)

        def stream(shape, *, scale):
            asked.append((horizon, float(scale)))
            return built.stream(shape, scale=scale)

        return built._replace(stream=stream)

    make(mechanism=spy, **arguments)
    return asked[-1]


def test_the_scale_of_projection_free_for_a_single_change():
    """Against a number worked out by hand, to its two digits, at L = D = epsilon = 1."""
    asked = partial(scale_of, horizon=10**6, domain=domains.ball(100, 0.5), epsilon=1.0)
    releases, scale = asked(loss_range="nonnegative")
    assert releases == 999 and scale == pytest.approx(4.2e4, rel=0.06)
    assert asked(loss_range="signed")[1] == pytest.approx(2 * scale)


def test_printed_formulas_of_projection_free():
    """T = 10^4, n = 4, L = 2, epsilon = 0.5, delta = 10^-4."""
    assert float(printed_scale(10**4, 4, 2.0, 0.5, None)) == pytest.approx(
        100 * 4 * 2 * math.log(1e4) / 0.5
    )
    expected = 10 * 2 * 2 * math.log(1e4) * math.log(1e8) * math.sqrt(26 * math.log(10004e4)) / 0.5
    assert float(printed_scale(10**4, 4, 2.0, 0.5, 1e-4)) == pytest.approx(expected, rel=1e-5)


def test_batch_norm_of_projection_free_is_the_norm_of_a_whole_batch():
    """b times "single_change" for Laplace; for Gaussian noise at most that, less for large n."""
    for n, share in [(10, 1.0), (400, 0.87)]:
        asked = partial(scale_of, horizon=10**6, domain=domains.ball(n, 0.5), epsilon=1.0)
        assert asked(calibration="batch_norm")[1] == pytest.approx(1000 * asked()[1], rel=1e-5)
        gaussian = {"noise": "gaussian", "delta": 1e-6}
        ratio = asked(calibration="batch_norm", **gaussian)[1] / asked(**gaussian)[1]
        assert ratio == pytest.approx(1000 * share, rel=0.01)
    assert float(batch_norms(100, 100, 10, jnp.inf, 1e-6)[1]) == 100


def test_the_schedule_of_defaults_of_projection_free():
    """D = 2, n = 2, T = 10^4: zeta = 2 sqrt(2) / 10; the rate is close to the printed one."""
    learner = make(100**2, domains.ball(2), epsilon=1.0)
    state, _ = learner.init(jr.key(0))
    assert float(learner.report(state).reach) == pytest.approx(0.2 * 2**0.5)
    # The default range is signed, and reaches as far as plays.
    assert learner.privacy.loss_range == pytest.approx((-2.0 - 0.2 * 2**0.5, 2.0 + 0.2 * 2**0.5))
    n, b, zeta = 4000, 10**8, 2.0 * 4000**0.5 / 1e4
    printed = 2.0 / (1e12 * n**0.5)
    assert float(projection_free_step(b, b, 2.0, n, zeta, 2.0, 1.0)) == pytest.approx(
        printed, rel=0.001
    )


# --- the points ---


@pytest.mark.parametrize("name", SETS)
def test_the_certificate_of_projection_free_bounds_the_distance(name):
    """distance <= D sqrt(13.5 / (b + 1)) (Jaggi's Theorem 2), under noise of every size.

    It is valid: on the ball, bases are no further from their minimizers, in closed form.
    """
    domain, horizon = SETS[name], 400
    given = vectors(domain, 3, horizon)

    @jax.jit
    @jax.vmap
    def run(epsilon):
        learner = make(horizon, domain, epsilon=epsilon)
        _, _, state = play(learner, given, jr.key(2))
        return learner.report(state).distance, state

    epsilons = jnp.array([1e-3, 0.1, 1.0, 10.0, 100.0, np.inf])
    distance, state = run(epsilons)
    assert (distance <= domain.diameter * (13.5 / 21) ** 0.5 * (1 + 1e-4)).all()
    assert distance.max() > 1e-4
    if name == "ball":
        # The last base answers to the sums in the last batch's state.
        wanted = jax.vmap(domain.project)(-state.linear)
        off = np.linalg.norm(np.asarray(state.solver - wanted), axis=1)
        assert (off <= np.maximum(distance, 1e-3)).all()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
@pytest.mark.parametrize(("name", "horizon"), [("private_one_point", 5), ("projection_free", 9)])
def test_a_replay_of_rounded_estimates_spends_at_most_what_is_declared(name, horizon, law):
    """On losses that jump between the ends of the range; half the noise is found."""
    learner = getattr(learners, name)(
        horizon, domains.ball(2), epsilon=1.0, delta=None if law == "discrete_laplace" else 1e-3,
        noise=law, smoothing=0.1, loss_range=(-1.0, 1.0),
    )._replace(action_set=None)  # fmt: skip
    plus = jnp.tile(jnp.array([18.0, 24.0]), (horizon, 1))
    losses = jnp.stack([plus, plus, -plus, -plus])
    pairs = audit.Pair(losses, losses.at[jnp.arange(4), jnp.array([0, 1, 0, 1])].multiply(-1.0))
    found = audit.verdict(learner, pairs, jr.key(0))
    assert found.failed == () and found.spent.max() > 0.3
    halved = audit.verdict(audit.mutants(learner, plus)["noise halved"], pairs, jr.key(0))
    assert halved.spent.max() > 1.9 * found.spent.max()


@pytest.mark.parametrize("size", [4.0, 40.0])
def test_the_change_of_a_rounded_estimate_is_that_of_the_estimate(size):
    """Rounds the estimates of both neighbours with the same uniform numbers, in NumPy."""
    domain = domains.ball(3)
    losses = values(domain, (-1.0, 1.0), 1.0, 0.0)
    change = size * (losses.high - losses.low)
    l1, l2 = of_rounded((3**0.5 * change, change), (3,), entries_of(size, losses), "round")
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(4000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    levels = generator.uniform(size=(4000, 3))
    below, above = (np.ceil(sign * size * directions - levels) for sign in (-1.0, 1.0))
    moved = np.abs(above - below)
    assert np.linalg.norm(moved, axis=1).max() <= l2 <= change + 3**0.5
    assert moved.sum(axis=1).max() <= l1
    assert np.linalg.norm(moved, axis=1).max() > 0.95 * change
    assert change > 2.0 * 3**0.5  # the change of a rounded loss in [-1, 1], which is too small


RNG = np.random.default_rng(0)
ROWS, BOUNDS = RNG.normal(size=(12, 3)), RNG.uniform(0.5, 2.0, size=12)
BODIES = {
    "simplex": domains.simplex(4),
    "ball": domains.ball(3, 2.0),
    "cube": domains.cube(3),
    "polytope": domains.polytope(ROWS, BOUNDS),
}
LOSSES = {"simplex": [0.9, 0.1, 0.6, 0.3], "ball": [0.5, -0.7, 0.2], "cube": [0.3, -0.4, 0.2]}
LOSSES["polytope"] = LOSSES["ball"]
SUMS = {"start": 0.0, "inside": 1.0, "outside": 12.0}


@cache
def estimates(name):
    """Estimates of the loss, and plays, from 100 000 rounds at each of SUMS, (draws, d)."""
    domain, loss = BODIES[name], jnp.asarray(LOSSES[name], jnp.float32)
    # A centre other than 0 must not matter.
    learner = ellipsoid_play(8, domain, jnp.float32(1.0), 0.3)
    start, _ = learner.init(jr.key(0))

    def one(key, sums):
        draw_key, next_key = jr.split(key)
        state = start._replace(sums=sums, dual=jnp.zeros(domain.dim))
        # On a polytope, until x follows the sums, which were changed by hand.
        for _ in range(6 if name == "polytope" else 1):
            state, point = learner.step(state, draw_key, jnp.float32(0.3))
        after, _ = learner.step(state, next_key, learner.feedback(loss, point))
        return after.sums - state.sums, point

    every = jax.jit(jax.vmap(one, (0, None)))
    direction, keys = jnp.array([1.0, -0.4, 0.3, 2.0])[: domain.dim], jr.split(jr.key(1), 100_000)
    return {word: jax.device_get(every(keys, size * direction)) for word, size in SUMS.items()}


def map_of(domain):
    """W = (sum_i a_i a_i' / r_i^2)^(-1/2) at the analytic centre, over rows that are facets."""
    slacks = BOUNDS - ROWS @ domain.centre
    # A row is a facet if some minimizer for its own direction lies on it.
    ends = np.asarray(jax.vmap(domain.minimizer)(jnp.asarray(-ROWS, jnp.float32)), np.float64)
    facets = np.abs(np.sum(ROWS * ends, axis=1) - BOUNDS) < 1e-5
    assert facets.sum() == domain.barrier.parameter
    scaled = ROWS[facets] / slacks[facets, None]
    sizes, axes = np.linalg.eigh(scaled.T @ scaled)
    return (axes / np.sqrt(sizes)) @ axes.T


def worst_z_of_scrible(name, sample):
    """The largest z of the mean against the loss.

    On the simplex both are up to constants. On a polytope they are in coordinates y with
    x = centre + W y, in which the loss is W l.
    """
    loss = np.array(LOSSES[name])
    if name == "simplex":
        sample, loss = sample[:, 1:] - sample[:, :1], loss[1:] - loss[0]
    if name == "polytope":
        loss = map_of(BODIES[name]).T @ loss
    error = sample.std(axis=0) / len(sample) ** 0.5
    return np.abs((sample.mean(axis=0) - loss) / error).max()


@pytest.mark.parametrize("size", SUMS)
@pytest.mark.parametrize("name", BODIES)
def test_estimates_of_scrible_are_unbiased(name, size):
    """At the start, inside and near the boundary, up to the scatter of 100 000 draws.

    If the scatter is small enough, a missing factor n is rejected, and so is the ball instead of
    the sphere, which shrinks the mean by n / (n + 2). Plays on a polytope are inside of it.
    """
    sample, points = (np.asarray(leaf, np.float64) for leaf in estimates(name)[size])
    assert worst_z_of_scrible(name, sample) < 4.5
    if size == "start":
        n = BODIES[name].barrier.dim
        assert worst_z_of_scrible(name, sample / n) > 10
        assert worst_z_of_scrible(name, sample * n / (n + 2)) > 10
    if name == "polytope":
        over = (points @ ROWS.T - BOUNDS) / np.linalg.norm(ROWS, axis=1)
        assert over.max() < 1e-6


def test_step_size_of_scrible_by_hand():
    """eta = sqrt(nu ln T / (2 n^2 T (M^2 + s^2))), which minimizes the bound, and its value."""
    barrier = domains.simplex(4).barrier
    eta = float(step_size(1000, barrier, 0.5, 8 * 0.25 / 4))
    spread = 2 * 9 * 1000 * (0.25 + 0.5)
    assert eta == pytest.approx(np.sqrt(4 * np.log(1000) / spread))
    bound = 4 * np.log(1000) / eta + eta * spread + 1
    assert bound == pytest.approx(bounds.scrible(1000, 4, 2.0, domain="simplex"))
    # Points lie on the ellipsoid around the point of eta L~: (y - x) / axes has length 1.
    learner, sums = scrible(1000, domains.cube(2), epsilon=jnp.inf), jnp.array([300.0, -80.0])
    state, _ = learner.init(jr.key(0))
    state = state._replace(base=state.base._replace(sums=sums, dual=jnp.zeros(2)))
    step = jax.vmap(lambda key: learner.step(state, key, jnp.float32(0.0))[1])
    points = np.asarray(step(jr.split(jr.key(0), 64)))
    scaled = np.sqrt(2 * np.log(1000) / (2 * 4 * 1000)) * np.asarray(sums)
    x = -scaled / (1 + np.sqrt(1 + scaled**2))
    axes = np.sqrt(((1 - x**2) ** 2) / (2 * (1 + x**2)))
    np.testing.assert_allclose(np.linalg.norm((points - x) / axes, axis=1), 1.0, rtol=1e-4)
