"""Shows the progress of a sweep while it runs, and warns about its results."""

import sys
import time
import warnings
from contextlib import closing
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from dpjax.engine.compute import compute


def with_progress(plan, blocks, progress):
    """Computes blocks beside a progress bar, and warns of bad results at the end.

    Args:
      plan: a Plan.
      blocks: the blocks to compute.
      progress: whether to show the bar, in a terminal or a notebook.

    Yields:
      Each block, and its cells.
    """
    visible = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    bar = tqdm(
        total=len(blocks),
        unit="chunk",
        disable=not (progress and visible and jax.process_index() == 0),
        bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} chunks [{elapsed}<{remaining}{postfix}]",
    )
    begin, played, bad, clipped = time.perf_counter(), 0, [], np.full(plan.count, np.inf)
    try:
        with bar, closing(compute(plan, blocks)) as computed:
            for block, cells in computed:
                bad += _not_finite(plan, block, cells)
                _keep_least_clipped(clipped, block, cells)
                played += min(plan.block[0], plan.count - block.point) * len(block.seeds)
                yield block, cells
                rate = played * float(plan.rounds[-1]) / (time.perf_counter() - begin)
                bar.set_postfix_str(f"{rate:.3g} rounds x trials/s", refresh=False)
                bar.update()
    finally:
        _warn(plan, bad, clipped)


def _warn(plan, bad, clipped) -> None:
    """Warns of trajectories that are not finite, and of a point whose losses are out of range.

    Args:
      plan: a Plan.
      bad: (point, seed) of each trajectory that is not finite.
      clipped: (P,) the fewest losses that were clipped in a trajectory; inf where none are counted.
    """
    if bad:
        first = "; ".join(f"point {p}, seed {s}" for p, s in sorted(bad)[:3])
        warnings.warn(
            f"{len(bad)} trajectories hold NaN or infinity, and are kept: {first}"
            + ("; ..." if len(bad) > 3 else ""),
            RuntimeWarning,
            stacklevel=6,  # The line that called sweep, or ran a study.
        )
    horizon = int(plan.rounds[-1])
    found = np.flatnonzero((clipped >= 0.9 * horizon) & np.isfinite(clipped))
    if len(found):
        warnings.warn(
            f"point {found[0]}: losses lay outside the learner's range, and were clipped, at least "
            f"{clipped[found[0]]:.0f} times in {horizon} rounds with every seed; say what range "
            "they are in, over arms by combinators.rescale_losses(learner, low, high)",
            RuntimeWarning,
            stacklevel=6,
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
