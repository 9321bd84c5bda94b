"""Studies have the documented layout, and their numbers are those of sweeps."""

import re
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pandas
import pytest
import xarray

from dpjax import core, domains, environments, learners, simulate, sweep
from dpjax.study import Study
from dpjax.study import cost as costs

ARMS = {"arms": 3, "horizon": 40}


def stochastic(arms):
    return environments.bernoulli([0.3] + [0.5] * (arms - 1), regret="pseudo")


def lap(horizon, arms, epsilon):
    """A learner that takes no mixing."""
    return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)


@pytest.fixture(scope="module")
def study():
    return Study(
        {"EXP3": learners.exp3, "DP-EXP3-Lap": lap},
        {"stochastic": stochastic},
        {"epsilon": [0.5, np.inf], "mixing": [0.1, 0.4], "horizon": [30, 40], "arms": 3},
        trials=6,
        checkpoints=4,
    )


@pytest.fixture(scope="module")
def data(study):
    return study.run(progress=False)


def test_the_axes_are_those_of_the_grid(study, data):
    assert data["regret"].dims == (
        "learner", "environment", "epsilon", "mixing", "horizon", "trial", "round",
    )  # fmt: skip
    assert data["arms"].item() == 3
    assert data["horizon"].values.tolist() == [30, 40]
    assert len(study.programs) == 2 * 2
    short = data["regret"].sel(horizon=30)
    assert np.isnan(short.sel(round=40)).all() and np.isfinite(short.sel(round=30)).all()


def test_cells_are_those_of_a_sweep(data):
    def game(epsilon):
        return learners.dp_exp3_lap(40, 3, epsilon=epsilon), stochastic(3)

    alone = sweep(game, [0.5, np.inf], 6, jax.random.key(0), checkpoints=4, progress=False)
    cells = data["regret"].sel(learner="DP-EXP3-Lap", environment="stochastic", horizon=40)
    for mixing in (0.1, 0.4):  # It takes no mixing, so all values have its numbers.
        here = cells.sel(mixing=mixing).sel(round=alone.rounds)
        assert np.array_equal(here.values, alone.regret)
    final = data["final_regret"].sel(learner="DP-EXP3-Lap", environment="stochastic", horizon=40)
    assert np.array_equal(final.sel(mixing=0.4).values, alone.regret[..., -1])


def test_each_cell_carries_what_it_declares(data):
    declared = data["privacy_epsilon"].sel(learner="DP-EXP3-Lap", mixing=0.1, horizon=40)
    assert declared.values.tolist() == [0.5, np.inf]
    models = data["privacy_model"].sel(mixing=0.1, horizon=40, epsilon=0.5)
    assert models.values.tolist() == ["central", "local"]
    exp3 = data["privacy_epsilon"].sel(learner="EXP3", epsilon=0.5, horizon=40)
    expected = [learners.exp3(40, 3, mixing=mixing).privacy.epsilon for mixing in (0.1, 0.4)]
    assert np.allclose(exp3, expected, rtol=1e-6)
    assert data["takes_mixing"].sel(environment="stochastic").values.tolist() == [True, False]


def test_trials_of_all_cells_meet_the_same_nature():
    """The tally is loss of the action minus loss of each arm, so its differences are nature's."""
    study = Study(
        [learners.exp3, learners.dp_exp3_lap],
        {"drifting": lambda arms: environments.oblivious(arms, 5)},
        {**ARMS, "epsilon": [0.1, np.inf]}, trials=3,
    )  # fmt: skip
    found = study.run(progress=False)
    nature = found["tally"].diff("tally_0")
    assert (nature.max("learner") - nature.min("learner")).max() < 1e-4
    assert (nature.max("epsilon") - nature.min("epsilon")).max() < 1e-4
    assert (nature.max("trial") - nature.min("trial")).min() > 1e-3
    assert (np.ptp(found["final_regret"].values, axis=0) > 0).any()


def test_whole_numbers_words_and_dicts_are_programs_of_their_own():
    study = Study(
        learners.projection_free,
        {"linear": lambda domain, kind: environments.linear_losses(domain, kind)},
        {"horizon": 16, "domain": {"ball": domains.ball(2), "cube": domains.cube(2)},
         "kind": ["iid", "drifting"][:1], "epsilon": [1.0, 2.0]},
        trials=2,
    )  # fmt: skip
    assert [len(study.programs), study.programs[0].size] == [2, 2]
    assert [str(each).split(", ")[2:] for each in study.programs] == [
        ["horizon = 16", "domain = ball", "kind = iid"],
        ["horizon = 16", "domain = cube", "kind = iid"],
    ]


def test_games_that_allow_it_are_played_by_batches():
    study = Study(
        [learners.successive_elimination, learners.ucb1], {"stochastic": stochastic},
        {"horizon": 10**6, "arms": 3, "epsilon": 1.0}, trials=2, checkpoints=1,
    )  # fmt: skip
    played = {each.learner: study._play(*each.first()) for each in study.programs}
    assert played["successive_elimination"] is not simulate
    assert played["ucb1"] is simulate
    by_rounds = Study(
        learners.successive_elimination, stochastic, {**ARMS, "epsilon": 1.0}, play=simulate
    )
    assert by_rounds._play(*by_rounds.programs[0].first()) is simulate


def test_a_sum_has_the_cells_of_both():
    options = {"trials": 4, "checkpoints": 2}
    first = Study(learners.exp3, stochastic, {**ARMS, "mixing": [0.1, 0.2]}, **options)
    second = Study(learners.dp_exp3_lap, stochastic, {**ARMS, "epsilon": [1.0, 2.0]}, **options)
    both = (first + second).run(progress=False)
    assert both.sizes["learner"] == both.sizes["mixing"] == both.sizes["epsilon"] == 2
    for study in (first, second):
        alone = study.run(progress=False)["final_regret"]
        name = alone["learner"].item()
        for axis in ("mixing", "epsilon"):
            if axis in alone.dims:
                rest = "epsilon" if axis == "mixing" else "mixing"
                cells = both["final_regret"].sel(learner=name).isel({rest: 1})
                assert np.array_equal(cells.squeeze().values, alone.squeeze().values)
    more = Study(learners.exp3, stochastic, {**ARMS, "mixing": [0.4, 0.3]}, **options)
    assert (first + more).run(progress=False)["mixing"].values.tolist() == [0.1, 0.2, 0.3, 0.4]
    with pytest.raises(ValueError, match="cell in common"):
        first + first
    with pytest.raises(ValueError, match="trials"):
        first + Study(learners.exp3, stochastic, {**ARMS, "mixing": 0.3}, trials=5, checkpoints=2)
    with pytest.raises(ValueError, match="key"):
        first + Study(learners.exp3, stochastic, {**ARMS, "mixing": 0.3}, key=1, **options)


def test_data_survive_a_file(data, tmp_path):
    data.to_netcdf(tmp_path / "mine.nc")
    with xarray.open_dataset(tmp_path / "mine.nc") as read:
        xarray.testing.assert_allclose(read, data)


def test_halving_finds_what_all_trials_find():
    """Its result once had no declared privacy, and dropped settings were called failed."""
    means = [0.1, 0.5, 0.5]
    study = Study(
        learners.exp3, {"stochastic": lambda: environments.bernoulli(means, regret="pseudo")},
        {"horizon": 400, "arms": 3, "mixing": np.geomspace(1e-3, 1.0, 24)}, trials=80,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halved, data = study.tune("mixing", progress=False), study.run(progress=False)
    all_played = data.dpjax.tune("mixing")
    assert halved.stages == "24 settings with 4 trials; 6 settings with 16 trials; " \
        "2 settings with 80 trials"  # fmt: skip
    assert halved["candidate"].sum() <= 2
    mixing = halved["chosen_mixing"].item()
    assert all_played["candidate"].sel(mixing=mixing).all()
    table, declared = halved.dpjax.table(), data.sel(mixing=mixing).dpjax.table()
    columns = ["privacy_epsilon", "privacy_delta", "privacy_model"]
    pandas.testing.assert_frame_equal(table[columns], declared[columns])
    assert table["trials"].tolist() == all_played.dpjax.table()["trials"].tolist() == [40]
    caption = halved.dpjax.figure("learner", of="mean").caption
    assert caption.endswith("Declared privacy: central model.")


def test_learners_and_environments_may_be_built_already():
    made = learners.exp3(40, 3)
    study = Study({"mine": made}, {"fixed": environments.deterministic(3)}, trials=2)
    assert isinstance(study.programs[0].first()[0], core.Learner)
    assert study.run(progress=False)["final_regret"].shape == (1, 1, 2)


def of_means(means):
    return environments.bernoulli(means, regret="pseudo")


def of_arrays(means):
    grid = {"means": means, **ARMS}
    return Study({"UCB1": learners.ucb1}, {"Bernoulli": of_means}, grid, trials=5, checkpoints=2)


def test_arrays_of_one_shape_are_one_program_with_labels():
    means = {"easy": np.array([0.1, 0.5, 0.9]), "hard": np.array([0.45, 0.5, 0.5])}
    study = of_arrays(means)
    assert len(study.programs) == 1
    data = study.run(progress=False)
    assert data["means"].values.tolist() == ["easy", "hard"]
    for label, values in means.items():
        one = sweep(
            lambda point: (learners.ucb1(40, 3), of_means(point)), values[None].astype(np.float32),
            5, jax.random.key(0), checkpoints=2, progress=False,
        )  # fmt: skip
        here = data["regret"].sel(means=label, learner="UCB1", environment="Bernoulli")
        np.testing.assert_array_equal(here, one.regret[0])


def test_arrays_with_nan_are_refused_and_lists_are_static():
    with pytest.raises(ValueError, match="means must not hold NaN"):
        of_arrays({"a": np.array([0.1, np.nan, 0.5]), "b": np.array([0.1, 0.2, 0.5])})
    lists = of_arrays({"a": [0.1, 0.4, 0.5], "b": [0.1, 0.2, 0.5]})
    assert len(lists.programs) == 2


def test_costs_are_near_the_truth(monkeypatch):
    """In CPU seconds of one thread, which other programs on the machine disturb least."""
    monkeypatch.setattr(costs, "at_once", lambda mesh: 1)
    monkeypatch.setattr(costs, "time", SimpleNamespace(perf_counter=time.process_time))
    pseudo = {"coins": environments.bernoulli([0.3, 0.6], regret="pseudo")}
    epsilons = {"arms": 2, "epsilon": [0.1, 1.0]}
    # Losses and coins are drawn once for all points.
    points = Study(
        learners.dp_exp3_lap,
        pseudo,
        {"arms": 2, "epsilon": [0.1, 0.3, 1.0, 3.0], "horizon": 2**15},
        trials=256,
    )
    long = Study(learners.exp3, pseudo, {"arms": 2, "horizon": 2**17}, trials=256)
    batches = Study(learners.successive_elimination, pseudo, {**epsilons, "horizon": 10**7})
    # Time is measured up to a few thousand rounds only, and grows with the logarithm of the number.
    stopping = Study(
        learners.adap_tt, pseudo, {**epsilons, "horizon": 10**9, "failure": 0.01}, trials=2000
    )
    for study in (long, batches, stopping, points):
        cost = study.cost(20.0)
        begin = time.process_time()
        study.run(progress=False)
        taken = time.process_time() - begin
        assert 0.4 < cost.seconds / taken < 2.5, (study, cost, taken)
    for study in (long, points):  # compiled before
        begin = time.process_time()
        study.run(progress=False)
        taken = time.process_time() - begin
        assert 0.4 < study.cost(20.0).playing / taken < 2.5, (study, taken)


class Sample(costs._Sample):
    """It takes 2 seconds to compile, and one for each round and arm of a trial."""

    slow = ()  # the learners that compile for minutes

    def __init__(self, study, program, store):
        super().__init__(study, program, store)
        self.tracing = 1.0

    def compile(self, latest):
        if self.program.learner in self.slow:
            never.wait(120.0)
        self.compiling = 2.0

    def play(self, deadline):
        second = self.program.values["arms"] * {"B": 10.0}.get(self.program.learner, 1.0)
        self.runs = [(1, second), (2, 2.0 * second)] if self.compiling else []


never = threading.Event()


@pytest.fixture
def sampled(monkeypatch):
    """Costs of learners A and B from stubs; ``slow`` learners are still compiled at the end."""
    monkeypatch.setattr(costs, "_Sample", Sample)
    monkeypatch.setattr(costs, "at_once", lambda mesh: 2)
    monkeypatch.setattr(Sample, "slow", slow := set())
    yield slow
    never.set()  # The threads end.
    never.clear()


def in_turn(study):
    """The trials of a program that one of two cores plays, with those that fill a block."""
    points, seeds = costs._block(study, study.programs[0])
    return -(-study.trials // (2 * seeds)) * points * seeds


COINS = {"coins": lambda arms: environments.bernoulli([0.3] * arms)}


@pytest.mark.parametrize("names", ["ABC", "CBA"])
def test_a_cost_does_not_depend_on_the_order_of_learners(names, sampled):
    """Programs that differ only in their horizon are compiled once."""
    grid = {"arms": 2, "horizon": [4, 8]}
    study = Study(dict.fromkeys(names, learners.exp3), COINS, grid, trials=3)
    cost = study.cost(1e3)
    assert cost[:3] == (6, 3 * 3 * 12.0, 6 * 1.0 + 3 * 2.0 / 2)
    assert cost.playing == in_turn(study) * (2.0 + 20.0 + 2.0) * 12


def test_a_cost_is_known_in_time_and_names_what_is_not(sampled, monkeypatch):
    monkeypatch.setattr(costs, "_COMPILING", 0.3)
    sampled.add("B")
    study = Study({"A": learners.exp3, "B": learners.exp3}, COINS, {"arms": 2, "horizon": 8}, 3)
    begin = time.perf_counter()
    cost = study.cost(5.0)
    assert time.perf_counter() - begin < 60.0  # B compiles for two minutes
    assert cost == costs.Cost(2, 48.0, 2 * 1.0 + 2 * 2.0 / 2, in_turn(study) * 8 * 4.0, ("B",))
    assert "at least" in str(cost)
    assert str(cost).endswith("(not timed, and possibly slower: B)")
    sampled.add("A")
    cost = study.cost(1.0)
    assert 0.0 < cost.compiling < 60.0 and cost.playing == 0.0 and cost.unmeasured == ("A", "B")


def test_a_cost_that_is_not_measured_is_in_proportion_to_the_size(sampled, monkeypatch):
    """The largest program is measured; here no other one is."""
    study = Study(learners.exp3, COINS, {"arms": [2, 8, 4], "horizon": 16}, trials=2)
    monkeypatch.setattr(costs, "_FURTHER", 0.0)
    cost = study.cost(1e3)
    assert cost.playing == pytest.approx(in_turn(study) * 16 * (2.0 + 8.0 + 4.0))
    assert (cost.compiling, cost.unmeasured) == (3 * 1.0 + 3 * 2.0 / 2, ())


def test_a_cost_counts_what_a_store_lacks(sampled, tmp_path):
    """A continued study once cost as much as a new one."""

    def study(trials, mean=0.3):
        coins = {"coins": lambda arms: environments.bernoulli([mean] * arms)}
        return Study(learners.exp3, coins, {"arms": 2, "horizon": 8, "mixing": [0.1, 0.2]}, trials)

    url = tmp_path / "mine"
    assert study(64).cost(store=url).rounds == 2 * 64 * 8
    study(64).run(url, progress=False)
    assert study(64).cost(store=url) == costs.Cost(0, 0.0, 0.0, 0.0)
    new, more = study(192).cost(), study(192).cost(store=url)
    assert (more.rounds, new.rounds) == (2 * 128 * 8, 2 * 192 * 8)
    assert more.playing < new.playing
    with pytest.raises(ValueError, match="was made with another game"):
        study(192, mean=0.4).cost(store=url)


def test_the_bar_says_what_is_compiled_and_played(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Study(learners.exp3, COINS, {"arms": 2, "horizon": 8}, 2).run()
    words = re.findall("(compiling|playing) exp3, coins", capsys.readouterr().err)
    assert words[0] == "compiling" and words[-1] == "playing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "calls"),
    [
        # The first and all points, and the trace.
        ({"horizon": 32, "epsilon": [0.1, 1.0, 2.0, 4.0]}, 1 + 4 + 1),
        ({"horizon": [32, 40, 48, 56], "epsilon": 1.0}, 4 + 4),
    ],
)
def test_a_run_builds_each_learner_once_for_each_trace(grid, calls):
    """And once more, at the horizon with which all programs are compared."""
    built = []

    def mine(horizon, arms, *, epsilon):
        built.append(horizon)
        return learners.dp_exp3_lap(horizon, arms, epsilon=epsilon)

    made = Study(mine, {"coins": environments.bernoulli([0.1, 0.9])}, {**grid, "arms": 2}, trials=2)
    built.clear()
    made.run(progress=False)
    assert len(built) == calls + 1
