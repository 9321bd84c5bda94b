"""The reproduction of Agarwal & Singh 2017, section 4, at a small size."""

import numpy as np
import pytest

from dpjax.papers import agarwal2017_bandits as paper
from tests.papers.small import counted, files, names, read_rows

EPSILONS = (1.0, 1000.0, np.inf)


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    out = tmp_path_factory.mktemp("agarwal2017-bandits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "QUICK", ("DP-EXP2", "Tsallis-INF", "SCRiBLE, scalar noise"))
        patch.setattr(paper, "FEW_EPSILONS", EPSILONS)
        printed = counted(paper.reproduce, 7)(out, horizon=512, trials=8, progress=False)
    return out, printed


@pytest.mark.slow
def test_files_and_their_rows(reproduced):
    out, printed = reproduced
    stem = "agarwal2017_bandits"
    tables = ("", "_slopes", "_adversaries")
    assert names(out) == files(stem, ("", "_horizon", "_size"), tables)
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


@pytest.mark.slow
def test_doing_nothing_is_what_uniform_play_and_the_centre_lose(reproduced):
    rows = read_rows(reproduced[0] / "agarwal2017_bandits.csv")
    for row in rows:
        if row["instance"] == "arms":
            gap = float(row["difficulty"]) * (1 - 1 / int(row["size"]))
            assert float(row["nothing"]) == pytest.approx(512 * gap)
        else:
            assert 0.0 < float(row["nothing"]) <= 512
