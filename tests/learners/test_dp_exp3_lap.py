"""DP-EXP3-Lap: EXP3 on Laplace noise, its rejections, and its threshold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import noise
from dpjax.combinators import laplace_feedback
from dpjax.learners import dp_exp3_lap, exp3
from tests.play import play_table

ARMS = 3


def losses(horizon):
    return jr.uniform(jr.key(11), (horizon, ARMS))


def test_it_is_laplace_feedback_over_exp3():
    """States and arms, bit for bit, with threshold ln T / epsilon and the null loss of gains."""
    # Calibrated for 8 rounds but played for 200, so that rounds are rejected.
    threshold = jnp.log(jnp.float32(8)) / 3.0
    composed = laplace_feedback(exp3(8, ARMS), epsilon=3.0, threshold=threshold, null_loss=1.0)
    ours, theirs = (
        play_table(learner, losses(200), jr.key(0))
        for learner in (dp_exp3_lap(8, ARMS, epsilon=3.0), composed)
    )
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert ours.last.rejected > 0


def test_three_rounds_by_hand():
    """200 games equal a float64 loop; at b = ln 4 / epsilon many rounds are rejected."""
    horizon, epsilon = 4, 0.8
    threshold = np.log(horizon) / epsilon
    learner = dp_exp3_lap(horizon, ARMS, epsilon=epsilon)
    mixing = min(1.0, np.sqrt(ARMS * np.log(ARMS) / ((np.e - 1) * horizon)))

    def game(key):
        # The standard Laplace draw and the uniform draw of each round.
        keys = [jr.split(jr.fold_in(key, t)) for t in range(1, 4)]
        draws = jnp.stack([noise.laplace(noise_key, 0.0, 1.0) for noise_key, _ in keys])
        uniforms = jnp.stack([jr.uniform(base_key) for _, base_key in keys])
        game = play_table(learner, losses(3), key)
        return (game.actions, game.states), draws, uniforms

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(2), 200))
    (all_arms, states), all_draws, all_uniforms = jax.tree.map(np.asarray, games)
    table = np.asarray(losses(3), np.float64)
    for arms, exponents, rejected, draws, uniforms in zip(
        all_arms, states.base.exponents, states.rejected, all_draws, all_uniforms, strict=True
    ):
        estimates, count, p, arm = np.zeros(ARMS), 0, np.full(ARMS, 1 / ARMS), arms[0]
        for t in range(3):
            noisy_gain = 1 - (table[t, arm] + draws[t] / epsilon)
            if -threshold <= noisy_gain <= threshold + 1:
                estimates[arm] += (noisy_gain + threshold) / (2 * threshold + 1) / p[arm]
            else:
                count += 1
            weights = np.exp(mixing * estimates / ARMS)
            p = (1 - mixing) * weights / weights.sum() + mixing / ARMS
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniforms[t], side="right"))
            assert (arms[t + 1], rejected[t + 1]) == (arm, count)
            theta = mixing * estimates / ARMS
            np.testing.assert_allclose(exponents[t + 1], theta - theta.max(), atol=1e-6)
    # Each of the three rounds was accepted in some games and rejected in others.
    rejections = np.diff(states.rejected, axis=1).sum(axis=0)
    assert (rejections > 0).all() and (rejections < 200).all()


@pytest.mark.parametrize(("epsilon", "threshold"), [(243.29193, 0.0512826), (1.0, 12.4766)])
def test_threshold(monkeypatch, epsilon, threshold):
    """b = ln T / epsilon at T = 2^18: noisy losses in [-b, 1 + b] are accepted; the rest count."""
    exact = np.log(2.0**18) / epsilon
    assert exact == pytest.approx(threshold, rel=1e-5)
    learner = dp_exp3_lap(2**18, 4, epsilon=epsilon)
    state, _ = learner.init(jr.key(0))
    # Float32 rounds 1 + b and b to relative 1.2e-7; 1e-5 b is above both errors.
    for noisy, count in (
        (-exact * (1 - 1e-5), 0), (-exact * (1 + 1e-5), 1),
        (1 + exact * (1 - 1e-5), 1), (1 + exact * (1 + 1e-5), 2),
    ):  # fmt: skip
        monkeypatch.setattr(noise, "laplace", lambda key, x, scale, y=noisy: jnp.float32(y))
        state, _ = learner.step(state, jr.key(1), jnp.float32(0.5))
        assert learner.report(state).rejected == count
