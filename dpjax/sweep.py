"""Points x seeds as one compiled program, in chunks.

Only this module and :mod:`dpjax.store` know of devices and disks.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import groupby, product
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from tqdm import tqdm

from dpjax import _check
from dpjax.batches import checkpoint_rounds
from dpjax.core import Result
from dpjax.simulate import simulate
from dpjax.store import open_store

# Trajectories computed at once if the caller does not say. On a CPU core: enough to hide the
# cost of a loop iteration, few enough that their state stays in cache.
# No accelerator has been measured yet.
_CPU_CHUNK = 1024
_ACCELERATOR_CHUNK = 65536


def sweep(
    game, points, seeds, key, *,
    play=simulate, checkpoints=100, chunk=None, store=None, progress=True,
) -> Result:  # fmt: skip
    """Plays a game at every point with every seed; compiles once for all of them.

    Cell (point, seed) is ``play(*game(point), fold_in(key, seed))``. All points of a seed
    share nature's key: every learner and every hyperparameter faces the same losses, and they
    are drawn once for all points. The values of a cell depend neither on ``chunk`` nor on how
    many seeds are computed beside it.

    Args:
      game: function of a point that returns (learner, environment). The compiled program is
        kept under its identity: define it once, not as a lambda within a loop.
      points: pytree of float arrays with a common leading axis (P,); cast to float32.
      seeds: number of seeds, S.
      key: PRNG key, consumed.
      play: how a game is played: :func:`dpjax.simulate`, round by round, or
        :func:`dpjax.simulate_batches`, a batch at a time.
      checkpoints: at how many evenly spaced rounds regret is recorded, or these rounds themselves,
        the last one the horizon.
      chunk: upper limit on the trajectories that one core (or device) computes at once, which
        bounds the memory in use; by default 1024 on CPU and 65536 elsewhere. Two where there are
        several points, if 1 is asked for.
      store: a folder or an fsspec URL, where results go chunk by chunk, into a Zarr store that
        ``xarray.open_zarr`` reads (see :mod:`dpjax.store`; needs ``dpjax[store]``). What is there
        already is not computed again: a sweep that was killed goes on where it stopped, to the
        same bytes, and one with more seeds, or with more points after the old ones, computes what
        is new. The blocks of a store are fixed when it is made; ``chunk`` then says how many are
        computed at once.
      progress: whether to show a progress bar over the chunks.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), tally and report with leading axes (P, S).

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN, or the game
        refuses one of them; or the store is of another sweep: the message names what differs, and
        both values.
      OSError: the store cannot be read or written. What it has is kept.
    """
    seeds = _check.size(1, seeds=seeds)
    _check.key(key=key)
    accelerated = jax.default_backend() != "cpu"
    if chunk is None:
        chunk = _ACCELERATOR_CHUNK if accelerated else _CPU_CHUNK
    chunk = _check.size(1, chunk=chunk)
    points = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), points)
    count = _number_of_points(points)
    # The factories look at plain numbers and refuse bad ones; tracers pass unseen.
    games = [game(jax.tree.map(lambda leaf, i=i: leaf[i], points)) for i in range(count)]
    rounds = checkpoint_rounds(*games[0], checkpoints)

    # A chunk is a block of points times a block of seeds. All have one size: the last ones are
    # padded by repetition. XLA uses a core a chunk; threads keep all cores busy.
    workers = 1 if accelerated else cores()
    # Of an axis of length 1 the compiler makes another program, whose last bits may differ: of
    # several points at least two are in a block.
    points_block = min(count, max(chunk, 2))
    seeds_block = _block_size(seeds, max(1, chunk // points_block), workers)
    todo = list(product(range(0, count, points_block), range(0, seeds, seeds_block)))
    at_once = 1  # blocks, next to each other in a program's axis of seeds
    if store is not None:
        store, structure = open_store(
            store, game, points, seeds, key,
            play=play, rounds=rounds, block=(points_block, seeds_block),
        )  # fmt: skip
        points_block, seeds_block = store.block
        todo = store.missing()
        if not todo:
            return store.result(structure)
        limit = max(1, chunk // (points_block * seeds_block))
        at_once = _block_size(max(Counter(p for p, _ in todo).values()), limit, workers)
    calls = []
    for p, blocks in groupby(todo, key=itemgetter(0)):
        starts = [s for _, s in blocks]
        calls += [(p, starts[i : i + at_once]) for i in range(0, len(starts), at_once)]
    program = _program(
        game,
        play,
        tuple(rounds.tolist()),
        jax.tree.structure(points),
        tuple((points_block, *leaf.shape[1:]) for leaf in jax.tree.leaves(points)),
        at_once * seeds_block,
        key.dtype,
    )

    def compute(first_point, starts):
        rows = np.minimum(np.arange(first_point, first_point + points_block), count - 1)
        padded = [*starts, *[starts[-1]] * (at_once - len(starts))]
        columns = np.add.outer(padded, np.arange(seeds_block)).ravel()
        block = jax.tree.map(lambda leaf: leaf[rows], points)
        result = jax.tree.map(np.asarray, program(block, columns.astype(np.int32), key))
        parts = [
            jax.tree.map(
                lambda leaf, i=i: np.swapaxes(leaf[i * seeds_block : (i + 1) * seeds_block], 0, 1),
                result,
            )
            for i in range(len(starts))
        ]
        if store is None:
            return parts
        for start, part in zip(starts, parts, strict=True):
            store.write(first_point, start, part)
        return None

    output = None
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(compute, *call) for call in calls]
        try:
            work = zip(calls, futures, strict=True)
            for (p, starts), future in tqdm(
                work, total=len(calls), unit="chunk", disable=not progress
            ):
                parts = future.result()
                if store is not None:
                    continue
                if output is None:
                    output = jax.tree.map(
                        lambda leaf: np.empty((count, seeds, *leaf.shape[2:]), leaf.dtype), parts[0]
                    )
                for s, part in zip(starts, parts, strict=True):
                    for whole, leaf in zip(
                        jax.tree.leaves(output), jax.tree.leaves(part), strict=True
                    ):
                        region = whole[p : p + points_block, s : s + seeds_block]
                        region[...] = leaf[: region.shape[0], : region.shape[1]]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    if store is not None:
        return store.result(structure)
    regret, tally, report = output
    return Result(rounds, regret, tally, report)


def _number_of_points(points) -> int:
    leaves = jax.tree.leaves(points)
    shapes = [leaf.shape for leaf in leaves]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "points must hold arrays with one common leading axis, one entry a point; "
            f"got shapes {shapes}"
        )
    for leaf in leaves:
        if np.isnan(leaf).any():
            raise ValueError(
                f"points must not hold NaN; point {np.argwhere(np.isnan(leaf))[0][0]} does"
            )
    return lengths.pop()


def cores() -> int:
    """The cores that this process may use; where the system cannot say, all that there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _block_size(seeds, limit, workers) -> int:
    """The largest block of at most ``limit`` seeds that gives each worker as many blocks."""
    blocks = -(-seeds // limit)
    blocks = min(-(-blocks // workers) * workers, seeds)
    return -(-seeds // blocks)


@lru_cache(maxsize=128)
def _program(game, play, checkpoints, structure, shapes, seeds, key_dtype):
    """The compiled program of one block: (points, seeds (S,), key) -> arrays (S, P, ...).

    Points are the inner axis of the vmap: what does not depend on the point, such as nature's
    draws, is then computed once a seed.
    """

    def cell(point, seed, key):
        result = play(*game(point), jr.fold_in(key, seed), checkpoints=checkpoints)
        return result.regret, result.tally, result.report

    over_points = jax.vmap(cell, in_axes=(0, None, None))
    over_seeds = jax.vmap(over_points, in_axes=(None, 0, None))
    points = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes])
    arguments = (
        points,
        jax.ShapeDtypeStruct((seeds,), jnp.int32),
        jax.ShapeDtypeStruct((), key_dtype),
    )
    return jax.jit(over_seeds).lower(*arguments).compile()
