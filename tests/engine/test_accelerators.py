"""Every learner's game, compiled for an H100 and a TPU v5e that are not here.

    pip install -e '.[test,accelerator]'
    pytest -m accelerator -n 2

takes some ten minutes on two cores. The packages have a gigabyte. Nothing is run on a card.
"""

import importlib.util

import pytest

from dpjax import learners
from tests.test_benchmarks import BENCHMARKS

pytestmark = pytest.mark.accelerator
# Too many equations for a compiler, which takes half a minute over them.
LONG = {"linucb", "track_and_stop"}


@pytest.fixture(scope="module")
def kernels():
    """The module of benchmarks/kernels.py."""
    specification = importlib.util.spec_from_file_location("kernels", BENCHMARKS / "kernels.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", learners.__all__)
def test_every_learner_compiles_as_one_kernel(kernels, name, platform):
    found = kernels.in_process(name, platform)
    assert found["form"] == ("lanes" if name in LONG else "kernel"), found["why"]
    if name not in LONG:
        assert found.get("spilled", 0) == 0
        # For a TPU, writing out what the compiler did takes longer than compiling.
        assert found["seconds"] < 20 or platform == "tpu"
