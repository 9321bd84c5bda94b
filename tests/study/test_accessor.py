"""The results of ``data.dpjax`` on the data of a study."""

import inspect
import re
from itertools import product

import numpy as np
import pytest
import xarray

import dpjax.report.accessor  # noqa: F401
from dpjax.report import choice
from dpjax.report.arrays import ESTIMATORS, estimator
from tests import ROOT
from tests.test_wrong_uses import uses


@pytest.fixture
def data():
    """Two learners; the second takes no epsilon."""
    generator = np.random.default_rng(0)
    means = np.array([[9.0, 4.0, 2.0], [1.5, 1.5, 1.5]])
    trials = means[..., None] + 0.1 * generator.normal(size=(2, 3, 40))
    trials[1] = trials[1, 0]
    grid = ["learner", "epsilon"]
    return xarray.Dataset(
        {"final_regret": (["learner", "environment", "epsilon", "trial"], trials[:, None]),
         "regret": (["learner", "environment", "epsilon", "trial", "round"],
                    trials[:, None, ..., None] * [0.5, 1.0])},
        {
            "learner": ["private", "plain"],
            "environment": ["only"],
            "epsilon": [0.1, 1.0, np.inf],
            "round": [5, 10],
            "horizon": 10,
            "takes_epsilon": (["learner", "environment"], [[True], [False]]),
            "privacy_epsilon": (grid, [[0.1, 1.0, np.inf], [np.inf] * 3]),
            "privacy_delta": (grid, np.zeros((2, 3))),
            "privacy_model": (grid, np.full((2, 3), "central", object)),
        },
    )  # fmt: skip


def test_a_table_has_one_row_for_what_takes_no_axis(data):
    table = data.dpjax.table()
    assert table["learner"].tolist() == ["private"] * 3 + ["plain"]
    np.testing.assert_array_equal(table["epsilon"], [0.1, 1.0, np.inf, np.nan])
    assert table["privacy_epsilon"].tolist() == [0.1, 1.0, np.inf, np.inf]
    expected = data["final_regret"].mean("trial").values.ravel()[:4]
    assert np.allclose(table["mean"], expected)
    assert (table["trials"] == 40).all()


@pytest.mark.parametrize(
    "at", [{"environment": 0}, {"learner": 1}, {"learner": 1, "environment": 0}]
)
def test_the_table_of_a_part_is_the_part_of_the_table(data, at):
    table = data.isel(at).dpjax.table()
    whole = data.dpjax.table()
    whole = whole[whole["learner"] == "plain"] if "learner" in at else whole
    np.testing.assert_array_equal(table["epsilon"], whole["epsilon"])
    assert table["mean"].tolist() == whole["mean"].tolist()


def test_the_frontier_compares_by_what_is_declared(data):
    found = data.dpjax.frontier().squeeze("environment")
    assert found["chosen_learner"].values.tolist() == ["private", "private", "plain"]
    assert found["chosen_at"].values.tolist()[:2] == [0.1, 1.0]
    assert found["chosen_model"].values[0] == "central"
    assert np.allclose(found["mean"], [9.0, 4.0, 1.5], atol=0.1)
    # A learner that declares less than its epsilon competes at the declared one.
    mild = data.assign_coords(privacy_epsilon=data["privacy_epsilon"] * 0.5)
    assert mild.dpjax.frontier().squeeze("environment")["chosen_at"].values[0] == 0.1
    strong = data.assign_coords(privacy_epsilon=data["privacy_epsilon"] * 2.0)
    assert np.isnan(strong.dpjax.frontier()["mean"].sel(epsilon=0.1)).all()


REFUSED = uses("wrong_reports.txt")


@pytest.mark.filterwarnings("ignore:.*fewer than 40")
@pytest.mark.parametrize(("code", "sentence"), REFUSED, ids=[code for code, _ in REFUSED])
def test_a_wrong_use_of_data_is_refused_in_one_sentence(data, settings, code, sentence):
    names = {"data": data, "settings": settings, "np": np, "xarray": xarray}
    with pytest.raises((AttributeError, TypeError, ValueError)) as error:
        eval(code, names)
    said = str(error.value)
    assert said == sentence or sentence == f"{said[: len(sentence) - 3]}..."


def drawn(axes):
    """The curve of the learner that takes epsilon, and the mark of the other one."""
    lines = [np.round(line.get_ydata(), 2).tolist() for line in axes.get_lines()]
    return [line for line in lines if len(line) != 2]  # without the lines at "∞" and "none"


def both(values):
    """The drawn values of two learners; the second takes no epsilon."""
    return [values[0].round(2).tolist(), values[1, :1].round(2).tolist()]


def test_two_axes_make_rows_and_columns_of_panels(data):
    figure = data.dpjax.figure("round", panel=("learner", "epsilon"))
    cells = list(product(("private", "plain"), data["epsilon"].values))
    titles = [f"{name}, epsilon = {epsilon:g}".replace("inf", "∞") for name, epsilon in cells]
    assert [axes.get_title() for axes in figure.axes] == titles
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (2, len(data["epsilon"]))
    for axes, (name, epsilon) in zip(figure.axes, cells, strict=True):
        means = data["regret"].sel(learner=name, epsilon=epsilon).mean("trial").squeeze()
        np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), means, rtol=1e-6)


def test_a_figure_draws_the_estimates_and_its_caption_is_made_of_the_data(data):
    figure = data.dpjax.figure("epsilon", color="learner", panel="environment")
    (axes,) = figure.axes
    assert drawn(axes) == both(data["final_regret"].mean("trial").squeeze("environment").values)
    assert (axes.get_xscale(), axes.get_title()) == ("log", "only")
    caption = " ".join(figure.get_supxlabel().split())
    assert "simultaneous over epsilon; 40 trials. T = 10." in caption


def test_an_estimate_may_reduce_an_axis(data):
    """The worse of two environments; the second is harder by 1."""
    harder = (data[["final_regret"]] + 1.0).assign_coords(environment=["harder"])
    two = xarray.concat([data, harder], "environment", data_vars="minimal", join="outer")

    def worst(array):
        return choice.worst(array, "environment")

    (axes,) = two.dpjax.figure("epsilon", color="learner", estimate=worst).axes
    means = data["final_regret"].mean("trial").squeeze("environment").values + 1.0
    assert drawn(axes) == both(means)


@pytest.fixture
def interquartile_range():
    """The estimator of docs/adding/statistic.md, registered for one test."""
    page = (ROOT / "docs" / "adding" / "statistic.md").read_text()
    names = {}
    exec(re.search(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)[1], names)
    yield names["interquartile_range"]
    del ESTIMATORS["interquartile_range"]


def test_a_new_statistic_is_one_function(data, interquartile_range):
    """It is a method, a column group of tables, and the estimate of a figure."""
    expected = interquartile_range(data["final_regret"])
    quartiles = np.quantile(data["final_regret"], [0.25, 0.75], axis=-1)
    np.testing.assert_allclose(expected["interquartile_range"], quartiles[1] - quartiles[0])
    assert "interquartile_range" in dir(data.dpjax)
    method = data.dpjax.interquartile_range
    assert method.__doc__ == interquartile_range.__doc__
    assert str(inspect.signature(method)) == "(confidence=0.95, *, of: str | None = None)"
    assert method().identical(expected)
    names = ["interquartile_range", "interquartile_range_low", "interquartile_range_high"]
    pair = ("mean", "interquartile_range")
    table = data.dpjax.table(estimates=pair)
    assert list(table) == [
        "learner", "environment", "epsilon", "mean", "mean_standard_error", "mean_low",
        "mean_high", *names, "privacy_epsilon", "privacy_delta", "privacy_model", "trials",
    ]  # fmt: skip
    values = expected["interquartile_range"].values.ravel()[:4]
    np.testing.assert_allclose(table["interquartile_range"], values)
    figure = data.dpjax.figure("epsilon", color="learner", estimate="interquartile_range")
    ranges = expected["interquartile_range"].squeeze("environment").values
    assert drawn(figure.axes[0]) == both(ranges)
    caption = " ".join(figure.get_supxlabel().split())
    assert caption.startswith(
        "Interquartile range of regret at T with 95 % bootstrap percentiles; 40 trials."
    )


def test_an_estimator_has_a_level():
    with pytest.raises(TypeError, match="estimator: largest must take confidence"):

        @estimator()
        def largest(array):
            return array.max("trial").to_dataset(name="largest")

    assert "largest" not in ESTIMATORS


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_a_method_with_its_documentation(data, name):
    method = getattr(data.dpjax, name)
    assert name in dir(data.dpjax) and "Examples:" in method.__doc__
    parameters = inspect.signature(method).parameters
    assert "array" not in parameters and {"of", "value"} & parameters.keys()


def test_what_declares_no_privacy_has_no_model_in_any_table(data):
    """The table once said "central", and the figure "none"."""
    model = data.dpjax.table()["privacy_model"].tolist()
    assert model == ["central", "central", "none", "none"]
    assert data.dpjax.frontier()["chosen_model"].values.ravel().tolist() == ["central"] * 2 + [
        "none"
    ]


CHOICES = {"tune": lambda own: own.tune("mixing"), "frontier": lambda own: own.frontier()}
ESTIMATES = {
    "mean": lambda own: own.mean(), "slope": lambda own: own.slope(),
    "crossing": lambda own: own.crossing(1.1), "band": lambda own: own.band("horizon"),
    "worst": lambda own: own.worst("horizon"), **CHOICES,
}  # fmt: skip


@pytest.fixture
def settings(data):
    """Two settings of the mixing, of which the second is better, at two horizons."""
    scale = xarray.DataArray(
        [[8.0, 4.0], [16.0, 8.0]], {"horizon": [16, 64], "mixing": [0.1, 0.2]},
        ["horizon", "mixing"],
    )  # fmt: skip
    one = data.drop_vars("horizon")[["final_regret"]]
    found = one.assign(final_regret=(one["final_regret"] * scale).transpose(..., "trial"))
    takes = xarray.ones_like(data["takes_epsilon"].reset_coords(drop=True))
    epsilon = data["privacy_epsilon"].reset_coords(drop=True) * xarray.ones_like(scale)
    model = xarray.full_like(epsilon, "central", object)
    return found.assign_coords(
        takes_horizon=takes, takes_mixing=takes, privacy_epsilon=epsilon, privacy_model=model
    )


@pytest.mark.parametrize("name", ESTIMATES)
def test_each_estimate_has_a_table(settings, name):
    own = settings if name in CHOICES else settings.isel(mixing=1)
    found = ESTIMATES[name](own.dpjax)
    centre = next(iter(found.data_vars))
    table = found.dpjax.table()
    expected = (
        found[centre].isel(learner=0).values if "learner" in found.dims else found[centre].values
    )
    np.testing.assert_array_equal(table[centre][: expected.size], expected.ravel())
    rows = expected.size
    if (
        "learner" in found.dims
    ):  # The learner without epsilon has one row, not one for each epsilon.
        rows += rows // (3 if "epsilon" in found.dims else 1)
    assert len(table) == rows and (table["trials"] == (20 if name in CHOICES else 40)).all()
    columns = "epsilon" if "epsilon" in found.dims else "horizon"
    assert r"\midrule" in found.dpjax.latex(columns)


STUDENT, RESAMPLED = "Student's 95 % confidence intervals", "95 % percentiles of resampled trials"
TUNED = " Tuned in each cell, on the other half of the trials: mixing."
DECLARED = " Declared privacy: central model (private); none (plain)."
# The quantity, what is beside it in a figure, the trials and a note, which LaTeX has as well.
CAPTIONS = {
    "mean": ("Regret at T: mean", STUDENT, 40, DECLARED),
    "difference": ("Regret at T minus that of plain: mean of paired differences", STUDENT, 40,
                   DECLARED),
    "worst": ("Regret at T: largest mean over horizon", "simultaneous 95 % intervals", 40,
              DECLARED),
    "slope": ("Exponent of regret at T in horizon: least squares from horizon = 16 to 64",
              RESAMPLED, 40, DECLARED),
    "crossing": ("Least epsilon within a factor of 1.1: from there on regret at T is at most 1.1 "
                 "times that at epsilon = inf", RESAMPLED, 40, DECLARED),
    "tune": ("Regret at T, tuned: mean", STUDENT, 20, TUNED),
    "tuned slope": ("Exponent of regret at T in horizon: least squares from horizon = 16 to 64",
                    "95 % percentiles of means by Student's law", 20, TUNED),
    "frontier": ("Regret at T, frontier: mean", STUDENT, 20, " At each level, the best setting"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*fewer than 40")
@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_and_notes_are_about_the_numbers_beside_them(settings, name):
    """LaTeX called standard errors of differences "Student's 95 % confidence intervals"."""
    more = {"difference": lambda own: own.difference(learner="plain"),
            "tuned slope": lambda own: own.tune("mixing").dpjax.slope()}  # fmt: skip
    chosen = name in CHOICES or name == "tuned slope"
    found = (ESTIMATES | more)[name]((settings if chosen else settings.isel(mixing=1)).dpjax)
    text, beside, trials, note = CAPTIONS[name]
    axis = "epsilon" if "epsilon" in found.dims else "horizon"
    found = found.isel(horizon=0) if {"epsilon", "horizon"} <= {*found.dims} else found
    options = {"of": "mean"} if name == "tune" else {}
    caption = found.dpjax.figure(axis, **options, **{"color": "learner"} if "learner" in found.dims
                                 else {}).caption  # fmt: skip
    assert caption.startswith(f"{text} with {beside}; {trials} trials.") and note in caption
    assert "Band and dots" not in caption  # those of another panel
    if "standard_error" in found:
        text, beside = text.removesuffix(", tuned: mean").removesuffix(", frontier: mean"), None
    beside = beside or "standard errors"
    latex = found.dpjax.latex(axis).replace(r"\,\%", " %")
    assert text in latex and f" with {beside}; {trials} trials." in latex and note in latex
    label = {"epsilon": "privacy parameter epsilon", "horizon": "horizon T, rounds"}[axis]
    label = "declared epsilon at most" if name == "frontier" else label
    assert f"{{{label}}} & " in latex


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_has_the_trials_that_were_held_out(settings, name):
    """`slope` of what `tune` returned once ended in "the data have no 'final_regret'"."""
    found = CHOICES[name](settings.dpjax)
    assert found.sizes["trial"] == 20
    np.testing.assert_allclose(found["final_regret"].mean("trial"), found["mean"])
    np.testing.assert_allclose(found.dpjax.slope()["slope"], 0.5)
    assert "; 20 trials." in found.isel(horizon=0).dpjax.latex("epsilon")
    assert "the privacy cost of tuning" in found.isel(horizon=0).dpjax.latex("epsilon")


@pytest.mark.parametrize("name", CHOICES)
def test_the_trials_of_a_choice_are_those_that_count(settings, name):
    failed = settings.copy(deep=True)
    failed["final_regret"][{"trial": 25, "horizon": 0, "learner": 0, "epsilon": 0}] = np.nan
    with pytest.warns(RuntimeWarning, match="do not count"):
        found = CHOICES[name](failed.dpjax)
    np.testing.assert_allclose(found["final_regret"].mean("trial"), found["mean"])


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/guides/clusters.md"])
def test_the_table_on_a_page_shows_a_small_delta(data, page, capsys):
    """A delta of 6e-8 was rounded to 0.0, which is pure differential privacy."""
    (line,) = re.findall(
        r"^ *(print\(data.dpjax.table.*\))$", (ROOT / page).read_text(), re.MULTILINE
    )
    exec(line, {"data": data.assign_coords(privacy_delta=data["privacy_delta"] + 5.96e-8)})
    assert "5.96e-08" in capsys.readouterr().out
