"""Strict JAX for every test: implicit rank and dtype promotion raise. Who runs what in parallel."""

import jax
import pytest

from dpjax import clear_caches, generators

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_addoption(parser):
    parser.addoption("--generator", help="of dpjax.generators, for keys of no impl: threefry13")


def pytest_configure(config):
    """With --generator all keys of the tests are of another kind; to test laws, not numbers."""
    if name := config.getoption("--generator"):
        usual, other = jax.random.key, getattr(generators, name)
        jax.random.key = lambda seed, *, impl=None: usual(seed, impl=impl or other)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One worker runs a whole file, so that what its tests share is compiled and played once.

    Of the conformance tests, by far the longest file, one worker runs all those of one learner.
    Marks of ``xdist_group`` would say the same; pytest-xdist 3.8 loses them under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFileOrLearner(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, test = nodeid.partition("::")
            if not file.endswith("test_conformance.py"):
                return file
            return test.rstrip("]").replace("-", "[").split("[")[-1]

    return ByFileOrLearner(config, log)


@pytest.fixture(scope="module", autouse=True)
def nothing_kept():
    """What one file compiled, no other needs: kept, it would be some gigabytes in the end."""
    yield
    clear_caches()


@pytest.fixture
def quick_compilation():
    """Without most optimizations: for programs that run for less time than they compile."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
