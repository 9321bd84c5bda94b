"""Games of AdaP-UCB, AdaP-KLUCB, AdaC-UCB, DP-KLUCB and DP-IMED by hand."""

import numpy as np
import pytest

from dpjax import learners
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games
from tests.maths.test_divergences import d_epsilon_by_hand, lower_by_hand

HORIZON, ARMS, GAMES, ALPHA = 600, 3, 12, 2.0
EPISODES = ("adap_ucb", "adap_klucb", "adac_ucb")


def index_of(name, epsilon, values, pulls, log_t):
    """The indices (K,) from the means of the latest episodes, or from the sums of all batches."""
    if name in EPISODES:
        n = np.maximum(pulls // 2, 1)
        bonus = ALPHA * log_t / (epsilon * n)
        if name == "adac_ucb":
            return values - np.sqrt(ALPHA * log_t * (1 / (2 * n) + 2 / (epsilon * n) ** 2))
        if name == "adap_ucb":
            return values - np.sqrt(ALPHA * log_t / (2 * n)) - bonus
        means = np.clip(values - bonus, 0, 1)
        return np.vectorize(lower_by_hand)(means, ALPHA * log_t / n, np.inf)
    means = np.clip(values / pulls, 0.0, 1.0)
    if name == "dp_klucb":
        return np.vectorize(lower_by_hand)(means, log_t / pulls, epsilon)
    return pulls * np.vectorize(d_epsilon_by_hand)(means, means.min(), epsilon) + np.log(pulls)


RATIOS = ((0.3, 1.5), (2.0, 2.0), (np.inf, 1.1))
CASES = [(name, epsilon, 2.0) for name in EPISODES for epsilon in (0.5, 20.0, np.inf)]
CASES += [(name, *of) for name in ("dp_klucb", "dp_imed") for of in RATIOS]


@pytest.mark.parametrize(("name", "epsilon", "ratio"), CASES)
def test_games_by_hand(name, epsilon, ratio):
    """Batches play an arm of smallest index, and an arm's pulls grow from n to ceil(ratio n).

    The value of an arm is the mean of its latest episode, or the sum of its batches.
    """
    own = {"exploration": ALPHA} if name in EPISODES else {"ratio": ratio}
    own |= {"rho": 0.5 * epsilon**2} if name == "adac_ucb" else {"epsilon": epsilon}
    losses = losses_of_games(1, GAMES, HORIZON, [0.3, 0.5, 0.6])
    draws = laplace_draws(2, GAMES, HORIZON)
    all_arms, states = many_games(
        lambda: getattr(learners, name)(HORIZON, ARMS, **own), 3, losses, draws
    )
    state, losses, decided = states.learner.inner, np.asarray(losses, np.float64), 0
    for game, arms in enumerate(all_arms):
        t, pulls, values = 0, np.zeros(ARMS, int), np.zeros(ARMS)
        for draw in np.asarray(draws[game], np.float64):
            arm = arms[t]
            if (pulls == 0).any():
                assert pulls[arm] == 0
            else:
                now = index_of(name, epsilon, values, pulls, np.log(t + 1))
                # Float32 cannot decide it, so it counts as a tie.
                assert now[arm] <= now.min() + 2e-5 * (1 + abs(now.min()))
                decided += 1
            rounds = max(1, int(np.ceil(np.float32(ratio - 1) * np.float32(pulls[arm]))))
            assert (arms[t : t + rounds] == arm).all()
            total = losses[game, t : t + rounds, arm].sum() + draw / epsilon
            t, pulls[arm] = t + rounds, pulls[arm] + rounds
            if t >= HORIZON:
                break
            values[arm] = total / rounds if name in EPISODES else values[arm] + total
            np.testing.assert_allclose(state.values[game, t - 1], values, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(state.pulls[game, t - 1], pulls)
    assert decided > 6 * GAMES
