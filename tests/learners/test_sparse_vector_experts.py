"""Sparse vector experts: the exact law of small games, the cost of comparisons, and regret."""

import itertools
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax.audit import comparisons
from dpjax.learners import sparse_vector_experts
from dpjax.learners._sparse_vector_experts import split
from tests.play import play_table

GRID = np.linspace(-40.0, 40.0, 8001)
DENSITY = np.exp(-np.abs(GRID)) / 2 * (GRID[1] - GRID[0])


def tail(x):
    """P(Lap(1) > x)."""
    return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def answers(values, level, scale, exceeded):
    """The probability that none of values (n,) exceeds the noisy level, or only the last one."""
    above = tail((level - np.asarray(values, float)[:, None]) / scale + GRID)
    stay = 1.0 - above
    if exceeded:
        stay[-1] = above[-1]
    return float((DENSITY * stay.prod(0)).sum())


def law(losses, level, scale, gamma, budget):
    """{arms of the T rounds: probability} on losses (T - 1, K), in float64."""
    rounds, arms = losses.shape
    choices = [(False, 0), *((True, arm) for arm in range(arms))]
    found = defaultdict(float)
    for first in range(arms):
        for path in itertools.product(choices, repeat=rounds):
            arm, start, left, p, played = first, 0, budget, 1.0 / arms, [first]
            for t, (anew, other) in enumerate(path):
                played.append(other if anew else played[-1])
                if not anew:
                    continue
                if left == 0:
                    p = 0.0
                    break
                p *= answers(losses[start : t + 1, arm].cumsum(), level, scale, True)
                weights = np.exp(-gamma * losses[: t + 1].sum(0))
                p *= weights[other] / weights.sum()
                arm, start, left = other, t + 1, left - 1
            if p > 0.0 and left > 0 and start < rounds:
                p *= answers(losses[start:, arm].cumsum(), level, scale, False)
            if p > 0.0:
                found[tuple(played)] += p
    return found


def test_games_have_their_law():
    """Arms of 4 rounds in 10^5 games, by all paths; half the noise has another law."""
    losses, runs, epsilon = np.array([[1, 0], [0.5, 0.2], [1, 0], [0, 0]]), 100_000, 2.0
    learner = sparse_vector_experts(4, 2, epsilon=epsilon, threshold=1.0, draws=2)
    play = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1]))
    played, count = np.unique(
        np.asarray(play(jr.split(jr.key(0), runs))), axis=0, return_counts=True
    )
    seen = dict(zip(map(tuple, played.tolist()), count / runs, strict=True))

    def off(factor):
        first, gamma = split(epsilon, 2.0)
        expected = law(losses[:-1], 1.0, factor / first, gamma / factor, 2)
        assert sum(expected.values()) == pytest.approx(1.0, abs=1e-4)
        return max(abs(seen.get(a, 0) - p) / np.sqrt(p / runs) for a, p in expected.items())

    assert off(1.0) < 4.5
    assert off(0.5) > 20


def test_comparisons_cost_no_less_than_their_exact_law():
    """Four values and any changes of them; one case attains nearly the whole cost."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for case in range(40):
        values, change = rng.uniform(-2, 2, 4), rng.uniform(-1, 1, 4)
        if case == 0:
            values, change = np.full(4, 12.0), np.full(4, 0.5)
        exact = 0.0
        for n, exceeded in [(1, True), (2, True), (3, True), (4, True), (4, False)]:
            ours, theirs = (answers(v[:n], 1.0, 1.0, exceeded) for v in (values, values + change))
            exact = max(exact, abs(np.log(ours / theirs)))
        rows = jnp.stack([jnp.float32(change), jnp.zeros(4), jnp.ones(4)], axis=1)
        pure, rho, drawn = comparisons.costs(rows, jnp.zeros((4, 2), jnp.uint32))
        assert exact <= float(pure) + 1e-3
        assert float(rho) == pytest.approx(float(pure) ** 2 / 2)
        np.testing.assert_array_equal(drawn[:, 2], [True, False, False, False])
        largest = max(largest, exact / float(pure))
    assert largest > 0.999


def charged(units, exceeded, keys):
    rows = jnp.stack(
        [jnp.float32(units), jnp.float32(exceeded), jnp.ones(len(units), jnp.float32)], axis=1
    )
    words = jnp.stack([jnp.uint32(keys), jnp.zeros(len(units), jnp.uint32)], axis=1)
    pure, _, drawn = comparisons.costs(rows, words)
    return float(pure), list(np.asarray(drawn[:, 2], bool))


def test_each_armed_threshold_is_charged_once():
    """A change from some round on costs 1, with either sign; changes of both signs cost 3."""
    none = [False] * 4
    assert charged([0, 1, 1, 1], none, [7] * 4) == (1.0, [True, False, False, False])
    assert charged([0, -1, -1, -1], none, [7] * 4)[0] == 1.0
    assert charged([1, -1, 1, -1], none, [7] * 4)[0] == 3.0
    # A fresh threshold is charged separately; one that continues after firing counts as fresh.
    fired = [False, True, False, False]
    assert charged([0, 1, 1, 1], fired, [7, 7, 8, 8]) == (2.0, [True, False, True, False])
    assert charged([0, 1, 0, 0], fired, [7] * 4) == (1.0, [True, False, True, False])
    # Two thresholds may alternate: 7 is compared in rounds 1 and 3.
    assert charged([0, 1, 1, 1], none, [7, 8, 7, 8]) == (2.0, [True, False, True, False])


def test_report_and_declaration():
    """The budget's end is reported; epsilon is the total, half of it for comparisons."""
    learner = sparse_vector_experts(64, 3, epsilon=2.0, threshold=0.5, draws=3)
    state = play_table(learner, np.ones((64, 3)), jr.key(0)).last
    report = learner.report(state)
    assert (int(report.redrawn), bool(report.spent)) == (3, True)
    gamma = 2.0 / 12
    assert float(learner.privacy.epsilon) == pytest.approx(2.0)
    assert float(learner.privacy.rho) == pytest.approx(0.5 + 3 * gamma**2 / 2)
    plain = sparse_vector_experts(64, 3, epsilon=np.inf)
    assert np.isinf(plain.privacy.epsilon)
    state = play_table(plain, np.eye(3)[[0] * 64], jr.key(1)).last
    assert int(plain.report(state).redrawn) <= 1
