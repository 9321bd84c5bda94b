"""Renyi divergences and their conversion to epsilon, against their definitions in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import privacy
from tests import renyi


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
