"""Integer noise: exact delta against definitions and enumerations, and minimal noise."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy import stats

from dpjax import noise, privacy


def dlaplace(scale):
    """P(k) proportional to e^(-|k| / scale)."""
    return stats.dlaplace(1.0 / scale)


def test_integer_delta_is_the_worst_event():
    """By definition: the largest P(event) - e^epsilon Q(event) over all events and directions."""
    law = np.array([0.05, 0.3, 0.1, 0.4, 0.15])
    for shift in (1, 2, 7):
        p = np.concatenate([law, np.zeros(shift)])
        q = np.concatenate([np.zeros(shift), law])
        events = np.array(list(itertools.product([0, 1], repeat=len(p))))
        for epsilon in (0.0, 0.4, 1.5):
            e = math.exp(epsilon)
            worst = max((events @ (p - e * q)).max(), (events @ (q - e * p)).max())
            assert privacy.integer_delta(np.log(law), shift, epsilon) == pytest.approx(worst)


def probabilities(name, scale):
    """The law on a wide range of integers, by scipy or its definition."""
    k = np.arange(-700, 701)
    if name == "discrete_gaussian":
        weights = np.exp(-(k**2) / (2.0 * scale**2))
        return weights / weights.sum()
    variance = scale**2 / 2.0
    laws = {
        "binomial": stats.binom(scale, 0.5),
        "discrete_laplace": dlaplace(scale),
        "skellam": stats.skellam(variance, variance),
    }
    return laws[name].pmf(k)


@pytest.mark.parametrize(
    ("name", "scales", "tolerance"),
    [
        ("binomial", (6, 41), 1e-9),
        ("discrete_laplace", (0.5, 1.0, 20.0), 1e-9),
        ("skellam", (1.0, 18.0**0.5), 1e-6),
        ("discrete_gaussian", (1.0, 3.0, 50.0), 1e-9),
    ],
)
def test_delta_is_that_of_the_probabilities(name, scales, tolerance):
    for scale, shift, epsilon in itertools.product(scales, (1, 2, 7), (0.1, 0.5, 1.0, 3.0)):
        with np.errstate(divide="ignore"):
            expected = privacy.integer_delta(np.log(probabilities(name, scale)), shift, epsilon)
        found = noise.LAWS[name].delta(scale, epsilon, shift)
        assert found == pytest.approx(expected, rel=tolerance, abs=1e-15), (scale, shift, epsilon)


def test_binomial_delta_to_many_digits():
    """By mpmath, with 40 digits."""
    assert noise.binomial.delta(79, 1.0) == pytest.approx(1.18e-6, rel=5e-3)
    assert noise.binomial.delta(80, 1.0) == pytest.approx(9.833613000323403e-07, rel=1e-12)
    assert noise.binomial.delta(5279, 0.1) == pytest.approx(9.984205907586705e-07, rel=1e-9)
    assert noise.binomial.delta(375402, 0.01) == pytest.approx(1.00005972604969e-6, rel=1e-9)
    assert noise.binomial.delta(10**6, 0.01) == pytest.approx(1.0747764300382715e-10, rel=1e-9)


def test_half_a_coin_is_not_tossed():
    """A draw rounds down: the scale is real, and half of an odd number is not an integer."""
    key = jax.random.key(0)
    for coins, least in ((5.5, 5), (np.float32(80.0), 80)):
        assert noise.binomial.delta(coins, 1.0) == noise.binomial.delta(least, 1.0)
        assert noise.binomial.delta(coins, 1.0) < noise.binomial.delta(least - 1, 1.0)
        assert noise.binomial(key, 0.0, coins) == noise.binomial(key, 0.0, float(least))


def test_the_variance_of_discrete_laplace_noise_is_bounded():
    for epsilon, printed in {0.1: 199.83, 0.5: 7.835, 1.0: 1.841, 2.0: 0.362, 4.0: 0.038}.items():
        exact = dlaplace(1 / epsilon).var()
        assert exact == pytest.approx(printed, rel=5e-3)
        assert noise.discrete_laplace.variance(1 / epsilon) >= exact


def test_discrete_laplace_noise_is_purely_private():
    assert noise.discrete_laplace.calibrate((3.0, 3.0), 0.5, None).scale == 6.0
    assert noise.discrete_laplace.delta(6.0, 0.5, 3) < 1e-16
    assert noise.discrete_laplace.delta(6.0, 0.49, 3) > 1e-3
    # At sensitivity 1 the least scale has a closed form.
    scale = 1.0 / math.log((math.e + 1e-3) / (1.0 - 1e-3))
    assert noise.discrete_laplace.delta(scale, 1.0) == pytest.approx(1e-3, rel=1e-10)


def test_printed_deltas_of_skellam_and_discrete_gaussian_noise():
    assert noise.skellam.delta(18.0**0.5, 1.0) == pytest.approx(6.7e-8, rel=5e-3)
    for epsilon, variance in {0.25: 234.1, 0.5: 61.23, 1.0: 14.24, 2.0: 2.198}.items():
        deltas = [noise.skellam.delta((s * variance) ** 0.5, epsilon) for s in (1.0003, 0.9997)]
        assert deltas[0] < 1e-6 < deltas[1]
    assert noise.discrete_gaussian.delta(3.0, 1.0) == pytest.approx(2.178e-4, rel=2e-4)
    # Wide noise hides as much as Gaussian noise, and it is 1 / (2 scale^2)-zCDP.
    delta = noise.discrete_gaussian.delta(306.3502, 0.01)
    assert delta == pytest.approx(1e-6, rel=1e-4)
    assert privacy.zcdp_epsilon(0.5 / 306.3502**2, delta) > 0.01


def test_delta_of_small_discrete_gaussian_noise_can_rise_with_its_scale():
    """It dips at scale (2 epsilon)^-1/2, where P(0) = e^epsilon P(-1)."""
    for epsilon, scale, factor in ((1.0, 0.75, 1.01), (5.0, 0.48, 10.0)):
        dip = noise.discrete_gaussian.delta((2.0 * epsilon) ** -0.5, epsilon)
        assert noise.discrete_gaussian.delta(scale, epsilon) > factor * dip
