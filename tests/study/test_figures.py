"""A study's figures must not hide a curve, a label or a line of the legend."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import xarray
from matplotlib import colors

import dpjax.report.accessor  # noqa: F401
from dpjax.report import figures as plot

EPSILONS = [np.inf, 243.0, 26.6, 10.0, 1.0, 0.1]
ROUNDS = np.linspace(2048, 2**18, 128).astype(int)


@pytest.fixture(scope="module")
def data():
    """Regret of one learner at six levels against four adversaries, over 2^18 rounds."""
    dims = ("learner", "environment", "epsilon", "trial", "round")
    values = np.ones((1, 4, 6, 8, 1)) * np.arange(1.0, 7.0)[:, None, None] * ROUNDS
    values = values + np.arange(8.0)[:, None]
    names = {"learner": ["EXP3"], "environment": list("abcd"), "epsilon": EPSILONS}
    return xarray.Dataset({"regret": (dims, values)}, {**names, "round": ROUNDS})


@pytest.fixture(scope="module")
def drawn(data):
    figure = plot.figure(data, "round", color="epsilon", panel="environment", note="A note.")
    figure.draw_without_rendering()
    return figure


def test_levels_are_told_apart_by_colour_and_by_line(drawn):
    """Two greens were once 0.12 apart, in a cube of side 1. Without noise is black."""
    lines = drawn.axes[0].get_lines()
    found = [np.array(colors.to_rgb(line.get_color())) for line in lines]
    assert min(np.linalg.norm(a - b) for a, b in combinations(found, 2)) > 0.2
    assert lines[0].get_color() == "#000000"
    assert len({str(line.get_linestyle()) for line in lines}) >= 4


def test_ticks_do_not_run_together(drawn):
    """With a label at each 50000 rounds there was no gap between them."""
    for axes in drawn.axes[:4]:
        left, right = axes.get_xlim()
        labels = [
            tick.label1.get_window_extent()
            for tick in axes.xaxis.get_major_ticks()
            if left <= tick.get_loc() <= right and tick.label1.get_visible()
        ]
        assert all(b.x0 - a.x1 > 0.1 * b.width for a, b in pairwise(labels))


def test_sizes_with_long_labels_have_no_tick_each():
    """Eight floors from 25386.2 to 3.61447e+07 were once printed over each other."""
    floors = [25386.2, 71629.3, 202108.0, 570263.0, 1609040.0, 4540040.0, 1.28101e7, 3.61447e7]
    values = np.arange(8.0)[:, None] + np.arange(1.0, 5.0)
    one = xarray.Dataset({"final_regret": (("floor", "trial"), values)}, {"floor": floors})
    (axes,) = plot.figure(one, "floor").axes
    shown = [label.get_text() for label in axes.get_xticklabels()]
    assert axes.get_xscale() == "log" and "25386.2" not in shown


def test_rounds_that_are_spaced_geometrically_have_a_logarithmic_axis(data):
    some = data.sel(environment="a", epsilon=10.0)
    spaced = some.isel(round=[0, 1, 2, 4, 8, 16, 32, 64, 127])
    assert plot.figure(spaced, "round").axes[0].get_xscale() == "log"
    assert plot.figure(some, "round").axes[0].get_xscale() == "linear"


def test_the_legend_covers_no_panel_and_the_note_is_in_the_caption(drawn):
    (legend,) = drawn.legends
    for axes in drawn.axes:
        assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert drawn.get_supxlabel().endswith("A note.")


@pytest.fixture(scope="module")
def mixed():
    """A learner that takes epsilon, and one that takes none and declares 11.6."""
    values = np.array([[9.0, 4.0, 2.0], [1.5] * 3])[..., None] + 0.1 * np.arange(8.0)
    declared = (("learner", "epsilon"), [[0.1, 1.0, np.inf], [11.6] * 3])
    models = (("learner", "epsilon"), np.full((2, 3), "central", object))
    return xarray.Dataset(
        {"final_regret": (("learner", "epsilon", "trial"), values),
         "regret": (("learner", "epsilon", "trial", "round"), values[..., None] * [0.5, 1.0])},
        {"learner": ["private", "fixed"], "epsilon": [0.1, 1.0, np.inf], "round": [5, 10],
         "takes_epsilon": ("learner", [True, False]), "privacy_epsilon": declared,
         "privacy_model": models},
    )  # fmt: skip


def test_a_learner_that_takes_no_epsilon_has_one_mark_beside_all_epsilons(mixed):
    """It was once drawn flat across all of them, as if it had received each epsilon."""
    drawn = plot.figure(mixed, "epsilon", color="learner")
    (axes,) = drawn.axes
    curve, mark = (line for line in axes.get_lines() if line.get_color() != "0.85")
    assert len(curve.get_xdata()) == 3 and len(mark.get_xdata()) == 1
    assert mark.get_xdata()[0] > max(curve.get_xdata())
    assert mark.get_ydata()[0] == pytest.approx(1.85)
    assert [text.get_text() for text in axes.texts] == ["∞", "none"]
    assert "fixed central (takes no epsilon, declares 11.6)" in " ".join(
        drawn.get_supxlabel().split()
    )


def test_a_learner_that_takes_no_epsilon_has_one_curve_in_grey(mixed):
    """Three curves in three colours once covered each other."""
    drawn = plot.figure(mixed, "round", color="epsilon", panel="learner")
    assert [len(axes.get_lines()) for axes in drawn.axes] == [3, 1]
    assert drawn.axes[1].get_lines()[0].get_color() == plot._NONE
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert texts == ["epsilon", "0.1", "1", "∞", "none"]


def test_bounds_across_are_lines_with_names_in_the_legend():
    values = np.arange(8.0) + np.array([[1.0], [5.0], [2.0]])
    one = xarray.Dataset({"final_regret": (("gap", "trial"), values)}, {"gap": [0.1, 0.2, 0.3]})
    drawn = plot.figure(one, "gap", estimate="profile", across={"minimax": 30.0, "other": 40.0})
    (axes,) = drawn.axes
    flat = [line for line in axes.get_lines() if len({*line.get_ydata()}) == 1]
    assert [line.get_ydata()[0] for line in flat] == [30.0, 40.0]
    assert axes.get_ylim()[1] > 40.0
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert texts == ["minimax", "other"]
    assert flat[0].get_linestyle() != flat[1].get_linestyle()
