"""Conversions of epsilon at delta, rho, mu and Renyi divergences; the privacy of groups."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpjax import privacy
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
