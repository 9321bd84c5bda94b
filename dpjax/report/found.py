"""What a page shows, wherever it was read: means with intervals, curves, laws and a frontier."""

from typing import NamedTuple

import numpy as np
import pandas
import xarray

from dpjax.report import statistics, trends

# The most numbers of a law that a page holds. Of more trials it holds as many quantiles.
_LAW = 1001
_INTERVAL = "normal 95 % interval of the mean"
FACTORS = (1.1, 2.0)  # of the regret without privacy


class Cell(NamedTuple):
    """The trials of one learner at one setting."""

    labels: dict  # learner, epsilon (NaN for a learner that takes none), panel
    declared: dict  # epsilon, delta and model; empty where they are not known
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (trials, n), NaN in trials that were not played


class Found(NamedTuple):
    """What was read. All tables have the columns learner, epsilon and panel."""

    title: str
    means: pandas.DataFrame  # mean, low, high and whatever else is shown on hover
    value: str  # what the means are of
    interval: str  # what low and high are
    curves: pandas.DataFrame | None  # round, mean, low, high
    curve_interval: str
    laws: pandas.DataFrame | None  # regret of each trial, or q5, q25, q50, q75, q95
    frontier: pandas.DataFrame | None  # mean, low, high, chosen; no learner
    least: pandas.DataFrame  # baseline, least
    parameters: dict
    notes: list[str]


def epsilon_text(epsilon) -> str:
    """An epsilon as it stands on an axis."""
    if np.isnan(epsilon):
        return "no ε"
    return "∞" if np.isinf(epsilon) else f"{epsilon:.4g}"


def value_text(value) -> str:
    """The value of a parameter, the same for a number of a table, of a store and of a study."""
    if np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f":
        return f"{value:.6g}"
    return str(value)


def of_cells(title, cells, parameters, notes) -> Found:
    """What the trials of some cells say."""
    means, curves, laws, notes = [], [], [], list(notes)
    kept = []
    for cell in cells:
        played = ~np.isnan(cell.regret[:, -1])
        name = ", ".join(str(v) for v in cell.labels.values() if v != "")
        if not played.all():
            notes.append(f"{(~played).sum()} of {len(played)} trials of {name} were not played.")
        if not played.any():
            continue
        regret = cell.regret[played].astype(np.float64)
        kept.append(cell._replace(regret=regret))
        band = statistics.mean_band(regret, axis=0)
        own = dict(zip(("mean", "low", "high"), (part[-1] for part in band), strict=True))
        means.append({**cell.labels, **own, "trials": len(regret),
                      **{f"declared {k}": v for k, v in cell.declared.items()}})  # fmt: skip
        # The rounds that the learner's own game does not record are NaN.
        told = ~np.isnan(band.mean)
        curves.append(pandas.DataFrame({
            **cell.labels, "round": cell.rounds[told],
            **{k: getattr(band, k)[told] for k in ("mean", "low", "high")},
        }))  # fmt: skip
        final = regret[:, -1]
        if len(final) > _LAW:
            final = np.quantile(final, np.linspace(0.0, 1.0, _LAW))
        laws.append(pandas.DataFrame({**cell.labels, "regret": final}))
    if not means:
        raise ValueError(f"{title}: no trial has been played yet")
    table = pandas.DataFrame(means)
    return Found(
        title, table, "regret", _INTERVAL, pandas.concat(curves, ignore_index=True), _INTERVAL,
        pandas.concat(laws, ignore_index=True),
        _frontier(kept), least(table), parameters, notes,
    )  # fmt: skip


def _frontier(cells) -> pandas.DataFrame | None:
    """The frontier as a study computes it, in each panel; None for less than four trials."""
    rows: list[dict] = []
    for panel in dict.fromkeys(cell.labels["panel"] for cell in cells):
        own = [cell for cell in cells if cell.labels["panel"] == panel]
        trials = min(len(cell.regret) for cell in own)
        levels = sorted({e for cell in own if not np.isnan(e := cell.labels["epsilon"])})
        learners = list(dict.fromkeys(cell.labels["learner"] for cell in own))
        if trials < 4 or not levels:
            continue
        shape = len(learners), len(levels)
        final, declared = np.full((*shape, trials), np.nan), np.full(shape, np.inf)
        models = np.full(shape, "", object)
        for cell in own:
            epsilon = cell.labels["epsilon"]
            at = slice(None) if np.isnan(epsilon) else levels.index(epsilon)
            place = learners.index(cell.labels["learner"]), at
            final[place] = cell.regret[:trials, -1]
            # A store keeps no declaration. Then the epsilon that was asked for counts.
            asked = np.inf if np.isnan(epsilon) else epsilon
            declared[place] = cell.declared.get("epsilon", asked)
            models[place] = cell.declared.get("model", "")
        pair = ["learner", "epsilon"]
        data = xarray.Dataset(
            {"final_regret": ([*pair, "trial"], final)},
            {"learner": np.array(learners, object), "epsilon": levels,
             "privacy_epsilon": (pair, declared), "privacy_model": (pair, models)},
        )  # fmt: skip
        found = data.dpjax.frontier(settings=pair).dropna("epsilon", subset=["mean"])
        rows.extend(
            {"epsilon": e, "panel": panel, "mean": m, "low": lo, "high": hi, "chosen": str(c)}
            for e, m, lo, hi, c in zip(
                found["epsilon"].values, found["mean"].values, found["low"].values,
                found["high"].values, found["chosen_learner"].values, strict=True,
            )
        )  # fmt: skip
    return pandas.DataFrame(rows) if rows else None


def least(means) -> pandas.DataFrame:
    """The least epsilon from which on each learner's mean is at most that of a baseline.

    The baselines are the learner itself without noise, with the factors FACTORS, and each learner
    of the same panel that takes no epsilon. ``least`` is 0 where the mean is there at every epsilon
    and inf where it is so at none. It is interpolated as :func:`dpjax.report.trends.crossing` does.
    """
    rows = []
    for (panel, learner), own in means.groupby(["panel", "learner"], sort=False):
        own = own.dropna(subset=["epsilon", "mean"]).sort_values("epsilon")
        finite = own[np.isfinite(own["epsilon"])]
        if finite.empty or not (finite["epsilon"] > 0.0).all():
            continue
        free = own[np.isinf(own["epsilon"])]
        others = means[(means["panel"] == panel) & means["epsilon"].isna()]
        baselines = [(f"{f:g} times itself at ε = ∞", f * m) for m in free["mean"] for f in FACTORS]
        baselines += list(zip(others["learner"], others["mean"], strict=True))
        for baseline, level in baselines:
            if level > 0.0:
                logs = np.log(finite["epsilon"].to_numpy())
                found = trends.first_within(logs, finite["mean"].to_numpy() / level, 1.0)
                rows.append({"panel": panel, "learner": learner, "baseline": baseline,
                             "least": float(found)})  # fmt: skip
    return pandas.DataFrame(rows, columns=["panel", "learner", "baseline", "least"])
