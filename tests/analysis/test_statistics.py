"""Estimates of single cells, against their definitions."""

import numpy as np
import pytest
import xarray

from dpjax.report import estimates


def trials(n, *shape, seed=0):
    """Skewed trials, so that mean, median and spreads differ."""
    return np.random.default_rng(seed).lognormal(size=(n, *shape))


def labelled(values):
    """A DataArray whose first axis is the trials."""
    values = np.asarray(values)
    return xarray.DataArray(values, dims=["trial", "first", "second"][: values.ndim])


def test_the_mean_by_hand():
    """(1, 3, 5) has mean 3 and variance 4, from 3 trials; with two degrees of freedom."""
    found = estimates.mean(labelled([1.0, 3.0, 5.0]))
    assert found["standard_error"] == pytest.approx(2 / np.sqrt(3), rel=1e-15)
    quantile = 0.95 * np.sqrt(2 / (1 - 0.95**2))  # of Student's t, in closed form
    width = quantile * 2 / np.sqrt(3)
    ends = float(found["low"]), float(found["high"])
    assert ends == pytest.approx((3.0 - width, 3.0 + width), rel=1e-10)
    values = trials(20, 2, 3)
    direct = np.sqrt(((values - values.mean(0)) ** 2).sum(0) / 19 / 20)
    np.testing.assert_allclose(
        estimates.mean(labelled(values))["standard_error"], direct, rtol=1e-12
    )


def test_integers_and_float32_are_computed_in_float64():
    """Sums of millions of int32 or float32 trials do not overflow or drift."""
    big = np.full((4, 2), 2**30, np.int32)
    single = np.full((1_000_000,), 0.1, np.float32)
    assert estimates.mean(labelled(big))["mean"][0] == 2**30
    mean = float(estimates.mean(labelled(single))["mean"])
    assert mean == pytest.approx(float(np.float32(0.1)), rel=1e-12)
    unsigned = labelled(np.array([[2, 1], [1, 2]], np.uint8)).assign_coords(first=["A", "B"])
    assert estimates.difference(unsigned, first="A")["mean"].sel(first="B") == 0.0


def test_one_resampling_serves_means_and_all_other_statistics():
    """The index bootstrap of a mean draws the same trials as the weight bootstrap."""
    array = labelled(trials(40, 3))
    by_weights = estimates.of_means(array, lambda means: means)
    by_indices = estimates.statistic(array, lambda values: values.mean(axis=0))
    for name in ("statistic", "low", "high"):
        np.testing.assert_allclose(by_weights[name], by_indices[name], rtol=1e-12)
