"""The reproduction of Agarwal & Singh 2017: its statistics, its files, and its results."""

import numpy as np
import pytest
import xarray

from dpjax import bounds
from dpjax.papers import agarwal2017
from tests.papers.small import played


@pytest.mark.slow
def test_free_epsilons_have_their_intervals():
    free = played("agarwal2017").tables["_free"]
    assert len(free) == 3 * 3 + 2  # for experts, also Hedge and the dartboard
    for row in free:
        assert row.low <= row.epsilon <= row.high
        assert row.learner in played("agarwal2017").printed


@pytest.mark.slow
def test_regret_falls_with_epsilon_and_stays_below_the_bound():
    """From nearly always the centre to nearly FTRL without privacy, in 16 trials."""
    for instance, about in agarwal2017.INSTANCES.items():
        keys = instance, "FTRL, identical law", 512
        rows = played("agarwal2017").tables[""]
        mine = [row for row in rows if (row.instance, row.learner, row.horizon) == keys]
        regret, error, printed, epsilon = np.transpose(
            [(row.regret, row.standard_error, row.bound, row.epsilon) for row in mine]
        )
        assert regret[0] > 0.8 * mine[0].centre
        assert regret[-2] == pytest.approx(regret[-1], rel=0.02)
        assert (np.diff(regret[:-1]) < 4 * error[:-2]).all()
        bound = bounds.ftrl(512, 10, epsilon, domain=about.domain)
        assert (regret + 4 * error < bound).all()
        np.testing.assert_allclose(printed, bound, rtol=1e-5)


def test_free_epsilon_is_where_the_ratio_crosses_ten_percent():
    """Ratios 2, 1.2, 1, 1: halfway between 1 and 10 in logarithm. Also never free, always free."""
    ratios = np.array([[2.0, 1.2, 1.0, 1.0], [2.0, 2.0, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    regret = xarray.DataArray(
        ratios[None, :, None, None, :, None] * np.ones(5),
        {"instance": ["cube"], "learner": ["A", "B", "C"], "horizon": [8], "dim": [2],
         "epsilon": [0.1, 1.0, 10.0, np.inf], "trial": np.arange(5)},
    )  # fmt: skip
    data = xarray.Dataset({"final_regret": regret})
    data = data.assign_coords(privacy_delta=("epsilon", np.zeros(4)))
    found = agarwal2017.free_table(data)
    assert [row["learner"] for row in found] == ["A", "B", "C"]
    assert found[0]["epsilon"] == pytest.approx(10**0.5)
    assert found[1]["epsilon"] == np.inf and found[2]["epsilon"] == 0.0
    assert [row["without_privacy"] for row in found] == [1.0] * 3


def test_exponents_are_fitted_where_all_learners_can_be_read():
    """Of three epsilons, one learner is usable at the last two, the other at the first two."""
    rng = np.random.default_rng(0)
    sizes, trials = 4, 50
    clear = 10.0 + rng.normal(size=(sizes, trials))
    blurred = rng.normal(size=(sizes, trials))
    costs = [np.stack([blurred, clear, clear], axis=1), np.stack([clear, clear, blurred], axis=1)]
    data = xarray.Dataset(
        {"cost": (["learner", "dim", "epsilon", "trial"], np.array(costs)),
         "centre": ("dim", np.full(sizes, 100.0))},
        {"learner": ["A", "B"], "epsilon": [0.1, 1.0, 10.0]},
    )  # fmt: skip
    assert agarwal2017.readable(data, "dim") == 1.0
    assert agarwal2017.readable(data.sel(learner=["A"]), "dim") == 1.0
    assert agarwal2017.readable(data.sel(learner=["B"]), "dim") == 0.1
    # If the cost is as large as it can be, it is not usable either.
    assert agarwal2017.usable(data).any()
    assert not agarwal2017.usable(data.assign(centre=data.centre / 10.0)).any()


def test_the_dartboard_plays_at_the_rate_of_hedge():
    """Its law declares the epsilon of eta = 1 - exp(-sqrt(8 ln K / T)), as in Hedge's law."""
    horizon, arms = 2**14, 10
    learner = agarwal2017.ARM_LEARNERS["shrinking dartboard"](horizon, arms, np.inf)
    keep = np.sqrt(8 * np.log(arms) / horizon)
    rate = 1 - np.exp(-keep)
    restart = max(rate, horizon ** (-1 / 3) / 2)
    leave = np.log1p((1 - restart) * rate / restart)
    rho = ((leave + keep) ** 2 + (horizon - 1) * (2 * keep) ** 2) / 8
    assert float(learner.privacy.rho) == pytest.approx(rho, rel=1e-4)
