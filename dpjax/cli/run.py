"""Plays any learner on a user's own table of losses."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpjax import domains, environments
from dpjax.cli.arguments import EPSILONS
from dpjax.cli.loss_files import read_losses
from dpjax.combinators import count_switches, sample_arms
from dpjax.core import Policies, _check
from dpjax.learners import factories
from dpjax.privacy import default_delta
from dpjax.report import estimates
from dpjax.report.output import output_folder, shown, versions, write_figure, write_json
from dpjax.report.tables import format_table, write_csv
from dpjax.study import Study

SEEDS = 2**24  # the most that one run plays
COLUMNS = ["learner", "model", "asked_epsilon", "epsilon", "delta", "horizon", "seeds", "regret",
           "standard_error", "median", "switches"]  # fmt: skip
# Columns of ``data.dpjax.table()``, and their names in the table of a run.
NAMES = {"epsilon": "asked_epsilon", "privacy_epsilon": "epsilon", "privacy_delta": "delta",
         "privacy_model": "model", "mean": "regret", "trials": "seeds"}  # fmt: skip


def study_of(losses, learner, *, epsilons=None, seeds=100, horizon=None, seed=0) -> Study:
    """The Study of a learner on a (T, K) table of losses, at several privacy levels.

    A learner of points plays on the simplex, and an arm is drawn from each of its points. A learner
    of vectors plays the unit vectors. A learner that requires a delta is given T^-2, and one that
    requires rho, and so takes no epsilon, epsilon^2 / 2; the table has the epsilon of both.

    Args:
      losses: (T, K) losses in [0, 1].
      learner: name of a factory in ``dpjax.learners``.
      epsilons: privacy levels, each greater than 0, where inf means no privacy. By default they are
        0.1, 1, 10 and inf for a learner that takes epsilon or rho.
      seeds: the number of trials.
      horizon: how many rounds are played; by default all T.
      seed: the seed of the PRNG key.

    Raises:
      ValueError: bad losses, an unknown learner or one that needs features, an epsilon that it
        refuses or does not take, or a horizon longer than the table.
    """
    factories.check_name(learner)
    takes_epsilon = factories.takes(learner, "epsilon") or factories.requires(learner, "rho")
    if not takes_epsilon and epsilons is not None:
        raise ValueError(f"epsilon: the learner {learner} takes none; leave it out")
    if epsilons is None:
        epsilons = EPSILONS if takes_epsilon else (np.inf,)
    for epsilon in epsilons:
        _check.epsilon(epsilon)
    if len(set(epsilons)) < len(epsilons):
        raise ValueError(f"epsilon: one is given twice in {', '.join(f'{e:g}' for e in epsilons)}")
    if _check.size(1, seeds=seeds) > SEEDS:
        raise ValueError(f"seeds must be at most {SEEDS}, got {seeds}")
    _check.size(0, seed=seed)
    environment = count_switches(environments.table(losses))
    if horizon is None:
        horizon = environment.horizon
    arms = np.shape(losses)[1]
    sizes = {
        "arms": arms, "actions": np.eye(arms), "dim": arms, "domain": domains.simplex(arms),
        "delta": default_delta(horizon),
    }  # fmt: skip

    def make(epsilon):
        made = factories.build(
            learner, horizon, {**sizes, "epsilon": epsilon}, loss_range=(0.0, 1.0)
        )
        return sample_arms(made) if isinstance(made.action_set, domains.Domain) else made

    if isinstance(make(epsilons[0]).action_set, Policies):
        raise ValueError(
            f"learner: {learner} plays on features, and a loss table has none; see "
            "environments.contextual_table"
        )
    grid = {"epsilon": [float(epsilon) for epsilon in epsilons]}
    return Study({learner: make}, {"losses": environment}, grid, seeds, seed, checkpoints=100)


def table(data) -> list[dict]:
    """Final regret, one row for each privacy level. ``epsilon`` is what the learner declares."""
    trials = data[["final_regret", "tally_switches"]].astype(np.float64)
    frame = data.dpjax.table().rename(columns=NAMES)
    frame["horizon"] = data["round"].values[-1]
    frame["median"] = trials["final_regret"].median("trial").values.ravel()
    frame["switches"] = trials["tally_switches"].mean("trial").values.ravel()
    return frame[COLUMNS].to_dict("records")


def curves(data) -> Any:
    """Mean regret with 95 % intervals (none for one seed), a row for each level and round."""
    frame = data.dpjax.table("regret").rename(columns={"mean": "regret"})
    return frame[["epsilon", "round", "regret", "low", "high"]]


def figure(data, note):
    """Regret curves by privacy level, with 95 % intervals; ``note`` is a part of the caption."""
    drawn = data.dpjax.figure("round", color="epsilon", estimate=estimates.mean, note=note)
    for (
        text
    ) in drawn.texts:  # The note may hold the name of a file, in which a dollar is no formula.
        text.set_parse_math(False)
    return drawn


def read_study(path, learner, *, horizon=None, **options) -> tuple:
    """(the Study of a learner on the losses of a file, the names of the arms, the losses).

    Arguments and errors are those of :func:`read_losses` and :func:`study_of`.
    """
    arms, losses = read_losses(path)
    if horizon is not None and horizon > len(losses):
        raise ValueError(
            f"horizon: {horizon} rounds were asked for, but {path} has only {len(losses)}"
        )
    return study_of(losses, learner, horizon=horizon, **options), arms, losses


def run(
    path, learner, out="results/run", *, epsilons=None, seeds=100, horizon=None, seed=0,
    store=None, mesh=None, progress=True,
) -> str:  # fmt: skip
    """Plays a learner on the loss table of a file and writes what happened into ``out``.

    The files are data.nc (all trials, for ``xarray.open_dataset`` and ``dpjax explore``), table.csv
    (final regrets), curves.csv, regret.png, regret.pdf and parameters.json. Arguments and errors
    are those of :func:`read_losses`, :func:`study_of` and :meth:`dpjax.Study.run`. Besides, an
    OSError is raised where ``out`` cannot be written to. Where the figure cannot be drawn,
    everything else is written, and a FigureWarning says so.

    Returns:
      The table, as text.
    """
    with output_folder(out) as folder:
        study, arms, losses = read_study(
            path, learner, epsilons=epsilons, seeds=seeds, horizon=horizon, seed=seed
        )
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        data: Any = study.run(store, mesh=mesh, progress=progress)
        rows, last = table(data), int(data["round"].values[-1])
        asked, make = study.grid["epsilon"], study.learners[learner]
        data.to_netcdf(folder / "data.nc")
        write_csv(folder / "table.csv", rows)
        write_csv(folder / "curves.csv", curves(data))
        write_json(
            folder / "parameters.json",
            {
                "losses": shown(path),
                "losses_sha256": digest,
                "arms": arms,
                "mean_losses": losses[:last].mean(axis=0).tolist(),
                "learner": learner,
                "epsilons": asked,
                "horizon": last,
                "seeds": seeds,
                "key": f"jax.random.key({seed})",
                "privacy": [_as_json(make(epsilon).privacy) for epsilon in asked],
                "versions": versions(),
                "backend": jax.default_backend(),
            },
        )
    name = shown(Path(path).name)
    name = name if len(name) <= 40 else f"{name[:20]}...{name[-17:]}"
    write_figure(out, "regret", partial(figure, data, f"Losses: {name}."))
    return format_table(rows)


def _as_json(privacy) -> dict:
    names = ("epsilon", "delta", "rho", "paper_epsilon")
    numbers = {name: float(getattr(privacy, name)) for name in names}
    return {**privacy._asdict(), **numbers}
