"""Intervals have their stated coverage, on data with known truth."""

import numpy as np
import pytest
import xarray

from dpjax.report import choice, estimates, trends


def cells(generator, means, trials, scale=1.0):
    """Trials around means of any shape, as an array with named axes."""
    means = np.asarray(means, np.float64)
    noise = generator.normal(size=(*means.shape, trials))
    dims = ["epsilon", "mixing", "round"][: means.ndim]
    coords = {name: np.arange(1.0, n + 1) for name, n in zip(dims, means.shape, strict=True)}
    coords["trial"] = np.arange(trials)
    return xarray.DataArray(means[..., None] + scale * noise, coords, [*dims, "trial"],
                            name="final_regret")  # fmt: skip


def covered(found, truth):
    return ((found["low"] <= truth) & (truth <= found["high"])).values


def test_a_difference_is_paired():
    generator = np.random.default_rng(3)
    array = cells(generator, [0.0, 0.1], 50, scale=1e-3)
    shared = xarray.DataArray(generator.normal(size=50), dims=["trial"])
    found = estimates.difference(array + shared, epsilon=1.0)
    assert found["low"].sel(epsilon=2.0) > 0.09
    assert found["high"].sel(epsilon=2.0) < 0.11
    assert float(found["mean"].sel(epsilon=1.0)) == 0.0
    with pytest.raises(ValueError, match="epsilon has no value 7"):
        estimates.difference(array, epsilon=7.0)
    with pytest.raises(ValueError, match="arms is not a dimension"):
        estimates.difference(array, arms=7)


def test_the_slope_of_a_power_law():
    horizon = np.array([2.0**i for i in range(8, 15)])
    generator = np.random.default_rng(4)
    noise = 1.0 + 0.2 * generator.normal(size=(200, 7, 30))
    array = xarray.DataArray(3.0 * horizon[:, None] ** 0.75 * noise,
                             {"horizon": horizon}, ["repeat", "horizon", "trial"])  # fmt: skip
    found = trends.slope(array)
    assert covered(found, 0.75).mean() > 0.88
    assert not covered(found, 1.0).any()
    assert (found.attrs["first"], found.attrs["last"]) == (256.0, 16384.0)
    assert np.isnan(trends.slope(array - 1e6)["slope"]).all()
    with pytest.raises(ValueError, match="fewer than two"):
        trends.slope(array.isel(horizon=[0]))


def test_crossing_finds_where_privacy_becomes_free():
    epsilon = np.array([0.1, 1.0, 10.0, 100.0, np.inf])
    noise = np.random.default_rng(5).normal(size=(5, 40))

    def found(means):
        array = xarray.DataArray(np.array(means)[:, None] + 1e-3 * noise,
                                 {"epsilon": epsilon}, ["epsilon", "trial"])  # fmt: skip
        return trends.crossing(array, 1.1, at=np.inf)

    between = found([5.0, 2.0, 1.2, 1.0, 1.0])
    assert float(between["crossing"]) == pytest.approx(10.0 * 10.0**0.5, rel=0.02)
    assert between["low"] < between["crossing"] < between["high"]
    assert float(found([1.0, 1.0, 1.0, 1.0, 1.0])["crossing"]) == 0.0
    assert float(found([5.0, 5.0, 5.0, 5.0, 1.0])["crossing"]) == np.inf
    assert np.isnan(found([np.nan, 2.0, 1.0, 1.0, 1.0])["crossing"])
    # A return above the level counts: the value is where the mean begins to stay within it.
    assert 10.0 < float(found([5.0, 1.0, 1.2, 1.0, 1.0])["crossing"]) < 100.0


def test_tune_finds_a_planted_optimum_and_reports_it_honestly():
    means = np.array([1.0, 0.6, 0.0, 0.6, 1.0])
    array = cells(np.random.default_rng(8), np.tile(means, (1000, 1)), 100)
    found = choice.tune(array, "mixing")
    assert (found["chosen_mixing"] == 3.0).mean() >= 0.95
    assert covered(found, 0.0).mean() >= 0.93
    assert found["candidate"].sel(mixing=3.0).mean() >= 0.95
    assert found["candidate"].sel(mixing=1.0).mean() < 0.01


def test_cells_that_were_not_played_stay_nan():
    array = cells(np.random.default_rng(10), np.ones((3, 4)), 20)
    array[1] = np.nan
    for found in (
        estimates.mean(array),
        estimates.quantile(array),
        estimates.band(array, "mixing"),
    ):
        assert np.isnan(found["low"].isel(epsilon=1)).all()
        assert np.isfinite(found["low"].isel(epsilon=0)).all()
    tuned = choice.tune(array, "mixing")
    assert np.isnan(tuned["mean"].isel(epsilon=1))
    assert np.isnan(tuned["chosen_mixing"].isel(epsilon=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.values, "array must be an xarray.DataArray"),
        (lambda a: a.isel(trial=0), "dimension trial"),
        (lambda a: a.isel(trial=[0]), "at least 2 trials"),
    ],
)
def test_arrays_without_trials_are_refused(change, message):
    array = cells(np.random.default_rng(11), np.ones(3), 20)
    with pytest.raises((TypeError, ValueError), match=message):
        estimates.band(change(array), "epsilon")


def test_a_single_trial_has_a_mean_without_interval():
    array = cells(np.random.default_rng(13), np.ones(3), 5)
    found = estimates.mean(array.isel(trial=[0]))
    assert np.isfinite(found["mean"]).all() and np.isnan(found["low"]).all()
    assert np.isinf(estimates.quantile(array, 0.9)["high"]).all()  # five trials are too few


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_are_probabilities(level):
    with pytest.raises(ValueError, match="confidence must be in"):
        estimates.mean(cells(np.random.default_rng(12), np.ones(3), 20), level)
