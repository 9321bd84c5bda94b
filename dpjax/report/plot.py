"""Parts of figures: panels, colours, labels, ticks and files, without global settings."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

# Some publishers refuse the default fonts, of type 3.
TRUETYPE: Any = {"pdf.fonttype": 42, "ps.fonttype": 42}


def panels(rows: int, columns: int, size: tuple[float, float]):
    """A figure of size (width, height) in inches and its axes, row by row."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).flatten()


def epsilon_color(epsilon: float):
    """A colour for a privacy level: dark for strong privacy, light for weak, black for none."""
    if not np.isfinite(epsilon):
        return "black"
    # Viridis from dark to light on a logarithmic axis of epsilon from 0.1 to 300.
    position = (np.log10(np.clip(epsilon, 0.1, 300.0)) + 1.0) / 3.5
    return colormaps["viridis"](0.9 * position)


def categorical(count: int):
    """A number of colours; up to ten are easy to distinguish."""
    return [colormaps["tab10"](i % 10) for i in range(count)]


def label_axes(axes: Axes, title: str, xlabel: str = "round t", ylabel: str = "regret") -> None:
    """Add a title, labels and a light grid."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def ticks_at(axis: Axis, values: Iterable[float]) -> None:
    """Set ticks only at the sizes that were run, with plain numbers."""
    shown = sorted(set(values))
    axis.set_ticks(shown, [f"{value:g}" for value in shown])
    axis.set_ticks([], minor=True)


def save(figure: Figure, folder: str | os.PathLike, name: str) -> None:
    """Write folder/name.png and folder/name.pdf; create the folder if necessary."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Figure.savefig would draw each file twice.
    figure.set_dpi(150)
    FigureCanvasAgg(figure).print_png(folder / f"{name}.png")
    # The second file reuses the layout of the first, which saves half of the time.
    figure.set_layout_engine("none")
    # Without a date, equal figures are equal files.
    with rc_context(TRUETYPE):
        FigureCanvasPdf(figure).print_pdf(folder / f"{name}.pdf", metadata={"CreationDate": None})
