"""The reproduction of Agarwal & Singh 2017, section 4, at a small size."""

import pytest

from dpjax.papers import agarwal2017_bandits as paper
from tests.papers.small import SMALL, played

EPSILONS = SMALL["agarwal2017_bandits"].changes["FEW_EPSILONS"]


@pytest.mark.slow
def test_rows_of_the_main_table():
    """With 8 trials, and with 4 at the horizon and at the other size; Tsallis-INF has no epsilon.

    Uniform play and the centre are the regret of doing nothing.
    """
    rows = played("agarwal2017_bandits").tables[""]
    assert "SCRiBLE, scalar noise" in played("agarwal2017_bandits").printed
    assert len(rows) == 3 * (len(paper.GAPS) * 4 + len(paper.BIASES) * 3)
    assert {row.model for row in rows} == {"local", ""}
    assert {(row.size, row.trials) for row in rows} == {(8, 8), (8, 4), (4, 4)}
    for row in rows:
        if row.instance == "arms":
            assert row.nothing == pytest.approx(512 * row.difficulty * (1 - 1 / row.size))
        else:
            assert 0.0 < row.nothing <= 512


@pytest.mark.slow
def test_regret_falls_with_epsilon_and_stays_below_the_bound():
    rows = played("agarwal2017_bandits").tables[""]
    for learner in ("DP-EXP2", "SCRiBLE, scalar noise"):
        mine = [row for row in rows if (row.learner, row.trials) == (learner, 8)]
        worst = [max(row.regret for row in mine if row.epsilon == e) for e in EPSILONS]
        assert worst[0] > worst[1] >= 0.5 * worst[2] > 0.0
        assert all(row.regret < row.bound for row in mine if row.bound)
