"""Selects slow tests, and the part of them that is due.

A test is slow if it is marked so, or if ``tests/slow.txt`` names its id or its file and function. A
default run leaves out slow tests, attacks and compilation for accelerators. ``.ci/run`` runs one of
PARTS parts of all of these at each commit, in turn, and a smaller part of the tests in APART.

    python -m tests.slow                       # the parts, and when each was last due
    pytest -m 'not attack and not accelerator' --junitxml times.xml
    python -m tests.slow times.xml  # names in slow.txt what took more than .6 s
"""

import argparse
import subprocess
import xml.etree.ElementTree as tree
from collections import defaultdict
from zlib import crc32

import pytest

from tests import ROOT

PARTS = 16
# Files whose tests share nothing, with their number of parts: a search takes hours.
APART = {
    "tests/test_commands.py": PARTS,
    "tests/kernels/test_accelerators.py": PARTS,
    "tests/audit/test_combinations.py": 4 * PARTS,
}
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


def part_of(test: str) -> tuple[int, int]:
    """The part of a test, and the number of parts: tests with common programs are in one part."""
    file = test.partition("::")[0]
    if file in APART:
        shared = test
    else:
        shared = learner_of(test) if "test_conformance.py" in test else function_of(test)
    parts = APART.get(file, PARTS)
    return crc32(shared.encode()) % parts, parts


def is_due(test: str, count: int) -> bool:
    """Whether a test is in the part due at the commit of this number."""
    part, parts = part_of(test)
    return count % parts == part


def seconds_of(report) -> dict[str, float]:
    """Seconds of each test in a ``--junitxml`` report, by id."""
    seconds = {}
    for case in tree.parse(report).iter("testcase"):
        file = case.get("classname").replace(".", "/") + ".py"
        seconds[f"{file}::{case.get('name')}"] = float(case.get("time"))
    return seconds


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


def due() -> str:
    """A table of the parts, with the last commit at which each was due."""
    log = subprocess.run(
        ["git", "log", "--first-parent", "--format=%h %cs"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")[:-1]  # fmt: skip
    lines = ["part  commit     day"]
    for part in range(PARTS):
        back = (len(log) - part) % PARTS
        lines.append(f"{part}/{PARTS}   {log[back] if back < len(log) else 'never'}")
    return "\n".join(lines)


def main():
    """Prints the table, or writes the list."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", nargs="?", help="of pytest --junitxml")
    parser.add_argument("--above", type=float, default=0.6, metavar="SECONDS")
    options = parser.parse_args()
    if options.report is None:
        print(due())
        return
    lines = named(seconds_of(options.report), options.above)
    head = f"# Tests that took more than {options.above:g} s; written by python -m tests.slow\n"
    LIST.write_text(head + "".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} lines in {LIST}")


if __name__ == "__main__":
    main()
