"""Reads the CSV files that ``dpjax run``, studies and ``dpjax reproduce`` write."""

import json
from pathlib import Path

import numpy as np
import pandas
from scipy import stats

from dpjax.report.found import Found, epsilon_text, least, value_text
from dpjax.report.stores import read_study

# Who plays, what was asked for, and what is measured, by the names that the tables have for them.
_LEARNERS = ("learner", "noise", "mechanism")
_EPSILONS = ("asked_epsilon", "asked", "epsilon")
_VALUES = ("mean", "regret", "time")
_INTERVALS = (("low", "high"), ("time_low", "time_high"), ("q10", "q90"), ("q5", "q95"))
_QUANTILES = ["q5", "q25", "q50", "q75", "q95"]
_DECLARED = ("model", "delta", "privacy_epsilon", "privacy_delta", "privacy_model")
_TRIALS = ("trials", "seeds")


def read_csv(path) -> Found:
    """What is in a table of results.

    The curves of ``dpjax run``, the data of a study and parameters.json are read from the same
    folder, where they are.

    Raises:
      ValueError: the file is no such table; the message names the file and the column.
      OSError: it cannot be read.
    """
    path = Path(path)
    table = _read(path)
    parameters = _parameters(path)
    if list(table) == ["epsilon", "round", "regret", "low", "high"]:  # curves.csv of a run
        table.insert(0, "learner", str(parameters.get("learner", "learner")))
    means, value, interval, notes = _tidy(path, table)
    curves, curve_interval = None, interval
    if "round" in means:
        curves = means
        last = means.groupby(["panel", "learner", "epsilon"], sort=False, dropna=False)["round"]
        means = means[means["round"] == last.transform("max")].reset_index(drop=True)
        if means["round"].nunique() > 1:  # Those of games of different length are not compared.
            ends = "round = " + means["round"].astype(str)
            means["panel"] = [
                ", ".join(filter(None, pair)) for pair in zip(means["panel"], ends, strict=True)
            ]
    laws = None
    if set(_QUANTILES) <= {*means}:
        laws = means.dropna(subset=_QUANTILES)
    frontier = _frontier(means)
    if path.name == "table.csv" and (path.parent / "study.nc").is_file():
        data = read_study(path.parent / "study.nc")
        curves, laws, frontier = data.curves, data.laws, data.frontier
        curve_interval = data.curve_interval
        notes += data.notes
    elif path.name == "table.csv" and (path.parent / "curves.csv").is_file():
        beside = _read(path.parent / "curves.csv")
        beside.insert(0, "learner", means["learner"].iloc[0])
        curves, _, curve_interval, _ = _tidy(path.parent / "curves.csv", beside)
    return Found(
        str(path), means, value, interval, curves, curve_interval, laws, frontier, least(means),
        parameters, notes,
    )  # fmt: skip


def _read(path) -> pandas.DataFrame:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        # "none" is a word in these tables; only an empty entry is missing.
        table = pandas.read_csv(path, keep_default_na=False, na_values=["", "nan"])
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no CSV table: {error}") from None
    if table.empty:
        raise ValueError(f"{path}: has no rows")
    return table


def _parameters(path) -> dict:
    """What parameters.json beside the table says; nothing where there is none."""
    beside = path.parent / "parameters.json"
    if not beside.is_file():
        return {}
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{beside}: is no JSON") from None
    return found if isinstance(found, dict) else {"parameters": found}


def _first(names, table):
    return next((name for name in names if name in table), None)


def _tidy(path, table) -> tuple:
    """(means, what they are of, what the interval is, notes): a row for each setting."""
    learner, value = _first(_LEARNERS, table), _first(_VALUES, table)
    for name, columns in ((learner, _LEARNERS), (value, _VALUES)):
        if name is None:
            raise ValueError(
                f"{path}: there is no column {columns[0]}; the tables of dpjax run, of studies and "
                "of dpjax reproduce have one"
            )
    asked = _first(_EPSILONS, table)
    numbers = [c for c in (value, asked, "round", *sum(_INTERVALS, ()), *_QUANTILES,
                           "standard_error") if c in table]  # fmt: skip
    for name in numbers:
        wrong = pandas.to_numeric(table[name], errors="coerce").isna() & table[name].notna()
        if wrong.any():
            raise ValueError(
                f"{path}: column {name} must hold numbers, got {str(table[name][wrong].iloc[0])!r}"
            )
        table[name] = pandas.to_numeric(table[name])
    epsilon = table[asked].astype(float) if asked else pandas.Series(np.nan, table.index)
    found = pandas.DataFrame({"learner": table[learner].astype(str), "epsilon": epsilon})
    keys = [found["learner"], found["epsilon"]] + ([table["round"]] if "round" in table else [])
    found["panel"], again = _panels(table, keys, {learner, asked, value})
    for name in ("round", *_QUANTILES, "median", "standard_error", "stopped"):
        if name in table:
            found[name] = table[name]
    for name in _DECLARED:
        if name in table:
            found[f"declared {name.removeprefix('privacy_')}"] = table[name]
    if asked in ("asked", "asked_epsilon") and "epsilon" in table:
        found["declared epsilon"] = table["epsilon"]
    trials = _first(_TRIALS, table)
    if trials:
        found["trials"] = table[trials]
    found["mean"] = table[value].astype(float)
    found["low"], found["high"], interval = _interval(table, value)
    notes = _missing(found)
    if again.any():
        notes.append(f"{again.sum()} rows are of a setting that stands above them, and left out.")
    if "privacy_epsilon" in table:
        value = "regret"  # of a study, whose table calls it the mean
    shown = found[found["mean"].notna() & ~again]
    if shown.empty:
        raise ValueError(f"{path}: column {value} has no numbers")
    return shown.reset_index(drop=True), value, interval, notes


def _interval(table, value) -> tuple:
    """(low, high, what they are)."""
    for low, high in _INTERVALS[:2]:
        if low in table and high in table:
            return table[low], table[high], "95 % interval of the table"
    if "standard_error" in table:
        width = stats.norm.ppf(0.975) * table["standard_error"]
        return table[value] - width, table[value] + width, "normal 95 % interval of the mean"
    if "gini_below" in table and value == "regret":
        low, high = table[value] - table["gini_below"], table[value] + table["gini_above"]
        return low, high, "Gini's mean differences below and above"
    for low, high in _INTERVALS[2:]:
        if low in table and high in table:
            return table[low], table[high], f"{low[1:]} % and {high[1:]} % quantiles of the trials"
    return np.nan, np.nan, "no interval in the table"


def _panels(table, keys, used) -> tuple:
    """A text for each row that says which setting it is of, and whether the setting stood before.

    The setting is what stands before the value, without columns that the others determine, and
    without the learner and epsilon.
    """
    end = min(list(table).index(name) for name in _VALUES if name in table)
    skipped = {*used, *_TRIALS, *_EPSILONS, "round", "low", "high"}
    names = [name for name in list(table)[:end] if name not in skipped]

    def repeated(chosen):
        return pandas.concat([*keys, *(table[name] for name in chosen)], axis=1).duplicated()

    again = repeated(names)
    # A declaration names a setting only where nothing else does.
    declared = [name for name in names if name in _DECLARED]
    # Regrets at different horizons are never of one setting.
    several = [n for n in names if n == "horizon" and table[n].nunique() > 1]
    others = [name for name in names[::-1] if name not in (*declared, *several)]
    for name in declared + others:
        rest = [other for other in names if other != name]
        if repeated(rest).equals(again):
            names = rest
    if not names:  # of a table without columns some versions of pandas give no rows
        return pandas.Series("", table.index, dtype=object), again
    texts = [
        ", ".join(f"{n} = {value_text(v)}"
                  for n, v in zip(names, row, strict=True) if not pandas.isna(v))
        for row in table[names].itertuples(index=False)
    ]  # fmt: skip
    return pandas.Series(texts, table.index, dtype=object), again


def _missing(found) -> list[str]:
    """What is said of rows without a value, and of those whose trials did not all stop."""
    notes = []
    gone = found[found["mean"].isna()]
    if len(gone):
        notes.append(f"{len(gone)} rows have no value and are left out: {_named(gone)}.")
    if "stopped" in found:
        censored = found[found["stopped"] < 1.0]
        if len(censored):
            notes.append(
                f"{len(censored)} rows are censored, since not all of their trials stopped by the "
                f"horizon: {_named(censored)}."
            )
    return notes


def _named(rows) -> str:
    pairs = zip(rows["learner"], rows["epsilon"], strict=True)
    names = [f"{learner} at ε = {epsilon_text(epsilon)}" for learner, epsilon in pairs]
    names = list(dict.fromkeys(names))
    return "; ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _frontier(means) -> pandas.DataFrame | None:
    """The least mean among the rows that declare at most each epsilon."""
    declared = means["declared epsilon"] if "declared epsilon" in means else means["epsilon"]
    declared = declared.fillna(np.inf)
    rows = []
    for panel, own in means.groupby("panel", sort=False):
        for level in sorted(own["epsilon"].dropna().unique()):
            allowed = own[declared[own.index] <= level * (1.0 + 1e-5)]
            if len(allowed):
                best = allowed.loc[allowed["mean"].idxmin()]
                rows.append({"epsilon": level, "panel": panel, "mean": best["mean"],
                             "low": best["low"], "high": best["high"],
                             "chosen": best["learner"]})  # fmt: skip
    return pandas.DataFrame(rows) if rows else None
