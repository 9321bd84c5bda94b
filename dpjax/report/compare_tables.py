"""Tables of a comparison: regrets with bands, paired differences, and a sentence that sums up."""

from typing import Any

import numpy as np
import pandas

from dpjax.bounds.instances import NONE, lower_bounds
from dpjax.report import arrays, estimates

MORE, LESS, SAME = "more regret", "less regret", "not told apart"


def regret_rows(data, environments, feedback) -> pandas.DataFrame:
    """Mean regret at the horizon with a band that holds for all learners at once.

    There is a row for each environment, learner and epsilon, and one only for a learner that takes
    no epsilon. ``declared`` is the epsilon that the learner declares, which need not be the one
    that it was given; ``lower_bound`` is the largest one for the declaration.
    """
    band = estimates.band(data["final_regret"], "learner")
    known = {each.name: each for each in environments}
    horizon, rows = int(data["horizon"]), []
    for environment, learner, epsilon in _cells(data):
        at = {"learner": learner, "epsilon": data["epsilon"].values[0] if epsilon is None
              else epsilon}  # fmt: skip
        here = band.sel(environment=environment, **at)
        declared = {field: _declared(data, f"privacy_{field}", at)
                    for field in ("epsilon", "delta", "model")}  # fmt: skip
        found = lower_bounds(known[environment], feedback, horizon, **declared)
        bound = found[0] if found else NONE
        private = np.isfinite(declared["epsilon"])
        rows.append(
            {
                "environment": environment, "learner": learner, "epsilon": epsilon,
                "declared": declared["epsilon"], "delta": declared["delta"],
                "model": declared["model"] if private else "",
                **{name: float(here[name]) for name in ("mean", "standard_error", "low", "high")},
                "lower_bound": bound.value, "bound": bound.name,
                "shariff_sheffet": dict(found).get("shariff_sheffet"),
                "horizon": horizon, "trials": data.sizes["trial"],
            }
        )  # fmt: skip
    return pandas.DataFrame(rows, dtype=object)


def difference_rows(data, name) -> pandas.DataFrame:
    """Each competitor's regret less that of the learner ``name``, trial by trial.

    The band holds for all competitors at once, on one environment and at one epsilon.
    """
    band = differences(data["final_regret"], name, "learner")
    rows = []
    for environment in data["environment"].values:
        for learner in data["learner"].values:
            for epsilon in _levels(data, name, learner, environment):
                at = data["epsilon"].values[0] if epsilon is None else epsilon
                here = band.sel(environment=environment, learner=learner, epsilon=at)
                low, high = float(here["low"]), float(here["high"])
                if learner == name:
                    continue
                verdict = MORE if low > 0.0 else LESS if high < 0.0 else SAME
                rows.append(
                    {
                        "environment": environment, "learner": learner, "than": name,
                        "epsilon": epsilon, "difference": float(here["mean"]),
                        "standard_error": float(here["standard_error"]), "low": low, "high": high,
                        "verdict": verdict,
                    }
                )  # fmt: skip
    return pandas.DataFrame(rows, dtype=object)


def differences(array, name, over):
    """The band of the paired differences to a learner, simultaneous along the axis ``over``."""
    base = arrays.place(array, {"learner": name})
    return estimates.band(array - base, over)


def sentence(regret, differences, name, environment, level) -> str:
    """How a learner stands against all others on one environment, at one epsilon."""
    row = _at(regret, environment, level).set_index("learner").loc[name]
    shown = "" if row["epsilon"] is None else f" at epsilon = {_number(level)}"
    private = row["epsilon"] is not None
    parts = [
        f"On {environment}{shown}, {name} has a mean regret of {row['mean']:.4g} "
        f"(95 % band {row['low']:.4g} to {row['high']:.4g})"
    ]
    here = _at(differences, environment, level)
    rivals = _at(regret, environment, level).set_index("learner").drop(index=name)
    asked = rivals["epsilon"].notnull()
    given = "the same epsilon" if private else f"epsilon = {_number(level)}"
    for own, words in ((asked, f"given {given}"), (~asked, "that take no epsilon")):
        group = here[here["learner"].isin(rivals.index[own])]
        if len(group):
            counts = {v: int((group["verdict"] == v).sum()) for v in (MORE, LESS, SAME)}
            best = rivals.loc[own, "mean"].astype(float).idxmin()
            model = rivals.loc[best, "model"]
            parts.append(
                f"of the competitors {words}, {counts[MORE]} "
                f"{'has' if counts[MORE] == 1 else 'have'} more, {counts[LESS]} less, and "
                f"{counts[SAME]} cannot be told apart from it, and the best of them is {best} with "
                f"{rivals.loc[best, 'mean']:.4g}"
                + (f" (privacy declared in the {model} model)" if model else "")
            )
    return "; ".join(parts) + "."


def _at(table, environment, level) -> pandas.DataFrame:
    """The rows of an environment at an epsilon, and those that have no epsilon."""
    levels = table["epsilon"].isnull() | (table["epsilon"] == level)
    return table[(table["environment"] == environment) & levels]


def _cells(data):
    """(environment, learner, epsilon) of each row; epsilon is None for one that takes none."""
    for environment in data["environment"].values:
        for learner in data["learner"].values:
            for epsilon in _levels(data, learner, learner, environment):
                yield environment, learner, epsilon


def _levels(data, one, other, environment) -> list:
    """The epsilons at which two learners differ from themselves at others; [None] for none."""
    takes = data.coords.get("takes_epsilon")
    if takes is None:
        return [None]
    given = [bool(takes.sel(learner=n, environment=environment)) for n in (one, other)]
    return [float(e) for e in data["epsilon"].values] if any(given) else [None]


def _declared(data, name, at) -> Any:
    found = data.coords[name]
    here = found.sel({axis: value for axis, value in at.items() if axis in found.dims})
    value = np.asarray(here.values).item()
    return value if isinstance(value, str) else float(value)


def _number(value) -> str:
    return "inf" if np.isinf(value) else f"{value:g}"


def ordered(table, level) -> list[str]:
    """The learners of one environment by their mean regret at an epsilon, the least first."""
    at = table[table["epsilon"].isnull() | (table["epsilon"] == level)]
    return at.assign(mean=at["mean"].astype(float)).sort_values("mean")["learner"].tolist()


def rivals(table, name, level, count=4) -> list[str]:
    """The learners of one environment that are nearest to a learner in mean regret.

    The one with the least regret is among them.
    """
    order = ordered(table, level)
    here = table[table["epsilon"].isnull() | (table["epsilon"] == level)].set_index("learner")
    means = here["mean"].astype(float)
    others = [each for each in order if each != name]
    near = sorted(others[1:], key=lambda each: abs(means[each] - means[name]))
    chosen = {*others[:1], *near[: count - 1]}
    return [each for each in order if each in chosen]
