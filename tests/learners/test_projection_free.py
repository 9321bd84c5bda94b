"""PRIVATEBANDIT: its schedule, sensitivity, calibrations, certificate, and bad input."""

import math
import warnings
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, mechanisms, privacy, simulate, sweep
from dpjax.core import Feedback
from dpjax.environments import loss_families
from dpjax.learners.parts.one_point import directions
from dpjax.learners.projection_free import batch_norms, printed_scale, step_size
from tests.learners.noisy_oco import NoisyMap, noisy_oco
from tests.learners.replay import changed_rounds, given_releases, play, played, worlds


def make(horizon, domain, **given):
    """PRIVATEBANDIT for losses with L = 1."""
    unit = domains.ball_losses(domain.dim)
    return learners.projection_free(horizon, domain._replace(losses=unit), **given)


HORIZON, BATCH = 36, 6
DOMAINS = {
    "ball": domains.ball(2),
    "capped simplex": domains.capped_simplex(4, 2),
    "paths": domains.paths([(0, 1), (0, 1), (1, 2), (1, 2), (0, 2)], 0, 2),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def vectors(domain, seed=0, horizon=HORIZON):
    """Losses with one direction and random lengths, (T, d)."""
    way = domain.losses.maximizer(jr.normal(jr.key(seed), (domain.dim,)))
    return jr.uniform(jr.key(seed + 1), (horizon, 1), minval=0.2) * way[None]


# --- the algorithm ---


def as_printed(domain, losses, key, batch, zeta, eta):
    """Algorithm 1 in NumPy, batch by batch, without noise; u_t from the learner's keys."""
    space = directions(domain)

    def direction(t):
        return np.asarray(space.lift(space.draw(jr.split(jr.fold_in(key, t))[0])), np.float64)

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
            u = direction(t)
            plays.append(x + zeta * u)
            g += space.dim / zeta * float(losses[t] @ plays[-1]) * u
        # The answer to the sums of earlier batches, played in the next one.
        x, s = conditional_gradient(x, s), s + g
    return np.array(plays)


@every_domain
def test_it_is_algorithm_1(name):
    """Without noise, against a transcription of the paper's lines."""
    domain = DOMAINS[name]
    learner = make(HORIZON, domain, epsilon=np.inf, smoothing=0.3, rate=0.2)
    given = vectors(domain)
    plays, _, _ = jax.jit(lambda: play(learner, given, jr.key(3)))()
    expected = as_printed(domain, np.asarray(given, np.float64), jr.key(3), BATCH, 0.3, 0.2)
    np.testing.assert_allclose(plays, expected, atol=2e-4)


def oracles(domain, key, stream, zeta, eta, batch):
    """The learner's two noisy oracles, with batches as rounds."""
    space = directions(domain)
    centre = jnp.asarray(domain.centre, jnp.float32)

    def noisy_gradient(_, loss, x):
        first, vectors = loss

        def one(t, vector):
            u = space.draw(jr.split(jr.fold_in(key, t))[0])
            f = jnp.sum(vector * (x + zeta * space.lift(u)))
            return space.dim / zeta * f * u

        return space.lift(jnp.sum(jax.vmap(one)(first + jnp.arange(batch), vectors), axis=0))

    def init(_):
        sums, release = stream.init(jr.split(jr.fold_in(key, 0))[1])
        none = jnp.zeros(domain.dim)
        return (sums, eta * space.lift(release), none, centre, jnp.zeros((), jnp.int32)), centre

    def step(state, _, dual):
        """Delayed by one round, noisy, and near the exact point."""
        sums, linear, before, x, t = state
        for _ in range(batch):
            x, _ = domains.conditional_gradient_step(domain, x, x - centre + linear)
        value = (before - dual) / eta
        if domain.tangent is not None:
            value = jnp.asarray(domain.tangent.T, jnp.float32) @ value
        own_key = jr.split(jr.fold_in(key, t + batch))[1]
        sums, release = stream.step(sums, own_key, value)
        return (sums, eta * space.lift(release), dual, x, t + batch), x

    return noisy_gradient, NoisyMap(init, step)


@pytest.mark.slow
@every_domain
def test_it_is_an_instance_of_noisy_oco(name):
    """Batch by batch, NoisyOCO's points are the bases, with the noise of the tree."""
    domain, key, batches = DOMAINS[name], jr.key(5), HORIZON // BATCH
    zeta, eta, n = 0.3, 0.02, directions(domain).dim
    asked = []

    def spying_tree(horizon, *, noise):
        tree = mechanisms.tree(horizon, noise=noise)

        def stream(shape, *, scale):
            asked.append(scale)
            return tree.stream(shape, scale=scale)

        return tree._replace(stream=stream)

    learner = make(HORIZON, domain, epsilon=1.0, smoothing=zeta, rate=eta, mechanism=spying_tree)
    given = vectors(domain)
    plays, _, _ = jax.jit(lambda: play(learner, given, key))()
    tree = mechanisms.tree(batches - 1).stream((n,), scale=asked[-1])
    whole = noisy_oco(batches, domain, *oracles(domain, key, tree, zeta, eta, BATCH), rate=eta)

    @jax.jit
    def points():
        state, x = whole.init(key)
        rows = [x]
        for i in range(batches - 1):
            loss = (i * BATCH, given[i * BATCH : (i + 1) * BATCH])
            state, x = whole.step(state, key, loss)
            rows.append(x)
        return jnp.stack(rows)

    space = directions(domain)
    u = [space.lift(space.draw(jr.split(jr.fold_in(key, t))[0])) for t in range(HORIZON)]
    bases = np.asarray(plays) - zeta * np.stack(u)
    np.testing.assert_allclose(bases, np.repeat(points(), BATCH, axis=0), atol=2e-3)
    assert np.abs(np.diff(bases[BATCH * 2 :: BATCH], axis=0)).max() > 0.01


# --- dependence ---


@cache
def neighbours(name, epsilon):
    """Plays (T + 1, T, d): the original world, then those with one round's loss reversed."""
    domain = DOMAINS[name]
    given = vectors(domain)
    learner = make(HORIZON, domain, epsilon=epsilon, smoothing=0.3, rate=0.05)
    every = jnp.concatenate([given[None], changed_rounds(given, -given)])
    return worlds(learner, every, jr.key(10))[0]


@pytest.mark.parametrize("epsilon", [1e3, np.inf])
@every_domain
def test_batch_r_depends_on_batches_up_to_r_minus_2_only(name, epsilon):
    """With the same key and noise, the loss of each round is changed in turn.

    Plays agree bit for bit up to the end of the next batch, and differ in the first play after it.
    The last two batches change nothing.
    """
    plays = neighbours(name, epsilon)
    usual, others = plays[0], plays[1:]
    for t in range(HORIZON):
        differs = np.flatnonzero((others[t] != usual).any(axis=1))
        first = (t // BATCH + 2) * BATCH
        if first >= HORIZON:
            assert not len(differs)
        else:
            assert differs[0] == first


@cache
def leaves(name, loss_range):
    """(asked, values (T + 1, leaves, n)) with opposite extreme values, under fixed releases."""
    domain = DOMAINS[name]
    n = directions(domain).dim
    releases = 20.0 * jr.normal(jr.key(2), (HORIZON // BATCH, n))
    asked = []
    learner = make(
        HORIZON, domain, epsilon=0.5, smoothing=0.3, rate=0.05, loss_range=loss_range,
        mechanism=given_releases(releases, mechanisms.tree, asked),
    )  # fmt: skip
    # Numbers far out of range, so that every value is one of the ends.
    huge = 1e6 * jnp.ones((HORIZON, 1))
    values = jnp.concatenate([huge[None], changed_rounds(huge, -huge)])
    told = learner._replace(feedback=Feedback("told", lambda loss, action: loss[0]))
    _, _, states = worlds(told, values, jr.key(9))
    return learner, asked[-1], states.sums.values


@every_domain
def test_sensitivity_of_a_leaf_is_that_of_the_calibration(name):
    """By replay with fixed releases: one leaf changes, by exactly Delta_2 and at most Delta_1.

    The tree's column then bounds the privacy loss by epsilon; with half the noise it does not.
    """
    loss_range = (-1.0, 2.0)
    learner, (horizon, scale), values = leaves(name, loss_range)
    n = directions(DOMAINS[name]).dim
    assert learner.privacy.loss_range == loss_range
    changes = values[1:] - values[:1]
    spent = []
    encoder = mechanisms.tree(horizon).matrices()[1]
    for t in range(HORIZON):
        own = t // BATCH
        moved = np.abs(changes[t]).max(axis=1) > 0
        assert set(np.flatnonzero(moved)) <= {own}
        if own < HORIZON // BATCH - 2:
            change = changes[t][own]
            assert np.linalg.norm(change) == pytest.approx(n / 0.3 * 3.0, rel=1e-4)
            assert np.abs(change).sum() <= n**1.5 / 0.3 * 3.0 * (1 + 1e-5)
            spent.append(np.abs(encoder[:, own]).sum() * np.abs(change).sum() / scale)
    # Prefixes 1 .. 4 of six batches are released: three levels.
    assert float(scale) == pytest.approx(3 * n**1.5 / 0.3 * 3.0 / 0.5, rel=1e-5)
    assert 0.25 < max(spent) <= 0.5 * (1 + 1e-5)


def test_the_default_range_is_signed_and_reaches_as_far_as_plays():
    """+-L (D + zeta)."""
    ball, zeta = domains.ball(2), 0.3
    learner = make(HORIZON, ball, epsilon=1.0, smoothing=zeta)
    assert learner.privacy.loss_range == pytest.approx((-2.3, 2.3))


def scale_of(**arguments):
    """The scale requested from a factory of mechanisms."""
    asked = []
    like = arguments.pop("mechanism", mechanisms.tree)

    def spy(horizon, *, noise):
        built = like(horizon, noise=noise)

        def stream(shape, *, scale):
            asked.append((horizon, float(scale)))
            return built.stream(shape, scale=scale)

        return built._replace(stream=stream)

    if arguments.get("calibration") == "printed":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mechanisms, "tree", spy)
            make(mechanism=mechanisms.tree, **arguments)
    else:
        make(mechanism=spy, **arguments)
    return asked[-1]


def sphere(n):
    """The ball of diameter 1, without the rest of a Domain."""
    return domains.ball(n, 0.5)


# T, n, and lambda, sigma of both calibrations; L = D = epsilon = 1, delta = 1 / (n + T).
TABLE = [
    (10**4, 10, 9.2e3, 9.2e2, 7.6e4, 3.5e2),
    (10**4, 100, 9.2e4, 1.4e4, 1.0e5, 1.7e3),
    (10**6, 10, 1.4e5, 3.5e3, 2.0e6, 1.5e3),
    (10**6, 100, 1.4e6, 4.2e4, 2.1e6, 5.6e3),
]


@pytest.mark.parametrize(("horizon", "n", "printed", "ours", "sigma", "our_sigma"), TABLE)
def test_printed_and_single_change_scales(horizon, n, printed, ours, sigma, our_sigma):
    """Against numbers worked out by hand, to their two digits.

    For Gaussian noise they use the classical scale sqrt(2 ln(1.25 / delta)); the exact one is
    smaller, by less than a third.
    """
    asked = partial(
        scale_of, horizon=horizon, domain=sphere(n), epsilon=1.0, loss_range="nonnegative"
    )
    gaussian = {"noise": "gaussian", "delta": 1 / (n + horizon)}
    assert asked(calibration="printed")[1] == pytest.approx(printed, rel=0.06)
    assert asked(calibration="printed", **gaussian)[1] == pytest.approx(sigma, rel=0.06)
    releases, scale = asked()
    assert scale == pytest.approx(ours, rel=0.06)
    assert releases == math.isqrt(horizon) - 1
    assert 0.7 * our_sigma < asked(**gaussian)[1] < 1.06 * our_sigma


def test_signed_losses_have_twice_the_width():
    asked = partial(scale_of, horizon=10**4, domain=sphere(5), epsilon=1.0)
    assert asked()[1] == pytest.approx(2 * asked(loss_range="nonnegative")[1])


def test_where_the_printed_noise_suffices():
    """sqrt(T) ln T >= h (T^(1/4) + sqrt n), twice that for signed losses; cases on both sides."""
    for horizon, n in [(400, 2), (400, 300), (10**4, 10), (10**4, 20_000), (10**6, 100)]:
        levels = (math.isqrt(horizon) - 2).bit_length()
        for word, times in [("nonnegative", 1), ("signed", 2)]:
            asked = partial(
                scale_of, horizon=horizon, domain=sphere(n), epsilon=1.0, loss_range=word
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # zeta beyond the diameter
                enough = asked(calibration="printed")[1] >= asked()[1]
            right = times * levels * (horizon**0.25 + n**0.5)
            assert enough != (n == 20_000 or (n == 300 and times == 2))
            assert enough == (horizon**0.5 * math.log(horizon) >= right)


def test_printed_formulas():
    """T = 10^4, n = 4, L = 2, epsilon = 0.5, delta = 10^-4."""
    assert float(printed_scale(10**4, 4, 2.0, 0.5, None)) == pytest.approx(
        100 * 4 * 2 * math.log(1e4) / 0.5
    )
    expected = 10 * 2 * 2 * math.log(1e4) * math.log(1e8) * math.sqrt(26 * math.log(10004e4)) / 0.5
    assert float(printed_scale(10**4, 4, 2.0, 0.5, 1e-4)) == pytest.approx(expected, rel=1e-5)


def test_batch_norm_is_the_norm_of_a_whole_batch():
    """b times "single_change" for Laplace; for Gaussian noise at most that, less for large n."""
    for n, share in [(10, 1.0), (400, 0.87)]:
        asked = partial(scale_of, horizon=10**6, domain=sphere(n), epsilon=1.0)
        assert asked(calibration="batch_norm")[1] == pytest.approx(1000 * asked()[1], rel=1e-5)
        gaussian = {"noise": "gaussian", "delta": 1e-6}
        ratio = asked(calibration="batch_norm", **gaussian)[1] / asked(**gaussian)[1]
        assert ratio == pytest.approx(1000 * share, rel=0.01)
    assert float(batch_norms(100, 100, 10, jnp.inf, 1e-6)[1]) == 100


def test_lemma_9_under_both_readings_of_its_hypothesis():
    """k = 1000 random unit vectors in R^10, failure 10^-6.

    max |sum c_i u_i| over |c|_2 <= 1 is the spectral norm, 10.7, and below the matrix Bernstein
    bound t, 72. Over |c|_inf <= 1 it is at least 281, and below sqrt(k) t.
    "batch_norm" takes the lesser of this and k.
    """
    k, n, failure = 1000, 10, 1e-6
    u = np.random.default_rng(0).normal(size=(k, n))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    log = math.log((n + k) / failure)
    bound = log / 3 + math.sqrt(log**2 / 9 + 2 * (1 + k / n) * log)
    spectral = np.linalg.norm(u, ord=2)
    v = np.linalg.svd(u)[2][0]
    for _ in range(50):  # c = sign(<u, v>) and v along the sum: each improves the other
        total = np.sign(u @ v) @ u
        v = total / np.linalg.norm(total)
    widest = np.linalg.norm(np.sign(u @ v) @ u)
    assert spectral < bound < 75
    assert 3 * bound < widest < k**0.5 * bound
    _, two = batch_norms(k, 1, n, 1.0, 2 * failure)
    assert widest < float(two) <= k


def test_gaussian_noise_is_one_mechanism_over_the_tree():
    """sigma = sqrt(h) Delta_2 / mu, checked by the epsilon of the whole; half of it exceeds it."""
    n, horizon, zeta, epsilon, delta = 3, 400, 0.4, 0.7, 1e-5
    releases, sigma = scale_of(
        horizon=horizon, domain=domains.ball(n), epsilon=epsilon, noise="gaussian", delta=delta,
        smoothing=zeta, loss_range=(0.0, 2.0),
    )  # fmt: skip
    encoder = mechanisms.tree(releases).matrices()[1]
    change = np.linalg.norm(encoder, axis=0).max() * n / zeta * 2.0
    spent = float(privacy.gaussian_epsilon(change / sigma, delta))
    assert spent == pytest.approx(epsilon, rel=1e-3)
    assert float(privacy.gaussian_epsilon(2 * change / sigma, delta)) > 1.5 * epsilon


@pytest.mark.parametrize("mechanism", sorted(set(mechanisms.__all__) - {"exact"}))
def test_any_mechanism(mechanism):
    """Calibrated to its own sensitivity, over the released prefixes."""
    like = getattr(mechanisms, mechanism)
    releases, scale = scale_of(
        horizon=100, domain=domains.ball(2), epsilon=2.0, smoothing=0.5, loss_range=(0.0, 1.0),
        mechanism=like,
    )  # fmt: skip
    assert releases == 9
    expected = like(9, noise="laplace").sensitivity[0] * 2**1.5 / 0.5 / 2.0
    assert scale == pytest.approx(expected, rel=1e-5)


def test_exact_sums_declare_nothing():
    learner = make(100, domains.ball(2), epsilon=1.0, mechanism=mechanisms.exact)
    assert np.isinf(learner.privacy.epsilon)


def test_declaration():
    learner = make(100, domains.ball(2), epsilon=1.0, noise="gaussian", delta=1e-6)
    assert learner.privacy.calibration == "derived" and learner.privacy.delta == 1e-6
    printed = make(100, domains.ball(2), epsilon=1.0, calibration="printed")
    assert printed.privacy.calibration == "printed"


def test_the_schedule_of_defaults():
    """D = 2, n = 2, T = 10^4: zeta = 2 sqrt(2) / 10; the rate is close to the printed one."""
    report = make(100**2, domains.ball(2), epsilon=1.0)
    state, _ = report.init(jr.key(0))
    assert float(report.report(state).reach) == pytest.approx(0.2 * 2**0.5)
    for horizon, near in [(10**4, 0.3), (10**16, 0.001)]:
        n, b = 4000, math.isqrt(horizon)
        zeta = 2.0 * n**0.5 / horizon**0.25
        printed = 2.0 / (horizon**0.75 * n**0.5)
        if zeta < 2.0:
            assert float(step_size(b, b, 2.0, n, zeta, 2.0, 1.0)) == pytest.approx(
                printed, rel=near
            )


# --- the points ---


@every_domain
def test_plays_stay_in_the_hull_and_within_reach(name):
    domain = DOMAINS[name]
    for shrink in (False, True):
        reach = 0.5 * domain.inradius
        around = domains.shrunk(domain, 0.5) if shrink else domain
        learner = make(HORIZON, around, epsilon=1.0, smoothing=reach, rate=1.0)
        plays = np.asarray(jax.jit(lambda own=learner: play(own, vectors(domain), jr.key(1)))()[0])
        if domain.tangent is not None:
            away = plays - domain.centre
            np.testing.assert_allclose(away @ domain.tangent @ domain.tangent.T, away, atol=1e-5)
        inside = np.asarray(jax.vmap(lambda x: domain.contains(x, 1e-5))(plays))
        assert inside.all() == shrink
        distance = np.linalg.norm(plays - np.asarray(jax.vmap(domain.project)(plays)), axis=1)
        assert distance.max() <= reach + 0.05 * (name == "paths") + 1e-5


def test_regret_counts_the_point_that_is_played():
    """|x|^2 / 2 is 0 at the centre and zeta^2 / 2 at the played point."""
    ball, zeta = domains.ball(3), 0.25
    environment = environments.convex_losses(
        ball, loss_families.quadratic(ball), "rows", parameters=jnp.zeros((64, 3))
    )
    learner = make(64, ball, epsilon=np.inf, smoothing=zeta, rate=1e-9)
    result = jax.jit(lambda: simulate(learner, environment, jr.key(0), checkpoints=1))()
    assert float(result.tally.suffered) == pytest.approx(64 * zeta**2 / 2, rel=1e-3)
    assert float(result.regret[0]) == pytest.approx(64 * zeta**2 / 2, rel=1e-3)


@every_domain
def test_the_certificate_bounds_the_distance(name):
    """distance <= D sqrt(13.5 / (b + 1)) (Jaggi's Theorem 2), under noise of every size.

    It is valid: on the ball, bases are no further from their minimizers, in closed form.
    """
    domain, horizon = DOMAINS[name], 400
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


# --- learning ---


@pytest.mark.slow
def test_single_change_learns_where_the_printed_noise_does_not():
    """T = 4096 on the ball, n = 5, Gaussian noise at epsilon = 1, in 32 trials.

    The loss is below 0.6 of the centre's loss, and about equal to it with the printed noise.
    """
    ball, horizon = domains.ball(5), 4096

    def game(point, calibration="single_change"):
        learner = make(
            horizon, ball, epsilon=point, noise="gaussian", delta=1e-6, calibration=calibration,
            loss_range=(-1.0 - 0.56, 1.0 + 0.56),
        )  # fmt: skip
        return learner, environments.linear_losses(ball, "iid", bias=2.0)

    def final(game):
        played = sweep(game, np.array([1.0]), 32, jr.key(0), checkpoints=1, progress=False)
        centre = np.linalg.norm(played.tally.loss, axis=-1).mean()
        assert (played.clipped == 0).all()
        return played.regret.mean() / centre, played.regret.std() / 32**0.5 / centre

    (ours, error), (printed, _) = final(game), final(partial(game, calibration="printed"))
    assert ours + 4 * error < 0.6
    assert printed - 4 * error > 0.8


# --- bad input ---


def test_smoothing_beyond_the_theory_warns_and_is_played():
    with pytest.warns(UserWarning, match="beyond the diameter, 2: the regret bound"):
        make(4, domains.ball(3), epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(10**4, domains.ball(2), epsilon=1.0)


def test_losses_out_of_range_are_clipped_and_counted():
    ball = domains.ball(2)
    learner = make(HORIZON, ball, epsilon=np.inf, smoothing=0.1, loss_range=(0.0, 1.0))
    told = learner._replace(feedback=Feedback("told", lambda loss, action: loss[0]))
    values = jnp.where(jnp.arange(HORIZON)[:, None] % 3 == 0, 7.0, 0.25)
    plays, _, _, clipped = played(told, values, jr.key(0))
    same, _, _, none = played(told, jnp.minimum(values, 1.0), jr.key(0))
    np.testing.assert_array_equal(plays, same)
    assert (clipped, none) == (HORIZON // 3, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"calibration": "derived"}, "calibration must be one of single_change, batch_norm"),
        ({"calibration": "printed", "mechanism": mechanisms.kary}, "calibration: the printed"),
        ({"noise": "gaussian"}, "delta must be given"),
        ({"delta": 1e-6}, "delta must be left out"),
        ({"smoothing": 0.0}, "smoothing must be"),
        ({"rate": -1.0}, "rate must be"),
        ({"loss_range": "any"}, "loss_range must be one of"),
    ],
)  # fmt: skip
def test_bad_arguments(changes, message):
    arguments = {"domain": domains.ball(2), "epsilon": 1.0, **changes}
    with pytest.raises((ValueError, TypeError), match=message):
        make(100, **arguments)
