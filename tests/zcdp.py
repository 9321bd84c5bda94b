"""The epsilon of zCDP in float64, for tests, computed independently of dpjax.privacy."""

import numpy as np
from scipy import optimize


def terms(log_b, rho, log_inverse):
    """The summands of rho a + (ln(1 / delta) - ln a) / (a - 1) + ln(1 - 1 / a), b = a - 1."""
    b = np.exp(log_b)
    return np.array([rho * (1 + b), (log_inverse - np.log1p(b)) / b, -np.log1p(1 / b)])


def least_epsilon(rho, delta):
    """The least of their sums over all orders a > 1, at least 0."""
    rho, log_inverse = float(rho), -float(np.log(delta))
    if rho == 0.0 or np.isinf(rho):
        return rho

    def slope(log_b):
        b = np.exp(log_b)
        return rho * b**2 + np.log1p(b) - log_inverse

    best = optimize.brentq(slope, -60.0, 100.0, xtol=1e-13, rtol=1e-14)
    return max(float(terms(best, rho, log_inverse).sum()), 0.0)


def largest_rho(epsilon, delta):
    """The largest rho whose :func:`least_epsilon` is at most epsilon, by bisection."""
    if np.isinf(epsilon):
        return np.inf
    low, high = 1e-40, 1e40
    while high > low * (1 + 1e-13):
        middle = np.sqrt(low * high)
        enough = least_epsilon(middle, delta) <= epsilon
        low, high = (middle, high) if enough else (low, middle)
    return low
