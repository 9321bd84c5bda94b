"""The report of a comparison: tables of regrets and differences, figures, and one HTML page."""

from functools import partial
from html import escape

import numpy as np
import pandas
from matplotlib import ticker
from matplotlib.lines import Line2D

from dpjax.bounds.instances import NONE, lower_bounds
from dpjax.report import arrays, estimates
from dpjax.report.figures import figure
from dpjax.report.output import versions, write_json
from dpjax.report.pages import document, frame_table, paragraph, picture, word_table
from dpjax.report.plot import epsilon_color, label_axes, panels
from dpjax.report.tables import cells, filled, write_csv

MORE, LESS, SAME = "more regret", "less regret", "not told apart"
_MINE = "#D55E00"
_MARKERS = "osD^vPX*"
_LEAST = "shariff_sheffet"  # the bound with the weakest assumption; it has a column
_REGRET = ("environment learner epsilon declared delta model mean standard_error low high "
           "lower_bound bound shariff_sheffet horizon trials")  # fmt: skip
_DIFFERENCES = "environment learner than epsilon difference standard_error low high verdict"


def differences(array, name, over):
    """Paired differences to a learner, with a band that is simultaneous along the axis ``over``."""
    return estimates.band(array - arrays.place(array, {"learner": name}), over)


def _rows(array, estimate) -> pandas.DataFrame:
    """An estimate for each environment, learner and epsilon (NaN if the learner takes none)."""
    found = cells(array.transpose("environment", "learner", "epsilon", ...), [estimate])
    return found.reset_index(drop=True)


def regret_rows(data, environments, feedback) -> pandas.DataFrame:
    """Mean regret at the horizon, with a band that is simultaneous over all learners.

    There is a row for each environment, learner and epsilon; a learner that takes no epsilon has
    one row per environment. ``declared`` is the declared epsilon, which can differ from the
    requested one. ``lower_bound`` is the largest lower bound under the declared privacy.
    """
    found = _rows(data["final_regret"], partial(estimates.band, over="learner"))
    found.columns = found.columns.str.replace("privacy_epsilon", "declared").str.removeprefix(
        "privacy_"
    )
    horizon, known = int(data["horizon"]), {each.name: each for each in environments}
    bounds = []
    for row in found.itertuples():
        all_of_them = lower_bounds(
            known[row.environment], feedback, horizon,
            epsilon=row.declared, delta=row.delta, model=row.model,
        )  # fmt: skip
        largest = all_of_them[0] if all_of_them else NONE
        bounds.append((largest.value, largest.name, dict(all_of_them).get(_LEAST, np.nan)))
    names = ["lower_bound", "bound", _LEAST]
    found[names] = pandas.DataFrame(bounds, columns=names)
    private = np.isfinite(found["declared"])
    return found.assign(model=found["model"].where(private, ""), horizon=horizon)[_REGRET.split()]


def difference_rows(data, name) -> pandas.DataFrame:
    """Each competitor's regret minus that of the learner ``name``, trial by trial.

    The band is simultaneous over all competitors, for each environment and epsilon separately.
    """
    takes = data["takes_epsilon"]
    # A difference depends on epsilon if either learner takes it.
    either = data.assign_coords(takes_epsilon=takes | takes.sel(learner=name, drop=True))
    found = _rows(either["final_regret"], partial(differences, name=name, over="learner"))
    found = found[found["learner"] != name].rename(columns={"mean": "difference"})
    verdict = np.select([found["low"] > 0.0, found["high"] < 0.0], [MORE, LESS], SAME)
    return found.assign(than=name, verdict=verdict)[_DIFFERENCES.split()]


def _here(table, environment, level) -> pandas.DataFrame:
    """The rows of an environment at an epsilon or without one, indexed by learner."""
    levels = table["epsilon"].isnull() | (table["epsilon"] == level)
    return table[(table["environment"] == environment) & levels].set_index("learner")


def standing(regret, environment, level) -> pandas.DataFrame:
    """The learners of an environment at an epsilon, in increasing order of mean regret."""
    return _here(regret, environment, level).sort_values("mean", kind="stable")


def rivals(here, name, count=4) -> list[str]:
    """The learners nearest to a learner in mean regret, and the learner with the least mean regret.

    ``here`` is the result of :func:`standing`.
    """
    best, *others = [each for each in here.index if each != name]
    others.sort(key=lambda each: abs(here["mean"][each] - here["mean"][name]))
    return [each for each in here.index if each in (best, *others[: count - 1])]


def sentence(regret, differences, name, environment, level) -> str:
    """A sentence that compares a learner with all others on one environment at one epsilon."""
    here = standing(regret, environment, level)
    row, others = here.loc[name], here.drop(index=name)
    private = pandas.notna(row["epsilon"])
    shown = f" at epsilon = {level:g}" if private else ""
    parts = [
        f"On {environment}{shown}, {name} has a mean regret of {row['mean']:.4g} "
        f"(95 % band {row['low']:.4g} to {row['high']:.4g})."
    ]
    verdicts = _here(differences, environment, level)["verdict"]
    given = "the same epsilon" if private else f"epsilon = {level:g}"
    asked = others["epsilon"].notnull()
    for own, words in ((asked, f"at {given}"), (~asked, "that take no epsilon")):
        group = others[own]
        if group.empty:
            continue
        counts = verdicts[group.index].value_counts()
        more, less, same = (int(counts.get(verdict, 0)) for verdict in (MORE, LESS, SAME))
        best = group.iloc[0]
        parts.append(
            f"Of the competitors {words}, {more} {'has' if more == 1 else 'have'} more regret, "
            f"{less} less, and {same} cannot be distinguished from it. The best of them is "
            f"{best.name} with {best['mean']:.4g}"
            + (f" (privacy declared in the {best['model']} model)." if best["model"] else ".")
        )
    return " ".join(parts)


def draw_regrets(found, environment):
    """Draw final regrets on one environment: a row for each learner, a marker for each epsilon.

    Args:
      found: a Comparison.
      environment: its name.
    """
    table = found.regret[found.regret["environment"] == environment]
    order = list(standing(table, environment, found.level).index)
    levels = sorted(table["epsilon"].dropna().unique().tolist())
    looks = {
        level: {"color": epsilon_color(level), "marker": _MARKERS[i % len(_MARKERS)]}
        for i, level in enumerate(levels)
    }
    without = {"color": "0.45", "marker": "|"}
    drawn, (axes,) = panels(1, 1, size=(7.2, 1.3 + 0.32 * len(order)))
    mine = order.index(found.name)
    axes.axhspan(mine - 0.5, mine + 0.5, color=_MINE, alpha=0.15)
    for row in table.to_dict("records"):
        place, epsilon = order.index(row["learner"]), row["epsilon"]
        look = looks.get(epsilon, without)
        if epsilon in levels:
            place += 0.5 * (levels.index(epsilon) - (len(levels) - 1) / 2) / len(levels)
        width = [[row["mean"] - row["low"]], [row["high"] - row["mean"]]]
        axes.errorbar([row["mean"]], [place], xerr=width, markersize=4, linewidth=1.0, **look)
        if row["learner"] == found.name:
            axes.plot([row["lower_bound"]] * 2, [place - 0.12, place + 0.12],
                      color=look["color"], linewidth=2.5)  # fmt: skip
    axes.set_yticks(range(len(order)), order)
    axes.get_yticklabels()[mine].set_color(_MINE)
    axes.set_ylim(len(order) - 0.4, -0.6)
    label_axes(axes, "", xlabel="regret at T", ylabel="")
    means = table["mean"]
    if table["low"].min() > 0.0 and means.max() > 8.0 * means.min():
        axes.set_xscale("log")
        left, right = axes.get_xlim()
        subs = (1.0, 2.0, 5.0) if right <= 100.0 * left else (1.0,)  # More labels would overlap.
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=subs))
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    names = {e: f"epsilon = {e:g}" for e in levels}
    names |= {np.inf: "no privacy (epsilon = inf)", None: "takes no epsilon"}
    looks |= {None: without}
    handles = [Line2D([], [], linestyle="", label=names[e], **look) for e, look in looks.items()]
    if table["lower_bound"].notnull().any():
        bounds = table.dropna(subset="lower_bound")["bound"].unique()
        label = f"lower bound for {found.name}: {', '.join(bounds)}"
        handles.append(Line2D([], [], color="0.2", linewidth=2.5, label=label))
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return drawn


def draw_differences(found, environment, rivals):
    """Draw paired differences of regret to some competitors, with bands over all rounds.

    Args:
      found: a Comparison.
      environment: its name.
      rivals: names of competitors.
    """
    here = found.data.sel(
        environment=environment, epsilon=found.level, learner=[found.name, *rivals]
    )
    estimate = partial(differences, name=found.name, over="round")
    drawn = figure(here, "round", color="learner", estimate=estimate)
    drawn.set_size_inches(7.2, 3.6)
    drawn.supxlabel("")  # the page has a caption of its own
    drawn.axes[0].set_ylabel(f"regret minus that of {found.name}")
    return drawn


def draw_profile(found):
    """Draw regret against the gap, a panel for each environment, with minimax lower bounds."""
    bounds = {f"{name} (lower bound)": value for name, value in found.minimax.items()}
    drawn = figure(found.profile, "gap", color="learner", panel="environment", estimate="profile",
                   across=bounds)  # fmt: skip
    drawn.supxlabel("")  # the page has a caption of its own
    return drawn


def write(found, folder, *, title=None, parameters=None) -> None:
    """Write the page and the tables of a Comparison into an existing folder.

    The files are compare.html (a self-contained page), regret.csv, differences.csv, audit.csv,
    mutants.csv and parameters.json. A search adds worst.csv, and profile.csv if environments take a
    gap. A figure that cannot be drawn is left out of the page, with a FigureWarning.

    Args:
      found: a Comparison.
      folder: a Path.
      title: of the page; by default it names the learner.
      parameters: a dict of further entries of parameters.json.
    """
    tables = ["regret", "differences", "audit", "mutants"]
    for name in tables if found.worst.empty else [*tables, "worst"]:
        table = getattr(found, name)
        write_csv(folder / f"{name}.csv", filled(table, table))
    if found.profile is not None:
        write_csv(folder / "profile.csv", cells(found.profile["final_regret"], ["profile"]))
    settings = {
        "learner": found.name, "level": found.level, "flagged": found.flagged,
        "horizon": int(found.data["horizon"]), "trials": found.data.sizes["trial"],
        **(parameters or {}), "versions": versions(),
    }  # fmt: skip
    write_json(folder / "parameters.json", settings)
    text = html(found, title or f"{found.name} compared with the learners of dpjax")
    (folder / "compare.html").write_text(text, encoding="utf-8")


def html(found, title) -> str:
    """The page as text."""
    audit = paragraph(found.verdicts["audit"], "violation" if found.flagged else "verdict")
    return document(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            paragraph(
                "dpjax simulates idealised mechanisms with a reproducible generator. Privacy "
                "levels are declared by the learners. The audit below covers only the pairs of "
                "sequences that were run."
            ),
            "<h2>In short</h2>",
            *[paragraph(found.verdicts[name], "verdict") for name in found.about],
            audit,
            *[part for name in found.about for part in _environment(found, name)],
            *_worst(found),
            f"<h2>Audit of {escape(found.name)}</h2>",
            audit,
            *_audit(found),
            "<h2>What was compared</h2>",
            *[paragraph(note) for note in found.notes],
            paragraph(
                f"Trials: {found.data.sizes['trial']}; horizon T = {int(found.data['horizon'])}. "
                f"Made by dpjax {versions()['dpjax']} with jax {versions()['jax']}. The CSV files "
                "in the same folder hold the numbers of this page.", "small",
            ),
        ],
    )  # fmt: skip


def _environment(found, name) -> list[str]:
    """The section of one environment."""
    words, bounds = found.about[name]
    here = standing(found.regret, name, found.level)
    sizes = f"{found.data.sizes['trial']} trials, T = {int(found.data['horizon'])}."
    table = found.regret[found.regret["environment"] == name]
    declared = table.groupby("learner", sort=False)["model"].max().replace("", "none")
    models = "; ".join(
        f"{model}: {', '.join(own.index)}" for model, own in declared.groupby(declared)
    )
    over_time = partial(draw_differences, rivals=rivals(here, found.name))
    return [
        f"<h2>{escape(name)}</h2>",
        paragraph(f"{words[0].upper()}{words[1:]}."),
        _figure(
            picture(f"Regrets on {name}", draw_regrets, found, name),
            "Mean regret at T, with 95 % bands, simultaneous over all learners at each epsilon. "
            f"Ordered at epsilon = {found.level:g}. {sizes} Declared privacy by model: {models}.",
        ),
        _figure(
            picture(f"Differences on {name}", over_time, found, name),
            f"Regret minus that of {found.name}, trial by trial, at epsilon = {found.level:g}, for "
            "the nearest competitors and the best one. Each has a 95 % band, simultaneous over all "
            f"rounds. {sizes}",
        ),
        paragraph(
            "Mean regret at T ± its standard error. Learners that take no ε are in the column "
            "no ε:",
            "small",
        ),
        _regret_table(table, found.name, here.index),
        paragraph(bounds, "small"),
    ]


def _regret_table(table, name, order) -> str:
    """Mean regret and standard error: a row for each learner, a column for each epsilon.

    Learners that take no epsilon have their own column. The last rows are lower bounds for the
    learner ``name``, if any apply.
    """

    def headers(table):
        return ["no ε" if np.isnan(e) else f"ε = {e:g}" for e in table["epsilon"]]

    columns = [*dict.fromkeys(headers(table.sort_values("epsilon", na_position="first")))]
    lines = []

    def add(head, own, texts, mine=False):
        cells = dict(zip(headers(own), texts, strict=True))
        lines.append(([*head, *(cells.get(e, "") for e in columns)], mine))

    for learner in order:
        own = table[table["learner"] == learner]
        texts = own["mean"].map("{:.4g}".format) + own["standard_error"].map(" ± {:.2g}".format)
        add([learner, own["model"].max() or "none"], own, texts, learner == name)
    mine = table[table["learner"] == name]
    least = mine.assign(bound=_LEAST, lower_bound=mine[_LEAST])
    held = pandas.concat([mine, least]).dropna(subset="lower_bound")
    for bound, own in held.groupby("bound", sort=False):
        texts = own["lower_bound"].map("{:.3g}".format)
        add([f"{bound} (lower bound)", ""], own, texts)
    return word_table(["learner", "model", *columns], lines)


def _worst(found) -> list[str]:
    """The section on worst instances, if there was a search."""
    if found.worst.empty:
        return []
    order, columns = (list(dict.fromkeys(found.worst[n])) for n in ("learner", "instance"))
    text = [
        f"{row.mean:.4g} ({row.low:.4g} to {row.high:.4g})"
        + ("" if row.instance in order else f", {row.parameters}")
        for row in found.worst.itertuples()
    ]
    cells = found.worst.assign(regret=text).pivot(index="learner", columns="instance")["regret"]
    lines = [([each, *cells.loc[each, columns]], each == found.name) for each in order]
    header = [f"worst for {each}" if each in order else f"worst {each}" for each in columns]
    searched = found.worst[found.worst["instance"].isin(order)].drop_duplicates("instance")
    over_gaps = "" if found.profile is None else (
        " The last columns show each learner's mean regret at its worst of 16 gaps. The gap is "
        "chosen on half of the trials, and the mean is taken over the other half."
    )  # fmt: skip
    return [
        "<h2>Worst cases</h2>",
        paragraph(
            f"Mean regret at epsilon = {found.level:g} on the worst instance that a search found "
            "for each learner, on fresh trials. The 95 % intervals are not simultaneous."
            + over_gaps
        ),
        word_table(["learner", *header], lines),
        *[paragraph(f"Worst for {row.instance}: {row.parameters}.", "small")
          for row in searched.itertuples()],
        "" if found.profile is None else _figure(
            picture("Regret over gaps", draw_profile, found),
            f"Mean regret at T and epsilon = {found.level:g} over the gap of the best arm, with "
            f"95 % bands, simultaneous over all gaps. {found.profile.sizes['trial']} trials.",
        ),
    ]  # fmt: skip


def _audit(found) -> list[str]:
    """The tables of the audit."""
    audit = found.audit[["epsilon", "declared", "delta", "model", "replay", "attack", "finding"]]
    private = np.isfinite(audit["declared"])
    audit = audit.assign(model=audit["model"].where(private, ""))
    audit = audit.rename(columns={"replay": "replay spent", "attack": "attack, at least"})
    parts = [
        frame_table(filled(audit, audit), digits=3, text=True),
        paragraph(
            "A replay recomputes the run on a neighbouring sequence with the released values held "
            "fixed, and sums the privacy loss at the declared delta. The attack is a lower bound "
            "with confidence 95 %. Neither excludes a violation on other pairs.", "small",
        ),
    ]  # fmt: skip
    if len(found.mutants):
        mutants = found.mutants[["mutant", "replay", "caught", "by"]]
        mutants = mutants.assign(caught=np.where(mutants["caught"], "caught", "not caught"))
        mutants.columns = ["mistake", "replay spent", "replay", "checks that failed"]
        parts += [
            "<h3>Mutants</h3>",
            paragraph(
                "Copies of the learner with one mistake each. If one is caught, the replay can "
                "detect this mistake."
            ),
            frame_table(mutants, digits=3),
        ]
    return parts


def _figure(image, caption) -> str:
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"
