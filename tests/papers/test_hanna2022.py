"""The reproduction of Hanna et al. 2022: its files and its tables."""

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import hanna2022
from tests.papers.small import played


@pytest.mark.slow
def test_elimination_uses_what_arms_tell_of_each_other():
    """From epsilon 1 on, less than half of the regret of DP-SE, by 4 standard errors.

    It is below the bound, and falls with epsilon.
    """
    tables, printed, parameters = played("hanna2022")
    # By batches at eight epsilons, and at five with LinUCB and UCB1, which has no epsilon.
    assert len(tables[""]) == 2 * 8 + 3 * 5 + 1
    assert (parameters["round_horizon"], parameters["horizons"]) == (2000, [10**4, 10**5])
    assert "exact" in printed and "zeta" in printed
    rows = {(row.learner, row.epsilon): row for row in tables[""] if row.horizon == 10**5}
    mine = [row for (name, _), row in sorted(rows.items()) if name == "exact"]
    for epsilon in (1.0, 10.0, np.inf):
        row = rows["exact", epsilon]
        assert row.mean + 4 * row.standard_error < 0.5 * rows["DP-SE", epsilon].mean
    for row in mine:
        bound = bounds.linear_elimination(1e5, 20, 5, row.epsilon)
        assert row.upper == pytest.approx(bound, rel=1e-5)
        assert row.q95 <= bound
    assert mine[-1].mean < mine[-3].mean < mine[2].mean


@pytest.mark.slow
def test_worst_length_is_at_least_as_bad_as_length_one():
    tables = played("hanna2022").tables
    assert len(tables["_horizon"]) == 2 * 3 * 2
    assert all(row.worst >= row.mean for row in tables["_horizon"])
    assert all(row.low <= row.exponent <= row.high for row in tables["_exponents"])


@pytest.mark.slow
def test_nets_and_overtaking():
    """Regret to the circle has two parts; with less regret at the end, a learner has overtaken."""
    (net,) = played("hanna2022").tables["_nets"]
    # Three points, with theta at 60 degrees from the two best.
    assert net.arms == 3 and net.net_to_circle == pytest.approx(1e5 * 0.25)
    assert net.total == pytest.approx(net.to_the_net + net.net_to_circle, rel=1e-5)
    rows = played("hanna2022").tables["_rounds"]
    assert [row.learner for row in rows] == ["LinUCB", "UCB1"] * 5
    for row in rows:
        assert row.horizon == 2000
        assert (row.from_round == "") == (row.other <= row.elimination)


def test_the_exponent_is_that_of_the_worst_length():
    """Regret is 3 T^(1/2) at one length of theta and T^(1/4), which is less, at the other."""
    horizons = np.array([1e4, 1e6, 1e8])
    regret = np.stack([horizons**0.25, 3.0 * horizons**0.5])[None, None, :, :, None] * np.ones(8)
    data = xarray.Dataset(
        {"final_regret": (["learner", "epsilon", "length", "horizon", "trial"], regret)},
        {"learner": ["exact"], "epsilon": [1.0], "length": [1.0, 0.1], "horizon": horizons},
    )
    (row,) = hanna2022.exponents(data)
    assert row["exponent"] == pytest.approx(0.5)
    assert (row["from"], row["to"], row["trials"]) == (10**4, 10**8, 8)


def test_rewards_on_the_sphere_are_losses_in_the_unit_interval():
    for instance in hanna2022.INSTANCES.values():
        np.testing.assert_allclose(np.linalg.norm(instance.actions, axis=1), 1.0)
        assert np.linalg.norm(instance.theta) == pytest.approx(1.0)
        means = instance.means()
        assert ((means >= 0) & (means <= 1)).all()
        np.testing.assert_allclose(instance.means(0.1) - 0.5, 0.1 * (means - 0.5))
