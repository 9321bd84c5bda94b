"""Figures of the papers must not hide a mark, a label or a line of the legend."""

import numpy as np
import xarray

import dpjax.report.accessor  # noqa: F401
from dpjax.papers import _shared as shared
from dpjax.report import plot


def test_ticks_stand_at_the_sizes_that_were_run():
    _, (axes,) = plot.panels(1, 1, (4, 3))
    axes.loglog([4, 16], [1, 2])
    plot.ticks_at(axes.xaxis, [16, 4, 8, 4])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8", "16"]
    assert len(axes.get_xticks(minor=True)) == 0


def test_lines_go_over_their_panels_in_the_colours_that_they_name():
    values = np.arange(1.0, 25.0).reshape(2, 2, 3, 2)
    data = xarray.Dataset(
        {"final_regret": (["instance", "learner", "epsilon", "trial"], values)},
        {"instance": ["a", "b"], "learner": ["A", "B"], "epsilon": [0.1, 1.0, 10.0]},
    )
    bound = xarray.DataArray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
                             {"instance": ["a", "b"], "epsilon": data.epsilon.values})  # fmt: skip
    lines = [(bound, {"label": "bound"}), (10.0 * bound, {"like": 1})]
    drawn = shared.figure(data, "epsilon", lines, color="learner", panel="instance")
    for axes, wanted in zip(drawn.axes, bound.values, strict=True):
        _, second, first, other = axes.get_lines()
        np.testing.assert_array_equal(first.get_ydata(), wanted)
        np.testing.assert_array_equal(other.get_ydata(), 10.0 * wanted)
        assert other.get_color() == second.get_color() != first.get_color()
        assert axes.get_xscale() == axes.get_yscale() == "log"
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()][-3:] == ["A", "B", "bound"]


def test_no_number_is_written_over_the_mark_of_infinity():
    values = np.geomspace(1.0, 100.0, 40).reshape(1, 1, 10, 4)
    epsilons = [*np.geomspace(0.001, 10.0, 9).tolist(), np.inf]
    data = xarray.Dataset(
        {"final_regret": (["instance", "learner", "epsilon", "trial"], values)},
        {"instance": ["a"], "learner": ["A"], "epsilon": epsilons},
    )
    (axes,) = shared.figure(data, "epsilon", color="learner", panel="instance").axes
    (mark,) = [text.xy[0] for text in axes.texts if text.get_text() == "∞"]
    assert axes.get_xscale() == "log" and len(axes.get_xticks()) > 1
    assert max(axes.get_xticks()) < 0.7 * mark
    axes.set_xscale("log")  # replaces the ticks
    assert max(axes.get_xticks()) > 0.7 * mark


def test_a_line_without_values_keeps_its_colour_and_its_name():
    """Here the first mechanism has no values on the first panel."""
    errors = xarray.DataArray(
        [[[np.nan, np.nan], [1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]],
        {"noise": ["first", "second"], "mechanism": ["m", "n"], "round": [1, 2]},
    ).expand_dims(kind=["any"])
    drawn = shared.lines_figure(errors, "round", "mechanism", ("kind", "noise"), ylabel="error")
    one, two = ([line.get_color() for line in axes.get_lines()] for axes in drawn.axes)
    assert one == two and len(set(one)) == 2
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["m", "n"]
