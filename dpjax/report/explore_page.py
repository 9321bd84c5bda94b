"""The interactive page: one HTML file with plotly's figures of labelled data.

Figures are SVG, because browsers allow few WebGL figures per page.
"""

import json
from collections.abc import Callable, Mapping
from html import escape
from itertools import cycle
from typing import Any

import numpy as np
import pandas
import xarray
from plotly import colors, express, graph_objects, offline

from dpjax.report import arrays
from dpjax.report.output import versions
from dpjax.report.tables import entry

_HEIGHT, _ENTRY = 460, 10  # heights of a figure and of each entry of a long legend
_QUANTILES = {"q5": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
_INTRODUCTION = (
    "dpjax simulates idealised mechanisms with a reproducible generator. Privacy levels are "
    "declared by the learners. Click on an entry of a legend to hide its curve."
)
_INTERVAL = "Student's 95 % interval"
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto;
       max-width: 56rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin-top: 2.2rem; }
figure { margin: 1rem 0; }
.small { font-size: .85rem; color: #555; }
.verdict { border-left: 4px solid #0072B2; padding: .2rem .8rem; background: #eef5fa; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right;
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
         background: #fff; }
"""
# The page may load no external resource.
_ALONE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">"
)


def html(data: xarray.Dataset, parameters: Mapping[str, Any], title: str) -> str:
    """The page of a study or sweep, as text.

    If axes other than learner and epsilon have several values, each figure has a menu of settings.

    Raises:
      ValueError: no trial is finite.
    """
    with arrays.quiet():
        data = _in_settings(data)
        stops = [name for name in ("report_stopped",) if name in data]
        means = data.set_coords(stops).dpjax.mean()
        arrays.refuse_empty(means["mean"], title)
        note = arrays.remarks(arrays.cautioned(means, data.sizes["trial"]))
        frames = _frames(data)
    learners = [str(name) for name in data["learner"].values]
    body = [f"<h1>{escape(title)}</h1>", _paragraph(_INTRODUCTION)]
    body += [_paragraph(note, "verdict")] if note else []
    for name, (heading, draw, caption) in _SECTIONS.items():
        body += [f"<h2>{heading}</h2>", _paragraph(caption, "small"),
                 _figure(frames[name], draw, learners, name)]  # fmt: skip
    declared = frames["epsilon"].filter(regex="^(learner|epsilon|declared .*)$").drop_duplicates()
    if declared.shape[1] > 2:
        declared = _with_text(declared).rename(columns={"epsilon": "requested ε"})
        table = declared.fillna("").map(entry, digits=4).to_html(index=False, border=0)
        body += ["<h2>Declared privacy</h2>", f'<div class="wide">{table}</div>']
    fixed = {name: array.item() for name, array in data.coords.items()
             if array.ndim == 0 and not str(name).startswith("takes_")}  # fmt: skip
    text = json.dumps({**fixed, **parameters}, indent=2, ensure_ascii=False, default=str)
    body += ["<h2>Parameters</h2>", f'<pre class="wide">{escape(text)}</pre>',
             _paragraph(f"Made by dpjax {versions()['dpjax']}.", "small")]  # fmt: skip
    # The page contains the library, so that it works offline.
    head = ['<meta charset="utf-8">', _ALONE, f"<script>{offline.get_plotlyjs()}</script>",
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}: dpjax explore</title>",
            f"<style>{_STYLE}</style>"]  # fmt: skip
    return "\n".join(['<!DOCTYPE html>\n<html lang="en">\n<head>', *head, "</head>", "<body>",
                      *body, "</body>\n</html>\n"])  # fmt: skip


def _paragraph(text, kind="") -> str:
    """A text as a paragraph; ``kind`` is a CSS class."""
    return f'<p class="{kind}">{escape(text)}</p>'


def _in_settings(data: xarray.Dataset) -> xarray.Dataset:
    """The data with the axes learner, epsilon (if they have it) and setting.

    A setting is a place on all other axes, or a point of a sweep, as text. Numbers are in order.
    """
    axes = [str(name) for name in data["final_regret"].dims
            if name not in ("learner", "epsilon", "trial")]  # fmt: skip
    names, sweep = [name for name in axes if data.sizes[name] > 1], axes == ["point"]
    if sweep:
        names = [str(name) for name, values in data.coords.items()
                 if values.dims[:1] == ("point",) and name not in ("point", "epsilon")]  # fmt: skip
    # Values of a learner that does not take an axis are shown in each setting.
    data = data.drop_vars([f"takes_{name}" for name in axes], errors="ignore")
    data = data.sortby([name for name in names if name in data.coords and data[name].ndim == 1
                        and data[name].dtype.kind in "iuf"])  # fmt: skip
    if not sweep:
        data = data.expand_dims("point") if not axes else data.stack(point=axes, create_index=False)
    texts = [", ".join(f"{name} = {_text(data[name].values[i])}" for name in names)
             for i in range(data.sizes["point"])]  # fmt: skip
    data = data.drop_vars([*axes, *names], errors="ignore")
    data = data.assign_coords(setting=("point", np.array(texts, object)))
    if sweep and "epsilon" in data.coords:
        cells = data.set_index(point=["epsilon", "setting"]).drop_duplicates("point")
        # Numbers sort differently as text.
        return cells.unstack("point").sel(setting=list(dict.fromkeys(texts)))
    return data.swap_dims(point="setting")


def _text(value: Any) -> str:
    """The value of a parameter as text."""
    number = np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f"
    return f"{value:.6g}" if number else str(value)


def _frames(data: xarray.Dataset) -> dict[str, pandas.DataFrame]:
    """The rows of each figure, by its name; epsilon is NaN if the learner takes none."""

    def table(of, **options):
        frame = data.dpjax.table(of, **options)
        return frame.assign(epsilon=frame.get("epsilon", np.nan))[frame["trials"] > 0]

    means = table("final_regret")
    curves = ["setting", "learner", "epsilon", "round", "mean", "low", "high", "trials"]
    return {
        "curves": table("regret")[curves],
        "epsilon": means.rename(columns=lambda name: name.replace("privacy_", "declared ")),
        "laws": table("final_regret", estimates=[_quantiles]),
    }


def _quantiles(array: xarray.DataArray) -> xarray.Dataset:
    """The quantiles of a box."""
    return arrays.by_trials(array.astype(np.float64), lambda trials: xarray.Dataset(
        {name: trials.quantile(level, "trial", skipna=False).drop_vars("quantile")
         for name, level in _QUANTILES.items()}
    ))  # fmt: skip


def _figure(frame: pandas.DataFrame, draw: Callable, learners: list[str], name: str) -> str:
    """A figure as an HTML element, with a menu if the frame has several settings."""
    parts = {setting: draw(rows.dropna(axis=1, how="all"), learners)
             for setting, rows in frame.groupby("setting", sort=False)}  # fmt: skip
    which = np.repeat(np.arange(len(parts)), [len(part.data) for part in parts.values()])
    figure = graph_objects.Figure(
        [trace for part in parts.values() for trace in part.data], next(iter(parts.values())).layout
    )
    buttons = [
        {"label": setting, "method": "update",
         "args": [{"visible": (which == i).tolist()},
                  {f"{axis}.{key}": part.layout[axis][key] for axis in ("xaxis", "yaxis")
                   for key in ("type", "categoryarray")}]}
        for i, (setting, part) in enumerate(parts.items())
    ]  # fmt: skip
    for trace, visible in zip(figure.data, which == 0, strict=True):
        trace.visible = bool(visible)
    if len(parts) > 1:
        place = {"x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
        figure.update_layout(updatemenus=[{"buttons": buttons, **place}], margin_t=60)
    entries = max(len(part.data) for part in parts.values())
    height = _HEIGHT + _ENTRY * max(0, entries - 12)
    element = figure.to_html(
        full_html=False, include_plotlyjs=False, default_width="100%", div_id=name,
        default_height=f"{height}px",
        config={"responsive": True, "displaylogo": False, "plotlyServerURL": ""},
    )  # fmt: skip
    return f"<figure>{element}</figure>"


def _over_epsilon(rows, learners):
    """Means with intervals against epsilon, a colour for each learner."""
    figure = express.line(
        _barred(rows), x="epsilon", y="mean", color="learner", markers=True, error_y="up",
        error_y_minus="down", hover_data=[*rows], render_mode="svg", **_shared(rows, learners),
    )  # fmt: skip
    return _framed(figure, rows["mean"])


def _curves(rows, learners):
    """Curves over rounds: a colour for each learner and a line style for each epsilon.

    If there is one learner, each epsilon has a colour.
    """
    style = {"color": "learner", "line_dash": "epsilon"}
    if rows["learner"].nunique() == 1:
        style = {"color": "epsilon"}
    figure = express.line(
        _with_text(rows.sort_values("round", kind="stable")), x="round", y="mean",
        hover_data=[*rows], render_mode="svg", **style, **_shared(rows, learners),
    )  # fmt: skip
    # Evenly spaced rounds stay linear.
    spread = rows["round"].median() < rows["round"].max() / 4
    return _framed(figure.update_xaxes(type="log" if spread else "linear"))


def _laws(rows, learners):
    """Distributions of final regret: a box of quantiles for each learner and epsilon."""
    shared, shown = _shared(rows, learners), _with_text(rows)
    boxes = [
        graph_objects.Box(
            name=learner, x=part["epsilon"], lowerfence=part["q5"], q1=part["q25"],
            median=part["q50"], q3=part["q75"], upperfence=part["q95"],
            marker_color=shared["color_discrete_map"][learner],
        )
        for learner, part in shown.groupby("learner", sort=False)
    ]  # fmt: skip
    figure = graph_objects.Figure(boxes, {"boxmode": "group"}).update_yaxes(title_text="regret")
    levels = shared["category_orders"]["epsilon"]
    figure.update_xaxes(title_text="ε", categoryorder="array", categoryarray=levels)
    return _framed(figure, rows["q5"])


def _with_text(rows):
    """Rows with epsilon as text, so that an axis can show infinity."""

    def text(epsilon):
        return "no ε" if np.isnan(epsilon) else "∞" if np.isinf(epsilon) else f"{epsilon:.4g}"

    return rows.assign(epsilon=rows.get("epsilon", pandas.Series(np.nan, rows.index)).map(text))


def _barred(rows):
    """Rows by increasing epsilon, with the lengths of their bars; NaN if there is no interval."""
    rows = rows.sort_values("epsilon", kind="stable") if "epsilon" in rows else rows
    low, high = (rows.get(end, np.nan) for end in ("low", "high"))
    return _with_text(rows).assign(up=high - rows["mean"], down=rows["mean"] - low)


def _shared(rows, learners) -> dict[str, Any]:
    """The order of learners and epsilons, and the colours, which all figures share."""
    first = _with_text(rows.sort_values("epsilon") if "epsilon" in rows else rows)
    few, many = colors.qualitative.Plotly, colors.qualitative.Dark24
    palette = cycle(few if len(learners) <= len(few) else many)
    return {
        "category_orders": {"learner": learners, "epsilon": [*first["epsilon"].unique()]},
        "color_discrete_map": dict(zip(learners, palette, strict=False)),
        "labels": {"epsilon": "ε", "mean": "regret", "round": "round t"},
    }  # fmt: skip


def _framed(figure, values=None):
    """The look of a figure.

    ``values`` are the values of a figure over epsilon; its axis is logarithmic if they vary much.
    """
    figure.update_layout(
        template="plotly_white", margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )  # fmt: skip
    if values is not None:
        wide = values.min() > 0.0 and values.max() > 30.0 * values.min()
        figure.update_xaxes(type="category")
        figure.update_yaxes(type="log" if wide else "linear")
    return figure


# Name of the figure -> its heading, function and caption.
_SECTIONS = {
    "curves": ("Regret curves", _curves,
               f"Mean over trials. Low and high on hover: {_INTERVAL} of the mean at each round."),
    "epsilon": ("Regret against ε", _over_epsilon,
                f"Mean over trials of the regret at the horizon; bars: {_INTERVAL}."),
    "laws": ("Laws of final regret", _laws,
             "Boxes: quartiles, and 5 % and 95 % quantiles of the trials."),
}  # fmt: skip
