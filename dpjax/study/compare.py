"""The comparison of a user's learner with built-in ones: its study, audit and sentences."""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas
import xarray
from jax import random as jr

from dpjax.audit import audited as audits
from dpjax.bounds import instances as lower_bounds
from dpjax.core import Arms, BatchLearner, _check
from dpjax.engine.progress import Bar
from dpjax.environments.families import GAPS
from dpjax.game.batches import simulate_batches
from dpjax.game.play import simulate
from dpjax.learners.entrants import feedback_of, field_for, name_of, named, prepared
from dpjax.report import choice, comparison, estimates, tables
from dpjax.report.output import output_folder
from dpjax.study.standard import at_gaps_of, family_of, standard
from dpjax.study.study import Study
from dpjax.study.sweep import sweep
from dpjax.study.worst_case import described, worst_case

EPSILONS = (0.1, 1.0, 10.0, np.inf)
# The audit and the worst cases fold these numbers into the key of the comparison.
_AUDIT, _WORST = 2**31 - 1, 2**31 - 2


class Comparison(NamedTuple):
    """The results of a comparison: the study's data, tables, and sentences about them."""

    name: str  # of the user's learner in the data
    data: xarray.Dataset  # learner, environment, epsilon, trial, round, as in a Study
    regret: pandas.DataFrame  # a row for each environment, learner and epsilon
    differences: pandas.DataFrame  # each competitor's regret minus the user's, trial by trial
    audit: pandas.DataFrame  # a row for each finite epsilon
    mutants: pandas.DataFrame  # a row for each mutant of the user's learner; may be empty
    level: float  # the epsilon that is shown first, attacked, and used for mutants
    verdicts: dict[str, str]  # name of an environment, or "audit" -> a sentence
    about: dict[str, tuple[str, str]]  # name of an environment -> description, lower bounds
    notes: list[str]  # on competitors, play, and learners that were left out
    flagged: bool  # whether the audit found anything against the declared privacy
    worst: pandas.DataFrame  # a row for each worst instance and learner; empty without a search
    profile: xarray.Dataset | None  # regret by gap; only after a search, if environments take a gap
    minimax: dict[str, float]  # name -> lower bound on the worst-case regret; may be empty

    def write(self, out: str | os.PathLike) -> None:
        """Write the page and the tables into the folder ``out``; create it if necessary.

        :func:`dpjax.report.comparison.write` lists the files. Existing files of the same names are
        replaced.
        """
        with output_folder(out) as folder:
            comparison.write(self, folder)


def compare(
    factory: Callable,
    *,
    against: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    horizon: int = 10**5,
    trials: int = 200,
    key: Any = 0,
    runs: int | None = 2**14,
    search: bool = False,
    progress: bool = True,
) -> Comparison:
    """Compare a user's learner with all built-in ones that have its actions and feedback.

    All learners play three standard environments at each epsilon with the same trials, so
    differences are paired by trial. A competitor without an epsilon is played once. The user's
    learner is audited: by replays at each epsilon, and by an attack and replays of its mutants at
    the epsilon nearest to 1.

    Args:
      factory: makes the user's learner. It is called by name with ``horizon``, with ``epsilon`` if
        it takes one, and with those of arms, domain, actions, dim and delta that it requires. Other
        arguments keep their defaults. ``functools.partial`` sets other sizes, such as ``arms=10``.
      against: names of built-in learners; by default all that fit.
      epsilons: (P,) privacy levels; inf for no privacy.
      horizon: T, in rounds. Games are played by batches if all learners allow it, and otherwise
        round by round.
      trials: number of trials, at least 2.
      key: a PRNG key, or a seed, a whole number from 0 to 2^32 - 1.
      runs: counted runs of each sequence in the attack; None for no attack.
      search: whether to search for the worst instance of the user's learner and of each of its
        nearest competitors, at the epsilon nearest to 1. All of these learners then play each worst
        instance, and 16 gaps from 0.01 to 1. It takes as long as several comparisons and needs at
        least 4 trials.
      progress: whether to show bars.

    Returns:
      A Comparison. Its method ``write`` makes the page and the tables.

    Raises:
      ValueError: the factory requires an argument with no standard value, or returns no learner;
        the learner does not run, or its regret is NaN; a name or a number is wrong.
    """
    epsilons = _levels(epsilons)
    _check.size(16, horizon=horizon)
    _check.size(4 if search else 2, trials=trials)
    if runs is not None:
        _check.size(1, runs=runs)
    _check.function("a factory of learners, such as learners.exp3", factory=factory)
    finite = [epsilon for epsilon in epsilons if np.isfinite(epsilon)]
    level = min(finite or epsilons, key=lambda epsilon: abs(np.log(epsilon)))
    name = name_of(factory)
    mine = prepared(factory, horizon, audits.HORIZONS[0])
    built = mine.build(horizon, level)
    family = family_of(built.action_set, horizon)
    field = field_for(built, horizon, against)
    entrants = {name: mine, **field.entrants}
    made = {each: entrant.build(horizon, level) for each, entrant in entrants.items()}
    by_batches = all(isinstance(learner, BatchLearner) for learner in made.values())
    environments = standard(built.action_set, by_batches)
    play = simulate_batches if by_batches else simulate

    def study_of(entrants, trials, games, checkpoints, play, epsilons=epsilons, **grid) -> Study:
        private = any(entrant.private for entrant in entrants.values())
        grid = {"horizon": int(horizon), **({"epsilon": epsilons} if private else {}), **grid}
        factories = {name: entrant.factory for name, entrant in entrants.items()}
        return Study(factories, games, grid, trials, key, checkpoints, play)

    fixed = {each.name: each.environment for each in environments}, min(20, horizon), play
    study = study_of(entrants, trials, *fixed)
    # Errors of the user's learner are raised here, before the others play.
    with named(name):
        _refuse_nan(name, study_of({name: mine}, 2, *fixed).run(progress=False))
        root = jr.fold_in(study.prng_key, _AUDIT)
        audited = audits.audited(mine, finite or [level], level, runs, root)
    data: Any = study.run(progress=progress)
    with named(name):
        _refuse_nan(name, data)
    if "epsilon" not in data.dims:
        data = data.expand_dims(epsilon=list(epsilons[-1:]), axis=2)
        takes = np.zeros((data.sizes["learner"], data.sizes["environment"]), bool)
        data = data.assign_coords(takes_epsilon=(("learner", "environment"), takes))
    feedback = feedback_of(built)
    regret = comparison.regret_rows(data, environments, feedback)
    differences = comparison.difference_rows(data, name)
    level = level if level in data["epsilon"].values else float(data["epsilon"].values[-1])
    verdicts = {
        each.name: comparison.sentence(regret, differences, name, each.name, level)
        for each in environments
    }
    verdicts["audit"] = audits.summary(audited)
    declared = float(built.privacy.epsilon), float(built.privacy.delta)
    notes = _notes(name, field, made, feedback, by_batches)
    game = built.action_set, feedback, horizon, *declared
    notes.append(lower_bounds.minimax_sentence(*game))
    worst, profile = pandas.DataFrame(), None
    if search:
        here = comparison.standing(regret, environments[0].name, level)
        searched = {each: entrants[each] for each in [name, *comparison.rivals(here, name)]}
        with named(name):
            with Bar(len(searched), progress, "searches") as bar:
                worst = _worst_cases(searched, family, level, horizon, trials, study.prng_key, bar)
            if at_gaps := at_gaps_of(built.action_set):
                gaps = study_of(searched, trials, at_gaps, 1, None, [level], gap=GAPS)
                profile = gaps.run(progress=progress)
                worst = pandas.concat([worst, _worst_gaps(profile, level)])
    return Comparison(
        name,
        data,
        regret,
        differences,
        pandas.DataFrame(audited.rows).astype(dict.fromkeys(["epsilon", *audits.MEASURED], float)),
        pandas.DataFrame(audited.mutants, columns=audits.MUTANT).astype({"epsilon": float}),
        level,
        verdicts,
        {e.name: (e.words, lower_bounds.sentence(e, feedback)) for e in environments},
        [note for note in notes if note],
        audited.flagged,
        worst,
        profile,
        lower_bounds.minimax(*game),
    )


def _worst_cases(entrants, family, level, horizon, trials, key, bar) -> pandas.DataFrame:
    """Regret of each learner on the worst instance of each learner, on fresh trials."""
    found = {}
    for name, each in entrants.items():
        found[name] = worst_case(each.factory, family, epsilon=level, horizon=horizon, key=key)
        bar.update()
    instances = [each.parameters for each in found.values()]
    points = jax.tree.map(lambda *leaves: np.stack(leaves), *instances)
    rows = []
    for name, own in entrants.items():

        def game(point, own=own):
            return own.build(horizon, level), family.make(**point)

        fresh = jr.fold_in(key, _WORST)
        data: Any = sweep(game, points, trials, fresh, checkpoints=1, progress=False)
        regret = xarray.DataArray(data.regret[..., -1], dims=["instance", "trial"])
        means = estimates.mean(regret)
        for i, of in enumerate(found):
            row = {"instance": of, "learner": name, "epsilon": level}
            row |= {each: float(means[each][i]) for each in ("mean", "low", "high")}
            rows.append(row | {"parameters": described(found[of].parameters)})
    return pandas.DataFrame(rows)


def _worst_gaps(profile, level) -> pandas.DataFrame:
    """The regret of each learner at its worst gap; half of the trials only choose the gap."""
    found = choice.profile(profile["final_regret"])
    names = {"largest": "mean", "largest_low": "low", "largest_high": "high"}
    found = found[[*names, "largest_gap"]].rename(names)
    order = ["environment", "learner", *({"epsilon"} & {*found.dims})]
    rows = pandas.DataFrame(tables.rows(found, order))
    gaps = [described({"gap": gap}) for gap in rows["largest_gap"]]
    rows = rows.assign(instance="gap, " + rows["environment"], epsilon=level, parameters=gaps)
    return rows[["instance", "learner", "epsilon", "mean", "low", "high", "parameters"]]


def _levels(epsilons) -> list[float]:
    """The epsilons as floats, in increasing order."""
    levels = sorted(float(epsilon) for epsilon in epsilons)
    for epsilon in levels:
        _check.epsilon(epsilon)
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"epsilon must hold different values, at least one; got {levels}")
    return levels


def _refuse_nan(name, data) -> None:
    """Raise a ValueError that names the environment on which a learner's regret is NaN."""
    bad = data["regret"].sel(learner=name).isnull().any("round")
    for own in bad.transpose("environment", ...):
        if own.any():
            where = f"{own['environment'].item()}, in {int(own.sum())} of {own.size} trajectories"
            raise ValueError(f"its regret is NaN on {where}")


def _notes(name, field, made, feedback, by_batches) -> list[str]:
    """Sentences on competitors, play, and learners left out; ``made`` has the learners by name."""
    built = made[name]
    asked = [each for each, entrant in field.entrants.items() if entrant.private]
    other = [each for each in field.entrants if each not in asked]
    actions = built.action_set
    plays = f"{actions.count} arms" if isinstance(actions, Arms) else (
        f"{'points' if hasattr(actions, 'project') else 'policies over features'} "
        f"in R^{actions.dim}"
    )  # fmt: skip
    notes = [
        f"{name} plays {plays} and has {feedback}; so do all competitors.",
        f"Played at the same epsilon: {', '.join(asked) or 'none'}.",
        f"Played once, because they take no epsilon: {', '.join(other) or 'none'}.",
        "All games were played by batches: in a trial, learners share a key but not the losses."
        if by_batches else
        "All games were played round by round: in each trial all learners face the same nature.",
    ]  # fmt: skip
    for each in other:
        declared = float(made[each].privacy.epsilon)
        if np.isfinite(declared):
            notes.append(f"{each} declares a fixed epsilon = {declared:.3g}.")
    if field.left_out:
        notes += [f"Left out: {each}, because {why}." for each, why in field.left_out.items()]
    else:
        notes.append("No learner that fits was left out.")
    if field.others:
        notes.append(f"{field.others} other learners of dpjax have other actions or other "
                     "feedback.")  # fmt: skip
    return notes
