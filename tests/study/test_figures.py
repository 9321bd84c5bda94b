"""A study's figures must not hide a curve, a label or a line of the legend."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import xarray
from matplotlib import colors
from matplotlib.text import Text

import dpjax.report.accessor  # noqa: F401
from dpjax.report import figures as plot
from dpjax.report import latex
from dpjax.report.plot import save

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


@pytest.mark.parametrize("style", [None, "icml-column"])
@pytest.mark.parametrize(
    "epsilons", [[10.0, np.inf], [0.05, 0.1, 1.0, 10.0, 100.0, np.inf], [1.0, 2.0, 3.5]]
)
def test_ticks_are_at_the_values_and_do_not_touch(epsilons, style):
    """An axis of 10 and infinity had a tick at 20, and 0.05 touched 0.1."""
    values = np.arange(3.0) + np.arange(len(epsilons), dtype=float)[:, None] * np.ones((2, 1, 1))
    dims = ("environment", "epsilon", "trial")
    data = xarray.Dataset({"final_regret": (dims, values)},
                          {"environment": ["a", "b"], "epsilon": epsilons})  # fmt: skip
    drawn = plot.figure(data, "epsilon", panel="environment", style=style)
    drawn.draw_without_rendering()
    ticks = drawn.axes[-1].xaxis.get_major_ticks()
    shown = [tick for tick in ticks if tick.label1.get_text()]
    if np.inf in epsilons:
        assert {tick.get_loc() for tick in ticks} == {*epsilons} - {np.inf}
    assert len(shown) >= min(len(epsilons) - 1, 3)
    boxes = [tick.label1.get_window_extent() for tick in shown]
    assert all(b.x0 > a.x1 for a, b in pairwise(boxes))


def test_pairs_that_were_not_played_have_no_mark_beyond_an_axis(data):
    """In a sum of two studies, each learner has environments of its own."""
    size, regret = [4, 8], np.full((2, 2, 3, 2), np.nan)
    regret[0, 0], regret[1, 1] = 1.0, 2.0
    dims, takes = ("learner", "environment", "trial", "size"), np.eye(2, dtype=bool)

    def marks(takes):
        coordinates = {"takes_size": (dims[:2], takes), "size": size}
        played = xarray.Dataset({"final_regret": (dims, regret)}, coordinates)
        drawn = plot.figure(played, "size", color="learner", panel="environment")
        return [text.get_text() for panel in drawn.axes for text in panel.texts]

    assert marks(takes) == []
    takes[0, 0] = False
    assert marks(takes) == ["unused", "unused"]


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
    assert [text.get_text() for text in axes.texts] == ["∞", "unused"]
    assert "central model (private, fixed at epsilon = 11.6)." in drawn.caption


def test_a_learner_that_takes_no_epsilon_has_one_curve_in_grey(mixed):
    """Three curves in three colours once covered each other."""
    drawn = plot.figure(mixed, "round", color="epsilon", panel="learner")
    assert [len(axes.get_lines()) for axes in drawn.axes] == [3, 1]
    assert drawn.axes[1].get_lines()[0].get_color() == plot._NONE
    texts = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert texts == ["epsilon", "0.1", "1", "∞", "unused"]


@pytest.fixture(scope="module")
def settings():
    """A learner whose best of three rates is 0.01 at epsilon = 0.1 and 1.0 at 10; 0.1 is near it.

    The second learner takes no rate.
    """
    dims = ("learner", "epsilon", "rate", "trial")
    means = np.array([[[5.0, 5.0, 9.0], [9.0, 3.0, 3.0]], [[7.0] * 3] * 2])
    noise = np.random.default_rng(0).normal(size=(2, 2, 3, 40))
    noise[1] = noise[1, 0, 0]
    values = means[..., None] + noise
    values[0, 0, 0] -= 0.05
    values[0, 1, 2] -= 0.05
    return xarray.Dataset(
        {"final_regret": (dims, values)},
        {"learner": ["tuned", "fixed"], "epsilon": [0.1, 10.0], "rate": [0.01, 0.1, 1.0],
         "horizon": 64, "takes_rate": ("learner", [True, False]),
         "takes_epsilon": ("learner", [True, True]),
         "privacy_epsilon": (dims[:3], np.broadcast_to([[0.1], [10.0]], (2, 2, 3))),
         "privacy_model": (dims[:3], np.full((2, 2, 3), "local", object))},
    )  # fmt: skip


def edges(axes):
    """The lower and the upper ends of each band of a panel, by x."""
    found = []
    for band in axes.collections:
        corners = band.get_paths()[0].vertices
        found.append({x: (own.min(), own.max()) for x in sorted({*corners[:, 0]})
                      for own in [corners[corners[:, 0] == x, 1]]})  # fmt: skip
    return found


def test_a_tuned_learner_has_its_best_settings_and_its_regret(settings):
    """The band of the settings goes from the least candidate to the largest."""
    found = settings.dpjax.tune("rate")
    drawn = found.dpjax.figure("epsilon", color="learner")
    best, regret = drawn.axes
    assert (best.get_ylabel(), regret.get_ylabel()) == ("best learning rate", "regret at T, tuned")
    own = found.sel(learner="tuned")
    assert own["chosen_rate"].values.tolist() == best.get_lines()[0].get_ydata().tolist()
    candidates = [[0.01, 0.1], [0.1, 1.0]]
    assert [own["rate"].values[one].tolist() for one in own["candidate"].values] == candidates
    unused = {0.1: (3.0, 3.0), 10.0: (3.0, 3.0)}  # the fixed one has no rate
    assert edges(best) == [{0.1: (0.01, 0.1), 10.0: (0.1, 1.0)}, unused]
    assert [t.get_text() for t in best.get_yticklabels()] == ["0.01", "0.1", "1", "unused"]
    dots = best.get_lines()[1]
    assert [*zip(*dots.get_data(), strict=True)] == [
        (0.1, 0.01), (0.1, 0.1), (10.0, 0.1), (10.0, 1.0)
    ]  # fmt: skip
    assert best.get_yscale() == "log"
    means = found["mean"].values.tolist()
    assert [line.get_ydata().tolist() for line in regret.get_lines()] == means
    low = found["low"].sel(learner="tuned").values
    assert [edges(regret)[0][x][0] for x in (0.1, 10.0)] == pytest.approx(low)
    text = " ".join(drawn.get_supxlabel().split())
    for sentence in (
        "Best learning rate: the least mean of 20 trials, with the settings that are not "
        "significantly worse in the other trials, at 95 %.",
        "Regret at T, tuned: mean with Student's 95 % confidence intervals; 20 to 40 trials.",
        "Tuned in each cell, on the other half of the trials: learning rate (tuned). The others "
        "are estimated from all trials.",
        "No epsilon includes the privacy cost of tuning on the data.",
        "Declared privacy: local model.",
    ):
        assert sentence in text


def test_a_learner_without_the_tuned_axis_keeps_all_trials(settings):
    """It was estimated from half of the trials, and had a chosen rate."""
    found = settings.dpjax.tune("rate")
    fixed = found.sel(learner="fixed")
    whole = settings.isel(rate=0).sel(learner="fixed").dpjax.mean()
    for name in whole:
        np.testing.assert_allclose(fixed[name], whole[name])
    assert fixed["chosen_rate"].isnull().all() and not fixed["candidate"].any()
    assert found.dpjax.table()["trials"].tolist() == [20, 20, 40, 40]
    assert found.sizes["trial"] == 20  # those of the second half, paired
    alone = settings.sel(learner=["fixed"]).dpjax.tune("rate")
    assert alone.sizes["trial"] == 40
    assert alone.attrs["note"] == "Not tuned, because no learner takes rate."
    best = settings.copy(deep=True)
    best["final_regret"][1] -= 9.0
    levels = best.dpjax.frontier(settings=["learner", "rate", "epsilon"])
    assert {*levels["chosen_learner"].values} == {"fixed"}
    assert levels["chosen_rate"].isnull().all()


def test_equal_curves_and_marks_are_all_visible(mixed):
    """Each was drawn exactly on the one before."""
    same = mixed.isel(learner=[0, 0, 0, 1, 1])
    same = same.assign_coords(learner=list("abcde"))
    drawn = same.dpjax.figure("epsilon", color="learner")
    lines = drawn.axes[0].get_lines()
    curves = [line for line in lines if len(line.get_xdata()) == mixed.sizes["epsilon"]]
    for looks in (curves, [line for line in lines if line.get_linestyle() == "None"]):
        assert len({line.get_markersize() for line in looks}) == len(looks) > 1
        order = sorted(looks, key=lambda line: line.get_zorder(), reverse=True)
        assert order == sorted(looks, key=lambda line: line.get_markersize())
    assert len({line.get_linewidth() for line in curves}) == 3
    assert "A wider curve or mark is equal to the one on it." in drawn.caption
    assert "wider" not in mixed.dpjax.figure("epsilon", color="learner").caption


def test_one_quantity_of_a_tuned_learner_and_panels_beside(settings):
    found = settings.dpjax.tune("rate")
    (axes,) = found.dpjax.figure("epsilon", color="learner", of="mean").axes
    assert axes.get_ylabel() == "regret at T, tuned"
    drawn = found.dpjax.figure("epsilon", panel="learner")
    assert [axes.get_title() for axes in drawn.axes] == ["tuned", "tuned", "fixed", "fixed"]
    words = settings.assign_coords(rate=["slow", "own", "fast"]).dpjax.tune("rate")
    axes = words.sel(learner="tuned").dpjax.figure("epsilon").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["slow", "own", "fast"]
    assert axes.get_lines()[0].get_ydata().tolist() == [0.0, 2.0]


def test_a_tuned_learner_declares_as_its_chosen_setting(settings):
    own = np.array([[[0.3, 0.2, 0.1], [30.0, 20.0, 10.0]]] * 2)
    declared = settings.assign_coords(privacy_epsilon=(("learner", "epsilon", "rate"), own))
    found = declared.dpjax.tune("rate")
    assert found["chosen_rate"].sel(learner="tuned").values.tolist() == [0.01, 1.0]
    assert found["privacy_epsilon"].sel(learner="tuned").values.tolist() == [0.3, 10.0]


def test_two_axes_of_panels_have_room_for_one_quantity(settings):
    two = settings.expand_dims(environment=["a", "b"]).dpjax.tune("rate")
    drawn = two.dpjax.figure("epsilon", of="mean", panel=("learner", "environment"))
    assert len(drawn.axes) == 4


def marks(axes):
    """The points of each curve or mark of a panel, by its colour."""
    lines = [line for line in axes.get_lines() if line.get_color() != "0.85"]
    return {str(line.get_color()): [*zip(*map(np.ndarray.tolist, map(np.asarray, line.get_data())),
                                         strict=True)] for line in lines}  # fmt: skip


def beside(*panels):
    """Data of one curve in each panel, which goes through the given means."""
    values = np.array(panels)[..., None] + 1e-3 * np.arange(4.0)
    return xarray.Dataset(
        {"final_regret": (("panel", "arms", "trial"), values)},
        {"panel": [*"abcd"][: len(panels)], "arms": np.arange(len(panels[0]))},
    )


@pytest.mark.parametrize("panels", [([2.0, 4.0], [10.0, 30.0]), ([30.0, 3e3], [2.0, 900.0])])
def test_panels_share_their_axis_unless_each_has_its_own(panels):
    """On a logarithmic axis, curves of later panels below the first one were cut off."""
    drawn = beside(*panels).dpjax.figure("arms", panel="panel")
    one, two = drawn.axes
    low, high = one.get_ylim()
    assert (low, high) == two.get_ylim() and low < np.min(panels) and high > np.max(panels)
    drawn.draw_without_rendering()
    ticks = [*two.yaxis.get_major_ticks(), *two.yaxis.get_minor_ticks()]
    assert not any(tick.label1.get_visible() and tick.label1.get_text() for tick in ticks)
    one, two = beside(*panels).dpjax.figure("arms", panel="panel", share_y=False).axes
    assert one.get_ylim() != two.get_ylim()
    assert all(tick.label1.get_visible() for tick in two.yaxis.get_major_ticks())


@pytest.mark.parametrize(("least", "scale"), [(1.0, "log"), (-1.0, "linear")])
def test_all_panels_have_one_scale(least, scale):
    """One panel alone would be logarithmic, and they once had two scales without a word."""
    data = beside([1.0, 400.0], [300.0 * least, 400.0])
    one, two = data.dpjax.figure("arms", panel="panel").axes
    assert one.get_yscale() == two.get_yscale() == scale
    one, two = data.dpjax.figure("arms", panel="panel", share_y=False).axes
    assert one.get_yscale() == two.get_yscale() == scale


def test_a_panel_that_was_not_played_stays_empty():
    data = beside([20.0, 40.0], [np.nan, np.nan])
    one, two = data.dpjax.figure("arms", panel="panel").axes
    assert one.get_lines() and not two.get_lines()


@pytest.mark.parametrize(
    ("style", "width", "size"),
    [("icml-column", 3.25, 8), ("jmlr", 6.0, 9)],
)  # fmt: skip
def test_a_style_sets_the_width_and_all_fonts(mixed, settings, style, width, size):
    """Nothing is outside of the page, and the legend is above all panels."""
    for drawn in (
        mixed.dpjax.figure("round", color="learner", panel="epsilon", style=style),
        settings.dpjax.tune("rate").dpjax.figure("epsilon", color="learner", style=style),
    ):
        drawn.draw_without_rendering()
        assert drawn.get_figwidth() == width
        texts = [text for text in drawn.findobj(Text) if text.get_text()]
        assert {text.get_fontsize() for text in texts} == {size}
        whole = drawn.bbox.padded(1.0)
        for text in texts:
            if text.get_visible() and text.get_window_extent().width:
                extent = text.get_window_extent()
                assert whole.x0 <= extent.x0 and extent.x1 <= whole.x1, text
        legend = drawn.legends[0].get_window_extent()
        assert legend.y0 > max(axes.get_window_extent().y1 for axes in drawn.axes)
        heights = [axes.get_window_extent().height / drawn.dpi for axes in drawn.axes]
        assert min(heights) > 0.7  # of a panel in inches


@pytest.mark.parametrize(
    ("curves", "name", "style"),
    [(21, "L", None), (40, "a learner with a long name, ", None), (4, "of a long name " * 9, None),
     (12, "a learner with a long name, ", "icml-column"), (40, "L", "neurips")],
)  # fmt: skip
def test_each_text_is_inside_of_the_figure_and_no_two_overlap(curves, name, style):
    """The legend was cut off from 20 curves on, and long names were cut off or overlapped."""
    names = [f"{name}{i}" for i in range(curves)]
    values = np.arange(4.0 * 4 * curves).reshape(4, curves, 4)
    data = xarray.Dataset(
        {"final_regret": (("panel", "learner", "trial"), values)},
        {"panel": ["a panel with a long name, 1", "the second one has one that is longer", "", ""],
         "learner": names},
    )  # fmt: skip
    beside = data.isel(panel=[0, 1]).expand_dims(x=[1, 2])
    drawn = beside.dpjax.figure("x", color="learner", panel="panel", style=style)
    drawn.draw_without_rendering()
    texts = [*drawn.legends[0].get_texts(), *(axes.title for axes in drawn.axes)]
    boxes = [text.get_window_extent() for text in texts if text.get_text()]
    whole = drawn.bbox.padded(1.0)
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in boxes)
    assert all(whole.y0 <= box.y0 and box.y1 <= whole.y1 for box in boxes)
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert min(axes.get_window_extent().width for axes in drawn.axes) > 0.8 * drawn.dpi


def closest(axis):
    """The distance of the two nearest lines of labels of an x axis, in heights of a line.

    For horizontal labels, it is the smallest gap between two labels.
    """
    left, right = axis.get_view_interval()
    ticks = [tick for tick in axis.get_major_ticks() if left <= tick.get_loc() <= right]
    labels = [tick.label1 for tick in ticks if tick.label1.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    height = labels[0].get_fontsize() * axis.get_figure().dpi / 72
    turn = np.deg2rad(labels[0].get_rotation())
    if not turn:
        return min(b.x0 - a.x1 for a, b in pairwise(boxes)) / height
    return min(b.x1 - a.x1 for a, b in pairwise(boxes)) * np.sin(turn) / height


@pytest.mark.parametrize(
    ("count", "length", "style"),
    [(4, 4, "ieee-column"), (8, 4, None), (15, 4, "neurips"), (20, 22, "ieee-column"),
     (34, 22, None)],
)  # fmt: skip
def test_words_along_an_axis_do_not_overlap(count, length, style):
    """Three panels of 12 names, and one of 34, once had names over each other."""
    names = [f"{i:02}{'m' * (length - 2)}" for i in range(count)]
    values = np.arange(3.0 * count * 4).reshape(3, count, 4)
    data = xarray.Dataset({"final_regret": (("environment", "learner", "trial"), values)},
                          {"environment": list("abc"), "learner": names})  # fmt: skip
    drawn = data.dpjax.figure("learner", panel="environment", style=style)
    drawn.draw_without_rendering()
    labelled = [axes.xaxis for axes in drawn.axes if axes.get_xlabel()]
    assert labelled and min(map(closest, labelled)) > 0.9


def test_a_caption_may_be_left_out_and_is_a_text(mixed):
    drawn = mixed.dpjax.figure("epsilon", color="learner", note="A note = 5 % of it.")
    bare = mixed.dpjax.figure("epsilon", color="learner", note="A note = 5 % of it.", caption=False)
    assert bare.get_supxlabel() == ""
    assert bare.caption == drawn.caption == " ".join(drawn.get_supxlabel().split())
    assert "\n" not in bare.caption and bare.caption.endswith("A note = 5 % of it.")
    assert latex.escaped(bare.caption).endswith(r"A note = 5 \% of it.")


def test_numbers_of_a_caption_are_not_broken_from_their_names(mixed):
    drawn = mixed.dpjax.figure("epsilon", color="learner", note="T = 5, " * 40)
    lines = [line.split() for line in drawn.get_supxlabel().split("\n")]
    assert len(lines) > 3
    assert not any("=" in (words[0], words[-1]) for words in lines)


def test_fonts_of_a_pdf_are_truetype(mixed, tmp_path):
    """Also of a file that a command writes."""
    drawn = mixed.dpjax.figure("epsilon", color="learner")
    drawn.savefig(tmp_path / "mine.pdf", metadata={"CreationDate": None})
    save(drawn, tmp_path, "saved")
    for name in ("mine", "saved"):
        assert b"/Type3" not in (tmp_path / f"{name}.pdf").read_bytes()
    assert b"/CIDFontType2" in (tmp_path / "mine.pdf").read_bytes()


def test_learners_of_one_model_are_named_together():
    """With several settings, a learner that takes no epsilon declares a range."""
    names, pair = ["a", "b", "c", "d"], ("learner", "rate")
    models = np.repeat([["central"], ["local"], ["central"], [""]], 2, axis=1).astype(object)
    epsilons = np.array([[1.0, 1.0], [1.0, 1.0], [20.0, 30.0], [np.inf, np.inf]])
    data = xarray.Dataset(
        {"final_regret": (("learner", "environment", "rate", "trial"), np.ones((4, 1, 2, 3)))},
        {"learner": names, "environment": ["only"], "rate": [0.1, 0.2], "parameter_bound": 2.0,
         "privacy_model": (pair, models), "privacy_epsilon": (pair, epsilons),
         "takes_epsilon": (("learner", "environment"), [[True], [True], [False], [False]])},
    )  # fmt: skip
    text = data.dpjax.figure("rate", color="learner").caption
    assert (
        "Declared privacy: central model (a, c at epsilon = 20 to 30); local model (b); none (d)."
        in text
    )
    assert "norm of the parameter S = 2." in text
    alone = data.sel(learner=["b"]).dpjax.figure("rate").caption
    assert alone.endswith(
        "Declared privacy: local model. A curve without a band: all trials have the same value."
    )


def test_learners_whose_declared_epsilon_differs_from_the_axis_are_named(horizons):
    """A panel "epsilon = 1" held a learner that declares 4.1."""
    own = horizons.isel(horizon=[0]).copy(deep=True)
    assert "central model (private)" in own.dpjax.figure("epsilon", color="learner").caption
    own["privacy_epsilon"].loc[{"learner": "private", "epsilon": 1.0}] = 4.1
    said = "central model (private with declared epsilon = 4.1 at epsilon = 1)"
    assert said in own.dpjax.figure("learner", panel="epsilon").caption
    assert said in own.dpjax.latex("epsilon")


def test_a_constant_is_that_of_the_learners_that_take_it(horizons):
    """A caption had "failure probability = 0.01" for a learner that takes none."""
    takes = ("learner", [True, False])
    own = horizons.isel(horizon=0).assign_coords(failure=0.01, takes_failure=takes)
    said = "failure probability = 0.01"
    assert f"{said} (private)." in own.dpjax.figure("epsilon", color="learner").caption
    assert f"{said} (private)." in own.dpjax.latex("epsilon")
    assert f"{said}." in own.sel(learner="private").dpjax.figure("epsilon").caption
    assert said not in own.sel(learner="plain").dpjax.figure("epsilon").caption


def test_a_curve_without_a_band_is_explained_if_there_is_one(mixed):
    flat = mixed.copy(deep=True)
    flat["final_regret"] = mixed["final_regret"].where(mixed["learner"] != "fixed", 3.0)
    sentence = "A curve without a band: all trials have the same value."
    assert sentence in flat.dpjax.figure("epsilon", color="learner").caption
    assert sentence not in mixed.dpjax.figure("epsilon", color="learner").caption
    # Other intervals may have no width though the trials differ.

    def median(array):
        return xarray.Dataset(dict.fromkeys(("median", "low", "high"), array.median("trial")))

    assert sentence not in flat.dpjax.figure("epsilon", color="learner", estimate=median).caption
    assert sentence in flat.dpjax.mean().dpjax.figure("epsilon", color="learner").caption
    single = flat.isel(trial=[0]).dpjax.figure("epsilon", color="learner", estimate="mean")
    assert sentence not in single.caption


@pytest.fixture(scope="module")
def horizons():
    """A learner that takes epsilon, and one that takes none, at four horizons."""
    size = np.array([64.0, 256.0, 1024.0, 4096.0])
    means = np.stack([size[:, None] ** 0.5 * [4.0, 2.0, 1.0], size[:, None] ** 0.75 * np.ones(3)])
    dims = ("learner", "horizon", "epsilon")
    values = means[..., None] * (1.0 + 0.01 * np.arange(8.0))
    return xarray.Dataset(
        {"final_regret": ((*dims, "trial"), values)},
        {"learner": ["private", "plain"], "horizon": size.astype(int), "arms": 4,
         "epsilon": [0.1, 1.0, np.inf], "environment": "coins",
         "takes_horizon": ("learner", [True, True]), "takes_epsilon": ("learner", [True, False]),
         "privacy_epsilon": (dims, np.stack([[[0.1, 1.0, np.inf]] * 4, np.full((4, 3), np.inf)])),
         "privacy_model": (dims, np.full((2, 4, 3), "central", object))},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("estimate", "label"),
    [(lambda own: own.mean(), "regret at T"),
     (lambda own: own.slope(), "exponent of regret at T in horizon"),
     (lambda own: own.quantile(0.9), "0.9-quantile of regret at T"),
     (lambda own: own.difference(learner="plain"), "regret at T minus that of plain"),
     (lambda own: own.worst("horizon"), "regret at T")],
)  # fmt: skip
def test_the_axis_of_an_estimate_names_it_and_a_learner_without_epsilon_has_a_mark(
    horizons, estimate, label
):
    """An exponent was once called "regret at T", and the plain learner was drawn as a line."""
    found = estimate(horizons.dpjax)
    found = found.isel(horizon=0) if "horizon" in found.dims else found
    (axes,) = found.dpjax.figure("epsilon", color="learner").axes
    assert axes.get_ylabel() == label
    private, plain = marks(axes).values()
    assert len(private) == 3 and len(plain) == 1 and plain[0][0] > private[-1][0]
    assert [text.get_text() for text in axes.texts] == ["∞", "unused"]


def test_an_estimate_by_name_has_the_same_label_and_the_variable_its_own(horizons):
    (axes,) = horizons.dpjax.figure("epsilon", color="learner", estimate="slope").axes
    assert axes.get_ylabel() == "exponent of regret at T in horizon"
    horizons = horizons.copy()
    horizons["final_regret"] = horizons["final_regret"].assign_attrs(long_name="cost")
    for drawn in (horizons.dpjax.figure("epsilon", color="learner", estimate="slope"),
                  horizons.dpjax.slope().dpjax.figure("epsilon", color="learner")):  # fmt: skip
        assert drawn.axes[0].get_ylabel() == "exponent of cost in horizon"


def test_single_marks_of_several_lines_differ_and_are_in_the_legend(horizons):
    """Four horizons once shared one mark beyond the axis."""
    drawn = horizons.dpjax.figure("epsilon", color="learner", line="horizon")
    (axes,) = drawn.axes
    single = [line for line in axes.get_lines() if len(line.get_xdata()) == 1]
    fills = [line.get_fillstyle() for line in single]
    assert len({*fills}) == 4
    assert [line.get_fillstyle() for line in drawn.legends[0].get_lines()[-4:]] == fills


def test_the_only_learner_and_environment_are_in_the_caption_and_the_latex_note(horizons):
    own = horizons.isel(learner=[0], horizon=[3])
    words = "Learner: private, environment: coins. T = 4096, K = 4."
    assert words in own.dpjax.figure("epsilon").caption
    assert words in own.dpjax.latex("epsilon")
    assert (
        "Learner" not in horizons.dpjax.figure("epsilon", color="learner", panel="horizon").caption
    )


def test_curves_across_follow_the_axis_and_the_panels(horizons):
    own, ends = horizons.sel(learner="private"), {"horizon": [64, 256, 1024, 4096]}
    by_panel = xarray.DataArray([1.0, 2.0, 3.0, 4.0], ends, ["horizon"])
    both = by_panel * xarray.DataArray(
        [5.0, 6.0, 7.0], {"epsilon": own["epsilon"].values}, ["epsilon"]
    )
    across = {"list": [3.0, 2.0, np.inf], "panels": by_panel, "both": both, "number": 9}
    drawn = own.dpjax.figure("epsilon", panel="horizon", across=across)
    for i, axes in enumerate(drawn.axes):
        found = [line for line in axes.get_lines() if line.get_color() == "0.5"]
        expected = [3.0, 2.0, np.nan], [i + 1.0] * 2, (i + 1) * np.array([5.0, 6.0, 7.0]), [9.0] * 2
        for line, values in zip(found, expected, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), values)
        curve = axes.get_lines()[0].get_xdata()
        np.testing.assert_array_equal(found[2].get_xdata(), curve)
    assert found[0].get_linestyle() != found[1].get_linestyle()
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [*across]
