"""Amplification by shuffling, against enumerations of whole transcripts and printed tables."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dpjax import privacy
from dpjax.privacy import shuffle
from dpjax.privacy.integer import binomial_log_pmf

NAN, INF = math.nan, math.inf
CURVES = ("response", "stronger_clones", "clones")


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


def test_multisets_are_those_of_permuted_transcripts():
    """The observer sees a uniform permutation of the messages: 2^4 transcripts, 24 orders each."""
    randomizer, inputs = response(2, 1.0), (0, 1, 1, 0)
    views = Counter()
    for messages in itertools.product([0, 1], repeat=4):
        probability = math.prod(randomizer[i][m] for i, m in zip(inputs, messages, strict=True))
        for order in itertools.permutations(messages):
            views[order] += probability / 24
    law = multisets(randomizer[list(inputs)])
    for view, probability in views.items():
        ones = sum(view)
        assert probability == pytest.approx(law[(4 - ones, ones)] / math.comb(4, ones))


@pytest.mark.parametrize("users", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("local_epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_is_exact_and_below_its_bounds(users, local_epsilon):
    for epsilon in (0.0, 0.3 * local_epsilon, 0.9 * local_epsilon):
        expected = worst(response(2, local_epsilon), users, epsilon)
        curves = [
            privacy.shuffle_delta(local_epsilon, epsilon, users, bound=bound) for bound in CURVES
        ]
        assert curves[0] == pytest.approx(expected, rel=1e-10)
        assert curves[0] <= curves[1] * (1 + 1e-10) <= curves[2] * (1 + 1e-9)
    assert privacy.shuffle_delta(local_epsilon, local_epsilon, users) == 0.0


def test_clones_bound_randomized_response_among_three():
    for users, epsilon in itertools.product((2, 4), (0.2, 0.8)):
        delta = worst(response(3, 1.5), users, epsilon)
        for bound in CURVES[1:]:
            assert delta <= privacy.shuffle_delta(1.5, epsilon, users, bound=bound)


def test_the_clones_are_those_of_their_definition():
    """Delta of (A + D, C - A + 1 - D) against (A + 1 - D, C - A + D), by enumeration."""
    e0, users, epsilon = 1.2, 5, 0.5
    q = math.exp(e0) / (1 + math.exp(e0))
    for bound, share in (("clones", math.exp(-e0)), ("stronger_clones", 2 * (1 - q))):
        clone = [share / 2, share / 2, 1 - share]
        others = [clone] * (users - 1)
        p, q_law = multisets([[q, 1 - q, 0.0], *others]), multisets([[1 - q, q, 0.0], *others])
        expected = divergence(p, q_law, epsilon)
        got = privacy.shuffle_delta(e0, epsilon, users, bound=bound)
        assert got == pytest.approx(expected, rel=1e-10)


TABLE = [  # users, local epsilon, closed 2021, closed 2023, stronger clones, randomized response
    (1000, 0.5, 0.3348, 0.2473, 0.0627, 0.0569),
    (1000, 1.0, 0.6495, 0.4876, 0.1487, 0.1266),
    (1000, 2.0, 2.0, 0.9416, 0.3971, 0.3233),
    (1000, 3.0, 3.0, 3.0, 0.8231, 0.6948),
    (4000, 1.0, 0.3579, 0.2719, 0.0707, 0.0589),
    (4000, 2.0, 0.7459, 0.5742, 0.1871, 0.1450),
    (4000, 4.0, 4.0, 4.0, 0.6915, 0.5589),
]


@pytest.mark.parametrize(("users", "local_epsilon", *"abcd"), TABLE)
def test_the_epsilon_of_a_batch(users, local_epsilon, a, b, c, d):
    bounds = ("closed_2021", "closed_2023", "stronger_clones", "response")
    for bound, printed in zip(bounds, (a, b, c, d), strict=True):
        epsilon = privacy.shuffle_epsilon(local_epsilon, 1e-6, users, bound=bound)
        assert epsilon == pytest.approx(printed, abs=6e-5), bound
    clones = privacy.shuffle_epsilon(local_epsilon, 1e-6, users, bound="clones")
    assert c < clones < a
    assert privacy.shuffle_delta(local_epsilon, clones, users, bound="clones") <= 1e-6
    assert privacy.shuffle_delta(local_epsilon, 0.999 * clones, users, bound="clones") > 1e-6


def test_closed_forms_apply_in_large_batches_only():
    cells = list(itertools.product((1000, 4000), (0.5, 1.0, 2.0, 3.0, 4.0)))
    applies = {
        bound: sum(privacy.shuffle_epsilon(e0, 1e-6, n, bound=bound) < e0 for n, e0 in cells)
        for bound in ("closed_2021", "closed_2023")
    }
    assert applies == {"closed_2021": 5, "closed_2023": 7}
    assert privacy.shuffle_epsilon(0.1, 1e-6, 100, bound="closed_2023") == 0.1


@pytest.mark.parametrize("bound", CURVES)
def test_delta_falls_in_epsilon_and_users_and_rises_in_the_local_epsilon(bound):
    deltas = np.array(
        [
            [[privacy.shuffle_delta(e0, e, n, bound=bound) for e in (0.0, 0.1, 0.4)] for n in sizes]
            for e0 in (0.5, 0.7, 1.5)
            for sizes in [(1, 2, 3, 10, 50, 51)]
        ]
    )
    assert (np.diff(deltas, axis=0) >= -1e-12).all()
    assert (np.diff(deltas, axis=1) <= 1e-12).all()
    assert (np.diff(deltas, axis=2) <= 0.0).all()


def test_the_worst_inputs_are_found_near_the_ends():
    for local_epsilon in (1.0, 3.0, 5.0):
        every = shuffle._response(local_epsilon, 700)
        some = shuffle._response(local_epsilon, 700, tried=0)
        for epsilon in (0.05 * local_epsilon, 0.2 * local_epsilon):
            assert some(epsilon) <= every(epsilon) <= some(epsilon) * (1 + 1e-3)
    # The worst case is not always all users but one equal.
    alone = np.array([worst_of_ends(5.0, 700, 0.5), shuffle._response(5.0, 700)(0.5)])
    assert alone[0] < 0.99 * alone[1]


def worst_of_ends(local_epsilon, users, epsilon):
    q = 1 / (1 + math.exp(-local_epsilon))
    k = np.arange(users)
    start, law = binomial_log_pmf(users - 1, -local_epsilon)
    others = np.zeros(users + 2)
    others[k[start : start + len(law)] + 1] = np.exp(law)
    p, r = q * others[:-1] + (1 - q) * others[1:], (1 - q) * others[:-1] + q * others[1:]
    e = math.exp(epsilon)
    return max(np.maximum(p - e * r, 0).sum(), np.maximum(r - e * p, 0).sum())


@pytest.mark.parametrize(("epsilon", "users"), [(1.0, 1), (1.0, 100), (0.1, 400), (1.0, 5000)])
def test_the_calibrated_local_epsilon_is_the_largest(epsilon, users):
    local = privacy.shuffle_local_epsilon(epsilon, 1e-6, users)
    assert local >= epsilon
    assert privacy.shuffle_delta(local, epsilon, users) <= 1e-6
    assert privacy.shuffle_delta(local * 1.001, epsilon, users) > 1e-6
    assert privacy.shuffle_epsilon(local, 1e-6, users) <= epsilon
    assert privacy.shuffle_local_epsilon(INF, 1e-6, users) == INF


def test_a_calibration_fails_in_a_smaller_batch():
    local = privacy.shuffle_local_epsilon(0.5, 1e-6, 600)
    for users in (500, 300, 60):
        assert privacy.shuffle_delta(local, 0.5, users) > 2e-6
    # The closed form of a large batch, used for one of 20 users.
    claimed = privacy.shuffle_epsilon(1.0, 1e-6, 4000, bound="closed_2023")
    assert privacy.shuffle_delta(1.0, claimed, 20) > 1e-3
    assert privacy.shuffle_local_epsilon(1.0, 1e-6, 10) < 1.001


def test_bad_numbers_are_refused_by_name():
    for bad in (0.0, -1.0, NAN, INF):
        with pytest.raises(ValueError, match="local_epsilon must be"):
            privacy.shuffle_delta(bad, 0.1, 10)
        with pytest.raises(ValueError, match="local_epsilon must be"):
            privacy.shuffle_epsilon(bad, 1e-6, 10)
    for bad in (0.0, -1.0, NAN, 1000.0):
        with pytest.raises(ValueError, match="epsilon must be"):
            privacy.shuffle_local_epsilon(bad, 1e-6, 10)
    for bad in (-1.0, NAN, INF):
        with pytest.raises(ValueError, match="epsilon must be at least 0 and finite"):
            privacy.shuffle_delta(1.0, bad, 10)
    for bad in (0.0, 1.0, -0.5, NAN):
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1"):
            privacy.shuffle_epsilon(1.0, bad, 10)
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1"):
            privacy.shuffle_local_epsilon(1.0, bad, 10)
    for bad in (0, -3, NAN, 10**7):
        with pytest.raises((TypeError, ValueError), match="users must be"):
            privacy.shuffle_delta(1.0, 0.1, bad)
        with pytest.raises((TypeError, ValueError), match="users must be"):
            privacy.shuffle_local_epsilon(1.0, 1e-6, bad)
    with pytest.raises(ValueError, match="bound must be one of response, stronger_clones, clones;"):
        privacy.shuffle_delta(1.0, 0.1, 10, bound="closed_2021")
