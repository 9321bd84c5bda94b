"""The reproduction of Azize et al. 2023: its instances, tables, figures and results."""

import pytest

from dpjax import bounds
from dpjax.papers import azize2023
from tests.papers.small import played


def test_times_stand_beside_the_lower_bound():
    rows = played("azize2023").tables[""]
    assert len(rows) == 2 * 4
    for row in rows:
        means = azize2023.losses(azize2023.GAINS["mu4"])
        lower = bounds.stopping_time_lower(means, row.epsilon, azize2023.FAILURE)
        assert row.lower_bound == pytest.approx(float(lower), rel=1e-5)
        assert row.ratio > 1.0 == row.stopped and row.error_low <= azize2023.FAILURE
    assert "DP-TT" in played("azize2023").printed and "halving" in played("azize2023").printed


def test_privacy_begins_to_cost_where_the_bounds_meet():
    """Within a factor of ten, because the rules have constants in front of both bounds."""
    for row in played("azize2023").tables["_onset"]:
        assert row.predicted == pytest.approx(0.2008, abs=1e-3)
        assert row.low <= row.crossing <= row.high
        assert 0.1 < row.crossing / row.predicted < 10
