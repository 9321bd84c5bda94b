"""The source distribution has all files that the tests read, and the wheel the whole package."""

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import ROOT

HELD = ("dpjax", "tests", "examples", "notebooks", "docs", "benchmarks")
CHECKED = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on


def files(folder):
    return {
        str(path.relative_to(folder))
        for name in HELD
        for path in (folder / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.skipif(not (ROOT / "dpjax").is_dir(), reason="dpjax is installed from elsewhere")
def test_the_distributions_hold_what_tests_read_and_the_package(tmp_path):
    pytest.importorskip("setuptools", minversion="77")
    from setuptools import build_meta

    # In a copy, since this folder may list files from an earlier build.
    copy, before = tmp_path / "copy", Path.cwd()
    for name in HELD:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, copy)
    try:
        os.chdir(copy)
        name = build_meta.build_sdist(str(tmp_path))
        with tarfile.open(tmp_path / name) as archive:
            archive.extractall(tmp_path / "unpacked", **CHECKED)
        (unpacked,) = (tmp_path / "unpacked").iterdir()
        os.chdir(unpacked)
        held = files(unpacked)
        gone = unpacked / "build" / "lib" / "dpjax" / "gone.py"  # as an earlier build leaves it
        gone.parent.mkdir(parents=True)
        gone.touch()
        wheel = build_meta.build_wheel(str(tmp_path))
    finally:
        os.chdir(before)
    assert held == files(ROOT)
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= {*os.listdir(unpacked)}
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {name for name in held if name.startswith("dpjax" + os.sep)}
    assert installed == {Path(name).as_posix() for name in package}
    assert "dpjax/py.typed" in installed
