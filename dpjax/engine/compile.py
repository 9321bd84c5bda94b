"""Compiles programs for the devices that run them: the one place where CPU, GPU and TPU part.

A :class:`Platform` says how programs are compiled for one kind of device, and how much of it they
use. Its forms of a program are tried in order, and for each of them its ways to compile. A form or
a way that cannot serve a program raises :class:`dpjax.engine.one_kernel.Unfit`, which names the
reason. It does so before XLA compiles anything, unless a compiler itself refuses the program. The
last form and the last way serve every program.

The reasons are logged: ``logging.getLogger("dpjax").setLevel("INFO")`` and a handler show why a
sweep was not compiled in a quicker form.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from dpjax.engine import devices, one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.engine.scalarize import carried_numbers, scalarized

_log = logging.getLogger(__name__)
# An accelerator keeps what a round changes in registers up to this many numbers of a trial. XLA
# makes a kernel of its own for each of more.
_MOST_CARRIED = 24


class Platform(NamedTuple):
    """How programs are compiled for one kind of device, and how much of it they use."""

    forms: tuple[Callable, ...]  # each (program, size, platform) -> function of a block
    ways: tuple[Callable, ...]  # each (function, arguments, batched, spread) -> compiled program
    apart: bool  # whether draws are kept in kernels of their own, as batch_last explains
    chunk: int  # how many trajectories are computed at once where the caller does not say
    threads: Callable[[], int]  # () -> how many threads run programs where there is no mesh
    memory: Callable  # (mesh, threads) -> bytes that one program may use; inf where nobody knows


def _whole(function, arguments, batched, spread):
    """Compiles a function as it is, for all trials at once."""
    del batched
    return jax.jit(spread(function)).lower(*arguments).compile()


def as_lanes(program, size, platform) -> Callable:
    """The function of a block whose arrays carry the trials as their last axis."""
    del size
    return block_function(program, platform.apart)


def as_numbers(program, size, platform) -> Callable:
    """The function of a block whose rounds are made of vectors of trials, one for each number.

    Points and seeds are one axis of trials.

    Raises:
      Unfit: the rounds cannot be written so, or they carry too many numbers.
    """
    points, _ = size
    flags = [points > 1] * (len(program.in_avals) - 2) + [True, False]
    program = scalarized(program, flags)
    count = carried_numbers(program)
    if count > _MOST_CARRIED:
        raise one_kernel.Unfit(f"a round carries {count} numbers, more than {_MOST_CARRIED}")
    of_cell = jaxpr_as_fun(program)

    def cell(point, seed, key):
        return of_cell(*point, seed, key)

    return over_trials(batch_last(cell, (points > 1, True, False), apart=platform.apart))


def as_kernel(program, size, platform, target) -> Callable:
    """The function of a block whose rounds are one kernel of an accelerator.

    Args:
      program, size, platform: as of the other forms.
      target: a name in :data:`dpjax.engine.kernel.TARGETS`.

    Raises:
      Unfit: the rounds cannot be written so, or they are too many equations for a compiler. What a
        kernel cannot hold shows when the function is traced, which raises it then.
    """
    # Pallas is experimental: what changes in it must not reach those who have no accelerator.
    from dpjax.engine import kernel

    del platform
    points, _ = size
    count = len(program.in_avals) - 2
    flags = [points > 1] * count + [True, False]
    play = kernel.played_by_kernel(scalarized(program, flags), flags, kernel.TARGETS[target])
    return over_trials(lambda point, seeds, key: play(*point, seeds, key))


def over_trials(function) -> Callable:
    """The function of a block, from one of trials whose points and seeds are one last axis.

    A single point is shared by all trials and has no such axis.
    """

    def of_block(points, seeds, key):
        count = len(points[0])
        if count == 1:
            points, own = [leaf[0] for leaf in points], seeds
        else:
            points = [jnp.repeat(jnp.moveaxis(x, 0, -1), len(seeds), axis=-1) for x in points]
            own = jnp.tile(seeds, count)
        results = function(points, own, key)
        return [jnp.reshape(x, (*x.shape[:-1], count, len(seeds))) for x in results]

    return of_block


CPU = Platform(
    forms=(as_lanes,),
    ways=(one_kernel.as_one_kernel, one_kernel.as_many_kernels),
    apart=True,
    chunk=4096,
    threads=devices.cores,
    memory=devices.share_of_machine,
)
# No accelerator has been measured yet. Of this kind are those for which there is no kernel. A chunk
# is as large as fills a card: by what compilers say, an H100 takes 135 to 270 thousand trials.
ACCELERATOR = Platform(
    forms=(as_numbers, as_lanes),
    ways=(_whole,),
    apart=False,
    chunk=2**18,
    threads=lambda: 1,
    memory=devices.share_of_device,
)
CUDA = ACCELERATOR._replace(forms=(partial(as_kernel, target="cuda"), *ACCELERATOR.forms))
TPU = ACCELERATOR._replace(forms=(partial(as_kernel, target="tpu"), *ACCELERATOR.forms))


def platform_of(mesh) -> Platform:
    """The platform of a mesh, or of the devices that JAX uses by default."""
    if mesh is None and jax.default_backend() == "cpu":
        return CPU
    device = jax.devices()[0] if mesh is None else mesh.devices.flat[0]
    if device.platform == "gpu":
        return CUDA if "cuda" in device.client.platform_version else ACCELERATOR
    return {"cpu": CPU, "tpu": TPU}.get(device.platform, ACCELERATOR)


def compile_block(traced, size, mesh):
    """Compiles a traced game for a block of points x seeds.

    Args:
      traced: a :class:`dpjax.engine.programs.Traced`.
      size: (P, S), the points and seeds of the block.
      mesh: the devices, each of which computes a block of its own; None for one device.

    Returns:
      The compiled program: (leaves of points (P, ...), seeds (S,), key) -> leaves of what a cell
      returns, (..., P, S). With a mesh, points, seeds and outputs have a leading axis of devices.
    """
    here = platform_of(mesh)
    spread = _alone if mesh is None else partial(devices.shard, mesh=mesh)
    shapes = block_shapes(traced, size, mesh)
    *preferred, last = here.forms
    for form in preferred:
        try:
            function = form(traced.program, size, here)
            return compile_for(here, function, shapes, (False, True, False), spread)
        except Exception as reason:  # compilers refuse a kernel by errors of many kinds
            if devices.out_of_memory(reason):
                raise
            _log.info("%s does not serve: %s", getattr(form, "func", form).__name__, reason)
    function = last(traced.program, size, here)
    return compile_for(here, function, shapes, (False, True, False), spread)


def compile_trials(function, arguments, batched):
    """Compiles a function of one trial for many trials, on a device that JAX uses by default.

    Args:
      function: of pytrees of arrays, for one trial.
      arguments: those of all trials, arrays or jax.ShapeDtypeStruct.
      batched: for each argument whether its leaves carry the trials as their last axis.

    Returns:
      The compiled program. Its outputs carry the trials as their last axis.
    """
    here = platform_of(None)
    function = batch_last(function, batched, apart=here.apart)
    return compile_for(here, function, arguments, batched)


def _alone(function):
    return function


def compile_for(platform, function, arguments, batched, spread=_alone):
    """Compiles a function in the first of a platform's ways that serves it.

    Args:
      platform: a Platform.
      function: of pytrees of arrays, some of which have the trials as their last axis. What it
        returns has that axis too. What it computes for a trial does not depend on the others.
      arguments: of the program, arrays or jax.ShapeDtypeStruct.
      batched: for each argument whether its leaves have that axis.
      spread: makes the program of the function, as ``jax.shard_map`` does; by default the function
        is the program.
    """
    *preferred, last = platform.ways
    for way in preferred:
        try:
            return way(function, arguments, batched, spread)
        except one_kernel.Unfit:
            continue
    return last(function, arguments, batched, spread)


def block_function(program, apart) -> Callable:
    """The function (leaves of points (P, ...), seeds (S,), key) -> leaves (..., P, S) of a block.

    Points are mapped first, so that what does not depend on the point, such as nature's draws, is
    computed once a seed.

    Args:
      program: the ClosedJaxpr of a cell, of (*leaves of the point, seed, key).
      apart: as of :class:`Platform`.
    """
    of_cell = jaxpr_as_fun(program)

    def cell(point, seed, key):
        return of_cell(*point, seed, key)

    over_points = batch_last(cell, (True, False, False), apart=apart)

    def over_seeds(points, seeds, key):
        if len(points[0]) == 1:
            point = [leaf[0] for leaf in points]
            result = batch_last(cell, (False, True, False), apart=apart)(point, seeds, key)
            return [jnp.expand_dims(leaf, -2) for leaf in result]
        points = [jnp.moveaxis(leaf, 0, -1) for leaf in points]
        return batch_last(over_points, (False, True, False), apart=apart)(points, seeds, key)

    return over_seeds


def block_shapes(traced, size, mesh) -> tuple:
    """The shapes of the arguments of a block's program; arguments are those of compile_block."""
    lead: tuple[int, ...] = ()
    one_each: Any = None
    same: Any = None
    if mesh is not None:
        lead, (one_each, same) = (mesh.size,), devices.shardings(mesh)

    def block(shape, dtype):
        return jax.ShapeDtypeStruct((*lead, *shape), dtype, sharding=one_each)

    points, seeds = size
    return (
        [block((points, *shape), jnp.float32) for shape in traced.point],
        block((seeds,), jnp.int32),
        jax.ShapeDtypeStruct((), traced.program.in_avals[-1].dtype, sharding=same),
    )
