"""Points x seeds: shapes, arguments, interruption. Bits and compilations: test_conformance."""

import io
import re
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import environments, learners, programs, sweep
from dpjax.sweep import _block_size

LOSSES = np.random.default_rng(0).random((8, 3))


def game(point):
    return (
        learners.dp_exp3_lap(8, 3, epsilon=point["epsilon"]),
        environments.bernoulli(point["means"]),
    )


POINTS = {
    "epsilon": np.array([0.5, 1.0], np.float64),
    "means": np.array([[0.1, 0.5, 0.5], [0.5, 0.1, 0.5]]),
}


def test_shapes_and_host_arrays():
    """Points may be any pytree; results are NumPy arrays with axes (points, seeds, ...)."""
    result = sweep(game, POINTS, 5, jr.key(0), checkpoints=4, progress=False)
    np.testing.assert_array_equal(result.rounds, [2, 4, 6, 8])
    assert result.regret.shape == (2, 5, 4)
    assert result.tally.shape == (2, 5, 3)
    assert result.report.rejected.shape == (2, 5)
    assert all(isinstance(x, np.ndarray) for x in (result.rounds, result.regret, result.tally))


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    """A bar over chunks, with the speed and the time left; nothing in a file or a pipe."""

    def shown(**arguments):
        sweep(game, POINTS, 5, jr.key(0), checkpoints=4, chunk=2, **arguments)
        return capsys.readouterr().err

    assert shown() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = shown().split("\r")[-1]
    assert re.search(r"100%.*3/3 chunks \[\d\d:\d\d<\d\d:\d\d, [\d.e+]+ rounds x trials/s\]", bar)
    assert shown(progress=False) == ""


def test_progress_is_shown_in_a_notebook(monkeypatch):
    """Where ipykernel stands in for the terminal; no widgets are needed."""
    shown = []
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    stream.write = shown.append
    monkeypatch.setattr(sys, "stderr", stream)
    sweep(game, POINTS, 5, jr.key(0), checkpoints=4, chunk=2)
    assert "rounds x trials/s" in "".join(shown)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.float32(1.0), "common leading axis"),
        (np.zeros(0), "common leading axis"),
        ({"epsilon": np.ones(2), "means": np.ones((3, 3))}, "common leading axis"),
        ({**POINTS, "epsilon": np.array([1.0, np.nan])}, "NaN; point 1 does"),
        ({**POINTS, "epsilon": np.array([1.0, 0.0])}, "epsilon must be greater than 0"),
        ({**POINTS, "means": 2.0 * POINTS["means"] + 0.5}, "means must be in"),
    ],
)
def test_bad_points_are_refused_before_anything_is_compiled(points, message):
    with pytest.raises(ValueError, match=message):
        sweep(game, points, 5, jr.key(0), progress=False)


@pytest.mark.parametrize("arguments", [{"seeds": 0}, {"seeds": 2.5}, {"chunk": 0}])
def test_bad_sizes_are_refused_by_name(arguments):
    (name,) = arguments
    with pytest.raises((ValueError, TypeError), match=name):
        sweep(game, POINTS, **{"seeds": 5, "key": jr.key(0), "progress": False, **arguments})


@pytest.mark.parametrize("key", [0, jnp.zeros(2, jnp.uint32), jr.split(jr.key(0), 3)])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(TypeError, match="key must be one key as jax.random.key"):
        sweep(game, POINTS, 2, key, progress=False)


def test_an_error_within_a_chunk_is_raised(monkeypatch):
    """And no chunk after it is waited for."""
    done = []

    def failing(block, seeds, key):
        done.append(seeds)
        time.sleep(0.1)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(programs, "compiled", lambda *arguments: programs.Program(failing, 0))
    with pytest.raises(RuntimeError, match="out of memory"):
        sweep(game, POINTS, 64, jr.key(0), chunk=2, progress=False)
    assert len(done) < 32


@pytest.mark.parametrize("seeds", [1, 2, 5, 64, 720])
@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_blocks_of_seeds_fit_the_limit_and_keep_workers_busy(seeds, limit, workers):
    size = _block_size(seeds, limit, workers)
    blocks = -(-seeds // size)
    assert 1 <= size <= limit
    assert blocks >= min(workers, seeds) or size == -(-seeds // min(workers, seeds))


def test_seeds_are_those_of_fold_in():
    """The first seeds of a larger sweep, and another key, to be sure that it matters."""
    few = sweep(game, POINTS, 2, jr.key(3), progress=False).regret
    many = sweep(game, POINTS, 4, jr.key(3), progress=False).regret
    other = sweep(game, POINTS, 4, jr.key(4), progress=False).regret
    np.testing.assert_array_equal(few, many[:, :2])
    assert (other != many).any()


def test_an_integer_point_is_cast_to_float32():
    def by_tau(tau):
        assert jnp.asarray(tau).dtype == jnp.float32
        return learners.exp3_minibatch(8, 3, tau=tau), environments.table(LOSSES)

    assert sweep(by_tau, np.array([1, 2]), 2, jr.key(0), progress=False).regret.shape[0] == 2
