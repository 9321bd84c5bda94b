"""Points x seeds as one compiled program, in chunks. The only module for devices and disk."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from tqdm import tqdm

from dpjax import _check
from dpjax.batch_last import batch_last
from dpjax.batches import checkpoint_rounds
from dpjax.core import Result
from dpjax.simulate import simulate

# Trajectories computed at once if the caller does not say. On a CPU core: enough to hide the
# cost of a loop iteration, few enough that their state stays in cache.
# No accelerator has been measured yet.
_CPU_CHUNK = 1024
_ACCELERATOR_CHUNK = 65536


def sweep(
    game, points, seeds, key, *, play=simulate, checkpoints=100, chunk=None, progress=True
) -> Result:
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
      progress: whether to show a progress bar over the chunks.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), tally and report with leading axes (P, S).

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN, or the game
        refuses one of them.
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
    program = _program(
        game,
        play,
        tuple(rounds.tolist()),
        jax.tree.structure(points),
        tuple((points_block, *leaf.shape[1:]) for leaf in jax.tree.leaves(points)),
        seeds_block,
        key.dtype,
    )

    def compute(first_point, first_seed):
        rows = np.minimum(np.arange(first_point, first_point + points_block), count - 1)
        columns = np.minimum(np.arange(first_seed, first_seed + seeds_block), seeds - 1)
        block = jax.tree.map(lambda leaf: leaf[rows], points)
        return jax.tree.map(np.asarray, program(block, columns.astype(np.int32), key))

    corners = list(product(range(0, count, points_block), range(0, seeds, seeds_block)))
    output = None
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(compute, *corner) for corner in corners]
        try:
            work = zip(corners, futures, strict=True)
            for (p, s), future in tqdm(
                work, total=len(corners), unit="chunk", disable=not progress
            ):
                result = future.result()
                if output is None:
                    output = jax.tree.map(
                        lambda leaf: np.empty((count, seeds, *leaf.shape[:-2]), leaf.dtype), result
                    )
                for whole, part in zip(
                    jax.tree.leaves(output), jax.tree.leaves(result), strict=True
                ):
                    region = whole[p : p + points_block, s : s + seeds_block]
                    part = np.moveaxis(part, (-2, -1), (0, 1))
                    region[...] = part[: region.shape[0], : region.shape[1]]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
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
    """The compiled program of one block: (points, seeds (S,), key) -> arrays (..., P, S).

    Points are mapped first: what does not depend on the point, such as nature's draws, is then
    computed once a seed.
    """

    def cell(point, seed, key):
        result = play(*game(point), jr.fold_in(key, seed), checkpoints=checkpoints)
        return result.regret, result.tally, result.report

    over_points = batch_last(cell, (True, False, False))

    def block(points, seeds, key):
        if len(jax.tree.leaves(points)[0]) == 1:
            point = jax.tree.map(lambda leaf: leaf[0], points)
            result = batch_last(cell, (False, True, False))(point, seeds, key)
            return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, -2), result)
        points = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), points)
        return batch_last(over_points, (False, True, False))(points, seeds, key)

    points = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes])
    arguments = (
        points,
        jax.ShapeDtypeStruct((seeds,), jnp.int32),
        jax.ShapeDtypeStruct((), key_dtype),
    )
    return jax.jit(block).lower(*arguments).compile()
