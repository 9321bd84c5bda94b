"""Tests valid at any time: the wealth, its level and power; and audits of a class of Python."""

import jax
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, privacy
from dpjax.audit._anytime import FRACTIONS

Q = np.e / (1.0 + np.e)


def laplace(true, seed=0):
    """Runs in plain NumPy, without keys: side + Laplace noise of scale 1 / true."""
    rng = np.random.default_rng(seed)
    return lambda side, keys: side + rng.laplace(size=len(keys), scale=1.0 / true)


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_wealth_by_hand(delta):
    """The mean over fractions of a product over pairs, in plain Python."""
    pairs = [(1, 1)] * 3 + [(1, 0)] * 7 + [(0, 1)] * 2 + [(0, 0)] * 5
    odds, wealth = np.exp(0.7), 0.0
    for fraction in FRACTIONS:
        product = 1.0
        for x, y in pairs:
            product *= 1.0 + fraction * (x - odds * y - delta) / (odds + delta)
        wealth += product / len(FRACTIONS)
    assert audit.log_wealth((3, 7, 2, 5), 0.7, delta) == pytest.approx(np.log(wealth))


@pytest.mark.parametrize(("p", "q", "delta"), [(Q, 1 - Q, 0.0), (0.4, 0.3 / np.e, 0.1)])
def test_the_wealth_is_a_fair_game_at_the_true_epsilon(p, q, delta):
    """A pair multiplies it by 1 on average if E X = e E Y + delta, more for smaller epsilons."""
    chances = np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
    assert p == pytest.approx(np.e * q + delta)
    each = np.exp(audit.log_wealth(np.eye(4), np.ones(4), delta))
    assert each @ chances == pytest.approx(1.0)
    assert (each > 0.0).all()
    assert np.exp(audit.log_wealth(np.eye(4), np.full(4, 0.5), delta)) @ chances > 1.02


def test_the_bound_is_where_the_wealth_crosses():
    for counts, delta in [((300, 900, 100, 700), 0.0), ((300, 900, 100, 700), 0.02)]:
        found = audit.bound_from_pairs(counts, delta=delta)
        at, after = audit.log_wealth(np.array([counts] * 2), [found, found + 2e-4], delta)
        assert at >= np.log(20.0) > after
    assert audit.bound_from_pairs((5, 6, 5, 4)) == 0.0
    assert audit.bound_from_pairs((0, 0, 0, 0)) == 0.0


def test_chosen_events_keep_the_level():
    """Thresholds from the past at the true epsilon, in 100 games of 2048 runs: at most 5 %."""
    found = [
        audit.anytime(laplace(1.0, seed), jr.key(0), epsilon=1.0, first=256, limit=2048)
        for seed in range(100)
    ]
    refuted = sum(each.refuted for each in found)
    assert stats.binomtest(refuted, 100, 0.05, alternative="greater").pvalue > 0.01
    assert np.mean([each.epsilon for each in found]) > 0.6


@pytest.mark.parametrize(("true", "most"), [(2.0, 512), (1.5, 1600)])
def test_too_little_noise_is_found_in_few_runs(true, most):
    """The median over 20 tests."""
    found = [
        audit.anytime(laplace(true, seed), jr.key(0), epsilon=1.0, limit=2**13)
        for seed in range(20)
    ]
    assert all(each.refuted and 1.0 < each.epsilon < true + 0.3 for each in found)
    assert np.median([each.runs for each in found]) <= most


def test_scores_may_be_compiled_and_one_that_is_no_number_counts_as_low():
    compiled = jax.jit(lambda side, keys: side + jax.vmap(jr.laplace)(keys) / 3.0)
    for scores in (compiled, lambda side, keys: np.full(len(keys), np.nan if side else 1.0)):
        assert audit.anytime(scores, jr.key(0), epsilon=1.0, limit=2**13).refuted


def test_gaussian_noise_at_its_delta():
    """mu = 1 declares (epsilon(delta), delta): the right noise is not refuted, half of it is."""
    delta = 1e-2
    declared = float(privacy.gaussian_epsilon(1.0, delta))

    def found(deviation):
        rng = np.random.default_rng(1)
        return audit.anytime(
            lambda side, keys: side + deviation * rng.normal(size=len(keys)), jr.key(0),
            epsilon=declared, delta=delta, limit=2**13,
        )  # fmt: skip

    assert not found(1.0).refuted and 0.3 * declared < found(1.0).epsilon <= declared
    assert found(0.5).refuted


class Commit:
    """Plays each of two arms once, then the one of the smaller noisy loss."""

    def __init__(self, epsilon, seed, factor=1.0):
        self.noise = np.random.default_rng(seed).laplace(scale=factor / epsilon, size=2)
        self.seen, self.best = np.zeros(2), 0
        self.played = 0

    def select(self):
        return self.played if self.played < 2 else self.best

    def update(self, arm, loss):
        if self.played < 2:
            self.seen[arm] = loss
            self.best = int(np.argmin(self.seen + self.noise))
        self.played += 1


# The first loss of arm 0 differs. In round 3 a difference of two Laplace draws decides.
PAIR = audit.Pair(np.ones((3, 2)), np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]]))


def truth(epsilon, factor):
    """The log ratio of the probabilities of arm 1, from the density of the difference by hand."""
    at = epsilon / factor
    return np.log(0.5 / (0.5 * np.exp(-at) * (1.0 + at / 2.0)))


@pytest.mark.parametrize(("factor", "limit", "refuted"), [(1.0, 2**13, False), (0.5, 2**13, True)])
def test_half_the_noise_is_caught_and_all_of_it_is_not(factor, limit, refuted):
    """The arms reveal 0.59 of a declared 1; with half the noise they reveal 1.31."""
    found = audit.black_box(
        lambda seed: Commit(1.0, seed, factor), PAIR, jr.key(0), epsilon=1.0, limit=limit
    )
    assert found.refuted == refuted
    assert truth(1.0, 1.0) == pytest.approx(0.594, abs=1e-3)
    assert truth(1.0, 0.5) == pytest.approx(1.307, abs=1e-3)
    assert 0.5 * truth(1.0, factor) < found.epsilon < truth(1.0, factor)
    if refuted:
        assert found.runs < limit  # It stops early.


def test_runs_differ_and_a_key_repeats_them():
    seeds = []

    def make(seed):
        seeds.append(seed)
        return Commit(1.0, seed)

    given = {"epsilon": 1.0, "training": 8, "first": 8, "limit": 16}
    first = audit.black_box(make, PAIR, jr.key(0), **given)
    count = len(seeds)
    assert count == 2 * (8 + first.runs) == len(set(seeds)) and max(seeds) < 2**32
    assert audit.black_box(make, PAIR, jr.key(0), **given) == first
    assert seeds[:count] == seeds[count:]
