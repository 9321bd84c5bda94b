"""Programs of a study that differ only in horizon are compiled once, and play the same."""

import threading
import warnings
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from dpjax import clear_caches, domains, environments, learners, mechanisms, sweep
from dpjax.engine import compute, programs
from dpjax.study import Study, horizons
from dpjax.study.sweep import planned

pytestmark = pytest.mark.usefixtures("quick_compilation")
EPSILONS = [0.5, np.inf]


def coins(arms):
    return environments.bernoulli([0.3] + [0.5] * (arms - 1))


def study_of(*given, learner=learners.dp_exp3_lap, arms=2, **options):
    grid = {"epsilon": EPSILONS, "horizon": list(given), "arms": arms}
    options = {"trials": 4, "checkpoints": 3, **options}
    return Study(learner, {"coins": coins}, grid, **options)


def at(data, horizon):
    """The regret of one horizon, at its own checkpoints."""
    return data["regret"].sel(horizon=horizon).dropna("round").values


def alone(horizon, learner=learners.dp_exp3_lap, arms=2):
    """The regret of a sweep whose program has no numbers as arguments."""

    def game(epsilon):
        return learner(horizon, arms, epsilon=epsilon), coins(arms)

    return sweep(game, EPSILONS, 4, jax.random.key(0), checkpoints=3, progress=False).regret


@pytest.fixture
def compiled(monkeypatch):
    """The compiled programs with their threads, after the caches were emptied."""
    found, compile_block = [], programs.compile_block

    def noted(traced, size, mesh):
        found.append((traced, threading.current_thread()))
        return compile_block(traced, size, mesh)

    clear_caches()
    monkeypatch.setattr(programs, "compile_block", noted)
    return found


def test_a_grid_over_horizons_compiles_a_program_for_each_number_of_arms(compiled):
    data = study_of(40, 57, 64, 90, arms=[2, 3]).run(progress=False)
    assert len(compiled) == 2 and np.isfinite(data["final_regret"]).all()
    assert threading.main_thread() not in {thread for _, thread in compiled}
    for horizon in (40, 57, 64, 90):
        here = data.sel(learner="dp_exp3_lap", environment="coins", arms=3)
        np.testing.assert_allclose(
            np.squeeze(at(here, horizon)), alone(horizon, arms=3), rtol=1e-4, atol=1e-5
        )


def test_horizons_with_even_and_with_geometric_checkpoints_are_one_program(compiled):
    def losses():
        return environments.bernoulli([0.2, 0.8], regret="pseudo")

    horizons = [10**5, 10**6, 3 * 10**6]
    grid = {"horizon": horizons, "arms": 2, "epsilon": 1.0}
    learner = {"SE": learners.successive_elimination}
    study = Study(learner, {"coins": losses}, grid, trials=4, checkpoints=3)
    data = study.run(progress=False)
    assert len(compiled) == 1
    own = [data["regret"].sel(horizon=horizon).dropna("round") for horizon in horizons]
    assert [each["round"].values.tolist() for each in own] == [
        [33333, 66666, 10**5], [100, 10**4, 10**6], [100, 17321, 3 * 10**6]
    ]  # fmt: skip


def test_a_horizon_has_the_same_bits_in_every_study(compiled):
    """Alone, with others, after others, with a second learner, and for a part of the points."""
    several = study_of(57, 40, 90).run(progress=False)
    assert len(compiled) == 1
    clear_caches()
    single = study_of(40).run(progress=False)
    np.testing.assert_array_equal(at(several, 40), at(single, 40))
    assert len(compiled) == 2 and compiled[0][0] == compiled[1][0]
    study = study_of(40)
    some = study.play_some(study.programs[0], np.array([True, True]), 4, 3, progress=False)
    np.testing.assert_array_equal(np.squeeze(at(single, 40)), some.arrays["regret"])
    assert len(compiled) == 2  # It is the same program.


def test_the_numbers_of_another_horizon_are_seen(monkeypatch):
    """The planted mistake: one program is run with the first horizon's numbers for all."""
    run, first, expected = compute._run, {}, [alone(40), alone(57)]

    def mixed(plan, program, *rest):
        vectors = first.setdefault("vectors", plan.traced.lifted.vectors)
        lifted = plan.traced.lifted._replace(vectors=vectors)
        traced = programs.replace(plan.traced, lifted=lifted)
        return run(plan._replace(traced=traced), program, *rest)

    monkeypatch.setattr(compute, "_run", mixed)
    data = study_of(40, 57).run(progress=False)
    np.testing.assert_allclose(np.squeeze(at(data, 40)), expected[0], rtol=1e-4, atol=1e-5)
    assert np.abs(np.squeeze(at(data, 57)) - expected[1]).max() > 0.5


BALL = domains.ball(2)


@pytest.mark.parametrize("mechanism", [
    partial(mechanisms.tree, identical_law=True), mechanisms.honaker, mechanisms.hybrid
])  # fmt: skip
def test_trees_of_up_to_eight_and_of_up_to_sixteen_levels_are_two_programs(compiled, mechanism):
    """The height is a number of the program: with that of another horizon, noise would differ."""

    def tree(horizon, epsilon):
        return learners.ftrl(horizon, BALL, epsilon=epsilon, mechanism=mechanism)

    losses, given = environments.linear_losses(BALL, "iid"), (44, 256, 300, 4096)
    grid = {"epsilon": EPSILONS, "horizon": list(given)}
    data = Study(tree, {"iid": losses}, grid, trials=4, checkpoints=3).run(progress=False)
    assert len(compiled) == 2
    for horizon in given:
        own = sweep(lambda e, horizon=horizon: (tree(horizon, e), losses), EPSILONS, 4,
                    jax.random.key(0), checkpoints=3, progress=False)  # fmt: skip
        np.testing.assert_allclose(np.squeeze(at(data, horizon)), own.regret, rtol=1e-4, atol=1e-3)


def test_a_store_knows_the_numbers(tmp_path):
    """Horizons with a common compiled program are different games in a store."""
    study = study_of(40, 57)
    plans = [horizons.Horizons().lifted(p, study_plan(study, p)) for p in study.programs]
    first, second = (plan.traced for plan in plans)
    assert first == second and first.digest != second.digest
    kept = study.run(tmp_path / "kept", progress=False)
    assert kept.identical(study_of(40, 57).run(tmp_path / "kept", progress=False))

    def slower(horizon, arms, epsilon):
        return learners.dp_exp3_lap(2 * horizon, arms, epsilon=epsilon)._replace(horizon=horizon)

    slower.__name__ = "dp_exp3_lap"
    with pytest.raises(ValueError, match="another"):
        study_of(40, 57, learner=slower).run(tmp_path / "kept", progress=False)


def study_plan(study, program):
    return planned(
        program.game(), program.points(), 4, study.prng_key, study._play(*program.first()), 3,
        None, None,
    )  # fmt: skip


def test_a_horizon_that_the_factory_refuses_is_no_trouble(compiled, caplog):
    """The other one is tried; if neither works, the program is played unchanged, and logged."""
    caplog.set_level("INFO", logger="dpjax")

    def picky(horizon, arms, epsilon):
        if horizon not in (40, 57):
            raise RuntimeError("another horizon")
        return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)

    data = study_of(40, 57, learner=picky).run(progress=False)
    assert [traced.lifted.places for traced, _ in compiled] == [{}, {}]
    name = "picky, coins, horizon = 40, arms = 2"
    assert f"{name} cannot be traced at horizon 13: another horizon" in caplog.messages
    assert (
        f"{name} is compiled for its horizon alone: no other gives this program" in caplog.messages
    )
    for horizon in (40, 57):
        np.testing.assert_array_equal(np.squeeze(at(data, horizon)), alone(horizon))


def test_factories_that_warn_do_so_for_their_own_horizon(recwarn):
    def loud(horizon, arms, epsilon):
        warnings.warn(f"horizon {horizon}", stacklevel=1)
        return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)

    study_of(40, learner=loud).run(progress=False)
    assert {str(each.message) for each in recwarn} == {"horizon 40"}


def fails(*arguments):
    raise MemoryError


def test_numbers_of_other_horizons_are_kept_on_disk(tmp_path, monkeypatch):
    """A second process traces no other horizon. A damaged file is made again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DPJAX_CACHE")
    study, traces, trace = study_of(40), [], horizons.trace
    (program,) = study.programs
    monkeypatch.setattr(horizons, "trace", lambda *own: traces.append(own) or trace(*own))

    def traced():
        return horizons.Horizons().lifted(program, study_plan(study, program)).traced

    first, count = traced(), len(traces)
    assert count and first.lifted.places and traced() == first and len(traces) == count
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(b"damaged")
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert traced() == first
    assert len(traces) == 2 * count and file.read_bytes() != b"damaged"
    file.unlink()
    monkeypatch.setattr(horizons, "trace", fails)
    assert not traced().lifted.places and not file.exists()  # A failure is not kept.


# While a study plays one program, the next ones are compiled.


def test_what_a_store_holds_is_not_compiled(compiled, tmp_path):
    first = study_of(7, 8).run(tmp_path / "kept", progress=False)
    clear_caches()
    compiled.clear()
    again = study_of(7, 8).run(tmp_path / "kept", progress=False)
    assert first.identical(again)
    assert compiled == []


def test_what_cannot_be_compiled_fails_in_its_turn(compiled, monkeypatch):
    def fails(traced, size, mesh):
        raise RuntimeError("no code for this one")

    data = study_of(7).run(progress=False)
    monkeypatch.setattr(programs, "compile_block", fails)
    assert study_of(7).run(progress=False).identical(data)  # It was kept.
    with pytest.raises(RuntimeError, match="no code for this one"):
        study_of(8, 9, arms=3).run(progress=False)


def test_plans_keep_their_order_and_none_is_made_without_need(monkeypatch):
    made, asked = [], []

    def plans():
        for i in range(9):
            made.append(i)
            yield SimpleNamespace(i=i, traced=i, block=(2, 2)), i != 3

    monkeypatch.setattr(compute, "_compile", lambda plan: asked.append(plan.i))
    monkeypatch.setattr(compute.devices, "cores", lambda: 2)
    ahead = compute.compiled_ahead(plans())
    assert next(ahead).i == 0
    assert made == [0, 1, 2]
    assert [plan.i for plan in ahead] == list(range(1, 9))
    assert sorted(asked) == [0, 1, 2, 4, 5, 6, 7, 8]


def test_plans_of_one_program_wait_for_one_compilation(monkeypatch):
    """Those after them are compiled meanwhile, although only a limited number of plans is made."""
    made, asked = [], []

    def plans(count):
        for i in range(count):
            made.append(i)
            yield SimpleNamespace(i=i, traced=i // 40, block=(2, 2)), True

    monkeypatch.setattr(compute, "_compile", lambda plan: asked.append(plan.i))
    monkeypatch.setattr(compute.devices, "cores", lambda: 1)
    ahead = compute.compiled_ahead(plans(80))
    assert [next(ahead).i for _ in range(9)] == list(range(9))
    assert max(made) == 8 + compute._AHEAD
    assert [plan.i for plan in ahead] == list(range(9, 80))
    assert asked == [0, 40]


def test_a_warning_names_the_line_that_runs_the_study():
    """Not a line of dpjax, and the line that plays, not the one that compiles."""

    def broken(horizon, arms, epsilon):
        learner = learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)
        return learner._replace(report=lambda state: {"nan": epsilon * np.nan})

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        study_of(7, learner=broken).run(progress=False)
    assert [each.filename for each in told if "NaN" in str(each.message)] == [__file__]
