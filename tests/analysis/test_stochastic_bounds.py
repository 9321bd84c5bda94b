"""Bounds for stochastic arms: golden numbers at T = 1e7, their order, and rejected arguments."""

import numpy as np
import pytest

from dpjax import bounds

HORIZON = 10**7
# Mean losses of the four instances of Sajed & Sheffet.
INSTANCES = {
    "C1": 1 - np.array([0.75, 0.70, 0.70, 0.70, 0.70]),
    "C2": 1 - np.array([0.75, 0.625, 0.5, 0.375, 0.25]),
    "C3": 1 - np.array([0.75, 0.53125, 0.375, 0.28125, 0.25]),
    "C4": 1 - np.array([0.75, 0.71875, 0.625, 0.46875, 0.25]),
}
EPSILONS = [0.1, 0.25, 0.5, 1.0]


def rounded(bound, *arguments):
    """The bound of each instance, to the nearest integer."""
    values = [bound(HORIZON, means, *arguments) for means in INSTANCES.values()]
    return [int(np.floor(value + 0.5)) for value in values]


def test_lai_robbins():
    assert rounded(bounds.lai_robbins) == [504, 115, 81, 291]


def test_d_epsilon():
    assert rounded(bounds.d_epsilon, 0.1) == [797, 672, 663, 738]
    assert rounded(bounds.d_epsilon, 0.25) == [504, 288, 277, 417]
    assert rounded(bounds.d_epsilon, 0.5) == [504, 168, 151, 328]
    assert rounded(bounds.d_epsilon, 1.0) == [504, 124, 96, 298]


def test_shariff_sheffet():
    values = bounds.shariff_sheffet(HORIZON, 5, np.array(EPSILONS))
    np.testing.assert_allclose(values, [3.22, 1.29, 0.64, 0.32], atol=0.005)


def test_pulls_of_each_worse_arm():
    """Times the gaps, they are the bounds on regret; they differ by a factor of at least 200."""
    means, epsilons = np.array([0.5, 0.3, 0.6, 0.3]), np.array(EPSILONS)
    gaps = np.array([0.2, 0.3])
    shariff = bounds.shariff_sheffet_pulls(HORIZON, means, epsilons)
    np.testing.assert_allclose(shariff, np.log(HORIZON) / 200 / np.outer(epsilons, gaps))
    azize = bounds.d_epsilon_pulls(HORIZON, means, epsilons)
    np.testing.assert_allclose(azize @ gaps, bounds.d_epsilon(HORIZON, means, epsilons))
    assert (azize >= 200.0 * shariff * 0.999).all()


def test_azize_basu_minimax():
    """The larger of 234.2 (without privacy) and 0.305 / (epsilon / 0.1)."""
    assert bounds.azize_basu_minimax(HORIZON, 5, 0.1) == pytest.approx(234.2, abs=0.05)
    small = bounds.azize_basu_minimax(HORIZON, 5, 1e-5)
    assert small == pytest.approx(0.305 * 1e4, rel=2e-3)


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


def test_upper_bounds_by_hand():
    """One number each, for instance C2."""
    means, log_t = INSTANCES["C2"], np.log(1e5)
    gaps = np.array([0.125, 0.25, 0.375, 0.5])
    ucb1 = 8 * log_t * (1 / gaps).sum() + (1 + np.pi**2 / 3) * gaps.sum()
    assert bounds.ucb1(1e5, means) == pytest.approx(ucb1)
    adap = (16 * 3.1 * log_t / np.minimum(gaps, 0.2) + 31).sum()
    assert bounds.adap_ucb(1e5, means, 0.2) == pytest.approx(adap)
    # Arms with gap 1/8 leave by epoch 3, 1/4 by epoch 2, 3/8 by epoch 2, and 1/2 by epoch 1. The
    # lengths of these epochs are the golden ones, plus one for the failure.
    pulls = [1947 + 8495 + 35635, 1947 + 8495, 1947 + 8495, 1947]
    elimination = bounds.successive_elimination(1e5, means, 1.0)
    assert elimination == pytest.approx(gaps @ pulls + 1)
    # At a short horizon an arm is pulled at most T times.
    assert bounds.successive_elimination(100, means, 1.0) == pytest.approx(100 * gaps.sum() + 1)


def test_arms_as_good_as_the_best_cost_nothing():
    means = np.array([0.2, 0.2, 0.6])
    pair = np.array([0.2, 0.6])
    assert bounds.lai_robbins(1e5, means) == bounds.lai_robbins(1e5, pair)
    assert bounds.d_epsilon(1e5, means, 0.3) == bounds.d_epsilon(1e5, pair, 0.3)
    assert bounds.ucb1(1e5, means) == bounds.ucb1(1e5, pair)
    assert bounds.lai_robbins(1e5, [0.5, 0.5]) == 0.0


BAD_MEANS = [[0.5], 0.5, [[0.1, 0.2]], [0.5, 1.5], [-0.1, 0.5], [0.5, np.nan], []]


@pytest.mark.parametrize("means", BAD_MEANS, ids=str)
def test_bad_means_are_refused(means):
    """Out of range, a single arm, a table, empty."""
    for name in ("lai_robbins", "ucb1", "d_epsilon", "adap_ucb",
                 "successive_elimination"):  # fmt: skip
        more = () if name in ("lai_robbins", "ucb1") else (1.0,)
        with pytest.raises(ValueError, match="^means must be at least two mean losses"):
            getattr(bounds, name)(1e5, means, *more)


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


def test_other_bounds_of_linear_bandits():
    printed = np.sqrt(1e6 * np.log(1e6)) + np.log(1e6) ** 2 / 0.5
    assert bounds.linear_elimination_printed(1e6, 0.5) == pytest.approx(printed)
    lower = bounds.azize_basu_linear(1e4, 3, np.array([0.0, 1e-3, 1.0, np.inf]))
    expected = 3 * 100 / 8 * np.array([1.0, np.exp(-0.6), np.exp(-2), np.exp(-2)])
    np.testing.assert_allclose(lower, expected)


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
