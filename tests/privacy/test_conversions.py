"""Conversions, the privacy of groups, sensitivity to a user's values, and shuffling."""

import itertools
import math
from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpjax import mechanisms, privacy
from dpjax.privacy import shuffle
from tests import renyi

EPSILONS = np.array([0.1, 1.0, 5.0, math.inf])
DELTAS = np.array([1e-6, 1e-6, 1e-3, 1e-6])


def test_gaussian_privacy_converts_back_and_forth():
    epsilons = EPSILONS[:3]
    mu = 1.0 / np.asarray(privacy.gaussian_inverse_mu(epsilons, DELTAS[:3]), float)
    left, right = stats.norm.sf(epsilons / mu - mu / 2), stats.norm.sf(epsilons / mu + mu / 2)
    assert left - np.exp(epsilons) * right == pytest.approx(DELTAS[:3], rel=1e-3)
    rho = privacy.gaussian_rho(mu)
    assert privacy.zcdp_mu(rho) == pytest.approx(mu, rel=1e-6)
    # The exact curve beats the conversion through rho.
    assert (privacy.zcdp_epsilon(rho, DELTAS[:3]) > epsilons).all()


def test_pure_privacy_implies_zcdp():
    """Randomized response at epsilon has Renyi divergence at most rho times the order."""
    assert privacy.pure_rho(3.0) == 4.5
    p = 1 / (1 + math.exp(0.7))
    for order in (1.01, 2.0, 8.0, 64.0):
        moment = (1 - p) ** order * p ** (1 - order) + p**order * (1 - p) ** (1 - order)
        divergence = math.log(moment) / (order - 1)
        assert divergence <= order * float(privacy.pure_rho(0.7))


def test_epsilon_of_two_laws_is_the_one_of_the_definition():
    """The conversion is within half a percent of the least over all orders for zCDP."""
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.25, 0.35, 0.4])
    rho, delta = 0.05, 1e-6

    @jax.jit
    def of(law, ratios):
        found, plain = privacy.renyi_divergences(law, ratios), privacy.zcdp_divergences(rho)
        return found, *(privacy.renyi_epsilon(each, delta) for each in (found + plain, plain))

    found, both, plain = of(jnp.asarray(p), jnp.asarray(np.log(p / q)))
    expected = renyi.of_law(p, q)
    # At orders at which sums overflow in float32, the divergence is the largest log-ratio.
    np.testing.assert_allclose(found, expected, rtol=1e-2)
    added = expected + rho * renyi.ORDERS
    assert float(both) == pytest.approx(renyi.epsilon_of(added, delta), rel=1e-4)
    best = float(privacy.zcdp_epsilon(rho, delta))
    assert best <= float(plain) <= 1.005 * best


# Several changes at once, from the privacy of one -----------------------------------------------

CASES = [(eps, delta, k) for eps in (1e-3, 0.3, 2.0) for delta in (0.0, 1e-6) for k in (1, 2, 7)]


def steps(epsilon, delta, size, level):
    """The largest power of a test of this level, neighbour by neighbour, in float64."""
    for _ in range(size):
        level = math.exp(epsilon) * level + delta
    return level


@pytest.mark.parametrize(("epsilon", "delta", "size"), CASES)
def test_group_privacy_is_a_walk_over_neighbours(epsilon, delta, size):
    """Exactly: the power at each level is that of k steps."""
    many, leak = privacy.group_privacy(epsilon, delta, size)
    assert many == pytest.approx(size * epsilon, rel=1e-6)
    for level in (0.0, 1e-9):
        power = math.exp(size * epsilon) * level + float(leak)
        assert power == pytest.approx(steps(epsilon, delta, size, level), rel=2e-5)


@pytest.mark.parametrize(("epsilon", "delta", "size"), CASES)
def test_individual_privacy_is_its_inverse(epsilon, delta, size):
    found = privacy.group_privacy(*privacy.individual_privacy(epsilon, delta, size), size)
    np.testing.assert_allclose(found, (epsilon, delta), rtol=1e-5)
    found = jax.jit(privacy.individual_privacy, static_argnums=2)(
        *privacy.group_privacy(epsilon, delta, size), size
    )
    np.testing.assert_allclose(found, (epsilon, delta), rtol=1e-5)


def test_group_privacy_covers_gaussian_noise():
    """k changes in one Gaussian mechanism have k mu; delta alone, or k delta, is too small."""
    for epsilon, mu, size in ((0.2, 0.1, 3), (0.5, 0.3, 4), (1.0, 0.4, 6)):
        delta = float(privacy.gaussian_delta(mu, epsilon))
        exact = float(privacy.gaussian_delta(size * mu, size * epsilon))
        declared = float(privacy.group_privacy(epsilon, delta, size)[1])
        assert delta < exact < declared < 1.0
    assert exact > size * delta


def test_group_privacy_at_the_edges():
    for of in (privacy.group_privacy, privacy.individual_privacy):
        np.testing.assert_allclose(of(math.inf, 1e-3, 4), (math.inf, 1e-3), rtol=1e-6)
    # At epsilon = 0, delta is a total variation distance, which is additive.
    assert float(privacy.group_privacy(0.0, 1e-3, 4)[1]) == pytest.approx(4e-3)
    assert float(privacy.individual_privacy(0.0, 4e-3, 4)[1]) == pytest.approx(1e-3)
    # Above 1 it is vacuous; pure privacy stays pure for any epsilon.
    assert float(privacy.group_privacy(50.0, 1e-3, 4)[1]) == 1.0
    assert float(privacy.group_privacy(50.0, 0.0, 9)[1]) == 0.0


FACTORIES = {name: getattr(mechanisms, name) for name in mechanisms.__all__ if name != "exact"} | {
    "kary, k = 3": partial(mechanisms.kary, k=3),
    "tree, one law": partial(mechanisms.tree, identical_law=True),
    "hybrid, totals": partial(mechanisms.hybrid, totals="separate"),
    "square_root, normalized": partial(mechanisms.square_root, normalized=True),
    "buffered, normalized": partial(mechanisms.buffered, normalized=True),
    "per_item, batches": partial(mechanisms.per_item, batch=3),
}
NORMALIZED = [name for name in FACTORIES if name.endswith("normalized")]


def largest(encoder, count, spacing):
    """The largest (L1, L2) norms of signed sums of ``count`` columns."""
    width = encoder.shape[1]
    if spacing is None:
        chosen = itertools.combinations(range(width), min(count, width))
    else:
        chosen = (range(first, width, spacing)[:count] for first in range(width))
    norms = np.zeros(2)
    for columns in chosen:
        for signs in itertools.product((1.0, -1.0), repeat=len(columns) - 1):
            moved = encoder[:, list(columns)] @ np.array([1.0, *signs])
            norms = np.maximum(norms, [np.abs(moved).sum(), np.linalg.norm(moved)])
    return norms


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("spacing", [None, 1, 3])
def test_the_worst_columns_are_found(name, spacing):
    """Exactly, except for signs in ``stationary`` and if any columns of normalized ones count."""
    for horizon in (2, 10, 13):
        mechanism = FACTORIES[name](horizon)
        _, encoder = mechanism.matrices()
        for count in (1, 2, 3, 4):
            found = privacy.user_sensitivity(mechanism, count, spacing=spacing)
            l1, l2 = largest(encoder, count, spacing)
            if name == "stationary":
                assert l1 <= found.l1 * (1.0 + 1e-9)
            else:
                assert found.l1 == pytest.approx(l1, rel=1e-9)
            if found.exact:
                assert found.l2 == pytest.approx(l2, rel=1e-9)
            assert l2 <= found.l2 * (1.0 + 1e-9) and found.l2 <= 1.03 * l2
            if name != "stationary" and not (name in NORMALIZED and spacing is None):
                assert found.exact
            if count == 1 and name != "unbounded":  # whose declared columns are infinite
                assert found[:2] == pytest.approx(mechanism.sensitivity, rel=1e-9)


def test_adjacent_values_of_a_tree_cost_nearly_k_times_one_value():
    """Between sqrt k and k times. The worst columns are adjacent; distant ones share few nodes."""
    mechanism = mechanisms.tree(1024, noise="gaussian")
    (_, one), k = mechanism.sensitivity, 16
    worst = privacy.user_sensitivity(mechanism, k)
    adjacent = privacy.user_sensitivity(mechanism, k, spacing=1)
    apart = privacy.user_sensitivity(mechanism, k, spacing=64)
    assert worst.l2 == pytest.approx(adjacent.l2)
    assert k**0.5 * one < apart.l2 < 0.7 * worst.l2 and 0.7 * k * one < worst.l2 < k * one
    # With noise on each item, k values are in k releases.
    items = mechanisms.per_item(1024, noise="gaussian")
    assert privacy.user_sensitivity(items, k)[:2] == (16.0, 4.0)


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
