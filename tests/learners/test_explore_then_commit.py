"""Explore-then-commit: its batches, its default m, and its bounds."""

import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds
from dpjax.learners import explore_then_commit
from dpjax.learners._explore_then_commit import derived_rounds
from dpjax.maths import exact_sums


def test_it_explores_all_arms_and_commits_to_the_best():
    """Ten rounds of each arm without noise, in an order that depends on the key."""
    orders = set()
    for seed in range(8):
        learner = explore_then_commit(1000, 3, epsilon=np.inf, rounds=10.9)
        state, batch = learner.init(jr.key(seed))
        played = []
        for _ in range(3):
            played.append(int(batch.action))
            assert batch.rounds == 10 and learner.report(state).arm == -1
            total = exact_sums.of([9.0, 2.0, 5.0][played[-1]])
            state, batch = learner.step(state, jr.key(0), total)
        assert (int(batch.action), int(batch.rounds)) == (1, 1000 - 30 + 1)
        assert (learner.report(state).rounds, learner.report(state).arm) == (10, 1)
        orders.add(tuple(played))
    assert len(orders) > 2


def test_the_bound_on_errors():
    """Each part is exact or Hoeffding's: Laplace draws alone, and 0 or 1 instead of a tail."""
    assert bounds.explore_then_commit_error(0.2, 1000.0, np.inf) == pytest.approx(np.exp(-10.0))
    rng = np.random.default_rng(0)
    draws = rng.laplace(size=(2, 10**6))
    tail = (draws[0] - draws[1] >= 3.0).mean()
    value = bounds.explore_then_commit_error(1.0, 60.0, 0.1) - np.exp(-15.0)
    assert value == pytest.approx(tail, abs=4e-4)
    assert bounds.explore_then_commit_error(0.1, 1.0, 0.01) == 1.0
    # At m = 60, losses of both arms with noise err less often than the bound.
    for epsilon in (0.1, 1.0):
        sums = rng.binomial(60, [[0.2], [0.5]], (2, 10**5)) + rng.laplace(size=(2, 10**5)) / epsilon
        wrong = (sums[0] >= sums[1]).mean()
        assert 0.0 < wrong < bounds.explore_then_commit_error(0.3, 60.0, epsilon)


def test_the_default_rounds():
    """By hand."""
    horizon = 10**4
    log = np.log(horizon)
    assert derived_rounds(horizon, 2, np.inf) == np.ceil(5000 ** (2 / 3) * log ** (1 / 3))
    assert derived_rounds(horizon, 2, 1e-3) == 5000
    assert derived_rounds(horizon, 2, 0.1) == np.ceil(
        max(5000 ** (2 / 3) * log ** (1 / 3), np.sqrt(5e4 * log))
    )
    assert derived_rounds(2, 5, 1.0) == 1.0
