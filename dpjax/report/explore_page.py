"""The page: one HTML file with the figures, the parameters and what was declared."""

import json
import os
from html import escape

import numpy as np

from dpjax.report import interactive as figures
from dpjax.report import panels as choice
from dpjax.report.csv_tables import read_csv
from dpjax.report.found import epsilon_text
from dpjax.report.output import versions
from dpjax.report.pages import document, paragraph, word_table
from dpjax.report.stores import read_store

_TOGETHER = 12  # Of more panels a page shows one, which the reader chooses.
# The page may load nothing, from nowhere.
_ALONE = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">"
)


def read(path):
    """What a table or a store holds: a file is a table, and all else a store.

    Raises:
      ValueError, OSError: it is neither; the message names it.
    """
    if os.path.isfile(path) or str(path).lower().endswith(".csv"):
        return read_csv(path)
    if "://" not in str(path) and not os.path.isdir(path):
        raise FileNotFoundError(f"{path}: no such file or folder")
    return read_store(path)


def html(found) -> str:
    """The page of a Found, as text."""
    learners = list(dict.fromkeys(found.means["learner"]))
    of = {"value": found.value, "learners": learners}
    quantiles = found.laws is not None and "q50" in found.laws
    boxes = "quartiles, and 5 % and 95 % quantiles" if quantiles else "quartiles of the trials"
    sections = [
        ("Regret curves", "curves", found.curves, figures.curves, of,
         f"Mean over trials. Low and high on hover: {found.curve_interval}."),
        (f"{found.value.capitalize()} against ε", "epsilon", found.means, figures.over_epsilon, of,
         f"Mean over trials; bars: {found.interval}."),
        ("Laws of final regret", "laws", found.laws, figures.laws, of, f"Boxes: {boxes}."),
        ("Frontier", "frontier", found.frontier, figures.frontier, of,
         "The least mean at each level of declared ε, over all learners that declare at most it. "
         + _chosen(found)),
    ]  # fmt: skip
    tables = [found.means, found.curves, found.laws, found.frontier]
    panels = list(dict.fromkeys(p for t in tables if t is not None for p in t["panel"]))
    many = len(panels) > _TOGETHER
    body = [
        f"<h1>{escape(found.title)}</h1>",
        paragraph(
            "dpjax simulates idealised mechanisms with a reproducible generator. Privacy is what "
            "each learner declares. A click on an entry of a legend hides what it names."
        ),
        *[paragraph(note, "verdict") for note in found.notes],
    ]
    if many:
        first = found.means.groupby("panel", sort=False).size().idxmax()  # which has most to show
        body += [paragraph(f"The input has {len(panels)} settings. The boxes choose the one that "
                           "all figures show."), choice.boxes(panels, first)]  # fmt: skip
    for title, name, rows, draw, options, words in sections:
        body += [f"<h2>{escape(title)}</h2>", *_section(name, rows, draw, options, words, many)]
    body += [*_least(found.least, many), *_declared(found.means), "<h2>Parameters</h2>"]
    told = json.dumps(found.parameters, indent=2, ensure_ascii=False)
    body.append(f'<pre class="wide">{escape(told)}</pre>' if found.parameters
                else paragraph("There is no parameters.json beside the table."))  # fmt: skip
    made = versions()
    body.append(paragraph(f"Made by dpjax {made['dpjax']}.", "small"))
    if many:
        body.append(choice.script())
    return document(f"{found.title}: dpjax explore", body, [_ALONE, figures.script()])


def _section(name, rows, draw, options, words, many) -> list[str]:
    """A figure for each panel, hidden if they are many; a sentence if there is nothing to draw."""
    if rows is None or rows.empty:
        return [paragraph("The input holds no numbers for this figure.")]
    parts = [paragraph(words, "small")]
    for i, (panel, own) in enumerate(rows.groupby("panel", sort=False)):
        head = f"<h3>{escape(panel)}</h3>" if panel else ""
        figure = f"<figure>{figures.html(draw(own, **options), f'{name}-{i}')}</figure>"
        parts.append(choice.hidden(panel, head + figure) if many else head + figure)
    return parts


def _chosen(found) -> str:
    if found.laws is not None and "regret" in found.laws:
        return "Chosen on one half of the trials, and reported on the other."
    return "Chosen and reported on the same trials, so it is somewhat too small."


def _least(table, many) -> list[str]:
    """The least epsilon at which a learner is as good as a baseline; by panels if they are many."""
    if table.empty:
        return []
    panels = ["panel"] if table["panel"].any() and not many else []
    names = ["learner", *panels, "baseline"]

    def shown(rows):
        cells = [[*(row[name] for name in names), _least_text(row["least"])]
                 for row in rows.to_dict("records")]  # fmt: skip
        return word_table([*names, "least ε"], [(row, False) for row in cells])

    parts = [shown(table)]
    if many:
        parts = [choice.hidden(p, shown(own)) for p, own in table.groupby("panel", sort=False)]
    return [
        "<h3>Least ε at which a learner is as good as a baseline</h3>",
        paragraph("From this ε on the mean is at most that of the baseline. Between two ε that "
                  "were played it is interpolated in the logarithm.", "small"),
        *parts,
    ]  # fmt: skip


def _least_text(value) -> str:
    if np.isnan(value):
        return ""
    if value == 0.0:
        return "at all that were played"
    return "at none" if np.isinf(value) else f"{value:.3g}"


def _declared(means) -> list[str]:
    """What each learner declares."""
    names = [name for name in means if name.startswith("declared ")]
    if not names:
        return []
    own = means[["learner", "epsilon", *names]].drop_duplicates()
    rows = []
    for row in own.to_dict("records"):
        cells = ["" if _is_missing(row[n]) else f"{row[n]:.4g}" if isinstance(row[n], float)
                 else str(row[n]) for n in names]  # fmt: skip
        rows.append(([row["learner"], epsilon_text(row["epsilon"]), *cells], False))
    return ["<h2>Declared privacy</h2>", word_table(["learner", "ε asked for", *names], rows)]


def _is_missing(value) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))
