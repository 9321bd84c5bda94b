"""The reproduction of Azize et al. 2023: its instances, tables, figures and results."""

import pytest

from dpjax import bounds
from dpjax.papers import azize2023
from tests.papers.small import counted, files, keep_only, names, read_rows


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A small run on one instance: the folder and the printed text."""
    out = tmp_path_factory.mktemp("results") / "azize2023"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(azize2023, "QUICK", ("mu4", "DP-TT", "DP-SE", "TTUCB"))
        keep_only(patch, azize2023, RULES=("AdaP-TT, released",))
        return out, counted(azize2023.reproduce, 5)(out, horizon=10**6, trials=40, progress=False)


def test_times_stand_beside_the_lower_bound(reproduced):
    rows = read_rows(reproduced[0] / "azize2023.csv")
    assert len(rows) == 2 * 4
    for row in rows:
        means = azize2023.losses(azize2023.GAINS["mu4"])
        lower = bounds.stopping_time_lower(means, float(row["epsilon"]), azize2023.FAILURE)
        assert float(row["lower_bound"]) == pytest.approx(float(lower), rel=1e-5)
        assert float(row["ratio"]) > 1.0
        assert float(row["error_low"]) <= azize2023.FAILURE
        assert row["stopped"] == "1"


def test_privacy_begins_to_cost_where_the_bounds_meet(reproduced):
    """Within a factor of ten, because the rules have constants in front of both bounds."""
    found = {row["learner"]: row for row in read_rows(reproduced[0] / "azize2023_onset.csv")}
    for row in found.values():
        assert float(row["predicted"]) == pytest.approx(0.2008, abs=1e-3)
        assert float(row["low"]) <= float(row["crossing"]) <= float(row["high"])
        assert 0.1 < float(row["crossing"]) / float(row["predicted"]) < 10


def test_files(reproduced):
    out, printed = reproduced
    tables = ("", "_plain", "_onset", "_errors", "_budget")
    assert names(out) == files("azize2023", ("", "_errors"), tables)
    assert all(read_rows(out / f"azize2023{ending}.csv") for ending in tables)
    assert "DP-TT" in printed and "halving" in printed
