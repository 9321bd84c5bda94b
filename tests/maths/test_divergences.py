"""Divergences and their inverses in float32 against float64, also at extreme arguments."""

import jax
import numpy as np
import pytest
from scipy import optimize, special

from dpjax.maths.divergences import d_epsilon, d_epsilon_lower, kl, kl_lower

MEANS = np.float32([0, 1e-8, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999, 1 - 2**-24, 1])
RADII = np.float32([0, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1, 3, 10, 30, 100])
EPSILONS = np.float32([1e-9, 1e-6, 1e-3, 0.1, 1, 10, 80, 1e4, np.inf])


def gap_of_log(r):
    """r - ln(1 + r), by its series for small r."""
    return r * r * (0.5 - r / 3 + r * r / 4) if abs(r) < 1e-4 else r - np.log1p(r)


def kl_by_hand(x, y):
    """In float64, as a sum of positive terms."""
    if y in (0.0, 1.0):
        return 0.0 if x == y else np.inf
    d = x - y
    left = y - x
    if x > 0:
        left = x * np.log(x / y) - d if y < 1e-9 * x else x * gap_of_log(-d / x)
    right = (1 - x) * gap_of_log(d / (1 - x)) if x < 1 else d
    return left + right


def lower_by_hand(x, radius, epsilon):
    """By root finding for ln(y / x); 0 if no y above 1e-304 x reaches the radius."""

    def excess(u):
        return d_epsilon_by_hand(x, x * np.exp(u), epsilon) - radius

    if x == 0.0 or radius == 0.0:
        return x
    if excess(-700.0) < 0.0:
        return 0.0
    return x * np.exp(optimize.brentq(excess, -700.0, 0.0, xtol=1e-300, rtol=1e-14))


def d_epsilon_by_hand(x, y, epsilon):
    """The closed form in float64, checked against the search."""
    if x <= y:
        return 0.0
    if np.isinf(epsilon):
        return kl_by_hand(x, y)
    if y == 0.0:
        return epsilon * x
    touching = y / (y + (1 - y) * np.exp(-epsilon))
    if touching >= x:
        return kl_by_hand(x, y)
    if epsilon > 1:
        return -epsilon * (1 - x) - np.log(y + (1 - y) * np.exp(-epsilon))
    return epsilon * x - np.log1p(y * np.expm1(epsilon))


def assert_bounds_close(computed, exact, x):
    """Off by less than 2e-4 of x - y, or by at most three units in the last place of x.

    The width x - y matters; float32 cannot resolve it if y is a neighbour of x.
    """
    error = np.abs(np.asarray(computed, np.float64) - exact)
    allowed = np.maximum(2e-4 * (x - exact), 6 * 2.0**-24 * x + 1e-37)
    worst = np.argmax(error - allowed)
    assert (error <= allowed).all(), (x[worst], exact[worst], computed[worst])


def test_kl():
    """Within 3e-7 of float64, and 0 or infinite exactly where float64 is."""
    x, y = (grid.ravel() for grid in np.meshgrid(MEANS, MEANS))
    computed = np.asarray(jax.jit(kl)(x, y), np.float64)
    exact = np.array([kl_by_hand(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(computed), finite)
    np.testing.assert_allclose(computed[finite], exact[finite], rtol=1e-6, atol=3e-7)
    assert (computed[x == y] <= 2e-7).all() and (computed >= 0).all()


def test_the_closed_form_is_the_infimum():
    """Of epsilon (x - z) + kl(z, y) over z in [y, x], by numerical minimisation in float64."""
    random = np.random.default_rng(0)
    for _ in range(300):
        y, x = np.sort(random.uniform(0.001, 0.999, 2))
        epsilon = 10 ** random.uniform(-3, 1.5)
        z = np.linspace(y, x, 4001)
        costs = epsilon * (x - z) + special.rel_entr(z, y) + special.rel_entr(1 - z, 1 - y)
        assert d_epsilon_by_hand(x, y, epsilon) == pytest.approx(costs.min(), rel=1e-3, abs=1e-6)


def test_d_epsilon():
    """Relative error 1e-6, or absolute 1e-7; never negative, at most kl and epsilon (x - y)."""
    x, y, epsilon = (grid.ravel() for grid in np.meshgrid(MEANS, MEANS, EPSILONS))
    # At y = 0 and finite epsilon, x e^-epsilon must not be 0 in float32.
    below = (y <= x) & ((y > 0) | (epsilon <= 60) | np.isinf(epsilon))
    x, y, epsilon = x[below], y[below], epsilon[below]
    computed = np.asarray(jax.jit(d_epsilon)(x, y, epsilon), np.float64)
    cases = zip(x.astype(float), y.astype(float), epsilon.astype(float), strict=True)
    exact = np.array([d_epsilon_by_hand(*case) for case in cases])
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isinf(computed[~finite]), True)
    np.testing.assert_allclose(computed[finite], exact[finite], rtol=1e-6, atol=2e-7)
    assert (computed >= 0).all()
    most = epsilon * np.maximum(x.astype(np.float64) - y, 1e-30)
    assert (computed <= most * (1 + 1e-5) + 2e-7).all()


def test_d_epsilon_lower():
    """Against float64 over a grid of means, radii and epsilons; at infinity it is kl_lower."""
    x, radius, epsilon = (grid.ravel() for grid in np.meshgrid(MEANS, RADII, EPSILONS))
    computed = np.asarray(jax.jit(d_epsilon_lower)(x, radius, epsilon))
    cases = zip(x.astype(float), radius.astype(float), epsilon.astype(float), strict=True)
    exact = np.array([lower_by_hand(*case) for case in cases])
    assert (computed >= 0).all() and (computed <= x).all()
    assert_bounds_close(computed, exact, x.astype(np.float64))
    infinite, small = np.isinf(epsilon), (exact > 1e-30) & (exact < 0.1 * x)
    np.testing.assert_array_equal(computed[infinite], kl_lower(x[infinite], radius[infinite]))
    # Small bounds have a small relative error.
    np.testing.assert_allclose(computed[small & infinite], exact[small & infinite], rtol=1e-4)
    assert computed.dtype == np.float32 and (small & infinite).sum() > 20
