"""The cores, devices and processes that a sweep runs on, and their memory."""

import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS = "blocks"
_GROUPS = Path("/sys/fs/cgroup")  # Linux's control groups
_OWN_GROUPS = Path("/proc/self/cgroup")  # the groups that this process is in


def cores() -> int:
    """How many cores this process may use; all of the machine's where the system cannot say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_mesh(mesh) -> None:
    """Refuses a mesh that is neither a jax.sharding.Mesh nor None."""
    if mesh is not None and not isinstance(mesh, Mesh):
        raise TypeError(
            "mesh must be a jax.sharding.Mesh, such as jax.make_mesh((8,), ('seeds',)), or None; "
            f"got {type(mesh).__name__}"
        )


def platform(mesh) -> str:
    """The platform of a mesh's devices, or of the devices that JAX uses by default."""
    return jax.default_backend() if mesh is None else mesh.devices.flat[0].platform


def processes(mesh) -> int:
    """How many processes hold the devices of a mesh."""
    return 1 if mesh is None else len({device.process_index for device in mesh.devices.flat})


def local(mesh) -> Mesh | None:
    """The devices of a mesh that belong to this process, on one axis; None if there is no mesh.

    Raises:
      ValueError: no device of the mesh belongs to this process.
    """
    if mesh is None:
        return None
    mine = [d for d in mesh.devices.flat if d.process_index == jax.process_index()]
    if not mine:
        raise ValueError(f"mesh holds no device of this process, number {jax.process_index()}")
    return Mesh(np.array(mine), (_AXIS,))


def share(mesh, tasks) -> list:
    """The tasks of this process, where all tasks are dealt to the devices of a mesh in turn."""
    if mesh is None:
        return list(tasks)
    owners = [device.process_index for device in mesh.devices.flat]
    mine = jax.process_index()
    return [task for i, task in enumerate(tasks) if owners[i % len(owners)] == mine]


def wait_for_all(what) -> None:
    """Waits until every process of this run has called it; does nothing in a single process."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def shardings(mesh) -> tuple:
    """Two shardings: one entry of the first axis on each device, and the same on all devices."""
    return NamedSharding(mesh, PartitionSpec(_AXIS)), NamedSharding(mesh, PartitionSpec())


def shard(function, mesh):
    """``function(*blocks, same)``, run on each device for its own entry of the blocks' first axis.

    Each device runs the program that a single device would run, with the same shapes, and exchanges
    nothing with the others.
    """

    def one(*arguments):
        *blocks, same = arguments
        own = jax.tree.map(lambda leaf: leaf[0], blocks)
        return jax.tree.map(lambda leaf: leaf[None], function(*own, same))

    def sharded(*arguments):
        specs = (*[PartitionSpec(_AXIS)] * (len(arguments) - 1), PartitionSpec())
        # The check finds mistakes in collectives. There are none here.
        return jax.shard_map(
            one, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(_AXIS), check_vma=False
        )(*arguments)

    return sharded


def completed(function, tasks, workers):
    """Yields ``function(task)`` of each task, in the order in which they finish.

    ``workers`` threads compute them. They wait for a slow reader once a few results are unread, so
    that results do not fill the memory.
    """
    tasks, waiting = iter(tasks), set()
    with ThreadPoolExecutor(workers) as pool:
        try:
            while True:
                for task in islice(tasks, 2 * workers - len(waiting)):
                    waiting.add(pool.submit(function, task))
                if not waiting:
                    return
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def memory(mesh, workers) -> float:
    """The bytes that each program may use while all of them run; inf where nobody knows.

    An accelerator gives a program nine tenths of its memory. On CPU the programs share half of what
    the machine has, or the process's control group allows. The other half is for results and for
    other processes.
    """
    if platform(mesh) == "cpu":
        return 0.5 * _machine_memory() / (workers if mesh is None else mesh.size)
    device = jax.devices()[0] if mesh is None else mesh.devices.flat[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return 0.9 * limit if limit else np.inf


def _machine_memory() -> float:
    try:
        limits = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    except (AttributeError, ValueError, OSError):
        return np.inf
    # Batch systems give a job a part of the machine, by a limit of any of its control groups.
    files = []
    if _OWN_GROUPS.is_file():
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):  # of version 2 and of version 1
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                own = _GROUPS / controllers / group.lstrip("/")
                files += [folder / name for folder in [own, *own.parents]]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return min(limits + [float(text) for text in texts if text.isdigit()])


def bytes_needed(program) -> int:
    """The bytes that a run of a program needs on each device, beside its code; 0 if unknown."""
    needs = program.memory_analysis()
    if needs is None:
        return 0
    return needs.temp_size_in_bytes + needs.argument_size_in_bytes + needs.output_size_in_bytes


def out_of_memory(error) -> bool:
    """Whether an error says that the memory did not suffice."""
    return isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    )
