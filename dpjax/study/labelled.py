"""The data of a study: the results of its sweeps as one ``xarray.Dataset`` with labelled axes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray

from dpjax.report import accessor as accessor  # which registers Dataset.dpjax
from dpjax.study.programs import NUMBERS, TEXTS, StudyProgram

if TYPE_CHECKING:
    from dpjax.study.study import Study

_UNITS = {"regret": "loss of one round", "final_regret": "loss of one round", "round": "rounds",
          "report_stopping_time": "rounds", "report_stopped": "0 or 1",
          "correct": "0 or 1"}  # fmt: skip


class Cells(NamedTuple):
    """The cells of a study that a program fills."""

    at: dict[str, list]  # axis that it takes -> the labels that it fills
    swept: Sequence[str]  # the axes along its points, the last one fastest


class Played(NamedTuple):
    """A program of a study and the results of its sweep."""

    program: Cells | StudyProgram
    rounds: np.ndarray  # (n,)
    arrays: dict[str, np.ndarray]  # (P, S, ...) by name, regret (P, S, n) among them
    about: dict[str, Any]  # privacy and best_arms, as StudyProgram.about returns them


class Arrangement(NamedTuple):
    """The cells of a study."""

    axes: dict[str, np.ndarray]  # learner, environment and the grid's axes -> labels
    fixed: dict[str, Any]  # axis of one value, which needs no dimension -> the value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(labels) for labels in self.axes.values())

    def place(self, program) -> list[np.ndarray]:
        """The indices that a program fills on each axis: all, if it does not take the axis."""
        filled = [program.at.get(name, labels) for name, labels in self.axes.items()]
        return [
            np.array([np.flatnonzero(labels == label)[0] for label in wanted])
            for labels, wanted in zip(self.axes.values(), filled, strict=True)
        ]

    def shaped(self, program, values) -> np.ndarray:
        """The values of a program's points, (P, ...), reshaped to the axes of the layout."""
        sizes = {name: len(program.at[name]) for name in program.swept}
        values = np.asarray(values)
        rest = values.shape[1:]
        values = values.reshape((*sizes.values(), *rest))
        order = [[*program.swept].index(name) for name in self.axes if name in program.swept]
        values = np.moveaxis(values, order, range(len(order)))
        return values.reshape((*(sizes.get(name, 1) for name in self.axes), *rest))


def layout(study: "Study") -> Arrangement:
    """The axes of a study and the labels along them.

    Raises:
      ValueError: two of its parts fill the same cell.
    """
    labels: dict[str, list] = {"learner": [], "environment": []}
    single: dict[str, bool] = {}
    for part in study.parts:
        labels["learner"] += part.learners
        labels["environment"] += part.environments
        for axis in part.axes.values():
            labels.setdefault(axis.name, []).extend(axis.labels.tolist())
            single[axis.name] = single.get(axis.name, True) and axis.single
    axes = {name: _distinct(name, values) for name, values in labels.items()}
    alone = {name: axes.pop(name)[0] for name in single if single[name] and len(axes[name]) == 1}
    arrangement = Arrangement(axes, {name: label for name, label in alone.items() if label != ""})
    filled = np.zeros(arrangement.shape, bool)
    for program in study.programs:
        cells = np.ix_(*arrangement.place(program))
        if filled[cells].any():
            raise ValueError(f"the studies have a cell in common: {program}")
        filled[cells] = True
    return arrangement


def _distinct(name, values) -> np.ndarray:
    """The distinct labels: numbers in increasing order, strings in their given order."""
    kinds = {isinstance(label, str) for label in values}
    if len(kinds) > 1:
        raise ValueError(f"grid: {name} holds strings in one study and numbers in the other")
    different = list(dict.fromkeys(values))
    return as_labels(different if kinds == {True} else sorted(different))


def as_labels(values: list) -> np.ndarray:
    """The labels of an axis as an array: strings as objects, numbers as numbers."""
    return np.array(values, object if isinstance(values[0], str) else None)


def labelled(arrangement: Arrangement, trials: int, played: list[Played]) -> xarray.Dataset:
    """The Dataset of a study.

    Args:
      arrangement: its layout.
      trials: number of trials per cell.
      played: an entry for each program that was played. Cells of the other programs are NaN.
    """
    names = list(arrangement.axes)
    rounds = np.unique(np.concatenate([result.rounds for result in played]))
    table = _Table(arrangement)
    for program, own_rounds, arrays, about in played:
        place = arrangement.place(program)
        at = np.searchsorted(rounds, own_rounds)
        regret = arrangement.shaped(program, arrays["regret"])
        lengths = {"trial": trials, "round": len(rounds)}
        table.put("regret", lengths, [*place, np.arange(trials), at], regret)
        values = {"final_regret": arrays["regret"][..., -1], **arrays}
        del values["regret"]
        if "best_arms" in about and "report_recommendation" in values:
            best, arms = np.array(about["best_arms"]), np.asarray(values["report_recommendation"])
            correct = np.take_along_axis(best, np.nan_to_num(arms).astype(int), axis=1)
            values["correct"] = np.where(np.isnan(arms), np.nan, correct)
            table.put("best_arms", {}, place, arrangement.shaped(program, best.sum(axis=1)))
        for name, leaf in values.items():
            leaf = arrangement.shaped(program, leaf)
            # The tallies of two environments may hold a number and a vector under the same name.
            rank = leaf.ndim - len(names) - 1
            if name in table.arrays and len(table.arrays[name][0]) != len(names) + 1 + rank:
                name = f"{name}_{rank}d"
            more = {f"{name}_{i}": n for i, n in enumerate(leaf.shape[len(names) + 1 :])}
            indices = [*place, *map(np.arange, leaf.shape[len(names) :])]
            table.put(name, {"trial": trials, **more}, indices, leaf)
    coordinates = {
        **{name: ((name,), labels) for name, labels in arrangement.axes.items()},
        **arrangement.fixed,
        "trial": np.arange(trials),
        "round": rounds,
        **_privacy(arrangement, [result for result in played if "privacy" in result.about]),
        **_takes(arrangement, played),
        **_planned(arrangement, played),
    }
    data = xarray.Dataset(table.arrays, coordinates)
    for name in _UNITS.keys() & data.variables.keys():
        data[name].attrs["units"] = _UNITS[name]
    return data


class _Table:
    """Arrays that are NaN until a value is written."""

    def __init__(self, arrangement):
        self.names, self.shape = tuple(arrangement.axes), arrangement.shape
        self.arrays: dict[str, tuple] = {}

    def put(self, name, more, indices, values) -> None:
        """Write values at the outer product of indices; ``more`` are further axes of the array."""
        dims = (*self.names, *more)
        shape = (*self.shape, *more.values())
        if name in self.arrays:
            before = self.arrays[name][1]
            shape = tuple(map(max, zip(before.shape, shape, strict=True)))
        else:
            before = np.zeros([0] * len(shape), np.float32)
        if before.shape != shape:
            # float64 holds all 32-bit integers, and NaN.
            grown = np.full(shape, np.nan, np.float32 if values.dtype == np.float32 else np.float64)
            grown[tuple(map(slice, before.shape))] = before
            before = grown
        before[np.ix_(*indices)] = values
        self.arrays[name] = dims, before


def _privacy(arrangement, played) -> dict:
    """Each learner's declared privacy, along all axes except the environment."""
    if not played:
        return {}
    names = [name for name in arrangement.axes if name != "environment"]
    shape = [len(arrangement.axes[name]) for name in names]
    declared = {name: np.full(shape, np.nan) for name in NUMBERS}
    declared |= {name: np.full(shape, "", object) for name in TEXTS}
    for program, _, _, about in played:
        axes = zip(arrangement.axes, arrangement.place(program), strict=True)
        place = np.ix_(*(index for name, index in axes if name != "environment"))
        alone = tuple(i for i, name in enumerate(arrangement.axes) if name == "environment")
        for name, values in declared.items():
            shaped = arrangement.shaped(program, about["privacy"][name])
            values[place] = shaped.squeeze(axis=alone)
    return {f"privacy_{name}": (names, values) for name, values in declared.items()}


def _planned(arrangement, played) -> dict:
    """The cells of all programs, if some have neither a trial nor declarations."""
    if not any(
        (np.isnan(result.about.get("privacy", {}).get("epsilon", np.nan))
         & np.isnan(result.arrays["regret"]).all(axis=(1, 2))).any()
        for result in played
    ):  # fmt: skip
        return {}
    planned = np.zeros(arrangement.shape, bool)
    for program, *_ in played:
        planned[np.ix_(*arrangement.place(program))] = True
    return {"planned": ([*arrangement.axes], planned)}


def _takes(arrangement, played) -> dict:
    """For each axis of the grid: whether a learner or its environment takes it.

    An axis of one value that all of them take is left out.
    """
    pairs = [name for name in ("learner", "environment") if name in arrangement.axes]
    shape = [len(arrangement.axes[name]) for name in pairs]
    taken = {name: np.zeros(shape, bool) for name in arrangement.axes if name not in pairs}
    taken |= {name: np.zeros(shape, bool) for name in arrangement.fixed
              if any(name not in program.at for program, *_ in played)}  # fmt: skip
    for program, *_ in played:
        place = np.ix_(*arrangement.place(program)[: len(pairs)])
        for name, takes in taken.items():
            takes[place] |= name in program.at
    return {f"takes_{name}": (pairs, takes) for name, takes in taken.items()}
