"""Distributions hold the files that tests read and the whole package; editable installs work."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import ROOT
from tests.commands import copied

HELD = ("dpjax", "tests", "examples", "notebooks", "docs", "benchmarks")
checkout = pytest.mark.skipif(
    not (ROOT / "dpjax").is_dir(), reason="dpjax is installed from elsewhere"
)
CHECKED = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4 on


def files(folder):
    return {
        str(path.relative_to(folder))
        for name in HELD
        for path in (folder / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@checkout
def test_a_script_beside_the_clone_imports_the_package(tmp_path, monkeypatch):
    pytest.importorskip("setuptools", minversion="77")
    from setuptools import build_meta

    copied(["dpjax"], tmp_path / "dpjax")  # The clone has the name of the package.
    monkeypatch.chdir(tmp_path / "dpjax")
    with zipfile.ZipFile(tmp_path / build_meta.build_editable(str(tmp_path))) as archive:
        archive.extractall(tmp_path / "site")
    code = "import site; from importlib.util import find_spec; site.addsitedir('site')"
    code += "; print(find_spec('dpjax').origin)"
    python = [sys.executable, "-S", "-c", code]  # without the packages of this environment
    printed = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(tmp_path / "dpjax" / "dpjax" / "__init__.py")


@checkout
def test_the_distributions_hold_what_tests_read_and_the_package(tmp_path, monkeypatch):
    pytest.importorskip("setuptools", minversion="77")
    from setuptools import build_meta

    copied(HELD, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    name = build_meta.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path / "unpacked", **CHECKED)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    monkeypatch.chdir(unpacked)
    held = files(unpacked)
    gone = unpacked / "build" / "lib" / "dpjax" / "gone.py"  # as an earlier build leaves it
    gone.parent.mkdir(parents=True)
    gone.touch()
    wheel = build_meta.build_wheel(str(tmp_path))
    assert held == files(ROOT)
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"} <= {*os.listdir(unpacked)}
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = {name for name in held if name.startswith("dpjax" + os.sep)}
    assert installed == {Path(name).as_posix() for name in package}
    assert "dpjax/py.typed" in installed
