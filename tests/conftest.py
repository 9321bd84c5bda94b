"""Strict JAX for every test: implicit rank and dtype promotion raise. Files run in parallel."""

import ctypes
import gc
import os
import resource
import time
from contextlib import suppress
from pathlib import Path

import jax
import pytest

from dpjax import clear_caches
from dpjax.core import generators
from tests import quick, slow
from tests.times import Times

# Tests must not use compiled programs of earlier runs; DPJAX_CACHE=on lets them.
os.environ.setdefault("DPJAX_CACHE", "off")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# Collecting garbage among all objects of JAX takes a second or more.
gc.set_threshold(50_000, 20, 1000)
# Bytes that a worker may hold before it drops compiled programs.
MOST_HELD = 1.2e9


def pytest_addoption(parser):
    parser.addoption("--generator", help="the generator of keys without impl, such as threefry13")
    parser.addoption("--part", type=int, help="only this part of the tests (python -m tests.slow)")
    parser.addoption("--times", type=Path, metavar="FILE", help="a CSV file of times by test")
    parser.addoption("--until", type=float, help="tests that begin after this time are errors")


def pytest_configure(config):
    """With --generator, keys use another generator. This tests distributions instead of numbers."""
    if name := config.getoption("--generator"):
        usual, other = jax.random.key, getattr(generators, name)
        jax.random.key = lambda seed, *, impl=None: usual(seed, impl=impl or other)
    if config.getoption("--times"):
        config.pluginmanager.register(Times(config), "times")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks the tests in slow.txt; with --part keeps one part of the tests."""
    lines, known = slow.listed(), set()
    for item in items:
        names = {item.nodeid, slow.function_of(item.nodeid)}
        known |= names
        if names & lines:
            item.add_marker("slow")
    files = {name.partition("::")[0] for name in known}
    whole = not any("::" in argument for argument in config.args)
    gone = [line for line in sorted(lines - known) if line.partition("::")[0] in files]
    config.stash[slow.GONE] = gone if whole else []  # test_slow.py fails if there are any
    part = config.getoption("--part")
    if part is not None:
        others = [item for item in items if slow.part_of(item.nodeid) != part]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if slow.part_of(item.nodeid) == part]


def pytest_runtest_setup(item):
    """After the time of --until, tests are left out and named as errors."""
    until = item.config.getoption("--until")
    if until is not None and time.time() > until:
        pytest.fail("left out: the time of --until is over", pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """One worker runs a whole file, so that its tests share compiled programs and played games.

    The conformance tests are by far the longest file, so they are split by learner. ``xdist_group``
    marks would do the same, but pytest-xdist 3.8 loses them under pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFileOrLearner(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file, _, test = nodeid.partition("::")
            if not file.endswith("test_conformance.py"):
                return file
            return slow.learner_of(test)

    return ByFileOrLearner(config, log)


@pytest.fixture(scope="module", autouse=True)
def little_kept():
    """After a file, drops compiled programs if a worker holds gigabytes of them."""
    yield
    if held() > MOST_HELD:
        clear_caches()
        jax.clear_caches()
        gc.collect()
        with suppress(OSError, AttributeError):  # glibc keeps freed memory until malloc_trim
            ctypes.CDLL(None).malloc_trim(0)


def held() -> float:
    """The bytes of memory that this process holds; inf if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("inf")
    return pages * resource.getpagesize()


@pytest.fixture
def quick_compilation():
    """Compile without most optimizations, for programs that take longer to compile than to run."""
    with quick():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A complete store of tests/stored.py, and the Result of its sweep."""
    from tests.stored import run

    folder = tmp_path_factory.mktemp("undisturbed") / "store"
    return folder, run(folder)


@pytest.fixture(autouse=True)
def no_signs_of_life(monkeypatch):
    """Commands print no progress lines, so that tests on slow machines read only their messages."""
    monkeypatch.setattr("dpjax.engine.progress._EVERY", 1e6)
