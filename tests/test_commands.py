"""Every script, and every command that a page prints, runs at a small size, in turn."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT, commands
from tests.test_notebooks import NOTEBOOKS

SECONDS = 900  # for each run, on a machine with other work
TREE = (ROOT / "dpjax").is_dir()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


KNOWN = {command: commands.run_of(command) for command in commands.commands()}
RUNS = sorted({run for run in KNOWN.values() if run})


def test_every_script_and_every_command_of_a_page_is_in_the_table():
    """The table is tests/data/commands.txt."""
    assert [command for command, run in KNOWN.items() if run is None] == []


def test_the_table_names_nothing_that_is_gone():
    assert commands.RUNS.keys() <= KNOWN.keys()


def test_every_notebook_is_run():
    made = {".venv", ".ipynb_checkpoints", "site"}  # `mkdocs build` copies notebooks into site
    found = {path for path in ROOT.rglob("*.ipynb") if made.isdisjoint(path.parts)}
    assert found == set(NOTEBOOKS)


def test_a_command_that_the_table_lacks_is_found(tmp_path):
    """In a line, in a block and after spaces; a Python program is not a command."""
    page = tmp_path / "page.md"
    page.write_text(
        "`python a.py` and `.venv/bin/dpjax\nlist` and `pythonic`\n\n"
        "```\ntime pytest b \\\n  -q  # c\n```\n\n```python\ndpjax = 1\n```\n\n    mkdocs new\n"
    )
    assert commands.printed(page) == ["pytest b -q", "mkdocs new", "python a.py", "dpjax list"]
    assert commands.run_of("python a.py") is None


def test_ci_installs_every_extra():
    """So no test is skipped there for lack of a module. Compilers take a gigabyte."""
    (asked,) = re.findall(r"--editable '\.\[([a-z,]+)\]'", (ROOT / ".ci" / "run").read_text())
    installed = set(asked.split(","))
    for name in EXTRAS["test"]:
        installed |= set(re.findall(r"\w+", name[5:])) if name.startswith("dpjax[") else set()
    assert installed == EXTRAS.keys() - {"compilers"}


@pytest.mark.skipif(not TREE, reason="dpjax is installed from elsewhere")
@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_a_command_runs(run, tmp_path):
    """In a copy of the checkout, where it changes no stored data."""
    for module in commands.needed(run):
        pytest.importorskip(module)
    asks_git = run.startswith(("python -m tests.slow", "python -m tests.planted"))
    if asks_git and not (ROOT / ".git").exists():
        pytest.skip("it asks git")
    commands.checkout(tmp_path)
    programs = Path(sys.executable).parent
    settings = {
        **{name: os.environ[name] for name in os.environ if not name.startswith("PYTEST_")},
        "PATH": f"{programs}:{os.environ['PATH']}", "MPLBACKEND": "agg",
        "GIT_DIR": str(ROOT / ".git"), "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", run], cwd=tmp_path, env=settings, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert "Traceback" not in done.stderr, done.stderr[-5000:]
    for file in (ROOT / "tests" / "data").iterdir():
        assert (tmp_path / "tests" / "data" / file.name).read_bytes() == file.read_bytes(), file
    shutil.rmtree(tmp_path)  # pytest would keep it
