"""DP-EXP3-Lap: EXP3 on Laplace noise, its rejections, and its calibration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.combinators import laplace_feedback
from dpjax.core import Learner, Privacy
from dpjax.feedback import bandit, unclipped
from dpjax.learners import dp_exp3_lap, exp3
from tests.play import play_table, step

ARMS = 3
# The law of one round, at a threshold b with many rejections: b = ln 4 / epsilon.
HORIZON, EPSILON = 4, 0.8
THRESHOLD = np.log(4) / EPSILON
TRIALS = 100_000


def losses(horizon):
    return jr.uniform(jr.key(11), (horizon, ARMS))


def trajectory(learner, horizon, key, round_key=lambda key: key):
    """All states and arms of a learner on the table; ``round_key`` maps each round's key."""
    step = lambda state, key, loss: learner.step(state, round_key(key), loss)  # noqa: E731
    game = play_table(learner._replace(step=step), losses(horizon), key)
    return game.states, game.actions


def assert_same_bits(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_it_is_laplace_feedback_over_exp3():
    """States and arms, bit for bit, with threshold ln T / epsilon and the null loss of gains."""
    # Calibrated for 8 rounds but played for 200, so that rounds are rejected.
    horizon, rounds, epsilon, key = 8, 200, 3.0, jr.key(0)
    threshold = jnp.log(jnp.float32(horizon)) / epsilon
    states, arms = trajectory(dp_exp3_lap(horizon, ARMS, epsilon=epsilon), rounds, key)

    def composed(null_loss):
        learner = laplace_feedback(
            exp3(horizon, ARMS), epsilon=epsilon, threshold=threshold, null_loss=null_loss
        )
        return trajectory(learner, rounds, key)

    assert_same_bits((states, arms), composed(1.0))
    assert states.rejected[-1] > 0
    # The null loss matters: with that of loss estimates, the game differs.
    other = composed(0.0)[0].base.exponents
    assert (np.asarray(other) != np.asarray(states.base.exponents)).any()


def test_at_infinite_epsilon_it_is_exp3():
    """Step by step under the same inner key; no round is rejected."""
    horizon = 200
    private = trajectory(dp_exp3_lap(horizon, ARMS, epsilon=jnp.inf), horizon, jr.key(1))
    # laplace_feedback splits a round's key into one for the noise and one for the base.
    plain = trajectory(exp3(horizon, ARMS), horizon, jr.key(1), lambda key: jr.split(key)[1])
    states, arms = private
    assert_same_bits((states.base, arms), plain)
    assert states.rejected[-1] == 0
    assert len(np.unique(arms)) == ARMS


def test_three_rounds_by_hand():
    """200 games equal a float64 loop, with accepted and rejected rounds."""
    learner = dp_exp3_lap(HORIZON, ARMS, epsilon=EPSILON)
    mixing = min(1.0, np.sqrt(ARMS * np.log(ARMS) / ((np.e - 1) * HORIZON)))
    rows = losses(3)

    def game(key):
        # The standard Laplace draw and the uniform draw of each round.
        keys = [jr.split(jr.fold_in(key, t)) for t in range(1, 4)]
        draws = jnp.stack([noise.laplace(noise_key, 0.0, 1.0) for noise_key, _ in keys])
        uniforms = jnp.stack([jr.uniform(base_key) for _, base_key in keys])
        game = play_table(learner, rows, key)
        return (game.actions, game.states), draws, uniforms

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(2), 200))
    (all_arms, states), all_draws, all_uniforms = jax.tree.map(np.asarray, games)
    table = np.asarray(rows, np.float64)
    for arms, exponents, rejected, draws, uniforms in zip(
        all_arms, states.base.exponents, states.rejected, all_draws, all_uniforms, strict=True
    ):
        estimates, count, p, arm = np.zeros(ARMS), 0, np.full(ARMS, 1 / ARMS), arms[0]
        for t in range(3):
            noisy_gain = 1 - (table[t, arm] + draws[t] / EPSILON)
            if -THRESHOLD <= noisy_gain <= THRESHOLD + 1:
                estimates[arm] += (noisy_gain + THRESHOLD) / (2 * THRESHOLD + 1) / p[arm]
            else:
                count += 1
            weights = np.exp(mixing * estimates / ARMS)
            p = (1 - mixing) * weights / weights.sum() + mixing / ARMS
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniforms[t], side="right"))
            assert arms[t + 1] == arm
            assert rejected[t + 1] == count
            theta = mixing * estimates / ARMS
            np.testing.assert_allclose(exponents[t + 1], theta - theta.max(), atol=1e-6)
            if rejected[t + 1] > rejected[t]:
                np.testing.assert_array_equal(exponents[t + 1], exponents[t])
    # Each of the three rounds was accepted in some games and rejected in others.
    assert (np.diff(states.rejected, axis=1).sum(axis=0) > 0).all()
    assert (np.diff(states.rejected, axis=1).sum(axis=0) < 200).all()


def rejecting(patch, value):
    """Makes the Laplace draw release ``value`` for any loss."""
    patch.setattr(noise, "laplace", lambda key, loss, scale: jnp.float32(value))


def test_a_rejected_round_redraws_the_arm_from_the_same_law(monkeypatch):
    """EXP3's exponents do not change, and the arms keep their law (chi-square)."""
    learner = dp_exp3_lap(100, ARMS, epsilon=1.0)
    state, _ = learner.init(jr.key(0))
    exponents = jnp.array([-1.0, 0.0, -0.5])
    state = state._replace(base=state.base._replace(exponents=exponents))
    rejecting(monkeypatch, 1e3)

    def reject(key):
        return learner.step(state, key, jnp.float32(0.5))

    after, arms = jax.jit(jax.vmap(reject))(jr.split(jr.key(3), 20_000))
    assert (after.rejected == 1).all()
    assert (np.asarray(after.base.exponents) == np.asarray(exponents)).all()
    mixing = np.sqrt(ARMS * np.log(ARMS) / ((np.e - 1) * 100))
    weights = np.exp([-1.0, 0.0, -0.5])
    p = (1 - mixing) * weights / weights.sum() + mixing / ARMS
    assert stats.chisquare(np.bincount(arms, minlength=ARMS), 20_000 * p).pvalue > 1e-3


@pytest.fixture(scope="module")
def one_round():
    """Rejections and inputs of the base, for losses 1/2 and 0, by multiple of the noise scale.

    The base records its inputs. {scale: (rejected (2, n), fed (2, n))}, with equal thresholds.
    """

    def keep(state, key, loss):
        del state, key
        return loss, jnp.zeros((), jnp.int32)

    base = Learner(
        lambda key: (jnp.zeros(()), jnp.zeros((), jnp.int32)),
        keep,
        bandit,
        None,
        1,
        Privacy(),
        clip=unclipped,
    )

    def play(key, epsilon, loss):
        learner = laplace_feedback(base, epsilon=epsilon, threshold=THRESHOLD, null_loss=-1.0)
        state, _ = learner.step(learner.init(key)[0], key, loss)
        return state.rejected, state.base

    over_losses = jax.vmap(jax.vmap(play, (0, None, None)), (None, None, 0))
    over_scales = jax.jit(jax.vmap(over_losses, (None, 0, None)))
    scales = np.array([1.0, 0.5])
    keys = jr.split(jr.key(4), TRIALS)
    rejected, fed = over_scales(keys, jnp.float32(EPSILON) / scales.astype(np.float32), LOSSES)
    return dict(zip(scales, zip(np.asarray(rejected), np.asarray(fed), strict=True), strict=True))


LOSSES = np.array([0.5, 0.0], np.float32)


def rejection_z(rejected, loss):
    """z of the rejected fraction against the Laplace tails below -b and above 1 + b."""
    tails = np.exp(-EPSILON * (THRESHOLD + loss)), np.exp(-EPSILON * (1 + THRESHOLD - loss))
    p = sum(tails) / 2
    return (rejected.mean() - p) / np.sqrt(p * (1 - p) / len(rejected))


@pytest.mark.parametrize("case", [0, 1])
def test_rejection_rate(one_round, case):
    """The rejected fraction is the exact Laplace probability; half the noise is rejected."""
    assert abs(rejection_z(one_round[1.0][0][case], LOSSES[case])) < 4
    assert abs(rejection_z(one_round[0.5][0][case], LOSSES[case])) > 20


def fed_pvalue(rejected, fed, loss):
    """Kolmogorov-Smirnov test of the accepted noisy losses against the truncated Laplace law."""
    noisy = fed[rejected == 0].astype(np.float64) * (2 * THRESHOLD + 1) - THRESHOLD
    law = stats.laplace(loss, 1 / EPSILON)
    low, high = law.cdf(-THRESHOLD), law.cdf(1 + THRESHOLD)
    return stats.kstest(noisy, lambda y: np.clip((law.cdf(y) - low) / (high - low), 0, 1)).pvalue


@pytest.mark.parametrize("case", [0, 1])
def test_law_of_the_fed_value(one_round, case):
    """If accepted, it is a truncated Laplace draw rescaled to [0, 1]; half the noise fails."""
    rejected, fed = one_round[1.0][0][case], one_round[1.0][1][case]
    accepted = fed[rejected == 0]
    # An accepted value is in [0, 1] up to one rounding of the quotient.
    assert accepted.min() >= 0.0 and accepted.max() <= 1.0 + 1e-7
    assert (fed[rejected == 1] == -1.0).all()
    assert fed_pvalue(rejected, fed, LOSSES[case]) > 1e-3
    assert fed_pvalue(one_round[0.5][0][case], one_round[0.5][1][case], LOSSES[case]) < 1e-6


def released(patch, epsilon, loss):
    """The value and the scale passed to the Laplace draw."""
    asked = []

    def record(key, value, scale):
        asked.append((float(value), float(scale)))
        return value

    patch.setattr(noise, "laplace", record)
    learner = dp_exp3_lap(1, 2, epsilon=epsilon)
    step(learner, learner.init(jr.key(0))[0], jr.key(1), jnp.float32(loss))
    ((value, scale),) = asked
    return value, scale


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 3.0, 243.29193])
def test_log_density_ratio_of_an_observed_loss(monkeypatch, epsilon):
    """Losses 0 and 1 release densities whose log-ratio is at most epsilon, and attains it.

    The scale is exactly 1 / epsilon; half of it exceeds epsilon. Losses outside [0, 1] are clipped
    before noise is added, so they do no worse.
    """
    zero, scale = released(monkeypatch, epsilon, 0.0)
    one, _ = released(monkeypatch, epsilon, 1.0)
    assert scale == np.float32(1.0) / np.float32(epsilon)
    assert released(monkeypatch, epsilon, -5.0) == (zero, scale)
    assert released(monkeypatch, epsilon, 9.0) == (one, scale)
    grid = np.linspace(-20, 21, 4101)  # with 0 and 1; outside them the ratio is constant

    def largest(scale):
        return np.abs(np.abs(grid - one) - np.abs(grid - zero)).max() / scale

    # Rounding of the float32 scale, 2^-24.
    assert largest(scale) == pytest.approx(epsilon, rel=1.2e-7)
    assert largest(scale / 2) > 1.9 * epsilon


@pytest.mark.parametrize(("epsilon", "threshold"), [(243.29193, 0.0512826), (1.0, 12.4766)])
def test_threshold(monkeypatch, epsilon, threshold):
    """b = ln T / epsilon at T = 2^18: noisy losses in [-b, 1 + b] are accepted and rescaled."""
    assert np.log(2.0**18) / epsilon == pytest.approx(threshold, rel=1e-5)
    exact = np.log(2.0**18) / epsilon
    learner = dp_exp3_lap(2**18, 4, epsilon=epsilon)
    state, _ = learner.init(jr.key(0))

    def is_rejected(noisy):
        rejecting(monkeypatch, noisy)
        return bool(learner.step(state, jr.key(1), jnp.float32(0.5))[0].rejected)

    # Float32 rounds 1 + b and b to relative 1.2e-7; 1e-5 b is above both errors.
    assert not is_rejected(-exact * (1 - 1e-5)) and is_rejected(-exact * (1 + 1e-5))
    assert not is_rejected(1 + exact * (1 - 1e-5)) and is_rejected(1 + exact * (1 + 1e-5))


def test_report_counts_rejections(monkeypatch):
    learner = dp_exp3_lap(2**18, 3, epsilon=1.0)
    state, _ = learner.init(jr.key(0))
    for t, (noisy, loss) in enumerate([(0.5, 1.0), (-90.0, 0.5), (90.0, 0.0), (0.1, 1.0)]):
        rejecting(monkeypatch, noisy)
        state, _ = learner.step(state, jr.key(t), jnp.float32(loss))
    assert learner.report(state).rejected == 2


def test_declared_privacy():
    """Pure epsilon as requested, local, for one replaced round."""
    for epsilon in (0.1, 1.0, jnp.inf):
        privacy = dp_exp3_lap(64, 3, epsilon=epsilon).privacy
        assert (privacy.epsilon, privacy.delta) == (epsilon, 0.0)
        assert np.isnan(privacy.rho)
        assert (privacy.model, privacy.neighbours, privacy.unit) == ("local", "replace", "round")
        assert privacy.loss_range == (0.0, 1.0)
        assert privacy.released == "actions 1..T"


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_bad_epsilon_is_named(epsilon):
    """Zero, negative and NaN are refused by name."""
    with pytest.raises(ValueError, match=r"\bepsilon\b"):
        dp_exp3_lap(8, 3, epsilon=epsilon)


@pytest.mark.parametrize(("horizon", "arms", "name"), [(0, 3, "horizon"), (8, 1, "arms")])
def test_bad_sizes_are_named(horizon, arms, name):
    """A game without rounds or without a choice is refused by name."""
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        dp_exp3_lap(horizon, arms, epsilon=1.0)
