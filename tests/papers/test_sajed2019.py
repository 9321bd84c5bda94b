"""The reproduction of Sajed & Sheffet 2019: its files and its tables."""

import json

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import sajed2019, sajed2019_stopping
from tests.papers.small import counted, files, keep_only, names, read_rows


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small run of everything, with some of the learners: (folder, printed text)."""
    out = tmp_path_factory.mktemp("results") / "sajed2019"
    with pytest.MonkeyPatch.context() as patch:
        keep_only(
            patch, sajed2019,
            BY_BATCHES=("DP-SE", "AdaP-KLUCB"),
            BY_ROUNDS=("DP-UCB, split", "DP-UCB-Int, printed", "Lazy-UCB"),
            NOT_PRIVATE=("UCB1",),
        )  # fmt: skip
        patch.setattr(sajed2019_stopping, "play_stopping", lambda limit, trials: STOPPING)
        printed = counted(sajed2019.reproduce, 10)(out, horizon=10**5, trials=128, progress=False)
    return out, printed


ROUNDS = xarray.DataArray(
    [[300.0, 500.0], [256.0, 512.0]],
    {"queries": ["every_round", "powers_of_two"], "trial": [0, 1]},
).expand_dims(mean_value=[0.5, 0.2, 0.1], epsilon=[0.1, 1.0, np.inf])
STOPPING = xarray.Dataset({"rounds": ROUNDS, "wrong": ROUNDS < 300.0})


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    figures = ("", "_epsilon", "_horizon", "_laws", "_rounds")
    tables = ("", "_horizon", "_knee", "_pairwise", "_stopping")
    assert names(out) == files("sajed2019", figures, tables)
    rows = read_rows(out / "sajed2019.csv")
    # Two instances at {0.1, 1, inf} by batches, two epsilons by rounds, and five more on C2; UCB1
    # on two instances.
    assert len(rows) == 2 * 2 * 3 + 3 * (2 * 2 + 5) + 2
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["horizon"] == 10**5 and parameters["round_horizon"] == 250
    assert "DP-SE" in printed and "pairwise" in printed


def final(out, **wanted):
    rows = read_rows(out / "sajed2019.csv")
    (row,) = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    return row


@pytest.mark.slow
def test_regret_of_dp_se_on_the_second_instance_has_its_two_modes(reproduced):
    """T = 1e5: 2433.75 after one epoch, 3436.875 after two with two arms, at epsilon = 1."""
    row = final(reproduced[0], instance="C2", learner="DP-SE", asked="1")
    quantiles = {float(row[f"q{q}"]) for q in (5, 25, 50, 75, 95)}
    assert quantiles <= {2433.75, 3436.88, 3436.875}
    assert 2433.75 < float(row["mean"]) < 3436.875


@pytest.mark.slow
def test_each_learner_stands_at_the_epsilon_that_it_declares(reproduced):
    for row in read_rows(reproduced[0] / "sajed2019.csv"):
        if row["learner"] == "DP-UCB-Int, printed" and row["asked"] != "inf":
            # From f = 1 on, reached at epsilon 1, a larger epsilon changes nothing.
            assert float(row["epsilon"]) > 1.2 * min(float(row["asked"]), 1.0)
            assert float(row["delta"]) > 0.0
        elif row["learner"] == "DP-UCB, split":
            # Five trees share the requested epsilon, and a loss enters only one of them.
            assert float(row["epsilon"]) == pytest.approx(float(row["asked"]) / 5, rel=1e-5)
        elif row["learner"] != "UCB1":
            assert float(row["epsilon"]) == float(row["asked"])


@pytest.mark.slow
def test_private_lower_bounds_are_those_of_the_declared_epsilon(reproduced):
    """They hold for pure privacy, and are left empty if delta is positive."""
    rows = read_rows(reproduced[0] / "sajed2019.csv")
    assert any(float(row["delta"]) > 0.0 for row in rows)
    for row in rows:
        if float(row["delta"]) > 0.0:
            assert row["lower_d_epsilon"] == row["lower_shariff_sheffet"] == ""
        else:
            bound = bounds.d_epsilon(
                float(row["horizon"]), sajed2019.means(row["instance"]), float(row["epsilon"])
            )
            assert float(row["lower_d_epsilon"]) == pytest.approx(bound, rel=1e-4)


@pytest.mark.slow
def test_regret_lies_between_nothing_and_the_theorems_bounds(reproduced):
    rows = [row for row in read_rows(reproduced[0] / "sajed2019.csv") if row["upper"]]
    assert len(rows) == 2 * 3
    for row in rows:
        assert float(row["mean"]) - 4 * float(row["standard_error"]) > 0.0
        assert float(row["q95"]) <= float(row["upper"])


@pytest.mark.slow
def test_a_pair_at_a_time_costs_more_the_more_arms_there_are(reproduced):
    """Pulls of a suboptimal arm: with epsilon / K each, the rule pays for K, epochs do not."""
    rows = read_rows(reproduced[0] / "sajed2019_pairwise.csv")
    ratio = {(int(row["arms"]), float(row["epsilon"])): float(row["ratio"]) for row in rows}
    assert ratio[2, 0.1] > 2.0
    # At epsilon = 0.1 five arms would take longer than the small run's horizon.
    assert ratio[5, 0.25] > 1.5 * ratio[2, 0.25]


def test_rounds_have_few_more_epsilons_on_one_instance_only():
    programs = sajed2019.rounds_study(1000, 8).programs
    names = [program.learner for program in programs]
    assert names.count("DP-UCB") == 2 and names.count("UCB1") == 1
    assert sum(each.size for each in programs if each.learner == "DP-UCB") == 4 * 4 + 5


def test_the_rule_on_pairs_reads_powers_of_two(monkeypatch):
    """This test is not slow, so that each run of the suite plays the rule; DP-SE is left out."""
    monkeypatch.setattr(sajed2019_stopping, "PAIR_EPSILONS", (1.0, 10.0))
    strong, weak = sajed2019_stopping.rule_on_pairs(2**14, 8, (2,)).sel(arms=2).values
    assert set(weak.tolist()) <= {2**k for k in range(14)}
    # The rule stops before the horizon, and later with more noise.
    assert weak.max() < strong.min() <= 2**14


@pytest.mark.slow
def test_the_stopping_rule_is_played_with_both_kinds_of_queries():
    data = sajed2019_stopping.play_stopping(2**16, 8, epsilons=(1.0,))
    assert data.mean_value.values.tolist() == [0.5, 0.2, 0.1]
    every_round, powers_of_two = data.rounds.sel(epsilon=1.0).transpose("queries", ...).values
    for each, powers in zip(every_round, powers_of_two, strict=True):
        assert set(powers.tolist()) <= {2**k for k in range(17)}
        assert len(set(each.tolist())) > 4
    assert every_round[0].max() < every_round[1].min()
