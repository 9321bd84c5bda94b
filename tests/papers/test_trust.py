"""The same games under every trust model: rounds by Chernoff's bound, tables, declarations."""

import numpy as np
import pytest

from dpjax.papers import trust
from tests.papers.small import keep_only, read_rows


def test_every_law_is_of_its_model():
    """A study plays them on one game, at one epsilon and delta."""
    study = trust.arms_study(10_000, 8)
    assert [program.learner for program in study.programs] == list(trust.LAWS)
    for name, make in trust.in_every_model(trust.linear_elimination, radius="joint").items():
        declared = make(10_000, epsilon=0.5).privacy
        assert declared.model == name.split(",")[0]
        assert declared.delta in (0.0, trust.DELTA)


@pytest.mark.slow
def test_a_small_run(tmp_path, monkeypatch):
    """All tables and figures; without privacy all models have one mean."""
    keep_only(monkeypatch, trust, LAWS=("central, Laplace", "local, randomized response"))
    monkeypatch.setattr(trust, "EPSILONS", (1.0, np.inf))
    printed = trust.reproduce(tmp_path / "out", horizon=100_000, trials=20, progress=False)
    assert "local, randomized response" in printed
    for ending in ("", "_linear", "_identification", "_onset", "_slopes"):
        assert read_rows(tmp_path / "out" / f"trust{ending}.csv")
    for ending in ("", "_linear", "_identification", "_contexts", "_points"):
        assert (tmp_path / "out" / f"trust{ending}.png").stat().st_size > 10_000
    rows = read_rows(tmp_path / "out" / "trust.csv")
    plain = [float(row["mean"]) for row in rows if row["epsilon"] == "inf"]
    assert plain[0] == pytest.approx(plain[1], rel=1e-6)
    costs = {row["learner"]: float(row["factor"]) for row in rows if float(row["epsilon"]) == 1.0}
    assert costs["local, randomized response"] > costs["central, Laplace"]
