"""Figures of a study: one style, and captions that the data write themselves."""

import textwrap
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray
from matplotlib import colormaps, ticker
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dpjax.report import estimates
from dpjax.report.arrays import named as estimator_named
from dpjax.report.plot import label_axes, ticks_at

# Okabe and Ito's colours, which the colour-blind tell apart, in an order of alternating lightness,
# and grey.
_COLORS = ("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#CC79A7", "#009E73", "#F0E442",
           "#999999")  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (1, 3)), (0, (5, 1, 1, 1, 1, 1)))
# Axes in the units of the field.
_UNITS = {"round": "round t", "horizon": "horizon T, rounds", "arms": "number of arms K",
          "epsilon": "epsilon that the learner was given", "dim": "dimension d",
          "final_regret": "regret at T", "regret": "regret",
          "report_stopping_time": "stopping time, rounds"}  # fmt: skip
_SYMBOLS = {"horizon": "T", "arms": "K", "dim": "d"}
# Axes whose values differ by more than these factors, (x, y), are logarithmic.
_WIDE = 8.0, 20.0


def figure(
    data: xarray.Dataset,
    x: str,
    *,
    y: str | None = None,
    color: str | None = None,
    line: str | None = None,
    panel: str | Sequence[str] | None = None,
    estimate: str | Callable | None = None,
    confidence: float = 0.95,
    note: str = "",
) -> Figure:
    """Curves of an estimate with its band, over one axis of the data.

    Args:
      data: of a study, or a part of it. Each axis that has several values must be named below.
      x: the axis along which curves go. ``inf`` has a place of its own at the right.
      y: the variable: by default the regret, at the horizon unless x is the round.
      color: the axis that colours and markers tell apart.
      line: the axis that kinds of lines tell apart.
      panel: the axis with a panel for each value, or a pair of axes, (rows, columns) of panels.
      estimate: the name of an estimator, or a function like one: of an array with the dimension
        trial, which returns a Dataset whose first variable is the centre, with low and high. It may
        reduce other axes too, as "worst" does. By default the mean, with a band that holds along x
        simultaneously.
      confidence: of the intervals, unless the estimate is a function.
      note: what the caption says beside what the data say of themselves.

    Returns:
      A matplotlib Figure, with a legend beside the panels and a caption below them; its method
      ``savefig`` writes PDF and PNG.

    Raises:
      ValueError: an axis does not exist, is named twice, or has several values and is not named.
    """
    y = ("regret" if x == "round" else "final_regret") if y is None else y
    if y not in data:
        raise ValueError(f"y: the data have no {y!r}, but {', '.join(map(str, data.data_vars))}")
    array = data[y]
    facets = [panel] if isinstance(panel, str) else list(panel or ())
    named = {"x": x, "color": color, "line": line}
    named |= dict(zip(("panel", "columns"), facets, strict=False))
    found = None if estimate is None else estimator_named(estimate, confidence)(array)
    left = array if found is None else found[next(iter(found))]
    check_axes({str(n): size for n, size in left.sizes.items()}, named)
    found = estimates.band(array, x, confidence) if found is None else found
    found = found.squeeze(
        [n for n in found.dims if found.sizes[n] == 1 and n not in named.values()]
    )
    panels = list(product(*(array[name].values for name in facets)))
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    columns = array.sizes[facets[1]] if len(facets) == 2 else columns
    rows = -(-len(panels) // columns)
    drawn = Figure(figsize=(2.2 + 3.4 * columns, 1.1 + 2.7 * rows), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False, sharex=True).flatten()
    styles = _styles(array, color, line, over_time=x == "round")
    places, ticks = _places(array[x].values)
    for each, values in zip(axes, panels, strict=False):
        at = dict(zip(facets, values, strict=True))
        part = found.sel(at)
        _curves(each, part, array, places, styles, {"x": x, "color": color, "line": line})
        title = ", ".join(f"{n} = {_text(v)}" if _is_number(v) else v for n, v in at.items())
        label_axes(each, title, xlabel="", ylabel="")
        _frame(each, part, x, array[x].values, ticks)
    for each in axes[len(panels) :]:
        each.axis("off")
    for i, each in enumerate(axes[: len(panels)]):
        if i + columns >= len(panels):
            each.set_xlabel(_UNITS.get(x, x.replace("_", " ")))
            each.xaxis.set_tick_params(labelbottom=True)
        if i % columns == 0:
            each.set_ylabel(_UNITS.get(y, y.replace("_", " ")))
    handles = _legend(array, color, line, over_time=x == "round")
    if handles:
        drawn.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8,
                     handlelength=3.0)  # fmt: skip
    width = int(15 * drawn.get_figwidth())
    text = textwrap.fill(f"{caption(data, array, found, named)} {note}".strip(), width)
    drawn.supxlabel(text, x=0.01, ha="left", fontsize=7.5, color="0.25")
    return drawn


def caption(data, array, found, named) -> str:
    """What the figure shows: the estimate, trials, sizes, and the learners' models of privacy."""
    first = found.attrs.get("estimate", "estimate")
    single = [name for name in array.coords if array[name].ndim == 0]
    sizes = [
        f"{_SYMBOLS.get(name, name.replace('_', ' '))} = {_text(array[name].values)}"
        for name in single
        if name not in named.values()
        and not name.startswith(("privacy_", "takes_"))
        and name not in ("learner", "environment")
    ]
    where = [str(array[name].values) for name in ("learner", "environment") if name in single]
    parts = [
        f"{first[0].upper()}{first[1:]}; {array.sizes['trial']} trials",
        ", ".join(where),
        ", ".join(sizes),
    ]
    models = _models(data)
    if models:
        parts.append("Declared privacy: " + "; ".join(models))
    return " ".join(f"{part.rstrip('.')}." for part in parts if part)


def _models(data) -> list[str]:
    """The model of privacy of each learner."""
    if "privacy_model" not in data.coords:
        return []
    names = np.atleast_1d(data["learner"].values) if "learner" in data.coords else [None]
    found = []
    for name in names:
        here = data if name is None or "learner" not in data.dims else data.sel(learner=name)
        private = np.isfinite(here["privacy_epsilon"].values)
        models = sorted(set(np.atleast_1d(here["privacy_model"].values)[np.atleast_1d(private)]))
        found.append(f"{name or 'the learner'} {' and '.join(models) if models else 'none'}")
    return found


def check_axes(sizes: dict[str, int], named: dict) -> None:
    """Refuses a figure that names axes that are not there, or leaves out one of several values.

    Args:
      sizes: the length of each axis of the array.
      named: the axis that each of x, color, line and panel names, or None.
    """
    given = [name for name in named.values() if name is not None]
    for role, name in named.items():
        if name is not None and (name not in sizes or name == "trial"):
            raise ValueError(f"{role}: {name} is no axis of the data: {', '.join(sizes)}")
    if len(set(given)) < len(given):
        raise ValueError(f"an axis can be named once only, got {', '.join(given)}")
    left = [name for name in sizes if name not in (*given, "trial") and sizes[name] > 1]
    if left:
        raise ValueError(
            f"{left[0]} has {sizes[left[0]]} values; select one of them, or name it as "
            "color, line or panel"
        )
    line = named["line"]
    if line is not None and sizes[line] > len(_LINES):
        raise ValueError(f"line: {line} has more than {len(_LINES)} values")


def _styles(array, color, line, over_time) -> dict:
    """The style of a curve, by its labels along the axes of colours and of lines.

    Curves over rounds have no markers. In grey, kinds of lines tell them apart.
    """
    colors = [None] if color is None else list(array[color].values)
    lines = [None] if line is None else list(array[line].values)
    ordered = color is not None and array[color].dtype.kind in "iuf"
    finite: list = sorted(v for v in array[color].values if np.isfinite(v)) if ordered else []
    found = {}
    for i, first in enumerate(colors):
        shade = _COLORS[i % len(_COLORS)]
        if first in finite:
            shade = to_hex(
                colormaps["viridis"](0.9 * finite.index(first) / max(1, len(finite) - 1))
            )
        elif ordered:
            shade = "#000000"  # infinity: without noise
        free = i if over_time else i // len(_COLORS)  # where no axis needs the lines
        for j, second in enumerate(lines):
            found[first, second] = {
                "color": shade,
                "marker": None if over_time else _MARKERS[i % len(_MARKERS)],
                "linestyle": _LINES[(j if line is not None else free) % len(_LINES)],
            }
    return found


def _places(values):
    """Where values of x are drawn, and the tick of infinity if there is one."""
    if values.dtype.kind not in "iuf":
        return np.arange(len(values)), dict(enumerate(values))
    finite = values[np.isfinite(values)]
    if len(finite) == len(values):
        return values.astype(np.float64), {}
    if not len(finite):
        return np.zeros(len(values)), {0.0: "∞"}
    step = finite[-1] / finite[-2] if len(finite) > 1 and finite[-2] > 0 else 3.0
    beyond = finite.max() * max(step, 3.0)
    return np.where(np.isfinite(values), values, beyond), {beyond: "∞"}


def _curves(axes, part, array, places, styles, roles) -> None:
    """One curve with its band for each style."""
    centre_name = next(iter(part.data_vars))
    drawn = set()
    for (first, second), style in styles.items():
        at = {roles["color"]: first, roles["line"]: second}
        one = part.sel({name: value for name, value in at.items() if name is not None})
        centre, low, high = (one[n].values for n in (centre_name, "low", "high"))
        shown = ~np.isnan(centre)
        # A learner that does not take the axis of lines has the same curve on each of them.
        again = (first, centre.tobytes()) in drawn and not _takes(array, one, roles["line"])
        if again or not shown.any():
            continue
        drawn.add((first, centre.tobytes()))
        marked = style["marker"] if _takes(array, one, roles["x"]) else None
        look = {**style, "marker": marked, "markersize": 4, "linewidth": 1.3}
        axes.plot(places[shown], centre[shown], **look)
        axes.fill_between(places[shown], low[shown], high[shown], color=style["color"],
                          alpha=0.18, linewidth=0)  # fmt: skip


def _takes(array, one, axis) -> bool:
    """Whether the learner or the environment of a curve takes an axis."""
    takes = array.coords.get(f"takes_{axis}")
    if takes is None:
        return True
    at = {
        n: one[n].values for n in ("learner", "environment") if n in one.coords and n in takes.dims
    }
    return bool(takes.sel({n: v for n, v in at.items() if np.ndim(v) == 0}).any())


def _frame(axes, part, x, values, ticks) -> None:
    """Scales and ticks."""
    numbers = values.dtype.kind in "iuf"
    finite = values[np.isfinite(values)] if numbers else values
    over_time = x == "round"
    positive = numbers and len(finite) > 1 and finite.min() > 0
    # Rounds that are evenly spaced stay so.
    spread = not over_time or (positive and np.median(finite) < finite.max() / 4)
    if positive and spread and finite.max() / finite.min() > _WIDE[0]:
        axes.set_xscale("log")
    if ticks and numbers:
        for place, label in ticks.items():
            axes.axvline(place, color="0.85", linewidth=0.8, zorder=0)
            axes.annotate(label, (place, 0), xycoords=("data", "axes fraction"), xytext=(0, -4),
                          textcoords="offset points", ha="center", va="top")  # fmt: skip
    elif ticks:
        axes.set_xticks(list(ticks), [str(v) for v in ticks.values()], rotation=20, ha="right")
    short = numbers and sum(len(f"{value:g}") for value in finite) <= 24
    if short and (axes.get_xscale() == "log" or values.dtype.kind in "iu") and len(finite) <= 9:
        ticks_at(axes.xaxis, finite)
    elif numbers and axes.get_xscale() == "linear":
        axes.locator_params(axis="x", nbins=4)  # More labels of large numbers run together.
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    low = part["low"].values
    centre = part[next(iter(part.data_vars))].values
    if spread and np.nanmin(low) > 0 and np.nanmax(centre) / np.nanmin(centre) > _WIDE[1]:
        axes.set_yscale("log")


def _legend(array, color, line, over_time) -> list:
    """Entries for the colours, then for the lines."""
    handles = []
    if color is not None:
        handles.append(Line2D([], [], linestyle="", label=color.replace("_", " ")))
        styles = _styles(array, color, None, over_time and line is None).values()
        for value, style in zip(array[color].values, styles, strict=True):
            style["marker"] = None if over_time else style["marker"]
            handles.append(Line2D([], [], **style, markersize=4, label=_text(value)))
    if line is not None:
        handles.append(Line2D([], [], linestyle="", label=line.replace("_", " ")))
        for value, kind in zip(array[line].values, _LINES, strict=False):
            handles.append(Line2D([], [], color="0.3", linestyle=kind, label=_text(value)))
    return handles


def _is_number(value) -> bool:
    return np.asarray(value).dtype.kind in "iuf"


def _text(value) -> str:
    if not _is_number(value):
        return str(value)
    value = np.asarray(value).item()
    if isinstance(value, int) and abs(value) < 10**6:
        return str(value)
    return "∞" if np.isinf(value) else f"{value:.4g}"
