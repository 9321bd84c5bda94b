"""Writes, reads and checks the blocks of a store. :mod:`dpjax.store` describes their format."""

import hashlib
import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import numpy as np

from dpjax.core import Numbers, PyTree, Result
from dpjax.store import layout as layouts
from dpjax.store.layout import Layout
from dpjax.store.objects import Damaged, Files, decode, encode, together, warn


class Store(NamedTuple):
    """An open store, for its first ``points`` points and ``seeds`` seeds."""

    files: Files
    layout: Layout
    points: int  # the number of requested points
    seeds: int  # the number of requested seeds

    @property
    def block(self) -> tuple[int, int]:
        """Points and seeds of a block."""
        return self.layout.block

    def missing(self, checked: bool = True) -> list[tuple[int, int]]:
        """First point and first seed of each block that is not done or is damaged.

        It warns of each damaged block. If ``checked`` is False, it reads only which trials are
        done, and not their arrays.
        """
        keys = set(self.files.keys())
        corners = self._corners()
        missing = []
        states = together(lambda corner: self._is_done(corner, keys, checked), corners)
        for corner, done in zip(corners, states, strict=True):
            if isinstance(done, Damaged):
                warn(f"{done}; its block is computed again")
            if done is not True:
                missing.append(corner)
        return missing

    def write(self, point: int, seed: int, cells: tuple) -> None:
        """Write all arrays of a block, ``done`` last.

        Args:
          point: the first point of the block.
          seed: the first seed of the block.
          cells: a Result's fields except rounds, with leading axes (points, seeds) of a block.
            Points beyond the last requested point are dropped. Seeds beyond the last requested seed
            are kept, for later extensions.

        Raises:
          OSError: an object cannot be written; the message names it.
        """
        rows = min(self.block[0], self.points - point)
        leaves = [np.asarray(leaf)[:rows] for leaf in jax.tree.leaves(cells)]
        leaves += [self._checksums(point, seed, leaves), np.ones((rows, self.block[1]), bool)]
        arrays = self.layout.arrays.items()
        for (name, (tail, dtype)), leaf in zip(arrays, leaves, strict=True):
            block = np.full((*self.block, *tail), layouts.fill(dtype), dtype)
            block[:rows] = leaf
            self.files.write(self._key(name, point, seed), encode(block))

    def result(self, structure: PyTree = None) -> Result:
        """Read all requested cells.

        Args:
          structure: pytree like a Result without rounds. If it is given, all cells must be done. By
            default a field with several arrays is a named tuple. Unfinished cells are then NaN or a
            fill value, with a warning.

        Raises:
          ValueError: an object is damaged, or a cell is not done.
        """
        arrays, done = self.cells()
        missing = np.argwhere(~done)
        if structure is not None:
            if len(missing):
                point, seed = missing[0]
                raise ValueError(
                    f"store: seed {seed} of point {point} is missing in {self.files.url}: another "
                    "process, with fewer points, has rewritten its block; run the sweep again"
                )
            trees = jax.tree.unflatten(jax.tree.structure(structure), arrays.values())
        else:
            self.warn_of_missing(done)
            trees = layouts.fields(arrays)
        return Result(self.rounds, *trees)

    @property
    def rounds(self) -> np.ndarray:
        """(n,) int32, the rounds at which regret is recorded."""
        return np.array(self.layout.attributes["checkpoints"], np.int32)

    def warn_of_missing(self, done: np.ndarray) -> None:
        """Warn of unfinished trials, if there are any."""
        missing = np.argwhere(~done)
        if len(missing):
            warn(
                f"store: {len(missing)} of {done.size} trials of {self.files.url} are not done "
                f"and hold NaN; the first is seed {missing[0][1]} of point {missing[0][0]}"
            )

    def cells(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The arrays of a Result by name, with axes (points, seeds), and which cells are done.

        The latter is (points, seeds) bool. Cells that are not done are NaN or a fill value.

        Raises:
          Damaged: an object is damaged; the message names it.
        """
        output = {
            name: np.full((self.points, self.seeds, *tail), layouts.fill(dtype), dtype)
            for name, (tail, dtype) in self.layout.arrays.items()
        }
        keys = set(self.files.keys())

        def place(corner):
            if self._key("done", *corner) not in keys:
                return
            parts = self._read_block(*corner)
            region = tuple(slice(i, i + n) for i, n in zip(corner, self.block, strict=True))
            rows, columns = output["done"][region].shape
            done = parts[-1][:rows, :columns]
            for whole, part in zip(output.values(), parts, strict=True):
                whole[region][done] = part[:rows, :columns][done]

        try:
            together(place, self._corners())
        except Damaged as error:
            raise Damaged(f"{error}; run the sweep or study again to compute its block") from None
        del output["checksum"]
        return output, output.pop("done")

    def _corners(self):
        starts = (
            range(0, n, b) for n, b in zip((self.points, self.seeds), self.block, strict=True)
        )
        return list(itertools.product(*starts))

    def _key(self, name, point, seed) -> str:
        rest = [0] * len(self.layout.arrays[name][0])
        place = [point // self.block[0], seed // self.block[1], *rest]
        return "/".join([name, "c", *map(str, place)])

    def _read(self, name, point, seed):
        tail, dtype = self.layout.arrays[name]
        key = self._key(name, point, seed)
        return decode(self.files.read(key), (*self.block, *tail), dtype, self.files.path(key))

    def _read_block(self, point, seed) -> list[np.ndarray]:
        """All arrays of a block.

        Raises:
          Damaged: a finished cell does not contain the values that were written.
        """
        # ``done`` is read first, since the other arrays were written before it.
        done = self._read("done", point, seed)
        *leaves, sums = (self._read(name, point, seed) for name in [*self.layout.arrays][:-1])
        known = min(self.block[0], self.layout.shape[0] - point)
        fits = sums[:known] == self._checksums(point, seed, [leaf[:known] for leaf in leaves])
        if not fits[done[:known]].all():
            path = self.files.path(self._key("checksum", point, seed))
            raise Damaged(f"store: {path} does not match the values and the place of its block")
        return [*leaves, sums, done]

    def _checksums(self, point, seed, leaves):
        words = self.layout.point_words()[point : point + len(leaves[0])]
        seeds = np.arange(seed, seed + self.block[1])
        return cell_checksums(self.layout.identity(), words, seeds, leaves)

    def _is_done(self, corner, keys, checked) -> "bool | Damaged":
        if self._key("done", *corner) not in keys:
            return False
        try:
            done = self._read_block(*corner)[-1] if checked else self._read("done", *corner)
        except Damaged as error:
            return error
        return bool(done[: self.points - corner[0], : self.seeds - corner[1]].all())


def cell_checksums(
    identity: bytes, points: np.ndarray, seeds: Numbers, leaves: Sequence[np.ndarray]
) -> np.ndarray:
    """A 32-bit checksum of each cell, over its sweep, its place and all of its values.

    The words of a cell are multiplied by random odd 64-bit numbers, which depend on the sweep. The
    upper half of the sum of the products is the checksum. Two different cells have the same
    checksum with probability about 2^-32 (vector multiply-shift; Thorup, High Speed Hashing for
    Integers and Strings, 2015).

    Args:
      identity: bytes that identify the sweep.
      points: (P, n) words of each point, uint32.
      seeds: (S,) the seeds.
      leaves: arrays (P, S, ...), the contents of the cells.

    Returns:
      (P, S) uint32.
    """
    shape = leaves[0].shape[:2]
    place = points[:, None], np.asarray(seeds, np.uint32)[None, :, None]
    parts = [np.broadcast_to(words, (*shape, words.shape[-1])) for words in place]
    words = np.concatenate([*parts, *map(_words, leaves)], axis=2)
    sums = np.einsum("psw,w->ps", words, _weights(identity, words.shape[2]))
    return (sums >> np.uint64(32)).astype(np.uint32)


def _words(leaf) -> np.ndarray:
    """The bits of an array (P, S, ...) as unsigned integers (P, S, words) of at most 32 bits."""
    size = leaf.dtype.itemsize
    flat = np.ascontiguousarray(leaf).reshape(*leaf.shape[:2], int(np.prod(leaf.shape[2:])))
    return flat.view(f"<u{min(size, 4)}")


@lru_cache(maxsize=16)
def _weights(identity, count) -> np.ndarray:
    bits = np.frombuffer(hashlib.shake_256(identity).digest(8 * count), "<u8")
    return bits | np.uint64(1)
