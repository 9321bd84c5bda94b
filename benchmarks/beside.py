"""Times of this checkout beside another one: the same commands, in turn, and their ratios.

    python benchmarks/beside.py ../other               # all cases but full papers, five turns
    python benchmarks/beside.py ../other mine paper    # these cases
    python benchmarks/beside.py ../other --turns 1 trust    # a full paper, which takes minutes
    python benchmarks/beside.py ../other --list

Both use the packages of this environment. A cold run has empty caches, a warm one follows it. CPU
seconds include those of child processes. A ratio is this checkout's time over the other's: the
median over turns of the ratio within a turn, so the load of the machine matters little.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
PAPERS = ("agarwal2017", "agarwal2017_bandits", "azize2023", "ene2021", "hanna2022", "sajed2019",
          "shariff2018", "tossou2017", "trust")  # fmt: skip


def mine() -> str:
    """The study of README."""
    return re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]


def command(*words: str) -> list[str]:
    """A call of the command line."""
    return ["-c", "import sys; from dpjax.cli import main; sys.exit(main())", *words]


CASES: dict[str, list[list[str]]] = {
    "import": [["-c", "from dpjax import Study, learners, environments"]],
    "help": [command("--help")],
    "mine": [["mine.py"]],
    "paper": [command("reproduce", "tossou2017", "--quick", "--out", "paper")],
    "papers": [command("reproduce", name.replace("_", "-"), "--quick", "--out", name)
               for name in PAPERS],
    "grid": [["{root}/benchmarks/compilation.py", "--grid", "--here"]],
    "audit": [command("audit", "{root}/examples/mine.py", "--epsilon", "1", "--out", "audit")],
}  # fmt: skip
WARM = ("mine", "paper", "papers")
FULL = {name: [command("reproduce", name.replace("_", "-"), "--out", name)] for name in PAPERS}


def seconds(root: Path, case: str, caches: Path) -> tuple[float, float]:
    """CPU and wall seconds of a case with the package of a checkout."""
    environment = os.environ | {
        "PYTHONPATH": str(root), "XDG_CACHE_HOME": str(caches), "MPLBACKEND": "agg",
        "PYTHONWARNINGS": "ignore",
    }  # fmt: skip
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users keep compiled modules
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "mine.py").write_text(mine())
        for words in (CASES | FULL)[case]:
            words = [word.replace("{root}", str(root)) for word in words]
            done = subprocess.run(
                [sys.executable, *words],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                sys.exit(f"{root}: {' '.join(words[-6:])}\n{done.stderr[-2000:]}")
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    spent = (getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    return sum(spent), end - begin


def compared(other: Path, case: str, turns: int) -> dict[str, list]:
    """The seconds of both checkouts in each turn: cold, and warm if the case has caches."""
    times: dict[str, list] = {}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as scratch:
            for kind in ("cold", "warm") if case in WARM else ("cold",):
                both = [seconds(root, case, Path(scratch, str(place)))
                        for place, root in enumerate((other, ROOT))]  # fmt: skip
                times.setdefault(kind, []).append(both)
    return times


def main():
    """Prints a row for each case and kind of run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES | FULL)}")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--list", action="store_true", help="only list the cases")
    options = parser.parse_args()
    if options.list or options.other is None:
        print(*CASES, *FULL, sep="\n")
        return
    if unknown := {*options.cases} - {*CASES, *FULL}:
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    print("| case | run | other, CPU s | this, CPU s | ratio | other, s | this, s | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for case in options.cases or CASES:
        for kind, rows in compared(options.other.resolve(), case, options.turns).items():
            cells = [case, kind]
            for i in (0, 1):  # CPU seconds, and seconds of waiting
                cells += [
                    f"{median(side[i] for side in sides):.2f}" for sides in zip(*rows, strict=True)
                ]
                cells.append(f"{median(new[i] / old[i] for old, new in rows):.2f}")
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
