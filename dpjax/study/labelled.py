"""The data of a study: results of sweeps as one ``xarray.Dataset`` with labelled axes."""

from typing import Any, NamedTuple

import jax
import numpy as np
import xarray

from dpjax.core import Result, leaf_names
from dpjax.report import accessor as accessor  # which registers Dataset.dpjax

_TEXTS = ("neighbours", "unit", "model", "released", "calibration", "accountant")
_NUMBERS = ("epsilon", "delta", "rho", "paper_epsilon")


class Played(NamedTuple):
    """A program of a study, and what its sweep returned."""

    program: Any
    result: Result


class Layout(NamedTuple):
    """The cells of a study."""

    axes: dict[str, np.ndarray]  # learner, environment and those of the grid -> labels
    fixed: dict[str, Any]  # the axes of one value, which need no dimension -> this value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(labels) for labels in self.axes.values())

    def place(self, program) -> list[np.ndarray]:
        """Which values of each axis a program fills: all of those of an axis that it ignores."""
        found = []
        for name, labels in self.axes.items():
            if name in ("learner", "environment"):
                own = np.array([getattr(program, name)], object)
            elif name in program.fixed:
                own = program.part.axes[name].labels[[program.fixed[name]]]
            elif name in program.swept:
                own = program.part.axes[name].labels
            else:
                own = labels
            found.append(np.array([np.flatnonzero(labels == label)[0] for label in own]))
        return found

    def shaped(self, program, values) -> np.ndarray:
        """The values of a program's points, (P, ...), with an axis for each of the layout."""
        sizes = dict(zip(program.swept, program.shape, strict=True))
        values = np.asarray(values)
        rest = values.shape[1:]
        values = values.reshape((*sizes.values(), *rest))
        order = [program.swept.index(name) for name in self.axes if name in program.swept]
        values = np.moveaxis(values, order, range(len(order)))
        return values.reshape((*(sizes.get(name, 1) for name in self.axes), *rest))


def layout(study) -> Layout:
    """The axes of a study, and the labels along them.

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
    axes = {name: _distinct(name, found) for name, found in labels.items()}
    alone = {name: axes.pop(name)[0] for name in single if single[name] and len(axes[name]) == 1}
    made = Layout(axes, {name: label for name, label in alone.items() if label != ""})
    filled = np.zeros(made.shape, bool)
    for program in study.programs:
        cells = np.ix_(*made.place(program))
        if filled[cells].any():
            raise ValueError(f"the studies have a cell in common: {program}")
        filled[cells] = True
    return made


def _distinct(name, found) -> np.ndarray:
    """The different labels, numbers in increasing order and words as they come."""
    kinds = {isinstance(label, str) for label in found}
    if len(kinds) > 1:
        raise ValueError(f"grid: {name} holds words in one study and numbers in the other")
    different = list(dict.fromkeys(found))
    return np.array(different, object) if kinds == {True} else np.array(sorted(different))


def labelled(study, played) -> xarray.Dataset:
    """The Dataset of a study that was played.

    Args:
      study: a Study.
      played: a Played for each of its programs.
    """
    made = layout(study)
    names = list(made.axes)
    rounds = np.unique(np.concatenate([each.result.rounds for each in played]))
    table = _Table(made)
    for program, result in played:
        place = made.place(program)
        at = np.searchsorted(rounds, result.rounds)
        regret = made.shaped(program, result.regret)
        lengths = {"trial": study.trials, "round": len(rounds)}
        table.put("regret", lengths, [*place, np.arange(study.trials), at], regret)
        values = {"final_regret": result.regret[..., -1]}
        for prefix in ("tally", "report", "clipped"):
            tree = getattr(result, prefix)
            values |= dict(zip(leaf_names(prefix, tree), jax.tree.leaves(tree), strict=True))
        best = program.best_arms() if "report_recommendation" in values else None
        if best is not None:
            arms = np.asarray(values["report_recommendation"])
            values["correct"] = np.take_along_axis(best, arms, axis=1)
            table.put("best_arms", {}, place, made.shaped(program, best.sum(axis=1)))
        for name, leaf in values.items():
            leaf = made.shaped(program, leaf)
            # Environments may tally numbers or vectors, under one name.
            rank = leaf.ndim - len(names) - 1
            if name in table.arrays and len(table.arrays[name][0]) != len(names) + 1 + rank:
                name = f"{name}_{rank}d"
            more = {f"{name}_{i}": n for i, n in enumerate(leaf.shape[len(names) + 1 :])}
            indices = [*place, *map(np.arange, leaf.shape[len(names) :])]
            table.put(name, {"trial": study.trials, **more}, indices, leaf)
    coordinates = {
        **{name: ((name,), labels) for name, labels in made.axes.items()},
        **made.fixed,
        "trial": np.arange(study.trials),
        "round": rounds,
        **_privacy(study, made),
        **_takes(study, made),
    }
    return xarray.Dataset(table.arrays, coordinates)


class _Table:
    """Arrays that are NaN where nobody has put a value yet."""

    def __init__(self, made):
        self.names, self.shape = tuple(made.axes), made.shape
        self.arrays: dict[str, tuple] = {}

    def put(self, name, more, indices, values) -> None:
        """Puts values at the outer product of indices, in an array with the axes ``more`` too."""
        dims = (*self.names, *more)
        shape = (*self.shape, *more.values())
        if name in self.arrays:
            before = self.arrays[name][1]
            shape = tuple(map(max, zip(before.shape, shape, strict=True)))
        else:
            before = np.zeros([0] * len(shape), np.float32)
        if before.shape != shape:
            # float64 holds all whole numbers of 32 bits, and NaN beside them.
            grown = np.full(shape, np.nan, np.float32 if values.dtype == np.float32 else np.float64)
            grown[tuple(map(slice, before.shape))] = before
            before = grown
        before[np.ix_(*indices)] = values
        self.arrays[name] = dims, before


def _privacy(study, made) -> dict:
    """What each learner declares, along the axes that any learner takes."""
    found: dict[str, np.ndarray] = {}
    names = [name for name in made.axes if name != "environment"]
    shape = [len(made.axes[name]) for name in names]
    for name in _NUMBERS:
        found[name] = np.full(shape, np.nan)
    for name in _TEXTS:
        found[name] = np.full(shape, "", object)
    for program in study.programs:
        place = [p for p, name in zip(made.place(program), made.axes, strict=True)
                 if name != "environment"]  # fmt: skip
        declared = program.declared()
        for name in (*_NUMBERS, *_TEXTS):
            values = np.array([getattr(each, name) for each in declared])
            shaped = made.shaped(program, values)
            shaped = shaped.squeeze(axis=list(made.axes).index("environment"))
            found[name][np.ix_(*place)] = shaped
    return {f"privacy_{name}": (names, values) for name, values in found.items()}


def _takes(study, made) -> dict:
    """Whether a learner or its environment takes an axis, for each axis of the grid."""
    pairs = ("learner", "environment")
    shape = [len(made.axes[name]) for name in pairs]
    found = {name: np.zeros(shape, bool) for name in made.axes if name not in pairs}
    for program in study.programs:
        place = np.ix_(*made.place(program)[:2])
        for name, takes in found.items():
            takes[place] |= name in program.fixed or name in program.swept
    return {f"takes_{name}": (pairs, takes) for name, takes in found.items()}
