"""EXP3_tau: the constants of its accounting, their inverses, and the play of batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import every_round, privacy
from dpjax.learners import exp3, exp3_minibatch
from dpjax.learners.exp3_minibatch import (
    derived_tau,
    printed_epsilon,
    printed_tau,
    switching_cost_tau,
)
from tests.play import play_table
from tests.zcdp import least_epsilon

EPSILONS = np.float32(10.0) ** np.arange(-6, 7, dtype=np.float32)

# The published run: K = 4 arms, T = 2^18 rounds, delta = T^-2. Its tau is (T / (7 K ln K))^(1/3).
HORIZON, ARMS, DELTA = 2**18, 4, 2.0**-36
TAU = (HORIZON / (28 * np.log(4))) ** (1 / 3)


def test_switching_cost_tau():
    """The batch length of the corollary on switching costs: 18.9020 in the published run."""
    assert pytest.approx(18.9020, abs=5e-5) == TAU
    assert float(switching_cost_tau(HORIZON, ARMS)) == pytest.approx(TAU, rel=1e-6)


def test_printed_epsilon_of_the_published_run():
    """28 K ln K + sqrt(112 K ln K ln T) = 155.26 + 88.03, which is not a small epsilon."""
    first, second = 28 * 4 * np.log(4), np.sqrt(112 * 4 * np.log(4) * np.log(HORIZON))
    assert first == pytest.approx(155.26497, abs=5e-6)
    assert second == pytest.approx(88.02696, abs=5e-6)
    # A dozen float32 operations, each within 2^-24 = 6e-8.
    value = float(printed_epsilon(HORIZON, TAU, DELTA))
    assert value == pytest.approx(first + second, rel=1e-6)
    assert value == pytest.approx(243.29193, rel=1e-6)


def test_the_published_run_accounted_again():
    """The same batches with 1 / tau-DP draws instead of 2 / tau, at the unrounded tau."""
    batches = HORIZON / TAU
    two_terms = float(privacy.advanced_composition(batches, 1 / TAU, DELTA))
    assert two_terms == pytest.approx(82.830, abs=5e-4)
    # With a draw's expected loss e0 tanh(e0 / 2) instead of e0^2, as in Kairouz, Oh & Viswanath
    # 2015, Theorem 3.4.
    expected = batches / TAU * np.tanh(0.5 / TAU)
    spread = np.sqrt(2 * batches * np.log(1 / DELTA)) / TAU
    assert expected + spread == pytest.approx(63.417, abs=5e-4)
    rho = float(privacy.bounded_range_rho(1 / TAU, batches))
    assert rho == pytest.approx(HORIZON / (8 * TAU**3), rel=1e-6)
    assert float(privacy.zcdp_epsilon(rho, DELTA)) == pytest.approx(25.965, abs=5e-4)
    # The sum of the log-ratios: pure differential privacy.
    assert batches / TAU == pytest.approx(733.7, abs=0.05)


@pytest.mark.parametrize(("horizon", "delta"), [(64, 1e-3), (HORIZON, DELTA), (10**6, 1e-9)])
def test_printed_tau_inverts_printed_epsilon(horizon, delta):
    """From epsilon to tau and back, against float64, from 1e-6 to 1e6; 0 at infinity."""
    tau = np.array([float(printed_tau(horizon, e, delta)) for e in EPSILONS])
    ratio, log_term = horizon / tau**3, np.log(1 / delta)
    exact = 4 * ratio + np.sqrt(8 * log_term * ratio)
    # tau is exact to a few 2^-24, its cube to three times as much.
    np.testing.assert_allclose(exact, EPSILONS, rtol=1e-5)
    back = [float(printed_epsilon(horizon, t, delta)) for t in tau]
    np.testing.assert_allclose(back, EPSILONS, rtol=1e-4)
    assert printed_tau(horizon, np.inf, delta) == 0.0


@pytest.mark.parametrize(("horizon", "delta"), [(64, 1e-3), (HORIZON, DELTA), (10**6, 1e-9)])
def test_derived_tau_inverts_zcdp(horizon, delta):
    """T / tau batches of rho = 1 / (8 tau^2) have the requested epsilon; tau is 0 at infinity."""
    tau = np.array([float(derived_tau(horizon, e, delta)) for e in EPSILONS])
    rho = horizon / (8 * tau**3)
    exact = [least_epsilon(x, delta) for x in rho]
    np.testing.assert_allclose(exact, EPSILONS, rtol=1e-5, atol=2e-6)
    back = privacy.zcdp_epsilon(privacy.bounded_range_rho(1 / tau, horizon / tau), delta)
    np.testing.assert_allclose(back, EPSILONS, rtol=1e-4, atol=2e-6)
    assert derived_tau(horizon, np.inf, delta) == 0.0


def printed_by_hand(horizon, tau, delta):
    return 4 * horizon / tau**3 + np.sqrt(8 * np.log(1 / delta) * horizon / tau**3)


def declared_by_hand(horizon, arms, tau, delta):
    """(epsilon, rho) in float64 of ceil(T / tau) batches, the first of which sees no data."""
    batches = -(-horizon // tau)
    mixing = min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * batches)))
    cap = np.log((arms * (1 - mixing) + mixing) / mixing)
    rho = (batches - 1) * min(1 / tau, 2 * cap) ** 2 / 8
    pure = (batches - 1) * min(1 / tau, cap)
    return min(pure, least_epsilon(rho, delta)), rho


@pytest.mark.parametrize("calibration", ["derived", "printed"])
@pytest.mark.parametrize(("horizon", "arms"), [(1, 2), (100, 3), (HORIZON, ARMS)])
def test_declared_epsilon_is_at_most_the_one_asked_for(horizon, arms, calibration):
    """It equals float64 arithmetic at the integer tau; only a tau capped at T may exceed."""
    taus = []
    for epsilon in [1e-9, *EPSILONS.tolist(), np.inf]:
        learner = exp3_minibatch(horizon, arms, epsilon=epsilon, calibration=calibration)
        tau = int(learner.init(jr.key(0))[1].rounds)
        taus.append(tau)
        declared = learner.privacy
        delta = 1 / max(horizon, 2) ** 2
        exact, rho = declared_by_hand(horizon, arms, tau, delta)
        # atol: if gamma is 1, the cap is exactly 0.
        np.testing.assert_allclose(float(declared.epsilon), exact, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(float(declared.rho), rho, rtol=1e-5, atol=1e-12)
        assert declared.delta == delta
        if tau < horizon:
            assert float(declared.epsilon) <= epsilon * (1 + 1e-6)
        if calibration == "printed":
            stated = float(declared.paper_epsilon)
            assert stated == pytest.approx(printed_by_hand(horizon, tau, delta), rel=1e-5)
            assert tau == horizon or stated <= epsilon * (1 + 1e-6)
    assert taus[0] == horizon and taus[-1] == 1
    assert (np.diff(taus) <= 0).all()


def test_tau_is_rounded_up_from_the_accounting():
    """The integer tau is the ceiling of the solution for a given epsilon and delta."""
    for calibration, solve in [("derived", derived_tau), ("printed", printed_tau)]:
        for epsilon in (0.5, 3.0, 243.29193):
            learner = exp3_minibatch(
                HORIZON, ARMS, epsilon=epsilon, delta=1e-5, calibration=calibration
            )
            tau = int(learner.init(jr.key(0))[1].rounds)
            assert tau == np.ceil(float(solve(HORIZON, epsilon, 1e-5)))
            assert learner.privacy.delta == 1e-5
            assert learner.privacy.calibration == calibration
    # The published epsilon gives the published batches: 18.9 rounded up.
    published = exp3_minibatch(HORIZON, ARMS, epsilon=243.29193, calibration="printed")
    assert published.init(jr.key(0))[1].rounds == 19


def test_derived_is_tighter_than_printed():
    """At equal tau our epsilon is smaller than the paper's; at equal epsilon, our tau is."""
    for tau in (1, 5, 19, 300):
        derived, printed = (
            exp3_minibatch(HORIZON, ARMS, tau=tau, calibration=name).privacy
            for name in ("derived", "printed")
        )
        assert derived[:3] == printed[:3] and float(derived.rho) > 0
        assert float(printed.epsilon) < float(printed.paper_epsilon)
    for epsilon in (0.1, 1.0, 100.0):
        assert derived_tau(HORIZON, epsilon, DELTA) < printed_tau(HORIZON, epsilon, DELTA)


def table(horizon, arms=3):
    return jr.uniform(jr.key(12), (horizon, arms))


def trajectory(learner, losses, key):
    """Each round's arm, and EXP3's state after it."""
    game = play_table(learner, losses, key)
    states = jax.tree.map(lambda leaf: leaf[1:], game.states)
    return game.actions[:-1], getattr(states, "learner", states)


@pytest.mark.parametrize("arguments", [{"tau": 1}, {"epsilon": np.inf}])
def test_batches_of_one_round_are_exp3(arguments):
    """The same arms, probabilities and exponents under the same keys."""
    losses, key = table(150), jr.key(5)
    arms, states = trajectory(every_round(exp3_minibatch(150, 3, **arguments)), losses, key)
    plain_arms, plain_states = trajectory(exp3(150, 3), losses, key)
    np.testing.assert_array_equal(arms, plain_arms)
    np.testing.assert_array_equal(states.arm, plain_states.arm)
    # The two programs may be fused differently; 150 rounded sums of exponents of size 1.
    np.testing.assert_allclose(states.probability, plain_states.probability, rtol=1e-5)
    np.testing.assert_allclose(states.exponents, plain_states.exponents, atol=1e-5)
    assert len(np.unique(arms)) == 3


def test_batches_by_hand():
    """100 games equal a float64 loop that plays each arm for 5 rounds and feeds the averages.

    23 rounds make four batches and a cut fifth, which is played but not reported.
    """
    horizon, tau, arms = 23, 5, 3
    losses = table(horizon)
    learner = every_round(exp3_minibatch(horizon, arms, tau=tau))

    def game(key):
        played, states = trajectory(learner, losses, key)
        uniforms = jnp.stack([jr.uniform(jr.fold_in(key, t)) for t in range(0, horizon, tau)])
        return played, states, uniforms

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(6), 100))
    all_played, states, all_uniforms = jax.tree.map(np.asarray, games)
    rows = np.asarray(losses, np.float64)
    mixing = min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * 5)))  # for 5 batches
    for played, exponents, uniforms in zip(all_played, states.exponents, all_uniforms, strict=True):
        estimates = np.zeros(arms)
        for batch, start in enumerate(range(0, horizon, tau)):
            weights = np.exp(mixing * estimates / arms)
            p = (1 - mixing) * weights / weights.sum() + mixing / arms
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniforms[batch], side="right"))
            assert (played[start : start + tau] == arm).all()
            if start + tau <= horizon:
                estimates[arm] += (1 - rows[start : start + tau, arm]).mean() / p[arm]
            theta = mixing * estimates / arms
            # Known from the batch's last round on.
            after = exponents[min(start + tau, horizon) - 1]
            np.testing.assert_allclose(after, theta - theta.max(), atol=1e-6)
    # EXP3 is not updated within a batch, nor by the last one.
    changes = (np.diff(states.exponents, axis=1) != 0).any(axis=(0, 2))
    np.testing.assert_array_equal(np.flatnonzero(changes) + 1, [4, 9, 14, 19])


def test_losses_outside_the_range_are_clipped_before_they_are_averaged():
    """One extreme loss changes an average by at most 1 / tau: -5 acts as 0, and 9 as 1."""
    learner = every_round(exp3_minibatch(4, 3, tau=2))
    wild = jnp.array([[-5.0], [0.5], [9.0], [0.5]]) * jnp.ones((4, 3))
    arms, states = trajectory(learner, wild, jr.key(7))
    tame_arms, tame_states = trajectory(learner, jnp.clip(wild, 0.0, 1.0), jr.key(7))
    np.testing.assert_array_equal(arms, tame_arms)
    np.testing.assert_array_equal(states.exponents, tame_states.exponents)
    # Gains 1 and 1/2, average 3/4, at probability 1/3 and gamma / K.
    mixing = np.sqrt(3 * np.log(3) / ((np.e - 1) * 2))
    moved = float(states.exponents[1].max() - states.exponents[1].min())
    assert moved == pytest.approx(mixing / 3 * 0.75 * 3, rel=1e-6)


def test_a_fractional_tau_is_rounded_down_and_cut_at_the_horizon():
    """tau = 18.9 plays and declares batches of 18 rounds; a tau above T plays T."""
    for tau, rounds in [(18.9, 18), (1.0, 1), (99.5, 99), (1e12, 100), (np.inf, 100)]:
        learner = exp3_minibatch(100, 3, tau=tau)
        assert learner.init(jr.key(0))[1].rounds == rounds
        assert learner.privacy.epsilon == exp3_minibatch(100, 3, tau=rounds).privacy.epsilon


def test_a_single_batch_declares_nothing_lost():
    """epsilon = 1e-9 gives one batch of T rounds, whose only arm sees no data."""
    learner = exp3_minibatch(1000, 3, epsilon=1e-9)
    assert learner.init(jr.key(0))[1].rounds == 1000
    assert learner.privacy.epsilon == 0.0
    assert learner.privacy.rho == 0.0


def test_a_traced_epsilon_gives_the_same_batches():
    """Under jit and vmap, with epsilon and tau traced."""

    def rounds(epsilon):
        return exp3_minibatch(HORIZON, ARMS, epsilon=epsilon).init(jr.key(0))[1].rounds

    traced = jax.jit(jax.vmap(rounds))(EPSILONS)
    assert traced.dtype == jnp.int32
    np.testing.assert_array_equal(traced, [rounds(float(e)) for e in EPSILONS])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({}, "either epsilon or tau"),
        ({"epsilon": 1.0, "tau": 5}, "either epsilon or tau"),
        *[({"tau": value}, r"\btau\b") for value in (0.5, 0, -1, float("nan"))],
        *[({"epsilon": value}, r"\bepsilon\b") for value in (0.0, -1.0, float("nan"))],
        *[({"tau": 5, "delta": value}, r"\bdelta\b") for value in (0.0, 1.0, float("nan"))],
        ({"tau": 5, "calibration": "tight"}, r"\bcalibration\b"),
        ({"tau": 5, "horizon": 0}, r"\bhorizon\b"),
        ({"tau": 5, "arms": 1}, r"\barms\b"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    """The message names the wrong argument; exactly one of epsilon and tau is required."""
    arguments = {"horizon": 64, "arms": 3, **arguments}
    with pytest.raises(ValueError, match=name):
        exp3_minibatch(arguments.pop("horizon"), arguments.pop("arms"), **arguments)
