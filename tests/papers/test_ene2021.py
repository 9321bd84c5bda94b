"""The reproduction of Ene, Nguyen & Vladu 2021: a small run, its numbers, its exponents."""

import numpy as np
import pytest
import xarray

from dpjax.papers import ene2021
from tests.papers.small import played


@pytest.mark.slow
def test_regret_falls_with_epsilon_and_with_the_noise():
    """Seven points at two horizons, then ten over epsilon and seven at one dimension."""
    tables, printed, _ = played("ene2021")
    assert "PRIVATEBANDIT" in printed and len(tables[""]) == 3 * 7 + 10
    assert max(row.certified_distance for row in tables[""]) <= 2.0 * (13.5 / 17) ** 0.5
    regret = {(row.calibration, row.epsilon): row.regret for row in tables[""][14:24]}
    none = regret["none", np.inf]
    for name in ("single_change", "batch_norm", "printed"):
        levels = [regret[name, e] for e in (1.0, 10.0, 1000.0)]
        assert levels[0] > levels[1] > levels[2] > 0.95 * none
    assert regret["single_change", 10.0] < regret["printed", 10.0]
    assert regret["single_change", 1000.0] < 1.05 * none
    baseline = {(row.learner, row.epsilon): row.regret for row in tables["_baselines"]}
    assert baseline["PRIVATEBANDIT", 1.0] > baseline["PRIVATEBANDIT", np.inf]
    # The learner alone and the learner with a given scale are the same.
    assert baseline["PRIVATEBANDIT", np.inf] == pytest.approx(none, rel=1e-4)
    assert baseline["PRIVATEBANDIT", 1.0] == pytest.approx(regret["single_change", 1.0], rel=1e-3)


def test_slopes_of_regret_and_of_what_noise_costs():
    """Regret is x^0.75, the cost of noise is 3 x^0.5; the last point has not learned anything."""
    x = np.array([1.0, 4.0, 16.0, 64.0])
    plain, cost = x**0.75, 3.0 * x**0.5
    noise = 1.0 + 0.1 * np.random.default_rng(0).normal(size=(2, 4, 100))
    regret = [plain[:, None] * noise[0], plain[:, None] * noise[0] + cost[:, None] * noise[1]]
    data = xarray.Dataset(
        {"final_regret": (["calibration", "horizon", "trial"], np.array(regret)),
         "centre": ("horizon", np.array([1e3, 1e3, 1e3, 1.0]))},
        {"calibration": ["none", "single_change"], "horizon": x},
    )  # fmt: skip
    paper = {"none": 0.75, ene2021.COST: 0.5}
    data = data.expand_dims(rate=[1.0])
    found = ene2021.slope_rows(data, ("ball", "gaussian"), "T", data.horizon, paper)
    for row, wanted in zip(found, paper.values(), strict=True):
        assert (row["points"], row["paper"], row["instance"]) == (3, wanted, "ball")
        assert row["low"] < wanted < row["high"] and row["high"] - row["low"] < 0.1
        assert row["low"] < row["slope"] < row["high"]
    assert [row["calibration"] for row in found] == ["none", "single_change less none"]
    one = data.isel(horizon=[0])
    row, _ = ene2021.slope_rows(one, ("ball", "gaussian"), "T", one.horizon, paper)
    assert np.isnan(row["slope"])


def test_signal_to_noise_by_hand():
    """T = 4^4: two of four levels on average; n = 2, gradients of length 1 / 2, scale 8."""
    by_formula = ene2021.signal_to_noise
    assert by_formula(8.0, 2**8, "gaussian", 2, 0.5) == pytest.approx(128 / (8 * 2))
    assert by_formula(0.0, 2**8, "gaussian", 2, 0.5) == np.inf
