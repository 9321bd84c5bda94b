"""Learners on a user's own losses, with or without features, or on labelled cases."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from dpjax import domains, environments
from dpjax.cli.arguments import EPSILONS
from dpjax.cli.case_files import read_cases
from dpjax.cli.loss_files import read_losses
from dpjax.combinators import count_switches, sample_arms
from dpjax.core import Arms, Environment, Policies, _check
from dpjax.environments._classification import standardised
from dpjax.learners import factories
from dpjax.learners.entrants import sizes_of
from dpjax.learners.factories import taken
from dpjax.report import estimates
from dpjax.report.output import output_folder, shown, versions, write_figure, write_json
from dpjax.report.tables import filled, format_table, write_csv
from dpjax.study import Study

SEEDS = 2**24  # the largest number of trials of one run
COLUMNS = ["learner", "model", "asked_epsilon", "epsilon", "delta", "horizon", "seeds", "regret",
           "standard_error", "median", "switches"]  # fmt: skip
# Columns of ``data.dpjax.table()``, and their names in the table of a run.
NAMES = {"epsilon": "asked_epsilon", "privacy_epsilon": "epsilon", "privacy_delta": "delta",
         "privacy_model": "model", "mean": "regret", "trials": "seeds"}  # fmt: skip


class Game(NamedTuple):
    """The contents of a file as a game."""

    environment: Environment
    arms: tuple[str, ...]
    losses: np.ndarray  # (n, K) of the rows, as the environment has them
    notes: tuple[str, ...]  # for the reader of the results


def study_of(
    environment, names, *, epsilons=None, seeds=100, horizon=None, seed=0, loss_range=(0.0, 1.0)
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
    if len(set(epsilons)) < len(epsilons):
        raise ValueError(f"epsilon: one is given twice in {', '.join(f'{e:g}' for e in epsilons)}")
    if _check.size(1, seeds=seeds) > SEEDS:
        raise ValueError(f"seeds must be at most {SEEDS}, got {seeds}")
    _check.key_or_seed(seed=seed)
    if not isinstance(environment, Environment):
        environment = count_switches(environments.table(environment))
    if horizon is None:
        horizon = environment.horizon
    sizes = sizes_of(environment.action_set, horizon)
    if isinstance(environment.action_set, Arms):
        arms = environment.action_set.count
        sizes |= {"dim": arms, "domain": domains.simplex(arms)}

    def make(name, epsilon):
        made = factories.build(name, horizon, {**sizes, "epsilon": epsilon}, loss_range=loss_range)
        return sample_arms(made) if isinstance(made.action_set, domains.Domain) else made

    for name in names:
        _check_actions(name, environment, lambda name=name: make(name, epsilons[0]))
    # Each study has the axis epsilon, even if its only learner takes no epsilon.
    makers = {name: partial(make, name) if name in private or not private
              else partial(make, name, np.inf) for name in names}  # fmt: skip
    grid = {"epsilon": [float(epsilon) for epsilon in epsilons]}
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


def table(data) -> list[dict]:
    """Final regret, one row for each learner and level. ``epsilon`` is the declared epsilon.

    ``asked_epsilon`` is empty if the learner takes none; ``switches`` is empty with features.
    """
    frame = data.dpjax.table().rename(columns=NAMES)
    frame["horizon"] = data["round"].values[-1]
    of = [{"learner": row["learner"], "epsilon": row["asked_epsilon"]}
          if row["asked_epsilon"] >= 0 else {"learner": row["learner"], "epsilon": level}
          for level in data["epsilon"].values[:1] for row in frame.to_dict("records")]  # fmt: skip
    own = [data.sel(at).squeeze(drop=True).astype(np.float64, copy=False) for at in of]
    frame["median"] = [float(each["final_regret"].median()) for each in own]
    frame["switches"] = [float(each["tally_switches"].mean()) if "tally_switches" in each else ""
                         for each in own]  # fmt: skip
    return filled(frame[COLUMNS], ["asked_epsilon"]).to_dict("records")


def curves(data) -> Any:
    """Mean regret with 95 % intervals (none for one trial), a row for each level and round."""
    frame = data.dpjax.table("regret").rename(columns={"mean": "regret"})
    frame = frame[["learner", "epsilon", "round", "regret", "low", "high"]]
    return filled(frame, ["epsilon"])


def figure(data, note):
    """Regret curves by privacy level, with 95 % intervals; ``note`` is added to the caption.

    If there are several learners, each level has a panel.
    """
    axes = {"color": "epsilon"} if data.sizes["learner"] == 1 else (
        {"color": "learner", "panel": "epsilon"})  # fmt: skip
    drawn = data.dpjax.figure("round", **axes, estimate=estimates.mean, note=note)
    for text in drawn.texts:  # A dollar in a file name starts no formula.
        text.set_parse_math(False)
    return drawn


def read_game(path, *, features=None, label=None) -> Game:
    """The environment of a file: a loss table, one with features, or labelled cases.

    The rows of a loss table are the rounds, in order. Labelled cases are drawn with replacement
    (:func:`dpjax.environments.classification`).

    Args:
      path: as in :func:`read_losses`; with features or a label as in
        :func:`dpjax.cli.case_files.read_cases`.
      features: names of columns.
      label: the name of a column.
    """
    if features is None and label is None:
        arms, losses = read_losses(path)
        return Game(count_switches(environments.table(losses)), arms, losses, ())
    read = read_cases(path, features=features, label=label)
    if read.labels is not None:
        words = ("A row is a case, drawn with replacement. A wrong label costs 1, the right one "
                 "-1. So half the regret is the number of mistakes beyond those of the reference "
                 "policy.")  # fmt: skip
        environment = environments.classification(read.features, read.labels)
        return Game(environment, read.arms, 2.0 * read.losses - 1.0, (words, *read.notes))
    contexts = standardised(read.features)
    own = np.eye(len(read.arms))[None, :, :, None]
    blocks = (own * contexts[:, None, None]).reshape(len(contexts), len(read.arms), -1)
    environment = environments.contextual_table(blocks, read.losses)
    return Game(environment, read.arms, read.losses, read.notes)


def read_study(path, names, *, horizon=None, features=None, label=None, **options) -> tuple:
    """(the Study of learners on a file, its Game).

    Arguments and errors are those of :func:`read_game` and :func:`study_of`.
    """
    game = read_game(path, features=features, label=label)
    rows = len(game.losses)
    if horizon is not None and horizon > rows and label is None:
        raise ValueError(f"horizon: {horizon} rounds were requested, but {path} has only {rows}")
    horizon = rows if horizon is None else horizon
    if label is not None:
        options["loss_range"] = (-1.0, 1.0)
    return study_of(game.environment, names, horizon=horizon, **options), game


def run(
    path, names, out="results/run", *, seeds=100, seed=0, store=None, mesh=None, progress=True,
    **options,
) -> str:  # fmt: skip
    """Play learners on a user's file and write the results into ``out``.

    The files are data.nc (all trials, for ``xarray.open_dataset`` and ``dpjax explore``), table.csv
    (final regrets), curves.csv, regret.png, regret.pdf and parameters.json. Arguments and errors
    are those of :func:`read_study` and :meth:`dpjax.Study.run`. An OSError is raised if ``out``
    cannot be written to. If the figure cannot be drawn, all other files are written, with a
    FigureWarning.

    Returns:
      The table and the notes, as text.
    """
    with output_folder(out) as folder:
        study, game = read_study(path, names, seeds=seeds, seed=seed, **options)
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        data: Any = study.run(store, mesh=mesh, progress=progress)
        rows, last = table(data), int(data["round"].values[-1])
        # Cases with labels are drawn from all rows.
        played = game.losses if options.get("label") else game.losses[:last]
        data.to_netcdf(folder / "data.nc")
        write_csv(folder / "table.csv", rows)
        write_csv(folder / "curves.csv", curves(data))
        write_json(
            folder / "parameters.json",
            {
                "losses": shown(path),
                "losses_sha256": digest,
                "features": options.get("features"),
                "label": options.get("label"),
                "arms": game.arms,
                "mean_losses": played.mean(axis=0).tolist(),
                "learners": list(study.learners),
                "epsilons": study.grid["epsilon"],
                "horizon": last,
                "seeds": seeds,
                "key": f"jax.random.key({seed})",
                "notes": list(game.notes),
                "privacy": [
                    {"learner": name, **_as_json(learner.privacy)}
                    for name, make in study.learners.items()
                    for learner in _at_each(make, study.grid["epsilon"])
                ],
                "versions": versions(),
                "backend": jax.default_backend(),
            },
        )
    name = shown(Path(path).name)
    name = name if len(name) <= 40 else f"{name[:20]}...{name[-17:]}"
    write_figure(out, "regret", partial(figure, data, " ".join([f"Losses: {name}.", *game.notes])))
    return "\n\n".join([format_table(rows), *game.notes])


def _at_each(make, epsilons) -> list:
    """The learners of a factory, at each epsilon if it takes one."""
    return [make(epsilon) for epsilon in epsilons] if "epsilon" in taken(make) else [make()]


def _as_json(privacy) -> dict:
    names = ("epsilon", "delta", "rho", "paper_epsilon")
    numbers = {name: float(getattr(privacy, name)) for name in names}
    return {**privacy._asdict(), **numbers}
