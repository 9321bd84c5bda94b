"""Any learner on a user's own table of losses."""

import csv
import hashlib
import inspect
import zipfile
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax import random as jr

from dpjax import _check, domains, environments, learners
from dpjax.analysis import plot, statistics
from dpjax.analysis.output import format_table, output_folder, versions, write_csv, write_json
from dpjax.combinators import count_switches, sample_arms
from dpjax.environments.table import check_losses
from dpjax.papers.sweeps import sweep

EPSILONS = (0.1, 1.0, 10.0, np.inf)


class Losses(NamedTuple):
    """A loss table with the names of its arms."""

    arms: tuple[str, ...]
    losses: np.ndarray  # (T, K) in [0, 1]


def read_losses(path) -> Losses:
    """Reads a (T, K) table of losses in [0, 1], a row a round and a column an arm.

    Args:
      path: a .csv file, with or without a header of arm names; a .npy file; or a .npz file with
        one array, or with one that is called losses.

    Returns:
      The table, and the names of its arms ("arm 1", ... where the file gives none).

    Raises:
      ValueError: an entry is missing, not a number, infinite or out of range, a row is ragged,
        there are no rows, or fewer than two arms; the message names file, row and column, counted
        from 1 (the rows of a CSV file as an editor counts its lines). Or its entries are separated
        by something else than commas, or a column counts the rows.
      OSError: the file cannot be read.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npy": _read_numpy, ".npz": _read_numpy}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: a loss table must be a .csv, .npy or .npz file")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    return readers[path.suffix.lower()](path)


def _read_csv(path) -> Losses:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            # Blank lines are no rows, wherever they stand.
            lines = [(reader.line_num, row) for row in reader if any(c.strip() for c in row)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason})") from None
    except csv.Error as error:
        raise ValueError(f"{path}: is not a CSV file ({error})") from None
    if lines:
        _refuse_separators(path, lines[-1][1])
    names = None
    if lines and not any(_is_number(cell) for cell in lines[0][1]):
        names = tuple(cell.strip() for cell in lines[0][1])
        lines = lines[1:]
    if not lines:
        raise ValueError(f"{path}: has no rows of losses")
    width = len(names or lines[0][1])
    for number, row in lines:
        if len(row) != width:
            raise ValueError(
                f"{path}: row {number} has {len(row)} entries, but "
                f"{'the header' if names else f'row {lines[0][0]}'} has {width}"
            )
        for column, cell in enumerate(row):
            if not _is_number(cell):
                name = f" ({names[column]})" if names else ""
                what = f"{cell.strip()!r} is not a number" if cell.strip() else "is missing"
                raise ValueError(f"{path}: row {number}, column {column + 1}{name}: {what}")
    values = np.array([[float(cell) for cell in row] for _, row in lines])
    _refuse_counts(path, values)
    check_losses(values, str(path), [number for number, _ in lines], names)
    return Losses(names or _default_names(width), values)


def _refuse_separators(path, row) -> None:
    """ValueError where an entry of a row, split at commas, is several by another separator."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(len([part for part in cell.split(separator) if part.strip()]) > 1 for cell in row):
            raise ValueError(
                f"{path}: its entries are separated by {name}; a loss table has commas between "
                "them, and points in decimal fractions"
            )


def _refuse_counts(path, values) -> None:
    """ValueError where a column is 0, 1, 2, ... or 1, 2, 3, ..., an index that was written too."""
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiu":
        return
    steps = np.diff(np.asarray(values, np.float64), axis=0)
    counts = np.isin(values[0], (0, 1)) & (values[-1] > 1) & (steps == 1).all(axis=0)
    for column in np.flatnonzero(counts) + 1:
        raise ValueError(
            f"{path}: column {column} counts the rows, {values[0, column - 1]:g} to "
            f"{values[-1, column - 1]:g}; an index is no arm, so leave it out"
        )


def _is_number(cell) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_numpy(path) -> Losses:
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path}: is not an array that NumPy can read without pickle") from None
    if isinstance(loaded, np.ndarray):
        values = loaded
    else:
        with loaded:
            name = loaded.files[0] if len(loaded.files) == 1 else "losses"
            if name not in loaded.files:
                raise ValueError(
                    f"{path}: holds the arrays {', '.join(loaded.files) or '(none)'}; name the "
                    "table losses"
                )
            try:
                values = loaded[name]
            except (ValueError, EOFError, zipfile.BadZipFile):
                raise ValueError(f"{path}: the array {name} cannot be read") from None
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{path}: holds {values.dtype}, not real numbers")
    _refuse_counts(path, values)
    check_losses(values, str(path))
    return Losses(_default_names(values.shape[1]), np.asarray(values, np.float64))


def _default_names(arms) -> tuple[str, ...]:
    return tuple(f"arm {i + 1}" for i in range(arms))


def find_learner(name):
    """The factory of that name among ``learners.__all__``; ValueError lists what there is."""
    if name not in learners.__all__:
        known = ", ".join(learners.__all__)
        meant = _check.nearest(name, learners.__all__)
        raise ValueError(f"learner: there is no {name!r}{meant}; known are {known}")
    return getattr(learners, name)


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

    A learner of points plays on the simplex, and an arm is drawn from each of its points; a learner
    of vectors plays unit vectors. A delta that a learner must be given is T^-2.

    Args:
      losses: (T, K) losses in [0, 1].
      learner: name of a factory in ``dpjax.learners``.
      epsilons: privacy levels, each greater than 0; inf for none. By default 0.1, 1, 10 and inf
        for a learner that takes epsilon.
      seeds: number of seeds.
      horizon: rounds to play; by default all T.
      seed: of the PRNG key.
      store: a folder or URL where results are kept chunk by chunk, as of :func:`dpjax.sweep`.
      progress: whether to show a progress bar.

    Returns:
      A Summary.

    Raises:
      ValueError: bad losses, an unknown learner or one that needs features, an epsilon that it
        refuses or does not take, or a horizon longer than the table.
    """
    factory = find_learner(learner)
    parameters = inspect.signature(factory).parameters
    if "dim" in parameters:
        raise ValueError(
            f"learner: {learner} plays on features, and a loss table has none; see "
            "environments.contextual_table"
        )
    takes_epsilon = "epsilon" in parameters
    if not takes_epsilon and epsilons is not None:
        raise ValueError(f"epsilon: the learner {learner} takes none")
    if epsilons is None:
        epsilons = EPSILONS if takes_epsilon else (np.inf,)
    environment = count_switches(environments.table(losses))
    if horizon is None:
        horizon = environment.horizon
    arms = np.shape(losses)[1]

    fixed = {}
    if "delta" in parameters and parameters["delta"].default is inspect.Parameter.empty:
        fixed["delta"] = 1.0 / max(horizon, 2) ** 2

    if "shrink" in parameters:
        fixed["shrink"] = True  # points outside the simplex are no probabilities
    if "loss_range" in parameters:
        fixed["loss_range"] = (0.0, 1.0)

    def game(epsilon):
        level = {"epsilon": epsilon, **fixed} if takes_epsilon else fixed
        if "domain" in parameters:
            # It plays a probability vector; an arm is drawn from that.
            learner = sample_arms(factory(horizon, domains.simplex(arms), **level))
        elif "actions" in parameters:
            learner = factory(horizon, np.eye(arms), **level)
        else:
            learner = factory(horizon, arms, **level)
        return learner, environment

    game.__name__ = learner
    declared = [game(epsilon)[0].privacy for epsilon in epsilons]
    result = sweep(game, np.array(epsilons), seeds, jr.key(seed), store=store, progress=progress)
    return Summary(
        learner, tuple(epsilons), declared, result.rounds, result.regret, result.tally.switches
    )


def table(summary) -> list[dict]:
    """Final regret, one row a privacy level; ``epsilon`` is what the learner then declares."""
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
    """Mean regret with its 95 % band (of one seed none), one row a privacy level and round."""
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
    return plot.regret_figure(curves, title)


def run(
    path, learner, out="results/run", *, epsilons=None, seeds=100, horizon=None, seed=0,
    store=None, progress=True,
) -> str:  # fmt: skip
    """Plays a learner on the loss table of a file and writes what happened into ``out``.

    Files: table.csv (final regrets), curves.csv, regret.png and .pdf, parameters.json. Arguments
    and errors are those of :func:`read_losses` and :func:`play`; OSError where ``out`` cannot be
    written to.

    Returns:
      The table, as text.
    """
    arms, losses = read_losses(path)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
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
        shown = f"mean of {seeds} seeds, 95 % bands" if seeds > 1 else "one seed, so no band"
        title = f"{learner} on {Path(path).name}: {shown}"
        write_csv(folder / "table.csv", rows)
        write_csv(folder / "curves.csv", curve_rows(summary))
        plot.save(figure(summary, title), folder, "regret")
        write_json(
            folder / "parameters.json",
            {
                "losses": str(path),
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
    return format_table(rows)


def _as_json(privacy) -> dict:
    names = ("epsilon", "delta", "rho", "paper_epsilon")
    numbers = {name: float(getattr(privacy, name)) for name in names}
    return {**privacy._asdict(), **numbers}
