"""Plays any learner on a user's own table of losses."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax import random as jr

from dpjax import domains, environments
from dpjax.cli.loss_files import read_losses
from dpjax.combinators import count_switches, sample_arms
from dpjax.core import Policies, _check
from dpjax.learners import factories
from dpjax.papers.sweeps import sweep
from dpjax.privacy import default_delta
from dpjax.report import plot, statistics
from dpjax.report.output import output_folder, shown, versions, write_figure, write_json
from dpjax.report.tables import format_table, write_csv

EPSILONS = (0.1, 1.0, 10.0, np.inf)
SEEDS = 2**24  # the most that one run plays


class Summary(NamedTuple):
    """What was played, and how it went."""

    learner: str
    epsilons: tuple[float, ...]  # (P,) asked for; a single inf for a learner that takes none
    privacy: list  # (P,) declarations
    rounds: np.ndarray  # (n,)
    regret: np.ndarray  # (P, seeds, n)
    switches: np.ndarray  # (P, seeds)


def play(
    losses, learner, *, epsilons=None, seeds=100, horizon=None, seed=0, store=None, progress=True
):
    """Plays a learner on a (T, K) table of losses, at several privacy levels.

    A learner of points plays on the simplex, and an arm is drawn from each of its points. A learner
    of vectors plays the unit vectors. A learner that requires a delta is given T^-2, and one that
    requires rho, and so takes no epsilon, epsilon^2 / 2; the table has the epsilon of both.

    Args:
      losses: (T, K) losses in [0, 1].
      learner: name of a factory in ``dpjax.learners``.
      epsilons: privacy levels, each greater than 0, where inf means no privacy. By default they are
        0.1, 1, 10 and inf for a learner that takes epsilon or rho.
      seeds: the number of seeds.
      horizon: how many rounds are played; by default all T.
      seed: the seed of the PRNG key.
      store: a folder or URL where results are kept chunk by chunk, as in :func:`dpjax.sweep`.
      progress: whether to show a progress bar.

    Returns:
      A Summary.

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

    def game(epsilon):
        made = factories.build(
            learner, horizon, {**sizes, "epsilon": epsilon}, loss_range=(0.0, 1.0)
        )
        points = isinstance(made.action_set, domains.Domain)
        return sample_arms(made) if points else made, environment

    game.__name__ = learner
    if isinstance(game(epsilons[0])[0].action_set, Policies):
        raise ValueError(
            f"learner: {learner} plays on features, and a loss table has none; see "
            "environments.contextual_table"
        )
    declared = [game(epsilon)[0].privacy for epsilon in epsilons]
    result = sweep(game, np.array(epsilons), seeds, jr.key(seed), store=store, progress=progress)
    return Summary(
        learner, tuple(epsilons), declared, result.rounds, result.regret, result.tally.switches
    )


def table(summary) -> list[dict]:
    """Final regret, one row for each privacy level. ``epsilon`` is what the learner declares."""
    rows = []
    for asked, privacy, regret, switches in zip(
        summary.epsilons, summary.privacy, summary.regret, summary.switches, strict=True
    ):
        final = regret[:, -1].astype(np.float64)
        rows.append(
            {
                "learner": summary.learner,
                "model": privacy.model,
                "asked_epsilon": float(asked),
                "epsilon": float(privacy.epsilon),
                "delta": float(privacy.delta),
                "horizon": int(summary.rounds[-1]),
                "seeds": len(final),
                "regret": float(final.mean()),
                "standard_error": float(statistics.standard_error(final)),
                "median": float(np.median(final)),
                "switches": float(switches.mean(dtype=np.float64)),
            }
        )
    return rows


def curve_rows(summary) -> list[dict]:
    """Mean regret and its 95 % band (none for one seed), a row for each privacy level and round."""
    rows = []
    for epsilon, regret in zip(summary.epsilons, summary.regret, strict=True):
        band = statistics.mean_band(regret, axis=0)
        for t, mean, low, high in zip(summary.rounds, *band, strict=True):
            rows.append(
                {
                    "epsilon": float(epsilon),
                    "round": int(t),
                    "regret": float(mean),
                    "low": float(low),
                    "high": float(high),
                }
            )
    return rows


def figure(summary, title):
    """Regret curves by privacy level, with 95 % bands where there are several seeds."""
    curves = []
    for epsilon, regret in zip(summary.epsilons, summary.regret, strict=True):
        band = statistics.mean_band(regret, axis=0)
        low, high = band[1:] if len(regret) > 1 else (None, None)
        label = f"$\\epsilon$ = {epsilon:g}" if np.isfinite(epsilon) else "no noise"
        style = {"color": plot.epsilon_color(epsilon)}
        curves.append(plot.Curve(label, summary.rounds, band.mean, low, high, style))
    drawn = plot.regret_figure(curves, title)
    # The title holds the name of a file, in which a dollar does not begin a formula.
    drawn.axes[0].title.set_parse_math(False)
    return drawn


def run(
    path, learner, out="results/run", *, epsilons=None, seeds=100, horizon=None, seed=0,
    store=None, progress=True,
) -> str:  # fmt: skip
    """Plays a learner on the loss table of a file and writes what happened into ``out``.

    The files are table.csv (final regrets), curves.csv, regret.png, regret.pdf and parameters.json.
    Arguments and errors are those of :func:`read_losses` and :func:`play`. Besides, an OSError is
    raised where ``out`` cannot be written to. Where the figure cannot be drawn, everything else is
    written, and a FigureWarning says so.

    Returns:
      The table, as text.
    """
    arms, losses = read_losses(path)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if horizon is not None and horizon > len(losses):
        raise ValueError(
            f"horizon: {horizon} rounds were asked for, but {path} has only {len(losses)}"
        )
    with output_folder(out) as folder:
        summary = play(
            losses, learner, epsilons=epsilons, seeds=seeds, horizon=horizon, seed=seed,
            store=store, progress=progress,
        )  # fmt: skip
        rows = table(summary)
        write_csv(folder / "table.csv", rows)
        write_csv(folder / "curves.csv", curve_rows(summary))
        write_json(
            folder / "parameters.json",
            {
                "losses": shown(path),
                "losses_sha256": digest,
                "arms": arms,
                "mean_losses": losses[: summary.rounds[-1]].mean(axis=0).tolist(),
                "learner": learner,
                "epsilons": [float(epsilon) for epsilon in summary.epsilons],
                "horizon": int(summary.rounds[-1]),
                "seeds": seeds,
                "key": f"jax.random.key({seed})",
                "privacy": [_as_json(privacy) for privacy in summary.privacy],
                "versions": versions(),
                "backend": jax.default_backend(),
            },
        )
    name = shown(Path(path).name)
    name = name if len(name) <= 40 else f"{name[:20]}...{name[-17:]}"
    bands = f"mean of {seeds} seeds, 95 % bands" if seeds > 1 else "one seed, so no band"
    write_figure(out, "regret", figure, summary, f"{learner} on {name}: {bands}")
    return format_table(rows)


def _as_json(privacy) -> dict:
    names = ("epsilon", "delta", "rho", "paper_epsilon")
    numbers = {name: float(getattr(privacy, name)) for name in names}
    return {**privacy._asdict(), **numbers}
