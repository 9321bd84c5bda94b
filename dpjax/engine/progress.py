"""Shows the progress of a sweep while it runs, and warns about its results."""

import sys
import threading
import time
import warnings
from contextlib import closing, nullcontext
from typing import Any, ClassVar

import jax
import numpy as np
from tqdm import tqdm

from dpjax.engine.compute import compute

# All in seconds. Lines in a log are so far apart, and so is the first one from the start.
_EVERY = 30.0
# If none was written for so long, since a block or a compilation takes longer, one is.
_SILENT = 30.0
# After so much play a Bar knows the time that remains. It announces a time of at least _LONG.
_CERTAIN, _LONG = 5.0, 120.0


class Bar(tqdm):
    """A progress bar over rounds x trials; in the log of a job, a line each 30 seconds.

    It says once, in a sentence, that minutes remain. Time before the first block is done is not
    counted there, since programs are compiled in it.

    Args:
      total: how many rounds x trials, or other units, there are.
      progress: whether to show anything. Of several processes the first one does.
      unit: what is counted.
    """

    in_logs: ClassVar[int] = 0  # how many bars write lines into a log now

    def __init__(self, total: float, progress: bool, unit: str = "rounds x trials"):
        self.quiet: threading.Event | None = None
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
        if not self.watched and not self.disable:
            Bar.in_logs += 1
            self.quiet = threading.Event()
            threading.Thread(target=self._write_lines, args=[self.quiet], daemon=True).start()

    def _write_lines(self, quiet):
        """Writes a line whenever none was written for some time, until the event is set."""
        while not quiet.wait(max(0.0, self.last_print_t + _SILENT - self._time())):
            if self._time() - self.last_print_t >= _SILENT:
                self.last_print_t = self._time()
                print(self, file=self.fp, flush=True)

    def close(self):
        """Ends the bar."""
        if self.quiet is not None:
            Bar.in_logs -= 1
            self.quiet.set()
            self.quiet = None
        super().close()

    def update(self, n=1):
        """Counts rounds x trials that were played."""
        shown = super().update(n)
        if self.disable:
            return shown
        now, played = time.perf_counter(), self.n - self.initial
        if self.first is None:
            self.first = now, played
        begin, before = self.first
        if now - begin >= _CERTAIN and not self.announced:
            left = (self.total - self.n) * (now - begin) / (played - before)
            self.announced = left >= _LONG
            if self.announced:
                more = (
                    " With a store a run that is stopped can go on, and several processes "
                    "can share the work (Study.run)."
                    if self.unit_scale
                    else ""
                )
                self.write(
                    f"dpjax: about {left / 60.0:.0f} minutes remain for {self.total - self.n:.2g}"
                    f"{self.unit}.{more}",
                    file=self.fp,
                )
        return shown

    def skip_to(self, n):
        """Counts rounds x trials until ``n`` that need not be played."""
        if not self.disable:
            self.initial += n - self.n
            self.n = n

    def display(self, msg=None, pos=None):
        """Shows the bar, or writes a line as of now."""
        if self.watched:
            return super().display(msg, pos)
        if msg is None:
            print(self, file=self.fp, flush=True)
        return True


def with_progress(plan, blocks, progress):
    """Computes blocks beside a progress bar, and warns of bad results at the end.

    Args:
      plan: a Plan.
      blocks: the blocks to compute.
      progress: whether to show a bar of its own; or a :class:`Bar`, which counts these blocks too.

    Yields:
      Each block, and its cells.
    """
    horizon, bad, clipped = int(plan.rounds[-1]), [], np.full(plan.count, np.inf)

    def played(block):
        points = min(plan.block[0], plan.count - block.point)
        return horizon * points * np.count_nonzero(block.seeds < plan.seeds)

    bar = progress if isinstance(progress, Bar) else Bar(sum(map(played, blocks)), progress)
    try:
        with nullcontext() if bar is progress else bar, closing(compute(plan, blocks)) as computed:
            for block, cells in computed:
                bad += _not_finite(plan, block, cells)
                _keep_least_clipped(clipped, block, cells)
                yield block, cells
                bar.update(played(block))
    finally:
        warn_of(horizon, bad, clipped)


def warn_of(horizon, bad, clipped, stacklevel=6) -> None:
    """Warns of trajectories that are not finite, and of a point whose losses are out of range.

    Args:
      horizon: rounds of a trajectory.
      bad: (point, seed) of each trajectory that is not finite.
      clipped: (P,) the fewest losses that were clipped in a trajectory; inf where none are counted.
      stacklevel: of the line that called sweep, or ran a study.
    """
    if bad:
        first = "; ".join(f"point {p}, seed {s}" for p, s in sorted(bad)[:3])
        warnings.warn(
            f"{len(bad)} trajectories hold NaN or infinity, and are kept: {first}"
            + ("; ..." if len(bad) > 3 else ""),
            RuntimeWarning,
            stacklevel=stacklevel,
        )
    found = np.flatnonzero((clipped >= 0.9 * horizon) & np.isfinite(clipped))
    if len(found):
        warnings.warn(
            f"point {found[0]}: losses lay outside the learner's range, and were clipped, at least "
            f"{clipped[found[0]]:.0f} times in {horizon} rounds with every seed; say what range "
            "they are in, over arms by combinators.rescale_losses(learner, low, high)",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


def _keep_least_clipped(least, block, cells) -> None:
    """Lowers ``least`` to the fewest losses that were clipped in a trajectory of each point."""
    clipped: Any = cells[-1]
    if np.ndim(clipped) == 2:  # else it was played by a function that counts none
        here = least[block.point : block.point + len(clipped)]
        np.minimum(here, clipped[: len(here)].min(axis=1), out=here)


def _not_finite(plan, block, cells) -> list[tuple[int, int]]:
    """(point, seed) of each trajectory of a block that holds NaN or infinity."""
    finite = [
        np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
        for leaf in jax.tree.leaves(cells)
        if leaf.dtype.kind == "f"
    ]
    bad: Any = np.argwhere(~np.logical_and.reduce(finite)) if finite else []
    named = [(block.point + int(i), int(block.seeds[j])) for i, j in bad]
    return [(point, seed) for point, seed in named if point < plan.count and seed < plan.seeds]
