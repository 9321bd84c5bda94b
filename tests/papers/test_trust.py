"""The same games under every trust model: rounds by Chernoff's bound, tables, declarations."""

import numpy as np
import pytest

from dpjax.papers import trust
from tests.papers.small import played


def test_every_law_is_of_its_model():
    """A study plays them on one game, at one epsilon and delta."""
    study = trust.arms_study(10_000, 8)
    assert [program.learner for program in study.programs] == list(trust.LAWS)
    for name, make in trust.in_every_model(trust.linear_elimination, radius="joint").items():
        declared = make(10_000, epsilon=0.5).privacy
        assert declared.model == name.split(",")[0]
        assert declared.delta in (0.0, trust.DELTA)


@pytest.mark.slow
def test_without_privacy_all_models_have_one_mean():
    tables, printed, _ = played("trust")
    assert "local, randomized response" in printed
    plain = [row.mean for row in tables[""] if row.epsilon == np.inf]
    assert plain[0] == pytest.approx(plain[1], rel=1e-6)
    costs = {row.learner: row.factor for row in tables[""] if row.epsilon == 1.0}
    assert costs["local, randomized response"] > costs["central, Laplace"]
