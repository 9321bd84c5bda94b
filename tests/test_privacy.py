"""From (epsilon, delta) to noise and back, against arithmetic in higher precision."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy import stats
from scipy.special import softmax

from dpjax import privacy
from dpjax.core._versions import enable_x64
from tests.renyi import of_law
from tests.zcdp import least_epsilon, terms

INF = float("inf")


EPSILONS = np.float32(10.0) ** np.arange(-9, 7, dtype=np.float32)
DELTAS = np.array([1e-18, 1e-12, 1e-9, 1e-6, 1e-3, 0.1], np.float32)


def test_zcdp_epsilon_is_that_of_dp_accounting():
    """From rho 1e-12 to 1000.

    The float64 twin of the tests agrees with it; both are minima over many orders.
    """
    orders = 1.0 + np.logspace(-4.0, 9.0, 60_001)
    for rho in (1e-12, 1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3):
        for delta in (1e-30, 1e-12, 1e-6, 1e-2):
            found = float(privacy.zcdp_epsilon(rho, delta))
            exact = compute_epsilon(orders, rho * orders, delta)[0]
            assert found == pytest.approx(exact, rel=2e-5, abs=1e-9)
            assert least_epsilon(rho, delta) == pytest.approx(exact, rel=1e-6, abs=1e-9)
    assert float(privacy.zcdp_epsilon(0.1, 1e-6)) == pytest.approx(2.142, abs=1e-3)


def test_zcdp_epsilon_at_the_edges():
    assert privacy.zcdp_epsilon(0.0, 1e-6) == 0.0
    assert privacy.zcdp_epsilon(0.5, 1.0) == 0.0
    assert privacy.zcdp_epsilon(INF, 1e-6) == INF
    assert privacy.zcdp_epsilon(1.0, 0.0) == INF
    for function in (privacy.zcdp_epsilon, privacy.zcdp_inverse_root):
        assert np.isnan(function(np.nan, 1e-6))
    # If delta is much larger than sqrt(rho), it covers everything.
    assert privacy.zcdp_epsilon(1e-8, 0.01) == 0.0
    # A plain delta may be 0 in float32.
    exact = least_epsilon(1.0, 1e-300)
    assert float(privacy.zcdp_epsilon(1.0, 1e-300)) == pytest.approx(exact, rel=1e-5)


def test_zcdp_epsilon_and_its_inverse_are_those_of_float64():
    """Epsilon is never below the infimum, and above it by at most 2e-6 of its terms.

    More epsilon or more delta allows more rho, and more rho needs more epsilon.
    """
    generator = np.random.default_rng(0)
    rho = (10.0 ** generator.uniform(-12, 6, 40)).astype(np.float32)
    delta = (10.0 ** generator.uniform(-30, -0.01, 40)).astype(np.float32)
    found = np.asarray(jax.jit(jax.vmap(privacy.zcdp_epsilon))(rho, delta), np.float64)
    for r, d, epsilon in zip(rho, delta, found, strict=True):
        exact, size = least_epsilon(r, d), rounding(r, d)
        assert -1e-8 * size <= epsilon - exact <= 2e-6 * size
    over_deltas = jax.vmap(privacy.zcdp_inverse_root, (None, 0))
    roots = np.asarray(jax.jit(jax.vmap(over_deltas, (0, None)))(EPSILONS, DELTAS))
    assert (np.diff(roots, axis=0) <= 0).all() and (np.diff(roots, axis=1) < 0).all()
    for row, epsilon in zip(roots.astype(float), EPSILONS.astype(float), strict=True):
        for root, d in zip(row, DELTAS.astype(float), strict=True):
            rho = 1.0 / root**2
            assert abs(least_epsilon(rho, d) - epsilon) <= 2e-5 * rounding(rho, d)
            assert least_epsilon(1.001 * rho, d) > epsilon
    rho = np.logspace(-12, 6, 400, dtype=np.float32)
    epsilons = np.asarray(jax.jit(jax.vmap(privacy.zcdp_epsilon, (0, None)))(rho, 1e-9))
    assert (np.diff(epsilons) >= 0).all() and epsilons[-1] > 1e6


def rounding(rho, delta):
    """The size of the terms of epsilon, which float32 rounds, at the best order of a grid."""
    found = np.array([terms(x, rho, -np.log(float(delta))) for x in np.linspace(-12, 72, 2001)])
    return np.abs(found[found.sum(axis=1).argmin()]).sum()


def test_zcdp_inverse_root_without_privacy_is_0():
    """At epsilon = inf no noise is needed; at epsilon = 0, delta allows some rho."""
    for delta in (1e-18, 0.1):
        assert privacy.zcdp_inverse_root(INF, delta) == 0.0
        assert privacy.zcdp_inverse_root(jnp.float32(INF), jnp.float32(delta)) == 0.0
    # There rho b^2 = 1/2, and ln(1 + b) = L - 1/2 for large b.
    assert float(privacy.zcdp_rho(0.0, 1e-6)) == pytest.approx(0.5e-12 * np.e, rel=1e-3)


MUS = (1e-4, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 40.0)
GAUSSIAN_DELTAS = (1e-10, 1e-6, 1e-3, 0.1, 0.5)


@pytest.mark.parametrize(("wide", "tolerance"), [(False, 2e-4), (True, 1e-9)])
def test_gaussian_epsilon_is_that_of_dp_accounting(wide, tolerance):
    """40 pairs at once under jit. dp-accounting is within 3e-10 of 60-digit arithmetic."""
    dtype = np.float64 if wide else np.float32
    mu, delta = (grid.astype(dtype) for grid in np.meshgrid(MUS, GAUSSIAN_DELTAS))
    with enable_x64(wide):
        epsilon = np.asarray(jax.jit(privacy.gaussian_epsilon)(mu, delta))
    assert epsilon.dtype == dtype
    oracle = np.vectorize(lambda m, d: get_epsilon_gaussian(1 / float(m), float(d)))(mu, delta)
    np.testing.assert_allclose(epsilon, oracle, rtol=tolerance)
    assert (oracle == 0).any() and (oracle > 100).any()


# (epsilon, delta)
GRID = np.stack(np.meshgrid(10.0 ** np.arange(-6, 3), GAUSSIAN_DELTAS), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(("wide", "tolerance"), [(False, 1e-5), (True, 1e-9)])
def test_gaussian_scale_is_that_of_dp_accounting(wide, tolerance):
    """45 pairs at once under jit."""
    dtype = np.float64 if wide else np.float32
    with enable_x64(wide):
        epsilon, delta = GRID.astype(dtype).T
        scale = jax.jit(lambda e, d: privacy.gaussian_scale(1.0, e, d))(epsilon, delta)
    assert scale.dtype == dtype
    expected = [get_sigma_gaussian(float(e), float(d)) for e, d in zip(epsilon, delta, strict=True)]
    np.testing.assert_allclose(scale, expected, rtol=tolerance)


def test_gaussian_delta_is_that_of_the_normal_law():
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


def test_gaussian_epsilon_at_the_edges():
    """0 if delta covers everything, inf without noise, and never more than zCDP gives."""
    assert privacy.gaussian_epsilon(0.0, 1e-6) == 0.0
    assert privacy.gaussian_epsilon(1.0, 0.5) == 0.0  # 2 Phi(1/2) - 1 = 0.383
    assert privacy.gaussian_epsilon(1.0, 0.38) > 0.0
    assert privacy.gaussian_epsilon(INF, 1e-6) == INF
    assert privacy.gaussian_epsilon(1.0, 0.0) == INF
    mu, delta = (grid.astype(np.float32) for grid in np.meshgrid(MUS, GAUSSIAN_DELTAS))
    epsilon = np.asarray(privacy.gaussian_epsilon(mu, delta))
    zcdp = np.asarray(privacy.zcdp_epsilon(0.5 * mu * mu, delta))
    assert np.where(zcdp > 0.0, epsilon < zcdp, epsilon == 0.0).all()
    assert (np.diff(epsilon, axis=1) >= 0).all() and (np.diff(epsilon, axis=0) <= 0).all()


def test_gaussian_functions_are_not_nan_at_extremes():
    """mu and epsilon of 0 and inf, and where float32 squares overflow or terms cancel."""
    mu = np.array([0.0, 0.0, 1e-30, 1.0, 1e4, 1e20, INF, INF], np.float32)
    epsilon = np.array([0.0, 1.0, 1e30, INF, 0.0, 1.0, 1.0, INF], np.float32)
    delta = privacy.gaussian_delta(mu, epsilon)
    np.testing.assert_array_equal(delta, np.array([0, 0, 0, 0, 1, 1, 1, 0], np.float32))
    mu = np.array([1e-4, 1e-4, 40.0, 200.0], np.float32)
    delta = privacy.gaussian_delta(mu, np.array([0.0, 20.0, 0.0, 1.0], np.float32))
    np.testing.assert_allclose(delta, [3.989423e-5, 0.0, 1.0, 1.0], rtol=1e-5)
    # For epsilon near 0, delta = 2 Phi(mu / 2) - 1.
    scale = float(privacy.gaussian_scale(3.0, 1e-9, 1e-6))
    assert scale == pytest.approx(3.0 / (2 * stats.norm.isf(0.5 - 0.5e-6)), rel=0.01)
    epsilon = np.logspace(9, 37, 500, dtype=np.float32)
    inverse = np.asarray(privacy.gaussian_inverse_mu(epsilon, 1e-6))
    # For large epsilon mu = sqrt(2 epsilon): the next term is 4.75 / sqrt(2 epsilon).
    np.testing.assert_allclose(inverse * np.sqrt(2.0) * np.sqrt(epsilon), 1.0, rtol=2e-4)
    mu = np.logspace(5, 18, 500, dtype=np.float32)
    np.testing.assert_allclose(privacy.gaussian_epsilon(mu, 1e-6) / (0.5 * mu * mu), 1.0, rtol=2e-4)
    assert privacy.gaussian_inverse_mu(1.0, 0.0) == INF
    assert privacy.gaussian_inverse_mu(INF, 0.0) == 0.0


@pytest.mark.parametrize("delta", [0.9, 0.99, 0.999])
def test_large_deltas_in_float32(delta):
    """With epsilon / mu - mu / 2 far below 0; 1e-4 of ln delta is 1e-7 of delta there."""
    for epsilon in (1e-3, 1.0, 30.0):
        expected = 1.0 / get_sigma_gaussian(epsilon, float(np.float32(delta)))
        mu = 1.0 / float(privacy.gaussian_inverse_mu(epsilon, delta))
        assert mu == pytest.approx(expected, rel=2e-5)
        assert float(privacy.gaussian_delta(expected, epsilon)) == pytest.approx(delta, rel=1e-6)


def test_bounded_range_rho():
    """count width^2 / 8, additive over draws, covers softmax pairs of bounded range.

    This is Lemma 3.2 of Cesar & Rogers 2021. An extreme pair changes the exponent of one of two
    actions, for any odds of the two. At small widths 1 / 8.001 is exceeded, so 1/8 is the smallest
    such constant.
    """
    for width, count, rho in ((2.0, 1, 0.5), (2.0, 3, 1.5), (0.0, 100.0, 0.0), (0.5, 64.0, 2.0)):
        assert privacy.bounded_range_rho(width, count) == rho
    orders, random = np.array([1.001, 1.5, 2.0, 5.0, 32.0, 1000.0]), np.random.default_rng(0)
    extreme = [(np.array([0.0, x]), np.array([0.0, 1.0])) for x in np.linspace(-12, 12, 121)]
    others = [(random.normal(size=4) * size, random.random(4)) for size in [0.1, 1.0, 5.0] * 100]
    for width in (0.03, 0.5, 3.0):
        ratios = []
        for exponents, change in extreme + others:
            change = width * (change - change.min()) / np.ptp(change)
            laws = (softmax(exponents), softmax(exponents + change))
            ratios.append(of_law(*laws, orders) / orders)
        assert np.max(ratios) <= float(privacy.bounded_range_rho(width)) * (1 + 1e-6)
        assert np.max(ratios) > width**2 / 8.001 or width > 0.03


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (privacy.laplace_scale, ([1.0, 2.0, 1.0], [0.1, 1.0, INF])),
        (privacy.zcdp_epsilon, ([0.0, 0.5, 100.0], [1e-9, 1e-5, 0.1])),
        (privacy.zcdp_inverse_root, ([1e-6, 1.0, INF], [1e-9, 1e-5, 0.1])),
        (privacy.gaussian_delta, ([1e-3, 1.0, 10.0], [1e-3, 0.1, 20.0])),
        (privacy.gaussian_epsilon, ([0.0, 1.0, INF], [1e-9, 1e-5, 0.1])),
        (privacy.gaussian_inverse_mu, ([1e-6, 1.0, INF], [1e-9, 1e-5, 0.1])),
        (privacy.gaussian_scale, ([1.0, 2.0, 3.0], [1e-6, 1.0, INF], [1e-9, 1e-5, 0.1])),
        (privacy.advanced_composition, ([1.0, 10.0, 1e6], [0.0, 0.1, 2.0], [1e-9, 1e-5, 0.1])),
        (privacy.bounded_range_rho, ([0.0, 0.1, 2.0], [1.0, 10.0, 1e6])),
    ],
)
def test_traced_arguments_give_the_values_of_plain_numbers(function, arguments):
    """Under jit and vmap, with each argument traced; float32 for any input type."""
    columns = [jnp.array(column, jnp.float32) for column in arguments]
    traced = jax.jit(jax.vmap(function))(*columns)
    assert traced.dtype == jnp.float32
    plain = [function(*row) for row in zip(*arguments, strict=True)]
    assert all(value.dtype == jnp.float32 and value.shape == () for value in plain)
    # Fused and unfused programs may round differently, by a few units of 2^-24.
    np.testing.assert_allclose(traced, plain, rtol=2e-6)
