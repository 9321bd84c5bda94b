"""EXP3_tau: the constants of its accounting, their inverses, and the play of batches."""

import numpy as np
import pytest
from jax import random as jr

from dpjax.learners import exp3_minibatch
from dpjax.learners._exp3_minibatch import derived_tau, printed_tau
from tests.zcdp import least_epsilon

EPSILONS = np.float32(10.0) ** np.arange(-6, 7, dtype=np.float32)

# The published run: K = 4 arms, T = 2^18 rounds, delta = T^-2. Its tau is (T / (7 K ln K))^(1/3).
HORIZON, ARMS, DELTA = 2**18, 4, 2.0**-36
TAU = (HORIZON / (28 * np.log(4))) ** (1 / 3)


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


def test_a_fractional_tau_is_rounded_down_and_cut_at_the_horizon():
    """tau = 18.9 plays and declares batches of 18 rounds; a tau above T plays T."""
    for tau, rounds in [(18.9, 18), (1.0, 1), (99.5, 99), (1e12, 100), (np.inf, 100)]:
        learner = exp3_minibatch(100, 3, tau=tau)
        assert learner.init(jr.key(0))[1].rounds == rounds
        assert learner.privacy.epsilon == exp3_minibatch(100, 3, tau=rounds).privacy.epsilon
