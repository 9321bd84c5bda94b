"""The list of slow tests is valid, and each of them has its turn."""

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


def test_seconds_are_read_from_a_report(tmp_path):
    report = tmp_path / "times.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.a" name="test_all[1]" time="2.0"/>'
        '<testcase classname="tests.a" name="test_one" time="0.5"/></testsuite></testsuites>'
    )
    read = slow.seconds_of(report)
    assert read == {"tests/a.py::test_all[1]": 2.0, "tests/a.py::test_one": 0.5}


def test_tests_that_share_programs_are_in_one_part_and_every_part_has_some():
    conformance = "tests/test_conformance.py::test_{}[{}exp3]"
    assert slow.part_of(conformance.format("a", "")) == slow.part_of(conformance.format("b", "1-"))
    assert slow.part_of(conformance.format("a", "")) == slow.part_of(
        "tests/test_conformance.py::x[exp3]"
    )
    assert slow.part_of("tests/a.py::test_all[1]") == slow.part_of("tests/a.py::test_all[2]")
    listed = {line for line in slow.listed() if line.partition("::")[0] not in slow.APART}
    assert {slow.part_of(line)[0] for line in listed} == set(range(slow.PARTS))
    (file,) = (file for file, parts in slow.APART.items() if parts > slow.PARTS)
    due = [count for count in range(128) if slow.is_due(f"{file}::test_a", count)]
    assert len(due) == 2 and due[1] - due[0] == slow.APART[file]


@pytest.mark.slow
def test_parts_are_all_of_the_slow_tests_and_a_name_of_no_test_is_refused(tmp_path):
    def collected(*options):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-q", *options],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        return {line for line in done.stdout.splitlines() if "::" in line}

    file = "tests/test_golden.py"
    parts = [collected("-m", "slow", "--part", str(part), file) for part in range(slow.PARTS)]
    assert set.union(*parts) == collected("-m", "slow", file)
    assert sum(map(len, parts)) == len(set.union(*parts)) > 0
    quick = collected(file)
    assert quick and not quick & set.union(*parts)
