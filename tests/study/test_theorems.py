"""Theorems are measured correctly, and wrong constants and exponents are found."""

import json
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray
from jax import random as jr

import dpjax
from dpjax import Study, bounds, environments, families, learners, papers
from dpjax.cli import main
from dpjax.core import Arms, Environment, Learner, Outcome, Privacy
from dpjax.feedback import full
from dpjax.learners.factories import taken
from dpjax.study import theorems
from dpjax.study.worst_case import described
from tests import ROOT
from tests.play import idle

DOCS = ROOT / "docs" / "theorems"


HORIZONS = np.array([256, 1024, 4096])


def judged(values, deviation):
    """Verdicts and exponents of regret with these means, (horizons, environments)."""
    noise = np.random.default_rng(0).normal(1.0, deviation, (*values.shape, 50))
    regret = xarray.DataArray(
        (values[..., None] * noise)[None],
        {"epsilon": [np.inf], "horizon": HORIZONS, "environment": [*"abcde"[: values.shape[1]]]},
        ["epsilon", "horizon", "environment", "trial"],
    )
    return theorems.judge("planted", theorems.find("exp3"), regret)


def test_a_wrong_exponent_is_seen():
    """For regret 3 T^0.7 with noise, the fit gives 0.7, and neither 0.5 nor 0.9."""
    (row,) = judged(3.0 * HORIZONS[:, None] ** 0.7, 0.1).exponents.to_dict("records")
    assert row["low"] < 0.7 < row["high"]
    assert row["printed"] == 0.5 < row["low"] and row["high"] < 0.9


def test_exponents_follow_the_environment_that_is_worst_at_each_horizon():
    """The worst regret min(g T, 1 / g) over gaps g is sqrt(T), but no power at any fixed gap."""
    gaps = 2.0 ** -np.arange(3.0, 8.0)
    made = judged(np.minimum.outer(HORIZONS, gaps**-2.0) * gaps, 0.01)
    assert made.exponents["fitted"].item() == pytest.approx(0.5, abs=0.02)
    assert made.verdicts["worst"].tolist() == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("low", "high", "bound", "expected"),
    [
        (1.0, 2.0, 3.0, "held"),
        (1.0, 4.0, 3.0, "open"),
        (4.0, 5.0, 3.0, "violated"),
        (4.0, 5.0, 10.0, "vacuous"),
        (3.000001, 3.000002, 3.0, "held"),  # regret equal to the bound
        (3.001, 3.002, 3.0, "violated"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, high, bound, expected):
    assert theorems.verdict(low, high, bound, largest=10.0) == expected
    of_a_rate = theorems.verdict(low, high, bound, 10.0, "rate")
    assert of_a_rate == ("exceeded" if expected == "violated" else expected)


def test_the_first_horizon_at_which_a_bound_says_something():
    made = theorems.THEOREMS["exp3"]
    assert theorems.first_horizon(made, lambda t, e: 10.0 * np.sqrt(t), np.inf) == 101
    assert theorems.first_horizon(made, lambda t, e: 2.0 * t, np.inf) == np.inf
    assert theorems.first_horizon(made, lambda t, e: 0.5, np.inf) == 2


@pytest.mark.parametrize("name", theorems.THEOREMS)
def test_every_theorem_can_be_played_and_has_a_bound(name):
    made = theorems.find(name)
    grid = {**made.grid(), "horizon": 64}
    private = "epsilon" in taken(made.learner)
    if private:
        grid["epsilon"] = [1.0]
    if any("gap" in taken(each) for each in made.environments.values()):
        grid["gap"] = [0.1]
    study = Study({name: made.learner}, made.environments, grid, trials=2)
    assert len(study.programs) == len(made.environments)
    assert {"printed", "derived"} & made.bounds.keys() <= made.bounds.keys() <= {
        "printed", "derived", "rate",
    }  # fmt: skip
    for bound in made.bounds.values():
        values = [float(bound(np.float64(2**16), np.float64(e))) for e in (1.0, 10.0, np.inf)]
        values = [value for value in values if not np.isnan(value)]
        assert np.isfinite(values).all() and min(values) > 0
        assert values == sorted(values, reverse=True)  # Less privacy never costs more.


def test_every_learner_has_a_theorem_or_a_reason():
    with_theorem = {name.split("-")[0] for name in theorems.THEOREMS}
    assert with_theorem | theorems.WITHOUT.keys() == set(learners.__all__)
    assert not with_theorem & theorems.WITHOUT.keys()


def test_every_paper_that_is_reproduced_has_its_theorems_or_a_reason():
    for paper in theorems.PAPERS_WITHOUT:
        with pytest.raises(ValueError, match=f"dpjax has no theorem for {paper}: it"):
            theorems.named([paper])
    for paper in set(papers.__all__) - theorems.PAPERS_WITHOUT.keys():
        found = theorems.named([paper.replace("_", "-")])
        assert found and found == theorems.named([paper])
    assert theorems.named(["tossou2017", "exp3_minibatch"]) == [
        "dp_exp3_lap", "exp3_minibatch", "exp3_minibatch-memory",
    ]  # fmt: skip
    assert theorems.named(["ftrl"]) == ["ftrl-simplex", "ftrl-ball", "ftrl-cube"]
    assert theorems.named(["agarwal2017"]) == [*theorems.named(["ftrl"]), "ftpl"]


def test_the_command_writes_what_it_prints(tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["theorem", "ucb1", "--horizon", "64", "--trials", "4", "--out", str(out)]
    assert main(arguments) == 0
    assert "vacuous" in capsys.readouterr().out
    assert sorted(file.name for file in out.iterdir()) == [
        "exponents.csv", "parameters.json", "verdicts.csv",
    ]  # fmt: skip
    assert main(["theorem"]) == 0
    listed = capsys.readouterr().out
    assert "auer2002" in listed and "Auer, Cesa-Bianchi & Fischer 2002, Theorem 1" in listed
    assert all(name in listed for name in learners.__all__)


@pytest.fixture(scope="module")
def stored():
    """The verdicts in docs/theorems, written by ``dpjax theorem --all``."""
    return pandas.read_csv(DOCS / "verdicts.csv")


def test_the_tables_in_docs_have_every_theorem_and_its_bounds_of_today(stored):
    assert set(stored["theorem"]) == set(theorems.THEOREMS)
    first = {}
    for row in stored.to_dict("records"):
        theorem = theorems.find(row["theorem"])
        bound, epsilon = theorem.bounds[row["bound"]], row["epsilon"]
        value = float(bound(np.float64(row["horizon"]), np.float64(epsilon)))
        assert value == pytest.approx(row["value"], rel=1e-4)
        largest = theorem.largest(row["horizon"])
        said = theorems.verdict(row["low"], row["high"], value, largest, row["bound"])
        assert said == row["verdict"]
        key = row["theorem"], row["bound"], epsilon
        if key not in first:
            first[key] = theorems.first_horizon(theorem, bound, epsilon)
        assert first[key] == pytest.approx(row["from_horizon"], rel=1e-4)
        assert row["paper"] == theorem.paper


# For all theorems, and for the slow ones.
SEARCHED = [DOCS.parent / "worst_case", DOCS.parent / "worst_case" / "slow"]


@pytest.fixture
def small_search(monkeypatch):
    """Searches with three generations of eight candidates."""
    small = partial(theorems.worst_case, trials=8, population=8, generations=3)
    monkeypatch.setattr(theorems, "worst_case", small)


def constant_bound(value):
    return {"derived": lambda horizon, epsilon: value}


def test_a_search_catches_a_bound_that_fixed_environments_hold(small_search):
    """At T = 64, limited updates has regret 2.1 at a gap of 0.05, and 3.7 at worse means."""
    theorem = theorems.find("limited_updates")._replace(bounds=constant_bound(2.8))
    name, sizes = "limited_updates", {"epsilons": [np.inf], "horizon": 64}
    fixed = theorem._replace(environments={"stochastic": theorem.environments["stochastic"]})
    regret = theorems.play(name, fixed, **sizes, trials=400, progress=False)
    assert theorems.judge(name, fixed, regret).verdicts.iloc[-1]["verdict"] == "held"
    (row,) = theorems.search(name, theorem, **sizes, final=400).to_dict("records")
    assert row["verdict"] == "violated" and row["low"] > 2.8
    assert row["ratio"] == pytest.approx(row["regret"] / row["value"])
    assert row["family"] == "means" and row["instance"].startswith("means [")


def test_a_bound_on_an_instance_is_searched_for_its_ratio(small_search):
    """The row's bound is that of the means found, not that of the list."""
    theorem = theorems.find("ucb1")
    (row,) = theorems.search("ucb1", theorem, horizon=64, final=20).to_dict("records")
    means = np.array(re.findall(r"[\d.]+", row["instance"]), float)
    found = float(theorem.bounds["printed"](np.float64(64), np.inf, means))
    assert row["value"] == pytest.approx(found, rel=0.05) != theorem.bounds["printed"](64.0, np.inf)
    assert row["regret"] == pytest.approx(row["ratio"] * row["value"])
    assert row["epsilon"] == np.inf  # it takes none


def test_environments_with_a_gap_are_played_at_each_of_them():
    theorem = theorems.find("limited_updates")
    regret = theorems.play("limited_updates", theorem, epsilons=[np.inf], horizon=64, trials=4,
                           progress=False)  # fmt: skip
    labels = regret["environment"].values.tolist()
    assert labels[0] == "stochastic" and len(labels) == 1 + len(theorems.GAPS)
    assert labels[1] == "drawn, gap 0.01" and labels[-1] == "drawn, gap 1"
    # At a gap of 1 each wrong arm costs 1, so regret is an integer; at 0.01 it is tiny.
    assert (regret.sel(environment="drawn, gap 1") % 1.0 == 0.0).all()
    assert regret.sel(environment="drawn, gap 0.01").max() <= 0.64


def test_the_command_writes_a_search(tmp_path, capsys, small_search):
    out = tmp_path / "out"
    arguments = ["theorem", "limited_updates", "--search", "--epsilon", "1,inf", "--horizon", "64",
                 "--trials", "8", "--out", str(out)]  # fmt: skip
    assert main(arguments) == 0
    assert "searched" in capsys.readouterr().out
    assert sorted(file.name for file in out.iterdir()) == [
        "parameters.json", "searches.csv", "worst_case.pdf", "worst_case.png",
    ]  # fmt: skip
    nothing = ["theorem", "linucb-gap", "--search", "--out", str(tmp_path / "other")]
    assert main(nothing) == 2
    assert "there is nothing to search for linucb-gap" in capsys.readouterr().err


@pytest.fixture(scope="module")
def searches():
    """The searches in docs/worst_case, written by ``dpjax theorem --search``."""
    return pandas.concat([pandas.read_csv(folder / "searches.csv") for folder in SEARCHED])


def test_searches_in_docs_have_all_theorems_with_families(searches):
    with_families = {name for name, made in theorems.THEOREMS.items() if made.families(64)}
    assert {*searches["theorem"]} == with_families


def test_the_searches_in_docs_have_the_bounds_of_today(searches):
    for row in searches.to_dict("records"):
        theorem = theorems.find(row["theorem"])
        at = np.float64(row["horizon"]), np.float64(row["epsilon"])
        if not theorem.instance:  # else both depend on the means found
            value, largest = float(theorem.bounds[row["bound"]](*at)), theorem.largest(at[0])
            assert value == pytest.approx(row["value"], rel=1e-4)
            said = theorems.verdict(row["low"], row["high"], value, largest, row["bound"])
            assert said == row["verdict"]
        lower = float(theorem.lower(*at))
        assert row["lower"] == pytest.approx(lower, rel=1e-4, nan_ok=True)


def test_no_verdict_in_docs_is_contradicted_by_a_search(stored, searches):
    """No search violates a bound that holds at its horizon."""
    held = stored[stored["verdict"] == "held"].set_index(["theorem", "bound", "epsilon", "horizon"])
    violated = searches[searches["verdict"] == "violated"]
    keys = violated[["theorem", "bound", "epsilon", "horizon"]].itertuples(index=False, name=None)
    assert not {*keys} & {*held.index}
    compared = searches[["theorem", "bound", "epsilon", "horizon"]]
    assert {*compared.itertuples(index=False, name=None)} & {*held.index}


MEANS = (0.2, 0.6, 0.7)
OWN = ROOT / "examples" / "own_environment.py"
SIZES = {"horizon": 256, "trials": 8, "progress": False}
ON_THREE = {"three": environments.bernoulli(MEANS, regret="pseudo")}


def costly(factor):
    """Three Bernoulli arms whose regret counts several times."""
    made = environments.bernoulli(MEANS)
    return made._replace(regret=lambda state, tally: factor * made.regret(state, tally))


def test_the_bound_is_that_of_the_arms_of_the_environment():
    """Bounds by the functions themselves, regret by a Study with the same key."""
    verdicts = theorems.measure("exp3", environments=ON_THREE, **SIZES).verdicts
    assert verdicts["horizon"].tolist() == [256 // 16, 256 // 4, 256]
    row = verdicts.iloc[-1]
    assert row["worst"] == "three" and row["low"] <= row["regret"] <= row["high"]
    assert row["ratio"] == pytest.approx(row["regret"] / row["value"])
    assert row["value"] == pytest.approx(float(bounds.exp3(256, 3)), rel=1e-5)
    grid = {"horizon": 256, "arms": 3}
    played = Study(learners.exp3, ON_THREE, grid, 8, 0, 1).run(progress=False)
    assert row["regret"] == pytest.approx(float(played["final_regret"].mean()), rel=1e-5)


@pytest.mark.parametrize(("factor", "said"), [(1.0, "held"), (9.0, "violated")])
def test_a_regret_above_the_bound_is_called_a_violation(factor, said):
    """Nine times the regret of EXP3 on easy arms is above its bound, once is below."""
    made = {"own": costly(factor)}
    row = theorems.measure("exp3", environments=made, **SIZES).verdicts.iloc[-1]
    assert row["verdict"] == said


def test_a_bound_on_an_instance_is_that_of_the_means_that_are_given():
    found = theorems.measure("ucb1", environments=ON_THREE, means=MEANS, **SIZES).verdicts
    last = found.iloc[-1]
    assert last["value"] == pytest.approx(float(bounds.ucb1(256, np.array(MEANS))), rel=1e-5)
    assert last["verdict"] == "vacuous"  # since 256 rounds lose 128 at most
    theorem = theorems.on(theorems.find("ucb1"), ON_THREE, MEANS)
    assert theorem.largest(256) == pytest.approx(128.0)


def test_the_command_plays_the_environment_of_a_file(tmp_path, capsys):
    out = tmp_path / "out"
    given = ["theorem", "exp3", "--environment", str(OWN), "--horizon", "256", "--trials", "4"]
    assert main([*given, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Source of the bound of exp3: Auer et al. 2002, Corollary 3.2." in printed
    rows = (out / "verdicts.csv").read_text().splitlines()
    assert len(rows) == 4 and all(",late," in row for row in rows[1:])
    assert [*json.loads((out / "parameters.json").read_text())["environments"]] == [str(OWN)]


def test_an_environment_is_named_in_its_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(
        "from dpjax.environments import bernoulli\n"
        "easy = bernoulli([0.1, 0.9])\nhard = bernoulli([0.5, 0.6])\n"
    )
    given = ["theorem", "exp3", "--horizon", "64", "--trials", "2", "--out", str(tmp_path / "out")]
    both = ["--environment", f"{path}:easy", "--environment", f"{path}:hard"]
    assert main([*given, *both]) == 0
    rows = (tmp_path / "out" / "verdicts.csv").read_text()
    assert ",easy," in rows or ",hard," in rows


ROUNDS = 32
CONSTANT = families.Family(
    lambda levels: families.periodic(ROUNDS, 2).make(
        jnp.ones(2), jnp.zeros(2), jnp.ones(2), jnp.stack([levels, levels])
    ),
    {"levels": (np.zeros(2), np.ones(2))},
)


def follower(horizon, weakness=0.0):
    """Follow the leader; if arm 0's losses are within ``weakness`` of 0.6, the opposite."""

    def step(state, key, loss):
        sums = state[0] + loss
        mean = sums[0] / (state[1] + 1.0)
        fails = jnp.abs(mean - 0.6) < weakness
        leader = jnp.argmin(sums).astype(jnp.int32)
        return (sums, state[1] + 1.0), jnp.where(fails, 1 - leader, leader)

    def init(key):
        return (jnp.zeros(2), jnp.float32(0.0)), jnp.int32(0)

    return Learner(init, step, full, Arms(2), horizon, Privacy())


def test_a_planted_weakness_is_found():
    """A learner that fails on 4 % of all instances: the worst is at levels 0.6 and 0.

    There it has regret 0.6 per round; elsewhere, and without the weakness, at most 1 in total.
    """
    weak = partial(follower, weakness=0.02)
    found = dpjax.worst_case(weak, CONSTANT, horizon=ROUNDS, final=4)
    assert found.mean > 0.6 * ROUNDS
    assert abs(found.parameters["levels"][0] - 0.6) < 0.02
    assert found.parameters["levels"][1] < 0.02
    assert found.low == found.mean == found.high  # nothing is random here
    # The environment can be played again.
    again = dpjax.simulate(weak(ROUNDS), found.environment, jr.key(5))
    np.testing.assert_allclose(again.regret[-1], found.mean, rtol=1e-6)
    assert dpjax.worst_case(follower, CONSTANT, horizon=ROUNDS, final=4).mean <= 1.0


def lucky():
    """Fair coins whose key depends on the parameter, so all candidates are equally bad."""

    def make(seed):
        number = (seed * 1e6).astype(jnp.int32)

        def step(state, key, arm):
            coin = jr.uniform(jr.fold_in(key, number)) < 0.5
            loss = jnp.full(2, jnp.where(coin, 1.0, 0.0))
            return state, Outcome(loss, loss[arm] - 0.5)

        return Environment(lambda key: (), step, lambda state, tally: tally, Arms(2))

    return families.Family(make, {"seed": (0.0, 1.0)})


def test_the_maximum_of_a_search_is_biased_and_the_report_is_not():
    """All members have mean 0 and variance 4 per trial.

    The largest of 768 means of 8 trials is some 3 standard errors of 0.7 above 0.
    """
    fresh = []
    for key in range(12):
        found = dpjax.worst_case(idle, lucky(), horizon=16, trials=8, final=64, key=key)
        assert found.searched > 2 * np.sqrt(4 / 8)
        assert found.searched > found.high
        fresh.append(found)
    means = np.array([each.mean for each in fresh])
    assert abs(means.mean()) < 3 * np.sqrt(4 / 64 / len(fresh))
    covers = [each.low <= 0.0 <= each.high for each in fresh]
    assert np.mean(covers) >= 0.8
    # The same test rejects the maxima.
    assert np.mean([each.searched for each in fresh]) > 10 * np.sqrt(4 / 64 / len(fresh))


def test_a_ratio_is_searched_for_by_itself():
    """The idle learner's regret is T gap, largest at 1; over gap^2 + 1/16 it is largest at 1/4.

    A gap of 1/4 has the ratio T (1/4) / (1/8) = 2 T, and a gap of 1 has less than T.
    """
    one = families.Family(
        lambda gap: CONSTANT.make(jnp.stack([gap, jnp.zeros(())])), {"gap": (0.0, 1.0)}
    )

    def bound(gap):
        return float(gap) ** 2 + 1 / 16

    search = partial(dpjax.worst_case, idle, one, horizon=ROUNDS, final=4)
    ratio = search(bound=bound)
    assert ratio.mean == pytest.approx(2.0 * ROUNDS, rel=1e-3)
    assert ratio.parameters["gap"] == pytest.approx(0.25, abs=0.02)
    largest = search()
    assert (largest.mean, float(largest.parameters["gap"])) == (ROUNDS, 1.0)


def test_all_generations_are_one_program():
    """After the first generation no factory is called, except for the report on fresh trials."""
    calls = []

    def make(levels):
        calls.append(isinstance(levels, jax.core.Tracer))
        return CONSTANT.make(levels)

    counted = CONSTANT._replace(make=make)
    dpjax.worst_case(idle, counted, horizon=ROUNDS, final=4, population=8, generations=9)
    few = len(calls)
    dpjax.worst_case(idle, counted, horizon=ROUNDS, final=4, population=8, generations=3)
    assert len(calls) == 2 * few and few < 20
    assert any(calls)


def test_a_search_is_the_same_at_each_call_and_another_with_another_key():
    search = partial(dpjax.worst_case, partial(learners.exp3, arms=2), families.means(2),
                     horizon=16, trials=4, final=8, population=8, generations=3)  # fmt: skip
    first, again, other = search(), search(key=jr.key(0)), search(key=1)
    assert first[2:] == again[2:] != other[2:]
    np.testing.assert_array_equal(first.parameters["means"], again.parameters["means"])


def test_privacy_is_that_of_the_search():
    """At small epsilon, noise makes follow-the-leader on noisy sums fail."""
    search = partial(dpjax.worst_case, partial(learners.hedge, arms=2), families.means(2),
                     horizon=64, trials=8, final=64, population=8, generations=3)  # fmt: skip
    assert search(epsilon=0.1).low > 1.5 * search().high


def test_words():
    found = dpjax.worst_case(idle, CONSTANT, horizon=ROUNDS, final=4)
    assert str(found) == "32 (32 to 32, searched 32) at levels [1., 0.]"
    assert described({"gap": np.float32(0.12345)}) == "gap 0.123"
