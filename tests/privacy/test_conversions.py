"""Conversions between epsilon at delta, rho of zCDP and mu of Gaussian privacy."""

import math

import numpy as np
import pytest
from scipy import stats

from dpjax import privacy

EPSILONS = np.array([0.1, 1.0, 5.0, math.inf])
DELTAS = np.array([1e-6, 1e-6, 1e-3, 1e-6])


def test_zcdp_converts_back_and_forth():
    rho = privacy.zcdp_rho(EPSILONS, DELTAS)
    assert privacy.zcdp_epsilon(rho, DELTAS) == pytest.approx(EPSILONS, rel=1e-5)


def test_gaussian_privacy_converts_back_and_forth():
    mu = np.asarray(privacy.gaussian_mu(EPSILONS, DELTAS))
    assert mu[-1] == math.inf
    mu, epsilons = mu[:3].astype(float), EPSILONS[:3]
    left, right = stats.norm.sf(epsilons / mu - mu / 2), stats.norm.sf(epsilons / mu + mu / 2)
    assert left - np.exp(epsilons) * right == pytest.approx(DELTAS[:3], rel=1e-3)
    rho = privacy.gaussian_rho(mu)
    assert privacy.zcdp_mu(rho) == pytest.approx(mu, rel=1e-6)
    # The exact curve beats the conversion through rho.
    assert (privacy.zcdp_epsilon(rho, DELTAS[:3]) > epsilons).all()


def test_pure_privacy_implies_gaussian_privacy_and_no_better():
    """The trade-off function of epsilon-DP lies above that of mu-GDP and touches it."""
    levels = np.linspace(1e-6, 1 - 1e-6, 20_001)
    epsilons = np.array([0.01, 0.5, 0.99, 1.01, 2.0, 6.0])
    for epsilon, mu in zip(epsilons, np.asarray(privacy.pure_mu(epsilons)), strict=True):
        e = math.exp(epsilon)
        pure = np.maximum(np.maximum(1 - e * levels, (1 - levels) / e), 0.0)
        gaussian = stats.norm.cdf(stats.norm.isf(levels) - mu)
        assert (pure >= gaussian - 1e-6).all()
        assert stats.norm.cdf(stats.norm.isf(1 / (1 + e)) - 0.99 * mu) > 1 / (1 + e)


def test_pure_privacy_in_numbers():
    zero, small, largest = np.asarray(privacy.pure_mu(np.array([0.0, 1e-3, math.inf])))
    assert (zero, largest) == (0.0, math.inf)
    assert small == pytest.approx(1e-3 * math.sqrt(math.pi / 2), rel=1e-5)
    assert privacy.pure_rho(3.0) == 4.5
    # Randomized response at epsilon has Renyi divergence at most rho times the order.
    p = 1 / (1 + math.exp(0.7))
    for order in (1.01, 2.0, 8.0, 64.0):
        moment = (1 - p) ** order * p ** (1 - order) + p**order * (1 - p) ** (1 - order)
        divergence = math.log(moment) / (order - 1)
        assert divergence <= order * float(privacy.pure_rho(0.7))
