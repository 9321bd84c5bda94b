"""The shrinking dartboard in batches and with shifts: its exact law, its cost, its batches."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, simulate
from dpjax.learners._shrinking_dartboard import shrinking_dartboard
from dpjax.learners.parts.dartboard import Setting, derived_setting, pure_epsilon
from tests.play import play_table


def game_paths(means, rate, restart, budget, share=0.0):
    """(arms, number of draws, probabilities (count,)) of paths, on means (count, n - 1, K).

    A path also contains the rounds in which an arm was drawn, even if it was the same arm.
    """
    count, steps, arms = means.shape
    law = np.full((count, arms), 1 / arms)
    paths = [((x,), 1, np.full(count, 1 / arms)) for x in range(arms)]
    for t in range(steps):
        law = law * (1 - rate) ** means[:, t]
        law = (1 - share) * law / law.sum(1, keepdims=True) + share / arms
        longer = []
        for played, drawn, probability in paths:
            x = played[-1]
            jump = (1 - share) * np.eye(arms)[x] + share / arms
            keep = (1 - restart) * (1 - rate) ** means[:, t, x] if drawn < budget else 1.0
            for y in range(arms):
                longer.append(((*played, y), drawn, probability * keep * jump[y]))
                if drawn < budget:
                    drawn_anew = probability * (1 - keep) * law[:, y]
                    longer.append(((*played, y), drawn + 1, drawn_anew))
        paths = longer
    return paths


def game_law(means, rate, restart, budget, share=0.0):
    """Different arms of paths, (m, n), and their probabilities, (m, count)."""
    paths = game_paths(means, rate, restart, budget, share)
    names, index = np.unique([path[0] for path in paths], axis=0, return_inverse=True)
    merged = np.zeros((len(names), len(means)))
    np.add.at(merged, index.ravel(), np.stack([path[2] for path in paths]))
    return names, merged


def worst_log_ratio(law, rows, steps, batch):
    """The largest log-ratio of arms between tables that differ in one round of one batch."""
    possible = law[law.any(axis=1)]
    logs = np.log(possible).reshape(-1, *[len(rows)] * steps)
    near = (np.abs(rows[:, None] - rows) <= 1 / batch + 1e-9).all(-1)
    worst = 0.0
    for axis in range(1, steps + 1):
        by_row = np.moveaxis(logs, axis, 0)
        for one, other in np.argwhere(near):
            worst = max(worst, (by_row[one] - by_row[other]).max())
    return worst


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize(("horizon", "batch", "arms"), [(6, 2, 3), (6, 3, 2), (5, 1, 2)])
def test_log_ratios_of_all_small_games(horizon, batch, arms, share):
    """All 0/1 loss sequences in batches: within the formula, and somewhere above half of it."""
    steps = horizon // batch - 1
    rows = np.array(list(itertools.product(np.arange(batch + 1) / batch, repeat=arms)))
    tables = rows[np.array(list(itertools.product(range(len(rows)), repeat=steps)))]
    tightest = 0.0
    for rate, restart in [(0.45, 0.45), (0.3, 0.05), (0.05, 0.2)]:
        for budget in range(2, steps + 2):
            setting = Setting(jnp.float32(rate), jnp.float32(restart), jnp.int32(budget))
            claimed = float(pure_epsilon(setting, jnp.float32(batch)))
            law = game_law(tables, rate, restart, budget, share)[1]
            shown = worst_log_ratio(law, rows, steps, batch)
            assert shown <= claimed * (1 + 1e-5)
            tightest = max(tightest, shown / claimed)
    assert tightest > 0.5


@pytest.mark.parametrize("shifts", [0, 1.5])
@pytest.mark.parametrize("epsilon", [4.0, np.inf])
def test_games_have_the_exact_law(epsilon, shifts):
    """40 000 games of 8 rounds in batches of 2, by chi-square; a wrong rate is rejected."""
    games, horizon, arms, batch = 40_000, 8, 3, 2
    losses = np.array(jr.uniform(jr.key(1), (horizon, arms)))
    losses[:, 0] *= 0.1
    learner = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, rate=0.5, restart=0.5, batch=batch, shifts=shifts
    )
    run = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions))
    played = np.asarray(run(jr.split(jr.key(2), games)))
    blocks = played[:, :-1].reshape(games, horizon // batch, batch)
    assert (blocks == blocks[:, :, :1]).all()
    setting = derived_setting(horizon, arms, epsilon, None, 0.5, 0.5, jnp.float32(batch))
    rate, restart, budget = (float(x) for x in setting)
    means = losses.reshape(horizon // batch, batch, arms).mean(1)[None, :-1]
    share = shifts / (horizon // batch - 1)
    code = np.ravel_multi_index(tuple(blocks[:, :, 0].T), (arms,) * 4)
    counts = np.bincount(code, minlength=arms**4)

    def pvalue(rate):
        names, law = game_law(means, rate, restart, budget, min(share, 0.5))
        expected = np.zeros(arms**4)
        expected[np.ravel_multi_index(tuple(names.T), (arms,) * 4)] = games * law[:, 0]
        order = np.argsort(expected)  # rare paths are counted together
        cells = np.maximum.accumulate(np.cumsum(expected[order]) // 50).astype(int)
        seen, wanted = (np.bincount(cells, x[order]) for x in (counts, expected))
        return stats.chisquare(seen[wanted > 0], wanted[wanted > 0]).pvalue

    assert pvalue(rate) > 1e-3
    assert pvalue(0.6 * rate) < 1e-6


def test_printed_batches():
    """B, p and eta of Corollary 6, and its epsilon by Theorem 5: it omits a root of 12."""
    horizon, arms, epsilon, delta = 2**18, 10, 0.1, 1e-6
    learner = shrinking_dartboard(
        horizon, arms, epsilon=epsilon, delta=delta, calibration="printed", batch=None
    )
    log = np.log(1 / delta)
    batch = round(log**0.4 * np.log(arms) ** 0.6 * horizon**-0.2 * epsilon**-0.6)
    assert int(learner.init(jr.key(0))[1].rounds) == batch
    p = (batch / (horizon * log)) ** (1 / 3)
    eta = batch * p * epsilon / 40
    paper = 5 * eta / (batch * p) + 100 * horizon * p * eta**2 / batch**3
    paper += 20 * eta / batch * np.sqrt(12 * horizon * p / batch * log)
    assert float(learner.privacy.paper_epsilon) == pytest.approx(paper, rel=1e-4)
    assert float(learner.privacy.epsilon) < epsilon < 1.8 * epsilon < paper < 1.9 * epsilon


def test_the_best_batch_is_traced_with_epsilon():
    """Without privacy it is 1; it grows as epsilon falls; the report contains it."""

    def batch(epsilon):
        learner = shrinking_dartboard(2**14, 10, epsilon=epsilon, batch=None)
        return learner.init(jr.key(0))[1].rounds

    found = jax.jit(jax.vmap(batch))(jnp.float32([0.05, 0.1, 1.0, np.inf]))
    assert found[-1] == 1 and (np.diff(found) <= 0).all() and found[1] == 48
    learner = shrinking_dartboard(64, 3, epsilon=0.5, batch=4)
    game = simulate(learner, environments.bernoulli([0.2, 0.5, 0.5]), jr.key(0), checkpoints=1)
    assert int(game.report.batch) == 4
