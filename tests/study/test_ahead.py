"""While a study plays one program, the next ones are compiled."""

import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from dpjax import clear_caches, environments, learners
from dpjax.engine import compute, programs
from dpjax.study import Study

COINS = {"coins": environments.bernoulli([0.2, 0.8])}


def study_of(*horizons, learner=learners.exp3):
    return Study(learner, COINS, {"horizon": list(horizons), "arms": 2}, trials=3, checkpoints=2)


@pytest.fixture
def compiled(monkeypatch):
    """The thread of each compilation, after the caches were emptied."""
    kept, threads = programs.compile_block, []

    def note(*arguments):
        threads.append(threading.current_thread())
        return kept(*arguments)

    clear_caches()
    monkeypatch.setattr(programs, "compile_block", note)
    return threads


def test_other_threads_compile_each_program_once(compiled):
    coins = {"coins": lambda arms: environments.bernoulli([0.2] * arms)}
    grid = {"horizon": 8, "arms": [2, 3, 4, 5, 6]}
    data = Study(learners.exp3, coins, grid, trials=3, checkpoints=2).run(progress=False)
    assert len(compiled) == 5
    assert threading.main_thread() not in compiled
    assert np.isfinite(data["final_regret"]).all()


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
        study_of(8, 9).run(progress=False)


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

    def broken(horizon, arms):
        learner = learners.exp3(horizon, arms)
        return learner._replace(report=lambda state: {"nan": state.probability * np.nan})

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        study_of(7, learner=broken).run(progress=False)
    assert [each.filename for each in told if "NaN" in str(each.message)] == [__file__]
