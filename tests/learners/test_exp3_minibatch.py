"""EXP3_tau: the constants of its accounting, their inverses, and the play of batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import exp3_minibatch
from dpjax.learners._exp3_minibatch import (
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


def test_constants_of_the_published_run():
    """Batches of 18.9020 rounds, and 28 K ln K + sqrt(112 K ln K ln T) = 155.26 + 88.03."""
    assert pytest.approx(18.9020, abs=5e-5) == TAU
    assert float(switching_cost_tau(HORIZON, ARMS)) == pytest.approx(TAU, rel=1e-6)
    first, second = 28 * 4 * np.log(4), np.sqrt(112 * 4 * np.log(4) * np.log(HORIZON))
    value = float(printed_epsilon(HORIZON, TAU, DELTA))
    assert value == pytest.approx(first + second, rel=1e-6)
    assert value == pytest.approx(243.29193, rel=1e-6)
    # 18.9 is rounded up.
    published = exp3_minibatch(HORIZON, ARMS, epsilon=value, calibration="printed")
    assert published.init(jr.key(0))[1].rounds == 19


@pytest.mark.parametrize(("horizon", "delta"), [(64, 1e-3), (HORIZON, DELTA), (10**6, 1e-9)])
def test_tau_inverts_its_epsilon(horizon, delta):
    """In float64, from 1e-6 to 1e6; tau is 0 at infinity, and the derived one is smaller."""
    printed, derived = (
        np.array([float(solve(horizon, e, delta)) for e in EPSILONS])
        for solve in (printed_tau, derived_tau)
    )
    # tau is exact to a few 2^-24, its cube to three times as much.
    np.testing.assert_allclose(printed_by_hand(horizon, printed, delta), EPSILONS, rtol=1e-5)
    exact = [least_epsilon(rho, delta) for rho in horizon / (8 * derived**3)]
    np.testing.assert_allclose(exact, EPSILONS, rtol=1e-5, atol=2e-6)
    assert printed_tau(horizon, np.inf, delta) == derived_tau(horizon, np.inf, delta) == 0.0
    assert (derived < printed).all()


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


def test_batches_by_hand():
    """100 games equal a float64 loop that plays each arm for 5 rounds and feeds the averages.

    23 rounds make four batches and a cut fifth, which is played but not reported.
    """
    horizon, tau, arms = 23, 5, 3
    losses = jr.uniform(jr.key(12), (horizon, arms))
    learner = exp3_minibatch(horizon, arms, tau=tau)

    def game(key):
        played = play_table(learner, losses, key)
        uniforms = jnp.stack([jr.uniform(jr.fold_in(key, t)) for t in range(0, horizon, tau)])
        return played.actions[:-1], played.states.learner.exponents[1:], uniforms

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(6), 100))
    all_played, all_exponents, all_uniforms = jax.tree.map(np.asarray, games)
    rows = np.asarray(losses, np.float64)
    mixing = min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * 5)))  # for 5 batches
    for played, exponents, uniforms in zip(all_played, all_exponents, all_uniforms, strict=True):
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
    changes = (np.diff(all_exponents, axis=1) != 0).any(axis=(0, 2))
    np.testing.assert_array_equal(np.flatnonzero(changes) + 1, [4, 9, 14, 19])


def test_a_fractional_tau_is_rounded_down_and_cut_at_the_horizon():
    """tau = 18.9 plays and declares batches of 18 rounds; a tau above T plays T."""
    for tau, rounds in [(18.9, 18), (1.0, 1), (99.5, 99), (1e12, 100), (np.inf, 100)]:
        learner = exp3_minibatch(100, 3, tau=tau)
        assert learner.init(jr.key(0))[1].rounds == rounds
        assert learner.privacy.epsilon == exp3_minibatch(100, 3, tau=rounds).privacy.epsilon
