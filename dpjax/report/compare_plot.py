"""Figures of a comparison: regrets of all learners in rows, and differences over the rounds."""

import numpy as np
from matplotlib import ticker
from matplotlib.lines import Line2D

from dpjax.report import compare_tables as tables
from dpjax.report.plot import epsilon_color, label_axes, panels

_MINE = "#D55E00"
_MARKERS = "osD^vPX*"
# Losses of Okabe and Ito's palette that differ from the colour of the user's learner.
_COLORS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")


def regrets(regret, name, environment, level):
    """Final regrets on one environment: a row for each learner, a marker for each epsilon.

    Args:
      regret: the table of a Comparison.
      name: of the user's learner, whose row is shaded.
      environment: its name.
      level: the epsilon by which learners are ordered.
    """
    table = regret[regret["environment"] == environment]
    order = tables.ordered(table, level)
    levels = sorted(table["epsilon"].dropna().unique().tolist())
    figure, (axes,) = panels(1, 1, size=(7.2, 1.3 + 0.32 * len(order)))
    axes.axhspan(order.index(name) - 0.5, order.index(name) + 0.5, color=_MINE, alpha=0.15)
    for row in table.to_dict("records"):
        place = order.index(row["learner"])
        epsilon = row["epsilon"]
        style = {"color": "0.45", "marker": "|"}
        if epsilon is not None:
            index = levels.index(epsilon)
            place += 0.5 * (index - (len(levels) - 1) / 2) / max(len(levels), 1)
            style = {"color": epsilon_color(epsilon), "marker": _MARKERS[index % len(_MARKERS)]}
        width = [[row["mean"] - row["low"]], [row["high"] - row["mean"]]]
        axes.errorbar([row["mean"]], [place], xerr=width, markersize=4, linewidth=1.0, **style)
        if row["learner"] == name and row["lower_bound"] is not None:
            axes.plot([row["lower_bound"]] * 2, [place - 0.12, place + 0.12],
                      color=style["color"], linewidth=2.5)  # fmt: skip
    axes.set_yticks(range(len(order)), order)
    axes.get_yticklabels()[order.index(name)].set_color(_MINE)
    axes.set_ylim(len(order) - 0.4, -0.6)
    label_axes(axes, "", xlabel="regret at T", ylabel="")
    means = table["mean"].astype(float)
    if table["low"].astype(float).min() > 0.0 and means.max() > 8.0 * means.min():
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    handles = [
        Line2D([], [], linestyle="", marker=_MARKERS[i % len(_MARKERS)], color=epsilon_color(e),
               label=f"epsilon = {e:g}" if np.isfinite(e) else "no privacy (epsilon = inf)")
        for i, e in enumerate(levels)
    ]  # fmt: skip
    handles.append(Line2D([], [], linestyle="", marker="|", color="0.45", label="takes no epsilon"))
    if table["lower_bound"].notnull().any():
        handles.append(Line2D([], [], color="0.2", linewidth=2.5, label=f"lower bound, {name}"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def over_rounds(data, name, environment, level, rivals):
    """Paired differences of regret over the rounds to some competitors, with bands over all rounds.

    Args:
      data: of a Comparison.
      name: of the user's learner, from which regrets are counted.
      environment: its name.
      level: the epsilon.
      rivals: names of competitors.
    """
    array = data["regret"].sel(environment=environment, epsilon=level)
    band = tables.differences(array.sel(learner=[name, *rivals]), name, "round")
    figure, (axes,) = panels(1, 1, size=(7.2, 3.6))
    axes.axhline(0.0, color=_MINE, linewidth=1.5, label=name)
    for i, rival in enumerate(rivals):
        here = band.sel(learner=rival).dropna("round")
        style = {"color": _COLORS[i % len(_COLORS)], "linestyle": "-" if i < 3 else "--"}
        axes.plot(here["round"], here["mean"], label=rival, **style)
        axes.fill_between(here["round"], here["low"], here["high"], color=style["color"],
                          alpha=0.2, linewidth=0)  # fmt: skip
    label_axes(axes, "", ylabel=f"regret less that of {name}")
    axes.legend(frameon=False, fontsize=8)
    return figure
