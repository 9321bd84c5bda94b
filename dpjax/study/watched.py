"""Computes the blocks of a sweep with a progress bar, and warns of bad results."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any

import jax
import numpy as np

from dpjax.core import Policies, PyTree
from dpjax.engine.blocks import Block, Plan
from dpjax.engine.compute import compute
from dpjax.engine.progress import Bar


def with_progress(
    plan: Plan, blocks: list[Block], progress: bool | Bar
) -> Iterator[tuple[Block, tuple]]:
    """Compute blocks with a progress bar, and warn of bad results at the end.

    Args:
      plan: a Plan.
      blocks: the blocks to compute.
      progress: whether to show a bar; or a :class:`Bar`, which also counts these blocks.

    Yields:
      Each block and its cells.
    """
    horizon, bad, clipped = int(plan.rounds[-1]), [], np.full(plan.count, np.inf)

    def played(block):
        points = min(plan.block[0], plan.count - block.point)
        return horizon * points * np.count_nonzero(block.seeds < plan.seeds)

    bar = progress
    if not isinstance(bar, Bar):
        bar = Bar(sum(map(played, blocks)), progress)
    try:
        with nullcontext() if bar is progress else bar, closing(compute(plan, blocks)) as computed:
            for block, cells in computed:
                bad += _not_finite(plan, block, cells)
                counts: Any = cells[-1]
                if np.ndim(counts) == 2:  # otherwise the play function does not count them
                    part = clipped[block.point : block.point + len(counts)]
                    np.minimum(part, counts[: len(part)].min(axis=1), out=part)
                yield block, cells
                bar.update(played(block))
    finally:
        warn_of(plan.game, plan.points, horizon, bad, clipped)


def warn_of(
    game: Callable,
    points: PyTree,
    horizon: int,
    bad: list,
    clipped: np.ndarray,
    stacklevel: int = 6,
) -> None:
    """Warn of trajectories that are not finite, and of a point with feedback out of range.

    Args:
      game, points: as in :func:`dpjax.sweep`.
      horizon: rounds of a trajectory.
      bad: (point, seed) of each trajectory that is not finite.
      clipped: (P,) the least number of clipped rounds of a trajectory; inf if not counted.
      stacklevel: of the line that called sweep, or ran a study.
    """
    if bad:
        first = "; ".join(f"point {p}, seed {s}" for p, s in sorted(bad)[:3])
        warnings.warn(
            f"{len(bad)} trajectories contain NaN or infinity and are kept: {first}"
            + ("; ..." if len(bad) > 3 else ""),
            RuntimeWarning,
            stacklevel=stacklevel,
        )
    places = np.flatnonzero((clipped >= 0.9 * horizon) & np.isfinite(clipped))
    if len(places):
        i = places[0]
        point = jax.tree.map(lambda leaf: leaf[i], points)
        sizes = point if isinstance(point, dict) else {}
        values = [f"{name} = {value:.6g}" for name, value in sizes.items() if np.ndim(value) == 0]
        learner = game(point)[0]
        low, high = learner.privacy.loss_range
        words = "losses or features" if isinstance(learner.action_set, Policies) else "losses"
        warnings.warn(
            f"{', '.join([game.__name__, f'point {i}', *values])}: {words} were outside the "
            f"learner's range and clipped, at least {clipped[i]:.0f} times in {horizon} rounds "
            f"with every seed. Scale losses into [{low:g}, {high:g}], or declare their range by "
            "combinators.rescale_losses or from_python(..., loss_range=(low, high)).",
            RuntimeWarning,
            stacklevel=stacklevel,
        )


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
