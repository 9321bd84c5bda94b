"""The reproduction of Tossou & Dimitrakakis 2017: its constants, files and results."""

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import tossou2017
from tests import zcdp
from tests.papers.small import played


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


def small(**keys):
    """The rows of the small run with these values."""
    rows = played("tossou2017").tables[""]
    return [row for row in rows if keys.items() <= vars(row).items()]


@pytest.mark.slow
def test_both_private_algorithms_are_compared_at_one_accounted_level():
    rows = small()
    assert len(rows) == 2 * (1 + 5 + 4)
    assert {row.adversary for row in rows} == {*tossou2017.QUICK_ADVERSARIES}
    assert all(row.trials == 48 and row.adversary in played("tossou2017").printed for row in rows)
    models = {(row.learner, row.model) for row in rows}
    assert models == {("EXP3", "central"), ("DP-EXP3-Lap", "local"), ("EXP3_tau", "central")}
    for adversary in tossou2017.QUICK_ADVERSARIES:
        (lap,) = small(adversary=adversary, level="accounted")
        (tau,) = small(adversary=adversary, learner="EXP3_tau", level="paper")
        assert lap.epsilon == tau.epsilon
        assert tau.delta == pytest.approx(2.0**-24, rel=1e-6)
        assert tau.printed_epsilon > 8 * tau.epsilon


@pytest.mark.slow
def test_what_the_paper_states_where_it_is_plainest():
    """Deterministic: DP-EXP3-Lap is close to EXP3, EXP3_tau behind. Switching cost: the reverse."""

    def regrets(adversary):
        for learner, level in [("EXP3", ""), ("DP-EXP3-Lap", "paper"), ("EXP3_tau", "paper")]:
            (row,) = small(adversary=adversary, learner=learner, level=level)
            yield row.mean
            yield row.standard_error

    exp3, _, lap, lap_error, tau, tau_error = regrets("deterministic")
    assert lap < 1.15 * exp3
    assert tau - 4 * np.hypot(tau_error, lap_error) > 1.5 * lap
    exp3, exp3_error, lap, lap_error, tau, _ = regrets("switching cost")
    assert 2 * tau < min(exp3, lap) - 4 * max(exp3_error, lap_error)


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
def test_policy_regret_grows_with_memory_and_stays_below_the_bound():
    rows = played("tossou2017").tables["_memory"]
    mine = [row for row in rows if row.learner == "EXP3_tau"]
    assert [row.mean for row in mine] == sorted(row.mean for row in mine)
    assert all(row.mean + 4 * row.standard_error < row.bound for row in mine)
