"""The cores, devices, processes and memory on which a sweep runs."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dpjax.core import _check

_AXIS = "blocks"
# Linux control groups, and the file that names the groups of this process.
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> int:
    """The number of cores that this process may use; the number of all cores if unknown."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default() -> jax.Device:
    """The device that runs programs if there is no mesh."""
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    if isinstance(chosen, jax.Device):
        return chosen
    return jax.local_devices(backend=chosen)[0]


def check_mesh(mesh: Mesh | None) -> None:
    """Require a mesh or None."""
    if mesh is not None:
        _check.built(Mesh, "jax.make_mesh((8,), ('seeds',))", mesh=mesh)


def processes(mesh: Mesh | None) -> int:
    """How many processes hold the devices of a mesh."""
    return 1 if mesh is None else len({device.process_index for device in mesh.devices.flat})


def local(mesh: Mesh | None) -> Mesh | None:
    """The devices of a mesh that belong to this process, on one axis; None if mesh is None.

    Raises:
      ValueError: no device of the mesh belongs to this process.
    """
    if mesh is None:
        return None
    mine = [d for d in mesh.devices.flat if d.process_index == jax.process_index()]
    if not mine:
        raise ValueError(f"mesh has no device of this process (number {jax.process_index()})")
    return Mesh(np.array(mine), (_AXIS,))


def share(mesh: Mesh | None, tasks: Iterable) -> list:
    """The tasks of this process. Tasks are assigned to the devices of a mesh in turn."""
    if mesh is None:
        return list(tasks)
    owners = [device.process_index for device in mesh.devices.flat]
    mine = jax.process_index()
    return [task for i, task in enumerate(tasks) if owners[i % len(owners)] == mine]


def wait_for_all(what: str) -> None:
    """Wait until every process of this run has reached this point."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def shardings(mesh: Mesh) -> tuple:
    """Two shardings: one entry of the first axis per device, and replicated on all devices."""
    return NamedSharding(mesh, PartitionSpec(_AXIS)), NamedSharding(mesh, PartitionSpec())


def shard(function: Callable, mesh: Mesh):
    """``function(*blocks, same)`` on each device, for its own entry of the first axis of blocks.

    Each device runs the program of a single device, without communication.
    """

    def one(*arguments):
        *blocks, same = arguments
        block = jax.tree.map(lambda leaf: leaf[0], blocks)
        return jax.tree.map(lambda leaf: leaf[None], function(*block, same))

    def sharded(*arguments):
        specs = (*[PartitionSpec(_AXIS)] * (len(arguments) - 1), PartitionSpec())
        # The check is for collectives, and this function has none.
        return jax.shard_map(
            one, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(_AXIS), check_vma=False
        )(*arguments)

    return sharded


def completed(function: Callable, tasks: Iterable, workers: int):
    """Compute ``function(task)`` in ``workers`` threads, and yield each result when it is done.

    The number of waiting results is limited. So a slow reader blocks the threads instead of filling
    the memory.
    """
    tasks, waiting = iter(tasks), set[Future]()
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


def share_of_machine(mesh: Mesh | None, workers: int) -> float:
    """Bytes that one program may use on CPU if ``workers`` run at once; inf if unknown.

    The programs share half of the available memory, which is the machine's memory or the limit of
    the process's control groups, if lower. The other half is for results and other processes.
    """
    return 0.5 * _machine_memory() / (workers if mesh is None else mesh.size)


def share_of_device(mesh: Mesh | None, workers: int) -> float:
    """Bytes that one program may use on an accelerator: nine tenths of the device's memory."""
    del workers  # each device runs one program
    device = default() if mesh is None else mesh.devices.flat[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return 0.9 * limit if limit else np.inf


def _machine_memory() -> float:
    try:
        limits = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    except (AttributeError, ValueError, OSError):
        return np.inf
    # A batch system may limit the memory of a job by any of the job's control groups.
    files = []
    if _OWN_GROUPS.is_file():
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):  # versions 2 and 1
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                group_folder = _GROUPS / controllers / group.lstrip("/")
                files += [folder / name for folder in [group_folder, *group_folder.parents]]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return min(limits + [float(text) for text in texts if text.isdigit()])


def bytes_needed(program) -> int:
    """Bytes that a compiled program needs on each device besides its code; 0 if unknown."""
    needs = program.memory_analysis()
    if needs is None:
        return 0
    return needs.temp_size_in_bytes + needs.argument_size_in_bytes + needs.output_size_in_bytes


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory was insufficient."""
    return isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    )
