"""What figures of the papers must not do: hide a mark, a label or a line of the legend."""

import numpy as np

from dpjax.analysis import plot
from dpjax.papers import sajed2019


def test_an_epsilon_of_zero_has_no_place_on_a_logarithmic_axis():
    """DP-UCB-Int, asked for 0.03, releases nothing and declares 0."""
    _, (axes,) = plot.panels(1, 1, (4, 3))
    runs = [
        sajed2019.Run("DP-UCB-Int", "C2", asked, declared, 0.0, np.array([10]), np.ones((8, 1)))
        for asked, declared in ((0.03, 0.0), (0.1, 0.05), (1.0, 0.7), (np.inf, np.inf))
    ]
    sajed2019._against_epsilon(axes, runs, [run.epsilon for run in runs])
    np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), [0.05, 0.7])


def test_ticks_stand_at_the_sizes_that_were_run():
    _, (axes,) = plot.panels(1, 1, (4, 3))
    axes.loglog([4, 16], [1, 2])
    plot.ticks_at(axes.xaxis, [16, 4, 8, 4])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16"]
    assert len(axes.get_xticks(minor=True)) == 0
