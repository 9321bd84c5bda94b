"""Divides the table of a sweep into blocks, and assembles their results.

A sweep fills a table of points x seeds. A block is a rectangle of this table that one compiled
program computes at once. :mod:`dpjax.engine.compute` computes blocks, and :func:`dpjax.sweep` joins
them.
"""

from collections.abc import Callable
from itertools import groupby, product
from operator import itemgetter
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from dpjax.core import Array, Privacy, PyTree
from dpjax.engine import programs
from dpjax.engine.compile import platform_of


class Block(NamedTuple):
    """A rectangle of the table: consecutive points, each with the same seeds."""

    point: int  # the first point; ``Plan.block`` has the number of points
    seeds: np.ndarray  # int32; seeds beyond the last are dropped, or kept to extend a store


class Plan(NamedTuple):
    """The computation of a sweep, and its division into blocks.

    All blocks have the same size. If the last points do not fill a block, the last point is
    repeated. If the last seeds do not fill a block, further seeds are added.
    """

    game: Callable
    play: Callable
    key: Array
    points: PyTree  # pytree of (P, ...) float32
    count: int  # type: ignore[assignment] # P; tuples have a method of that name
    seeds: int  # S
    rounds: np.ndarray  # (n,) int32, the checkpoints
    privacy: list[Privacy]  # declared at each point
    traced: programs.Traced
    chunk: int | None  # the largest number of trajectories at once; None if the caller gave none
    block: tuple[int, int]  # points and seeds in a block
    mesh: Mesh | None

    @property
    def corners(self) -> list[tuple[int, int]]:
        """The first point and seed of each block."""
        points, seeds = self.block
        return list(product(range(0, self.count, points), range(0, self.seeds, seeds)))

    def moved(self, places: np.ndarray) -> "Plan":
        """The plan with each point at another place; ``places`` (P,) is a permutation."""
        order = np.argsort(places)
        points = jax.tree.map(lambda leaf: leaf[order], self.points)
        return self._replace(points=points, privacy=[self.privacy[i] for i in order])

    def blocks(self, corners, together=1) -> list[Block]:
        """The blocks at these corners.

        Args:
          corners: first points and seeds, in the order of :attr:`corners`.
          together: the largest number of blocks that are joined into one, if their points are the
            same.
        """
        blocks = []
        for point, group in groupby(corners, key=itemgetter(0)):
            starts = [seed for _, seed in group]
            for i in range(0, len(starts), together):
                seeds = np.add.outer(starts[i : i + together], np.arange(self.block[1]))
                blocks.append(Block(point, seeds.ravel().astype(np.int32)))
        return blocks


def block_shape(count: int, seeds: int, chunk: int | None, mesh: Mesh | None) -> tuple[int, int]:
    """The points and seeds of each block of a sweep with ``count`` points.

    For an axis of length 1 the compiler makes a different program, and last bits of results may
    differ. So a block has at least two seeds and, if there are several points, at least two points.
    """
    platform, workers = platform_of(mesh), at_once(mesh)
    points = min(count, max(platform.chunk if chunk is None else chunk, 2))
    if chunk is None:
        size = shared_size(seeds, platform.chunk // points, workers, platform.seeds)
        return points, max(2, platform.fewest // points, size)
    return points, max(2, block_size(seeds, chunk // points, workers))


def shared_size(seeds: int, limit: int, workers: int, enough: int) -> int:
    """The default number of seeds of a block: a power of two, at most ``limit``.

    Sweeps with at least ``enough`` seeds for each worker, but fewer than 16 times ``enough`` in
    total, have blocks of ``enough`` seeds and so share one compiled program. With more seeds,
    blocks are larger, but the last blocks add at most an eighth of ``seeds`` superfluous seeds.

    Args:
      seeds: the total number of seeds.
      limit: the largest number of seeds in a block.
      workers: how many blocks are computed in parallel.
      enough: a block with at least this many seeds runs at nearly full speed.
    """
    share, limit = -(-seeds // workers), max(1, limit)
    if seeds < 16 * enough:
        return min(max(1, 2 * _power_of_two(share - 1)), enough, _power_of_two(limit))
    size = _power_of_two(min(share, limit))
    while -seeds % size > seeds // 8:
        size //= 2
    return size


def _power_of_two(most) -> int:
    """The largest power of two that is at most ``most``; 0 if that is 0."""
    return 1 << most.bit_length() >> 1


def block_size(seeds: int, limit: int, workers: int) -> int:
    """The number of seeds of a block: as many as fit, with the same number of blocks per worker.

    Args:
      seeds: the total number of seeds.
      limit: the largest number of seeds in a block.
      workers: how many blocks are computed in parallel.
    """
    blocks = -(-seeds // max(1, limit))
    blocks = min(-(-blocks // workers) * workers, seeds)
    return -(-seeds // blocks)


def at_once(mesh: Mesh | None) -> int:
    """How many blocks are computed in parallel."""
    return threads(mesh) if mesh is None else mesh.size


def threads(mesh: Mesh | None) -> int:
    """How many threads run programs. For a mesh, one thread starts them on all devices."""
    return platform_of(mesh).threads() if mesh is None else 1


def halved(size: tuple[int, int], count: int) -> tuple[int, int] | None:
    """The next smaller block size, for ``count`` points; None after the smallest."""
    points, seeds = size
    if seeds > 2:
        return points, -(-seeds // 2)
    # If there are several points, a block has at least two (see block_shape).
    return (max(2, -(-points // 2)), seeds) if points > min(count, 2) else None


def empty(points: int, seeds: int, block):
    """Uninitialized arrays with these numbers of points and seeds, otherwise as in ``block``."""
    return jax.tree.map(lambda leaf: np.empty((points, seeds, *leaf.shape[2:]), leaf.dtype), block)


def put(whole: PyTree, part: PyTree, point: int, seed: int) -> None:
    """Write a part to its place in the whole. Entries beyond the end of the whole are dropped.

    Args:
      whole: arrays with leading axes (points, seeds), changed in place.
      part: arrays with leading axes (points, seeds).
      point: first row of the part in the whole.
      seed: first column of the part in the whole.
    """
    for into, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        region = into[point : point + leaf.shape[0], seed : seed + leaf.shape[1]]
        region[...] = leaf[: region.shape[0], : region.shape[1]]
