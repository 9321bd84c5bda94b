"""Shared by tests of batch learners: releases, ties, and games of growing batches by hand."""

import numpy as np
from jax import random as jr

from dpjax.maths import exact_sums
from tests.learners.given_noise import laplace_draws, losses_of_games, many_games


def told_sums(learner, totals):
    """The state after one step per total, and the batches (arm, rounds) played."""
    state, batch = learner.init(jr.key(0))
    played = [(int(batch.action), int(batch.rounds))]
    for total in totals:
        state, batch = learner.step(state, jr.key(0), exact_sums.of(total))
        played.append((int(batch.action), int(batch.rounds)))
    return state, played


def check_games_by_hand(make, *, ratio, scale, gather, index, games=12, horizon=600):
    """Batches play an arm of smallest index, and an arm's pulls grow from n to ceil(ratio n).

    Args:
      make: () -> the learner of growing_batches over three arms.
      ratio, gather: as in growing_batches, with noisy sums.
      scale: of the noise of a sum.
      index: (values (K,), pulls (K,), ln of the next round) -> the indices, (K,).
    """
    losses, draws = (
        losses_of_games(1, games, horizon, [0.3, 0.5, 0.6]),
        laplace_draws(2, games, horizon),
    )
    all_arms, states = many_games(make, 3, losses, draws)
    state, losses, decided = states.learner.inner, np.asarray(losses, np.float64), 0
    for game, arms in enumerate(all_arms):
        t, pulls, values = 0, np.zeros(3, int), np.zeros(3)
        for draw in np.asarray(draws[game], np.float64):
            arm = arms[t]
            if (pulls == 0).any():
                assert pulls[arm] == 0
            else:
                now = index(values, pulls, np.log(t + 1))
                # Float32 cannot decide it, so it counts as a tie.
                assert now[arm] <= now.min() + 2e-5 * (1 + abs(now.min()))
                decided += 1
            rounds = max(1, int(np.ceil(np.float32(ratio - 1) * np.float32(pulls[arm]))))
            assert (arms[t : t + rounds] == arm).all()
            total = losses[game, t : t + rounds, arm].sum() + scale * draw
            t, pulls[arm] = t + rounds, pulls[arm] + rounds
            if t >= horizon:
                break
            values[arm] = gather(values[arm], total, rounds)
            np.testing.assert_allclose(state.values[game, t - 1], values, rtol=1e-5, atol=1e-4)
            np.testing.assert_array_equal(state.pulls[game, t - 1], pulls)
    assert decided > 6 * games
