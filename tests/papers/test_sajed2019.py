"""The reproduction of Sajed & Sheffet 2019: its files and its tables."""

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import sajed2019, sajed2019_stopping
from tests.papers.small import played

ROUNDS = xarray.DataArray(
    [[300.0, 500.0], [256.0, 512.0]],
    {"queries": ["every_round", "powers_of_two"], "trial": [0, 1]},
).expand_dims(mean_value=[0.5, 0.2, 0.1], epsilon=[0.1, 1.0, np.inf])
STOPPING = xarray.Dataset({"rounds": ROUNDS, "wrong": ROUNDS < 300.0})


def small():
    """The small run, with these stopping times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sajed2019_stopping, "play_stopping", lambda limit, trials: STOPPING)
        return played("sajed2019")


@pytest.mark.slow
def test_regret_of_dp_se_on_the_second_instance_has_its_two_modes():
    """T = 1e5: 2433.75 after one epoch, 3436.875 after two with two arms, at epsilon = 1.

    Two instances at {0.1, 1, inf} by batches, two epsilons by rounds, and five more on C2; UCB1 on
    two instances.
    """
    rows = small().tables[""]
    assert len(rows) == 2 * 2 * 3 + 3 * (2 * 2 + 5) + 2
    assert small().parameters["round_horizon"] == 250
    assert "DP-SE" in small().printed and "pairwise" in small().printed
    wanted = "C2", "DP-SE", 1.0
    (row,) = [row for row in rows if (row.instance, row.learner, row.asked) == wanted]
    assert {row.q5, row.q25, row.q50, row.q75, row.q95} <= {2433.75, 3436.88, 3436.875}
    assert 2433.75 < row.mean < 3436.875


@pytest.mark.slow
def test_each_learner_stands_at_the_epsilon_that_it_declares():
    """Lower bounds are those of the declared epsilon. They hold for pure privacy only."""
    rows = small().tables[""]
    assert any(row.delta > 0.0 for row in rows)
    for row in rows:
        if row.learner == "DP-UCB-Int, printed" and row.asked != np.inf:
            # From f = 1 on, reached at epsilon 1, a larger epsilon changes nothing.
            assert row.epsilon > 1.2 * min(row.asked, 1.0) and row.delta > 0.0
        elif row.learner == "DP-UCB, split":
            # Five trees share the requested epsilon, and a loss enters only one of them.
            assert row.epsilon == pytest.approx(row.asked / 5, rel=1e-5)
        elif row.learner != "UCB1":
            assert row.epsilon == row.asked
        if row.delta > 0.0:
            assert row.lower_d_epsilon == row.lower_shariff_sheffet == ""
        else:
            bound = bounds.d_epsilon(row.horizon, sajed2019.means(row.instance), row.epsilon)
            assert row.lower_d_epsilon == pytest.approx(bound, rel=1e-4)


@pytest.mark.slow
def test_regret_lies_between_nothing_and_the_theorems_bounds():
    rows = [row for row in small().tables[""] if row.upper]
    assert len(rows) == 2 * 3
    assert all(row.mean > 4 * row.standard_error and row.q95 <= row.upper for row in rows)


@pytest.mark.slow
def test_a_pair_at_a_time_costs_more_the_more_arms_there_are():
    """Pulls of a suboptimal arm: with epsilon / K each, the rule pays for K, epochs do not."""
    ratio = {(row.arms, row.epsilon): row.ratio for row in small().tables["_pairwise"]}
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
