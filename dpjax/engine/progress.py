"""The progress bar of a sweep, and warnings about its results."""

import sys
import threading
import time
import warnings
from contextlib import closing, nullcontext
from typing import Any, ClassVar

import jax
import numpy as np
from tqdm import tqdm

from dpjax.core import Arms, Policies
from dpjax.engine.compute import compute

# All times are in seconds. The time between two lines in a log, and from the start to the first.
_EVERY = 30.0
# If a block or a compilation takes longer than this, a line is written while it runs. A terminal is
# refreshed more often.
_SILENT, _REFRESH = 30.0, 1.0
# After this time without progress, its length is shown.
_WAITING = 5.0
# A Bar estimates the remaining time after _CERTAIN seconds of play. It announces an estimate of at
# least _LONG seconds.
_CERTAIN, _LONG = 5.0, 120.0


class Bar(tqdm):
    """A progress bar over rounds x trials. In the log of a job it writes a line every 30 seconds.

    It announces the remaining minutes once. The estimate ignores the time before the first block is
    done, since programs are compiled then.

    Args:
      total: the number of rounds x trials, or of other units.
      progress: whether to show anything. Of several processes, only the first one does.
      unit: the name of the units.
      stored: whether results are kept in a store.
    """

    in_logs: ClassVar[int] = 0  # how many bars write lines into a log now

    def __init__(
        self, total: float, progress: bool, unit: str = "rounds x trials", stored: bool = False
    ):
        self.quiet: threading.Event | None = None
        self.advanced = np.inf  # the time of the last update
        self.stored = stored
        self.watched = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
        self.first: tuple | None = None
        self.announced = False
        in_log = {} if self.watched else {"mininterval": _EVERY, "delay": _EVERY, "ncols": 0}
        super().__init__(
            total=total,
            unit=f" {unit}",
            unit_scale=unit == "rounds x trials",
            smoothing=0.0,
            miniters=1,
            disable=not (progress and jax.process_index() == 0),
            **in_log,
        )
        if not self.disable:
            self.advanced = self._time()
            Bar.in_logs += not self.watched
            self.quiet = threading.Event()
            threading.Thread(target=self._write_lines, args=[self.quiet], daemon=True).start()

    @property
    def format_dict(self):
        """The contents of the bar, with the seconds since the last progress if they are many."""
        contents, waiting = super().format_dict, self._time() - self.advanced
        if waiting >= _WAITING:
            words = contents["postfix"], f"{waiting:.0f} s since the last progress"
            contents["postfix"] = ", ".join(filter(None, words))
        return contents

    def _write_lines(self, quiet):
        """Show the bar after each period without a line, until the event is set."""
        period = _REFRESH if self.watched else _SILENT
        while not quiet.wait(max(0.0, self.last_print_t + period - self._time())):
            if self._time() - self.last_print_t >= period:
                self.last_print_t = self._time()
                self.refresh()

    def close(self):
        """End the bar."""
        if self.quiet is not None:
            Bar.in_logs -= not self.watched
            self.quiet.set()
            self.quiet = None
        super().close()

    def update(self, n=1):
        """Count rounds x trials that were played."""
        if self.disable:
            return False
        self.advanced = self._time()
        shown = super().update(n)
        now, played = time.perf_counter(), self.n - self.initial
        if self.first is None:
            self.first = now, played
        begin, before = self.first
        if now - begin >= _CERTAIN and not self.announced:
            left = (self.total - self.n) * (now - begin) / (played - before)
            self.announced = left >= _LONG
            if self.announced:
                more = (
                    " With a store, a stopped run can be resumed and several processes can share "
                    "the work (Study.run)."
                    if self.unit_scale and not self.stored
                    else ""
                )
                self.write(
                    f"dpjax: about {left / 60.0:.0f} minutes remain for {self.total - self.n:.2g}"
                    f"{self.unit}.{more}",
                    file=self.fp,
                )
        return shown

    def say(self, words):
        """Show words after the bar. In a log they are in the next line."""
        self.set_postfix_str(words, refresh=self.watched)

    def skip_to(self, n):
        """Count the rounds x trials up to ``n``, which need not be played."""
        if not self.disable:
            self.initial += n - self.n
            self.n = n

    def display(self, msg=None, pos=None):
        """Show the bar, or write a line to the log."""
        if self.watched:
            return super().display(msg, pos)
        if msg is None:
            print(self, file=self.fp, flush=True)
        return True


def with_progress(plan, blocks, progress, stored=False):
    """Compute blocks with a progress bar, and warn of bad results at the end.

    Args:
      plan: a Plan.
      blocks: the blocks to compute.
      progress: whether to show a bar; or a :class:`Bar`, which also counts these blocks.
      stored: whether results are kept in a store.

    Yields:
      Each block and its cells.
    """
    horizon, bad, clipped = int(plan.rounds[-1]), [], np.full(plan.count, np.inf)

    def played(block):
        points = min(plan.block[0], plan.count - block.point)
        return horizon * points * np.count_nonzero(block.seeds < plan.seeds)

    bar = progress
    if not isinstance(bar, Bar):
        bar = Bar(sum(map(played, blocks)), progress, stored=stored)
    try:
        with nullcontext() if bar is progress else bar, closing(compute(plan, blocks)) as computed:
            for block, cells in computed:
                bad += _not_finite(plan, block, cells)
                _keep_least_clipped(clipped, block, cells)
                yield block, cells
                bar.update(played(block))
    finally:
        warn_of(plan.game, plan.points, horizon, bad, clipped)


def warn_of(game, points, horizon, bad, clipped, stacklevel=6, advice="") -> None:
    """Warn of trajectories that are not finite, and of a point with feedback out of range.

    Args:
      game, points: as in :func:`dpjax.sweep`.
      horizon: rounds of a trajectory.
      bad: (point, seed) of each trajectory that is not finite.
      clipped: (P,) the least number of clipped rounds of a trajectory; inf if not counted.
      stacklevel: of the line that called sweep, or ran a study.
      advice: how to keep losses in range; by default that for a learner of this kind.
    """
    if bad:
        first = "; ".join(f"point {p}, seed {s}" for p, s in sorted(bad)[:3])
        warnings.warn(
            f"{len(bad)} trajectories contain NaN or infinity and are kept: {first}"
            + ("; ..." if len(bad) > 3 else ""),
            RuntimeWarning,
            stacklevel=stacklevel,
        )
    found = np.flatnonzero((clipped >= 0.9 * horizon) & np.isfinite(clipped))
    if len(found):
        i = found[0]
        own = jax.tree.map(lambda leaf: leaf[i], points)
        sizes = own if isinstance(own, dict) else {}
        values = [f"{name} = {value:.6g}" for name, value in sizes.items() if np.ndim(value) == 0]
        words, usual = _advice(game(own)[0])
        warnings.warn(
            f"{', '.join([game.__name__, f'point {i}', *values])}: {words} were outside the "
            f"learner's range and clipped, at least {clipped[i]:.0f} times in {horizon} rounds "
            f"with every seed. {advice or usual}",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def _advice(learner) -> tuple[str, str]:
    """The data that a learner clips, and how to keep them within its range."""
    declared = learner.privacy
    low, high = declared.loss_range
    scale = f"Scale the environment's losses into [{low:g}, {high:g}]"
    if isinstance(learner.action_set, Policies):
        return "losses or features", (
            f"{scale}, and its features to a length of at most the learner's feature_bound, "
            "1 by default."
        )
    rescales = isinstance(learner.action_set, Arms) and declared.neighbours == "replace"
    if rescales and (low, high) == (0.0, 1.0):
        return "losses", "Declare their range: combinators.rescale_losses(learner, low, high)."
    return "losses", f"{scale}."


def _keep_least_clipped(least, block, cells) -> None:
    """Lower ``least`` to the least number of clipped losses in a trajectory of each point."""
    clipped: Any = cells[-1]
    if np.ndim(clipped) == 2:  # otherwise the play function does not count them
        here = least[block.point : block.point + len(clipped)]
        np.minimum(here, clipped[: len(here)].min(axis=1), out=here)


def _not_finite(plan, block, cells) -> list[tuple[int, int]]:
    """(point, seed) of each trajectory of a block that contains NaN or infinity."""
    finite = [
        np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
        for leaf in jax.tree.leaves(cells)
        if leaf.dtype.kind == "f"
    ]
    bad: Any = np.argwhere(~np.logical_and.reduce(finite)) if finite else []
    named = [(block.point + int(i), int(block.seeds[j])) for i, j in bad]
    return [(point, seed) for point, seed in named if point < plan.count and seed < plan.seeds]
