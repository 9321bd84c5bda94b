"""DP-KLUCB and DP-IMED: geometric batches, indices by hand, and regret."""

import numpy as np
import pytest

from dpjax.learners import dp_imed, dp_klucb
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
