"""Figures. Only this module imports matplotlib, and it touches no global state."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure


class Curve(NamedTuple):
    """One line of a figure: a centre with a band or error bars around it."""

    label: str
    x: Any  # (n,)
    centre: Any  # (n,)
    low: Any  # (n,), or None for a bare line
    high: Any  # (n,)
    style: dict  # of matplotlib's Line2D


def panels(rows, columns, size):
    """A figure of size (width, height) in inches and its axes, row by row."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).flatten()


STEPS = colormaps["plasma"]  # maps a number in [0, 1] to a colour, from dark to bright


def epsilon_color(epsilon):
    """A colour for a privacy level: dark for strong privacy, light for weak, black for none."""
    if not np.isfinite(epsilon):
        return "black"
    # Viridis from dark to light on a logarithmic axis of epsilon from 0.1 to 300.
    position = (np.log10(np.clip(epsilon, 0.1, 300.0)) + 1.0) / 3.5
    return colormaps["viridis"](0.9 * position)


def categorical(count):
    """So many colours, which are easy to tell apart up to ten."""
    return [colormaps["tab10"](i % 10) for i in range(count)]


def draw_curves(axes, curves, *, bars=None) -> None:
    """Draws curves with shaded bands, or with error bars at ``bars`` of their points."""
    for curve in curves:
        x, centre = np.asarray(curve.x), np.asarray(curve.centre)
        (line,) = axes.plot(x, centre, label=curve.label, **curve.style)
        if curve.low is None:
            continue
        low, high = np.asarray(curve.low), np.asarray(curve.high)
        if bars is None:
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        else:
            at = np.linspace(0, len(x) - 1, bars + 1).astype(int)[1:]
            height = np.maximum(0.0, np.stack([centre - low, high - centre]))[:, at]
            look = {"fmt": "none", "ecolor": line.get_color(), "elinewidth": 0.8, "capsize": 2}
            axes.errorbar(x[at], centre[at], yerr=height, **look)


def label_axes(axes, title, xlabel="round t", ylabel="regret") -> None:
    """Title, labels and a light grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def ticks_at(axis, values) -> None:
    """Ticks at the sizes that were run, and no others, with plain numbers."""
    shown = sorted(set(values))
    axis.set_ticks(shown, [f"{value:g}" for value in shown])
    axis.set_ticks([], minor=True)


def regret_figure(curves, title, *, ylabel="regret") -> Figure:
    """One panel of regret curves with their bands and a legend."""
    figure, (axes,) = panels(1, 1, size=(6.4, 4.2))
    draw_curves(axes, curves)
    label_axes(axes, title, ylabel=ylabel)
    axes.legend(fontsize=8, frameon=False)
    return figure


def save(figure, folder, name) -> None:
    """Writes folder/name.png and folder/name.pdf, into a folder that is made if it is missing."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=150)
    # The second file has the layout of the first. To find one takes half of the time.
    figure.set_layout_engine("none")
    # Without a date the same figure is the same file.
    figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
