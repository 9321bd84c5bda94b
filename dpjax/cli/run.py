"""Learners on a user's own losses, with or without features, or on labelled cases."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike
from xarray import Dataset

from dpjax import domains, environments
from dpjax.cli.arguments import EPSILONS
from dpjax.cli.learner_files import digest, find_study
from dpjax.cli.loss_files import own_label, read_cases, read_losses
from dpjax.combinators import count_switches, sample_arms
from dpjax.core import Arms, Environment, Policies, _check
from dpjax.environments._classification import standardised
from dpjax.learners import factories
from dpjax.learners.entrants import sizes_of
from dpjax.report import estimates
from dpjax.report.figures import Captioned
from dpjax.report.output import output_folder, shown, versions, write_figure, write_json
from dpjax.report.tables import filled, write_csv
from dpjax.study import Study


class Game(NamedTuple):
    """The contents of a file as a game."""

    environment: Environment
    arms: tuple[str, ...]
    table: np.ndarray  # losses (n, K) of the rows, or their labels (n,) as places in arms
    notes: tuple[str, ...]  # for the reader of the results
    reading: tuple[str, ...]  # on the format of the file

    @property
    def labelled(self) -> bool:
        """Whether rows are drawn, and an arm guesses the label of one."""
        return self.table.ndim == 1

    def mean_losses(self, horizon: int | None) -> np.ndarray:
        """(K,) means over the rows that are played."""
        if self.labelled:
            return 1.0 - 2.0 * np.bincount(self.table) / len(self.table)
        return self.table[:horizon].mean(axis=0)


class Plan(NamedTuple):
    """A study that a command plays, and its results beside the data."""

    study: Study
    out: str  # the default folder
    parameters: dict[str, Any]  # of parameters.json
    notes: tuple[str, ...] = ()  # sentences below the table
    draw: Callable | None = None  # makes a figure from the data


def study_of(
    environment: Environment | ArrayLike, names: str | Sequence[str], *,
    epsilons: Sequence[float] | None = None, seeds: int = 100, horizon: int | None = None,
    seed: int = 0, loss_range: tuple[float, float] = (0.0, 1.0),
) -> Study:  # fmt: skip
    """The Study of learners on a (T, K) table of losses, at several privacy levels.

    A learner of points plays on the simplex, and an arm is drawn from each of its points. The
    actions of a linear learner are the unit vectors. If delta is required, it is T^-2. A learner
    that requires rho instead of epsilon receives epsilon^2 / 2, and the table shows the epsilon.

    Args:
      environment: (T, K) losses in [0, 1], or an Environment for policies on features.
      names: one or several factories of ``dpjax.learners``. Those that take no epsilon are played
        once.
      epsilons: privacy levels greater than 0; inf for no privacy. By default they are 0.1, 1, 10
        and inf if a learner takes epsilon or rho.
      seeds: the number of trials.
      horizon: number of rounds; by default all T.
      seed: the seed of the PRNG key.
      loss_range: (low, high) of the losses, for learners that take it.

    Raises:
      ValueError: bad losses, an unknown learner or one with other actions, an epsilon that is
        refused or that no learner takes, or a horizon longer than the table.
    """
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        factories.check_name(name)
    if len(set(names)) < len(names):
        raise ValueError(f"learner: one is named twice in {', '.join(names)}")
    private = [name for name in names
               if factories.takes(name, "epsilon") or factories.requires(name, "rho")]  # fmt: skip
    if not private and epsilons is not None:
        which, take = ("learners", "take") if len(names) > 1 else ("learner", "takes")
        raise ValueError(f"epsilon: the {which} {', '.join(names)} {take} none; leave it out")
    if epsilons is None:
        epsilons = EPSILONS if private else (np.inf,)
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    _check.size(1, seeds=seeds)
    _check.key_or_seed(seed=seed)
    if not isinstance(environment, Environment):
        environment = count_switches(environments.table(environment))
    if horizon is None:
        horizon = _check.size(1, horizon=environment.horizon)
    sizes = sizes_of(environment.action_set, horizon)
    if isinstance(environment.action_set, Arms):
        arms = environment.action_set.count
        sizes |= {"dim": arms, "domain": domains.simplex(arms)}

    def make(name, epsilon):
        sizes_at = {**sizes, "epsilon": epsilon}
        learner = factories.build(name, horizon, sizes_at, loss_range=loss_range)
        return sample_arms(learner) if isinstance(learner.action_set, domains.Domain) else learner

    for name in names:
        _check_actions(name, environment, lambda name=name: make(name, epsilons[0]))
    makers = {name: partial(make, name) if name in private else partial(make, name, np.inf)
              for name in names}  # fmt: skip
    grid = {"epsilon": [float(epsilon) for epsilon in epsilons]} if private else {}
    return Study(makers, {"losses": environment}, grid, seeds, seed, checkpoints=100)


def _check_actions(name, environment, make) -> None:
    """Refuse learners of features if there are no features, and other learners if there are."""
    featured = isinstance(environment.action_set, Policies)
    try:
        plays = make().action_set
    except factories.Missing:
        if not featured:
            raise
        plays = None
    if featured and plays != environment.action_set:
        raise ValueError(f"learner: {name} does not play on features; leave out --features and "
                         "--label, or name learners such as linucb and glm_sgd")  # fmt: skip
    if not featured and isinstance(plays, Policies):
        raise ValueError(
            f"learner: {name} plays on features, and a loss table has none; name their columns "
            "with --features, or a column of labels with --label"
        )


def figure(data: Dataset, note: str) -> Captioned:
    """Regret curves by privacy level, with 95 % intervals; ``note`` is added to the caption.

    If there are several learners, each privacy level has a panel.
    """
    axes = {"color": "learner"}
    if "epsilon" in data.dims:
        one = data.sizes["learner"] == 1
        axes = {"color": "epsilon"} if one else {"color": "learner", "panel": "epsilon"}
    drawn = data.dpjax.figure("round", **axes, estimate=estimates.mean, note=note)
    for text in drawn.texts:  # A dollar in a file name starts no formula.
        text.set_parse_math(False)
    return drawn


def read_game(
    path: str | os.PathLike, *, features: Sequence[str] | None = None, label: str | None = None,
    **words: Sequence[str],
) -> Game:  # fmt: skip
    """The environment of a file: a loss table, one with features, or labelled cases.

    The rows of a loss table are the rounds, in order. Labelled cases are drawn with replacement
    (:func:`dpjax.environments.classification`).

    Args:
      path: as in :func:`read_losses`; with features or a label as in
        :func:`read_cases`.
      features: names of columns.
      label: the name of a column; a file with labels of its own needs none.
      words: ``missing`` and ``keep``, as in :func:`read_losses`.
    """
    label = own_label(path) if label is None else label
    if features is None and label is None:
        arms, losses, reading = read_losses(path, **words)
        return Game(count_switches(environments.table(losses)), arms, losses, (), reading)
    read = read_cases(path, features=features, label=label, **words)
    if read.losses is None:
        note = ("A row is a case, drawn with replacement. A wrong label costs 1, the right one "
                "-1. So half the regret is the number of mistakes beyond those of the reference "
                "policy.")  # fmt: skip
        labels = np.asarray(read.labels)
        environment = environments.classification(read.features, labels)
        return Game(environment, read.arms, labels, (note, *read.notes), read.reading)
    contexts = standardised(read.features)
    blocks = np.eye(len(read.arms))[None, :, :, None]
    blocks = (blocks * contexts[:, None, None]).reshape(len(contexts), len(read.arms), -1)
    environment = environments.contextual_table(blocks, read.losses)
    return Game(environment, read.arms, read.losses, read.notes, read.reading)


def read_study(
    path: str | os.PathLike, names: str | Sequence[str], *, horizon: int | None = None,
    features: Sequence[str] | None = None, label: str | None = None, missing: Sequence[str] = (),
    keep: Sequence[str] = (), **options: Any,
) -> tuple[Study, Game]:  # fmt: skip
    """(the Study of learners on a file, its Game).

    Arguments and errors are those of :func:`read_game` and :func:`study_of`.
    """
    game = read_game(path, features=features, label=label, missing=missing, keep=keep)
    rows = len(game.table)
    if horizon is not None and horizon > rows and not game.labelled:
        raise ValueError(f"horizon: {horizon} rounds were requested, but {path} has only {rows}")
    horizon = rows if horizon is None else horizon
    if game.labelled:
        options["loss_range"] = (-1.0, 1.0)
    return study_of(game.environment, names, horizon=horizon, **options), game


def plan(study: str | None = None, losses: str | None = None, **options: Any) -> Plan:
    """The plan of ``dpjax run``: the study in a Python file, or learners on a file of losses.

    Args:
      study: as in :func:`dpjax.cli.learner_files.find_study`.
      losses, options: as in :func:`read_study`, with ``names`` of learners.

    Raises:
      ValueError: both files are given, or neither; no learner is named for losses; an option is
        given beside a study; or as in these functions.
    """
    if study is not None and losses is None:
        for name in options:
            word = {"names": "learner", "epsilons": "epsilon"}.get(name, name)
            raise ValueError(f"{word}: set it in the file of the study; leave out --{word}")
        path, played = find_study(study)
        return Plan(played, "results/study", {"file": shown(path), "sha256": digest(path)})
    if losses is None or study is not None:
        raise ValueError("run: pass the Python file of a study, or --losses FILE")
    if "names" not in options:
        raise ValueError("learner: name one that plays the losses, with --learner NAME")
    played, game = read_study(losses, **options)
    parameters = {
        "file": shown(losses), "sha256": digest(losses), "features": options.get("features"),
        "label": options.get("label"), "arms": game.arms,
        "mean_losses": game.mean_losses(options.get("horizon")).tolist(),
        "learners": list(played.learners),
        "epsilons": played.grid.get("epsilon"), "seeds": played.trials,
        "key": f"jax.random.key({options.get('seed', 0)})", "notes": list(game.notes),
        "reading": list(game.reading), "missing": options.get("missing", ()),
        "keep": options.get("keep", ()),
    }  # fmt: skip
    name = shown(Path(losses).name)
    name = name if len(name) <= 40 else f"{name[:20]}...{name[-17:]}"
    draw = partial(figure, note=" ".join([f"Losses: {name}.", *game.notes]))
    return Plan(played, "results/run", parameters, (*game.reading, *game.notes), draw)


def play(plan: Plan, out: str | os.PathLike, **options: Any) -> str:
    """Play a study and write the results into the folder ``out``.

    The files are data.nc (all trials, for ``xarray.open_dataset`` and ``dpjax explore``), table.csv
    (means of the regret at the horizon) and parameters.json. If the plan has a figure, there are
    also curves.csv (means at the checkpoints), regret.png and regret.pdf.

    Args:
      plan: the study.
      out: a folder.
      **options: as in :meth:`dpjax.Study.run`.

    Returns:
      The table and the notes, as text.

    Raises:
      ValueError: as in :meth:`dpjax.Study.run`.
      OSError: ``out`` cannot be written to. If the figure cannot be drawn, all other files are
        written, with a FigureWarning.
    """
    with output_folder(out) as folder:
        data: Any = plan.study.run(**options)
        table = data.dpjax.table()
        data.to_netcdf(folder / "data.nc")
        write_csv(folder / "table.csv", filled(table, data.dims))
        if plan.draw is not None:
            write_csv(folder / "curves.csv", filled(data.dpjax.table("regret"), data.dims))
        played = {"versions": versions(), "backend": jax.default_backend()}
        write_json(folder / "parameters.json", plan.parameters | played)
    if plan.draw is not None:
        write_figure(out, "regret", plan.draw, data)
    text = filled(table, data.dims).to_string(index=False, float_format="{:.4g}".format)
    return "\n".join([text, *filter(None, [table.attrs["notes"], *plan.notes])])
