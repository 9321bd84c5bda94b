"""A trial that failed does not count, and its cell is estimated from the others."""

from functools import partial

import numpy as np
import pytest
import xarray

import dpjax.report.accessor  # noqa: F401
from dpjax.report import arrays, choice, estimates, trends
from dpjax.report.arrays import ESTIMATORS
from tests.refusals import refuses

EPSILONS = [0.5, 1.0, 2.0, np.inf]
CELL = {"learner": "A", "epsilon": 1.0}
MORE = {
    "proportion": lambda array: estimates.proportion((array > 7.0).where(np.isfinite(array))),
    "statistic": partial(estimates.statistic, function=lambda trials: trials.std(axis=0)),
    "difference": partial(estimates.difference, learner="B"),
    "band": partial(estimates.band, over="epsilon"),
    "worst": partial(choice.worst, over="epsilon"),
    "profile": partial(choice.profile, over="epsilon"),
    "tune": lambda array: choice.tune(array, "epsilon"),
    "slope": partial(trends.slope, over="epsilon"),
    "crossing": partial(trends.crossing, level=1.5),
}


def regret(learners="AB", trials=60):
    """The regret of learners at four epsilons, with what a study adds to it."""
    noise = np.random.default_rng(0).normal(size=(len(learners), 4, trials))
    values = np.array([9.0, 7.0, 5.5, 5.0])[:, None] + 0.3 * noise
    pair = ("learner", "epsilon")
    array = xarray.DataArray(
        values,
        {"learner": [*learners], "epsilon": EPSILONS, "trial": np.arange(trials),
         "takes_epsilon": ("learner", [True] * len(learners)),
         "privacy_epsilon": (pair, [EPSILONS] * len(learners)),
         "privacy_model": (pair, np.full(values.shape[:2], "central", object))},
        (*pair, "trial"), name="final_regret",
    )  # fmt: skip
    return array


def failed(array, trials, value=np.nan, at=CELL):
    """The array with a value in some trials of some cells."""
    array = array.copy(deep=True)
    array.loc[{**at, "trial": trials}] = value
    return array


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_failed_trial_does_not_count_in_any_estimate(name, value):
    """The cell has the estimate of its other trials; cells that share none with it are as before.

    One failed trial once made the cell NaN, which removed its row from every table.
    """
    estimate = MORE.get(name, ESTIMATORS[name])
    whole = regret()
    others = whole.isel(trial=[*range(3, 60)])
    with pytest.warns(RuntimeWarning) as said:
        found = estimate(failed(whole, [0, 1, 2], value))
    assert len(said) == 1
    assert "Trials that failed or were not played do not count: 3 of 60" in str(said[0].message)
    assert ("at learner = A" in str(said[0].message)) == (name != "frontier")
    before, after = estimate(whole), estimate(others)
    first = next(iter(found))
    at = {axis: label for axis, label in CELL.items() if axis in found[first].dims}
    for part in (first, "low", "high"):
        np.testing.assert_allclose(found[part].sel(at), after[part].sel(at), rtol=1e-12)
        if "learner" in found[part].dims:
            other = {"learner": "B"}
            np.testing.assert_allclose(found[part].sel(other), before[part].sel(other), rtol=1e-12)
    assert found["trials"].min() == 57 and "trials" not in before


def test_data_joined_from_20_and_30_trials_keep_both_learners():
    """A table once lost one learner without a word, and all differences were NaN."""
    two = [regret("A", 20), regret("B", 30)]
    data = xarray.concat(two, "learner", join="outer").to_dataset()
    with pytest.warns(RuntimeWarning, match="count: 10 of 30 at learner = A.$"):
        table = data.dpjax.table()
    assert table["trials"].tolist() == [20] * 4 + [30] * 4
    expected = [each.mean("trial").values.ravel() for each in two]
    np.testing.assert_allclose(table["mean"], np.concatenate(expected))
    inner = xarray.concat(two, "learner", join="inner").to_dataset()
    paired = inner.dpjax.difference(learner="A")["mean"]
    with pytest.warns(RuntimeWarning, match="10 of 30"):
        np.testing.assert_allclose(data.dpjax.difference(learner="A")["mean"], paired)


def test_tables_and_figures_state_how_many_trials_count():
    data = failed(regret(), [0, 1, 2]).to_dataset()
    sentence = "Trials that failed or were not played do not count: 3 of 60 at learner = A"
    with pytest.warns(RuntimeWarning, match=sentence) as said:
        table = data.dpjax.table(estimates=["mean", "quantile", "worst"][:2])
    assert len(said) == 1 and said[0].filename == __file__
    assert table["trials"].tolist() == [60, 57, *[60] * 6]
    assert sentence in table.attrs["notes"]
    with pytest.warns(RuntimeWarning, match=sentence) as said:
        drawn = data.dpjax.figure("epsilon", color="learner")
    assert len(said) == 1 and said[0].filename == __file__
    assert "; 57 to 60 trials." in drawn.caption and sentence in drawn.caption
    assert len(drawn.axes[0].get_lines()[0].get_ydata()) == 4
    with pytest.warns(RuntimeWarning, match=sentence) as said:
        text = data.dpjax.latex("epsilon")
    assert len(said) == 1 and said[0].filename == __file__
    assert "standard errors; 57 to 60 trials. Trials" in text and "epsilon = 1.0." in text
    with pytest.warns(RuntimeWarning, match=sentence) as said:
        found = data.dpjax.mean()
    caption = found.dpjax.figure("epsilon", color="learner").caption
    assert len(said) == 1 and "; 57 to 60 trials." in caption and sentence in caption


def test_cells_without_a_common_trial_are_nan_and_named():
    """Half of the trials failed in one cell, and the other half in another one."""
    array = failed(regret(), range(30))
    array = failed(array, range(30, 60), at={"learner": "A", "epsilon": 2.0})
    with pytest.warns(RuntimeWarning, match="30 of 60 at learner = A, epsilon = 1.0; 30 of 60 at"):
        assert estimates.mean(array)["mean"].notnull().all()
    with pytest.warns(RuntimeWarning, match="60 of 60 at learner = A."):
        found = trends.slope(array, "epsilon")
    assert found["slope"].isnull().values.tolist() == [True, False]
    with pytest.warns(RuntimeWarning, match="60 of 60"):
        table = array.to_dataset().dpjax.table(estimates=[partial(trends.slope, over="epsilon")])
    assert table["learner"].tolist() == ["A", "B"] and table["trials"].tolist() == [0, 60]


def test_one_trial_that_counts_has_a_mean_without_an_error():
    data = failed(regret(), range(59)).to_dataset()
    with pytest.warns(RuntimeWarning, match="59 of 60"):
        text = data.dpjax.latex("epsilon")
    assert "1 to 60 trials" in text and "A mean alone: one trial." in text
    with pytest.warns(RuntimeWarning):
        table = data.dpjax.table(estimates=["quantile"])
    assert table["trials"].tolist()[:2] == [60, 1] and np.isnan(table["quantile"].tolist()[1])


@pytest.mark.filterwarnings("ignore:.*do not count")
def test_a_learner_with_one_trial_is_not_the_best_of_a_latex_table():
    data = failed(regret(), range(59)).to_dataset()
    data["final_regret"].loc[{**CELL, "trial": 59}] = 0.0
    row = data.dpjax.latex("epsilon").partition("\nB & ")[2].split(" & ")
    assert row[1].startswith(r"\bfseries 6.996")


# The fewest trials of a cell that an estimate of several cells, or one with a caution, needs.
NEEDED = {"statistic": 2, "band": 2, "worst": 2, "slope": 2,
          "crossing": 2, "profile": 4, "tune": 4, "frontier": 4}  # fmt: skip


@pytest.mark.parametrize("kept", range(5))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_cell_with_too_few_trials_is_left_out_of_the_others(name, kept):
    """Like a cell without a trial, it is named and changes no other cell.

    A setting with one to three trials once made the frontier NaN at all higher levels. A cell
    without an interval once caused the caution about intervals of few trials.
    """
    estimate, needed = MORE.get(name, ESTIMATORS[name]), NEEDED.get(name, 1)
    gone = "(all|60 of 60)" if kept == 0 else f"{60 - kept} of 60"
    with pytest.warns(RuntimeWarning, match=f"do not count: {gone} at ") as said:
        found = estimate(failed(regret(), range(60 - kept)))
    text = str(said[0].message)
    cautious = needed > 1 and name not in ("tune", "frontier")
    assert ("With fewer than 40 trials" in text) == (cautious and needed <= kept)
    if kept < needed:
        assert "at learner = A, epsilon = 1.0" in text
        with pytest.warns(RuntimeWarning):
            without = estimate(failed(regret(), range(60)))
        xarray.testing.assert_identical(found.drop_vars("trials"), without.drop_vars("trials"))


@pytest.mark.filterwarnings("ignore:.*do not count")
def test_no_trial_at_all_is_refused_by_name():
    data = (regret() * np.nan).to_dataset()
    sentence = "final_regret: no trial is finite, so there is nothing to show"
    refuses(sentence, data.dpjax.latex, ("epsilon",))
    refuses(sentence, data.dpjax.figure, ("epsilon",), color="learner")
    with pytest.raises(ValueError, match="final_regret: no estimate is finite"):
        data.dpjax.mean().dpjax.figure("epsilon", color="learner")
    assert data.dpjax.table()["trials"].tolist() == [0] * 8


@pytest.mark.parametrize("at", [CELL, {"learner": "A"}])
def test_a_cell_of_which_all_trials_failed_stays_in_the_table(at):
    """A cell of another study, whose learner declares nothing there, has no row."""
    array = failed(regret(), range(60), at=at)
    array = failed(array, range(60), at={"learner": "B", "epsilon": 2.0})
    declared = array["privacy_epsilon"].where((array["learner"] != "B") | (array["epsilon"] != 2))
    data = array.assign_coords(privacy_epsilon=declared).to_dataset()
    with pytest.warns(RuntimeWarning, match="60 of 60 at learner = A(, epsilon = 1.0)?.$"):
        table = data.dpjax.table()
    assert table["learner"].tolist() == [*"AAAABBB"]
    assert table["mean"].isnull().tolist() == (table["trials"] == 0).tolist()
    with pytest.warns(RuntimeWarning, match="do not count: all at learner = A"):
        caption = data.dpjax.figure("epsilon", color="learner").caption
    assert "do not count: all at learner = A" in caption


def test_many_cells_are_named_in_short():
    array = failed(regret("ABCDEF"), [0], at={"learner": list("ABCDE"), "epsilon": 1.0})
    array = failed(array, [1, 2], at={"learner": "F", "epsilon": 2.0})
    with pytest.warns(RuntimeWarning, match="and some in 3 other cells.$"):
        found = estimates.mean(array)
    assert arrays.number(found) == "58 to 60"


@pytest.mark.parametrize(("axis", "labels"), [("epsilon", [0.1, 1.0]), ("arms", [2, 4])])
def test_the_entry_of_an_axis_of_numbers_that_is_not_taken_is_nan(axis, labels, tmp_path):
    """An empty text among numbers failed in sort_values, query, to_parquet and polars."""
    values = np.arange(16.0).reshape(2, 2, 4)
    data = xarray.Dataset(
        {"final_regret": (("learner", axis, "trial"), values)},
        {"learner": ["A", "B"], axis: labels, f"takes_{axis}": ("learner", [True, False])},
    )
    table = data.dpjax.table()
    assert table[axis].dtype == float
    np.testing.assert_array_equal(table[axis], [*labels, np.nan])
    assert table.sort_values(axis)["learner"].tolist() == ["A", "A", "B"]
    assert len(table.query(f"{axis} < 3")) == len([label for label in labels if label < 3])
    words = data.assign_coords({axis: ["one", "two"]}).dpjax.table()
    assert words[axis].tolist() == ["one", "two", ""]
