"""Figures of a page by plotly, which only this module imports.

They are SVG, because browsers allow few WebGL figures per page.
"""

from itertools import cycle

import numpy as np
from plotly import colors, express, graph_objects, offline

_HEIGHT, _ENTRY = 460, 10  # heights of a figure and of each entry of a long legend
_FEW, _MANY = colors.qualitative.Plotly, colors.qualitative.Dark24


def epsilon_text(epsilon: float) -> str:
    """An epsilon as a label of an axis."""
    if np.isnan(epsilon):
        return "no ε"
    return "∞" if np.isinf(epsilon) else f"{epsilon:.4g}"


def script() -> str:
    """The plotly library, which the page contains so that it works offline."""
    return f"<script>{offline.get_plotlyjs()}</script>"


def html(figure, name) -> str:
    """A figure as an HTML element."""
    return figure.to_html(
        full_html=False, include_plotlyjs=False, default_width="100%",
        default_height=f"{figure.layout.height}px", div_id=name,
        config={"responsive": True, "displaylogo": False, "plotlyServerURL": ""},
    )  # fmt: skip


def over_epsilon(rows, learners):
    """Means with intervals against epsilon, a colour for each learner."""
    figure = express.line(
        _barred(rows), x="epsilon", y="mean", color="learner", markers=True, error_y="up",
        error_y_minus="down", hover_data=_hover(rows), render_mode="svg",
        **_shared(rows, learners),
    )  # fmt: skip
    return _framed(figure, rows["mean"])


def curves(rows, learners):
    """Curves over rounds: a colour for each learner and a line style for each epsilon.

    If there is one learner, each epsilon has a colour.
    """
    style = {"color": "learner", "line_dash": "epsilon"}
    if rows["learner"].nunique() == 1:
        style = {"color": "epsilon"}
    figure = express.line(
        _shown(rows.sort_values("round", kind="stable")), x="round", y="mean",
        hover_data=_hover(rows), render_mode="svg", **style, **_shared(rows, learners),
    )  # fmt: skip
    if rows["round"].median() < rows["round"].max() / 4:  # Evenly spaced rounds stay linear.
        figure.update_xaxes(type="log")
    return _framed(figure)


def laws(rows, learners):
    """Laws of final regret: a box of quantiles for each learner and epsilon."""
    shared, shown, boxes = _shared(rows, learners), _shown(rows), []
    for learner, color in shared["color_discrete_map"].items():
        own = shown[shown["learner"] == learner]
        if len(own):
            boxes.append(graph_objects.Box(
                name=learner, x=own["epsilon"], lowerfence=own["q5"], q1=own["q25"],
                median=own["q50"], q3=own["q75"], upperfence=own["q95"], marker_color=color,
            ))  # fmt: skip
    figure = graph_objects.Figure(boxes, {"boxmode": "group"})
    figure.update_yaxes(title="regret")
    levels = shared["category_orders"]["epsilon"]
    figure.update_xaxes(title="ε", categoryorder="array", categoryarray=levels)
    return _framed(figure, rows["q5"])


def frontier(rows, learners):
    """The least mean at each epsilon, in the colour of its learner."""
    figure = express.scatter(
        _barred(rows), x="epsilon", y="mean", color="chosen", error_y="up", error_y_minus="down",
        hover_data=_hover(rows), render_mode="svg", **_shared(rows, learners),
    )  # fmt: skip
    figure.update_traces(marker_size=9)
    return _framed(figure, rows["mean"])


def _shown(rows):
    """Rows with epsilon as text, so that an axis can show infinity."""
    return rows.assign(epsilon=rows["epsilon"].map(epsilon_text))


def _barred(rows):
    """Rows by increasing epsilon, with the lengths of their bars."""
    rows = rows.sort_values("epsilon", kind="stable")
    up, down = rows["high"] - rows["mean"], rows["mean"] - rows["low"]
    return _shown(rows).assign(up=up, down=down)


def _shared(rows, learners) -> dict:
    """The order of learners and epsilons, and the colours, which all figures share."""
    levels = [epsilon_text(level) for level in np.sort(rows["epsilon"].unique())]
    palette = cycle(_FEW if len(learners) <= len(_FEW) else _MANY)
    return {
        "category_orders": {"learner": learners, "chosen": learners, "epsilon": levels},
        "color_discrete_map": dict(zip(learners, palette, strict=False)),
        "labels": {"epsilon": "ε", "mean": "regret", "round": "round t"},
    }


def _hover(rows) -> list[str]:
    """The columns that are shown on hover: all that are not empty."""
    return [name for name in rows if rows[name].notna().any()]


def _framed(figure, values=None):
    """The look of a figure.

    ``values`` are the values of a figure over epsilon; its axis is logarithmic if they vary much.
    """
    height = _HEIGHT + _ENTRY * max(0, len(figure.data) - 12)
    figure.update_layout(
        template="plotly_white", height=height, margin={"l": 10, "r": 10, "t": 30, "b": 10},
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
    )  # fmt: skip
    if values is not None:
        figure.update_xaxes(type="category")
        if values.min() > 0.0 and values.max() > 30.0 * values.min():
            figure.update_yaxes(type="log", title="regret, logarithmic axis")
    return figure
