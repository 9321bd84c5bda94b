"""The interactive page: one HTML file with figures of labelled data and their declared privacy."""

import json
from collections.abc import Mapping
from html import escape
from itertools import product
from typing import Any

import numpy as np
import pandas
import xarray

from dpjax.report import arrays, trends
from dpjax.report import interactive as figures
from dpjax.report import panels as choice
from dpjax.report.output import versions
from dpjax.report.pages import document, paragraph, word_table

_TOGETHER = 12  # If there are more panels, the page shows one at a time, which the reader chooses.
_FACTORS = (1.1, 2.0)  # multiples of the regret without privacy
_POINTS = ("point", "setting")  # axes of a sweep's points
_INTERVAL = "Student's 95 % interval"
# The page may load no external resource.
_ALONE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">"
)
# Heading, name in the page, function that draws it, caption.
_SECTIONS = (
    ("Regret curves", "curves", figures.curves,
     f"Mean over trials. Low and high on hover: {_INTERVAL} of the mean at each round."),
    ("Regret against ε", "epsilon", figures.over_epsilon,
     f"Mean over trials of the regret at the horizon; bars: {_INTERVAL}."),
    ("Laws of final regret", "laws", figures.laws,
     "Boxes: quartiles, and 5 % and 95 % quantiles of the trials."),
    ("Frontier", "frontier", figures.frontier,
     "The least mean over all learners that declare at most ε. The learner is chosen on half of "
     "the trials, and its mean is reported on the other half."),
)  # fmt: skip


def html(data: xarray.Dataset, parameters: Mapping[str, Any], title: str) -> str:
    """The page of a study or sweep, as text.

    Each setting of the axes other than learner and epsilon has its own panel.

    Raises:
      ValueError: no trial is finite.
    """
    with arrays.quiet():
        return _html(_in_cells(data), parameters, title)


def _html(data, parameters, title) -> str:
    """The page of labelled data; warnings of estimates are sentences on it."""
    notes = _notes(data, title)
    learners = [str(name) for name in data["learner"].values]
    panels = [(setting, _tables(part)) for setting, part in _parts(data)]
    panels = [(setting, tables) for setting, tables in panels if len(tables["epsilon"])]
    many = len(panels) > _TOGETHER
    body = [
        f"<h1>{escape(title)}</h1>",
        paragraph(
            "dpjax simulates idealised mechanisms with a reproducible generator. Privacy levels "
            "are declared by the learners. Click on an entry of a legend to hide its curve."
        ),
        *[paragraph(note, "verdict") for note in notes],
    ]
    if many:
        settings = [setting for setting, _ in panels]
        first = max(panels, key=lambda panel: len(panel[1]["epsilon"]))[0]  # the most epsilons
        body += [paragraph(f"The input has {len(panels)} settings. Choose the one that all "
                           "figures show."), choice.boxes(settings, first)]  # fmt: skip

    def shown(setting, element):
        # The text of a sweep's point contains the names of its parameters.
        texts = [v if k in _POINTS else f"{k} = {v}" for k, v in setting.items()]
        element = f"<h3>{escape(', '.join(texts))}</h3>{element}" if setting else element
        return choice.hidden(setting, element) if many else element

    for heading, name, draw, words in _SECTIONS:
        drawn = [
            shown(setting, f"<figure>{figures.html(draw(tables[name], learners), f'{name}-{i}')}"
                           "</figure>")
            for i, (setting, tables) in enumerate(panels) if len(tables[name])
        ]  # fmt: skip
        if not drawn:
            words = "The input has no data for this figure."
        body += [f"<h2>{heading}</h2>", paragraph(words, "small"), *drawn]
    least = [shown(setting, _words(tables["least"])) for setting, tables in panels
             if len(tables["least"])]  # fmt: skip
    if least:
        body += ["<h3>Least ε at which a learner is as good as a baseline</h3>",
                 paragraph("From this ε on, the mean is at most that of the baseline. The 95 % "
                           "interval is over resampled trials. Between the values of ε that were "
                           "played, log ε is interpolated.", "small"), *least]  # fmt: skip
    declared = pandas.concat([tables["epsilon"] for _, tables in panels])
    names = [name for name in declared if name.startswith("declared ")]
    if names:
        own = declared[["learner", "epsilon", *names]].drop_duplicates()
        own["epsilon"] = own["epsilon"].map(figures.epsilon_text)
        body += ["<h2>Declared privacy</h2>", _words(own)]
    fixed = {name: array.item() for name, array in data.coords.items()
             if array.ndim == 0 and not str(name).startswith("takes_")}  # fmt: skip
    told = json.dumps({**fixed, **parameters}, indent=2, ensure_ascii=False, default=str)
    body += ["<h2>Parameters</h2>", f'<pre class="wide">{escape(told)}</pre>',
             paragraph(f"Made by dpjax {versions()['dpjax']}.", "small")]  # fmt: skip
    if many:
        body.append(choice.script())
    return document(f"{title}: dpjax explore", body, [_ALONE, figures.script()])


def _in_cells(data) -> xarray.Dataset:
    """The data, with an axis epsilon if each of their points has a number of this name."""
    if "point" in data.dims:
        names = [name for name, array in data.coords.items() if array.dims[:1] == ("point",)
                 and name not in ("point", "epsilon")]  # fmt: skip
        texts = [", ".join(f"{name} = {_text(data[name].values[i])}" for name in names)
                 for i in range(data.sizes["point"])]  # fmt: skip
        numbers = [data[name].values for name in reversed(names)
                   if data[name].ndim == 1 and data[name].dtype.kind in "iuf"]  # fmt: skip
        order = np.lexsort(numbers) if numbers else np.arange(len(texts))
        setting = ("point", np.array(texts, object))
        if "epsilon" in data.coords:
            cells = data.drop_vars(["point", *names]).assign_coords(setting=setting)
            cells = cells.set_index(point=["epsilon", "setting"]).drop_duplicates("point")
            # Numbers sort differently as text.
            return cells.unstack("point").sel(setting=list(dict.fromkeys(setting[1][order])))
        return data.drop_vars(names).assign_coords(point=setting).isel(point=order)
    return data


def _notes(data, title) -> list[str]:
    """Sentences on trials that do not count, and on trials that did not stop."""
    found = data.dpjax.mean()
    arrays.refuse_empty(found["mean"], title)
    counted = arrays.cautioned(found, data.sizes["trial"])
    notes = [*filter(None, [arrays.remarks(counted)])]
    if "report_stopped" in data:
        stopped = data["report_stopped"]
        late = data.assign(late=(stopped == 0.0).where(stopped.notnull())).dpjax.table("late")
        for learner, own in late.groupby("learner", sort=False):
            censored = round((own["mean"] * own["trials"]).sum())
            if censored:
                notes.append(f"{censored} of {own['trials'].sum()} trials of {learner} did not "
                             "stop and are censored at the horizon.")  # fmt: skip
    return notes


def _parts(data) -> list[tuple[dict[str, str], xarray.Dataset]]:
    """Each setting of the axes other than learner and epsilon, with its data; numbers in order."""
    cells = data["final_regret"]
    axes = [name for name in cells.dims if name not in ("learner", "epsilon", "trial")]
    numbers = [name for name in axes if name in data.coords and data[name].dtype.kind in "iuf"]
    data = data.sortby([name for name in numbers if name not in _POINTS])
    found = []
    for index in product(*(range(data.sizes[name]) for name in axes)):
        part = data.isel(dict(zip(axes, index, strict=True)))
        setting = {name: _text(part[name].item()) for name in axes if data.sizes[name] > 1}
        found.append((setting, part))
    return found


def _text(value) -> str:
    """The value of a parameter as text."""
    number = np.ndim(value) == 0 and np.asarray(value).dtype.kind == "f"
    return f"{value:.6g}" if number else str(value)


def _tables(part) -> dict[str, pandas.DataFrame]:
    """The rows of each figure by its name, and of the table of least epsilons."""
    means = _rows(part, "final_regret")
    several = len(means) > 0 and means["trials"].max() >= 4
    private = several and "epsilon" in part.dims and "privacy_epsilon" in part.coords
    empty = pandas.DataFrame()
    return {
        "curves": _rows(part, "regret"),
        "epsilon": means,
        "laws": _laws(part, means) if len(means) else empty,
        "frontier": _frontier(part) if private else empty,
        "least": _least(part, means) if several and "epsilon" in part.dims else empty,
    }


def _rows(part, of) -> pandas.DataFrame:
    """Means with intervals, a row for each learner and epsilon (NaN if the learner takes none)."""
    frame = part.dpjax.table(of)
    frame = frame[frame["trials"] > 0]
    if "epsilon" not in frame:
        frame["epsilon"] = np.nan
    if of == "regret":
        return frame[["learner", "epsilon", "round", "mean", "low", "high", "trials"]]
    return frame.rename(columns=lambda name: name.replace("privacy_", "declared "))


def _final(part, row) -> xarray.DataArray:
    """The trials of the learner and epsilon of a row."""
    final = part["final_regret"].sel(learner=row["learner"])
    if "epsilon" not in final.dims:
        return final
    return final.isel(epsilon=0) if np.isnan(row["epsilon"]) else final.sel(epsilon=row["epsilon"])


def _laws(part, means) -> pandas.DataFrame:
    """Quantiles of the regret at the horizon, a row for each learner and epsilon."""
    names, levels = ("q5", "q25", "q50", "q75", "q95"), (0.05, 0.25, 0.5, 0.75, 0.95)
    rows = []
    for row in means.to_dict("records"):
        final = _final(part, row).values
        quantiles = np.quantile(final[np.isfinite(final)], levels)
        own = {"learner": row["learner"], "epsilon": row["epsilon"]}
        rows.append(own | dict(zip(names, quantiles, strict=True)))
    return pandas.DataFrame(rows)


def _frontier(part) -> pandas.DataFrame:
    """The least mean at each level of declared epsilon."""
    found = part.dpjax.frontier(settings=["learner", "epsilon"])
    found = found[["mean", "low", "high", "chosen_learner", "chosen_model"]]
    frame = found.reset_coords(drop=True).to_dataframe().reset_index().dropna(subset=["mean"])
    return frame.rename(columns={"chosen_learner": "chosen", "chosen_model": "model"})


def _least(part, means) -> pandas.DataFrame:
    """The least epsilon from which each learner's mean is at most that of a baseline.

    The baselines are multiples of the learner's own mean at epsilon = inf, and each learner that
    takes no epsilon.
    """
    rows = []
    final = part["final_regret"]
    part = part.assign(final_regret=final.where(arrays.counts(final, 2)))
    levels = part["epsilon"].values
    others = means[means["epsilon"].isna()]
    if not (levels > 0.0).all() or not np.isfinite(levels).any():
        return pandas.DataFrame()
    for learner in dict.fromkeys(means["learner"][means["epsilon"].notna()]):
        own = part["final_regret"].sel(learner=learner).sortby("epsilon")
        finite = own.sel(epsilon=np.sort(levels[np.isfinite(levels)])).dropna("epsilon", how="all")
        baselines = []
        if np.inf in levels:
            free = own.sel(epsilon=np.inf)
            baselines = [(f"{f:g} times itself at ε = ∞", free, f) for f in _FACTORS]
        baselines += [(row["learner"], _final(part, row), 1.0) for row in others.to_dict("records")]
        for name, baseline, factor in baselines:
            if finite.sizes["epsilon"] and float(baseline.mean()) > 0.0:
                # The baseline replaces the learner's own trials without noise.
                bare = baseline.reset_coords(drop=True).expand_dims(epsilon=[np.inf])
                both = xarray.concat([finite.reset_coords(drop=True), bare], "epsilon")
                found = trends.crossing(both, factor, at=np.inf)
                numbers = (float(found[each]) for each in ("crossing", "low", "high"))
                rows.append([learner, name, *map(_least_text, numbers)])
    return pandas.DataFrame(rows, columns=["learner", "baseline", "least ε", "low", "high"])


def _least_text(value) -> str:
    if value == 0.0:
        return "at all ε that were played"
    return "at none" if np.isinf(value) else "" if np.isnan(value) else f"{value:.3g}"


def _words(frame) -> str:
    """A table as text, with four digits of each number."""

    def text(value):
        if isinstance(value, float):
            return "" if np.isnan(value) else f"{value:.4g}"
        return str(value)

    header = ["requested ε" if name == "epsilon" else name for name in frame]
    return word_table(header, [([*map(text, row)], False) for row in frame.to_numpy().tolist()])
