"""Figures of a study in one style, with captions from the data."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray
from matplotlib import colormaps, rc_context, ticker
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from dpjax.core import _check
from dpjax.report import arrays, captions, estimates, quantities
from dpjax.report.arrays import named
from dpjax.report.plot import TRUETYPE, label_axes, ticks_at

# Okabe and Ito's colour-blind safe colours, in an order of alternating lightness, and grey.
_COLORS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#CC79A7", "#009E73", "#F0E442",
           "#999999")  # fmt: skip
_NONE = "#999999"  # the colour of learners that do not take the axis of colours
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1)))
# Widths of the text or a column in inches, and font sizes in points, two below that of the text.
STYLES = {"neurips": (5.5, 8), "icml": (6.75, 8), "icml-column": (3.25, 8), "ieee": (7.16, 8),
          "ieee-column": (3.5, 8), "jmlr": (6.0, 9)}  # fmt: skip
# Fill styles of markers along the axis of lines, because a single mark has no line.
_FILLS = ("full", "none", "left", "right", "top", "bottom")
# Values that differ by more than this factor have a logarithmic axis.
_WIDE = 20.0


class Captioned(Figure):
    """A matplotlib figure with its caption in the attribute ``caption``.

    PDF files have TrueType fonts, because some publishers refuse type 3 fonts.
    """

    caption: str = ""

    def savefig(self, *args, **kwargs) -> None:
        with rc_context(TRUETYPE):
            super().savefig(*args, **kwargs)


def figure(
    data: xarray.Dataset,
    x: str,
    *,
    of: str | None = None,
    color: str | None = None,
    line: str | None = None,
    panel: str | Sequence[str] | None = None,
    estimate: str | Callable | None = None,
    confidence: float = 0.95,
    across: Mapping[str, Any] | None = None,
    share_y: bool = True,
    style: str | None = None,
    caption: bool = True,
    note: str = "",
) -> Captioned:
    """Draw curves of an estimate, with bands, along one axis of the data.

    Args:
      data: of a study, a part of it, or an estimate from a method of ``data.dpjax``. An estimate by
        ``tune`` has a panel for the best setting, with its candidates, and one for the tuned
        regret. Each axis with several values must be named below.
      x: the horizontal axis. ``inf`` is drawn at the right, followed by "unused" for learners or
        environments that do not take the axis.
      of: the variable: by default the regret, at the horizon unless x is the round. For an estimate
        by ``tune`` it is "mean" or, for example, "chosen_mixing"; by default both are shown.
      color: the axis shown by colours and markers. A learner that does not take it is grey.
      line: the axis shown by line styles.
      panel: the axis with a panel for each value, or a pair of axes, (rows, columns) of panels.
      estimate: the name of an estimator, or a function like one: it takes an array with the
        dimension trial and returns a Dataset whose first variable is the centre, with low and high.
        It may reduce other axes too, as "worst" does. By default the mean, with a band that is
        simultaneous along x; or the proportion, if each trial is 0 or 1.
      confidence: level of the intervals, unless the estimate is a function.
      across: labels -> lines of all panels, such as bounds: a number, a value for each of the x
        axis, or an ``xarray.DataArray`` along the x axis, the axes of the panels, or both. The
        label of a bound should name its theorem or function.
      share_y: whether all panels of one quantity have the same y axis. They always have the same
        scale, logarithmic or linear.
      style: the width and fonts of a page or column of a conference or journal: "neurips", "icml",
        "icml-column", "ieee", "ieee-column" or "jmlr". The legend is then above the panels.
      caption: whether the caption is written below the panels. The figure's attribute ``caption``
        always holds its text.
      note: sentences that are added to the caption.

    Returns:
      A matplotlib Figure with a legend and a caption; its method ``savefig`` writes PDF and PNG.

    Raises:
      TypeError: ``across`` is no dict.
      ValueError: an axis does not exist, is named twice, or has several values and is not named; no
        trial or estimate is finite; or a line of ``across`` has other axes.
    """
    facets = [panel] if isinstance(panel, str) else list(panel or ())
    if style is not None:
        _check.one_of(*STYLES, style=style)
    roles = {"x": x, "color": color, "line": line}
    roles |= dict(zip(("panel", "columns"), facets, strict=False))
    array, shown = _shown(data, of, roles, estimate, confidence)
    shown = [quantity.squeezed(roles.values()) for quantity in shown]
    along = quantities.along(array, x)
    across = quantities.lines(across, array, x, facets)
    if len(across) >= len(_LINES):
        raise ValueError(f"across: {len(across)} lines; at most {len(_LINES) - 1} can be drawn")
    panels = [(dict(zip(facets, values, strict=True)), quantity)
              for values in product(*(array[name].values for name in facets))
              for quantity in shown]  # fmt: skip
    page, font = STYLES.get(style or "", (None, 7.5))
    labels = [] if along.ticks.dtype.kind in "iuf" else [str(tick) for tick in along.ticks]
    upright = len(labels) * _room(font if page else 10)
    most = max(1, min(3 if page is None else int(page / 1.8), int((page or 11) / (upright or 1))))
    columns = 2 if len(panels) == 4 and most > 1 else min(len(panels), most)
    columns = array.sizes[facets[1]] if len(facets) == 2 else columns
    columns = min(most, len(shown)) if len(shown) > 1 else columns
    rows = -(-len(panels) // columns)
    wide = max(3.4, upright) if page is None else page / columns
    width, height = 2.2 + wide * columns, 1.1 + 2.7 * rows
    if page is not None:
        width, height = page, 0.4 + rows * np.clip(0.7 * page / columns, 1.6, 2.1)
    digit = 0.64 * (font if page else 10) / 72  # the width of a digit in inches
    slanted = sum(map(len, labels)) <= 60 and upright / np.sin(np.deg2rad(20)) <= wide
    if labels and not slanted:
        height += 0.07 * max(map(len, labels))
    title_width = int(3.4 * 72 / 6 if page is None else page / columns * 72 / (0.6 * font))
    drawn = Captioned(figsize=(width, height), layout="constrained")
    sharey: Any = share_y and (len(shown) == 1 or (columns == len(shown) and "col"))
    grid = drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=sharey)
    axes = grid.flatten()
    cells = [at for at, quantity in panels if quantity is shown[0]]
    logarithmic = [_is_wide([quantity.sel(at) for at in cells]) for quantity in shown]
    looks = _looks(array, color, line, x == "round", along.beyond is not None)
    flat = equal = 0
    for i, (at, quantity) in enumerate(panels):
        part = quantity.sel(at)
        counts = _curves(axes[i], part, array, along, looks, color, line)
        flat, equal = flat + counts[0], equal + counts[1]
        title = ", ".join(
            v if isinstance(v, str) else f"{n} = {quantities.text(v)}" for n, v in at.items()
        )
        title = textwrap.fill(title, title_width)
        below, left_most = i + columns >= len(panels), i % columns == 0 or len(shown) > 1
        label_axes(axes[i], title, xlabel=along.label if below else "",
                   ylabel=quantity.label if left_most else "")  # fmt: skip
        for values, kind in zip(across.values(), _LINES[1:], strict=False):
            look = {"color": "0.5", "linewidth": 1.0, "linestyle": kind}
            _line(axes[i], values.sel({n: v for n, v in at.items() if n in values.dims}),
                  along, look)  # fmt: skip
        _frame(axes[i], part, along, below, labels, slanted, 0.8 * wide / digit,
               logarithmic[i % len(shown)])  # fmt: skip
        axes[i].xaxis.set_tick_params(labelbottom=below)
    for item in axes[len(panels) :]:
        item.axis("off")
    parts = captions.caption(shown, array, roles.values())
    if flat and array.sizes.get("trial", 2) > 1:
        parts.append("A curve without a band: all trials have the same value.")
    if equal:
        parts.append("A wider curve or mark is equal to the one on it.")
    text = " ".join(filter(None, [*parts, note]))
    drawn.caption = text
    above = _legend(drawn, array, (color, line), looks, across, page and font)
    if caption:
        text = text.replace(" = ", "\u00a0=\u00a0").replace(" %", "\u00a0%")
        line_width = int(drawn.get_figwidth() * (15 if page is None else 130 / font))
        text = textwrap.fill(text, line_width, break_long_words=False, break_on_hyphens=False)
        drawn.supxlabel(text, x=0.01, ha="left", fontsize=font, color="0.25")
    if page is not None:
        for item in drawn.findobj(Text):
            item.set_fontsize(font)
        for item in axes:
            item.tick_params(labelsize=font)
            if upright > wide:
                item.tick_params(axis="x", labelsize=font * wide / upright)
        lines = text.count("\n") + 1 if caption else 0
        drawn.set_figheight(height + (1.3 * lines + 1.6 * above) * font / 72)
    return drawn


def _legend(drawn, array, axes, looks, across, font) -> int:
    """Draw the legend right of the panels, or above the panels.

    On the right, a large legend has two columns and makes the figure larger. ``font`` is the font
    size of a page, whose legend is above the panels, or None.

    Returns:
      The number of lines above the panels.
    """
    handles = []
    for name, entries in zip(axes, looks, strict=True):
        if name is None:
            continue
        title, untaken = name.replace("_", " "), quantities.NOT_USED
        words = array[name].dtype.kind not in "iuf"
        if font:
            title, untaken = ("", untaken) if words else (f"{title} = ", f"{title} {untaken}")
        else:
            handles.append(Line2D([], [], linestyle="", label=title))
            title = ""
        for value, look in entries.items():
            if name in array.dims and not array.sel({name: value}).notnull().any():
                continue  # no curve: it was not played
            marker = "o" if "fillstyle" in look else None
            look = {"color": "0.3", "markersize": 4, "marker": marker, **look}
            handles.append(Line2D([], [], **look, label=title + quantities.text(value)))
        if name == axes[0] and not quantities.takes_everywhere(array, name):
            handles.append(Line2D([], [], color=_NONE, label=untaken))
    handles += [Line2D([], [], color="0.5", linestyle=style, label=name)
                for name, style in zip(across, _LINES[1:], strict=False)]  # fmt: skip
    if not handles:
        return 0
    width, height = drawn.get_size_inches()
    most = int((width * 72 - 34) / 4.6) if font else 50
    labels = [textwrap.fill(str(handle.get_label()), most) for handle in handles]
    lines = sum(label.count("\n") + 1 for label in labels)
    if font:
        longest = max(len(line) for label in labels for line in label.split("\n"))
        rows = -(-lines // max(1, int(width * 72 / (4.6 * longest + 34))))
        place = {"loc": "outside upper center", "ncols": -(-lines // rows),
                 "fontsize": font, "handlelength": 2.0, "columnspacing": 1.2}  # fmt: skip
        drawn.legend(handles, labels, frameon=False, **place)
        return rows
    columns = 1 if lines <= 6 * height - 3 else 2
    place = {"loc": "outside right upper", "ncols": columns, "fontsize": 8, "handlelength": 3.0}
    legend = drawn.legend(handles, labels, frameon=False, **place)
    room = legend.get_window_extent().width / drawn.dpi + 0.75
    drawn.set_figwidth(max(width, room + 2.8 * (width - 2.2) / 3.4))
    drawn.set_figheight(max(height, (lines / columns + 4) / 6))
    return 0


def _shown(data, of, roles, estimate, confidence) -> tuple:
    """An array with the data's axes and coordinates, and the quantities of the figure."""
    if quantities.is_estimate(data) or "trial" not in data.dims:
        if estimate is not None:
            raise ValueError("estimate: the data are already an estimate; leave it out")
        shown = quantities.of_estimate(data, of)
        array = data[next(iter(data.data_vars))]
        arrays.refuse_empty(array, data.attrs.get("variable", array.name), "estimate")
        check_axes({str(n): size for n, size in array.sizes.items()}, roles)
        if len(shown) > 1 and "columns" in roles:
            raise ValueError(
                f"panel: name one axis, because a figure of {len(shown)} quantities has a column "
                f'for each; or choose one of them, such as of="{array.name}"'
            )
        return array, shown
    x = roles["x"]
    of = ("regret" if x == "round" else "final_regret") if of is None else of
    array = quantities.variable(data, of)
    arrays.refuse_empty(array.where(arrays.counts(array)), of)
    with arrays.quiet():
        if estimate is None and quantities.is_proportion(array):
            estimate = "proportion"
        result = None if estimate is None else named(estimate, confidence)(array)
        left = array if result is None else result[next(iter(result))]
        check_axes({str(n): size for n, size in left.sizes.items()}, roles)
        if result is None and data.sizes[x] == 1:
            result = estimates.mean(array, confidence)
        result = estimates.band(array, x, confidence) if result is None else result
    arrays.refuse_empty(result[next(iter(result))], of, "estimate")
    arrays.warn(arrays.incomplete(result), of, stacklevel=4)
    words = result.attrs.get("label") or quantities.label(of, array.attrs)
    return array, [quantities.Quantity(words, result)]


def check_axes(sizes: dict[str, int], named: dict) -> None:
    """Refuse unknown or repeated axes, and unnamed axes with several values.

    Args:
      sizes: the length of each axis of the array.
      named: the axis for each of x, color, line and panel, or None.
    """
    axes = [name for name in named.values() if name is not None]
    for role, name in named.items():
        if name is not None and (name not in sizes or name == "trial"):
            raise ValueError(f"{role}: {name} is not an axis of the data: {', '.join(sizes)}")
    if len(set(axes)) < len(axes):
        raise ValueError(f"an axis can be named only once, got {', '.join(axes)}")
    left = [name for name in sizes if name not in (*axes, "trial") and sizes[name] > 1]
    if left:
        raise ValueError(
            f"{left[0]} has {sizes[left[0]]} values; select one of them, or name it as "
            "color, line or panel"
        )
    line = named["line"]
    if line is not None and sizes[line] > len(_LINES):
        raise ValueError(f"line: {line} has more than {len(_LINES)} values")


def _line(axes, values, along, look) -> None:
    """Draw a line across a panel; ``values`` are a number, or values along the x axis."""
    if not values.ndim:
        axes.axhline(values.item(), **look)
        return
    at = values[along.axis].values
    places = np.arange(len(at)) if at.dtype.kind not in "iuf" else np.where(
        np.isfinite(at), at, np.nan if along.infinity is None else along.infinity)  # fmt: skip
    order = np.argsort(places)
    axes.plot(places[order], values.where(np.isfinite(values)).values[order], **look)


def _looks(array, color, line, over_time, marked) -> tuple[dict, dict]:
    """The looks of curves for each value of the colour axis, and for each value of the line axis.

    Curves over rounds have no markers. If a learner may have a single mark (``marked``), the line
    axis is also shown by the fill of markers.
    """
    values: list = [None] if color is None else array[color].values.tolist()
    ordered = color is not None and array[color].dtype.kind in "iuf"
    finite = sorted(value for value in values if ordered and np.isfinite(value))
    looks = {}
    for i, value in enumerate(values):
        shade = "#000000" if ordered else _COLORS[i % len(_COLORS)]  # black for infinity
        if value in finite:
            place = 0.9 * finite.index(value) / max(1, len(finite) - 1)
            shade = to_hex(colormaps["viridis"](place))
        free = i if over_time and line is None else i // len(_COLORS)
        marker = None if over_time else _MARKERS[i % len(_MARKERS)]
        kind = _LINES[free % len(_LINES)]
        looks[value] = {"color": shade, "marker": marker, "linestyle": kind}
    if line is None:
        return looks, {None: {}}
    kinds = zip(array[line].values.tolist(), _LINES, _FILLS, strict=False)
    filled = marked and not over_time
    return looks, {value: {"linestyle": kind, **({"fillstyle": fill} if filled else {})}
                   for value, kind, fill in kinds}  # fmt: skip


def _curves(axes, part, array, along, looks, color, line) -> tuple[int, int]:
    """Draw a curve with its band for each look, or only a mark if it does not depend on the axis x.

    A curve that is equal to others is wider than they are and behind them, so that all are visible.

    Returns:
      The number of curves whose band has no width, because all trials are equal, and the number of
      those that are equal to others.
    """
    shapes: list[np.ndarray] = []
    drawn, flat, equal = set(), 0, 0
    for (first, look), (second, kind) in product(looks[0].items(), looks[1].items()):
        at = {color: first, line: second}
        one = part.sel({name: value for name, value in at.items() if name is not None})
        estimate = one.estimate
        centre, low, high = (estimate[name].values for name in (part.centre, "low", "high"))
        shown = ~np.isnan(centre)
        # A learner that does not take the colour or line axis has one curve for all its values.
        level = first if quantities.takes(array, estimate, color) else None
        again = (level, centre.tobytes()) in drawn and not (
            quantities.takes(array, estimate, color) and quantities.takes(array, estimate, line)
        )
        if again or not shown.any():
            continue
        drawn.add((level, centre.tobytes()))
        if "standard_error" in estimate:
            error = estimate["standard_error"].values[shown]
            flat += bool((error <= 1e-9 * abs(centre[shown])).all())
        curve = {**look, **kind}
        if not quantities.takes(array, estimate, color):
            curve["color"] = _NONE
        places = along.of(estimate)
        if not quantities.takes(array, estimate, along.axis):
            shown &= np.arange(len(shown)) == np.argmax(shown)
        order = np.flatnonzero(shown)[np.argsort(places[shown], kind="stable")]
        shape = np.stack([places[order], centre[order]])
        same = sum(other.shape == shape.shape
                   and np.allclose(other, shape, 1e-3, 0.0, equal_nan=True)
                   for other in shapes)  # fmt: skip
        shapes.append(shape)
        equal += bool(same)
        curve |= {"markersize": (5 if "fillstyle" in kind else 4) + 3 * same,
                  "linewidth": 1.3 + 2.4 * same, "zorder": 2 - same / 100}  # fmt: skip
        if len(order) == 1:
            sides = np.nan_to_num([centre[order] - low[order], high[order] - centre[order]])
            axes.errorbar(np.nan_to_num(places[order], nan=along.beyond or 0.0), centre[order],
                          sides, linestyle="", marker=curve["marker"] or "o",
                          markersize=curve["markersize"], zorder=curve["zorder"],
                          color=curve["color"], fillstyle=curve.get("fillstyle"))  # fmt: skip
            continue
        axes.plot(places[order], centre[order], **curve)
        axes.fill_between(places[order], low[order], high[order], color=curve["color"],
                          alpha=0.18, linewidth=0)  # fmt: skip
        if one.candidates is not None:
            which = one.candidates.transpose(along.axis, ...)
            at_x, at_y = np.nonzero(which.values & shown[:, None])
            axes.plot(places[at_x], which[which.dims[1]].values[at_y], ".", markersize=3,
                      color=curve["color"], alpha=0.6)  # fmt: skip
    return flat, equal


def _room(font) -> float:
    """The width of a panel, in inches, for each upright label of this font size in points.

    The labels are along four fifths of the panel.
    """
    return 1.1 * font / 72 / 0.8


def _frame(axes, part, along, below, labels, slanted, room, logarithmic) -> None:
    """Set scales and ticks.

    Args:
      below: whether the x axis has labels.
      labels, slanted: the words along the x axis, and whether they are slanted and not upright.
      room: the width of the panel in digits.
      logarithmic: whether the values need a logarithmic scale, unless x is evenly spaced rounds.
    """
    numbers = along.ticks.dtype.kind in "iuf"
    finite = along.ticks[np.isfinite(along.ticks)] if numbers else along.ticks
    # Evenly spaced rounds keep a linear axis.
    spread = along.axis != "round" or np.median(finite) < finite.max() / 4
    if spread and quantities.is_wide(along.ticks):
        axes.set_xscale("log")
    for text, place in {"∞": along.infinity, quantities.NOT_USED: along.beyond}.items():
        if place is not None:
            axes.axvline(place, color="0.85", linewidth=0.8, zorder=0)
            axes.annotate(text if below else "", (place, 0), xycoords=("data", "axes fraction"),
                          xytext=(0, -4), textcoords="offset points", ha="center",
                          va="top")  # fmt: skip
    beyond = [place for place in (along.infinity, along.beyond) if place is not None]
    short = numbers and sum(len(f"{value:g}") for value in finite) <= 24
    whole = axes.get_xscale() == "log" or along.ticks.dtype.kind in "iu"
    labelled = short and bool(whole or beyond) and len(finite) <= 9
    if not numbers:
        turn = {"rotation": 20, "ha": "right"} if slanted else {"rotation": 90}
        axes.set_xticks(range(len(finite)), labels, **turn)
    elif labelled:
        ticks_at(axes.xaxis, finite)
        _thin(axes, room)
    elif axes.get_xscale() == "linear":
        axes.locator_params(axis="x", nbins=4)  # More labels of large numbers would overlap.
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    if numbers and beyond and not labelled:  # No tick has a number between the last and infinity.
        left, last = axes.get_xlim()[0], max(finite, default=-np.inf)
        axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= last])
    if part.settings is not None:
        if quantities.is_wide(np.array([*part.settings])):
            axes.set_yscale("log")
        shown = [*part.settings.items()][:: -(-len(part.settings) // 12)]
        axes.set_yticks(*zip(*shown, strict=True))
        axes.set_yticks([], minor=True)
    elif spread and logarithmic:
        axes.set_yscale("log")


def _thin(axes, room) -> None:
    """Remove the labels of ticks that would touch the label before them."""
    ticks = np.array(axes.get_xticks(), np.float64)
    scale = axes.xaxis.get_transform().transform
    low, high = scale(np.array(axes.get_xlim()))
    labels, end = [], -np.inf
    for tick, place in zip(ticks, (scale(ticks) - low) / (high - low) * room, strict=True):
        label = f"{tick:g}"
        shown = place - len(label) / 2 > end + 0.5
        labels.append(label if shown else "")
        end = place + len(label) / 2 if shown else end
    axes.set_xticks(ticks, labels)


def _is_wide(panels) -> bool:
    """Whether all values of panels are positive, and those of some panel differ by a factor."""
    ranges = [(np.fmin.reduce(values, None), np.fmax.reduce(values, None))
              for values in (part.estimate[part.centre].values for part in panels)]  # fmt: skip
    low = np.fmin.reduce([np.fmin.reduce(part.estimate["low"].values, None) for part in panels])
    return low > 0 and any(high / least > _WIDE for least, high in ranges)
