"""The benchmarks run, as in benchmarks/README.md, and referees agree with docs/referees.md."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.referees import frame
from tests import ROOT

BENCHMARKS = ROOT / "benchmarks"
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")


def run(script, *arguments, timeout=600):
    """The output of a benchmark; fails if the benchmark does."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout,
        env={**os.environ, "PYTHONPATH": str(BENCHMARKS.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_speed(folder, *names):
    file = folder / "speed.json"
    lines = run("speed.py", *names, "--quick", "--json", file).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in lines if line.startswith("|")]  # fmt: skip
    columns, rows = cells[0], [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
    assert {"workload", "by", "ns", "dpjax takes, times", "compile s", "MiB", "value"} <= {*columns}
    written = json.loads(file.read_text())["rows"]
    assert [[str(row[column]) for column in columns] for row in written] == cells[2:]
    for row in rows:
        assert float(row["ns"].split()[0]) > 0
        assert row["agrees"] == ("" if row["by"] in ("dpjax", "LAPACK") else "yes")
    return rows


@needs_gcc
def test_speed_prints_a_row_for_each_implementation(tmp_path):
    rows = check_speed(tmp_path, "W1")
    made = [row["by"] for row in rows if row["by"] != "Numba"]
    assert made == ["dpjax", "dpjax, threefry13", "NumPy", "C, 8 lanes", "C, 16 lanes"]
    assert float(rows[0]["MiB"]) > 0


@pytest.mark.slow
@needs_gcc
def test_every_workload_and_learner_over_arms_agrees_with_its_references(tmp_path):
    assert len({row["workload"] for row in check_speed(tmp_path)}) == 18
    assert {row["by"] for row in check_speed(tmp_path, "arms")} == {"dpjax", "C, one by one"}


@pytest.mark.slow
def test_the_card_script_runs_without_a_card(tmp_path):
    """All parts; the kernel, plain XLA and trials last have the regrets of the CPU."""
    printed = run("card.py", "--learners", "exp3", "--out", tmp_path)
    assert printed.strip() == (tmp_path / "card.md").read_text().strip()
    rows = [json.loads(line) for line in (tmp_path / "card.jsonl").read_text().splitlines()]
    ways = {"interpret kernel", "plain XLA", "trials last"}
    regrets = {row["way"]: row["regret"] for row in rows if row["part"] == "agreement"}
    assert regrets.keys() == {"CPU", *ways}
    assert np.ptp(regrets["CPU"]) > 0.1
    for regret in regrets.values():
        np.testing.assert_allclose(regret, regrets["CPU"], rtol=1e-4, atol=1e-4)
    speeds = [row for row in rows if row["part"] == "speed"]
    assert {row["way"] for row in speeds} == ways
    assert all(row["ns"] > 0 and row["compile"] > 0 for row in speeds)
    assert "these agree with the CPU in all trials: 1 (interpret kernel)" in printed


@pytest.fixture
def card(monkeypatch, tmp_path):
    """The module of benchmarks/card.py. In its processes ``hedge`` sleeps."""
    (tmp_path / "sitecustomize.py").write_text(
        "import time, dpjax.learners\ndpjax.learners.hedge = lambda *_, **__: time.sleep(99)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("card")
    (tmp_path / "card.jsonl").write_text(
        '{"part": "device", "name": "", "kind": "", "platform": "", "driver": "", "runtime": "", '
        '"ways": ["trials last"], "software": "", "launch": 1.0, "bandwidth": 1.0}\n'
    )
    return module


@pytest.mark.slow
def test_a_process_of_the_card_script_that_hangs_costs_only_its_rows(card, tmp_path):
    """At its own time limit, and at that of its part."""
    played, hangs = (card.Task("agreement", card.CPU, (name,), 8, 4) for name in ("exp3", "hedge"))
    begin = time.monotonic()
    card.run([hangs], begin + 99, 1, tmp_path, 1)
    card.run([played], begin + 99, 1, tmp_path, 60)
    card.run([hangs, played], time.monotonic() + 1, 1, tmp_path, 60)
    assert time.monotonic() - begin < 90
    _, first, found, second, third = card.read(tmp_path)
    assert first["why"] == "stopped after 1 seconds"
    assert len(found["regret"]) == 8
    assert second["why"].startswith("stopped when") and third["why"].startswith("not started")
    assert "| hedge |" in (tmp_path / "card.md").read_text()


# Referees: the verdicts printed in docs/referees.md -------------------------------------------

PAGE = (ROOT / "docs" / "referees.md").read_text()
SCRIPTS = sorted({file.stem for file in (BENCHMARKS / "referees").glob("*.py")} - {"frame"})


def printed(script):
    """(setting, verdict) of each row in the table after a script's command."""
    rest = PAGE[PAGE.index(f"python -m benchmarks.referees.{script}") :]
    (block,) = re.findall(r"^\| setting.*?(?=\n\n|\Z)", rest, flags=re.DOTALL | re.MULTILINE)[:1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [(row[0], row[-1]) for row in rows[2:]]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_page_has_the_command_and_a_table_of_each_script(script):
    rows = printed(script)
    assert rows and {verdict for _, verdict in rows} <= {"agree", "differ"}


def test_means_differ_beyond_four_standard_errors_and_numbers_beyond_the_tolerance():
    random = np.random.default_rng(0)
    ours, theirs = random.laplace(size=(2, 10_000))
    assert frame.compare("squares", ours**2, theirs**2).verdict == "agree"
    assert frame.compare("half the noise", ours**2, (theirs / 2.0) ** 2).verdict == "differ"
    shifted = frame.compare("shifted", ours, theirs + 0.1)
    assert shifted.verdict == "differ" and -8.0 < float(shifted.z) < -4.0
    assert frame.compare("constant", [1.0, 1.0], [1.0, 1.0]).verdict == "agree"
    assert frame.compare("constant", [1.0, 1.0], [1.01, 1.01]).verdict == "differ"
    assert frame.equal("near", [1.0, 2.0], [1.0, 2.0 + 1e-9], 1e-8).verdict == "agree"
    far = frame.equal("far", [1.0, 2.0], [1.0, 2.1], 1e-8)
    assert (far.ours, far.theirs, far.verdict) == ("1, 2", "1, 2.1", "differ")
    assert frame.between("inside", 1.0, (0.5, 2.0)).verdict == "agree"
    assert frame.between("outside", 3.0, (0.5, 2.0)).verdict == "differ"


def test_a_verdict_that_is_not_expected_and_a_clone_that_is_not_there_fail(capsys):
    rows = [frame.equal("far", 1.0, 2.0, 1e-3, "differ"), frame.equal("near", 1.0, 1.0, 1e-3)]
    frame.finish(rows)
    assert capsys.readouterr().out.count("\n") == 4
    with pytest.raises(SystemExit, match="not as expected: far"):
        frame.finish([rows[0]._replace(expected="agree")])
    with pytest.raises(SystemExit):
        frame.arguments("", "somewhere", ["--clone", "/nowhere"])
    assert "--clone: there is no folder /nowhere" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "module", "extra", "options"),
    [
        ("google_accounting", "dp_accounting", "test", {}),
        ("google_factorizations", "jax_privacy", "mf", {}),
        ("opendp_laws", "opendp", "referees", {}),
        ("smpybandits", "SMPyBandits", "referees", {"trials": 40}),
        ("adap_index", "dpjax", "test", {"trials": 200}),
    ],
)
def test_a_referee_gives_the_verdicts_of_the_page(script, module, extra, options, monkeypatch):
    pytest.importorskip(module, reason=f"needs pip install 'dpjax[{extra}]'")
    if script == "opendp_laws":  # its draws have no seed
        monkeypatch.setattr(frame, "LIMIT", 6.0)
    found = importlib.import_module(f"benchmarks.referees.{script}")
    rows = found.rows(**options)
    assert [(row.setting, row.verdict) for row in rows] == printed(script)
    assert all(row.verdict == row.expected for row in rows)
