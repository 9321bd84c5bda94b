"""Points x seeds: shapes, arguments, interruption. Bits and compilations: test_conformance."""

import io
import re
import sys
import time
import warnings
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, environments, gram, learners, mechanisms, simulate, sweep
from dpjax.combinators import rescale_losses
from dpjax.engine import programs, progress
from dpjax.engine.blocks import block_size, shared_size
from dpjax.engine.devices import cores
from dpjax.game.batches import simulate_batches
from dpjax.study.watched import warn_of

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
    """With the speed and the time left. In a file or pipe nothing is shown for 30 seconds."""

    def shown(**arguments):
        sweep(game, POINTS, 5, jr.key(0), checkpoints=4, chunk=2, **arguments)
        return capsys.readouterr().err

    assert shown() == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = shown().split("\r")[-1]
    speed = r"[\d.]+[kMG]? rounds x trials/s"
    assert re.search(rf"100%.*80.0/80.0 \[\d\d:\d\d<\d\d:\d\d, {speed}\]", bar)
    assert shown(progress=False) == ""


def test_a_log_has_lines_with_what_is_done_and_what_remains(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    sweep(game, POINTS, 5, jr.key(0), checkpoints=4, chunk=2)
    lines = capsys.readouterr().err.split("\n")
    found = [re.match(r" *(\d+)% [\d.]+/80.0 \[\d\d:\d\d<", line) for line in lines if line]
    parts = [int(each[1]) for each in found]  # of blocks of 2, 2 and 1 trials, in any order
    assert parts[0] == 0 and {*parts[1:3]} in ({40, 80}, {40, 60}, {20, 60}) and parts[3] == 100
    sweep(game, POINTS, 5, jr.key(0), checkpoints=4, chunk=2, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stored", [False, True])
def test_minutes_that_remain_are_announced_once(stored, capsys, monkeypatch):
    """A run without a store is advised to use one."""
    clock = iter([0.0, 3.0, 6.0, 9.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    with progress.Bar(1000.0, True, stored=stored) as bar:
        bar.skip_to(100.0)  # a store has these
        for _ in range(4):
            bar.update(10.0)
    said = [line for line in capsys.readouterr().err.splitlines() if "dpjax: about" in line]
    assert len(said) == 1 and "about 4 minutes remain for 8.7e+02 rounds x trials." in said[0]
    assert ("With a store" in said[0]) == (not stored)
    clock = iter([0.0, 6.0, 12.0])
    with progress.Bar(30.0, True) as bar:
        for _ in range(3):
            bar.update(10.0)
    assert "dpjax: about" not in capsys.readouterr().err


def test_progress_is_shown_in_a_notebook(monkeypatch):
    """If ipykernel replaces the terminal; no widgets are needed."""
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
        ({**POINTS, "epsilon": np.array([1.0, np.nan])}, "points: entry 2 is missing"),
        ({**POINTS, "epsilon": np.array([1.0, 0.0])}, "epsilon must be greater than 0"),
        ({**POINTS, "means": 2.0 * POINTS["means"] + 0.5}, "means: entry . is .*; means must lie"),
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
    with pytest.raises(TypeError, match="key must be one key, such as jax.random.key"):
        sweep(game, POINTS, 2, key, progress=False)


def test_an_error_within_a_chunk_is_raised(monkeypatch):
    """Without waiting for a later chunk."""
    done = []

    def failing(block, seeds, key):
        done.append(seeds)
        time.sleep(0.1)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(programs, "compiled", lambda *arguments: programs.Program(failing, 0, 0))
    with pytest.raises(RuntimeError, match="out of memory"):
        sweep(game, POINTS, 64, jr.key(0), chunk=2, progress=False)
    assert len(done) < 32


@pytest.mark.parametrize("seeds", [1, 2, 5, 64, 720])
@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
@pytest.mark.parametrize("workers", [1, 2, 16])
def test_blocks_of_seeds_fit_the_limit_and_keep_workers_busy(seeds, limit, workers):
    size = block_size(seeds, limit, workers)
    blocks = -(-seeds // size)
    assert 1 <= size <= limit
    assert blocks >= min(workers, seeds) or size == -(-seeds // min(workers, seeds))


@pytest.mark.parametrize("workers", [1, 2, 16])
@pytest.mark.parametrize("limit", [1, 7, 1024])
def test_blocks_have_a_power_of_two_of_seeds_and_little_is_computed_in_vain(workers, limit):
    for seeds in (*range(1, 70), 100, 720, 1000, 1023, 1024, 5000, 2**20 + 1):
        size = shared_size(seeds, limit, workers, enough=64)
        assert 1 <= size <= limit and size & (size - 1) == 0
        surplus = -seeds % size
        assert surplus < max(64, seeds / 8) and (surplus < seeds or seeds == 1)
        assert size > limit / 2 or size >= min(64, seeds / workers)
    some = {shared_size(seeds, 1024, workers, 64) for seeds in range(63 * workers + 1, 1024)}
    assert some == {64}


def test_another_number_of_trials_compiles_nothing(monkeypatch):
    compiled, compile_block = [], programs.compile_block

    def counted(traced, size, mesh):
        compiled.append(size)
        return compile_block(traced, size, mesh)

    monkeypatch.setattr(programs, "compile_block", counted)
    few = 63 * cores() + 1

    def own(epsilon):
        return learners.dp_exp3_lap(9, 3, epsilon=epsilon), environments.bernoulli([0.2, 0.5, 0.5])

    found = [
        sweep(own, np.array([0.5, 2.0]), seeds, jr.key(0), progress=False).regret
        for seeds in (few, 300, 720, 1023)
    ]
    assert compiled == [(2, 64)]
    for part in found:
        np.testing.assert_array_equal(part, found[-1][:, : part.shape[1]])


def test_seeds_are_those_of_fold_in():
    """The first seeds of a larger sweep; and another key, to check that the key matters."""
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


# Games that cannot be swept: each error is one sentence that says what to do.


def looking(look):
    """A game that inspects its point."""

    def game(point):
        look(point)
        return learners.exp3(8, 3), environments.bernoulli([0.1, 0.5, 0.5])

    return game


def compares(epsilon):
    if epsilon > 1:
        pass


def bounded(epsilon):
    """Makes a learner that looks at the vertices of its set."""
    sets = domains.capped_simplex(4, 2)
    learners.cucb(
        8, sets._replace(minimizer=lambda g: sets.minimizer(g) * jnp.sign(epsilon)), epsilon=1.0
    )


def on_simplex(**arguments):
    return learners.ftrl(8, domains.simplex(3), epsilon=1.0, **arguments)


def on_contexts(mechanism):
    return learners.linucb(8, 2, epsilon=1.0, delta=1e-6, gram=gram.gaussian(mechanism=mechanism))


LEARNER, ENVIRONMENT = learners.exp3(8, 3), environments.bernoulli([0.1, 0.5, 0.5])
TREE = mechanisms.tree(8, noise="laplace")
FACTORY = "mechanism must be a factory such as mechanisms.tree, not called yet, got"


def swept(game=None, points=(1.0, 2.0), **options):
    game = game or (lambda point: (LEARNER, ENVIRONMENT))
    return lambda: sweep(game, points, 2, jr.key(0), **options)


MISFITS = {
    "the environment first": (
        swept(lambda point: (ENVIRONMENT, LEARNER)), "the learner must come first and the env",
    ),
    "the environment first, one game": (
        lambda: simulate(ENVIRONMENT, LEARNER, jr.key(0)), "the learner must come first and the",
    ),
    "the environment first, by batches": (
        lambda: simulate_batches(ENVIRONMENT, LEARNER, jr.key(0)), "learner must be a BatchLearner",
    ),
    "one thing": (
        swept(lambda point: LEARNER),
        r"game must return a pair \(learner, environment\), but it returned a Learner$",
    ),
    "nothing": (swept(lambda point: None), "pair .*, but it returned nothing"),
    "three things": (
        swept(lambda point: (LEARNER, ENVIRONMENT, 3)), "but it returned a tuple of 3",
    ),
    "no function": (
        swept((LEARNER, ENVIRONMENT)), "game must be a function of a point .*, got a tuple of 2",
    ),
    "a factory for a learner": (
        swept(lambda point: (learners.exp3, ENVIRONMENT)),
        "learner must be a Learner or a BatchLearner, such as .*; got exp3 itself, which has to be",
    ),
    "a factory for an environment": (
        swept(lambda point: (LEARNER, environments.bernoulli)),
        "environment must be an Environment, such as .*; got bernoulli itself, which has to be",
    ),
    "an if": (
        swept(looking(compares)),
        r"game must not branch on a traced value, as line \d+ of test_sweep.py \(if epsilon > 1:\) "
        "does: .* use jnp.where",
    ),
    "a set that depends on epsilon": (
        swept(looking(bounded)), r"game must not branch on a traced value, as line \d+ of ",
    ),
    "a float": (swept(looking(float)), "traced value, as line .* NumPy need concrete numbers"),
    "an int": (swept(looking(int)), "and a separate game for each size"),
    "an index": (swept(looking(lambda tau: range(jnp.int32(tau)))), "a separate game for each"),
    "a function of NumPy": (swept(looking(np.sqrt)), "use .* jax.numpy"),
    "a word for epsilon": (
        lambda: learners.dp_exp3_lap(8, 3, epsilon="1"), "epsilon must be greater than 0.* got '1'",
    ),
    "words for points": (swept(points=["1", "2"]), "points: entry 1 is '1', which is"),
    "points of unequal length": (swept(points=[[1.0], [1.0, 2.0]]), "points: must be an array"),
    "a number for a key": (
        lambda: simulate(LEARNER, ENVIRONMENT, 0), "key must be one key, such as .* got 0",
    ),
    "a number for a key, by batches": (
        lambda: simulate_batches(
            learners.exp3_minibatch(8, 3, epsilon=1.0),
            environments.bernoulli([0.1, 0.5, 0.5], regret="pseudo"), 0,
        ),
        "key must be one key, such as jax.random.key.* got 0",
    ),
    "a word for play": (
        swept(play="batches"), "play must be a function, simulate or simulate_batches .*'batches'",
    ),
    "a mechanism that is called": (lambda: on_simplex(mechanism=TREE), f"{FACTORY} a Mechanism"),
    "a word for a mechanism": (lambda: on_simplex(mechanism="tree"), f"{FACTORY} 'tree'"),
    "a mechanism that is called, of matrices": (lambda: on_contexts(TREE), f"{FACTORY} a Mech"),
    "a mechanism that is not called": (
        lambda: audit.sensitivity(mechanisms.tree), "must be a Mechanism, such .*; got tree itself",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_one_sentence(name):
    call, message = MISFITS[name]
    with pytest.raises((TypeError, ValueError), match=message) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("points", [[0.5, 1.0], (0.5, 1), [np.float64(0.5), 1]])
def test_points_may_be_a_list_of_numbers(points):
    def of_epsilon(epsilon):
        return learners.dp_exp3_lap(8, 3, epsilon=epsilon), ENVIRONMENT

    array = sweep(of_epsilon, np.array([0.5, 1.0]), 2, jr.key(0)).regret
    np.testing.assert_array_equal(sweep(of_epsilon, points, 2, jr.key(0)).regret, array)


def test_points_may_hold_lists_and_be_a_list_of_arrays():
    """A list of arrays is a pytree: a point is a list of their entries."""
    whole = sweep(game, POINTS, 2, jr.key(0)).regret
    lists = {name: values.tolist() for name, values in POINTS.items()}
    np.testing.assert_array_equal(sweep(game, lists, 2, jr.key(0)).regret, whole)
    leaves = [POINTS["epsilon"], POINTS["means"]]
    in_turn = lambda point: game({"epsilon": point[0], "means": point[1]})  # noqa: E731
    np.testing.assert_array_equal(sweep(in_turn, leaves, 2, jr.key(0)).regret, whole)


OUT_OF_RANGE = r"gaussian, point 1: losses were outside .* at least 8 times in 8 rounds"


def test_losses_that_are_all_clipped_are_told():
    """Losses that are only occasionally clipped cause no warning."""

    def gaussian(point):
        scale, deviation = point
        means = scale * jnp.array([0.4, 0.6])
        return learners.exp3(8, 2), environments.gaussian(means, deviation=deviation)

    with pytest.warns(RuntimeWarning, match=OUT_OF_RANGE):
        sweep(gaussian, [np.array([1.0, 25.0]), np.full(2, 0.01)], 4, jr.key(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = sweep(gaussian, [np.ones(2), np.array([0.01, 1.0])], 4, jr.key(0))
    assert result.clipped[1].min() > 0


@pytest.mark.parametrize("stored", [False, True])
def test_warnings_name_the_line_that_called(stored, tmp_path):
    """For results in memory and in a store."""

    def out_of_range(point):
        means = point * jnp.array([0.4, 0.6])
        return learners.exp3(8, 2), environments.gaussian(means, deviation=0.01)

    store = str(tmp_path / "store") if stored else None
    with pytest.warns(RuntimeWarning, match="out_of_range, point 0: losses were outside") as told:
        sweep(out_of_range, np.array([25.0]), 2, jr.key(0), store=store)
    assert {warning.filename for warning in told} == {__file__}


@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_shows_its_words_and_the_time_without_progress(terminal, capsys, monkeypatch):
    """In logs and on terminals, also if nothing is counted."""
    for name in ("_SILENT", "_REFRESH", "_WAITING"):
        monkeypatch.setattr(progress, name, 0.05)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.Bar(100.0, True) as bar:
        bar.say("compiling exp3")
        time.sleep(0.3)
        bar.update(10.0)
        last = str(bar)
    waiting = re.findall(
        r", compiling exp3, \d+ s since the last progress", capsys.readouterr().err
    )
    assert len(waiting) >= 2
    assert last.endswith("compiling exp3]")


@pytest.mark.parametrize(
    ("learner", "advice"),
    [
        (learners.exp3(8, 2), r"rescale_losses\(learner, low, high\)\.$"),
        (rescale_losses(learners.exp3(8, 2), -1.0, 3.0), r"into \[-1, 3\]\.$"),
        (learners.glm_sgd(8, 2, epsilon=1.0), r"into \[0, 1\], and its features .* by default\.$"),
    ],
)
def test_a_warning_of_clipping_names_the_point_and_fitting_advice(learner, advice):
    """Only some learners can be rescaled."""

    def played(point):
        return learner, None

    points = {"epsilon": np.array([1.0, 10.0]), "weights": np.ones((2, 3))}
    with pytest.warns(RuntimeWarning, match=advice) as found:
        warn_of(played, points, 8, [], np.array([0.0, 8.0]))
    assert str(found[0].message).startswith("played, point 1, epsilon = 10: losses")


def lines_of(capsys):
    return [line for line in capsys.readouterr().err.split("\n") if line]


def test_a_log_has_lines_while_a_block_is_computed(capsys, monkeypatch):
    """Though nothing is counted; not without progress, on a terminal, or after the end."""
    monkeypatch.setattr(progress, "_SILENT", 0.05)
    with progress.Bar(100.0, True):
        assert progress.Bar.in_logs == 1
        time.sleep(0.3)
    found = lines_of(capsys)
    assert 2 <= len(found) <= 6 and all(re.match(r" *0% 0.00/100 \[", line) for line in found)
    assert progress.Bar.in_logs == 0
    with progress.Bar(2.0, True, "learners") as bar:
        bar.update()
        time.sleep(0.12)
    found = lines_of(capsys)
    assert found and all(re.match(r" *50% 1.*/2.* learners/s\]", line) for line in found)
    with progress.Bar(100.0, False):
        time.sleep(0.12)
    time.sleep(0.12)
    assert lines_of(capsys) == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.Bar(100.0, True):
        assert progress.Bar.in_logs == 0
