"""The reproduction of Tossou & Dimitrakakis 2017: its constants, files and results."""

import json

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import tossou2017
from tests import zcdp
from tests.papers.small import counted, files, names, read_rows


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small run of everything: (folder, printed text)."""
    out = tmp_path_factory.mktemp("results") / "tossou2017"
    return out, counted(tossou2017.reproduce, 5)(out, horizon=2**12, trials=48, progress=False)


def test_spreads_by_hand():
    """Around the median 1.5: 0 and 1 below, 2 and 6 above. A trial at the centre is on both."""
    values = np.repeat([6.0, 0.0, 2.0, 1.0], 6)  # 24 groups of one trial
    assert tossou2017.gini(np.array([1.0, 2.0, 6.0])) == pytest.approx(10 / 3)
    found = tossou2017.spread(xarray.DataArray(values, dims="trial"))
    # 6 * 6 of the 66 pairs of a side differ, by 1 and by 4.
    expected = {"centre": 1.5, "gini_below": 6 / 11, "gini_above": 24 / 11}
    assert {name: found[name].item() for name in expected} == pytest.approx(expected)
    one = tossou2017.spread(xarray.DataArray([*np.ones(23), 9.0], dims="trial"))
    assert one["centre"] == 1.0 and one["gini_below"] == 0.0


def find(rows, adversary, learner, level):
    """(mean, standard error) of the single matching row."""
    keys = {"adversary": adversary, "learner": learner, "level": level}
    (row,) = [row for row in rows if all(row[key] == value for key, value in keys.items())]
    return float(row["mean"]), float(row["standard_error"])


def test_levels_at_the_papers_horizon():
    """28 K ln K + sqrt(112 K ln K ln T) and tau = 18.9 rounded up, in float64; zCDP at tau = 19."""
    levels = tossou2017.levels(2**18)
    k_log_k = 4 * np.log(4)
    paper = 28 * k_log_k + np.sqrt(112 * k_log_k * np.log(2**18))
    assert levels.paper == pytest.approx(paper, rel=1e-6)
    assert paper == pytest.approx(243.29193, abs=1e-5)
    assert levels.tau == 19
    rho = (np.ceil(2**18 / 19) - 1) / (8 * 19**2)
    assert levels.accounted == pytest.approx(zcdp.least_epsilon(rho, 2.0**-36), rel=1e-6)
    assert levels.taus == (33, 140, 620)


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    assert names(out) == files("tossou2017", ("", "_memory"), ("", "_memory"))
    rows = read_rows(out / "tossou2017.csv")
    assert len(rows) == 2 * (1 + 5 + 4)
    assert {row["adversary"] for row in rows} == {*tossou2017.QUICK_ADVERSARIES}
    assert all(row["trials"] == "48" for row in rows)
    models = {(row["learner"], row["model"]) for row in rows}
    assert models == {("EXP3", "central"), ("DP-EXP3-Lap", "local"), ("EXP3_tau", "central")}
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["horizon"] == 2**12 and parameters["trials"] == 48
    for row in rows:
        assert row["adversary"] in printed


@pytest.mark.slow
def test_both_private_algorithms_are_compared_at_one_accounted_level(reproduced):
    rows = read_rows(reproduced[0] / "tossou2017.csv")
    for adversary in tossou2017.QUICK_ADVERSARIES:
        mine = [row for row in rows if row["adversary"] == adversary]
        (lap,) = [row for row in mine if row["level"] == "accounted"]
        (tau,) = [row for row in mine if (row["learner"], row["level"]) == ("EXP3_tau", "paper")]
        assert lap["epsilon"] == tau["epsilon"]
        assert float(tau["delta"]) == pytest.approx(2.0**-24, rel=1e-6)
        assert float(tau["printed_epsilon"]) > 8 * float(tau["epsilon"])


@pytest.mark.slow
def test_what_the_paper_states_where_it_is_plainest(reproduced):
    """Deterministic: DP-EXP3-Lap is close to EXP3, EXP3_tau behind. Switching cost: the reverse."""
    rows = read_rows(reproduced[0] / "tossou2017.csv")
    exp3, lap, tau = (
        find(rows, "deterministic", learner, level)
        for learner, level in [("EXP3", ""), ("DP-EXP3-Lap", "paper"), ("EXP3_tau", "paper")]
    )
    assert lap[0] < 1.15 * exp3[0]
    assert tau[0] - 4 * np.hypot(tau[1], lap[1]) > 1.5 * lap[0]
    exp3, lap, tau = (
        find(rows, "switching cost", learner, level)
        for learner, level in [("EXP3", ""), ("DP-EXP3-Lap", "paper"), ("EXP3_tau", "paper")]
    )
    assert 2 * tau[0] < min(exp3[0], lap[0]) - 4 * max(exp3[1], lap[1])


@pytest.mark.slow
def test_epsilon_243_is_said_to_be_no_privacy_on_the_figure():
    """The words of the caption, and the model of each learner."""
    data = tossou2017.play_levels(horizon=64, trials=24)
    caption = " ".join(tossou2017.figure(data).get_supxlabel().split())
    level = f"epsilon = {tossou2017.levels(64).paper:.0f}"
    assert f"{level}, privacy looks free, but so large an epsilon means hardly any" in caption
    assert "local model (DP-EXP3-Lap)" in caption
    assert "Declared privacy: central model (EXP3 with declared epsilon = " in caption
    assert "Only the paper's three curves have bands" in caption


def test_switching_costs_have_memory_1_in_the_bound():
    for adversary, memory in (("switching cost", 1), ("stochastic", 0)):
        bound, printed = tossou2017._bounds(adversary, "EXP3_tau", 1000, 1.0, 5)
        assert bound == bounds.exp3_minibatch(1000, tossou2017.ARMS, 5, memory) and printed is None
    without, with_memory = (float(bounds.exp3_minibatch(1000, 2, 5, m)) for m in (0, 1))
    assert with_memory > 1.01 * without


@pytest.mark.slow
def test_policy_regret_grows_with_memory_and_stays_below_the_bound(reproduced):
    rows = read_rows(reproduced[0] / "tossou2017_memory.csv")
    mine = [row for row in rows if row["learner"] == "EXP3_tau"]
    means = [float(row["mean"]) for row in mine]
    assert means == sorted(means)
    for row in mine:
        assert float(row["mean"]) + 4 * float(row["standard_error"]) < float(row["bound"])
