"""Says where a sweep runs: on which cores, devices and processes, and with how much memory."""

import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS = "blocks"
# Linux's control groups, and the file that names those of this process.
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> int:
    """The number of cores that this process may use, or of all where the system cannot say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_mesh(mesh) -> None:
    """Raises a TypeError, in one sentence, for what is neither a mesh nor None."""
    if mesh is not None and not isinstance(mesh, Mesh):
        raise TypeError(
            "mesh must be a jax.sharding.Mesh, such as jax.make_mesh((8,), ('seeds',)), or None; "
            f"got {type(mesh).__name__}"
        )


def processes(mesh) -> int:
    """How many processes hold the devices of a mesh."""
    return 1 if mesh is None else len({device.process_index for device in mesh.devices.flat})


def local(mesh) -> Mesh | None:
    """The devices of a mesh that belong to this process, on one axis; None where mesh is None.

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
    """The tasks that fall to this process; all are dealt to the devices of a mesh in turn."""
    if mesh is None:
        return list(tasks)
    owners = [device.process_index for device in mesh.devices.flat]
    mine = jax.process_index()
    return [task for i, task in enumerate(tasks) if owners[i % len(owners)] == mine]


def wait_for_all(what) -> None:
    """Returns when every process of this run has come here; at once where there is only one."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def shardings(mesh) -> tuple:
    """Two shardings: one entry of the first axis on each device, and the same on all devices."""
    return NamedSharding(mesh, PartitionSpec(_AXIS)), NamedSharding(mesh, PartitionSpec())


def shard(function, mesh):
    """``function(*blocks, same)`` on each device, for its own entry of the first axis of blocks.

    A device runs the program that a single device would run, and talks to no other.
    """

    def one(*arguments):
        *blocks, same = arguments
        own = jax.tree.map(lambda leaf: leaf[0], blocks)
        return jax.tree.map(lambda leaf: leaf[None], function(*own, same))

    def sharded(*arguments):
        specs = (*[PartitionSpec(_AXIS)] * (len(arguments) - 1), PartitionSpec())
        # There are no collectives, so nothing varies that the check could find.
        return jax.shard_map(
            one, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(_AXIS), check_vma=False
        )(*arguments)

    return sharded


def completed(function, tasks, workers):
    """Yields ``function(task)`` of each task as it is done, computed by so many threads.

    Few results wait to be read, so that a slow reader holds the threads up instead of filling the
    memory.
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


def share_of_machine(mesh, workers) -> float:
    """Bytes that one program may use on CPU where ``workers`` run at once; inf where nobody knows.

    They are a share of half of what the machine has or the process's control group allows; the
    rest is for results, and for others.
    """
    return 0.5 * _machine_memory() / (workers if mesh is None else mesh.size)


def share_of_device(mesh, workers) -> float:
    """Bytes that one program may use on an accelerator, nine tenths of its own memory."""
    del workers  # each device runs one program
    device = jax.devices()[0] if mesh is None else mesh.devices.flat[0]
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return 0.9 * limit if limit else np.inf


def _machine_memory() -> float:
    try:
        limits = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    except (AttributeError, ValueError, OSError):
        return np.inf
    # Batch systems grant a job a part of the machine: a limit of any of its control groups.
    files = []
    if _OWN_GROUPS.is_file():
        for line in _OWN_GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):  # versions 2 and 1
                name = "memory.limit_in_bytes" if controllers else "memory.max"
                own = _GROUPS / controllers / group.lstrip("/")
                files += [folder / name for folder in [own, *own.parents]]
    texts = [file.read_text().strip() for file in files if file.is_file()]
    return min(limits + [float(text) for text in texts if text.isdigit()])


def bytes_needed(program) -> int:
    """Bytes that a compiled program needs on each device beside its code; 0 where nobody knows."""
    needs = program.memory_analysis()
    if needs is None:
        return 0
    return needs.temp_size_in_bytes + needs.argument_size_in_bytes + needs.output_size_in_bytes


def out_of_memory(error) -> bool:
    """Whether an error says that the memory did not suffice."""
    return isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
    )
