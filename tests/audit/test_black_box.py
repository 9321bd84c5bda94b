"""A learner that is a class of Python is audited from its arms: too little noise is caught."""

import numpy as np
import pytest
from jax import random as jr

from dpjax import audit


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
