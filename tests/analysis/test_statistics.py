"""Estimators over trials, against their definitions."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from dpjax.report import statistics
from dpjax.report.statistics import (
    gini_mean_difference,
    gini_spread,
    mean_band,
    median_of_means,
    paired_difference,
    standard_error,
)


def trials(n, *shape, seed=0):
    """Skewed trials, so that mean, median and spreads differ."""
    return np.random.default_rng(seed).lognormal(size=(n, *shape))


def pairwise_gini(values):
    """Mean of |x - x'| over all pairs, by the definition."""
    pairs = [abs(a - b) for a, b in combinations(np.asarray(values, np.float64), 2)]
    return np.mean(pairs) if pairs else 0.0


def test_median_of_means_by_hand():
    """Groups are consecutive: (1, 3), (2, 10), (4, 0) have means 2, 6, 2."""
    values = [1.0, 3.0, 2.0, 10.0, 4.0, 0.0]
    assert median_of_means(values, 3) == 2.0
    assert median_of_means(values, 1) == pytest.approx(20 / 6)  # the mean
    assert median_of_means(values, 6) == 2.5  # the median
    assert median_of_means(values, 2) == pytest.approx((2.0 + 14 / 3) / 2)  # of an even number
    assert median_of_means(np.array([True, False]), 2) == 0.5


def test_median_of_means_works_along_the_first_axis():
    """Each entry of a trial by itself."""
    values = trials(12, 2, 5)
    whole = median_of_means(values, 4, axis=0)
    assert whole.shape == (2, 5)
    for i, j in np.ndindex(2, 5):
        groups = [values[3 * g : 3 * g + 3, i, j].mean() for g in range(4)]
        assert whole[i, j] == pytest.approx(np.median(groups), rel=1e-14)


def test_median_of_means_keeps_its_error_bound():
    """Off by more than sigma sqrt(6 groups / n) at most exp(-groups / 4.5) of the time.

    1000 estimates from 120 lognormal trials each. The share of failures has a standard error of
    at most sqrt(p / 1000) at the bound p.
    """
    groups, n, repeats = 12, 120, 1000
    sigma = np.sqrt((np.e - 1) * np.e)
    off = np.abs(median_of_means(trials(n, repeats), groups, axis=0) - np.exp(0.5))
    allowed = np.exp(-groups / 4.5)
    failures = (off > sigma * np.sqrt(6 * groups / n)).mean()
    assert failures <= allowed + 4 * np.sqrt(allowed / repeats)


def test_median_of_means_is_not_moved_by_one_wild_trial():
    """What it is for: one group is spoiled, the median of the others stays among them."""
    values = trials(120)
    values[7] = 1e12
    means = values.reshape(12, 10).mean(axis=1)
    estimate = median_of_means(values, 12)
    assert np.sort(means)[4] <= estimate <= np.sort(means)[7]
    assert values.mean() > 1e9


@pytest.mark.parametrize(("n", "groups"), [(10, 3), (10, 0), (10, -5), (10, 11)])
def test_median_of_means_refuses_unequal_groups(n, groups):
    """The message has both numbers."""
    with pytest.raises(ValueError, match=f"trials: {n} do not divide into {groups} equal groups"):
        median_of_means(np.zeros((n, 2)), groups, axis=0)


def test_gini_mean_difference_by_hand():
    """(0, 1, 5): the pairs differ by 1, 5 and 4."""
    assert gini_mean_difference([5.0, 0.0, 1.0]) == pytest.approx(10 / 3, rel=1e-15)
    assert gini_mean_difference([2.0, -1.0]) == 3.0
    assert gini_mean_difference([7.0, 7.0, 7.0]) == 0.0
    assert gini_mean_difference([3.0]) == 0.0


@pytest.mark.parametrize("n", [2, 3, 4, 17, 60])
def test_gini_mean_difference_is_the_mean_over_pairs(n):
    """Against the definition, a loop over all pairs; ties and negative values included."""
    values = np.round(trials(n, 2, 3, seed=n) - 1.0, 1)
    measured = gini_mean_difference(values, axis=0)
    assert measured.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert measured[i, j] == pytest.approx(pairwise_gini(values[:, i, j]), rel=1e-12)


def test_gini_mean_difference_of_a_normal_law():
    """2 sigma / sqrt(pi) for N(mu, sigma^2); the standard error is taken over 50 repeats."""
    draws = np.random.default_rng(1).normal(3.0, 2.0, (1000, 50))
    measured = gini_mean_difference(draws, axis=0)
    z = (measured.mean() - 4.0 / np.sqrt(np.pi)) / (measured.std(ddof=1) / np.sqrt(50))
    assert abs(z) < 4


def test_gini_of_a_single_trial_keeps_the_shape():
    """There are no pairs: 0, in the shape of a trial."""
    np.testing.assert_array_equal(
        gini_mean_difference(np.ones((1, 2, 3)), axis=0), np.zeros((2, 3))
    )


def test_gini_spread_by_hand():
    """Around 2: 0, 1, 2 lie below and 2, 6 above; the 2 counts on both sides."""
    below, above = gini_spread([6.0, 0.0, 2.0, 1.0], 2.0)
    assert below == pytest.approx(4 / 3, rel=1e-15)
    assert above == 4.0
    assert gini_spread([1.0, 2.0, 3.0], 0.0).below == 0.0  # nothing below
    assert gini_spread([1.0, 2.0, 3.0], 2.5).above == 0.0  # one trial above


def test_gini_spread_is_that_of_the_two_sides():
    """Against the subsets taken directly, entry by entry, around a centre of its own each."""
    values = np.round(trials(30, 2, 3), 1)
    centre = median_of_means(values, 6, axis=0)
    centre[0, 0] = values[4, 0, 0]  # a centre that is one of the trials
    spread = gini_spread(values, centre, axis=0)
    assert spread.below.shape == spread.above.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        x, c = values[:, i, j], centre[i, j]
        assert spread.below[i, j] == pytest.approx(pairwise_gini(x[x <= c]), rel=1e-12)
        assert spread.above[i, j] == pytest.approx(pairwise_gini(x[x >= c]), rel=1e-12)
    # Lognormal trials reach further up than down.
    assert (spread.above > spread.below).all()


def test_gini_spread_refuses_a_centre_of_another_shape():
    """One centre for each entry."""
    with pytest.raises(ValueError):
        gini_spread(trials(8, 3), np.zeros(2), axis=0)


def test_standard_error_by_hand():
    """(1, 3, 5) has variance 4, over 3 trials."""
    assert standard_error([1.0, 3.0, 5.0]) == pytest.approx(2 / np.sqrt(3), rel=1e-15)
    values = trials(20, 2, 3)
    direct = np.sqrt(((values - values.mean(0)) ** 2).sum(0) / 19 / 20)
    np.testing.assert_allclose(standard_error(values, axis=0), direct, rtol=1e-12)
    single = standard_error(np.ones((1, 2)), axis=0)
    assert single.shape == (2,) and np.isnan(single).all()


def test_mean_band_by_hand():
    """Mean 3 and standard error 2 / sqrt(3); 1.959964 standard errors at 95 %."""
    band = mean_band([1.0, 3.0, 5.0])
    width = 1.959963984540054 * 2 / np.sqrt(3)
    np.testing.assert_allclose(band, [3.0, 3.0 - width, 3.0 + width], rtol=1e-12)
    wider = mean_band([1.0, 3.0, 5.0], confidence=0.99)
    assert wider.high - 3.0 == pytest.approx(2.5758293035489004 * 2 / np.sqrt(3), rel=1e-12)
    assert mean_band(trials(5, 2, 3), axis=0).low.shape == (2, 3)


def coverage_z(confidence, stated, n=20, repeats=20_000):
    """z of the number of bands over the true mean 1, against normal bands at ``stated``.

    For n normal trials (mean - 1) / standard error is Student's t with n - 1 degrees of freedom,
    so the coverage of a normal interval is known exactly.
    """
    values = np.random.default_rng(2).normal(1.0, 3.0, (n, repeats))
    band = mean_band(values, confidence, axis=0)
    covered = ((band.low <= 1.0) & (band.high >= 1.0)).sum()
    expected = 1 - 2 * stats.t.sf(stats.norm.ppf(0.5 + stated / 2), n - 1)
    return (covered - repeats * expected) / np.sqrt(repeats * expected * (1 - expected))


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_mean_band_covers_the_mean_as_often_as_it_should(confidence):
    """z below 4; and the same test sees a confidence that is off by 0.02."""
    assert abs(coverage_z(confidence, confidence)) < 4
    assert abs(coverage_z(confidence - 0.02, confidence)) > 4


def test_paired_difference_by_hand():
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3)."""
    band = paired_difference([2.0, 5.0, 9.0], [1.0, 3.0, 6.0])
    width = 1.959963984540054 / np.sqrt(3)
    np.testing.assert_allclose(band, [2.0, 2.0 - width, 2.0 + width], rtol=1e-12)
    np.testing.assert_allclose(
        paired_difference([6.0, 2.0], [1.0, 3.0], 0.5), mean_band([5.0, -1.0], 0.5)
    )


def test_pairing_takes_out_what_the_trials_share():
    """Common noise of standard deviation 10 leaves a difference of 1 +- 0.1 visible."""
    rng = np.random.default_rng(3)
    common = rng.normal(0.0, 10.0, (100, 4))
    band = paired_difference(common + 1.0 + rng.normal(0.0, 0.1, (100, 4)), common, axis=0)
    # The standard error is 0.1 / sqrt(100): 0.05 is five of them.
    np.testing.assert_allclose(band.mean, 1.0, atol=0.05)
    assert (band.low > 0.9).all() and (band.high < 1.1).all()
    assert (standard_error(common, axis=0) > 0.5).all()


ESTIMATORS = {
    "median_of_means": lambda x, **axis: median_of_means(x, 2, **axis),
    "gini_mean_difference": gini_mean_difference,
    "gini_spread": lambda x, **axis: gini_spread(x, gini_mean_difference(x, **axis), **axis),
    "standard_error": standard_error,
    "mean_band": mean_band,
    "paired_difference": lambda x, **axis: paired_difference(x, np.zeros_like(x), **axis),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_axis_of_the_trials_is_named(name):
    """Of a sweep's regret, (points, seeds, rounds), the first axis is not that of the trials."""
    estimate, regret = ESTIMATORS[name], trials(4, 6, 3)
    for several in (regret, regret[..., -1]):
        with pytest.raises(ValueError, match=r"axis must be given, since trials has \d of them"):
            estimate(several)
    with pytest.raises(ValueError, match="no axis 3"):
        estimate(regret, axis=3)
    with pytest.raises(ValueError, match=r"trials must be an array of trials, got .* \(0,\)"):
        estimate(np.zeros(0))
    of_points = [np.asarray(estimate(one, axis=0)) for one in regret]
    found = np.moveaxis(np.asarray(estimate(regret, axis=1)), -2, 0)
    np.testing.assert_allclose(found, of_points, rtol=1e-13)
    np.testing.assert_array_equal(estimate(regret[0, :, 0]), estimate(regret[0, :, 0], axis=0))


def test_pairs_and_free_epsilons_have_the_shapes_that_they_say():
    """A broadcast would compare each trial with every other; transposed regret is another's."""
    with pytest.raises(ValueError, match=r"others must have the shape of trials, \(4,\)"):
        paired_difference(np.zeros(4), np.zeros((4, 1)))
    with pytest.raises(ValueError, match=r"regret must be of \(points, seeds\), 3 points"):
        statistics.free_epsilon(np.array([0.1, 1.0, np.inf]), np.ones((8, 3)))


def test_integers_and_float32_are_computed_in_float64():
    """Sums of millions of int32 or float32 trials do not overflow or drift."""
    big = np.full((4, 2), 2**30, np.int32)
    single = np.full((1_000_000,), 0.1, np.float32)
    assert median_of_means(big, 2, axis=0)[0] == 2**30
    assert gini_mean_difference(big, axis=0)[0] == 0.0
    assert mean_band(big, axis=0).mean[0] == 2**30
    assert mean_band(single).mean == pytest.approx(float(np.float32(0.1)), rel=1e-12)
    for name in ("median_of_means", "gini_mean_difference", "standard_error"):
        extra = (2,) if name == "median_of_means" else ()
        assert getattr(statistics, name)(big, *extra, axis=0).dtype == np.float64
    unsigned = np.array([[1], [2]], np.uint8)
    assert paired_difference(unsigned, unsigned[::-1], axis=0).mean[0] == 0.0
