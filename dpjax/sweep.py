"""Points x seeds as one compiled program, in blocks, on any number of devices and processes."""

import sys
import time
import warnings
from contextlib import closing
from functools import lru_cache
from itertools import product
from threading import Lock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr
from jax.sharding import Mesh
from tqdm import tqdm

from dpjax import _check, devices
from dpjax.batches import checkpoint_rounds
from dpjax.core import Result
from dpjax.simulate import simulate

# Trajectories computed at once if the caller does not say, and the memory suffices. On a CPU
# core: enough to hide the cost of a loop iteration, few enough that their state stays in cache.
# No accelerator has been measured yet.
_CPU_CHUNK = 1024
_ACCELERATOR_CHUNK = 65536


def sweep(
    game,
    points,
    seeds,
    key,
    *,
    play=simulate,
    checkpoints=100,
    chunk=None,
    mesh=None,
    progress=True,
) -> Result:
    """Plays a game at every point with every seed; compiles once for all of them.

    Cell (point, seed) is ``play(*game(point), fold_in(key, seed))``. All points of a seed
    share nature's key: every learner and every hyperparameter faces the same losses, and they
    are drawn once for all points. The values of a cell depend neither on ``chunk`` nor on how
    many seeds are computed beside it, nor on the number of devices or processes.

    Without a mesh all cores are used on CPU, by a thread each, and elsewhere one device. With
    one, each of its devices computes a block at a time; they exchange nothing.

    A chunk that turns out not to fit into memory is halved and computed again, with a warning.
    Trajectories with NaN or infinity in what they return are named in a warning, and kept.

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
        bounds the memory in use; by default 1024 on CPU and 65536 elsewhere, or as many as fit
        into its memory. Two where there are several points, if 1 is asked for.
      mesh: the devices to use, a :class:`jax.sharding.Mesh` of any axes.
      progress: whether to show a progress bar over the blocks, in a terminal or a notebook.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), tally and report with leading axes (P, S).

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN, or the game
        refuses one of them; the mesh is none, or not of this process alone.
    """
    plan = _plan(game, points, seeds, key, play, checkpoints, chunk, mesh)
    if devices.processes(mesh) > 1:
        raise ValueError("mesh must be of one process: none may hold the results of several")
    output = None
    for (point, seed), block in _watched(plan, plan.corners, progress):
        if output is None:
            output = _empty(plan.count, plan.seeds, block)
        _put(output, block, point, seed)
    return Result(plan.rounds, *output)


class _Plan(NamedTuple):
    """What is to be computed, and in which blocks: blocks of points times blocks of seeds.

    All have one size: the last ones are padded by repetition.
    """

    game: Any
    play: Any
    key: Any
    points: Any  # pytree of (P, ...) float32
    count: int  # P
    seeds: int
    rounds: np.ndarray  # (n,) int32, the checkpoints
    block: tuple[int, int]  # points and seeds in a block
    mesh: Mesh | None

    @property
    def corners(self) -> list[tuple[int, int]]:
        """The first point and seed of each block."""
        points, seeds = self.block
        return list(product(range(0, self.count, points), range(0, self.seeds, seeds)))


def _plan(game, points, seeds, key, play, checkpoints, chunk, mesh) -> _Plan:
    seeds = _check.size(1, seeds=seeds)
    _check.key(key=key)
    devices.check_mesh(mesh)
    on_cpu = devices.platform(mesh) == "cpu"
    if chunk is None:
        chunk = _CPU_CHUNK if on_cpu else _ACCELERATOR_CHUNK
    chunk = _check.size(1, chunk=chunk)
    points = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), points)
    count = _number_of_points(points)
    # The factories look at plain numbers and refuse bad ones; tracers pass unseen.
    games = [game(jax.tree.map(lambda leaf, i=i: leaf[i], points)) for i in range(count)]
    rounds = checkpoint_rounds(*games[0], checkpoints)
    # Of an axis of length 1 the compiler makes another program, whose last bits may differ: of
    # several points at least two are in a block.
    points_block = min(count, max(chunk, 2))
    workers = _threads(mesh) if mesh is None else mesh.size
    seeds_block = _block_size(seeds, max(1, chunk // points_block), workers)
    return _Plan(game, play, key, points, count, seeds, rounds, (points_block, seeds_block), mesh)


def _threads(mesh) -> int:
    """XLA uses a core for a program; threads keep all cores busy. A mesh keeps itself busy."""
    return devices.cores() if mesh is None and devices.platform(mesh) == "cpu" else 1


def _watched(plan, corners, progress):
    """Yields (corner, block) with a progress bar, and names trajectories that are not finite."""
    # What ipykernel shows in a notebook is no terminal, but is watched.
    shown = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    bar = tqdm(
        total=len(corners),
        unit="chunk",
        disable=not (progress and shown and jax.process_index() == 0),
        bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} chunks [{elapsed}<{remaining}{postfix}]",
    )
    begin, played, bad = time.perf_counter(), 0, []
    try:
        with bar, closing(_compute(plan, corners)) as blocks:
            for corner, block in blocks:
                bad += _not_finite(block, *corner)
                played += np.prod(jax.tree.leaves(block)[0].shape[:2], dtype=int)
                yield corner, block
                rate = played * float(plan.rounds[-1]) / (time.perf_counter() - begin)
                bar.set_postfix_str(f"{rate:.3g} rounds x trials/s", refresh=False)
                bar.update()
    finally:
        if bad:
            first = "; ".join(f"point {p}, seed {s}" for p, s in bad[:3])
            warnings.warn(
                f"{len(bad)} trajectories hold NaN or infinity, and are kept: {first}"
                + ("; ..." if len(bad) > 3 else ""),
                RuntimeWarning,
                stacklevel=3,
            )


def _not_finite(block, point, seed) -> list[tuple[int, int]]:
    """The points and seeds at which a block, with that corner, holds NaN or infinity."""
    finite = [
        np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
        for leaf in jax.tree.leaves(block)
        if leaf.dtype.kind == "f"
    ]
    bad = np.argwhere(~np.logical_and.reduce(finite)) if finite else []
    return [(point + int(p), seed + int(s)) for p, s in bad]


def _compute(plan, corners):
    """Yields (corner, (regret, tally, report)) of the blocks at these corners, in their order.

    Leaves have leading axes (points, seeds), without the padding. A block that does not fit into
    memory is computed in pieces.
    """
    mesh = devices.local(plan.mesh)
    workers = _threads(mesh)
    limit = devices.memory(mesh, workers)
    lock = Lock()
    size = plan.block
    while devices.bytes_needed(_program_of(plan, size, mesh)) > limit:
        smaller = _halved(size, plan.count)
        if smaller is None:
            break
        size = smaller

    def attempt(group, size):
        with lock:
            program = _program_of(plan, size, mesh)
        blocks = [None] * len(group)
        for offset in product(*(range(0, b, s) for b, s in zip(plan.block, size, strict=True))):
            corners = [tuple(np.add(corner, offset)) for corner in group]
            for i, part in enumerate(_run(plan, program, corners, size, mesh)):
                if blocks[i] is None:
                    ends = np.minimum(np.add(group[i], plan.block), (plan.count, plan.seeds))
                    blocks[i] = _empty(*(ends - group[i]), part)
                _put(blocks[i], part, *offset)
        return list(zip(group, blocks, strict=True))

    def compute(group):
        nonlocal size
        while True:
            tried = size
            try:
                return attempt(group, tried)
            except (MemoryError, jax.errors.JaxRuntimeError) as error:
                smaller = _halved(tried, plan.count)
                if not devices.out_of_memory(error) or smaller is None:
                    raise
            with lock:
                if size == tried:
                    size = smaller
                    warnings.warn(
                        f"{tried[0]} points x {tried[1]} seeds did not fit into memory: "
                        f"computing {size[0]} x {size[1]} at once",
                        RuntimeWarning,
                        stacklevel=2,
                    )

    width = 1 if mesh is None else mesh.size
    groups = [corners[i : i + width] for i in range(0, len(corners), width)]
    with closing(devices.in_order(compute, groups, workers)) as computed:
        for group in computed:
            yield from group


def _halved(size, count) -> tuple[int, int] | None:
    """The next smaller size of blocks; None after the smallest."""
    points, seeds = size
    if seeds > 1:
        return points, -(-seeds // 2)
    # As in a plan: of several points at least two.
    return (max(2, -(-points // 2)), 1) if points > min(count, 2) else None


def _program_of(plan, size, mesh):
    points, seeds = size
    return _program(
        plan.game,
        plan.play,
        tuple(plan.rounds.tolist()),
        jax.tree.structure(plan.points),
        tuple((points, *leaf.shape[1:]) for leaf in jax.tree.leaves(plan.points)),
        seeds,
        plan.key.dtype,
        mesh,
    )


def _run(plan, program, corners, size, mesh) -> list:
    """What a program computes at corners, one a device: (regret, tally, report) of each."""

    def arguments(point, seed):
        rows = np.minimum(np.arange(point, point + size[0]), plan.count - 1)
        columns = np.minimum(np.arange(seed, seed + size[1]), plan.seeds - 1)
        return jax.tree.map(lambda leaf: leaf[rows], plan.points), columns.astype(np.int32)

    def on_host(output):
        """Points first: the program has seeds first."""
        return jax.tree.map(lambda leaf: np.asarray(leaf).swapaxes(0, 1), output)

    blocks = [arguments(*corner) for corner in corners]
    if mesh is None:
        return [on_host(program(*blocks[0], plan.key))]
    blocks += blocks[-1:] * (mesh.size - len(blocks))
    one_each, same = devices.shardings(mesh)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *blocks)
    output = program(*jax.device_put(stacked, one_each), jax.device_put(plan.key, same))
    output = jax.tree.map(np.asarray, output)
    return [on_host(jax.tree.map(lambda leaf, i=i: leaf[i], output)) for i in range(len(corners))]


def _empty(points, seeds, block):
    """Arrays like those of a block, for that many points and seeds."""
    return jax.tree.map(lambda leaf: np.empty((points, seeds, *leaf.shape[2:]), leaf.dtype), block)


def _put(whole, part, point, seed) -> None:
    """Writes a part, of points x seeds, where it belongs, as far as the whole reaches."""
    for into, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        region = into[point : point + leaf.shape[0], seed : seed + leaf.shape[1]]
        region[...] = leaf[: region.shape[0], : region.shape[1]]


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


def _block_size(seeds, limit, workers) -> int:
    """The largest block of at most ``limit`` seeds that gives each worker as many blocks."""
    blocks = -(-seeds // limit)
    blocks = min(-(-blocks // workers) * workers, seeds)
    return -(-seeds // blocks)


@lru_cache(maxsize=128)
def _program(game, play, checkpoints, structure, shapes, seeds, key_dtype, mesh):
    """The compiled program of one block: (points, seeds (S,), key) -> arrays (S, P, ...).

    With a mesh, of one block for each of its devices, in front of the other axes.

    Points are the inner axis of the vmap: what does not depend on the point, such as nature's
    draws, is then computed once a seed.
    """

    def cell(point, seed, key):
        result = play(*game(point), jr.fold_in(key, seed), checkpoints=checkpoints)
        return result.regret, result.tally, result.report

    over_points = jax.vmap(cell, in_axes=(0, None, None))
    over_seeds = jax.vmap(over_points, in_axes=(None, 0, None))
    lead, one_each, same = (), None, None
    if mesh is not None:
        lead, (one_each, same) = (mesh.size,), devices.shardings(mesh)
        over_seeds = devices.shard(over_seeds, mesh)

    def block(shape, dtype):
        return jax.ShapeDtypeStruct((*lead, *shape), dtype, sharding=one_each)

    arguments = (
        jax.tree.unflatten(structure, [block(shape, jnp.float32) for shape in shapes]),
        block((seeds,), jnp.int32),
        jax.ShapeDtypeStruct((), key_dtype, sharding=same),
    )
    return jax.jit(over_seeds).lower(*arguments).compile()
