"""Characteristic times: golden numbers, a second solver, closed forms, monotonicity and errors."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import rel_entr

from dpjax import bounds

# Mean losses; the first six are the instances of Azize et al. 2023.
INSTANCES = {
    "mu1": 1 - np.array([0.95, 0.9, 0.9, 0.9, 0.5]),
    "mu2": 1 - np.array([0.75, 0.7, 0.7, 0.7, 0.7]),
    "mu3": np.clip([1.0, 0.75, 0.5, 0.25, 0.0], 1e-6, 1 - 1e-6),
    "mu4": 1 - np.array([0.75, 0.625, 0.5, 0.375, 0.25]),
    "mu5": 1 - np.array([0.75, 0.53125, 0.375, 0.28125, 0.25]),
    "mu6": 1 - np.array([0.75, 0.71875, 0.625, 0.46875, 0.25]),
    "three": 1 - np.array([0.7, 0.5, 0.3]),
}
EPSILONS = np.array([0.01, 0.1, 1.0, np.inf])


def departure(x, y, epsilon):
    """d_epsilon(x, y) for y <= x in float64: epsilon (x - z) + kl(z, y) at the best z."""
    z = x
    if np.isfinite(epsilon):
        z = np.minimum(x, y / (y + (1 - y) * np.exp(-epsilon)))
    linear = 0.0 if np.isinf(epsilon) else epsilon * (x - z)
    return linear + rel_entr(z, y) + rel_entr(1 - z, 1 - y)


def costs_of_moving(best, other, epsilon, u):
    """The cost of one sample of each arm if both means become u."""
    return departure(1 - best, 1 - u, epsilon), departure(other, u, epsilon)


def cheapest(best, other, epsilon, weights):
    """The cheapest mean u and its cost, by scipy's scalar minimisation."""

    def cost(u):
        return weights @ np.array(costs_of_moving(best, other, epsilon, u))

    width = other - best
    bounds_ = (best + 1e-12 * width, other - 1e-12 * width)
    found = optimize.minimize_scalar(
        cost, bounds=bounds_, method="bounded", options={"xatol": 1e-11}
    )
    return min((cost(u), u) for u in (found.x, *bounds_))


def test_golden_times():
    """Six digits, computed independently by golden section in NumPy."""
    golden = {
        "mu1": [8317.42, 931.151, 396.713, 395.542],
        "mu2": [10400.8, 1620.35, 1424.75, 1424.75],
        "mu3": [1236.85, 126.991, 17.9133, 11.4311],
        "mu4": [2498.27, 283.577, 123.980, 122.843],
        "mu5": [1606.24, 172.480, 47.8243, 46.3768],
        "mu6": [8190.87, 1741.91, 1632.78, 1631.87],
        "three": [1263.13, 139.647, 51.398, 51.007],
    }
    for name, means in INSTANCES.items():
        time, _ = bounds.characteristic_time(means, EPSILONS)
        np.testing.assert_allclose(time, golden[name], rtol=1e-5)
    _, weights = bounds.characteristic_time(INSTANCES["three"], EPSILONS)
    np.testing.assert_allclose(weights[0], [0.401, 0.400, 0.199], atol=6e-4)
    np.testing.assert_allclose(weights[-1], [0.476, 0.457, 0.067], atol=6e-4)


def test_random_instances_attain_their_value():
    """Every arm's cost is 1 / T*, and no other weights near these cost more."""
    random = np.random.default_rng(0)

    def least(means, weights, epsilon):
        return [cheapest(means[0], means[b], epsilon, weights[[0, b]])[0]
                for b in range(1, len(means))]  # fmt: skip

    for arms in (2, 3, 8):
        means = np.sort(random.uniform(0.01, 0.99, arms))
        for epsilon in (0.003, 0.3, 3.0, np.inf):
            time, weights = bounds.characteristic_time(means, epsilon)
            assert weights.sum() == pytest.approx(1, rel=1e-12) and (weights >= 0).all()
            np.testing.assert_allclose(least(means, weights, epsilon), 1 / time, rtol=1e-6)
            for _ in range(4):
                other = weights * np.exp(0.3 * random.normal(size=arms))
                found = min(least(means, other / other.sum(), epsilon))
                assert found <= (1 + 1e-6) / time


def test_total_variation_time():
    expected = [82.2222, 100, 12.3333, 24.6667, 15.9429, 77.5556]
    means = [INSTANCES[f"mu{i}"] for i in range(1, 7)]
    values = [bounds.total_variation_time(m) for m in means]
    np.testing.assert_allclose(values, expected, rtol=6e-6)  # mu3 is clipped by 1e-6.
    small = [bounds.characteristic_time(m, 1e-7)[0] * 1e-7 for m in means]
    np.testing.assert_allclose(small, values, rtol=1e-5)
    # The proportional formula used below 1e-9 agrees with the solver above it.
    times, weights = bounds.characteristic_time(means[0], np.array([1e-12, 1e-10, 1e-8]))
    np.testing.assert_allclose(times * [1e-12, 1e-10, 1e-8], values[0], rtol=1e-6)
    np.testing.assert_allclose(weights[0], weights[2], atol=1e-6)


def test_arms_in_another_order():
    means = INSTANCES["mu4"]
    time, weights = bounds.characteristic_time(means, EPSILONS)
    order = [3, 1, 4, 0, 2]
    permuted, moved = bounds.characteristic_time(means[order], EPSILONS)
    np.testing.assert_allclose(permuted, time, rtol=1e-12)
    np.testing.assert_allclose(moved, weights[:, order], rtol=1e-6)


def test_stopping_times_under_local_privacy():
    """Golden numbers; randomized response only increases them; tiny epsilon costs 1 / epsilon^2."""
    golden = {"mu1": [598026, 5909.91], "mu2": [720826, 8054.35], "mu4": [57262.4, 649.621]}
    factor = bounds.stopping_time_lower([0.2, 0.4], np.inf, 0.01) / 41.350947
    for name, row in golden.items():
        means = INSTANCES[name]
        value = bounds.stopping_time_lower_local(means, [0.1, 1.0], 0.01)
        np.testing.assert_allclose(value / factor, row, rtol=2e-6)
        assert (value > bounds.stopping_time_lower(means, [0.1, 1.0], 0.01)).all()
    extreme = bounds.stopping_time_lower_local(means, [1e-9, 1e-8, 1e-3, np.inf], 0.01)
    np.testing.assert_allclose(extreme[:3] * [1e-18, 1e-16, 1e-6], extreme[0] * 1e-18, rtol=1e-5)
    plain = bounds.stopping_time_lower(means, np.inf, 0.01)
    assert extreme[3] == pytest.approx(plain, rel=1e-8)
