"""Compiles programs for devices: the only module that distinguishes CPU, GPU and TPU.

A :class:`Platform` defines how programs are compiled for one kind of device, and how many trials,
threads and bytes they use. The layouts of a platform are tried in order, and for each layout all
compilers of the platform. A layout or a compiler that does not support a program raises
:class:`dpjax.engine.one_kernel.Unfit` with the reason. It does so before XLA compiles anything,
unless XLA itself refuses the program. The last layout and the last compiler support every program.

The reasons are logged; an error that is not a refusal is logged as a warning. To see why a sweep
was not compiled in a faster way, call ``logging.getLogger("dpjax").setLevel("INFO")`` and add a
handler.
"""

import logging
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import Mesh

from dpjax.core import generators
from dpjax.engine import devices, one_kernel
from dpjax.engine.batch_last import batch_last

_log = logging.getLogger(__name__)
# Errors by which kernels and compilers refuse a program that they do not support.
_REFUSALS = one_kernel.Unfit, NotImplementedError, jax.errors.JaxRuntimeError


class Platform(NamedTuple):
    """How programs are compiled for one kind of device, and how much of the device they use."""

    layouts: tuple[Callable, ...]  # each (program, size, platform) -> function of a block
    compilers: tuple[Callable, ...]  # each (function, arguments, batched, spread) -> program
    isolate_draws: bool  # whether draws get separate kernels, as in batch_last
    chunk: int  # how many trajectories are computed at once by default
    seeds: int  # a block with at least this many seeds runs at full speed
    fewest: int  # a block with fewer trajectories takes as long as one with this many
    threads: Callable[[], int]  # () -> how many threads run programs if there is no mesh
    memory: Callable  # (mesh, threads) -> bytes that one program may use; inf if unknown


def _whole(function, arguments, batched, spread):
    """Compile a function unchanged, for all trials at once."""
    del batched
    with warnings.catch_warnings():  # about the kernels of this package, which users cannot change
        warnings.filterwarnings("ignore", "The Pallas Triton backend", DeprecationWarning)
        return jax.jit(spread(function)).lower(*arguments).compile()


def trials_last(program: ClosedJaxpr, size: tuple[int, int], platform: Platform) -> Callable:
    """The function of a block whose arrays have the trials as their last axis."""
    del size
    return block_function(program, platform.isolate_draws)


def over_trials(function: Callable) -> Callable:
    """The function of a block, from a function of trials.

    In the function of trials, points and seeds have one common last axis. A single point is shared
    by all trials and does not have this axis.
    """

    def of_block(points, seeds, common):
        count = len(points[0])
        if count == 1:
            points, every = [leaf[0] for leaf in points], seeds
        else:
            points = [jnp.repeat(jnp.moveaxis(x, 0, -1), len(seeds), axis=-1) for x in points]
            every = jnp.tile(seeds, count)
        results = function(points, every, common)
        return [jnp.reshape(x, (*x.shape[:-1], count, len(seeds))) for x in results]

    return of_block


CPU = Platform(
    layouts=(trials_last,),
    compilers=(one_kernel.as_one_kernel, one_kernel.as_many_kernels),
    isolate_draws=True,
    chunk=4096,
    seeds=64,
    fewest=8,
    threads=devices.cores,
    memory=devices.share_of_machine,
)
# This platform has not been measured on an accelerator. The chunk should fill an accelerator: by
# the compilers' estimates, an H100 runs 135 to 270 thousand trials at once.
ACCELERATOR = Platform(
    layouts=(trials_last,),
    compilers=(_whole,),
    isolate_draws=False,
    chunk=2**18,
    seeds=2**18,
    fewest=2,
    threads=lambda: 1,
    memory=devices.share_of_device,
)


# The platforms by kind of device. dpjax.kernels adds the platforms with kernels.
PLATFORMS = {"cpu": CPU}


def platform_of(mesh: Mesh | None) -> Platform:
    """The platform of a mesh, or of the devices that JAX uses by default."""
    device = devices.default() if mesh is None else mesh.devices.flat[0]
    cuda = device.platform == "gpu" and "cuda" in device.client.platform_version
    return PLATFORMS.get("cuda" if cuda else device.platform, ACCELERATOR)


def compile_block(traced, size: tuple[int, int], mesh: Mesh | None):
    """Compile a traced game for a block of points x seeds.

    Args:
      traced: a :class:`dpjax.engine.programs.Traced`.
      size: (P, S), the points and seeds of the block.
      mesh: the devices, each of which computes its own block; None for one device.

    Returns:
      The compiled program: (leaves of points (P, ...), seeds (S,), (words, vectors)) -> leaves of
      the results of cells, (..., P, S). The words (2,) are those of the key, because a program that
      takes a key of a generator of dpjax cannot be serialized. The vectors are those of
      ``traced.lifted``. With a mesh, points, seeds and outputs have a leading axis of devices.
    """
    platform = platform_of(mesh)
    spread = _alone if mesh is None else partial(devices.shard, mesh=mesh)
    program = traced.to_compile()
    *blocks, (key, vectors) = block_shapes(traced, size, mesh)
    words = jax.ShapeDtypeStruct((2,), jnp.uint32, sharding=key.sharding)
    shapes = (*blocks, (words, vectors))

    def compiled(layout):
        of_block = layout(program, size, platform)

        def of_words(points, seeds, common):
            words, vectors = common
            return of_block(points, seeds, (generators.KNOWN[str(key.dtype)].wrap(words), vectors))

        return compile_for(platform, of_words, shapes, (False, True, False), spread)

    *preferred, last = platform.layouts
    for layout in preferred:
        try:
            return compiled(layout)
        except Exception as reason:  # compilers refuse a kernel with many kinds of error
            if devices.out_of_memory(reason):
                raise
            _slower(layout, reason)
    return compiled(last)


def _slower(way, reason) -> None:
    """Log why a program is compiled in a slower way; an unexpected reason is a warning."""
    level = logging.INFO if isinstance(reason, _REFUSALS) else logging.WARNING
    targets = getattr(way, "keywords", {}).values()
    name = " ".join([getattr(way, "func", way).__name__, *targets])
    _log.log(level, "%s cannot be used: %s: %s", name, type(reason).__name__, reason)


def compile_trials(function: Callable, arguments: Sequence, batched: Sequence[bool]):
    """Compile a function of one trial for many trials, on JAX's default device.

    Args:
      function: takes pytrees of arrays, for one trial.
      arguments: the arguments of all trials, arrays or jax.ShapeDtypeStruct.
      batched: for each argument, whether its leaves have the trials as their last axis.

    Returns:
      The compiled program. Its outputs have the trials as their last axis.
    """
    platform = platform_of(None)
    function = batch_last(function, batched, isolate_draws=platform.isolate_draws)
    return compile_for(platform, function, arguments, batched)


def _alone(function):
    return function


def compile_for(
    platform: Platform,
    function: Callable,
    arguments: Sequence,
    batched: Sequence[bool],
    spread: Callable = _alone,
):
    """Compile a function with the first of a platform's compilers that supports it.

    Args:
      platform: a Platform.
      function: takes pytrees of arrays, some with the trials as their last axis. Its results have
        this axis too, and the results of a trial do not depend on other trials.
      arguments: the arguments of the program, arrays or jax.ShapeDtypeStruct.
      batched: for each argument, whether its leaves have this axis.
      spread: transforms the function into the program, as ``jax.shard_map`` does; by default the
        function is the program.
    """
    *preferred, last = platform.compilers
    for compiler in preferred:
        try:
            return compiler(function, arguments, batched, spread)
        except one_kernel.Unfit as reason:
            _slower(compiler, reason)
    return last(function, arguments, batched, spread)


def block_function(program: ClosedJaxpr, isolate_draws: bool) -> Callable:
    """The function of a block that :func:`compile_block` compiles.

    Points are mapped first. So a value that does not depend on the point, such as a draw of the
    environment, is computed once for each seed.

    Args:
      program: the ClosedJaxpr of a cell, of (*leaves of the point, seed, key, *vectors).
      isolate_draws: as in :class:`Platform`.
    """
    of_cell = jaxpr_as_fun(program)

    def cell(point, seed, common):
        return of_cell(*point, seed, *jax.tree.leaves(common))

    over_points = batch_last(cell, (True, False, False), isolate_draws=isolate_draws)

    def over_seeds(points, seeds, common):
        if len(points[0]) == 1:
            point = [leaf[0] for leaf in points]
            result = batch_last(cell, (False, True, False), isolate_draws=isolate_draws)(
                point, seeds, common
            )
            return [jnp.expand_dims(leaf, -2) for leaf in result]
        points = [jnp.moveaxis(leaf, 0, -1) for leaf in points]
        return batch_last(over_points, (False, True, False), isolate_draws=isolate_draws)(
            points, seeds, common
        )

    return over_seeds


def block_shapes(traced, size: tuple[int, int], mesh: Mesh | None) -> tuple:
    """The shapes of the arguments of a block's program, for the arguments of compile_block."""
    lead: tuple[int, ...] = ()
    one_each: Any = None
    same: Any = None
    if mesh is not None:
        lead, (one_each, same) = (mesh.size,), devices.shardings(mesh)

    def block(shape, dtype):
        return jax.ShapeDtypeStruct((*lead, *shape), dtype, sharding=one_each)

    points, seeds = size
    common = traced.program.in_avals[-1], traced.lifted.vectors
    return (
        [block((points, *shape), jnp.float32) for shape in traced.point],
        block((seeds,), jnp.int32),
        jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=same), common),
    )
