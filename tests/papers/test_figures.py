"""What figures of the papers must not do: hide a mark, a label or a line of the legend."""

import numpy as np
import xarray

from dpjax.papers import sajed2019, sajed2019_games
from dpjax.report import plot


def test_an_epsilon_of_zero_has_no_place_on_a_logarithmic_axis(monkeypatch):
    """DP-UCB-Int releases nothing and declares 0 if it is asked for very little."""
    monkeypatch.setattr(sajed2019_games, "BY_ROUNDS", {"DP-UCB-Int": None})
    asked, declared = [0.03, 0.1, 1.0, np.inf], [0.0, 0.05, 0.7, np.inf]
    dims = ["learner", "instance", "epsilon"]
    data = xarray.Dataset(
        {"final_regret": ([*dims, "trial"], np.ones((1, 1, 4, 8)))},
        {"learner": ["DP-UCB-Int"], "instance": ["C2"], "epsilon": asked,
         "privacy_epsilon": (dims, [[declared]])},
    )  # fmt: skip
    (axes,) = sajed2019.declared_figure(data).axes
    assert axes.get_xscale() == "log"
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), [0.05, 0.7])


def test_ticks_stand_at_the_sizes_that_were_run():
    _, (axes,) = plot.panels(1, 1, (4, 3))
    axes.loglog([4, 16], [1, 2])
    plot.ticks_at(axes.xaxis, [16, 4, 8, 4])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16"]
    assert len(axes.get_xticks(minor=True)) == 0
