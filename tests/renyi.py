"""The dartboard's accountant in float64, for tests: a coin and draws, order by order."""

import numpy as np

ORDERS = 1 + np.geomspace(1e-2, 1e6, 128)


def of_law(ours, theirs, orders=ORDERS):
    """D_alpha of two laws (n,) at all orders, by definition."""
    powers = orders[:, None] * np.log(ours) + (1 - orders[:, None]) * np.log(theirs)
    top = powers.max(axis=1)
    return (top + np.log(np.exp(powers - top[:, None]).sum(axis=1))) / (orders - 1)


def epsilon_of(divergences, delta, orders=ORDERS):
    found = divergences + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(float(found.min()), 0.0)


def coin(eta, p, batch=1, orders=ORDERS):
    """For a coin at losses 0 and 1 / B, the larger divergence of both directions."""
    other = 1 - (1 - p) * (1 - eta) ** (1 / batch)
    laws = np.array([p, 1 - p]), np.array([other, 1 - other])
    return np.maximum(of_law(*laws, orders), of_law(*laws[::-1], orders))


def dartboard_epsilon(eta, p, batch, most, delta, orders=ORDERS, width=2.0):
    """For one coin and M - 1 draws, each with log-ratios within ``width`` w."""
    w = -np.log1p(-eta) / batch
    draws = (most - 1) * (width * w) ** 2 / 8
    return epsilon_of(coin(eta, p, batch, orders) + orders * draws, delta, orders)
