"""Programs compiled by one command are read by the next, in separate processes."""

import os
import re
import subprocess
import sys

import jax
import pytest

from dpjax import keep_compiled
from tests import ROOT

# Counts events of JAX's compilation cache and prints them last.
CODE = """
import collections, sys
import jax
from dpjax.cli import main
seen = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: seen.update([event.split("/")[-1]]))
sys.argv = ["dpjax", "run", "--losses", "{losses}", "--learner", "exp3", "--seeds", "8",
            "--horizon", "64", "--out", "{out}"]
code = main()
print("read", seen["cache_hits"], "compiled", seen["cache_misses"], "status", code)
"""
LOSSES = ROOT / "tests" / "data" / "diagnoses.csv"


def run(out, **environment):
    """How many programs a process read and compiled, and its tables of results."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "DPJAX_"))}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(losses=LOSSES, out=out)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, env={**inherited, **environment},
    )  # fmt: skip
    read, compiled, status = re.search(
        r"read (\d+) compiled (\d+) status (\d+)", done.stdout
    ).groups()
    assert status == "0", done.stderr
    tables = [path.read_bytes() for path in sorted(out.glob("*.csv"))]
    assert tables
    return int(read), int(compiled), tables


def test_a_second_command_compiles_nothing(tmp_path):
    home = str(tmp_path / "cache")
    read, compiled, first = run(tmp_path / "first", XDG_CACHE_HOME=home)
    assert compiled > 0
    kept = len(list((tmp_path / "cache" / "dpjax" / "compiled").rglob("*-cache")))
    assert kept == compiled
    again, nothing, second = run(tmp_path / "second", XDG_CACHE_HOME=home)
    assert (again, nothing) == (read + compiled - 1, 0)  # the study's program is dpjax's own file
    assert second == first


@pytest.fixture
def updates(monkeypatch):
    """The changes of JAX's settings, recorded instead of made."""
    monkeypatch.delenv("DPJAX_CACHE")
    seen = {}
    monkeypatch.setattr(jax.config, "update", seen.__setitem__)
    return seen


def test_a_folder_of_the_user_s_own_is_left_as_it_is(tmp_path, monkeypatch, updates):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = {"jax_compilation_cache_dir": "their own"}
    monkeypatch.setattr(type(jax.config), "values", property(lambda config: known))
    keep_compiled()
    assert not updates and not list(tmp_path.iterdir())


def test_where_no_folder_can_be_made_nothing_is_kept(tmp_path, monkeypatch, updates):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "below"))
    (tmp_path / "file").write_text("a file, where the folder would be")
    keep_compiled()
    assert not updates
    (tmp_path / "file").unlink()
    keep_compiled()
    assert "jax_compilation_cache_dir" in updates
