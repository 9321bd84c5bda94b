"""Tuning by successive halving: settings that do badly in a few trials are dropped."""

import numpy as np
import xarray

from dpjax.report import choice
from dpjax.study.labelled import labelled, layout

_KEPT = 4  # one in this many settings is kept after each stage
_FEWEST = 4  # trials of a setting in the first stage


def tune(study, over, confidence=0.95, progress=True) -> xarray.Dataset:
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
    made, programs = layout(study), study.programs
    names = list(made.axes)
    for name in over:
        if name not in names:
            raise ValueError(f"over: {name} is not an axis of settings: {', '.join(names)}")
    counts = [program.size for program in programs]
    points = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])  # of each program
    point_of = np.full(made.shape, -1)  # the point that fills each cell
    for program, own in zip(programs, points, strict=True):
        point_of[np.ix_(*made.place(program))] = made.shaped(program, own)
    axes = [names.index(name) for name in over]
    settings = int(np.prod([made.shape[axis] for axis in axes]))
    cells = np.moveaxis(point_of, axes, range(-len(axes), 0)).reshape(-1, settings)
    alive, left, stages = np.ones(sum(counts), bool), settings, []

    def play(trials, checkpoints) -> list:
        """The alive points of each program that has some."""
        stages.append(f"{left} settings with {trials} trials")
        return [
            study.play_some(program, alive[own], trials, checkpoints, progress)
            for program, own in zip(programs, points, strict=True)
            if alive[own].any()
        ]

    for trials, kept in _stages(settings, study.trials // 2):
        means = np.full(sum(counts) + 1, np.nan)  # the last is for cells that no point fills
        left_points = [own for own in points if alive[own].any()]
        for own, played in zip(left_points, play(trials, 1), strict=True):
            means[own] = played.arrays["regret"][..., -1].mean(axis=1)
        order = np.argsort(means[cells], axis=1)[:, :kept]  # NaN comes last
        best = np.take_along_axis(cells, order, axis=1)
        alive[:] = False
        alive[best[~np.isnan(means[best])]] = True
        left = kept
    data = labelled(made, study.trials, play(study.trials, study.checkpoints))
    data = data.drop_vars("planned", errors="ignore")  # dropped settings did not fail
    found = choice.tune(data["final_regret"], *over, confidence=confidence)
    return found.assign_attrs(stages="; ".join(stages))


def _stages(settings, half) -> list[tuple[int, int]]:
    """(trials, settings to keep) of each stage except the last."""
    found, trials, left = [], _FEWEST, settings
    while trials < half and left > _KEPT:
        left = -(-left // _KEPT)
        found.append((trials, left))
        trials *= _KEPT
    return found
