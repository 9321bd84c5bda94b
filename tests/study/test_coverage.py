"""Coverage of each estimator's interval: the table of docs/reference/inference.md.

Each estimator has 400 arrays of 40 trials with known truth, from a normal and a skewed
(exponential) law. ``python -m tests.study.test_coverage`` prints the rows of the table.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray
from scipy import stats

import dpjax.report.accessor  # noqa: F401
from dpjax.report import choice, estimates, trends
from dpjax.report.arrays import ESTIMATORS
from tests import ROOT
from tests.refusals import refuses

REPEATS, TRIALS = 400, 40
LAWS = {"normal": stats.norm(1.0, 0.5), "skewed": stats.expon()}  # both of mean 1
NARROW = stats.norm(1.0, 0.1)  # so that the means of four trials stay positive
AXIS = np.array([1.0, 2.0, 4.0, 8.0, np.inf])


class Case(NamedTuple):
    """An estimate on arrays (repeat, ...), and the truth that its interval should cover."""

    estimate: Callable
    truth: Callable[[Any], float]  # of a law
    means: Any = None  # along the axis x; None for arrays without it
    covers: str = ""
    by: str = "bootstrap percentiles"


def with_privacy(array):
    """The coordinates that a frontier needs, for a learner that declares its given epsilon."""
    return array.assign_coords(
        privacy_epsilon=("x", array["x"].values), privacy_model=("x", ["central"] * len(AXIS))
    )


def standard_deviation(trials):
    return trials.std(axis=0, ddof=1)


def one(law):
    return 1.0


def largest(profile):
    """The largest mean of a profile with its interval, as an estimate."""
    names = {"largest": "mean", "largest_low": "low", "largest_high": "high"}
    return profile[list(names)].rename(names)


STUDENT = "Student's t"
CASES = {
    "mean": Case(estimates.mean, one, None, "the mean", STUDENT),
    "quantile": Case(partial(estimates.quantile, q=0.8), lambda law: law.ppf(0.8), None,
                     "the quantile of the law", "order statistics"),
    "proportion": Case(lambda array: estimates.proportion(array > 1.0), lambda law: law.sf(1.0),
                       None, "the probability", "Clopper and Pearson"),
    "statistic": Case(partial(estimates.statistic, function=standard_deviation),
                      lambda law: law.std(), None,
                      "the statistic of the law (here the standard deviation)"),
    "difference": Case(lambda array: estimates.difference(array, x=1.0).isel(x=1), one, [1.0, 2.0],
                       "the mean of the paired difference", STUDENT),
    "band": Case(partial(estimates.band, over="x"), one, [1.0] * 5, "all means along the axis",
                 "bootstrap of the largest deviation"),
    "worst": Case(partial(choice.worst, over="x"), one, [1.0] * 5,
                  "the largest mean along the axis", "ends of the simultaneous band"),
    "profile": Case(lambda array: largest(choice.profile(array, "x")), one, [1.0] * 5,
                    "the mean at the place of the largest", f"{STUDENT} on held-out trials"),
    "tune": Case(lambda array: choice.tune(array, "x"), one, [1.0] * 5,
                 "the mean of the chosen setting", f"{STUDENT} on trials unseen by the choice"),
    "frontier": Case(lambda array: choice.frontier(with_privacy(array), "x", ["x"]), one, [1.0] * 5,
                     "the mean of the chosen setting, at one level", "as tune"),
    "slope": Case(partial(trends.slope, over="x"), lambda law: 0.75, AXIS[:4] ** 0.75,
                  "the exponent of the mean"),
    # The mean falls from 2 at x = 4 to 1.2 at x = 8.
    "crossing": Case(partial(trends.crossing, level=1.5, over="x"), lambda law: 4 * 2 ** (5 / 8),
                     [9.0, 5.0, 2.0, 1.2, 1.0], "the interpolated crossing of the mean"),
}  # fmt: skip


@cache
def found(name, kind, trials=TRIALS):
    """(centre, low, high, truth) of each array."""
    case, law = CASES[name], LAWS.get(kind, NARROW)
    generator = np.random.default_rng(sum(map(ord, name + kind)))
    means = np.ones(1) if case.means is None else np.asarray(case.means)
    shape = (REPEATS, len(means), trials)
    own, shared = (law.rvs(size=s, random_state=generator) for s in (shape, (REPEATS, 1, trials)))
    # The trials of an array share half of their noise along the axis.
    noise = own if len(means) == 1 or kind == "skewed" else 1 + (own + shared - 2) / np.sqrt(2)
    axes = ["repeat", "x", "trial"]
    array = xarray.DataArray(means[:, None] * noise, {"x": AXIS[: len(means)]}, axes)
    array = array.squeeze("x", drop=True) if case.means is None else array
    made = case.estimate(array)
    centre, low, high = (made[n].values for n in (next(iter(made)), "low", "high"))
    return centre, low, high, case.truth(law)


def coverage(name, kind, factor=1.0, trials=TRIALS):
    """The share of intervals, scaled by ``factor``, that cover; a band covers its whole axis."""
    centre, low, high, truth = found(name, kind, trials)
    with np.errstate(invalid="ignore"):
        low, high = centre - factor * (centre - low), centre + factor * (high - centre)
    covers = (low <= truth) & (truth <= high)
    return float((covers.all(axis=1) if name == "band" else covers).mean())


def row(name):
    """The row of the table in docs."""
    case = CASES[name]
    shares = [f"{coverage(name, kind):.3f}" for kind in LAWS]
    return [name, case.covers, case.by, *shares]


def documented():
    """The rows of the table in docs, by estimator."""
    text = (ROOT / "docs" / "reference" / "inference.md").read_text()
    lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, flags=re.MULTILINE)
    return {name: [name, *cells.split(" | ")] for name, cells in lines}


def test_the_table_has_every_estimator():
    own = {name for name, each in ESTIMATORS.items() if each.__module__.startswith("dpjax.")}
    assert documented().keys() == own == CASES.keys()


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("name", CASES)
def test_an_interval_covers_as_often_as_the_table_says(name, kind):
    """An interval of half the width covers less often, by at least four standard errors."""
    own = documented()[name]
    assert own[:3] == [name, CASES[name].covers, CASES[name].by]
    said = float(own[3 + list(LAWS).index(kind)])
    assert coverage(name, kind) == pytest.approx(said, abs=0.01)
    error = max(said * (1.0 - said), 0.02) ** 0.5 / REPEATS**0.5
    assert coverage(name, kind, factor=0.5) < said - 4.0 * error


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_normal_trials_cover_nine_times_in_ten(name):
    assert float(documented()[name][3]) >= 0.9


@pytest.mark.parametrize("trials", [4, 6])
@pytest.mark.parametrize("name", ["band", "crossing", "slope"])
def test_intervals_of_few_normal_trials_are_not_too_narrow(name, trials):
    """Within four standard errors of 0.95; intervals of half the width are refused.

    Bootstrap percentiles of four trials covered the true value in at most 0.81 (band).
    """
    least = 0.95 - 4.0 * (0.95 * 0.05 / REPEATS) ** 0.5
    assert coverage(name, "narrow", trials=trials) > least
    assert coverage(name, "narrow", factor=0.5, trials=trials) < least


def cells(seed, means, trials):
    """Trials around means of shape (epsilon, mixing)."""
    noise = np.random.default_rng(seed).normal(size=(*means.shape, trials))
    labels = {"epsilon": 1.0 + np.arange(len(means)), "mixing": 1.0 + np.arange(means.shape[1])}
    return xarray.DataArray(means[..., None] + noise, labels, [*labels, "trial"])


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
    negative = xarray.DataArray(noise - 9.0, {"epsilon": epsilon}, ["epsilon", "trial"])
    assert np.isnan(trends.slope(negative[:2], "epsilon")["slope"])
    refuses("fewer than two", trends.slope, (negative[:1], "epsilon"))


def test_tune_finds_a_planted_optimum_and_reports_it_honestly():
    array = cells(8, np.tile([1.0, 0.6, 0.0, 0.6, 1.0], (1000, 1)), 100)
    found = choice.tune(array, "mixing")
    assert (found["chosen_mixing"] == 3.0).mean() >= 0.95
    assert ((found["low"] <= 0.0) & (found["high"] >= 0.0)).mean() >= 0.93
    assert found["candidate"].sel(mixing=3.0).mean() >= 0.95
    assert found["candidate"].sel(mixing=1.0).mean() < 0.01


def test_cells_that_were_not_played_stay_nan():
    array = cells(10, np.ones((3, 4)), 20)
    array[1] = np.nan
    few = estimates.quantile(array.isel(trial=slice(5)), 0.9)
    assert np.isinf(few["high"].isel(epsilon=0)).all()
    band = estimates.band(array, "mixing")
    for found in (estimates.mean(array), estimates.quantile(array), band):
        assert np.isnan(found["low"].isel(epsilon=1)).all()
        assert np.isfinite(found["low"].isel(epsilon=0)).all()
    tuned = choice.tune(array, "mixing")
    assert np.isnan(tuned["mean"].isel(epsilon=1))
    assert np.isnan(tuned["chosen_mixing"].isel(epsilon=1))


def test_arrays_without_trials_are_refused():
    array = cells(11, np.ones((3, 1)), 20)
    refuses("array must be an xarray.DataArray", estimates.band, (array.values, "epsilon"))
    refuses("dimension trial", estimates.band, (array.isel(trial=0), "epsilon"))
    refuses("at least 2 trials", estimates.band, (array.isel(trial=[0]), "epsilon"))


if __name__ == "__main__":
    for name in CASES:
        first, *others = row(name)
        print(f"| `{first}` | {' | '.join(others)} |")
