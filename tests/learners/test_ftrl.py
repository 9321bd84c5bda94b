"""Learners on private prefix sums and outputs: plain without noise, perturbations, gradients."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from dp_accounting import get_sigma_gaussian
from jax import random as jr
from scipy import optimize, stats

from dpjax import audit, domains, environments, learners, loss_families, mechanisms, noise, privacy
from dpjax.combinators import on_gradients
from dpjax.feedback import gradient
from dpjax.learners._ftpl import default_perturbation, printed_scale
from dpjax.learners.parts.prefix_sums import noise_length, prefix_sums
from dpjax.mechanisms import tree
from tests.audit.test_declarations import spends_what_it_declares
from tests.play import play_table

HORIZON = 64
PLAIN_DOMAINS = {"simplex": domains.simplex(3), "ball": domains.ball(3), "cube": domains.cube(3)}


def numpy_ftrl(domain, losses, rate):
    """The points x_1 .. x_T in float64, from the equations."""
    sums = np.concatenate([np.zeros((1, losses.shape[1])), np.cumsum(losses, axis=0)])[:-1]
    if domain == "simplex":
        weights = np.exp(-rate * (sums - sums.min(axis=1, keepdims=True)))
        return weights / weights.sum(axis=1, keepdims=True)
    points = -rate * sums / 2
    if domain == "cube":
        return np.clip(points, -1, 1)
    return points / np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True))


def plays_of(learner, losses, key):
    """The points of a learner on a table of losses, (T, d)."""
    return play_table(learner, losses, key).actions[:-1]


@cache
def table(name):
    """Losses from a domain's own set, with one dominant direction."""
    losses = PLAIN_DOMAINS[name].losses
    directions = jr.normal(jr.key(3), (HORIZON, 3)) + jnp.array([0.5, 0.0, -0.5])[None]
    return jax.vmap(losses.maximizer)(directions)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [("simplex", "tree"), ("cube", "tree"), *(("ball", name) for name in mechanisms.__all__)],
)
def test_without_privacy_it_is_ftrl(name, mechanism):
    """Exponential weights and lazy projections, in float64; the default rate is explicit."""
    rate = {"simplex": np.sqrt(8 * np.log(3) / 64), "ball": 2 / 8, "cube": np.sqrt(4 * 3 / 64)}
    law = {"noise": "gaussian", "delta": 1e-6} if mechanism == "unbounded" else {}
    learner = learners.ftrl(
        HORIZON,
        PLAIN_DOMAINS[name],
        epsilon=np.inf,
        mechanism=getattr(mechanisms, mechanism),
        **law,
    )
    expected = numpy_ftrl(name, np.asarray(table(name), np.float64), rate[name])
    np.testing.assert_allclose(plays_of(learner, table(name), jr.key(0)), expected, atol=2e-6)
    assert learner.privacy.epsilon == np.inf


@pytest.mark.parametrize("name", PLAIN_DOMAINS)
def test_the_anytime_rate_does_not_know_the_horizon(name):
    """sqrt(D_R / (2 S t)) without noise; the same actions for two horizons with noise."""
    regularizer, losses = PLAIN_DOMAINS[name].regularizer, table(name)
    first = np.sqrt(regularizer.range / (2 * regularizer.stability(PLAIN_DOMAINS[name].losses)))
    rates = first / np.sqrt(np.arange(1.0, HORIZON + 1))[:, None]
    made = [
        learners.ftrl(horizon, PLAIN_DOMAINS[name], epsilon=epsilon, delta=1e-6, noise="gaussian",
                      rate="anytime", mechanism=mechanisms.hybrid)
        for horizon, epsilon in ((HORIZON, np.inf), (HORIZON, 10.0), (8 * HORIZON, 10.0))
    ]  # fmt: skip
    plain, short, long = (plays_of(learner, losses, jr.key(0)) for learner in made)
    expected = numpy_ftrl(name, np.asarray(losses, np.float64), rates)
    np.testing.assert_allclose(plain, expected, atol=2e-6)
    np.testing.assert_array_equal(short, long)
    assert np.abs(short - plain).max() > 0.1


DIM = 3
# A domain whose linear minimizer returns its input.
WINDOW = domains.ball(DIM)._replace(minimizer=lambda g: g)


@cache
def perturbed(**options):
    """(epsilon, keys (n,)) -> (n, T, d), L~_t - L_t on losses 0, as seen by the minimizer."""

    def one(epsilon, key):
        learner = learners.ftpl(HORIZON, WINDOW, epsilon=epsilon, delta=1e-6, **options)
        return play_table(learner, jnp.zeros((HORIZON - 1, DIM)), key).actions

    return jax.jit(jax.vmap(one, (None, 0)))


@pytest.mark.parametrize("epsilon", [0.5, 30.0, np.inf])
def test_ftpl_perturbs_each_prefix_by_the_larger_of_what_privacy_and_a_leader_need(epsilon):
    """KS of 4000 draws at several t including the first; half of it is rejected."""
    seen = np.asarray(perturbed()(jnp.float32(epsilon), jr.split(jr.key(1), 4000)))
    needed = default_perturbation(HORIZON, WINDOW.losses)
    assert needed == pytest.approx(8 / (2 * np.pi * 3) ** 0.25)
    private = 0.0
    if np.isfinite(epsilon):
        private = get_sigma_gaussian(epsilon, 1e-6) * 2.0 * 6  # Delta_2 sqrt(D), D nodes a prefix
    expected = max(needed, private)
    assert (private > needed) == (epsilon == 0.5)
    for t in (0, 1, 7, 32, 63):
        assert stats.kstest(seen[:, t, 0] / expected, "norm").pvalue > 1e-3
        assert stats.kstest(seen[:, t, 1] / (expected / 2), "norm").pvalue < 1e-9


def test_on_noisy_losses_the_perturbation_is_a_random_walk():
    """RW-FTPL: 4000 walks with independent steps, which have the noise of one message."""
    play = perturbed(mechanism=mechanisms.per_item, perturbation=0.0)
    walks = np.asarray(play(jnp.float32(1.0), jr.split(jr.key(1), 4000)))
    assert (walks[:, 0] == 0.0).all()
    steps = np.diff(walks, axis=1).reshape(4000, -1)
    scale = get_sigma_gaussian(1.0, 1e-6) * WINDOW.losses.diameters[1]
    assert np.abs(steps.var(0) / scale**2 - 1.0).max() < 5.0 * np.sqrt(2.0 / 4000)
    related = np.corrcoef(steps.T) - np.eye(steps.shape[1])
    assert np.abs(related).max() < 5.5 / np.sqrt(4000)


def test_the_random_walk_spends_what_it_declares():
    """In the local model; replays find a violation with half the noise."""
    learner = learners.ftpl(
        16, domains.simplex(3), epsilon=1.0, delta=1e-3, mechanism=mechanisms.per_item,
        perturbation=0.0,
    )  # fmt: skip
    assert (learner.privacy.model, learner.privacy.released) == ("local", "messages 1..T")
    spends_what_it_declares(
        learner, audit.pairs_for(learner, 32, jr.key(1)), pytest.approx(1.0, rel=1e-3)
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_printed_scale_of_ftpl_is_private_and_at_least_three_times_ours(epsilon):
    """On the paper's instances at T = 128 and 2^14, for the noise that privacy requires."""
    for horizon in (128, 2**14):
        nodes, delta = np.log2(horizon), 1e-6
        for losses in (domains.box_losses(10), domains.ball_losses(10), domains.l1_losses(10)):
            printed = float(printed_scale(horizon, losses, epsilon, delta))
            first = losses.norms[1] * np.sqrt(horizon / (10**0.5 * nodes))
            second = 10**0.5 / epsilon * nodes * np.log(nodes / delta)
            assert printed == pytest.approx(max(first, second), rel=1e-5)
            ours = get_sigma_gaussian(epsilon, delta) * losses.diameters[1] * nodes**0.5
            assert printed > 3 * ours


HORIZON = 64


@pytest.mark.parametrize("name", ["ball", "cube"])
def test_without_privacy_it_is_projected_gradient_descent(name):
    """x_(t+1) = projection of x_t - D / (G sqrt t) l_t, in float64."""
    domain = getattr(domains, name)(3)
    losses = jax.vmap(domain.losses.maximizer)(jr.normal(jr.key(0), (HORIZON, 3)))
    points = plays_of(learners.online_gradient(HORIZON, domain, epsilon=np.inf), losses, jr.key(1))
    x, rate = np.zeros(3), domain.diameter
    for t, loss in enumerate(np.asarray(losses, np.float64), start=1):
        np.testing.assert_allclose(points[t - 1], x, atol=1e-5)
        x = x - rate / t**0.5 * loss
        x = np.clip(x, -1, 1) if name == "cube" else x / max(1, np.linalg.norm(x))


def test_an_optimizer_with_momentum_runs_on_private_gradients():
    """It follows constant losses to the far side of the ball, despite the noise."""
    domain = domains.ball(3)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9))
    learner = learners.online_gradient(
        HORIZON, domain, optimizer, epsilon=50.0, delta=1e-6, noise="gaussian",
        mechanism=mechanisms.buffered,
    )  # fmt: skip
    losses = jnp.tile(jnp.array([0.0, 1.0, 0.0]), (HORIZON, 1))
    with jax.numpy_dtype_promotion("standard"):  # optax's moments mix dtypes
        points = jax.jit(jax.vmap(lambda key: plays_of(learner, losses, key)))(
            jr.split(jr.key(0), 20)
        )
    assert np.isfinite(points).all()
    assert (np.linalg.norm(points, axis=-1) < 1 + 1e-5).all()
    assert points[:, HORIZON // 2 :, 1].mean() < -0.7


def test_what_the_optimizer_sees_sums_to_the_release():
    """Gradients are differences of releases, so their noise does not accumulate."""
    domain = domains.ball(2, 1e6)
    learner = learners.online_gradient(HORIZON, domain, optax.sgd(1.0), epsilon=1.0)
    losses = jnp.tile(jnp.array([0.6, 0.0]), (HORIZON, 1))
    game = play_table(learner, losses[:8], jr.key(0))
    np.testing.assert_allclose(game.actions[1:], -game.states.release[1:], rtol=1e-4, atol=1e-3)


ROUNDS, CURVATURE = 12, 0.3


def test_each_point_of_private_ftal_minimizes_the_noisy_sum_plus_quadratics():
    """On the ball, against scipy.optimize at the released sums, with noise and without."""
    domain = domains.ball(3)
    losses = np.array(jr.normal(jr.key(0), (ROUNDS, 3)))
    losses /= np.linalg.norm(losses, axis=1, keepdims=True)
    for epsilon in (5.0, np.inf):
        learner = learners.private_ftal(ROUNDS, domain, epsilon=epsilon, strong_convexity=CURVATURE)
        game = jax.device_get(play_table(learner, losses[:-1], jr.key(1)))
        points, inner = game.actions.astype(np.float64), game.states.sums
        for t in range(1, ROUNDS):
            # The released value: the mechanism's sum with its noise.
            level = (t & -t).bit_length() - 1
            release = (inner.total[t] + inner.noise.walk[t, level]).astype(np.float64)

            def objective(w, release=release, past=points[:t]):
                return release @ w + CURVATURE / 2 * sum(np.sum((w - v) ** 2) for v in past)

            found = optimize.minimize(
                objective, np.zeros(3), method="SLSQP", options={"ftol": 1e-12, "maxiter": 300},
                constraints={"type": "ineq", "fun": lambda w: 1 - w @ w},
            )  # fmt: skip
            assert objective(points[t]) <= found.fun + 1e-4 * (1 + abs(found.fun))
            assert np.linalg.norm(points[t]) <= 1 + 1e-6


def test_default_curvature_of_private_ftal_is_the_least_of_its_bound():
    """H = sqrt(2 A / (D^2 T)), A = (G^2 / 2)(1 + ln T), seen from the step after a small loss."""
    domain, loss = domains.ball(3, 100.0), jnp.array([0.001, 0.0, 0.0])
    learner = learners.private_ftal(100, domain, epsilon=np.inf)
    _, point = learner.step(learner.init(jr.key(0))[0], jr.key(0), loss)
    curvature = np.sqrt((1 + np.log(100)) / (200.0**2 * 100))
    np.testing.assert_allclose(point, [-0.001 / curvature, 0, 0], rtol=1e-4)


BALL = domains.ball(DIM)


def loss_set(family, **changes):
    return domains.ball_losses(DIM, family.lipschitz(0.0))._replace(**changes)


def ball_of(losses):
    """The ball with these losses."""
    return BALL._replace(losses=losses)


def follower(family, **options):
    """FTRL on gradients of a family's losses on the ball."""
    options = {"domain": ball_of(loss_set(family)), "rate": "noisy", **options}
    return on_gradients(learners.ftrl(HORIZON, **options))


@pytest.mark.parametrize("name", ["ftrl", "online_gradient", "private_ftal"])
def test_on_linear_losses_it_is_full_information(name):
    """The same losses as functions and as vectors: equal plays up to rounding."""
    family = loss_families.linear(BALL)
    rows = jax.vmap(family.draw)(
        jr.split(jr.key(0), HORIZON), jr.uniform(jr.key(1), (HORIZON, DIM))
    )
    vectors = getattr(learners, name)(HORIZON, ball_of(loss_set(family)), epsilon=20.0)
    functions = jax.tree_util.Partial(family.function, rows)
    ours = play_table(on_gradients(vectors), functions, jr.key(2))
    theirs = play_table(vectors, rows[0], jr.key(2))
    np.testing.assert_allclose(ours.actions, theirs.actions, atol=1e-6)
    np.testing.assert_allclose(ours.seen, rows[0], rtol=1e-6)
    assert np.linalg.norm(ours.actions[-1]) > 0.1
    assert int(ours.clipped) == 0


def test_the_gradient_is_taken_at_the_play():
    """For |x - z|^2 / 2 it is x - z; a vector is its own gradient."""
    z, x = jnp.array([0.5, 0.0, 0.0]), jnp.array([0.0, 1.0, 0.0])
    loss = jax.tree_util.Partial(loss_families.quadratic(BALL).function, z)
    np.testing.assert_allclose(gradient(loss, x), x - z, rtol=1e-6)
    np.testing.assert_array_equal(gradient(z, x), z)


def test_the_rate_is_that_of_its_formula():
    """eta = D / sqrt(T (G^2 / 4 + G z / 2)): inside the ball x = -eta L~ / 2."""
    losses = domains.ball_losses(DIM, 2.0)
    sums = prefix_sums(HORIZON, losses, epsilon=1e4, delta=None, mechanism=tree, noise="laplace")
    z = float(noise_length(HORIZON, DIM, sums))
    rate = 1 / np.sqrt(HORIZON * (2.0**2 / 4 + 2.0 * z / 2))
    rows = jnp.full((HORIZON, DIM), 0.1)

    def plays(**options):
        return play_table(
            learners.ftrl(HORIZON, ball_of(losses), **options), rows, jr.key(0)
        ).actions

    ours, theirs = plays(epsilon=1e4, rate="noisy"), plays(epsilon=1e4, rate=rate)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    ours, theirs = plays(epsilon=np.inf, rate="noisy"), plays(epsilon=np.inf)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_longer_gradients_are_clipped_and_counted():
    """Quadratics with the G of distances: each gradient longer than 1 counts."""
    made = loss_families.quadratic(BALL)
    learner = follower(made, epsilon=5.0, domain=ball_of(domains.ball_losses(DIM, 1.0)))
    rows = jax.vmap(BALL.project)(jr.normal(jr.key(0), (HORIZON, DIM)))
    game = play_table(learner, jax.tree_util.Partial(made.function, rows), jr.key(1))
    longer = (np.linalg.norm(game.actions[:HORIZON] - rows, axis=1) > 1.0).sum()
    assert int(game.clipped) == longer
    assert 5 < longer < HORIZON - 5


@pytest.mark.parametrize("name", ["ftrl", "online_gradient", "private_ftal"])
def test_a_replaced_function_spends_what_is_declared(name):
    """Distances to opposite points have opposite gradients at the centre, 2 G apart.

    With sensitivity G, that of a zeroed loss, replay finds 2 epsilon.
    """
    family = loss_families.distance(BALL)
    rows, losses = jnp.tile(jnp.ones(DIM) / DIM**0.5, (8, 1)), loss_set(family)
    sides = (rows, rows.at[0].multiply(-1.0))
    pair = audit.Pair(*(jax.tree_util.Partial(family.function, side) for side in sides))
    for factor, sizes in ((1.0, losses.diameters), (2.0, losses.norms)):
        learner = getattr(learners, name)(8, ball_of(losses._replace(diameters=sizes)), epsilon=1.0)
        replayed = audit.replay(on_gradients(learner), pair, jr.key(0))
        assert float(audit.spent(replayed, 0.0)) == pytest.approx(factor, rel=1e-3)


QUADRATIC = loss_families.quadratic(BALL)


def smooth_ball(longest):
    """The ball with losses whose gradients have length at most ``longest``."""
    return BALL._replace(losses=domains.ball_losses(DIM, longest))


SMOOTH = {"domain": smooth_ball(2.0), "smoothness": 1.0}


def targets(seed=0, count=HORIZON):
    return jax.vmap(BALL.project)(2.0 * jr.normal(jr.key(seed), (count, DIM)))


def functions(rows):
    return jax.tree_util.Partial(QUADRATIC.function, rows)


def test_the_recursion_of_online_frank_wolfe():
    """d_t and x_t in float64 without noise; |w_t| <= G + beta D, and sometimes above G."""
    z = np.asarray(targets(), np.float64)
    learner = learners.online_frank_wolfe(HORIZON, epsilon=np.inf, **SMOOTH)
    game = play_table(learner, functions(targets()), jr.key(0))
    x = previous = np.zeros(DIM)
    d, longest = np.zeros(DIM), 0.0
    for t in range(1, HORIZON + 1):
        np.testing.assert_allclose(game.actions[t - 1], x, atol=1e-4)
        now, before = x - z[t - 1], previous - z[t - 1]
        longest = max(longest, np.linalg.norm(t * now - (t - 1) * before))
        d = (t - 1) / t * (d - before) + now
        v = -d / np.linalg.norm(d)
        x, previous = x + (v - x) / (t + 1), x
    assert 1.5 < longest <= 2.0 + 2.0
    assert int(learner.report(game.last).longer) == 0
    assert jax.vmap(BALL.contains)(game.actions).all()


def test_late_steps_of_online_frank_wolfe_are_not_lost_to_rounding():
    """From round 2^22 on, the step to the best corner is below the resolution of numbers near 1."""
    learner = learners.online_frank_wolfe(2**23, domains.simplex(2), epsilon=np.inf)
    environment = environments.linear_losses(domains.simplex(2), jnp.array([[0.0, 1.0]]))
    start = jnp.array([0.9, 0.1])
    state = learner.init(jr.key(0))[0]._replace(point=start, previous=start, round=2**22)
    loss = environment.step(environment.init(jr.key(0)), jr.key(0), start)[1].loss
    step = jax.jit(lambda _, state: learner.step(state, jr.key(0), loss)[0])
    point = jax.lax.fori_loop(0, 2**12, step, state).point
    # The distance to the corner shrinks by the factor 2^22 / (2^22 + 2^12).
    expected = 1.0 - 0.1 * 2**22 / (2**22 + 2**12)
    assert float(point[0]) - 0.9 == pytest.approx(expected - 0.9, rel=1e-2)


def test_longer_summands_of_online_frank_wolfe_are_clipped_and_counted():
    """Quadratics with the constants of linear losses of length 1/2."""
    learner = learners.online_frank_wolfe(HORIZON, smooth_ball(0.5), epsilon=np.inf)
    game = play_table(learner, functions(targets()), jr.key(0))
    assert int(learner.report(game.last).longer) > 32
    # Linear losses of length 3, between G = 2 and G + beta D = 4.
    rows = 3.0 / DIM**0.5 * jnp.ones((8, DIM))
    for given, clipped in ((SMOOTH, 0), ({"domain": smooth_ball(2.0)}, 8)):
        learner = learners.online_frank_wolfe(8, epsilon=np.inf, **given)
        assert int(learner.report(play_table(learner, rows, jr.key(0)).last).longer) == clipped


OUTPUTS, ALPHA = 20, 0.4
DOMAINS = {"ball": domains.ball(3, 50.0), "cube": domains.cube(3), "simplex": domains.simplex(3)}


def hidden(name, losses):
    """The hidden points x_(t+1) after each round, from t (x_(t+1) - c), (T, d)."""
    learner = learners.private_giga(
        OUTPUTS, DOMAINS[name], epsilon=np.inf, delta=1e-6, strong_convexity=ALPHA
    )
    states = play_table(learner, losses, jr.key(0)).states
    sums, rounds = states.sum.high[1:], states.round[1:, None].astype(jnp.float32)
    return DOMAINS[name].centre.astype(np.float32)[None] + sums / rounds


@pytest.mark.parametrize("name", DOMAINS)
def test_a_changed_round_moves_the_hidden_point_of_private_giga_by_at_most_the_sensitivity(name):
    """Delta_2 / (alpha t) after round t, for 300 pairs; attained away from the boundary."""
    losses = DOMAINS[name].losses
    keys = jr.split(jr.key(1), 300)

    def pair(key):
        a, b, c = jr.split(key, 3)
        sequence = jax.vmap(losses.maximizer)(jr.normal(a, (OUTPUTS, 3)))
        direction = jr.normal(b, (3,))
        t = jr.randint(c, (), 0, OUTPUTS)
        rows = (jnp.arange(OUTPUTS) == t)[:, None]
        first = jnp.where(rows, losses.maximizer(direction)[None], sequence)
        second = jnp.where(rows, losses.maximizer(-direction)[None], sequence)
        moved = hidden(name, first) - hidden(name, second)
        return jnp.sqrt(jnp.sum(moved**2, axis=1))

    moved = np.asarray(jax.jit(jax.vmap(pair))(keys))
    allowed = losses.diameters[1] / (ALPHA * np.arange(1, OUTPUTS + 1))
    assert (moved <= allowed * (1 + 1e-4) + 1e-5).all()
    if name == "ball":
        assert (moved.max(axis=0) > 0.99 * allowed).all()  # less noise would not suffice


def test_private_giga_without_privacy_is_the_mean_of_the_losses():
    """x_(t+1) = -mean(l_1 .. l_t) / alpha away from the boundary, with no noise."""
    losses = jax.vmap(domains.ball_losses(3).maximizer)(jr.normal(jr.key(4), (OUTPUTS, 3)))
    points = hidden("ball", losses)
    means = np.cumsum(np.asarray(losses, np.float64), axis=0) / np.arange(1, OUTPUTS + 1)[:, None]
    np.testing.assert_allclose(points, -means / ALPHA, atol=1e-5)


@pytest.mark.parametrize(
    ("domain", "limit"),
    [
        (domains.simplex(5), 1_677_721), (domains.ball(5), 645_277), (domains.cube(5), 2_374_892),
        (domains.l1_ball(5), 1_677_721), (domains.fantope(3, 1), 724),
    ],
)  # fmt: skip
def test_horizons_of_private_giga_that_float32_does_not_carry_are_refused(domain, limit):
    learners.private_giga(limit, domain, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match=f"^horizon must be at most {limit} on this domain, got "):
        learners.private_giga(limit + 1, domain, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("domain", "horizon", "strong_convexity"),
    [
        # With a strong pull to the centre, a change is soon as small as rounding.
        (domains.simplex(3), 2**13, 100.0),
        pytest.param(domains.ball(5), 2**19, None, marks=pytest.mark.slow),
    ],
)
def test_rounding_of_private_giga_does_not_add_up(monkeypatch, domain, horizon, strong_convexity):
    """mu^2 of default pairs: the squared distance of two hidden points in units of the noise.

    A cheaper replay for long horizons: the values before noise are compared directly. It is at most
    the declared value; with half the noise, it is more.
    """
    shown = []

    def recorded(key, value, scale):
        shown.append((value, scale))
        return value

    monkeypatch.setattr(noise, "gaussian", recorded)
    learner = learners.private_giga(
        horizon, domain, epsilon=1.0, delta=1e-6, strong_convexity=strong_convexity
    )
    pairs = audit.pairs(jr.key(1), horizon, domain.losses, 8)

    def one(pair):
        state, _ = learner.init(jr.key(0))

        def one_round(states, losses):
            states = [
                learner.step(state, jr.key(0), loss)[0]
                for state, loss in zip(states, losses, strict=True)
            ]
            (ours, scale), (theirs, _) = shown[-2:]
            return tuple(states), jnp.sum(((ours - theirs) / scale) ** 2)

        inputs = jax.tree.map(lambda leaf: leaf[:-1], (pair.losses, pair.others))
        return jnp.sum(jax.lax.scan(one_round, (state, state), inputs)[1])

    cost = np.asarray(jax.jit(jax.vmap(one))(pairs), np.float64).max()
    declared = 1 / float(privacy.gaussian_inverse_mu(1.0, 1e-6)) ** 2
    assert cost <= declared < 4 * cost
