"""DP-KLUCB and DP-IMED: geometric batches, indices by hand, and regret."""

import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, environments, simulate_batches, sweep
from dpjax.learners import dp_imed, dp_klucb, successive_elimination
from tests.learners.batches import check_games_by_hand
from tests.maths.test_divergences import d_epsilon_by_hand, lower_by_hand

LEARNERS = {"klucb": dp_klucb, "imed": dp_imed}


def indices(name, epsilon):
    def of(totals, pulls, log_t):
        means = np.clip(totals / pulls, 0.0, 1.0)
        if name == "klucb":
            return np.vectorize(lower_by_hand)(means, log_t / pulls, epsilon)
        return pulls * np.vectorize(d_epsilon_by_hand)(means, means.min(), epsilon) + np.log(pulls)

    return of


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize(
    ("epsilon", "ratio"),
    [pytest.param(0.3, 1.5, marks=pytest.mark.slow), (2.0, 2.0), (np.inf, 1.1)],
)
def test_games_by_hand(name, epsilon, ratio):
    """Batches play an arm of smallest index and grow from n to ceil(ratio n); sums add up."""
    check_games_by_hand(
        lambda: LEARNERS[name](600, 3, epsilon=epsilon, ratio=ratio), ratio=ratio,
        scale=1 / epsilon, index=indices(name, epsilon),
        gather=lambda before, total, rounds: before + total,
    )  # fmt: skip


@pytest.mark.slow
def test_regret_lies_between_the_lower_bound_and_dp_se():
    """On C2 at T = 1e5, epsilon 1/4 and 1, with standard errors; batches double.

    The lower bound is asymptotic, so regret must exceed half of it. With smaller ratios more noise
    adds up early, and a few games stay with a bad arm: their regret is heavy-tailed.
    """
    means, epsilons = np.array([0.25, 0.375, 0.5, 0.625, 0.75]), np.float32([0.25, 1.0])
    environment = environments.bernoulli(means, regret="pseudo")

    def regrets(learner):
        found = sweep(
            lambda epsilon: (learner(10**5, 5, epsilon=epsilon), environment), epsilons, 200,
            jr.key(3), play=simulate_batches, checkpoints=1, progress=False,
        )  # fmt: skip
        return found.regret[:, :, 0].astype(np.float64)

    elimination = regrets(successive_elimination).mean(axis=1)
    lower = bounds.d_epsilon(10**5, means, epsilons)
    for learner in LEARNERS.values():
        final = regrets(learner)
        mean, error = final.mean(axis=1), final.std(axis=1) / np.sqrt(200)
        assert (mean + 4 * error < elimination).all()
        assert (mean > 0.5 * lower).all()
        # More privacy costs more.
        assert np.median(final[0]) > np.median(final[1])
