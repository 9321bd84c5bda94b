"""Points x seeds: shapes, arguments, interruption. Bits and compilations: test_conformance."""

import io
import re
import sys
import time
import warnings
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, simulate, sweep
from dpjax.combinators import rescale_losses
from dpjax.engine import programs, progress
from dpjax.engine.blocks import block_shape, block_size, shared_size
from dpjax.engine.devices import cores
from dpjax.study.watched import warn_of


def run(play=None, points=None, seeds=5, key=0, **arguments):
    """A sweep of the game below."""
    points = POINTS if points is None else points
    arguments = {"checkpoints": 4, "progress": False, **arguments}
    return sweep(play or game, points, seeds, jr.key(key), **arguments)


def of_epsilon(epsilon):
    return learners.dp_exp3_lap(8, 3, epsilon=epsilon), environments.bernoulli([0.1, 0.5, 0.5])


def game(point):
    return (
        learners.dp_exp3_lap(8, 3, epsilon=point["epsilon"]),
        environments.bernoulli(point["means"]),
    )


ENDS = jnp.array([0.4, 0.6])
POINTS = {
    "epsilon": np.array([0.5, 1.0], np.float64),
    "means": np.array([[0.1, 0.5, 0.5], [0.5, 0.1, 0.5]]),
}


def test_shapes_and_host_arrays():
    """Points may be any pytree; results are NumPy arrays with axes (points, seeds, ...)."""
    result = run()
    np.testing.assert_array_equal(result.rounds, [2, 4, 6, 8])
    assert result.regret.shape == (2, 5, 4) and result.tally.shape == (2, 5, 3)
    assert result.report.rejected.shape == (2, 5)
    assert all(isinstance(x, np.ndarray) for x in (result.rounds, result.regret, result.tally))


@pytest.mark.parametrize(
    ("play", "points", "array"),
    [
        (of_epsilon, [0.5, 1.0], np.array([0.5, 1.0])),
        (of_epsilon, (0.5, 1), np.array([0.5, 1.0])),
        (of_epsilon, [np.float64(0.5), 1], np.array([0.5, 1.0])),
        (of_epsilon, np.array([1, 2]), np.array([1.0, 2.0], np.float32)),
        (game, {name: values.tolist() for name, values in POINTS.items()}, POINTS),
    ],
)
def test_points_may_be_integers_and_lists_and_hold_lists(play, points, array):
    np.testing.assert_array_equal(run(play, points).regret, run(play, array).regret)


def test_a_list_of_arrays_is_a_pytree():
    """A point is a list of their entries."""
    in_turn = lambda point: game({"epsilon": point[0], "means": point[1]})  # noqa: E731
    leaves = [POINTS["epsilon"], POINTS["means"]]
    np.testing.assert_array_equal(run(in_turn, leaves).regret, run().regret)


# Blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 100, 1024])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_blocks_of_seeds_fit_the_limit_and_keep_workers_busy(workers, limit):
    """Shared ones have a power of two of seeds, and little is computed in vain."""
    for seeds in (*range(1, 70), 100, 720, 1000, 1023, 1024, 5000, 2**20 + 1):
        size = block_size(seeds, limit, workers)
        assert 1 <= size <= limit
        assert -(-seeds // size) >= min(workers, seeds) or size == -(-seeds // min(workers, seeds))
        size = shared_size(seeds, limit, workers, enough=64)
        assert 1 <= size <= limit and size & (size - 1) == 0
        surplus = -seeds % size
        assert surplus < max(64, seeds / 8) and (surplus < seeds or seeds == 1)
        assert size > limit / 2 or size >= min(64, seeds / workers)
    assert {shared_size(n, 1024, workers, 64) for n in range(63 * workers + 1, 1024)} == {64}


def test_a_block_has_at_least_eight_trajectories_on_a_cpu():
    for points, seeds in product((1, 2, 4), (1, 7, 64)):
        assert points * block_shape(points, seeds, None, None)[1] >= 8


def test_another_number_of_trials_compiles_nothing(monkeypatch):
    compiled, compile_block = [], programs.compile_block

    def counted(traced, size, mesh):
        compiled.append(size)
        return compile_block(traced, size, mesh)

    monkeypatch.setattr(programs, "compile_block", counted)
    own = lambda epsilon: of_epsilon(epsilon)  # noqa: E731
    trials = (63 * cores() + 1, 300, 720, 1023)
    found = [run(own, np.array([0.5, 2.0]), seeds).regret for seeds in trials]
    assert compiled == [(2, 64)]
    for part in found:
        np.testing.assert_array_equal(part, found[-1][:, : part.shape[1]])


def test_an_error_within_a_chunk_is_raised(monkeypatch):
    """Without waiting for a later chunk."""
    done = []

    def failing(block, seeds, key):
        done.append(seeds)
        time.sleep(0.1)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(programs, "compiled", lambda *arguments: programs.Program(failing, 0, 0))
    with pytest.raises(RuntimeError, match="out of memory"):
        run(seeds=64, chunk=2)
    assert len(done) < 32


# Progress --------------------------------------------------------------------------------------


def lines_of(capsys):
    return [line for line in capsys.readouterr().err.split("\n") if line]


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    """With the speed and the time left. In a file or pipe nothing is shown for 30 seconds."""

    def shown(progress=True):
        run(chunk=2, progress=progress)
        return capsys.readouterr().err

    assert shown() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    speed = r"[\d.]+[kMG]? rounds x trials/s"
    bar = shown().split("\r")[-1]
    assert re.search(rf"100%.*80.0/80.0 \[\d\d:\d\d<\d\d:\d\d, {speed}\]", bar)
    assert shown(False) == ""


def test_progress_is_shown_in_a_notebook(monkeypatch):
    """If ipykernel replaces the terminal; no widgets are needed."""
    shown = []
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    stream.write = shown.append
    monkeypatch.setattr(sys, "stderr", stream)
    run(chunk=2, progress=True)
    assert "rounds x trials/s" in "".join(shown)


def test_a_log_has_lines_with_what_is_done_and_what_remains(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    run(chunk=2, progress=True)
    found = [re.match(r" *(\d+)% [\d.]+/80.0 \[\d\d:\d\d<", line) for line in lines_of(capsys)]
    parts = [int(each[1]) for each in found]  # of blocks of 2, 2 and 1 trials, in any order
    assert parts[0] == 0 and {*parts[1:3]} in ({40, 80}, {40, 60}, {20, 60}) and parts[3] == 100
    run(chunk=2)
    assert lines_of(capsys) == []


# Warnings and errors ---------------------------------------------------------------------------


def gaussian(point):
    scale, deviation = point
    return learners.exp3(8, 2), environments.gaussian(scale * ENDS, deviation=deviation)


@pytest.mark.parametrize("stored", [False, True])
def test_losses_that_are_all_clipped_are_told(stored, tmp_path):
    """Those that are only occasionally clipped cause no warning, which names the caller's line."""
    message = r"gaussian, point 3: losses were outside .* at least 8 times in 8 rounds"
    store = str(tmp_path / "store") if stored else None
    with pytest.warns(RuntimeWarning, match=message) as told:
        points = [np.array([1.0, 1.0, 1.0, 25.0]), np.full(4, 0.01)]
        sweep(gaussian, points, 4, jr.key(0), store=store, chunk=2)  # two blocks of points
    assert {warning.filename for warning in told} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run(gaussian, [np.ones(2), np.array([0.01, 1.0])])
    assert result.clipped[1].min() > 0


def test_a_warning_of_clipping_names_the_point_and_the_range():
    def played(point):
        return rescale_losses(learners.exp3(8, 2), -1.0, 3.0), None

    points = {"epsilon": np.array([1.0, 10.0]), "weights": np.ones((2, 3))}
    with pytest.warns(RuntimeWarning, match=r"Scale losses into \[-1, 3\], or declare") as found:
        warn_of(played, points, 8, [], np.array([0.0, 8.0]))
    assert str(found[0].message).startswith("played, point 1, epsilon = 10: losses")


def compares(epsilon):
    if epsilon > 1:
        pass


def bounded(epsilon):
    """Makes a learner that looks at the vertices of its set."""
    sets = domains.capped_simplex(4, 2)
    learners.cucb(
        8, sets._replace(minimizer=lambda g: sets.minimizer(g) * jnp.sign(epsilon)), epsilon=1.0
    )


LINE = r"game must not branch on a traced value, as line \d+ of "


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (compares, LINE + r"test_sweep.py \(if epsilon > 1:\) does: .* use jnp.where"),
        (bounded, LINE),
        (float, "traced value, as line .* NumPy need concrete numbers"),
        (int, "and a separate game for each size"),
        (lambda tau: range(jnp.int32(tau)), "a separate game for each"),
        (np.sqrt, "use .* jax.numpy"),
    ],
)
def test_a_game_that_inspects_its_point_is_refused_in_one_sentence(look, message):
    with pytest.raises(TypeError, match=message) as refused:
        run(lambda point: (look(point), of_epsilon(1.0))[1], np.array([1.0, 2.0]))
    assert "\n" not in str(refused.value)


def test_a_trial_is_the_game_with_the_key_of_its_seed():
    """Key i of ``split(key, n)`` is ``fold_in(key, i)``, the key of trial i."""
    points = np.array([1.0])
    found = sweep(of_epsilon, points, 3, jr.key(0), checkpoints=1, progress=False).regret
    for keys in (jr.split(jr.key(0), 3), [jr.fold_in(jr.key(0), seed) for seed in range(3)]):
        alone = [simulate(*of_epsilon(1.0), key, checkpoints=1).regret for key in keys]
        np.testing.assert_allclose(found[0], alone, rtol=1e-5)
