"""PRIVATEBANDIT: its schedule, sensitivity, calibrations, certificate, and bad input."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, learners, mechanisms
from dpjax.learners._projection_free import batch_norms, printed_scale, step_size
from dpjax.learners.parts.one_point import directions
from tests.learners.replay import play, worlds


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
    """Without noise, against a transcription of the paper's lines.

    The losses of the last two batches are not summed, so they change neither points nor sums.
    """
    domain = DOMAINS[name]
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


def test_printed_and_single_change_scales():
    """Against numbers worked out by hand, to their two digits, at L = D = epsilon = 1."""
    asked = partial(
        scale_of, horizon=10**6, domain=sphere(100), epsilon=1.0, loss_range="nonnegative"
    )
    gaussian = {"noise": "gaussian", "delta": 1 / (100 + 10**6)}
    assert asked(calibration="printed")[1] == pytest.approx(1.4e6, rel=0.06)
    assert asked(calibration="printed", **gaussian)[1] == pytest.approx(2.1e6, rel=0.06)
    releases, scale = asked()
    assert releases == 999 and scale == pytest.approx(4.2e4, rel=0.06)
    assert asked(loss_range="signed")[1] == pytest.approx(2 * scale)


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


def test_the_schedule_of_defaults():
    """D = 2, n = 2, T = 10^4: zeta = 2 sqrt(2) / 10; the rate is close to the printed one."""
    learner = make(100**2, domains.ball(2), epsilon=1.0)
    state, _ = learner.init(jr.key(0))
    assert float(learner.report(state).reach) == pytest.approx(0.2 * 2**0.5)
    # The default range is signed, and reaches as far as plays.
    assert learner.privacy.loss_range == pytest.approx((-2.0 - 0.2 * 2**0.5, 2.0 + 0.2 * 2**0.5))
    n, b, zeta = 4000, 10**8, 2.0 * 4000**0.5 / 1e4
    printed = 2.0 / (1e12 * n**0.5)
    assert float(step_size(b, b, 2.0, n, zeta, 2.0, 1.0)) == pytest.approx(printed, rel=0.001)


# --- the points ---


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
