"""Plays a game at many points with many seeds, on any number of devices and processes.

A sweep fills a table of points x seeds. It traces the game once (:mod:`dpjax.engine.programs`) and
divides the table into blocks (:mod:`dpjax.engine.blocks`). It computes the blocks by one compiled
program (:mod:`dpjax.engine.compute`) and joins them in memory or in a store (:mod:`dpjax.store`).
"""

import logging
import os
from collections import Counter
from collections.abc import Callable
from itertools import compress
from typing import Any

import jax
import numpy as np

from dpjax.core import Array, BatchLearner, Environment, Learner, Result, _check
from dpjax.engine import devices, programs, settings
from dpjax.engine.blocks import Block, Plan, block_shape, empty, put
from dpjax.engine.compile import CPU, platform_of
from dpjax.engine.progress import Bar, with_progress
from dpjax.store import open_store
from dpjax.study.programs import columns, pairs
from dpjax.study.simulate import Checkpoints, checkpoint_rounds, simulate


def sweep(
    game: Callable[[Any], tuple[Learner | BatchLearner, Environment]],
    points: Any,
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
    """Plays a game at every point with every seed, and compiles it once for all of them.

    Cell (point, seed) of the table is ``play(*game(point), fold_in(key, seed))``. All points of a
    seed share nature's key, so every learner and every hyperparameter faces the same losses, which
    are drawn once for all points. The values of a cell do not depend on ``chunk``, on how many
    seeds are computed beside it, or on the number of devices or processes.

    Without a mesh a sweep uses all cores on CPU, with a thread for each, and one device elsewhere.
    With a mesh each of its devices computes a block at a time. Devices exchange nothing.

    A chunk that does not fit into memory is halved and computed again, with a warning. Trajectories
    that return NaN or infinity are kept, and a warning names them. Another warning names the first
    point at which nearly all losses were clipped.

    Args:
      game: function of a point that returns (learner, environment). Each call of ``sweep`` traces
        it as it is now, with the helpers, globals and arrays that it reads, and compiles it unless
        the same program was compiled before. A number that changes from call to call belongs in
        ``points``. Where it is a part of the game, each of its values is compiled anew, which takes
        seconds.
      points: pytree of float arrays with a common leading axis (P,), cast to float32. A list of
        numbers counts as an array.
      seeds: number of seeds, S.
      key: one PRNG key, (), as ``jax.random.key`` makes, consumed.
      play: how a game is played. :func:`dpjax.simulate` plays it round by round, and
        :func:`dpjax.simulate_batches` a batch at a time.
      checkpoints: how many rounds record the regret, n, or these rounds themselves, (n,) increasing
        integers of at least 1, of which the last one is the horizon. A number of rounds is spaced
        evenly, and from a horizon of 10^6 on geometrically, from round 100 on.
      chunk: the most trajectories that one core (or device) computes at once, which bounds the
        memory in use. By default it is at most 4096 on CPU and 262144 elsewhere, or as many as fit
        into memory, and the number of seeds is a power of two, so that other numbers of seeds
        compile nothing. At least two seeds are computed at once and, if there are several points,
        at least two of these.
      mesh: a :class:`jax.sharding.Mesh`, of any axes, of the devices to use. They may belong to
        several processes of ``jax.distributed``, each of which calls ``sweep`` with the same
        arguments and computes its share. Several processes need a store that all of them see.
      store: a folder or an fsspec URL. Results go there chunk by chunk, into a Zarr store that
        :func:`dpjax.open` and ``xarray.open_zarr`` read (see :mod:`dpjax.store`; it needs
        ``dpjax[store]``). It keeps what the learner declares at each point, too. A sweep
        computes only what the store does not hold yet. One that was killed goes on where it
        stopped, and ends with the same bytes. One with more seeds, or with more points after the
        old ones, computes what is new. A warning names damaged objects, which are written again.
        Without an intact root (``zarr.json``) the store is refused, and stays as it is.
        The size of a store's blocks is fixed when it is made. From then on, ``chunk`` says how many
        blocks are computed at once.
      progress: whether to show a progress bar, or a line each 30 seconds without a terminal or a
        notebook.

    Returns:
      A Result of NumPy arrays: regret (P, S, n), the others with leading axes (P, S). Where there
      are several processes, each returns None when all of them are done.

    Raises:
      ValueError, TypeError: the points have no common leading axis or hold NaN; the game refuses a
        point, does not return a pair, or looks at a traced number with ``if``, ``float`` or
        ``int``; ``mesh`` is not a mesh; several processes have no store; or the store is of another
        sweep, in which case the message names what differs, and both values.
      OSError: the store cannot be read or written. What it holds is kept.

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


def planned(
    game: Callable,
    points: Any,
    seeds: int,
    key: Array,
    play: Callable,
    checkpoints: Checkpoints,
    chunk: int | None,
    mesh: jax.sharding.Mesh | None,
) -> Plan:
    """Checks the arguments of a sweep, traces the game and chooses the size of blocks."""
    with settings.own():
        return _planned(game, points, seeds, key, play, checkpoints, chunk, mesh)


def played(
    plan: Plan,
    store: str | os.PathLike | None,
    progress: bool | Bar,
    about: Callable[[], dict],
    share: tuple[float, float] = (0.0, 1.0),
) -> Result | None:
    """What :func:`sweep` returns, of a plan; ``about`` is that of ``open_store``.

    ``share`` says which of the blocks are computed, from the first, 0, to the last, 1. If these are
    not all blocks, it returns None.
    """
    with settings.own():
        if store is not None:
            return _into_store(plan, store, progress, about, share)
        if devices.processes(plan.mesh) > 1:
            raise ValueError("store: several processes need one, since none holds all results")
        return _into_memory(plan, progress)


def _planned(game, points, seeds, key, play, checkpoints, chunk, mesh) -> Plan:
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
    made = pairs(game, points)
    learner, environment = made[0]
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    block = block_shape(count, seeds, chunk, mesh)
    traced = programs.trace(game, play, rounds, points, key.dtype)
    privacy = [each.privacy for each, _ in made]
    return Plan(
        game, play, key, points, count, seeds, rounds, privacy, traced, chunk, block, mesh
    )  # fmt: skip


def _add_kernels() -> None:
    """Adds the platforms that have kernels, unless Pallas, which is experimental, has changed."""
    try:
        import dpjax.kernels  # noqa: F401
    except ImportError as reason:
        logging.getLogger(__name__).info("there are no kernels: %s", reason)


def _is_list_of_numbers(tree) -> bool:
    """Whether a subtree of the points is an array written as a list, or as nested lists."""
    if type(tree) not in (list, tuple):
        return False
    return all(np.isscalar(x) or _is_list_of_numbers(x) for x in tree)


def _numbers(leaf):
    """A leaf of the points as an array of float32."""
    try:
        array = np.asarray(leaf)
        if array.dtype.kind in "USc":  # NumPy would turn words and complex numbers into reals.
            raise TypeError
        return array.astype(np.float32)
    except (TypeError, ValueError):
        raise TypeError(f"points must hold numbers, got {leaf!r}") from None


def _number_of_points(points) -> int:
    """The length of the common leading axis of the points, after a check that there is one."""
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


def _into_memory(plan, progress) -> Result:
    """Computes all blocks and joins them."""
    output: Any = None
    for block, cells in with_progress(plan, plan.blocks(plan.corners), progress):
        if output is None:
            output = empty(plan.count, plan.seeds, cells)
        put(output, cells, block.point, block.seeds[0])
    return Result(plan.rounds, *output)


def _into_store(plan, url, progress, about, share) -> Result | None:
    """Computes what the store does not hold yet, and reads the result back from it.

    It returns None if there are several processes, or if the share is not the whole.
    """
    several = devices.processes(plan.mesh) > 1
    first = jax.process_index() == 0
    # The first process makes the store while the others wait.
    if several and not first:
        devices.wait_for_all(f"{url} is made")
    store = open_store(url, plan, about)
    if several and first:
        devices.wait_for_all(f"{url} is made")
    # A store that was made before has blocks of its own size.
    plan = plan._replace(block=store.block)
    # Blocks are dealt out to the processes before any of these looks which blocks are missing. So
    # they agree on who computes a block, though they look at different times.
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
    return store.result(plan.traced.output)


def _joined(plan, corners) -> list[Block]:
    """The blocks at these corners. Those of the same points are joined up to the size of a block.

    A store has blocks of the size that it was made with, which may be smaller.
    """
    points, seeds = plan.block
    most = max(Counter(point for point, _ in corners).values())
    whole = block_shape(points, most * seeds, plan.chunk, devices.local(plan.mesh))[1]
    return plan.blocks(corners, max(1, whole // seeds))


def _write(store, block, cells) -> None:
    """Writes a block that is made of one block of the store or of several."""
    width = store.block[1]
    for i, seed in enumerate(block.seeds[::width].tolist()):
        part = slice(i * width, (i + 1) * width)
        store.write(block.point, seed, jax.tree.map(lambda leaf, part=part: leaf[:, part], cells))
