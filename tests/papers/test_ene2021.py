"""The reproduction of Ene, Nguyen & Vladu 2021: a small run, its numbers, its exponents."""

import json

import numpy as np
import pytest
import xarray

from dpjax.papers import ene2021
from tests.papers.small import counted, files, keep_only, names, read_rows


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small run on the ball only: (folder, printed text)."""
    out = tmp_path_factory.mktemp("results") / "ene2021"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ene2021, "EPSILONS", (1.0, 10.0, 1000.0))
        patch.setattr(ene2021, "RATES", (1.0, 1 / 64))
        keep_only(patch, ene2021, BASELINES=("PRIVATEBANDIT", "PRIVATEBANDIT, buffered"))
        printed = counted(ene2021.reproduce, 5)(out, horizon=2**8, trials=16, progress=False)
    return out, printed


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    tables = ("", "_slopes", "_baselines")
    assert names(out) == files("ene2021", ("", "_epsilon", "_dim"), tables)
    assert "PRIVATEBANDIT" in printed
    assert json.loads((out / "parameters.json").read_text())["trials"] == 16
    rows = read_rows(out / "ene2021.csv")
    # Seven points at two horizons, then ten over epsilon and seven at one dimension.
    assert len(rows) == 3 * 7 + 10
    for row in rows:
        assert float(row["certified_distance"]) <= 2.0 * (13.5 / 17) ** 0.5


@pytest.mark.slow
def test_regret_falls_with_epsilon_and_with_the_noise(reproduced):
    rows = read_rows(reproduced[0] / "ene2021.csv")[14:24]
    regret = {(row["calibration"], float(row["epsilon"])): float(row["regret"]) for row in rows}
    none = regret["none", np.inf]
    for name in ("single_change", "batch_norm", "printed"):
        levels = [regret[name, e] for e in (1.0, 10.0, 1000.0)]
        assert levels[0] > levels[1] > levels[2] > 0.95 * none
    assert regret["single_change", 10.0] < regret["printed", 10.0]
    assert regret["single_change", 1000.0] < 1.05 * none
    baselines = read_rows(reproduced[0] / "ene2021_baselines.csv")
    by_name = {(row["learner"], float(row["epsilon"])): float(row["regret"]) for row in baselines}
    assert by_name["PRIVATEBANDIT", 1.0] > by_name["PRIVATEBANDIT", np.inf]
    # The learner alone and the learner with a given scale are the same.
    assert by_name["PRIVATEBANDIT", np.inf] == pytest.approx(none, rel=1e-4)
    assert by_name["PRIVATEBANDIT", 1.0] == pytest.approx(regret["single_change", 1.0], rel=1e-3)


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


def test_signal_to_noise_by_hand():
    """T = 4^4: two of four levels on average; n = 2, gradients of length 1 / 2, scale 8."""
    by_formula = ene2021.signal_to_noise
    assert by_formula(8.0, 2**8, "gaussian", 2, 0.5) == pytest.approx(128 / (8 * 2))
    assert by_formula(0.0, 2**8, "gaussian", 2, 0.5) == np.inf
