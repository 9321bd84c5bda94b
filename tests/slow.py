"""Selects slow tests, runs a part of them, and records when each part passed.

A test is slow if it is marked so, or if ``tests/slow.txt`` names its id or its file and function. A
default run leaves out slow tests, the search over combinations and accelerators. ``.ci/run`` runs
one of PARTS parts of the slow tests, a different one for each commit.

    python -m tests.slow             # the commit at which each part last passed
    python -m tests.slow --run 0 3   # runs these parts, modulo PARTS, and records those that pass
    pytest -m 'slow or not slow' --times=times.csv
    python -m tests.slow times.csv   # names in slow.txt what took more than .6 s
"""

import argparse
import csv
import subprocess
import sys
import time
from collections import defaultdict
from datetime import date
from zlib import crc32

import pytest

from tests import ROOT

PARTS = 4
# Files whose tests have no common programs, although they are of one function.
APART = (
    "test_audit.py", "test_commands.py", "test_entries.py", "test_histories.py", "test_play.py",
)  # fmt: skip
PASSED = ROOT / "tests" / "passed.csv"
GONE = pytest.StashKey[list[str]]()  # lines of slow.txt that match no test of a collected file
LIST = ROOT / "tests" / "slow.txt"


def listed() -> set[str]:
    """The lines of slow.txt: ids of tests, or of functions with all their parameters."""
    return {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


def function_of(test: str) -> str:
    """The id of a test without its parameters."""
    return test.partition("[")[0]


def learner_of(test: str) -> str:
    """The learner of a conformance test, whose parameters end with its name."""
    return test.rstrip("]").replace("-", "[").split("[")[-1]


def part_of(test: str) -> int:
    """The part of a test: tests with common programs are in one part."""
    if any(file in test for file in APART):
        shared = test
    else:
        shared = learner_of(test) if "test_conformance.py" in test else function_of(test)
    return crc32(shared.encode()) % PARTS


def seconds_of(times) -> dict[str, float]:
    """Seconds of each test in a file of ``pytest --times``, by id."""
    with open(times, newline="") as rows:
        return {row["test"]: float(row["cpu"]) for row in csv.DictReader(rows)}


def named(seconds: dict[str, float], above: float) -> list[str]:
    """The lines of slow.txt: functions if all of their tests are slow, and single tests."""
    by_function = defaultdict(list)
    for test in seconds:
        by_function[function_of(test)].append(test)
    lines = []
    for function, tests in by_function.items():
        slow = [test for test in tests if seconds[test] > above]
        lines += [function] if len(slow) == len(tests) else slow
    return sorted(lines)


def git(*words: str) -> str:
    """What a command of git prints."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def passed() -> dict[int, dict[str, str]]:
    """The last record of each part: its part, commit, day and seconds."""
    with open(PASSED, newline="") as rows:
        return {int(row["part"]): row for row in csv.DictReader(rows)}


def table() -> str:
    """Each part, with the commit at which it last passed, and the number of commits since."""
    lines = ["part  commit     day         seconds  commits since"]
    for part in range(PARTS):
        row = passed().get(part)
        if row is None:
            lines.append(f"{part}/{PARTS}   never")
            continue
        try:
            since = git("rev-list", "--count", f"{row['commit']}..HEAD")
        except subprocess.CalledProcessError:  # A squashed commit is gone.
            since = "unknown"
        lines.append(
            f"{part}/{PARTS}   {row['commit']}  {row['day']}  {row['seconds']:>7}  {since}"
        )
    return "\n".join(lines)


def run(part: int, options: list[str]) -> bool:
    """Run a part with these options of pytest. If it passes on a commit as it is, record this."""
    begin = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--part", str(part), *options]
    if subprocess.run(command, cwd=ROOT).returncode:
        return False
    if changed := git("status", "--porcelain", "--", ".", f":!{PASSED.relative_to(ROOT)}"):
        print(f"not recorded, because files were changed:\n{changed}")
        return True
    row = {"part": part, "commit": git("rev-parse", "--short=8", "HEAD"),
           "day": date.today().isoformat(), "seconds": round(time.monotonic() - begin)}  # fmt: skip
    rows = passed() | {part: row}
    with open(PASSED, "w", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[part] for part in sorted(rows))
    return True


def main():
    """Prints the table, runs parts, or writes the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("times", nargs="?", help="a file of pytest --times=FILE")
    parser.add_argument("--above", type=float, default=0.6, metavar="SECONDS")
    parser.add_argument("--run", type=int, nargs="+", metavar="PART")
    options, rest = parser.parse_known_args()
    if options.run:
        failed = [part for part in options.run if not run(part % PARTS, rest)]
        sys.exit(f"parts that failed: {failed}" if failed else 0)
    if options.times is None:
        print(table())
        return
    lines = named(seconds_of(options.times), options.above)
    head = f"# Tests that took more than {options.above:g} s; written by python -m tests.slow\n"
    LIST.write_text(head + "".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} lines in {LIST}")


if __name__ == "__main__":
    main()
