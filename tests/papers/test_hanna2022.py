"""The reproduction of Hanna et al. 2022: its files and its tables."""

import json

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import hanna2022
from tests.papers.small import counted, files, keep_only, names, read_rows


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small run of everything, with some of the learners: (folder, printed text)."""
    out = tmp_path_factory.mktemp("results") / "hanna2022"
    with pytest.MonkeyPatch.context() as patch:
        keep_only(patch, hanna2022, BY_BATCHES=("exact", "DP-SE"), BY_ROUNDS=("UCB1",))
        patch.setattr(hanna2022, "ZETAS", (1.0,))
        patch.setattr(hanna2022, "LENGTHS", (1.0, 0.1))
        patch.setattr(hanna2022, "ROUNDS", 2000)
        printed = counted(hanna2022.reproduce, 7)(out, horizon=10**5, trials=32, progress=False)
    return out, printed


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    tables = ("", "_horizon", "_exponents", "_nets", "_rounds")
    assert names(out) == files("hanna2022", ("", "_curves", "_horizon", "_rounds"), tables)
    rows = read_rows(out / "hanna2022.csv")
    # By batches at eight epsilons, and at five with LinUCB and UCB1, which has no epsilon.
    assert len(rows) == 2 * 8 + 3 * 5 + 1
    parameters = json.loads((out / "parameters.json").read_text())
    assert parameters["horizon"] == 10**5 and parameters["round_horizon"] == 2000
    assert parameters["horizons"] == [10**4, 10**5]
    assert "exact" in printed and "zeta" in printed


@pytest.mark.slow
def test_elimination_uses_what_arms_tell_of_each_other(reproduced):
    """From epsilon 1 on, less than half of the regret of DP-SE, by 4 standard errors.

    It is below the bound, and falls with epsilon.
    """
    rows = read_rows(reproduced[0] / "hanna2022.csv")
    mine, other = (
        {
            float(row["epsilon"]): row
            for row in rows
            if (row["learner"], row["horizon"]) == (name, "100000")
        }
        for name in ("exact", "DP-SE")
    )
    for epsilon in (1.0, 10.0, np.inf):
        high = float(mine[epsilon]["mean"]) + 4 * float(mine[epsilon]["standard_error"])
        assert high < 0.5 * float(other[epsilon]["mean"])
    for epsilon, row in mine.items():
        bound = bounds.linear_elimination(1e5, 20, 5, epsilon)
        assert float(row["upper"]) == pytest.approx(bound, rel=1e-5)
        assert float(row["q95"]) <= bound
    means = [float(mine[epsilon]["mean"]) for epsilon in sorted(mine)]
    assert means[-1] < means[-3] < means[2]


@pytest.mark.slow
def test_worst_length_is_at_least_as_bad_as_length_one(reproduced):
    rows = read_rows(reproduced[0] / "hanna2022_horizon.csv")
    assert len(rows) == 2 * 3 * 2
    assert all(float(row["worst"]) >= float(row["mean"]) for row in rows)
    exponents = read_rows(reproduced[0] / "hanna2022_exponents.csv")
    for row in exponents:
        assert float(row["low"]) <= float(row["exponent"]) <= float(row["high"])


@pytest.mark.slow
def test_nets_and_overtaking(reproduced):
    """Regret to the circle has two parts; with less regret at the end, a learner has overtaken."""
    (net,) = read_rows(reproduced[0] / "hanna2022_nets.csv")
    # Three points, with theta at 60 degrees from the two best.
    assert net["arms"] == "3"
    assert float(net["net_to_circle"]) == pytest.approx(1e5 * 0.25)
    assert float(net["total"]) == pytest.approx(
        float(net["to_the_net"]) + float(net["net_to_circle"]), rel=1e-5
    )
    rows = read_rows(reproduced[0] / "hanna2022_rounds.csv")
    assert [row["learner"] for row in rows] == ["LinUCB", "UCB1"] * 5
    assert all(row["horizon"] == "2000" for row in rows)
    for row in rows:
        assert (row["from_round"] == "") == (float(row["other"]) <= float(row["elimination"]))


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
