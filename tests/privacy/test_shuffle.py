"""Amplification by shuffling, against enumerations of whole transcripts and printed tables."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dpjax import privacy
from dpjax.privacy import shuffle

INF = math.inf
CURVES = ("response", "clones")


def multisets(rows):
    """The law of the multiset of messages; message i has the law ``rows[i]``."""
    law = Counter({(0,) * len(rows[0]): 1.0})
    for row in rows:
        grown = Counter()
        for counts, probability in law.items():
            for message, share in enumerate(row):
                key = (*counts[:message], counts[message] + 1, *counts[message + 1 :])
                grown[key] += probability * share
        law = grown
    return law


def divergence(p, q, epsilon):
    e = math.exp(epsilon)
    return max(sum(max(p[x] - e * q[x], 0.0) for x in p), sum(max(q[x] - e * p[x], 0.0) for x in q))


def response(options, local_epsilon):
    """Randomized response: row i is the law of the message for input i."""
    weights = 1.0 + np.eye(options) * math.expm1(local_epsilon)
    return weights / weights.sum(1, keepdims=True)


def worst(randomizer, users, epsilon):
    """Delta over all inputs of all users, by their multisets, since shuffling hides the order."""
    inputs = range(len(randomizer))
    largest = 0.0
    for others in itertools.combinations_with_replacement(inputs, users - 1):
        for changed in itertools.combinations(inputs, 2):
            p, q = (multisets([randomizer[x], *randomizer[list(others)]]) for x in changed)
            largest = max(largest, divergence(p, q, epsilon))
    return largest


@pytest.mark.parametrize("users", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("local_epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_exact_and_below_its_bounds(users, local_epsilon):
    for epsilon in (0.0, 0.3 * local_epsilon, 0.9 * local_epsilon):
        expected = worst(response(2, local_epsilon), users, epsilon)
        curves = [
            privacy.shuffle_delta(local_epsilon, epsilon, users, bound=bound) for bound in CURVES
        ]
        assert curves[0] == pytest.approx(expected, rel=1e-10)
        assert curves[0] <= curves[1] * (1 + 1e-10)
    assert privacy.shuffle_delta(local_epsilon, local_epsilon, users) == 0.0


def test_clones_bound_randomized_response_among_three():
    for users, epsilon in itertools.product((2, 4), (0.2, 0.8)):
        delta = worst(response(3, 1.5), users, epsilon)
        assert delta <= privacy.shuffle_delta(1.5, epsilon, users, bound="clones")


def test_the_clones_are_those_of_their_definition():
    """Delta of (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D), by enumeration."""
    e0, users, epsilon = 1.2, 5, 0.5
    q, share = math.exp(e0) / (1 + math.exp(e0)), math.exp(-e0)
    others = [[share / 2, share / 2, 1 - share]] * (users - 1)
    p, q_law = multisets([[q, 1 - q, 0.0], *others]), multisets([[1 - q, q, 0.0], *others])
    got = privacy.shuffle_delta(e0, epsilon, users, bound="clones")
    assert got == pytest.approx(divergence(p, q_law, epsilon), rel=1e-10)


TABLE = [  # users, local epsilon, epsilon of randomized response
    (1000, 0.5, 0.0569), (1000, 1.0, 0.1266), (1000, 2.0, 0.3233), (1000, 3.0, 0.6948),
    (4000, 1.0, 0.0589), (4000, 2.0, 0.1450), (4000, 4.0, 0.5589),
]  # fmt: skip


@pytest.mark.parametrize(("users", "local_epsilon", "printed"), TABLE)
def test_the_epsilon_of_a_batch(users, local_epsilon, printed):
    epsilon = privacy.shuffle_epsilon(local_epsilon, 1e-6, users)
    assert epsilon == pytest.approx(printed, abs=6e-5)
    clones = privacy.shuffle_epsilon(local_epsilon, 1e-6, users, bound="clones")
    assert epsilon < clones < local_epsilon
    assert privacy.shuffle_delta(local_epsilon, clones, users, bound="clones") <= 1e-6
    assert privacy.shuffle_delta(local_epsilon, 0.999 * clones, users, bound="clones") > 1e-6


@pytest.mark.parametrize(("epsilon", "users"), [(1.0, 1), (1.0, 100), (0.1, 400), (1.0, 5000)])
def test_the_calibrated_local_epsilon_is_the_largest(epsilon, users):
    local = privacy.shuffle_local_epsilon(epsilon, 1e-6, users)
    assert local >= epsilon
    assert privacy.shuffle_delta(local, epsilon, users) <= 1e-6
    assert privacy.shuffle_delta(local * 1.001, epsilon, users) > 1e-6
    assert privacy.shuffle_epsilon(local, 1e-6, users) <= epsilon
    assert privacy.shuffle_local_epsilon(INF, 1e-6, users) == INF


def test_the_worst_inputs_are_found_near_the_ends():
    for local_epsilon in (1.0, 3.0, 5.0):
        every = shuffle._response(local_epsilon, 700)
        some = shuffle._response(local_epsilon, 700, tried=0)
        for epsilon in (0.05 * local_epsilon, 0.2 * local_epsilon):
            assert some(epsilon) <= every(epsilon) <= some(epsilon) * (1 + 1e-3)
