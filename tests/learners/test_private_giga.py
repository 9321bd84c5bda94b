"""The noisy output gradient method: its hidden sensitivity, and the noise for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, learners, noise, privacy
from tests.play import play_table

HORIZON, ALPHA = 20, 0.4
DOMAINS = {"ball": domains.ball(3, 50.0), "cube": domains.cube(3), "simplex": domains.simplex(3)}


def hidden_point(state, domain):
    """x_(t+1) from t (x_(t+1) - c)."""
    return domain.centre.astype(np.float32) + state.sum.high / state.round.astype(jnp.float32)


def hidden_points(game, domain):
    """The hidden points after each round of a game, (T, d)."""
    after = jax.tree.map(lambda leaf: leaf[1:], game.states)
    return jax.vmap(lambda state: hidden_point(state, domain))(after)


def hidden(name, losses):
    """The hidden points after each round, (T, d)."""
    learner = learners.private_giga(
        HORIZON, DOMAINS[name], epsilon=np.inf, delta=1e-6, strong_convexity=ALPHA
    )
    return hidden_points(play_table(learner, losses, jr.key(0)), DOMAINS[name])


@pytest.mark.parametrize("name", DOMAINS)
def test_a_changed_round_moves_the_hidden_point_by_at_most_the_sensitivity_over_t(name):
    """Delta_2 / (alpha t) after round t, for 300 pairs; attained away from the boundary."""
    losses = DOMAINS[name].losses
    keys = jr.split(jr.key(1), 300)

    def pair(key):
        a, b, c = jr.split(key, 3)
        sequence = jax.vmap(losses.maximizer)(jr.normal(a, (HORIZON, 3)))
        direction = jr.normal(b, (3,))
        t = jr.randint(c, (), 0, HORIZON)
        rows = (jnp.arange(HORIZON) == t)[:, None]
        first = jnp.where(rows, losses.maximizer(direction)[None], sequence)
        second = jnp.where(rows, losses.maximizer(-direction)[None], sequence)
        moved = hidden(name, first) - hidden(name, second)
        return jnp.sqrt(jnp.sum(moved**2, axis=1))

    moved = np.asarray(jax.jit(jax.vmap(pair))(keys))
    allowed = losses.diameters[1] / (ALPHA * np.arange(1, HORIZON + 1))
    assert (moved <= allowed * (1 + 1e-4) + 1e-5).all()
    if name == "ball":
        assert (moved.max(axis=0) > 0.99 * allowed).all()  # less noise would not suffice


def test_the_outputs_compose_to_the_declared_mu():
    """The noise of each of T - 1 outputs by KS, whose (sensitivity / noise)^2 sums to mu^2."""
    epsilon, delta = 2.0, 1e-6
    wide = domains.ball(3, 1e6)
    learner = learners.private_giga(
        HORIZON, wide, epsilon=epsilon, delta=delta, strong_convexity=ALPHA
    )

    def shown(key):
        game = play_table(learner, jnp.zeros((HORIZON - 1, 3)), key)
        return game.actions[1:] - hidden_points(game, wide)

    drawn = np.asarray(jax.jit(jax.vmap(shown))(jr.split(jr.key(2), 3000)))
    mu = 1 / float(privacy.gaussian_inverse_mu(epsilon, delta))
    sensitivity = 2.0 / (ALPHA * np.arange(1, HORIZON))
    scale = sensitivity * np.sqrt(HORIZON - 1) / mu
    for t in (0, 5, 18):
        assert stats.kstest(drawn[:, t, 0] / scale[t], "norm").pvalue > 1e-3
    # Of 171 000 draws; one output fewer has 2.7 % less noise.
    assert (drawn / scale[:, None]).std() == pytest.approx(1.0, abs=0.008)
    assert learner.privacy.rho == pytest.approx(mu**2 / 2, rel=1e-5)


def test_without_privacy_it_is_the_mean_of_the_losses():
    """x_(t+1) = -mean(l_1 .. l_t) / alpha away from the boundary, with no noise."""
    losses = jax.vmap(domains.ball_losses(3).maximizer)(jr.normal(jr.key(4), (HORIZON, 3)))
    points = hidden("ball", losses)
    means = np.cumsum(np.asarray(losses, np.float64), axis=0) / np.arange(1, HORIZON + 1)[:, None]
    np.testing.assert_allclose(points, -means / ALPHA, atol=1e-5)


@pytest.mark.parametrize(
    ("domain", "limit"),
    [
        (domains.simplex(5), 1_677_721), (domains.ball(5), 645_277), (domains.cube(5), 2_374_892),
        (domains.l1_ball(5), 1_677_721), (domains.fantope(3, 1), 724),
    ],
)  # fmt: skip
def test_horizons_that_float32_does_not_carry_are_refused(domain, limit):
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
def test_rounding_does_not_add_up(monkeypatch, domain, horizon, strong_convexity):
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
