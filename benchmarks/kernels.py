"""Compile every learner's game for accelerators without having one, and count kernels and spills.

    pip install -e '.[compilers]'
    python benchmarks/kernels.py                      # all learners, for an H100 and a TPU v5e
    python benchmarks/kernels.py exp3 W4 W5 --targets triton xla --json FILE   # learners, workloads

Nothing runs on an accelerator: all numbers come from compilers. Each row is a learner's game with
four arms or dimensions, 4096 rounds and 65536 trials, in the first layout that compiles (see
dpjax/engine/compile.py). Targets are an H100 through Triton or Mosaic, and a TPU through Mosaic.
The target xla is ``jit`` of ``vmap`` of the game, for an H100. The columns are

- the layout: one kernel, or arrays with the trials last, with the reason why one kernel failed;
- the kernels of the whole game. If the layout is one kernel, a single kernel runs all rounds;
- for the H100: registers per thread, bytes spilled, bytes of shared memory, and instructions in the
  loop over rounds;
- for the TPU: bundles in that loop, for 1024 trials;
- for XLA: the kernels of the loop over rounds, which each round starts;
- CPU seconds for tracing, lowering and compiling.

An instruction in a loop within a round, such as the steps of a root finder, counts once. Each row
has its own process and takes 5 to 40 seconds.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The description of an H100 that its compiler requires.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024  threads_per_warp: 32  shared_memory_per_block: 49152
  shared_memory_per_core: 233472  threads_per_core_limit: 2048  core_count: 132
  fpus_per_core: 128  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535
  block_dim_limit_z: 65535  memory_bandwidth: 3352320000000  l2_cache_size: 52428800
  clock_rate_ghz: 1.98  device_memory_size: 84942979072
  shared_memory_per_block_optin: 232448  cuda_compute_capability { major: 9 minor: 0 }
  registers_per_core_limit: 65536  registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
TPU_SETTINGS = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
TRIALS, HORIZON = 65536, 4096
# Operations of a compiled program that launch no kernel.
_NO_KERNEL = {
    "after-all", "bitcast", "call", "conditional", "constant", "copy-done", "get-tuple-element",
    "opt-barrier", "parameter", "partition-id", "tuple", "while",
}  # fmt: skip
_OF_GPU = "kernels", "registers", "spilled", "shared", "instructions"
COLUMNS = {
    "triton": ("learner", "layout", *_OF_GPU, "seconds"),
    "mosaic_gpu": ("learner", "layout", *_OF_GPU, "seconds"),
    "tpu": ("learner", "layout", "kernels", "bundles", "seconds"),
    "xla": ("learner", "layout", "kernels a round", "seconds"),
}
# Nesting depth of the loop over rounds. Around it are loops over checkpoints, pieces and, on a TPU,
# trial blocks.
_DEPTH = {"cuda": 3, "tpu": 4}


def platform_of(target):
    """The kind of device of a target."""
    return "tpu" if target == "tpu" else "cuda"


def device(platform):
    """A description of a device of the platform, for compilers only."""
    from jax.experimental import topologies

    if platform == "tpu":
        return topologies.get_topology_desc("v5e:2x2", platform="tpu").devices[0]
    return topologies.get_topology_desc(
        "", platform="cuda", topology="1x1x1", target_config=H100
    ).devices[0]


def program_of(name, horizon=HORIZON):
    """The traced game of a learner or of a workload of benchmarks/workloads.py, by its name."""
    import numpy as np
    import workloads
    from jax import random as jr

    from dpjax import domains, learners, simulate
    from dpjax.learners import factories
    from dpjax.study.standard import drawn
    from dpjax.study.traces import trace

    sizes = {
        "actions": np.array([[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]]), "arms": 4, "delta": 1e-6,
        "dim": 3, "domain": domains.simplex(4), "epsilon": 1.0,
    }  # fmt: skip

    def game(epsilon):
        learner = factories.build(name, horizon, sizes, epsilon=epsilon)
        return learner, drawn(learner.action_set)

    play = simulate
    if name not in learners.__all__:
        workload = workloads.workload_of(name)
        game, play = workload.game(horizon), workload.play
    rounds = np.array([horizon // 2, horizon])
    return trace(game, play, rounds, np.ones(1, np.float32), jr.key(0).dtype)


def vmapped(program, size, platform):
    """The function of a block of one point, as ``vmap`` of the traced game."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    cell = jaxpr_as_fun(program)

    def trials(points, seeds, common):
        point, common = [x[0] for x in points], jax.tree.leaves(common)
        return jax.vmap(lambda seed: cell(*point, seed, *common))(seeds)

    return trials


def compiled(name, target, options=None):
    """(a learner's compiled game, the layout that compiled, why earlier layouts failed)."""
    from functools import partial

    import jax
    from jax.sharding import SingleDeviceSharding

    from dpjax.engine import compile
    from dpjax.kernels import one_kernel

    platform = platform_of(target)

    if platform == "tpu":  # Pallas asks the default device which kind of TPU it is
        from jax._src.pallas.mosaic import tpu_info

        tpu_info.get_device_kind = lambda: "TPU v5 lite"
        tpu_info.get_num_device_cores = lambda: 1
    traced = program_of(name)
    here = compile.PLATFORMS[platform]
    layouts = (vmapped,) if target == "xla" else (
        partial(one_kernel, target=target), compile.trials_last
    )  # fmt: skip
    size, place = (1, TRIALS), SingleDeviceSharding(device(platform))
    shapes = compile.block_shapes(traced, size, None)
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), shapes)
    reasons = []
    for layout in layouts:
        title = getattr(layout, "func", layout).__name__.replace("_", " ")
        try:
            function = layout(traced.program, size, here)
            lowered = jax.jit(function).trace(*shapes).lower(lowering_platforms=(platform,))
            return lowered.compile(options), title, "; ".join(reasons)
        except Exception as error:  # as compile.compile_block does
            reasons.append(str(error).splitlines()[0])
    raise RuntimeError("; ".join(reasons))


def computations(text) -> dict:
    """The number of kernels that each computation of a compiled program starts."""
    found = {}
    computation = r"^((?:ENTRY )?%?[\w.\-]+) \([^\n]*\{\n(.*?)^\}"
    for title, body in re.findall(computation, text, re.M | re.S):
        names = re.findall(r"= (?:\([^=]*?\)|\S+) ([a-z][\w\-]*)\(", body)
        found[title] = sum(each not in _NO_KERNEL for each in names)
    return found


def kernels(text) -> int:
    """Counts the kernels of a compiled program, inside and outside of loops."""
    return sum(
        count
        for title, count in computations(text).items()
        if ("fused" not in title and "region" not in title) or title.startswith("ENTRY")
    )


def kernels_a_round(text) -> int:
    """Counts the kernels of the loop with the most kernels."""
    bodies = {f"%{name}" for name in re.findall(r"body=%?([\w.\-]+)", text)}
    return max(count for title, count in computations(text).items() if title in bodies)


def of_cuda(folder, _) -> dict:
    """Registers, spilled bytes and instructions per round of the kernel in a dump."""
    import nvidia

    tools = Path(next(iter(nvidia.__path__))) / "cu13" / "bin"
    # Triton names the kernel after its function, and Mosaic adds a suffix.
    kernel = re.compile(r"\.entry (kernel|body_mosaic_gpu_kernel)\(")
    (source,) = (x for x in folder.glob("*.ptx") if kernel.search(x.read_text()))
    binary = folder / "kernel.cubin"
    report = _output(tools / "ptxas", "-v", "-arch=sm_90a", "-o", binary, source)
    text = _output(tools / "nvdisasm", "-c", binary)
    return {
        "registers": int(re.search(r"Used (\d+) registers", report)[1]),
        "spilled": int(re.search(r"(\d+) bytes spill stores", report)[1]),
        "shared": int((re.search(r"(\d+) bytes smem", report) or [0, 0])[1]),
        "instructions": instructions_a_round(text),
    }


def _output(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def instructions_a_round(text) -> int:
    """Instructions in the loop over rounds, which is the longest loop at its nesting depth."""
    labels, jumps, count = {}, [], 0
    for line in text.splitlines():
        if found := re.match(r"^(\.L_x_\d+):", line):
            labels[found[1]] = count
        elif re.search(r"/\*[0-9a-f]{4,}\*/\s+[@A-Z]", line):
            if found := re.search(r"BRA.*`\((\.L_x_\d+)\)", line):
                jumps.append((found[1], count))
            count += 1
    loops = {(labels[x], end) for x, end in jumps if labels.get(x, count) < end}
    inside = {(a, b): sum(c <= a and b <= d for c, d in loops) for a, b in loops}
    return max(b - a + 1 for (a, b), depth in inside.items() if depth == _DEPTH["cuda"])


def of_tpu(folder, text) -> dict:
    """Bundles per round of the kernel in a dump."""
    call = re.search(r"%?([\w.\-]+) = [^\n]*custom_call_target=\"tpu_custom_call\"", text)[1]
    (file,) = folder.glob(f"*-{call}-*-final_bundles.txt")
    line = r"^\s*(?:0x[0-9a-f]+|0)\s+(?:[A-Z]{2})?\s*:\s*([> ]*)\{"
    depths = re.findall(line, file.read_text(), re.M)
    return {"bundles": sum(depth.count(">") >= _DEPTH["tpu"] for depth in depths)}


def row(name, target) -> dict:
    """The table row of a learner. The process must compile no other program."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    folder = Path(os.environ["DPJAX_DUMP"])
    begin = time.process_time()
    options = {"xla_dump_to": str(folder)} if platform_of(target) == "cuda" else None
    program, layout, reason = compiled(name, target, options)
    seconds = round(time.process_time() - begin, 1)
    found = {
        "learner": name,
        "layout": layout,
        "why": reason,
        "kernels": kernels(program.as_text()),
    }
    if target == "xla":
        found["kernels a round"] = kernels_a_round(program.as_text())
    if layout == "one kernel":
        found |= {"cuda": of_cuda, "tpu": of_tpu}[platform_of(target)](folder, program.as_text())
    return found | {"seconds": seconds}


def in_process(name, target) -> dict:
    """The table row of a learner, computed in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, **TPU_SETTINGS, "DPJAX_DUMP": folder,
            "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
            "MOSAIC_GPU_DUMP_PTX": "1", "MOSAIC_GPU_DUMP_TO": folder,
            "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={folder} --xla_jf_dump_llo_text=true",
        }  # fmt: skip
        command = [sys.executable, __file__, name, "--targets", target, "--row"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            return {"learner": name, "layout": "error", "why": done.stderr.splitlines()[-1]}
        return json.loads(done.stdout.splitlines()[-1])


def main():
    """Prints a Markdown table for each target, row by row."""
    from dpjax import learners

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("learners", nargs="*", metavar="LEARNER")
    parser.add_argument("--targets", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    if arguments.row:
        print(json.dumps(row(*arguments.learners, *arguments.targets)))
        return
    rows = {target: [] for target in arguments.targets}
    for target, found in rows.items():
        columns = COLUMNS[target]
        print(f"\n{target}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
        for name in arguments.learners or learners.__all__:
            found.append(in_process(name, target))
            cells = [str(found[-1].get(column, "")) for column in columns]
            if found[-1].get("why"):
                cells[1] += f" ({found[-1]['why']})"
            print(f"| {' | '.join(cells)} |", flush=True)
        served = sum(each["layout"] == "one kernel" for each in found)
        if target != "xla":
            print(f"\n{served} of {len(found)} in one kernel")
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
