"""Sweeps: one game at many points with many seeds, on any number of devices and processes.

A sweep fills a table of points x seeds. It traces the game once (:mod:`dpjax.engine.programs`) and
divides the table into blocks (:mod:`dpjax.engine.blocks`). One compiled program computes the blocks
(:mod:`dpjax.engine.compute`), which are joined in memory or in a store (:mod:`dpjax.store`).
"""

import logging
import os
from collections import Counter
from collections.abc import Callable
from itertools import compress
from typing import Any

import jax
import numpy as np

from dpjax._garbage import rarely_collected
from dpjax.core import Array, BatchLearner, Environment, Learner, PyTree, Result, _arrays, _check
from dpjax.engine import closure_digest, devices, settings
from dpjax.engine.blocks import Block, Plan, block_shape, empty, put
from dpjax.engine.compile import CPU, platform_of
from dpjax.engine.progress import Bar
from dpjax.game.checkpoints import Checkpoints, checkpoint_rounds
from dpjax.game.checks import check_actions
from dpjax.game.play import simulate
from dpjax.store import check, open_store
from dpjax.store.layout import moved
from dpjax.study.programs import columns, pairs
from dpjax.study.traces import trace
from dpjax.study.watched import with_progress

_checked: set[str] = set()  # the digests of the programs whose learner's actions were checked


def sweep(
    game: Callable[[Any], tuple[Learner | BatchLearner, Environment]],
    points: PyTree,
    seeds: int,
    key: Array,
    *,
    play: Callable = simulate,
    checkpoints: Checkpoints = 100,
    chunk: int | None = None,
    mesh: jax.sharding.Mesh | None = None,
    store: str | os.PathLike | None = None,
    progress: bool = True,
) -> Result | None:
    """Play a game at every point with every seed, compiled once for all of them.

    Cell (point, seed) of the table is ``play(*game(point), fold_in(key, seed))``. All points of a
    seed share nature's key, so all learners and hyperparameters face the same losses, which are
    drawn once for all points. The values of a cell do not depend on ``chunk``, on the number of
    seeds, or on the number of devices or processes.

    Without a mesh a sweep uses all CPU cores, one thread each, or one device on other platforms.
    With a mesh each of its devices computes one block at a time. Devices do not communicate.

    A chunk that does not fit into memory is halved and computed again, with a warning. Trajectories
    with NaN or infinite regret are kept, and a warning lists them. Another warning names the first
    point at which nearly all losses were clipped.

    Args:
      game: function of a point that returns (learner, environment). Each call of ``sweep`` traces
        it again, with the current helpers, globals and arrays that it reads. It is compiled unless
        the same program was compiled before. A number that changes between calls belongs in
        ``points``. If it is a constant of the game, each new value is compiled again, which takes
        seconds.
      points: pytree of float arrays with a common leading axis (P,), cast to float32. A list of
        numbers counts as an array.
      seeds: number of seeds, S.
      key: one PRNG key, (), as ``jax.random.key`` makes, consumed.
      play: :func:`dpjax.simulate` plays a game round by round, and :func:`dpjax.simulate_batches` a
        batch at a time.
      checkpoints: the number n of rounds at which regret is recorded, or these rounds themselves:
        (n,) increasing integers of at least 1 that end with the horizon. A number is spaced evenly,
        or geometrically from round 100 if the horizon is at least 10^6.
      chunk: the largest number of trajectories that one core (or device) computes at once, which
        bounds memory. By default it is at most 4096 on CPU and 262144 elsewhere, and fits into
        memory. Its number of seeds is a power of two, so that sweeps with other numbers of seeds
        are not compiled again. It holds at least two seeds and, if there are several points, at
        least two points.
      mesh: a :class:`jax.sharding.Mesh` of the devices to use, with any axes. They may belong to
        several processes of ``jax.distributed``, each of which calls ``sweep`` with the same
        arguments and computes its share. Several processes need a store that all of them can
        access.
      store: a folder or an fsspec URL. Results are written there chunk by chunk, into a Zarr store
        that :func:`dpjax.open` and ``xarray.open_zarr`` read (see :mod:`dpjax.store`; it needs
        ``dpjax[store]``), together with the declared privacy at each point. A sweep computes only
        the cells that the store lacks. A killed sweep continues where it stopped, and ends with the
        same bytes as an uninterrupted one. More seeds or points extend it. The points can be in
        any order; in the store, new points are after the old ones. Damaged objects are written
        again, with a warning. A store without an intact root (``zarr.json``) is refused and left
        unchanged. The block size is fixed when the store is created; afterwards ``chunk`` sets how
        many blocks are computed at once.
      progress: whether to show a progress bar, or a line every 30 seconds without a terminal or a
        notebook.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), the others with leading axes (P, S). If there are
      several processes, each returns None when all of them are done.

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN; the game refuses a
        point, does not return a pair, or uses a traced number in ``if``, ``float`` or ``int``; its
        learner or environment is refused as in :func:`dpjax.simulate`;
        ``mesh`` is not a mesh; several processes have no store; or the store belongs to another
        sweep. The message then states the difference with both values.
      OSError: the store cannot be read or written. Its contents are kept.

    Examples:
      >>> def game(epsilon):
      ...     learner = learners.dp_exp3_lap(64, 2, epsilon=epsilon)
      ...     return learner, environments.bernoulli([0.2, 0.8])
      >>> epsilons = np.array([1.0, 10.0, np.inf])
      >>> result = dpjax.sweep(game, epsilons, 50, jax.random.key(0), checkpoints=2, progress=False)
      >>> result.regret.shape  # points, seeds, checkpoints
      (3, 50, 2)
    """
    plan = planned(game, points, seeds, key, play, checkpoints, chunk, mesh)
    return played(plan, store, progress, lambda: {"privacy": columns(plan.privacy)})


@rarely_collected()
def planned(
    game: Callable,
    points: PyTree,
    seeds: int,
    key: Array,
    play: Callable,
    checkpoints: Checkpoints,
    chunk: int | None,
    mesh: jax.sharding.Mesh | None,
    built: list[tuple] | None = None,
) -> Plan:
    """Check the arguments of a sweep, trace the game and choose the block size.

    ``built`` are the learner and environment at each point, if they were built already.
    """
    with settings.of_sweep():
        _check.function("a function of a point that returns (learner, environment)", game=game)
        _check.function("a function, simulate or simulate_batches of dpjax", play=play)
        seeds = _check.size(1, seeds=seeds)
        _check.untraced("sweep", (points, key))
        _check.key(key=key)
        devices.check_mesh(mesh)
        if platform_of(mesh) is not CPU:
            _add_kernels()
        if chunk is not None:
            _check.size(1, chunk=chunk)
        points = jax.tree.map(_numbers, points, is_leaf=_is_list_of_numbers)
        count = _number_of_points(points)
        with closure_digest.as_now(game, play):
            built = pairs(game, points) if built is None else built
            learner, environment = built[0]
            rounds = checkpoint_rounds(learner, environment, checkpoints)
            traced = trace(game, play, rounds, points, key.dtype)
            if traced.digest not in _checked:
                check_actions(learner, environment, key)
                _checked.add(traced.digest)
        block = block_shape(count, seeds, chunk, mesh)
        privacy = [player.privacy for player, _ in built]
        return Plan(
            game, play, key, points, count, seeds, rounds, privacy, traced, chunk, block, mesh
        )  # fmt: skip


def played(
    plan: Plan,
    store: str | os.PathLike | None,
    progress: bool | Bar,
    about: Callable[[], dict],
    share: tuple[float, float] = (0.0, 1.0),
) -> Result | None:
    """The result of :func:`sweep` for a plan; ``about`` is passed to ``open_store``.

    ``share`` is the interval of blocks to compute, between 0 and 1. If it is not (0, 1), the result
    is None.
    """
    with settings.of_sweep():
        if store is not None:
            return _into_store(plan, store, progress, about, share)
        if devices.processes(plan.mesh) > 1:
            raise ValueError("store: several processes need one, since none holds all results")
        return _into_memory(plan, progress)


def _add_kernels() -> None:
    """Register the platforms with kernels, if the installed experimental Pallas allows it."""
    try:
        import dpjax.kernels  # noqa: F401
    except ImportError as reason:
        logging.getLogger(__name__).info("there are no kernels: %s", reason)


def _is_list_of_numbers(tree) -> bool:
    """Whether a subtree of the points is an array written as a list, or as nested lists."""
    if type(tree) not in (list, tuple):
        return False
    return all(
        np.isscalar(x) or x is None or getattr(x, "ndim", None) == 0 or _is_list_of_numbers(x)
        for x in tree
    )


def _numbers(leaf):
    """A leaf of the points as an array of float32."""
    return _arrays.real("points", leaf, -np.inf, np.inf).astype(np.float32)


def _number_of_points(points) -> int:
    """The length of the common leading axis of the points; a ValueError if there is none."""
    leaves = jax.tree.leaves(points)
    shapes = [leaf.shape for leaf in leaves]
    lengths = {shape[0] if shape else 0 for shape in shapes}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "points must hold arrays with one common leading axis, one entry per point; "
            f"got shapes {shapes}"
        )
    return lengths.pop()


def _into_memory(plan, progress) -> Result:
    """Compute all blocks and join them."""
    output: Any = None
    for block, cells in with_progress(plan, plan.blocks(plan.corners), progress):
        if output is None:
            output = empty(plan.count, plan.seeds, cells)
        put(output, cells, block.point, block.seeds[0])
    return Result(plan.rounds, *output)


def _into_store(plan, url, progress, about, share) -> Result | None:
    """Compute the cells that the store lacks, and read the result back from it.

    It returns None if there are several processes, or if the share is not (0, 1).
    """
    several = devices.processes(plan.mesh) > 1
    first = jax.process_index() == 0
    # The first process creates the store while the others wait.
    if several and not first:
        devices.wait_for_all(f"{url} is made")
    places = check(url, plan)
    plan = plan.moved(places)
    store = open_store(url, plan, lambda: moved(about(), np.argsort(places)))
    if several and first:
        devices.wait_for_all(f"{url} is made")
    # An existing store keeps its block size.
    plan = plan._replace(block=store.block)
    # Blocks are assigned to processes before any process checks which ones are missing. So the
    # processes agree on the assignment, although they check at different times.
    middles = (np.arange(len(plan.corners)) + 0.5) / len(plan.corners)
    within = (share[0] <= middles) & (middles < share[1])
    mine = set(devices.share(plan.mesh, compress(plan.corners, within)))
    missing = [corner for corner in store.missing() if corner in mine]
    if missing:
        for block, cells in with_progress(plan, _joined(plan, missing), progress):
            _write(store, block, cells)
    if several:
        devices.wait_for_all(f"{url} is complete")
    if several or share != (0.0, 1.0):
        return None
    rounds, *fields = store.result(plan.traced.output)
    if (np.diff(places) < 0).any():  # Only another order needs a copy.
        fields = jax.tree.map(lambda leaf: leaf[places], fields)
    return Result(rounds, *fields)


def _joined(plan, corners) -> list[Block]:
    """The blocks at these corners, joined up to the plan's block size if they share their points.

    The blocks of the store may be smaller than those of the plan.
    """
    points, seeds = plan.block
    most = max(Counter(point for point, _ in corners).values())
    whole = block_shape(points, most * seeds, plan.chunk, devices.local(plan.mesh))[1]
    return plan.blocks(corners, max(1, whole // seeds))


def _write(store, block, cells) -> None:
    """Write a block that consists of one or several blocks of the store."""
    width = store.block[1]
    for i, seed in enumerate(block.seeds[::width].tolist()):
        part = slice(i * width, (i + 1) * width)
        store.write(block.point, seed, jax.tree.map(lambda leaf, part=part: leaf[:, part], cells))
