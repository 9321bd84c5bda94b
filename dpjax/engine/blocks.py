"""Divides the table of a sweep into blocks, and puts their results in their places.

A sweep fills a table of points x seeds. A block is a rectangle of it that one compiled program
computes at once. :mod:`dpjax.engine.compute` computes blocks, and :func:`dpjax.sweep` joins them.
"""

from itertools import groupby, product
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from dpjax.core import Privacy
from dpjax.engine import programs
from dpjax.engine.compile import platform_of


class Block(NamedTuple):
    """A rectangle of the table: successive points, each of them with all of these seeds."""

    point: int  # the first point; the plan says how many points a block has
    seeds: np.ndarray  # int32; those past the last seed are dropped, or kept for a store to grow


class Plan(NamedTuple):
    """What a sweep computes, and in which blocks.

    All blocks have the same size. Where the last points do not fill a block, the last one of them
    is repeated. Where the last seeds do not, the seeds go on.
    """

    game: Any
    play: Any
    key: Any
    points: Any  # pytree of (P, ...) float32
    count: int  # type: ignore[assignment] # P; tuples have a method of that name
    seeds: int  # S
    rounds: np.ndarray  # (n,) int32, the checkpoints
    privacy: list[Privacy]  # declared at each point
    traced: programs.Traced
    chunk: int | None  # the most trajectories that are computed at once, if the caller says so
    block: tuple[int, int]  # points and seeds in a block
    mesh: Mesh | None

    @property
    def corners(self) -> list[tuple[int, int]]:
        """The first point and seed of each block."""
        points, seeds = self.block
        return list(product(range(0, self.count, points), range(0, self.seeds, seeds)))

    def blocks(self, corners, together=1) -> list[Block]:
        """The blocks at these corners.

        Args:
          corners: first points and seeds, as :attr:`corners` orders them.
          together: how many blocks of the same points are joined into one, at most.
        """
        found = []
        for point, group in groupby(corners, key=itemgetter(0)):
            starts = [seed for _, seed in group]
            for i in range(0, len(starts), together):
                seeds = np.add.outer(starts[i : i + together], np.arange(self.block[1]))
                found.append(Block(point, seeds.ravel().astype(np.int32)))
        return found


def block_shape(count, seeds, chunk, mesh) -> tuple[int, int]:
    """The points and seeds of each block of a sweep with ``count`` points.

    The compiler makes another program for an axis of length 1, whose last bits may differ. So a
    block has at least two seeds and, if there are several points, at least two of these.
    """
    here, workers = platform_of(mesh), at_once(mesh)
    points = min(count, max(here.chunk if chunk is None else chunk, 2))
    if chunk is None:
        return points, max(2, shared_size(seeds, here.chunk // points, workers, here.seeds))
    return points, max(2, block_size(seeds, chunk // points, workers))


def shared_size(seeds, limit, workers, enough) -> int:
    """How many seeds a block has if the caller does not say: a power of two, at most ``limit``.

    All numbers of seeds from ``enough`` for each worker up to 16 times ``enough`` have blocks of
    ``enough`` seeds, and so one compiled program. Of more seeds a block has as many as leave at
    most an eighth of them to be computed in vain.

    Args:
      seeds: how many seeds there are in all.
      limit: how many seeds a block may have.
      workers: how many blocks are computed at the same time.
      enough: how many seeds of a block are computed at nearly full speed.
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


def block_size(seeds, limit, workers) -> int:
    """How many seeds a block has: as many as fit, where every worker has as many blocks.

    Args:
      seeds: how many seeds there are in all.
      limit: how many seeds a block may have.
      workers: how many blocks are computed at the same time.
    """
    blocks = -(-seeds // max(1, limit))
    blocks = min(-(-blocks // workers) * workers, seeds)
    return -(-seeds // blocks)


def at_once(mesh) -> int:
    """How many blocks are computed at the same time."""
    return threads(mesh) if mesh is None else mesh.size


def threads(mesh) -> int:
    """How many threads run programs. For a mesh it is one, which starts them on all devices."""
    return platform_of(mesh).threads() if mesh is None else 1


def halved(size, count) -> tuple[int, int] | None:
    """The next smaller size of a block among ``count`` points; None after the smallest."""
    points, seeds = size
    if seeds > 2:
        return points, -(-seeds // 2)
    # A block has at least two of several points (see block_shape).
    return (max(2, -(-points // 2)), seeds) if points > min(count, 2) else None


def empty(points, seeds, block):
    """Uninitialized arrays like those of a block, for this number of points and seeds."""
    return jax.tree.map(lambda leaf: np.empty((points, seeds, *leaf.shape[2:]), leaf.dtype), block)


def put(whole, part, point, seed) -> None:
    """Writes a part to its place in the whole, and drops what lies beyond the whole.

    Args:
      whole: arrays with leading axes (points, seeds), changed in place.
      part: arrays with leading axes (points, seeds).
      point: row of the whole at which the part begins.
      seed: column of the whole at which the part begins.
    """
    for into, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        region = into[point : point + leaf.shape[0], seed : seed + leaf.shape[1]]
        region[...] = leaf[: region.shape[0], : region.shape[1]]
