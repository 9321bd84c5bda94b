"""Reads the stores of sweeps and studies, and the data of a study, as cells."""

import json
import re
from pathlib import PurePosixPath

import numpy as np
import xarray

from dpjax import store
from dpjax.report.found import Cell, Found, of_cells, value_text
from dpjax.store import layout
from dpjax.store.objects import Files


def read_store(url) -> Found:
    """What is in the store of a sweep, or in a folder of such stores.

    Raises:
      ValueError, OSError: there is no store, or it is damaged; the message names it.
    """
    files = Files(url)
    keys: list[str] = files.keys()
    roots = [key for key in keys if PurePosixPath(key).name == layout.ROOT]
    outer: list[str] = []  # Below the root of a store are those of its arrays.
    for root in sorted(roots, key=len):
        folder = root.removesuffix(layout.ROOT)
        if not any(root.startswith(each) for each in outer):
            outer.append(folder)
    if not outer:
        raise ValueError(f"{url}: there is no store of a sweep")
    cells: list[Cell] = []
    notes = [
        "A store keeps no declarations of privacy: ε is what was asked for, and the frontier takes "
        "it for what is declared."
    ]
    parameters: dict[str, dict] = {}
    horizons: set[int] = set()
    for folder in sorted(outer):
        place = f"{str(url).rstrip('/')}/{folder}".rstrip("/")
        told = layout.read(files.read(f"{folder}{layout.ROOT}"), place).attributes
        result = store.read(place)
        name = _panel(folder.rstrip("/"), told["learner"])
        parameters[folder.rstrip("/") or str(url)] = {
            key: told[key] for key in ("learner", "horizon", "play", "key", "dpjax", "jax")
        }
        horizons.add(told["horizon"])
        points = {key: np.asarray(v) for key, v in json.loads(told["points"]).items()}
        stopped = getattr(result.report, "stopped", None)
        if stopped is not None:
            censored = (np.asarray(stopped) == 0) & ~np.isnan(result.regret[..., -1])
            notes.extend(_censored(told["learner"], censored))
        for i in range(len(result.regret)):
            values = {key: v[i] for key, v in points.items()}
            epsilon = float(values.pop("epsilon", np.nan))
            # A sweep of one point has a parameter without a meaning.
            rest = [f"{k} = {value_text(v)}" for k, v in values.items() if len(points[k]) > 1]
            panel = ", ".join(filter(None, [name, *rest]))
            labels = {"learner": told["learner"], "epsilon": epsilon, "panel": panel}
            cells.append(Cell(labels, {}, result.rounds, np.asarray(result.regret[i])))
    if len(horizons) > 1:  # Regrets at different horizons are not compared.
        for cell in cells:
            ends = cell.labels["panel"], f"horizon = {cell.rounds[-1]}"
            cell.labels["panel"] = ", ".join(filter(None, ends))
    return of_cells(str(url), cells, parameters, notes)


def read_study(path) -> Found:
    """What is in study.nc, the data that ``dpjax run --config`` writes."""
    with xarray.open_dataset(path) as opened:
        data = opened.load()
    return of_cells(str(path), list(cells_of(data)), {}, _stopped(data))


def cells_of(data):
    """The cells of a study's data. A learner that takes no epsilon has one."""
    for labels, here, ignored in _each(data):
        learner, epsilon = labels.pop("learner"), labels.pop("epsilon", np.nan)
        epsilon = np.nan if "epsilon" in ignored else float(epsilon)
        panel = ", ".join(f"{k} = {value_text(v)}" for k, v in labels.items()
                          if data.sizes[k] > 1 and k not in ignored)  # fmt: skip
        declared = {name: here[f"privacy_{name}"].item() for name in ("epsilon", "delta", "model")}
        regret = here["regret"].transpose("trial", "round").values.copy()
        regret[:, -1] = here["final_regret"].values
        yield Cell({"learner": str(learner), "epsilon": epsilon, "panel": panel}, declared,
                   data["round"].values, regret)  # fmt: skip


def _each(data):
    """(labels, data, axes that have no meaning there) of each cell that was played."""
    axes = [name for name in data["regret"].dims if name not in ("trial", "round")]
    shape = [data.sizes[name] for name in axes]
    for index in np.ndindex(*shape):
        here = data.isel(dict(zip(axes, index, strict=True)))
        labels = {name: here[name].item() for name in axes}
        pair = {name: labels[name] for name in ("learner", "environment") if name in labels}
        ignored = [name for name in axes if f"takes_{name}" in data
                   and not data[f"takes_{name}"].sel(pair).all()]  # fmt: skip
        if not any(index[axes.index(name)] > 0 for name in ignored):
            yield labels, here, ignored


def _stopped(data) -> list[str]:
    """What is said of trials that did not stop."""
    if "report_stopped" not in data:
        return []
    found: dict[str, list] = {}
    for labels, here, _ in _each(data):
        found.setdefault(labels["learner"], []).append(here["report_stopped"].values == 0.0)
    return [sentence for name, censored in found.items()
            for sentence in _censored(name, np.array(censored))]  # fmt: skip


def _censored(learner, censored) -> list[str]:
    if not censored.any():
        return []
    return [f"{censored.sum()} trials of {learner} did not stop and are censored at the horizon."]


def _panel(folder, learner) -> str:
    """What the folder of a store says beside the learner: the environment and fixed values."""
    name = re.sub(r"(^|/)\d{3}-", r"\1", folder)  # the place in the order of calls
    name = re.sub(r"-[0-9a-f]{6}$", "", name)  # what tells stores of one text apart
    *outer, last = name.split("/")
    word = re.sub(r"[^\w.]+", "-", learner)
    last = last.removeprefix(word).lstrip("-")
    return "/".join(filter(None, [*outer, last]))
