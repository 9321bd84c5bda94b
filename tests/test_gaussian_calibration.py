"""The exact Gaussian mechanism: from (epsilon, delta) to a scale and back, in both precisions."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import get_sigma_gaussian
from scipy import stats

from dpjax import privacy
from dpjax.core._versions import enable_x64

EPSILONS = (1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)
DELTAS = (1e-10, 1e-8, 1e-6, 1e-4, 0.01, 0.1, 0.5)
GRID = np.array(list(itertools.product(EPSILONS, DELTAS)))
CASES = {"float32": (False, np.float32, 1e-5), "float64": (True, np.float64, 1e-9)}


@pytest.mark.parametrize("precision", CASES)
def test_scale_is_that_of_dp_accounting(precision):
    """70 pairs at once under jit: within 1e-5 in float32, 1e-9 in float64."""
    wide, dtype, tolerance = CASES[precision]
    with enable_x64(wide):
        epsilon, delta = GRID.astype(dtype).T
        scale = jax.jit(lambda e, d: privacy.gaussian_scale(1.0, e, d))(epsilon, delta)
        assert scale.dtype == dtype
    expected = [get_sigma_gaussian(float(e), float(d)) for e, d in zip(epsilon, delta, strict=True)]
    np.testing.assert_allclose(scale, expected, rtol=tolerance)


def test_delta_is_that_of_the_normal_law():
    """Phi(-e/mu + mu/2) - e^e Phi(-e/mu - mu/2) in float64, where SciPy's terms do not cancel."""
    pairs = np.array(list(itertools.product((0.1, 0.5, 1.0, 3.0, 8.0), (0.0, 0.1, 1.0, 4.0))))
    mu, epsilon = pairs.T
    expected = stats.norm.cdf(-epsilon / mu + mu / 2)
    expected = expected - np.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
    with enable_x64(True):
        value = np.asarray(privacy.gaussian_delta(mu, epsilon))
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-14)


def test_delta_of_the_scale_is_delta_and_of_half_of_it_is_not():
    """The round trip in float32; at half the scale, delta is at least half as large again."""
    epsilon, delta = GRID.astype(np.float32).T
    inverse = np.asarray(privacy.gaussian_inverse_mu(epsilon, delta))
    # One ulp of mu changes ln delta by some 40 ulps at delta = 1e-10.
    np.testing.assert_allclose(privacy.gaussian_delta(1 / inverse, epsilon), delta, rtol=1e-3)
    assert (np.asarray(privacy.gaussian_delta(2 / inverse, epsilon)) > 1.5 * delta).all()


def test_finite_from_tiny_to_huge_epsilon_and_no_noise_at_infinity():
    epsilon = np.array([1e-9, 1e-6, 1.0, 1e3, 1e6, np.inf], np.float32)
    scale = np.asarray(privacy.gaussian_scale(3.0, epsilon, 1e-6))
    assert np.isfinite(scale).all()
    assert (np.diff(scale) < 0).all() and scale[-1] == 0.0
    # For large epsilon, mu is about sqrt(2 epsilon).
    assert scale[4] == pytest.approx(3.0 / math.sqrt(2e6), rel=0.01)
    # For epsilon near 0, delta = 2 Phi(mu / 2) - 1.
    assert scale[0] == pytest.approx(3.0 / (2 * stats.norm.isf(0.5 - 0.5e-6)), rel=0.01)


def test_never_more_noise_than_zcdp_or_the_classic_formula():
    """zCDP is valid everywhere, sqrt(2 ln(1.25 / delta)) / epsilon for epsilon < 1."""
    epsilon, delta = GRID.astype(np.float32).T
    exact = np.asarray(privacy.gaussian_scale(1.0, epsilon, delta))
    zcdp = np.asarray(privacy.zcdp_inverse_root(epsilon, delta)) / np.float32(np.sqrt(2.0))
    assert (exact < zcdp).all()
    small = epsilon < 1
    classic = np.sqrt(2 * np.log(1.25 / delta[small])) / epsilon[small]
    assert (exact[small] < classic).all()
    rho = 0.5 / zcdp**2
    np.testing.assert_allclose(privacy.zcdp_epsilon(rho, delta), epsilon, rtol=1e-3, atol=2e-6)


def test_delta_does_not_overflow_or_become_nan_far_out():
    mu = jnp.float32(1) * np.array([1e-4, 1e-4, 40.0, 200.0], np.float32)
    delta = privacy.gaussian_delta(mu, np.array([0.0, 20.0, 0.0, 1.0], np.float32))
    np.testing.assert_allclose(delta, [3.989423e-5, 0.0, 1.0, 1.0], rtol=1e-5)
