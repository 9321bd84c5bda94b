"""Computes blocks in parallel, and in pieces if a whole block does not fit into memory."""

import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from threading import Lock

import jax
import numpy as np
from jax import random as jr
from jax.extend.core import ClosedJaxpr

from dpjax.engine import devices, programs, settings
from dpjax.engine.blocks import Block, empty, halved, put, threads
from dpjax.engine.compile import platform_of
from dpjax.engine.evaluate import equations

# The largest number of plans that wait while the programs of later plans are compiled.
_AHEAD = 32
_BY_LIBRARY = {"eig", "eigh", "schur", "svd"}


def compiled_ahead(plans):
    """Yield plans in order, while threads compile the programs of the next plans.

    There is one thread per core, and each compiles a different program. A program that cannot be
    compiled raises its error when its plan is played.

    Args:
      plans: an iterator of (Plan, whether it has blocks to compute).
    """
    workers, waiting = devices.cores(), deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for plan, needed in plans:
                ahead = {_compiled_as(block): compiling for block, compiling in waiting}
                compiling = ahead.get(_compiled_as(plan))
                if needed and compiling is None:
                    compiling = pool.submit(_compile, plan)
                waiting.append((plan, compiling))
                different = {_compiled_as(block) for block, _ in waiting}
                if len(different) > workers or len(waiting) > _AHEAD:
                    yield _awaited(*waiting.popleft())
            while waiting:
                yield _awaited(*waiting.popleft())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _compiled_as(plan) -> tuple:
    return plan.traced, plan.block


def _compile(plan) -> None:
    """Compile the program of a plan's block."""
    programs.compiled(plan.traced, plan.block, devices.local(plan.mesh))


def _awaited(plan, compiling):
    """Wait until the plan's program is compiled or has failed, and return the plan."""
    if compiling:
        compiling.exception()
    return plan


def compute(plan, blocks: Sequence[Block]):
    """Yield (block, cells) for each of these blocks, in the order in which they finish.

    Leaves have the leading axes (points, seeds) of their block. A block that does not fit into
    memory is computed in pieces.
    """
    if not blocks:
        return
    mesh = devices.local(plan.mesh)
    workers = 1 if takes_turns(plan.traced.program) else threads(mesh)
    whole = plan.block[0], max(len(block.seeds) for block in blocks)
    size = _fitting(plan, whole, mesh, platform_of(mesh).memory(mesh, workers))
    lock = Lock()

    def compute_group(group):
        nonlocal size
        while True:
            tried = size
            try:
                # A thread does not inherit the caller's settings.
                with settings.of_sweep():
                    with lock:
                        program = programs.compiled(plan.traced, tried, mesh)
                    return _in_pieces(plan, program, group, whole, tried, mesh)
            except (MemoryError, jax.errors.JaxRuntimeError) as error:
                smaller = halved(tried, plan.count)
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
    with closing(devices.completed(compute_group, groups, workers)) as computed:
        for group in computed:
            yield from group


def takes_turns(program: ClosedJaxpr) -> bool:
    """Whether a program decomposes matrices with a library, which needs XLA's threads.

    Two such programs at a time deadlock (observed with jaxlib 0.10.2 on two cores).
    """
    return any(eqn.primitive.name in _BY_LIBRARY for eqn in equations(program.jaxpr))


def _fitting(plan, size, mesh, limit) -> tuple[int, int]:
    """The largest size, from ``size`` down, whose program needs at most ``limit`` bytes.

    If there is none, the result is the smallest size.
    """
    while programs.compiled(plan.traced, size, mesh).bytes_needed > limit:
        smaller = halved(size, plan.count)
        if smaller is None:
            break
        size = smaller
    return size


def _in_pieces(plan, program, group, whole, size, mesh) -> list:
    """Compute a group of blocks, one on each device, piece by piece.

    Args:
      plan: a Plan.
      program: computes a piece.
      group: the blocks.
      whole: the points and seeds of the largest block.
      size: the points and seeds of a piece.
      mesh: the devices of this process, or None.

    Returns:
      [(block, cells)] for all blocks of the group.
    """
    cells = [None] * len(group)
    seeds = [np.pad(block.seeds, (0, whole[1] - len(block.seeds)), "edge") for block in group]
    for point, seed in product(*(range(0, n, m) for n, m in zip(whole, size, strict=True))):
        pieces = [
            Block(block.point + point, piece_seeds[seed:])
            for block, piece_seeds in zip(group, seeds, strict=True)
        ]
        for i, part in enumerate(_run(plan, program, pieces, size, mesh)):
            if cells[i] is None:
                cells[i] = empty(whole[0], len(group[i].seeds), part)
            put(cells[i], part, point, seed)
    return list(zip(group, cells, strict=True))


def _run(plan, program, blocks, size, mesh) -> list:
    """Run the program on blocks, one on each device.

    Each block is cut to ``size`` points and seeds, or padded to them by repetition.

    Returns:
      For each block, the fields of a Result without its rounds.
    """
    leaves = jax.tree.leaves(plan.points)
    structure = jax.tree.structure(plan.traced.output)

    def arguments(block):
        rows = np.minimum(np.arange(block.point, block.point + size[0]), plan.count - 1)
        seeds = np.pad(block.seeds[: size[1]], (0, max(0, size[1] - len(block.seeds))), "edge")
        return [leaf[rows] for leaf in leaves], seeds

    def on_host(output):
        """The output with points and seeds as its first axes. They are last in the program."""
        output = [np.moveaxis(np.asarray(leaf), (-2, -1), (0, 1)) for leaf in output]
        return jax.tree.unflatten(structure, output)

    inputs = [arguments(block) for block in blocks]
    common = jr.key_data(plan.key), plan.traced.lifted.vectors
    if mesh is None:
        return [on_host(program.run(*inputs[0], common))]
    inputs += inputs[-1:] * (mesh.size - len(inputs))
    one_each, same = devices.shardings(mesh)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *inputs)
    output = program.run(*jax.device_put(stacked, one_each), jax.device_put(common, same))
    output = [np.asarray(leaf) for leaf in output]
    return [on_host([leaf[i] for leaf in output]) for i in range(len(blocks))]
