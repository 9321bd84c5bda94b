"""Tuning by successive halving: settings that do badly in a few trials are dropped."""

from typing import TYPE_CHECKING

import numpy as np
import xarray

from dpjax.report import choice
from dpjax.study.labelled import labelled, layout

if TYPE_CHECKING:
    from dpjax.study.study import Study

_KEPT = 4  # one in this many settings is kept after each stage
_FEWEST = 4  # trials of a setting in the first stage


def tune(
    study: "Study", over: list[str], confidence: float = 0.95, progress: bool = True
) -> xarray.Dataset:
    """Choose the best setting as :func:`dpjax.report.choice.tune` does, without playing all trials.

    In each stage the remaining settings are played with four times as many trials as before, and
    the best quarter is kept, separately for each cell of the other axes. These stages use only the
    first half of the trials. The settings that remain are played with all trials. The chosen
    setting is reported on the second half, which no stage has used.

    Args:
      study: a Study.
      over: the axes of the settings, such as ``["mixing"]``.
      confidence: level of each cell's interval.
      progress: as of :meth:`dpjax.study.Study.run`.

    Returns:
      As :func:`dpjax.report.choice.tune`, with the attribute ``stages``. Dropped settings are no
      candidates.

    Raises:
      ValueError: the study has no such axis, or fewer than four trials.
    """
    arrangement, programs = layout(study), study.programs
    names = list(arrangement.axes)
    for name in over:
        if name not in names:
            raise ValueError(f"over: {name} is not an axis of settings: {', '.join(names)}")
    counts = [program.size for program in programs]
    points = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])  # of each program
    point_of = np.full(arrangement.shape, -1)  # the point that fills each cell
    for program, indices in zip(programs, points, strict=True):
        point_of[np.ix_(*arrangement.place(program))] = arrangement.shaped(program, indices)
    axes = [names.index(name) for name in over]
    settings = int(np.prod([arrangement.shape[axis] for axis in axes]))
    cells = np.moveaxis(point_of, axes, range(-len(axes), 0)).reshape(-1, settings)
    alive, left, stages = np.ones(sum(counts), bool), settings, []

    def play(trials, checkpoints) -> list:
        """The alive points of each program that has some."""
        stages.append(f"{left} settings with {trials} trials")
        return [
            study.play_some(program, alive[indices], trials, checkpoints, progress)
            for program, indices in zip(programs, points, strict=True)
            if alive[indices].any()
        ]

    for trials, kept in _stages(settings, study.trials // 2):
        means = np.full(sum(counts) + 1, np.nan)  # the last is for cells that no point fills
        left_points = [indices for indices in points if alive[indices].any()]
        for indices, played in zip(left_points, play(trials, 1), strict=True):
            means[indices] = played.arrays["regret"][..., -1].mean(axis=1)
        order = np.argsort(means[cells], axis=1)[:, :kept]  # NaN comes last
        best = np.take_along_axis(cells, order, axis=1)
        alive[:] = False
        alive[best[~np.isnan(means[best])]] = True
        left = kept
    data = labelled(arrangement, study.trials, play(study.trials, study.checkpoints))
    data = data.drop_vars("planned", errors="ignore")  # dropped settings did not fail
    tuned = choice.tune(data["final_regret"], *over, confidence=confidence)
    return tuned.assign_attrs(stages="; ".join(stages))


def _stages(settings, half) -> list[tuple[int, int]]:
    """(trials, settings to keep) of each stage except the last."""
    stages, trials, left = [], _FEWEST, settings
    while trials < half and left > _KEPT:
        left = -(-left // _KEPT)
        stages.append((trials, left))
        trials *= _KEPT
    return stages
