"""FTRL: the paper's key lemma, its bound, plain FTRL without noise, and the effect of noise."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, environments, learners, mechanisms, simulate, sweep
from tests.play import play_table

HORIZON = 64
TREE = partial(mechanisms.tree, identical_law=True)
DOMAINS = {"simplex": domains.simplex(3), "ball": domains.ball(3), "cube": domains.cube(3)}


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


def play(learner, losses, key):
    """The points of a learner on a table of losses, (T, d)."""
    return play_table(learner, losses, key).actions[:-1]


@cache
def table(name):
    """Losses from a domain's own set, with one dominant direction."""
    losses = DOMAINS[name].losses
    directions = jr.normal(jr.key(3), (HORIZON, 3)) + jnp.array([0.5, 0.0, -0.5])[None]
    return jax.vmap(losses.maximizer)(directions)


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [("simplex", "tree"), ("cube", "tree"), *(("ball", name) for name in mechanisms.__all__)],
)
def test_without_privacy_it_is_ftrl(name, mechanism):
    """Exponential weights and lazy projections, in float64; the default rate is explicit."""
    rate = {"simplex": np.sqrt(8 * np.log(3) / 64), "ball": 2 / 8, "cube": np.sqrt(4 * 3 / 64)}
    learner = learners.ftrl(
        HORIZON, DOMAINS[name], epsilon=np.inf, mechanism=getattr(mechanisms, mechanism)
    )
    expected = numpy_ftrl(name, np.asarray(table(name), np.float64), rate[name])
    np.testing.assert_allclose(play(learner, table(name), jr.key(0)), expected, atol=2e-6)
    assert learner.privacy.epsilon == np.inf


def one_shot_regrets(name, scale, levels, trials):
    """Regrets if Z, a sum of Laplace draws, is drawn only once: argmin with L + Z."""
    losses = np.asarray(table(name), np.float64)
    rate = float(np.sqrt(DOMAINS[name].regularizer.range / HORIZON))
    rate /= np.sqrt(DOMAINS[name].regularizer.stability(DOMAINS[name].losses))
    sums = jnp.concatenate([jnp.zeros((1, 3)), jnp.cumsum(table(name), axis=0)])[:-1]

    def one(key):
        noise = scale * jr.laplace(key, (levels, 3)).sum(axis=0)
        points = jax.vmap(lambda s: DOMAINS[name].regularizer.argmin(s + noise, rate))(sums)
        return jnp.sum(points * losses.astype(np.float32))

    suffered = jax.jit(jax.vmap(one))(jr.split(jr.key(11), trials))
    total = jnp.asarray(losses.sum(axis=0), jnp.float32)
    return np.asarray(suffered) - float(total @ DOMAINS[name].minimizer(total))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "cube"])
def test_expected_regret_is_that_of_noise_drawn_once(name):
    """The paper's key lemma, with one noise law for all rounds: two means of 40 000 trials each.

    Half the draws give another mean: at least 8 standard errors away (on the cube).
    """
    domain, trials, epsilon = DOMAINS[name], 40_000, 8.0
    learner = learners.ftrl(HORIZON, domain, epsilon=epsilon, mechanism=TREE)
    environment = environments.linear_losses(domain, table(name))

    def regret(key):
        return simulate(learner, environment, key, checkpoints=1).regret[-1]

    ours = np.asarray(jax.jit(jax.vmap(regret))(jr.split(jr.key(5), trials)))
    scale = 6 * domain.losses.diameters[0] / epsilon
    once = one_shot_regrets(name, scale, 6, trials)
    error = np.hypot(stats.sem(ours), stats.sem(once))
    assert abs(ours.mean() - once.mean()) < 4 * error
    fewer = one_shot_regrets(name, scale, 3, trials)
    assert abs(ours.mean() - fewer.mean()) > 6 * error


@pytest.mark.slow
@pytest.mark.parametrize("name", DOMAINS)
def test_the_regret_bound_holds_against_oblivious_losses(name):
    """2 sqrt(D_R S T) + E[max <Z, x> - min <Z, x>], for the mean of 400 trials."""
    epsilons = [0.5, 4.0, np.inf]
    for kind in ("iid", "switching"):

        def game(epsilon, kind=kind):
            learner = learners.ftrl(HORIZON, DOMAINS[name], epsilon=epsilon, mechanism=TREE)
            return learner, environments.linear_losses(DOMAINS[name], kind, period=16)

        points = np.array(epsilons, np.float32)
        found = sweep(game, points, 400, jr.key(2), checkpoints=1, progress=False)
        regret = found.regret[..., -1]
        losses = DOMAINS[name].losses
        plain = 2 * np.sqrt(
            DOMAINS[name].regularizer.range * DOMAINS[name].regularizer.stability(losses) * HORIZON
        )
        draws = np.random.default_rng(0).laplace(size=(4000, 6, 3)).sum(axis=1)
        spread = {
            "simplex": np.ptp(draws, axis=1),
            "ball": 2 * np.linalg.norm(draws, axis=1),
            "cube": 2 * np.abs(draws).sum(axis=1),
        }[name].mean()
        scale = 6 * losses.diameters[0] / np.array(epsilons)
        means, errors = regret.mean(axis=1), stats.sem(regret, axis=1)
        assert (means + 4 * errors < plain + scale * spread).all()


def test_printed_scale():
    """|Y|_1 log2 T / epsilon: half of ours for symmetric losses at T = 64, ours for [0, 1]."""
    domain = domains.simplex(3)._replace(losses=domains.box_losses(3))
    printed = learners.ftrl(64, domain, epsilon=1.0, calibration="printed")
    assert printed.privacy.calibration == "printed"

    def spread(learner):
        keys = jr.split(jr.key(0), 2000)
        step = jax.jit(
            jax.vmap(lambda key: learner.step(learner.init(key)[0], key, jnp.zeros(3))[0])
        )
        return np.asarray(step(keys).noise.walk).std()

    derived = learners.ftrl(64, domain, epsilon=1.0)
    assert spread(derived) / spread(printed) == pytest.approx(2.0, rel=0.05)
