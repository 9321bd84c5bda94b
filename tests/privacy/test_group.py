"""The privacy of several changes at once, from the privacy of one."""

import math

import jax
import numpy as np
import pytest

from dpjax import privacy

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
