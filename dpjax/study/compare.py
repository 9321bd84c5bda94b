"""The comparison of a user's learner with built-in ones: the study, its audit, and its words."""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas
import xarray
from jax import random as jr

from dpjax import learners
from dpjax.audit import audited as audits
from dpjax.bounds import instances as lower_bounds
from dpjax.core import Arms, BatchLearner, _check
from dpjax.engine.progress import Bar
from dpjax.environments.families import GAPS
from dpjax.report import choice, comparison, estimates, tables
from dpjax.report.output import output_folder
from dpjax.study import competitors
from dpjax.study.simulate import simulate, simulate_batches
from dpjax.study.standard import at_gaps_of, family_of, standard
from dpjax.study.study import Study
from dpjax.study.sweep import sweep
from dpjax.study.worst_case import described, worst_case

EPSILONS = (0.1, 1.0, 10.0, np.inf)
# Of the key of a comparison: the folds that the audit and the worst cases have.
_AUDIT, _WORST = 2**31 - 1, 2**31 - 2


class Comparison(NamedTuple):
    """A learner beside built-in ones: the data of the study, tables, and sentences about them."""

    name: str  # of the user's learner in the data
    data: xarray.Dataset  # learner, environment, epsilon, trial, round, as of a Study
    regret: pandas.DataFrame  # a row for each environment, learner and epsilon
    differences: pandas.DataFrame  # of each competitor's regret less the user's, trial by trial
    audit: pandas.DataFrame  # a row for each finite epsilon
    mutants: pandas.DataFrame  # a row for each mutant of the user's learner; may be empty
    level: float  # the epsilon that is shown first, attacked, and given to mutants
    verdicts: dict[str, str]  # the name of an environment, or "audit" -> a sentence
    about: dict[str, tuple[str, str]]  # the name of an environment -> it, and its lower bounds
    notes: list[str]  # the competitors, the play, and the learners that were left out
    flagged: bool  # whether the audit found anything against what is declared
    worst: pandas.DataFrame  # a row for each worst instance and learner; empty without a search
    profile: xarray.Dataset | None  # of a search, on environments that take a gap: over all gaps
    minimax: dict[str, float]  # a lower bound on the worst regret by its name; may be empty

    def write(self, out: str | os.PathLike) -> None:
        """Writes the page and the tables into the folder ``out``, which is made if there is none.

        The files are those of :func:`dpjax.report.comparison.write`. Files of the same names are
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
    """Plays a user's learner beside all built-in ones with the same actions and feedback.

    All of them play on three standard environments, at each epsilon, with the same trials, so that
    differences are taken trial by trial. A competitor that takes no epsilon is played once. The
    user's learner is audited: replays at each epsilon; an attack, and replays of its mutants, at
    the epsilon that is nearest to 1.

    Args:
      factory: of the user's learner. It takes ``horizon``, and by name what it requires of arms,
        domain, actions, dim and delta; ``epsilon`` if it takes one. Other arguments keep
        their defaults. ``functools.partial`` sets sizes of one's own, such as ``arms=10``.
      against: names of built-in learners; by default all that fit.
      epsilons: (P,) privacy levels, inf for none.
      horizon: T, in rounds. All games are played by batches if all learners allow it, and
        otherwise round by round.
      trials: how many, at least 2.
      key: a PRNG key, or a whole number as a seed.
      runs: counted runs of each sequence in the attack; None for no attack.
      search: whether to search for the worst instance of the user's learner and of its nearest
        competitors, at the epsilon that is nearest to 1, and to play all of these on each of them,
        and at each of 16 gaps from 0.01 to 1. It takes as long as several comparisons, and at
        least 4 trials.
      progress: whether to show bars.

    Returns:
      A Comparison, whose method ``write`` makes the page and the tables.

    Raises:
      ValueError: the factory requires what it cannot be given, returns no learner, or its learner
        does not run or has a regret that is NaN; a name or a number is wrong.
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
    mine = prepared(factory, horizon)
    built = mine.build(horizon, level)
    family = family_of(built.action_set, horizon)
    field = competitors.field_for(built, horizon, against)
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
    # Errors of the user's learner are raised here, before all others play.
    with _named(name):
        _refuse_nan(name, study_of({name: mine}, 2, *fixed).run(progress=False))
        root = jr.fold_in(study.prng_key, _AUDIT)
        audited = audits.audited(mine, finite or [level], level, runs, root)
    data: Any = study.run(progress=progress)
    with _named(name):
        _refuse_nan(name, data)
    if "epsilon" not in data.dims:
        data = data.expand_dims(epsilon=list(epsilons[-1:]), axis=2)
        takes = np.zeros((data.sizes["learner"], data.sizes["environment"]), bool)
        data = data.assign_coords(takes_epsilon=(("learner", "environment"), takes))
    feedback = competitors.feedback_of(built)
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
        with _named(name):
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
        pandas.DataFrame(audited.rows, dtype=object),
        pandas.DataFrame(audited.mutants, columns=audits.MUTANT, dtype=object),
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
    """Regrets of some learners on the worst instance of each, on fresh trials."""
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
    """The largest regret of each learner over all gaps: of a gap chosen on half of the trials."""
    found = choice.profile(profile["final_regret"])
    names = {"largest": "mean", "largest_low": "low", "largest_high": "high"}
    found = found[[*names, "largest_gap"]].rename(names)
    order = ["environment", "learner", *({"epsilon"} & {*found.dims})]
    rows = pandas.DataFrame(tables.rows(found, order))
    gaps = [described({"gap": gap}) for gap in rows["largest_gap"]]
    rows = rows.assign(instance="gap, " + rows["environment"], epsilon=level, parameters=gaps)
    return rows[["instance", "learner", "epsilon", "mean", "low", "high", "parameters"]]


def name_of(factory: Callable) -> str:
    """The name of a user's learner in tables. It differs from those of the built-in ones."""
    name = getattr(factory, "__name__", "mine")
    return f"{name} (mine)" if name in learners.__all__ else name


def prepared(factory: Callable, horizon: int) -> competitors.Entrant:
    """A user's factory, after a check that its learner can be built and traced.

    Raises:
      ValueError: it cannot; the message names the factory, and quotes what it raised.
    """
    with _named(name_of(factory)):
        mine = competitors.entrant(factory, horizon)
        for rounds in {horizon, audits.HORIZONS[0]}:
            competitors.check_learner(mine.build(rounds))
    return mine


@contextmanager
def _named(name):
    """Turns what a user's code raises, which may be anything, into a sentence with its name.

    Warnings of NaN are not shown: a regret that is NaN is refused.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except Exception as error:
        kind = "" if isinstance(error, ValueError | TypeError) else f"{type(error).__name__}: "
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name}: {kind}{first}") from error


def _levels(epsilons) -> list[float]:
    """The epsilons as floats, in increasing order."""
    levels = sorted(float(epsilon) for epsilon in epsilons)
    for epsilon in levels:
        _check.epsilon(epsilon)
    if not levels or len(set(levels)) < len(levels):
        raise ValueError("epsilon: give at least one, and none of them twice")
    return levels


def _refuse_nan(name, data) -> None:
    """Raises a ValueError that names the environment on which a learner's regret is NaN."""
    bad = data["regret"].sel(learner=name).isnull().any("round")
    for own in bad.transpose("environment", ...):
        if own.any():
            where = f"{own['environment'].item()}, in {int(own.sum())} of {own.size} trajectories"
            raise ValueError(f"its regret is NaN on {where}")


def _notes(name, field, made, feedback, by_batches) -> list[str]:
    """Sentences on the competitors, the play, and the learners that were left out.

    ``made`` are the learners, by their names.
    """
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
        f"Given the same epsilon: {', '.join(asked) or 'none'}.",
        f"Without an epsilon to give, and so played once: {', '.join(other) or 'none'}.",
        "All games were played by batches: trials of two learners share a key, not their losses."
        if by_batches else
        "All games were played round by round; trials of all learners meet the same nature.",
    ]  # fmt: skip
    for each in other:
        declared = float(made[each].privacy.epsilon)
        if np.isfinite(declared):
            notes.append(f"{each} declares epsilon = {declared:.3g} of its own.")
    if field.left_out:
        notes += [f"Left out: {each}, since {why}." for each, why in field.left_out.items()]
    else:
        notes.append("None that fits was left out.")
    if field.others:
        notes.append(f"{field.others} other learners of dpjax play other actions or see something "
                     "else of a round.")  # fmt: skip
    return notes
