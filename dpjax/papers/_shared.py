"""The function ``reproduce`` of a paper, and shared estimates, tables and figures."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import update_wrapper
from itertools import islice, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray

from dpjax import environments
from dpjax.core import Environment
from dpjax.papers.sweeps import playing
from dpjax.report import estimates, plot
from dpjax.report.output import output_folder, versions, write_figure, write_json
from dpjax.report.tables import columns, format_table, rows, write_csv

PRINTED = 100  # Longer tables are written but not printed.


class Report(NamedTuple):
    """The results of a part of an experiment, by the ending of their file names.

    The main result has the ending "". Tables of several parts with one ending form one table.
    """

    tables: dict[str, list[dict]]
    figures: Mapping[str, Callable] = MappingProxyType({})  # functions () -> Figure
    parameters: Mapping = MappingProxyType({})  # constants except horizon, trials and key


def published(horizon: int, trials: int, seed: int, *, horizons: tuple[int, int] = (1, 2**31 - 1),
              fewest: int = 4, multiple: int = 1) -> Callable:  # fmt: skip
    """A decorator that turns an experiment into ``reproduce``, see :mod:`dpjax.papers`.

    Args:
      horizon, trials: the sizes of the published results.
      seed: the seed of the key of all games.
      horizons: the smallest and the largest horizon.
      fewest: the smallest number of trials.
      multiple: the number of trials must be a multiple of it.

    Returns:
      A decorator of a generator (horizon, trials, short) that plays the parts of the experiment and
      yields a Report of each. The first one has the main result. A run is short, and may play fewer
      settings, if its horizon is below the published one.
    """
    full = horizon

    def decorate(experiment):
        name = experiment.__module__.rpartition(".")[2]
        folder = f"results/{name.replace('_', '-')}"

        def reproduce(
            out=folder, *, horizon=horizon, trials=trials, main_only=False, progress=True
        ) -> str:
            if trials < fewest or trials % multiple:
                wanted = f"a multiple of {multiple}" if multiple > 1 else f"at least {fewest}"
                raise ValueError(f"trials must be {wanted}, got {trials}")
            if not horizons[0] <= horizon <= horizons[1]:
                raise ValueError(
                    f"horizon must be from {horizons[0]} to {horizons[1]}, got {horizon}"
                )
            with playing(progress=progress):
                parts = experiment(horizon, trials, horizon < full)
                parts = islice(parts, 1 if main_only else None)
                return publish(out, name, parts, horizon=horizon, trials=trials, seed=seed)

        update_wrapper(reproduce, experiment, ("__module__", "__qualname__", "__doc__"))
        return reproduce

    return decorate


def publish(
    out: str | Path, name: str, parts: Iterable[Report], *, horizon: int, trials: int, seed: int
) -> str:
    """Write the tables, figures and parameters of an experiment into a folder.

    Args:
      out: folder, created if missing; if that fails, the experiment is not played.
      name: the beginning of the names of all tables and figures.
      parts: an iterator that plays the parts of the experiment and yields a Report of each.
      horizon, trials, seed: the first entries of parameters.json.

    Returns:
      The tables of at most PRINTED rows, as text.

    Raises:
      OSError: the folder cannot be written to.
    """
    with output_folder(out) as folder:
        tables: dict[str, list[dict]] = {}
        figures: dict[str, Callable] = {}
        constants: dict[str, Any] = {}
        for part in parts:
            for ending, entries in part.tables.items():
                tables.setdefault(ending, []).extend(entries)
            figures |= part.figures
            constants |= part.parameters
        for ending, entries in tables.items():
            write_csv(folder / f"{name}{ending}.csv", entries)
        asked = {"horizon": horizon, "trials": trials, "key": f"jax.random.key({seed})"}
        used = {"versions": versions(), "backend": jax.default_backend()}
        write_json(folder / "parameters.json", asked | constants | used)
    for ending, draw in figures.items():
        write_figure(out, f"{name}{ending}", draw)
    shown = [entries for entries in tables.values() if len(entries) <= PRINTED]
    return "\n\n".join(map(format_table, shown))


def log_checkpoints(horizon: int, count: int) -> tuple[int, ...]:
    """Up to ``count`` rounds, evenly spaced on a logarithmic axis and ending with the horizon."""
    return tuple(np.unique(np.geomspace(min(100, horizon), horizon, count).astype(int)).tolist())


def chosen(items: Mapping[str, Any], names: Collection[str], short: bool) -> dict[str, Any]:
    """All items; in a short run only those with these names."""
    return {name: item for name, item in items.items() if not short or name in names}


def bernoulli(means: np.ndarray) -> Environment:
    """Bernoulli arms of these mean losses, with pseudo-regret."""
    return environments.bernoulli(means, regret="pseudo")


def labelled(
    function: Callable, further: Mapping[str, Any] = MappingProxyType({}), **axes: Sequence
) -> xarray.DataArray:
    """The values of a function at each combination of the values of axes.

    They are numbers, or arrays along the ``further`` axes.
    """
    values = np.array([function(*item) for item in product(*axes.values())], np.float64)
    values = values.reshape(*map(len, axes.values()), *values.shape[1:])
    axes |= further
    return xarray.DataArray(values, {n: list(v) for n, v in axes.items()}, [*axes])


def summary(array: xarray.DataArray) -> xarray.Dataset:
    """The columns mean and standard_error, and q5, q25, q50, q75 and q95 of the trials."""
    estimate = estimates.mean(array)[["mean", "standard_error"]]
    for q in (5, 25, 50, 75, 95):
        estimate[f"q{q}"] = array.quantile(q / 100, "trial", skipna=False).drop_vars("quantile")
    return estimate


def exponents(array: xarray.DataArray, x: Any, usable: xarray.DataArray,
              function: Callable = lambda means: means) -> xarray.Dataset:  # fmt: skip
    """The exponent of a mean in x, fitted to the usable points of each cell.

    Args:
      array: with the dimension trial.
      x: the values of an axis of the array, with its name as the dimension.
      usable: whether each point is used. There is a fit for each cell of its other axes.
      function: a function of the means, whose logarithm is fitted.

    Returns:
      A Dataset of ``points``, the number of usable points; slope, low and high, NaN with fewer than
      two points; and the range of x, ``from`` and ``to``.
    """
    (axis,) = x.dims
    logs, points = np.log(x.astype(np.float64)).where(usable), usable.sum(axis)
    logs = (logs - logs.mean(axis)).fillna(0.0)
    weights = (logs / (logs**2).sum(axis)).where(points >= 2)

    def slope(means):
        return (np.log(function(means).where(usable, 1.0)) * weights).sum(axis, skipna=False)

    played = function(array.mean("trial", skipna=False)).notnull().any(axis)
    estimate, shown = estimates.of_means(array, slope, name="slope"), x.where(usable)
    points, ends = points.where(played), {"from": shown.min(axis), "to": shown.max(axis)}
    return xarray.Dataset({"points": points, **estimate, **ends}, attrs=estimate.attrs)


def table(cells: xarray.Dataset, order: str, names: str, more: Callable | None = None,
          **renamed: str) -> list[dict]:  # fmt: skip
    """The cells of an estimate as rows with the named columns.

    A learner that takes no epsilon has rows only at epsilon = inf.

    Args:
      cells: a Dataset; its attribute trials may be a column.
      order: its dimensions with several values, separated by spaces; the last one varies fastest.
      names: the columns, separated by spaces.
      more: a function of a row, a dict, that returns a dict of more columns.
      **renamed: new names of columns, as in ``instance="environment"``.
    """
    alone = [name for name in cells.dims if name not in order.split()]
    if "takes_epsilon" in cells.coords and "epsilon" in cells.dims:
        first = next(iter(cells))
        cells = cells.assign({first: cells[first].where(cells.takes_epsilon
                                                        | np.isinf(cells.epsilon))})  # fmt: skip
    entries = rows(cells.squeeze(alone), order.split(), **renamed)
    entries = [{"trials": cells.attrs.get("trials")} | row for row in entries]
    if more is not None:
        entries = [row | more(row) for row in entries]
    return columns(entries, names)


def figure(data: xarray.Dataset, x: str, lines: Iterable[tuple[xarray.DataArray, dict]] = (), *,
           log: bool = True, low: float | None = None, base: int = 10,
           ticks: Sequence[float] | None = None, **options: Any) -> Any:  # fmt: skip
    """A figure of a study with additional lines in its panels.

    Args:
      data, x, **options: as in ``data.dpjax.figure``.
      lines: pairs of an array over x (preceded by the axes of the panels, in order) and a dict of
        Line2D options. Its entry ``like`` is the number of the curve whose colour the line has.
      log: whether both axes are logarithmic; then ``low`` is the lower end of the values, ``base``
        the base of the logarithm of x, and ``ticks`` the values of x with a tick.
    """
    drawn = data.dpjax.figure(x, **options)
    curves = [panel.get_lines() for panel in drawn.axes]
    for array, look in lines:
        look = {"color": "0.3", "linewidth": 1.0, "linestyle": ":"} | look
        like = look.pop("like", None)
        values = array.transpose(..., x).values.reshape(-1, array.sizes[x])
        for panel, line, curve in zip(drawn.axes, values, curves, strict=False):
            color = {} if like is None else {"color": curve[like].get_color()}
            panel.plot(array[x], line, **look | color)
    name_lines(drawn)
    return logarithmic(drawn, low=low, base=base, ticks=ticks) if log else drawn


def lines_figure(array: xarray.DataArray, x: str, color: str, facets: Sequence[str] = (), *,
                 ylabel: str, note: str = "") -> Any:  # fmt: skip
    """A figure of lines along x for an array without trials; both axes are logarithmic.

    Args:
      array: the values; NaN is not drawn.
      x: the dimension along which lines go.
      color: the dimension shown by colours; earlier lines are wider, so later ones do not hide them
      facets: a pair of dimensions with a panel for each of their values, (rows, columns), or none.
      ylabel, note: the name of the values, and the text below the panels.
    """
    cells, names = list(product(*(array[name].values for name in facets))), array[color].values
    across = array.sizes[facets[-1]] if facets else 1
    down = len(cells) // across
    drawn, panels = plot.panels(down, across, size=(3.2 + 3.4 * across, 1.5 + 2.7 * down))
    widths = np.linspace(2.0, 0.8, len(names))
    for axes, values in zip(panels, cells, strict=True):
        part = array.sel(dict(zip(facets, values, strict=True)))
        for shade, width, name in zip(plot.categorical(len(names)), widths, names, strict=True):
            line = part.sel({color: name}).dropna(x)
            axes.plot(line[x], line, color=shade, linewidth=width, label=name)
        title = ", ".join(f"{n} = {v:g}" if isinstance(v, float) else v
                          for n, v in zip(facets, values, strict=True))  # fmt: skip
        plot.label_axes(axes, title, x, ylabel)
    logarithmic(drawn)
    name_lines(drawn)
    drawn.supxlabel(note, x=0.01, ha="left", fontsize=8)
    return drawn


def name_lines(drawn: plot.Figure) -> None:
    """Draw one legend beside a figure, with each label of its legends and lines once."""
    entries: dict[str, Any] = {}
    for legend in list(drawn.legends):
        labels = [text.get_text() for text in legend.get_texts()]
        entries |= dict(zip(labels, legend.legend_handles, strict=True))
        legend.remove()
    for panel in drawn.axes:
        entries |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    drawn.legend(entries.values(), entries.keys(), loc="outside right upper", fontsize=8,
                 frameon=False, handlelength=3.0)  # fmt: skip


def logarithmic(
    drawn: plot.Figure,
    *,
    low: float | None = None,
    base: int = 10,
    ticks: Sequence[float] | None = None,
):
    """The figure with logarithmic axes in all panels; arguments as in :func:`figure`."""
    for panel in drawn.axes:
        if panel.get_xscale() != "log" or base != 10:  # A new scale would replace the ticks.
            panel.set_xscale("log", base=base)
        panel.set_yscale("log")
        panel.set_ylim(bottom=low)
        if ticks is not None:
            plot.ticks_at(panel.xaxis, ticks)
    return drawn
