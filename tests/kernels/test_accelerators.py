"""Every learner's game, compiled for an H100 and a TPU v5e without having them.

    pytest -m accelerator -n 2

takes some ten minutes on two cores. Missing compilers (``pip install -e '.[compilers]'``) are
downloaded for these tests only: half a gigabyte, 1.3 on disk. Nothing runs on an accelerator.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib

import pytest

from dpjax import learners
from tests import ROOT, script

pytestmark = pytest.mark.accelerator


@pytest.fixture(scope="module")
def compilers():
    """Settings for processes that find the extra's packages, which this process must not import.

    If they are installed, JAX looks for accelerators at every start.
    """
    if all(importlib.util.find_spec(name) for name in ("libtpu", "jax_cuda13_plugin")):
        yield {}
        return
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    packages = project["optional-dependencies"]["compilers"]
    (jax,) = [package for package in packages if package.startswith("jax==")]
    with tempfile.TemporaryDirectory() as folder:
        options = ["install", "--quiet", "--no-deps", "--target", folder]
        command = [sys.executable, "-m", "pip", *options]
        subprocess.run([*command, *packages, jax.replace("jax", "jaxlib")], check=True)
        yield {"PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize("target", ["triton", "mosaic_gpu", "tpu"])
@pytest.mark.parametrize("name", learners.__all__)
def test_every_learner_compiles_as_one_kernel(compilers, name, target, monkeypatch):
    for variable, value in compilers.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # libtpu rejects the flags of tests/__init__.py
    found = script("benchmarks/kernels.py").in_process(name, target)
    assert found["layout"] == "one kernel", found["why"]
    assert found.get("spilled", 0) <= (16 if name == "track_and_stop" else 0)
    # A kernel compiles in 14 seconds or less on a quiet machine, and in 28 beside other work. For a
    # TPU, writing the compiler's output takes longer than compiling.
    assert found["seconds"] < 60 or target == "tpu"
