"""The benchmarks run; benchmarks/README.md has their measurements."""

import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

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
    columns = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert {"workload", "by", "ns", "dpjax takes, times", "compile s", "MiB", "value"} <= set(
        columns
    )
    rows = [
        dict(zip(columns, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        for line in lines[2:]
        if line.startswith("|")
    ]
    written = json.loads(file.read_text())["rows"]
    assert [[str(row[column]) for column in columns] for row in written] == [
        list(row.values()) for row in rows
    ]
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
def test_every_workload_agrees_with_its_references(tmp_path):
    rows = check_speed(tmp_path)
    assert len({row["workload"] for row in rows}) == 18


@pytest.mark.slow
@needs_gcc
def test_every_learner_over_arms_agrees_with_c(tmp_path):
    assert {row["by"] for row in check_speed(tmp_path, "arms")} == {"dpjax", "C, one by one"}


@pytest.mark.slow
def test_scaling_writes_a_table_and_a_figure(tmp_path):
    run("scaling.py", "--quick", "--out", tmp_path)
    with open(tmp_path / "scaling.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["axis"] for row in rows} == {"horizon", "size", "trials", "points"}
    assert all(float(row["ns"]) > 0 for row in rows)
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_gpu_benchmark_runs_without_one(tmp_path):
    file = tmp_path / "gpu.json"
    run("gpu.py", "W1", "W4", "--trials", "64", "--horizon", "64", "--json", file)
    rows = json.loads(file.read_text())["rows"]
    assert [row["workload"] for row in rows] == ["W1", "W1-8", "W4"]
    assert all(row["programs"] == 1 for row in rows)
