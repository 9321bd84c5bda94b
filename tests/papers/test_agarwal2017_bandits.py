"""The reproduction of Agarwal & Singh 2017, section 4, at a small size."""

import numpy as np
import pytest
import xarray

from dpjax.papers import agarwal2017_bandits as paper
from dpjax.papers._shared import exponents
from tests.papers.small import PROGRAMS, counted, read_rows

EPSILONS = (1.0, 1000.0, np.inf)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    out = tmp_path_factory.mktemp("agarwal2017-bandits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "QUICK", ("DP-EXP2", "Tsallis-INF", "SCRiBLE, scalar noise"))
        patch.setattr(paper, "FEW_EPSILONS", EPSILONS)
        printed = counted(paper.reproduce)(out, horizon=512, trials=8, progress=False)
    return out, printed


@pytest.mark.slow
def test_how_many_programs_it_compiles(reproduced):
    assert PROGRAMS["agarwal2017_bandits"] == 7


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    stem = "agarwal2017_bandits"
    tables = [f"{stem}{end}.csv" for end in ("", "_slopes", "_adversaries")]
    figures = [
        f"{stem}{end}.{kind}" for end in ("", "_horizon", "_size") for kind in ("pdf", "png")
    ]
    assert sorted(p.name for p in out.iterdir()) == sorted([*tables, *figures, "parameters.json"])
    assert "SCRiBLE, scalar noise" in printed
    rows = read_rows(out / f"{stem}.csv")
    # With 8 trials, and with 4 at the horizon and at the other size; Tsallis-INF has no epsilon.
    assert len(rows) == 3 * (len(paper.GAPS) * 4 + len(paper.BIASES) * 3)
    assert {row["model"] for row in rows} == {"local", ""}
    assert {(row["size"], row["trials"]) for row in rows} == {("8", "8"), ("8", "4"), ("4", "4")}


@pytest.mark.slow
def test_regret_falls_with_epsilon_and_stays_below_the_bound(reproduced):
    rows = read_rows(reproduced[0] / "agarwal2017_bandits.csv")
    for learner in ("DP-EXP2", "SCRiBLE, scalar noise"):
        mine = [row for row in rows if (row["learner"], row["trials"]) == (learner, "8")]
        worst = [
            max(float(r["regret"]) for r in mine if float(r["epsilon"]) == e) for e in EPSILONS
        ]
        assert worst[0] > worst[1] >= 0.5 * worst[2] > 0.0
        for row in mine:
            if row["bound"]:
                assert float(row["regret"]) < float(row["bound"])


def test_slope_finds_a_power_law_where_something_is_learned():
    generator = np.random.default_rng(0)
    x = xarray.DataArray([1.0, 4.0, 16.0, 64.0], dims="x")
    # The easier of the two difficulties does not matter; the last point has not learned anything.
    noise = generator.uniform(0.9, 1.1, (4, 2, 40))
    values = x.values[:, None, None] ** 0.7 * np.array([[0.1], [1.0]]) * noise
    regrets = xarray.DataArray(values, dims=["x", "difficulty", "trial"])
    found = exponents(regrets, x, x < 64.0, paper.worst)
    assert found.points == 3
    assert found.low < 0.7 < found.high and found.high - found.low < 0.1
    assert float(found.slope) == pytest.approx(0.7, abs=0.05)
    assert np.isnan(exponents(regrets, x, x < 0.0, paper.worst).slope)


@pytest.mark.slow
def test_doing_nothing_is_what_uniform_play_and_the_centre_lose(reproduced):
    rows = read_rows(reproduced[0] / "agarwal2017_bandits.csv")
    for row in rows:
        if row["instance"] == "arms":
            gap = float(row["difficulty"]) * (1 - 1 / int(row["size"]))
            assert float(row["nothing"]) == pytest.approx(512 * gap)
        else:
            assert 0.0 < float(row["nothing"]) <= 512


def test_too_few_trials_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="trials must be at least 4, got 3"):
        paper.reproduce(tmp_path / "out", trials=3)
    assert not (tmp_path / "out").exists()
