"""Bounds for stochastic arms: their order, other programs, and rejected arguments."""

import numpy as np
import pytest

from dpjax import bounds

HORIZON = 10**7


def test_divergence_spot_checks():
    """For x >= y, since gains are mirrored losses."""
    divergence = bounds.d_epsilon_divergence
    assert divergence(0.5, 0.25, 0.1) == pytest.approx(0.0240470, abs=5e-8)
    assert divergence(0.75, 0.25, 0.5) == pytest.approx(0.2247022, abs=5e-8)
    assert divergence(0.3, 0.25, 1.0) == pytest.approx(0.0064015, abs=5e-8)
    assert divergence(0.3, 0.25, 1.0) == bounds.kl(0.3, 0.25)
    # Edge cases: no budget, equal means, a certain arm.
    assert divergence(0.4, 0.4, 1.0) == 0.0
    assert divergence(0.4, 0.0, 2.0) == pytest.approx(0.8)
    assert np.isinf(divergence(0.4, 0.0, np.inf))
    assert divergence(1.0, 0.5, np.inf) == pytest.approx(np.log(2))


def test_the_order_of_the_lower_bounds():
    """d_epsilon >= Lai & Robbins, on 200 random instances.

    d_epsilon's bound falls with epsilon, and is at least its epsilon term, sum ln T / epsilon.
    """
    random = np.random.default_rng(0)
    for _ in range(200):
        means = random.uniform(0.02, 0.98, random.integers(2, 8))
        epsilon = np.sort(10 ** random.uniform(-3, 1, 4))
        tight = bounds.d_epsilon(HORIZON, means, epsilon)
        plain = bounds.lai_robbins(HORIZON, means)
        assert (tight >= plain * (1 - 1e-9)).all()
        assert (np.diff(tight) <= 1e-9 * tight[:-1]).all()
        private = (len(means) - 1) * np.log(HORIZON) / epsilon
        assert (tight >= private * (1 - 1e-9)).all()
        assert bounds.d_epsilon(HORIZON, means, np.inf) == pytest.approx(plain, rel=1e-9)


def test_arms_as_good_as_the_best_cost_nothing():
    means = np.array([0.2, 0.2, 0.6])
    pair = np.array([0.2, 0.6])
    assert bounds.lai_robbins(1e5, means) == bounds.lai_robbins(1e5, pair)
    assert bounds.d_epsilon(1e5, means, 0.3) == bounds.d_epsilon(1e5, pair, 0.3)
    assert bounds.ucb1(1e5, means) == bounds.ucb1(1e5, pair)
    assert bounds.lai_robbins(1e5, [0.5, 0.5]) == 0.0


# --- vectors ---


def test_linear_elimination_by_hand():
    """Four actions in the plane, epsilon 2: T = 1000, where it is vacuous, and T = 10^6."""
    assert bounds.linear_elimination(1000, 4, 2, 2.0) == pytest.approx(1001)
    for model in ("central", "local"):
        log_t = np.log(1e6)
        q, term = (2e6) ** (1 / log_t), np.log(4 * 4 * 1e12)
        total, left, gap = 1.0, 1e6, 1.0
        for i in range(1, int(log_t)):
            if q**i + 4 > left:
                break
            total, left = total + (q**i + 4) * gap, left - q**i - 4
            largest = 4 / q**i
            count = 4 if model == "central" else q**i / 4
            u = np.sqrt(term / (term + count))
            noise = largest * (term - count * np.log(1 - u**2)) / (2.0 * u)
            gap = min(1.0, 4 * (np.sqrt(8 * term / q**i) + noise))
        assert i == 12 and gap < 0.2
        computed = bounds.linear_elimination(1e6, 4, 2, 2.0, model=model)
        assert computed == pytest.approx(total + left * gap, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, np.inf])
def test_lazy_ucb_counts_to_where_two_radii_are_below_the_gap(epsilon):
    """Two arms, by bisection over integers O: 4 O + 1 pulls, each of which costs the gap."""
    gap, level = 0.2, 3 * np.log2(1e6)

    def radius(samples):
        return np.sqrt(level / samples) + level / (epsilon * samples)

    low, high = 1, 10**9
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * radius(middle) >= gap else (low, middle)
    found = bounds.lazy_ucb(1e6, [0.3, 0.5], epsilon)
    assert found == pytest.approx(gap * (4 * high + 1), rel=1e-9)
