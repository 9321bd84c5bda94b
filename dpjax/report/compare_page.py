"""The page of a comparison: one HTML file with all figures and tables inside, and CSV beside it."""

import base64
import io
import warnings
from html import escape

import numpy as np

from dpjax.report import compare_plot as plot
from dpjax.report import compare_tables as tables
from dpjax.report.output import FigureWarning, versions, write_json
from dpjax.report.pages import document, paragraph, word_table
from dpjax.report.tables import write_csv


def write(found, folder, *, title=None, parameters=None) -> None:
    """Writes the page and the tables of a Comparison into a folder that exists.

    The files are compare.html (the page, which needs no other file and no network), regret.csv,
    differences.csv, audit.csv, mutants.csv and parameters.json. A figure that cannot be drawn is
    left out of the page, and a FigureWarning says so.

    Args:
      found: a Comparison.
      folder: a Path.
      title: of the page; by default it names the learner.
      parameters: a dict of what else parameters.json holds.
    """
    for name in ("regret", "differences", "audit", "mutants"):
        write_csv(folder / f"{name}.csv", getattr(found, name))
    settings = {
        "learner": found.name, "level": found.level, "flagged": found.flagged,
        "horizon": int(found.data["horizon"]), "trials": found.data.sizes["trial"],
        **(parameters or {}), "versions": versions(),
    }  # fmt: skip
    write_json(folder / "parameters.json", settings)
    text = html(found, f"{found.name} beside the learners of dpjax" if title is None else title)
    (folder / "compare.html").write_text(text, encoding="utf-8")


def html(found, title) -> str:
    """The page as text."""
    names = list(found.words)
    body = [
        f"<h1>{escape(title)}</h1>",
        paragraph(
            "dpjax simulates idealised mechanisms with a reproducible generator. Privacy is what "
            "each learner declares; the audit below speaks of the pairs that were run, and of no "
            "others."
        ),
        "<h2>In short</h2>",
        *[paragraph(found.verdicts[name], "verdict") for name in names],
        paragraph(found.verdicts["audit"], "violation" if found.flagged else "verdict"),
        *[part for name in names for part in _environment(found, name)],
        *_audit(found),
        "<h2>What was compared</h2>",
        *[paragraph(note) for note in found.notes],
        *([paragraph(found.bounds["all"])] if found.bounds["all"] else []),
        paragraph(
            f"Trials: {found.data.sizes['trial']}; horizon T = {int(found.data['horizon'])}. "
            f"Made by dpjax {versions()['dpjax']} with jax {versions()['jax']}. The numbers of "
            "this page stand in the CSV files beside it.", "small",
        ),
    ]  # fmt: skip
    return document(title, body)


def _environment(found, name) -> list[str]:
    """The section of one environment."""
    table = found.regret[found.regret["environment"] == name]
    trials, horizon = found.data.sizes["trial"], int(found.data["horizon"])
    rivals = tables.rivals(table, found.name, found.level)
    declared = table[table["model"] != ""].drop_duplicates("learner").set_index("learner")["model"]
    of = {each: declared.get(each, "none") for each in dict.fromkeys(table["learner"])}
    models = "; ".join(
        f"{model}: {', '.join(each for each in of if of[each] == model)}"
        for model in sorted(set(of.values()))
    )
    shared = f"{trials} trials, T = {horizon}. Declared privacy by model: {models}."
    drawn = _image(f"Regrets on {name}", plot.regrets, found.regret, found.name, name, found.level)
    over_time = _image(f"Differences on {name}", plot.over_rounds, found.data, found.name, name,
                       found.level, rivals)  # fmt: skip
    return [
        f"<h2>{escape(name)}</h2>",
        paragraph(f"{found.words[name][0].upper()}{found.words[name][1:]}."),
        _figure(
            drawn,
            "Mean regret at T, with 95 % bands that hold for all learners at once at each epsilon. "
            f"Ordered at epsilon = {_number(found.level)}. {shared}",
        ),
        _figure(
            over_time,
            f"Regret less that of {found.name}, trial by trial, at epsilon = "
            f"{_number(found.level)}: the competitors nearest to it and the best one, with 95 % "
            f"bands that hold over all rounds at once for each. {trials} trials, T = {horizon}.",
        ),
        paragraph(
            "Mean regret at T ± its standard error, with the learners that take no ε in a "
            "column of their own:",
            "small",
        ),
        _regret_table(found, table),
        paragraph(found.bounds[name], "small"),
    ]


def _regret_table(found, table) -> str:
    """Mean regret and standard error: a row for each learner, a column for each epsilon.

    The column without epsilon is of learners that take none. The last rows have the lower bounds
    for the user's learner, where any hold.
    """
    levels = sorted(table["epsilon"].dropna().unique().tolist())
    columns = [None, *levels] if table["epsilon"].isnull().any() else levels
    shown = ["no ε" if e is None else f"ε = {_number(e)}" for e in columns]
    rows = []
    for learner in tables.ordered(table, found.level):
        own = table[table["learner"] == learner].to_dict("records")
        cells = {row["epsilon"]: f"{row['mean']:.4g} ± {row['standard_error']:.2g}" for row in own}
        model = next((row["model"] for row in own if row["model"]), "none")
        row = [learner, model, *[cells.get(e, "") for e in columns]]
        rows.append((row, learner == found.name))
    mine = table[table["learner"] == found.name].to_dict("records")
    lines = {name: {row["epsilon"]: _number(row["lower_bound"]) for row in mine
                    if row["bound"] == name}
             for name in dict.fromkeys(row["bound"] for row in mine if row["bound"])}  # fmt: skip
    lines["shariff_sheffet"] = {row["epsilon"]: _number(row["shariff_sheffet"]) for row in mine
                                if row["shariff_sheffet"] is not None}  # fmt: skip
    for name, bounds in lines.items():
        line = [f"{name} (lower bound)", "", *[bounds.get(e, "") for e in columns]]
        rows.extend([(line, False)] if bounds else [])
    return word_table(["learner", "model", *shown], rows)


def _audit(found) -> list[str]:
    """The section of the audit."""
    header = [
        "epsilon",
        "declared",
        "delta",
        "model",
        "replay spent",
        "attack, at least",
        "finding",
    ]
    rows = [
        (
            [*(_number(row[key]) for key in ("epsilon", "declared", "delta")),
             row["model"] if np.isfinite(row["declared"]) else "",
             *(_number(row[key]) for key in ("replay", "attack")), row["finding"]],
            False,
        )
        for row in found.audit.to_dict("records")
    ]  # fmt: skip
    parts = [
        f"<h2>Audit of {escape(found.name)}</h2>",
        paragraph(found.verdicts["audit"], "violation" if found.flagged else "verdict"),
        word_table(header, rows, text=True),
        paragraph(
            "A replay runs two neighbouring sequences with the same keys and adds up what the "
            "difference costs, at the declared delta. The attack is a lower bound with confidence "
            "95 %. Neither shows that there is no violation elsewhere.", "small",
        ),
    ]  # fmt: skip
    if len(found.mutants):
        mutants = [
            ([row["mutant"], _number(row["replay"]), "caught" if row["caught"] else "not caught",
              row["by"]], False)
            for row in found.mutants.to_dict("records")
        ]  # fmt: skip
        parts += [
            "<h3>Mutants</h3>",
            paragraph(
                "Copies of the learner with one mistake each. One that is caught shows that the "
                "replay would have seen this mistake."
            ),
            word_table(["mistake", "replay spent", "replay", "checks that failed"], mutants),
        ]
    return parts


def _image(alternative, draw, *arguments) -> str:
    """A figure as an image inside the page; a sentence in its place where it cannot be drawn."""
    try:
        file = io.BytesIO()
        draw(*arguments).savefig(file, format="png", dpi=150)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        sentence = f"the figure {alternative!r} could not be drawn ({reason})"
        warnings.warn(f"{sentence}; its numbers are in the tables", FigureWarning, stacklevel=2)
        return paragraph(f"{sentence[0].upper()}{sentence[1:]}.")
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{escape(alternative)}" src="data:image/png;base64,{data}">'


def _figure(image, caption) -> str:
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _number(value) -> str:
    return "" if value is None else f"{value:.3g}"
