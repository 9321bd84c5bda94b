"""Points x seeds as one compiled program, in blocks, on any number of devices and processes.

Only this module, :mod:`dpjax.engine.devices` and :mod:`dpjax.store` know of devices and disks.
"""

import sys
import time
import warnings
from collections import Counter
from contextlib import closing
from itertools import groupby, product
from operator import itemgetter
from threading import Lock
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from dpjax import _check, settings
from dpjax.core import Result
from dpjax.engine import devices, programs
from dpjax.simulate import checkpoint_rounds, simulate
from dpjax.store import open_store

# Trajectories computed at once if the caller does not say, and the memory suffices. No accelerator
# has been measured yet.
_CPU_CHUNK = 4096
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
    store=None,
    progress=True,
) -> Result | None:
    """Plays a game at every point with every seed; compiles once for all of them.

    Cell (point, seed) is ``play(*game(point), fold_in(key, seed))``. All points of a seed
    share nature's key: every learner and every hyperparameter faces the same losses, and they
    are drawn once for all points. The values of a cell depend neither on ``chunk`` nor on how
    many seeds are computed beside it, nor on the number of devices or processes.

    Without a mesh all cores are used on CPU, by a thread each, and elsewhere one device. With
    one, each of its devices computes a block at a time; they exchange nothing.

    A chunk that turns out not to fit into memory is halved and computed again, with a warning.
    Trajectories with NaN or infinity in what they return are named in a warning, and kept. So is
    the first point at which a learner had to clip nearly all losses, if its report counts them.

    Args:
      game: function of a point that returns (learner, environment). Each call traces it as it is
        now, with the helpers, globals and arrays that it reads, and compiles it unless it did the
        same before. What changes from call to call within a loop belongs into ``points``: other
        numbers in the game itself are compiled anew, in seconds.
      points: pytree of float arrays with a common leading axis (P,); cast to float32. Lists of
        numbers are arrays.
      seeds: number of seeds, S.
      key: PRNG key, consumed.
      play: how a game is played: :func:`dpjax.simulate`, round by round, or
        :func:`dpjax.simulate_batches`, a batch at a time.
      checkpoints: at how many evenly spaced rounds regret is recorded, or these rounds themselves,
        the last one the horizon.
      chunk: upper limit on the trajectories that one core (or device) computes at once, which
        bounds the memory in use; by default 4096 on CPU and 65536 elsewhere, or as many as fit
        into its memory. At least two seeds, of two points where there are several.
      mesh: the devices to use, a :class:`jax.sharding.Mesh` of any axes. They may belong to several
        processes of ``jax.distributed``, each of which calls ``sweep`` with the same arguments and
        computes its share. A store is then required, which all of them see.
      store: a folder or an fsspec URL, where results go chunk by chunk, into a Zarr store that
        ``xarray.open_zarr`` reads (see :mod:`dpjax.store`; needs ``dpjax[store]``). What is there
        already is not computed again: a sweep that was killed goes on where it stopped, to the
        same bytes, and one with more seeds, or with more points after the old ones, computes what
        is new. What of it is damaged is named in a warning, and made again. The blocks of a store
        are fixed when it is made; ``chunk`` then says how many are computed at once.
      progress: whether to show a progress bar over the chunks, in a terminal or a notebook.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), tally and report with leading axes (P, S). Of
      several processes each returns None, when all of them are done.

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN, or the game
        refuses one of them, returns something else than a pair, or looks at a traced number with
        ``if``, ``float`` or ``int``; the mesh is none, or there is no store for several processes;
        or the store is of another sweep: the message names what differs, and both values.
      OSError: the store cannot be read or written. What it has is kept.
    """
    with settings.own():
        plan = _plan(game, points, seeds, key, play, checkpoints, chunk, mesh)
        if store is not None:
            return _into_store(plan, store, progress)
        if devices.processes(mesh) > 1:
            raise ValueError("store: several processes need one, since none holds all results")
        output = None
        for block, cells in _watched(plan, plan.blocks(plan.corners), progress):
            if output is None:
                output = _empty(plan.count, plan.seeds, cells)
            _put(output, cells, block.point, block.seeds[0])
        return Result(plan.rounds, *output)


def _into_store(plan, url, progress) -> Result | None:
    several = devices.processes(plan.mesh) > 1
    # The first process makes the store; the others then find it.
    if several and jax.process_index() > 0:
        devices.wait_for_all(f"{url} is made")
    store = open_store(
        url, plan.game, plan.points, plan.seeds, plan.key,
        play=plan.play, rounds=plan.rounds, traced=plan.traced, block=plan.block,
    )  # fmt: skip
    if several and jax.process_index() == 0:
        devices.wait_for_all(f"{url} is made")
    plan = plan._replace(block=store.block)
    # Dealt before it is known what is missing: processes that look at different times agree.
    mine = set(devices.share(plan.mesh, plan.corners))
    missing = [corner for corner in store.missing() if corner in mine]
    if missing:
        limit = max(1, plan.chunk // (store.block[0] * store.block[1]))
        most = max(Counter(point for point, _ in missing).values())
        blocks = plan.blocks(missing, _block_size(most, limit, _at_once(devices.local(plan.mesh))))
        for block, cells in _watched(plan, blocks, progress):
            for i, seed in enumerate(block.seeds[:: store.block[1]].tolist()):
                part = slice(i * store.block[1], (i + 1) * store.block[1])
                store.write(block.point, seed, jax.tree.map(lambda x, s=part: x[:, s], cells))
    if several:
        devices.wait_for_all(f"{url} is complete")
        return None
    return store.result(plan.traced.output)


class _Block(NamedTuple):
    """What is computed at once: so many points from one on, with these seeds."""

    point: int
    seeds: np.ndarray  # int32; those past the last one are dropped, or kept for a store to grow


class _Plan(NamedTuple):
    """What is to be computed, and in which blocks: blocks of points times blocks of seeds.

    All have one size: the points of the last ones are padded by repetition, their seeds go on.
    """

    game: Any
    play: Any
    key: Any
    points: Any  # pytree of (P, ...) float32
    count: int  # P
    seeds: int
    rounds: np.ndarray  # (n,) int32, the checkpoints
    traced: programs.Traced
    chunk: int  # trajectories at once, at most
    block: tuple[int, int]  # points and seeds in a block
    mesh: Mesh | None

    @property
    def corners(self) -> list[tuple[int, int]]:
        """The first point and seed of each block."""
        points, seeds = self.block
        return list(product(range(0, self.count, points), range(0, self.seeds, seeds)))

    def blocks(self, corners, together=1) -> list[_Block]:
        """The blocks at these corners, with the seeds of so many of the same points as one."""
        found = []
        for point, group in groupby(corners, key=itemgetter(0)):
            starts = [seed for _, seed in group]
            for i in range(0, len(starts), together):
                seeds = np.add.outer(starts[i : i + together], np.arange(self.block[1]))
                found.append(_Block(point, seeds.ravel().astype(np.int32)))
        return found


def _plan(game, points, seeds, key, play, checkpoints, chunk, mesh) -> _Plan:
    _check.function("a function of a point that returns (learner, environment)", game=game)
    _check.function("a function, simulate or simulate_batches of dpjax", play=play)
    seeds = _check.size(1, seeds=seeds)
    _check.untraced("sweep", (points, key))
    _check.key(key=key)
    devices.check_mesh(mesh)
    on_cpu = devices.platform(mesh) == "cpu"
    if chunk is None:
        chunk = _CPU_CHUNK if on_cpu else _ACCELERATOR_CHUNK
    chunk = _check.size(1, chunk=chunk)
    points = jax.tree.map(_numbers, points, is_leaf=_is_list_of_numbers)
    count = _number_of_points(points)
    # The factories look at plain numbers and refuse bad ones; tracers pass unseen.
    games = [game(jax.tree.map(lambda leaf, i=i: leaf[i], points)) for i in range(count)]
    for each in games:
        _check.pair(each)
    rounds = checkpoint_rounds(*games[0], checkpoints)
    # Of an axis of length 1 the compiler makes another program, whose last bits may differ: at
    # least two seeds and, of several points, at least two of these are in a block.
    points_block = min(count, max(chunk, 2))
    seeds_block = max(2, _block_size(seeds, chunk // points_block, _at_once(mesh)))
    block = (points_block, seeds_block)
    traced = programs.trace(game, play, rounds, points, key.dtype)
    return _Plan(game, play, key, points, count, seeds, rounds, traced, chunk, block, mesh)


def _at_once(mesh) -> int:
    """How many blocks are computed at the same time."""
    return _threads(mesh) if mesh is None else mesh.size


def _threads(mesh) -> int:
    """XLA uses a core for a program; threads keep all cores busy. A mesh keeps itself busy."""
    return devices.cores() if mesh is None and devices.platform(mesh) == "cpu" else 1


def _watched(plan, blocks, progress):
    """Yields (block, cells) with a progress bar, and says in the end what was odd about them."""
    # What ipykernel shows in a notebook is no terminal, but is watched.
    shown = sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")
    bar = tqdm(
        total=len(blocks),
        unit="chunk",
        disable=not (progress and shown and jax.process_index() == 0),
        bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} chunks [{elapsed}<{remaining}{postfix}]",
    )
    begin, played, bad, clipped = time.perf_counter(), 0, [], np.full(plan.count, np.inf)
    try:
        with bar, closing(_compute(plan, blocks)) as computed:
            for block, cells in computed:
                bad += _not_finite(plan, block, cells)
                _see_clipped(clipped, block, cells)
                played += min(plan.block[0], plan.count - block.point) * len(block.seeds)
                yield block, cells
                rate = played * float(plan.rounds[-1]) / (time.perf_counter() - begin)
                bar.set_postfix_str(f"{rate:.3g} rounds x trials/s", refresh=False)
                bar.update()
    finally:
        _warn(plan, bad, clipped)


def _warn(plan, bad, clipped) -> None:
    """Of trajectories that are not finite, and of points at which losses are out of range."""
    if bad:
        first = "; ".join(f"point {p}, seed {s}" for p, s in sorted(bad)[:3])
        warnings.warn(
            f"{len(bad)} trajectories hold NaN or infinity, and are kept: {first}"
            + ("; ..." if len(bad) > 3 else ""),
            RuntimeWarning,
            stacklevel=4,
        )
    horizon = int(plan.rounds[-1])
    found = np.flatnonzero((clipped >= 0.9 * horizon) & np.isfinite(clipped))
    if len(found):
        warnings.warn(
            f"point {found[0]}: losses lay outside the learner's range, and were clipped, at least "
            f"{clipped[found[0]]:.0f} times in {horizon} rounds with every seed; say what range "
            "they are in, over arms by combinators.rescale_losses(learner, low, high)",
            RuntimeWarning,
            stacklevel=4,
        )


def _see_clipped(least, block, cells) -> None:
    """Of each point the fewest losses that were clipped in a trajectory, if the report says it."""
    clipped = getattr(cells[2], "clipped", None)
    if np.ndim(clipped) == 2:
        here = least[block.point : block.point + len(clipped)]
        np.minimum(here, clipped[: len(here)].min(axis=1), out=here)


def _not_finite(plan, block, cells) -> list[tuple[int, int]]:
    """The points and seeds of a block at which there is NaN or infinity."""
    finite = [
        np.isfinite(leaf).all(axis=tuple(range(2, leaf.ndim)))
        for leaf in jax.tree.leaves(cells)
        if leaf.dtype.kind == "f"
    ]
    bad = np.argwhere(~np.logical_and.reduce(finite)) if finite else []
    named = [(block.point + int(i), int(block.seeds[j])) for i, j in bad]
    return [(point, seed) for point, seed in named if point < plan.count and seed < plan.seeds]


def _compute(plan, blocks):
    """Yields (block, (regret, tally, report)) of these blocks, as they are done.

    Leaves have leading axes (points, seeds) of a block. A block that does not fit into memory is
    computed in pieces.
    """
    if not blocks:
        return
    mesh = devices.local(plan.mesh)
    workers = _threads(mesh)
    limit = devices.memory(mesh, workers)
    lock = Lock()
    whole = size = plan.block[0], max(len(block.seeds) for block in blocks)
    while programs.compiled(plan.traced, size, mesh).bytes_needed > limit:
        smaller = _halved(size, plan.count)
        if smaller is None:
            break
        size = smaller

    def attempt(group, size):
        with lock:
            program = programs.compiled(plan.traced, size, mesh)
        cells = [None] * len(group)
        seeds = [np.pad(b.seeds, (0, whole[1] - len(b.seeds)), "edge") for b in group]
        for point, seed in product(*(range(0, n, m) for n, m in zip(whole, size, strict=True))):
            pieces = [
                _Block(block.point + point, own[seed:])
                for block, own in zip(group, seeds, strict=True)
            ]
            for i, part in enumerate(_run(plan, program, pieces, size, mesh)):
                if cells[i] is None:
                    cells[i] = _empty(whole[0], len(group[i].seeds), part)
                _put(cells[i], part, point, seed)
        return list(zip(group, cells, strict=True))

    def compute(group):
        nonlocal size
        while True:
            tried = size
            try:
                with settings.own():  # which a thread does not inherit
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
    groups = [blocks[i : i + width] for i in range(0, len(blocks), width)]
    with closing(devices.completed(compute, groups, workers)) as computed:
        for group in computed:
            yield from group


def _halved(size, count) -> tuple[int, int] | None:
    """The next smaller size of blocks; None after the smallest."""
    points, seeds = size
    if seeds > 2:
        return points, -(-seeds // 2)
    # As in a plan: of several points at least two.
    return (max(2, -(-points // 2)), seeds) if points > min(count, 2) else None


def _run(plan, program, blocks, size, mesh) -> list:
    """What a program computes of blocks, one a device: (regret, tally, report) of each."""
    leaves = jax.tree.leaves(plan.points)
    structure = jax.tree.structure(plan.traced.output)

    def arguments(block):
        rows = np.minimum(np.arange(block.point, block.point + size[0]), plan.count - 1)
        seeds = np.pad(block.seeds[: size[1]], (0, max(0, size[1] - len(block.seeds))), "edge")
        return [leaf[rows] for leaf in leaves], seeds

    def on_host(output):
        """Points and seeds first: the program has them last."""
        output = [np.moveaxis(np.asarray(leaf), (-2, -1), (0, 1)) for leaf in output]
        return jax.tree.unflatten(structure, output)

    given = [arguments(block) for block in blocks]
    if mesh is None:
        return [on_host(program.run(*given[0], plan.key))]
    given += given[-1:] * (mesh.size - len(given))
    one_each, same = devices.shardings(mesh)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *given)
    output = program.run(*jax.device_put(stacked, one_each), jax.device_put(plan.key, same))
    output = [np.asarray(leaf) for leaf in output]
    return [on_host([leaf[i] for leaf in output]) for i in range(len(blocks))]


def _empty(points, seeds, block):
    """Arrays like those of a block, for that many points and seeds."""
    return jax.tree.map(lambda leaf: np.empty((points, seeds, *leaf.shape[2:]), leaf.dtype), block)


def _put(whole, part, point, seed) -> None:
    """Writes a part, of points x seeds, where it belongs, as far as the whole reaches."""
    for into, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        region = into[point : point + leaf.shape[0], seed : seed + leaf.shape[1]]
        region[...] = leaf[: region.shape[0], : region.shape[1]]


def _is_list_of_numbers(tree) -> bool:
    """Whether a part of the points is an array that was written as a list, or as lists of lists."""
    if type(tree) not in (list, tuple):
        return False
    return all(np.isscalar(x) or _is_list_of_numbers(x) for x in tree)


def _numbers(leaf):
    try:
        array = np.asarray(leaf)
        if array.dtype.kind in "USc":  # of which NumPy would make real numbers
            raise TypeError
        return array.astype(np.float32)
    except (TypeError, ValueError):
        raise TypeError(f"points must hold numbers, got {leaf!r}") from None


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
    blocks = -(-seeds // max(1, limit))
    blocks = min(-(-blocks // workers) * workers, seeds)
    return -(-seeds // blocks)
