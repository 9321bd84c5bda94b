"""Rounds x trials per second on 1 and 2 cores, with threads, a device mesh or processes.

``python benchmarks/throughput.py [--quick] [--repeats N]`` prints the table of README.md. Each
arrangement, such as two threads, is a set of processes that compile once. Then the arrangements
play in turn. If jax finds an accelerator, one more arrangement plays on it.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time

TRIALS, HORIZON = 4096, 4096
# {name: (processes, devices per process (0: no mesh), cores per process)}
ARRANGEMENTS = {
    "1 core": (1, 0, 1),
    "2 cores, threads": (1, 0, 2),
    "2 cores, mesh of 2 devices": (1, 2, 2),
    "2 processes of 1 core": (2, 1, 1),
}
WORKLOADS = ["dp_exp3_lap", "ftrl"]


def game_of(name, horizon):
    from dpjax import domains, environments, learners

    def bandit(epsilon):
        learner = learners.dp_exp3_lap(horizon, 4, epsilon=epsilon)
        return learner, environments.bernoulli([0.45, 0.5, 0.5, 0.5])

    def full_information(epsilon):
        simplex = domains.simplex(10)
        learner = learners.ftrl(horizon, simplex, epsilon=epsilon)
        return learner, environments.linear_losses(simplex, "iid")

    return bandit if name == "dp_exp3_lap" else full_information


def child(options) -> None:
    """Plays one process's share once per line of input, and prints the seconds that it took."""
    first, count = options.core, options.cores
    if count:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[first : first + count]))
    import jax
    import numpy as np

    from dpjax import simulate
    from dpjax.engine import devices
    from dpjax.engine.compute import compute
    from dpjax.study.sweep import planned

    if options.devices > 1:
        jax.config.update("jax_num_cpu_devices", options.devices)
    if options.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{options.port}", options.processes, options.process)
    mesh = jax.make_mesh((jax.device_count(),), ("devices",)) if options.devices else None
    game = game_of(options.workload, options.horizon)
    epsilons = np.array([1.0], np.float32)
    plan = planned(game, epsilons, options.trials, jax.random.key(0), simulate, 10, None, mesh)
    own = plan.blocks(devices.share(mesh, plan.corners))
    for _ in sys.stdin:
        begin, busy = time.perf_counter(), time.process_time()
        for _ in compute(plan, own):
            pass
        print("seconds", time.perf_counter() - begin, time.process_time() - busy, flush=True)


class Arrangement:
    """Processes that are running and wait for a line of input to play."""

    def __init__(self, workload, horizon, trials, processes, devices, cores, platform="cpu"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.children = []
        for i in range(processes):
            sizes = {
                "workload": workload, "horizon": horizon, "trials": trials, "port": port,
                "processes": processes, "process": i, "devices": devices, "cores": cores,
                "core": i * cores,
            }  # fmt: skip
            words = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
            self.children.append(
                subprocess.Popen(
                    [sys.executable, __file__, "--child", *words],
                    env={**os.environ, "JAX_PLATFORMS": platform},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )

    def play(self) -> tuple[float, float]:
        """Seconds until the last process is done, and the CPU seconds of all processes."""
        for process in self.children:
            process.stdin.write("go\n")
            process.stdin.flush()
        times = []
        for process in self.children:
            for line in process.stdout:
                if line.startswith("seconds"):
                    times.append([float(word) for word in line.split()[1:]])
                    break
            else:
                raise RuntimeError("a process ended early; its message is above")
        return max(wall for wall, _ in times), sum(busy for _, busy in times)

    def end(self) -> None:
        for process in self.children:
            process.stdin.close()
        for process in self.children:
            process.wait(60)


def accelerator() -> str | None:
    """The accelerator that jax finds in a new process, or None."""
    code = "import jax; d = jax.devices()[0]; print(d.platform, d.device_kind)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    platform, _, kind = answer.stdout.strip().partition(" ")
    return None if platform in ("", "cpu") else kind


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="do a hundredth of the work")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    numbers = "horizon trials port processes process devices cores core"
    for name in numbers.split():
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    horizon, trials = (HORIZON // 16, TRIALS // 8) if options.quick else (HORIZON, TRIALS)
    kind = accelerator()
    print(f"load before: {os.getloadavg()[0]:.1f}; T = {horizon}, {trials} trials\n")
    print("| workload | where | rounds x trials a second | over 1 core | range | CPU time |")
    print("|---|---|---|---|---|---|")
    for workload in WORKLOADS:
        ready = {
            name: Arrangement(workload, horizon, trials, *how) for name, how in ARRANGEMENTS.items()
        }
        if kind:
            ready[kind] = Arrangement(workload, horizon, 16 * trials, 1, 0, 0, platform="")
        try:
            for arrangement in ready.values():
                arrangement.play()  # compiles
            times = {name: [] for name in ready}
            for _ in range(options.repeats):
                for name, arrangement in ready.items():
                    scale = 16 if name == kind else 1
                    times[name].append([seconds / scale for seconds in arrangement.play()])
        finally:
            for arrangement in ready.values():
                arrangement.end()
        for name, own in times.items():
            pairs = list(zip(times["1 core"], own, strict=True))
            ratios = [one[0] / other[0] for one, other in pairs]
            busy = statistics.median(other[1] / one[1] for one, other in pairs)
            rate = horizon * trials / min(wall for wall, _ in own)
            print(
                f"| {workload} | {name} | {rate:.3g} | {statistics.median(ratios):.2f} | "
                f"{min(ratios):.2f} to {max(ratios):.2f} | {busy:.2f} |",
                flush=True,
            )
    print(f"\nload after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
