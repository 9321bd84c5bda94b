"""The figure of worst cases: regret in the worst environment found, relative to the bounds."""

import numpy as np
import pandas

from dpjax.report.plot import Figure, label_axes, panels

# A bound within the first factor of regret is tight, and one beyond the second factor is loose.
TIGHT, LOOSE = 1.5, 10.0


def worst_of(searches: pandas.DataFrame) -> pandas.DataFrame:
    """The row with the largest ratio of regret to bound, for each theorem, epsilon and reading."""
    order = searches.sort_values("ratio", ascending=False, kind="stable")
    first = order.drop_duplicates(["theorem", "epsilon", "bound"])
    return first.sort_index()


def draw(searches: pandas.DataFrame) -> Figure:
    """Draw regret divided by the upper bound in the worst environment found, a panel per epsilon.

    Args:
      searches: of several theorems, as :func:`dpjax.study.theorems.search` returns them. If a
        theorem has several readings, the last one other than a rate is drawn.
    """
    rows = worst_of(searches[searches["bound"] != "rate"])
    rows = rows.drop_duplicates(["theorem", "epsilon"], keep="last")
    names, epsilons = list(dict.fromkeys(rows["theorem"])), sorted(set(rows["epsilon"]))
    size = (3.0 + 2.3 * len(epsilons), 1.5 + 0.2 * len(names))
    figure, axes = panels(1, len(epsilons), size=size)
    for panel, epsilon in zip(axes, epsilons, strict=True):
        for edge, style in ((1.0, "-"), (1.0 / TIGHT, "--"), (1.0 / LOOSE, ":")):
            panel.axvline(edge, color="0.6", linewidth=0.8, linestyle=style)
        for row in rows[rows["epsilon"] == epsilon].to_dict("records"):
            place, ratio, low = names.index(row["theorem"]), row["ratio"], row["lower"]
            tight, vacuous = ratio * TIGHT >= 1.0, row["verdict"] == "vacuous"
            color = "#D55E00" if tight else "#0072B2" if ratio * LOOSE < 1.0 else "0.2"
            panel.plot([ratio], [place], "o", color=color, markersize=4.5,
                       markerfacecolor="white" if vacuous else color)  # fmt: skip
            if not np.isnan(low):
                panel.plot([low / row["value"], ratio], [place] * 2, color=color, linewidth=0.8)
                panel.plot([low / row["value"]], [place], "|", color="0.2", markersize=7)
        shown = "no privacy" if np.isinf(epsilon) else f"epsilon = {epsilon:g}"
        label_axes(panel, shown, xlabel="regret / upper bound", ylabel="")
        panel.set_xscale("log")
        panel.set_xlim(1e-3, 2.0)
        panel.set_ylim(len(names) - 0.5, -0.5)
        panel.set_yticks(range(len(names)), names if panel is axes[0] else [""] * len(names))
        panel.tick_params(axis="y", labelsize=7)
    return figure
