"""The list of slow tests is valid, and each of them has its turn."""

import csv
import subprocess
import sys

import pytest

from tests import ROOT, slow

SECONDS = {
    "tests/a.py::test_all[1]": 2.0,
    "tests/a.py::test_all[2]": 3.0,
    "tests/a.py::test_some[1]": 0.1,
    "tests/a.py::test_some[2]": 3.0,
    "tests/a.py::test_one": 0.5,
}


def test_functions_are_named_whole_where_all_their_tests_are_slow():
    assert slow.named(SECONDS, 1.0) == ["tests/a.py::test_all", "tests/a.py::test_some[2]"]
    assert slow.named(SECONDS, 0.2)[1] == "tests/a.py::test_one"


def test_the_list_names_tests(pytestconfig):
    """For the files collected together with this one."""
    assert not pytestconfig.stash[slow.GONE]


def pytest_on(*options):
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def collected(*options):
    done = pytest_on("-n", "0", "--collect-only", "-q", *options)
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_seconds_are_measured_and_tests_after_the_limit_are_named(tmp_path):
    file = tmp_path / "times.csv"

    def run(*options):
        return pytest_on("-n", "1", "--times", str(file),
                         "tests/test_slow.py", "-k", "functions_are_named", *options)  # fmt: skip

    name = "tests/test_slow.py::test_functions_are_named_whole_where_all_their_tests_are_slow"
    assert run().returncode == 0
    (row,) = csv.DictReader(file.read_text().splitlines())
    assert row["test"] == name and row["result"] == "passed" and 0 <= float(row["cpu"]) < 5
    assert slow.seconds_of(file) == {name: float(row["cpu"])}
    late = run("--until", "1")
    assert late.returncode == 1 and f"ERROR {name}" in late.stdout


def test_tests_that_share_programs_are_in_one_part_and_every_part_has_some():
    for tests in (
        ["conformance.py::a[exp3]", "conformance.py::b[1-exp3]"],
        ["a.py::a", "a.py::a[2]"],
    ):
        assert len({slow.part_of(f"tests/test_{test}") for test in tests}) == 1
    assert {slow.part_of(line) for line in slow.listed()} == set(range(slow.PARTS))


@pytest.mark.slow
def test_parts_are_all_of_the_slow_tests():
    file = "tests/test_golden.py"
    parts = [collected("-m", "slow", "--part", str(part), file) for part in range(slow.PARTS)]
    assert set.union(*parts) == collected("-m", "slow", file)
    assert sum(map(len, parts)) == len(set.union(*parts)) > 0
    quick = collected(file)
    assert quick and not quick & set.union(*parts)


def test_a_part_that_passes_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(slow, "PASSED", tmp_path / "passed.csv")
    slow.PASSED.write_text("part,commit,day,seconds\n1,0123abcd,2026-01-02,60\n")
    monkeypatch.setattr(slow, "ROOT", tmp_path)
    answers = {"status": "", "rev-parse": "89abcdef"}
    monkeypatch.setattr(slow, "git", lambda word, *_: answers[word])
    codes = {"0": 0, "2": 1}
    monkeypatch.setattr(
        slow.subprocess, "run",
        lambda command, cwd: subprocess.CompletedProcess(command, codes[command[6]]),
    )  # fmt: skip
    assert slow.run(0, []) and not slow.run(2, [])
    assert list(slow.passed()) == [0, 1] and slow.passed()[0]["commit"] == "89abcdef"
    answers["status"] = " M dpjax/core/_check.py"
    slow.PASSED.write_text("part,commit,day,seconds\n")
    assert slow.run(0, []) and slow.passed() == {}
