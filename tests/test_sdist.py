"""The source distribution holds all that the tests read."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from tests import ROOT

HELD = ("dpjax", "tests", "examples", "notebooks", "docs", "benchmarks")


def files(folder):
    return {
        str(path.relative_to(folder))
        for name in HELD
        for path in (folder / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_source_distribution_holds_what_tests_read(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    from setuptools import build_meta

    # In a copy: what an earlier build listed would be in this one too.
    copy, before = tmp_path / "copy", Path.cwd()
    for name in HELD:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    os.chdir(copy)
    try:
        name = build_meta.build_sdist(str(tmp_path))
    finally:
        os.chdir(before)
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert files(unpacked) == files(ROOT)
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= {*os.listdir(unpacked)}
