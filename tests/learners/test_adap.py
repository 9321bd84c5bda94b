"""AdaP-UCB, AdaP-KLUCB and AdaC-UCB: doubling episodes, indices by hand, ties, and regret."""

import numpy as np
import pytest

from dpjax.learners import adac_ucb, adap_klucb, adap_ucb
from tests.learners.batches import check_games_by_hand
from tests.maths.test_divergences import lower_by_hand

ALPHA = 2.0


def indices(name, epsilon):
    """The indices from means of the latest episodes; rho is epsilon^2 / 2."""

    def of(means, pulls, log_t):
        n = np.maximum(pulls // 2, 1)
        if name == "adac":
            return means - np.sqrt(ALPHA * log_t * (1 / (2 * n) + 2 / (epsilon * n) ** 2))
        bonus = ALPHA * log_t / (epsilon * n)
        if name == "ucb":
            return means - np.sqrt(ALPHA * log_t / (2 * n)) - bonus
        return np.vectorize(lower_by_hand)(np.clip(means - bonus, 0, 1), ALPHA * log_t / n, np.inf)

    return of


@pytest.mark.parametrize("name", ["ucb", "klucb", "adac"])
@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 20.0, np.inf])
def test_games_by_hand(name, epsilon):
    """Each episode plays an arm of smallest index, and its mean is from that episode alone."""

    def make():
        if name == "adac":
            return adac_ucb(600, 3, rho=0.5 * epsilon**2, exploration=ALPHA)
        factory = {"ucb": adap_ucb, "klucb": adap_klucb}[name]
        return factory(600, 3, epsilon=epsilon, exploration=ALPHA)

    check_games_by_hand(
        make, ratio=2.0, scale=1 / epsilon, index=indices(name, epsilon),
        gather=lambda before, total, rounds: total / rounds,
    )  # fmt: skip
