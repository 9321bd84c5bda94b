"""The scripts in findings have the form that their README states. They are not run here."""

import os
import re
import subprocess

import pytest

from tests import ROOT

FOLDER = ROOT / "findings"
SCRIPTS = sorted(FOLDER.glob("*.sh"))
LABELS = ("Guess", "Fact", "Versions", "Source")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="a source distribution has no findings"),
]


def installed(text) -> list[str]:
    """The words of the only pip command of a script."""
    (command,) = re.findall(r"env/bin/pip install --quiet ((?:.|\\\n)*?[^\\])\n", text)
    return command.replace("\\\n", " ").split()


def table() -> dict[str, list[str]]:
    """{script: the other cells of its row in the README}"""
    rows = {}
    for line in (FOLDER / "README.md").read_text().splitlines():
        if link := re.search(r"\| \[(\S+\.sh)\]\(\1\) \|$", line):
            assert link[1] not in rows
            rows[link[1]] = [cell.strip() for cell in line[: link.start()].strip("|").split("|")]
    return rows


def test_there_are_scripts_and_each_has_one_row():
    assert len(SCRIPTS) >= 8
    assert {path.name for path in SCRIPTS} == {*table()}
    assert {path.suffix for path in FOLDER.iterdir()} == {".sh", ".md"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_has_the_stated_form(path):
    """It pins its packages, and names their versions."""
    text = path.read_text()
    comment, _, program = text.partition("\nset -euo pipefail\n")
    first, *lines = comment.splitlines()
    assert os.access(path, os.X_OK) and first == "#!/usr/bin/env bash"
    assert all(line.startswith("# ") and len(line) <= 100 for line in lines)
    assert re.findall(r"^# (\w+): ", comment, re.MULTILINE) == [*LABELS]
    assert program.startswith('folder=$(mktemp -d)\ntrap \'rm -rf "$folder"\' EXIT\ncd "$folder"\n')
    assert not re.search(r"dpjax|https?:|/home/|/root/|/tmp/|/work/", text)
    assert "guess:" in program and "seen" in program and "sys.exit(" in program
    subprocess.run(["bash", "-n", path], check=True)
    pins = installed(text)
    assert all(re.fullmatch(r"[A-Za-z][\w-]*==[\d.]+", pin) for pin in pins)
    versions = dict(pin.split("==") for pin in pins)
    stated = " ".join(
        re.search(r"^# Versions: ((?:.|\n)*?)^# Source", text, re.MULTILINE)[1].split()
    )
    guess, fact, named = table()[path.name]
    assert guess and fact
    for where in (stated, named):
        found = re.findall(r"([A-Za-z][\w-]*) (\d+(?:\.\d+)+)", where)
        assert found and all(versions[name] == version for name, version in found)
    assert "version" in text.partition("<<'END'")[2]  # printed
