"""What figures of the papers must not do: hide a mark, a label or a line of the legend."""

import csv
from itertools import combinations, pairwise

import numpy as np
import xarray
from matplotlib import colors

from dpjax.analysis import plot
from dpjax.papers import sajed2019_figures, sajed2019_games, shariff2018, tossou2017
from tests import ROOT


def test_levels_of_tossou_are_told_apart_by_colour():
    """26.6 and 10 were two greens 0.12 apart, of a cube of side 1."""
    shown = tossou2017.levels(2**18)
    epsilons = (*tossou2017.EPSILONS, shown.accounted, shown.paper, np.inf)
    found = [np.array(colors.to_rgb(tossou2017._color(epsilon, shown))) for epsilon in epsilons]
    assert min(np.linalg.norm(a - b) for a, b in combinations(found, 2)) > 0.3
    # Batches come in whole rounds: EXP3_tau's 9.96 is shown as 10.
    assert tossou2017._color(9.95584, shown) == tossou2017._color(10.0, shown)


def test_ticks_of_tossou_do_not_run_together():
    """With labels from 0 to 250000 at each 50000 there was no gap between them."""
    rounds = np.linspace(2048, 2**18, 128)
    runs = [
        tossou2017.Run(
            adversary, "EXP3", "", "central", 1.0, 0.0, 1.0, None, rounds,
            np.ones((24, 1)) * rounds, np.zeros(24), None, None,
        )
        for adversary in tossou2017.ADVERSARIES
    ]  # fmt: skip
    drawn = tossou2017.figure(runs, 2**18)
    drawn.draw_without_rendering()
    for axes in drawn.axes[:5]:
        left, right = axes.get_xlim()
        labels = [
            tick.label1.get_window_extent()
            for tick in axes.xaxis.get_major_ticks()
            if left <= tick.get_loc() <= right
        ]
        assert len(labels) >= 3
        width = labels[-1].width
        assert all(b.x0 - a.x1 > 0.2 * width for a, b in pairwise(labels))


def test_the_legend_of_the_floor_lies_over_no_bar():
    path = ROOT / "docs" / "papers" / "shariff2018" / "shariff2018_floor.csv"
    with open(path, newline="") as file:
        rows = [
            {key: text if key == "learner" else float(text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]
    drawn = shariff2018.floor_figure(rows)
    drawn.draw_without_rendering()
    legends = [*drawn.legends, *filter(None, (axes.get_legend() for axes in drawn.axes))]
    assert legends
    for legend in legends:
        for axes in drawn.axes:
            assert not legend.get_window_extent().overlaps(axes.get_window_extent())


def test_an_epsilon_of_zero_has_no_place_on_a_logarithmic_axis(monkeypatch):
    """DP-UCB-Int, asked for 0.03, releases nothing and declares 0."""
    monkeypatch.setattr(sajed2019_games, "BY_ROUNDS", {"DP-UCB-Int": None})
    asked, declared = [0.03, 0.1, 1.0, np.inf], [0.0, 0.05, 0.7, np.inf]
    dims = ["learner", "instance", "epsilon"]
    data = xarray.Dataset(
        {"final_regret": ([*dims, "trial"], np.ones((1, 1, 4, 8)))},
        {"learner": ["DP-UCB-Int"], "instance": ["C2"], "epsilon": asked,
         "privacy_epsilon": (dims, [[declared]])},
    )  # fmt: skip
    (axes,) = sajed2019_figures.declared_figure(data).axes
    assert axes.get_xscale() == "log"
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), [0.05, 0.7])


def test_ticks_stand_at_the_sizes_that_were_run():
    _, (axes,) = plot.panels(1, 1, (4, 3))
    axes.loglog([4, 16], [1, 2])
    plot.ticks_at(axes.xaxis, [16, 4, 8, 4])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16"]
    assert len(axes.get_xticks(minor=True)) == 0
