"""Integer noise: exact delta against definitions, minimal noise, and vectors with Skellam noise."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpjax import noise, privacy
from dpjax.noise._skellam import _log_pmf, renyi


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


ORDERS = (2, 3, 4, 8, 32, 128)


def divergence(order, shift, scale):
    """The exact Renyi divergence of a shifted Skellam variable, from its probabilities."""
    margin = int(order * shift * 3) + 10  # The largest terms are in the bulk of the tilted law.
    law = _log_pmf(scale, shift + margin)
    here, there = law[shift:], law[:-shift]
    seen = np.isfinite(here) & np.isfinite(there)
    terms = order * there[seen] + (1 - order) * here[seen]
    assert terms.max() > max(terms[0], terms[-1]) + 30  # Nothing is missing.
    return logsumexp(terms) / (order - 1)


def norms(*shifts):
    return float(np.sum(np.abs(shifts))), float(np.sqrt(np.sum(np.square(shifts))))


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_the_bound_is_that_of_the_theorem(scale):
    """In the module's docstring: the second term is the second of two for a small variance."""
    order, (l1, l2), v = 3, norms(3, 1), scale**2
    near = ((2 * order - 1) * l2**2 + 6 * l1) / (4 * v**2)
    assert (near < 3 * l1 / (2 * v)) == (scale > 1)
    expected = order * l2**2 / (2 * v) + min(near, 3 * l1 / (2 * v))
    assert float(renyi(order, (l1, l2), scale)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 7.0, 30.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_bound_on_the_divergence_holds(scale, shift):
    """For one entry, so also for several, whose divergences add; it is tight for large noise."""
    orders = np.array([order for order in ORDERS if order * shift <= 256])
    exact = np.array([divergence(order, shift, scale) for order in orders])
    bound = np.asarray(renyi(orders, norms(shift), scale))
    assert (exact <= bound * (1.0 + 1e-5)).all()
    if scale >= 30.0:
        assert (exact[:3] > 0.98 * bound[:3]).all()
    # Half the noise is rejected.
    assert scale < 2.0 or (exact > np.asarray(renyi(orders, norms(shift), 2.0 * scale))).any()
    # Two entries: the bound of the vector uses its norms, and is no less than both exact ones.
    both = renyi(orders, norms(shift, 1), scale)
    one = np.array([divergence(order, 1, scale) for order in orders])
    assert (exact + one <= np.asarray(both) * (1.0 + 1e-5)).all()


def scale_for(change, epsilon, delta):
    return noise.skellam.calibrate(change, epsilon, delta).scale


def joint_delta(shifts, scale, epsilon):
    """Exact delta of independent entries with Skellam noise, summed over an integer grid."""
    half = int(np.ceil(9.0 * scale)) + 12 + max(shifts)
    points = np.arange(-half, half + 1)
    laws = [stats.skellam.pmf(points, scale**2 / 2, scale**2 / 2)] * len(shifts)
    moved = [stats.skellam.pmf(points - shift, scale**2 / 2, scale**2 / 2) for shift in shifts]
    here, there = laws[0], moved[0]
    for law, other in zip(laws[1:], moved[1:], strict=True):
        here, there = np.multiply.outer(here, law), np.multiply.outer(there, other)
    return max(
        np.maximum(there - np.exp(epsilon) * here, 0.0).sum(),
        np.maximum(here - np.exp(epsilon) * there, 0.0).sum(),
    )


@pytest.mark.parametrize("shifts", [(1,), (1, 2), (3, 1)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_scale_is_enough_by_exact_probabilities(shifts, epsilon):
    """For one and two entries at delta = 1e-4. Half is too little, except for tiny noise."""
    delta = 1e-4
    scale = float(scale_for(norms(*shifts), epsilon, delta))
    assert joint_delta(shifts, scale, epsilon) <= delta
    assert scale < 2.0 or joint_delta(shifts, 0.5 * scale, epsilon) > delta
    assert float(noise.skellam.together(norms(*shifts), scale, delta)) == pytest.approx(
        epsilon, rel=1e-4
    )
    # Large noise is that of Gaussian noise by Renyi divergences.
    if epsilon == 0.5:
        gaussian = float(privacy.gaussian_scale(norms(*shifts)[1], epsilon, delta))
        assert gaussian < scale < 1.13 * gaussian


def test_the_epsilon_of_a_single_integer_is_no_less_than_the_exact_one():
    for change in (1, 4):
        for scale, looser in ((2.0, 1.9), (8.0, 1.15), (40.0, 1.11)):
            exact = noise.skellam.epsilon(scale, 1e-6, change)
            bound = float(noise.skellam.together((change, change), scale, 1e-6))
            assert exact < bound < looser * exact


def test_releases_add_up_and_a_traced_epsilon_gives_the_same():
    one = (3.0, 5.0**0.5)
    twice = noise.skellam.together(np.stack([one, one], axis=1), 4.0, 1e-5)
    as_one = noise.skellam.together((6.0, 10.0**0.5), 4.0, 1e-5)
    assert float(twice) == pytest.approx(float(as_one), rel=1e-5)
    traced = jax.jit(lambda e: scale_for(one, e, 1e-5))(np.float32(0.7))
    assert float(traced) == float(scale_for(one, 0.7, 1e-5))
    assert float(scale_for(one, np.inf, 1e-5)) == 0.0 and np.isnan(scale_for(one, np.nan, 1e-6))
    assert float(scale_for((0.0, 0.0), 1.0, 1e-5)) == 0.0
    assert float(noise.skellam.together((0.0, 0.0), 1.0, 1e-5)) == 0.0


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-6, 1e-3])
def test_scales_for_tiny_epsilons_are_finite_and_enough(epsilon):
    """Half a scale exceeds epsilon. At 1e-12, delta covers all that is left."""
    norms = 3.0, 5.0**0.5
    scale = float(jax.jit(scale_for)(norms, np.float32(epsilon), 1e-6))
    assert np.isfinite(scale)
    found = float(noise.skellam.together(norms, scale, 1e-6))
    assert 0.98 * epsilon * (epsilon > 1e-10) <= found <= epsilon * (1 + 1e-4)
    assert float(noise.skellam.together(norms, 0.5 * scale, 1e-6)) > 1.5 * epsilon


def test_a_traced_large_epsilon_has_the_scale_of_a_plain_one():
    """The last bisection step is not repeated, since it could then round differently."""
    for epsilon in (8.0, 100.0, 1e3, 1e4):
        found = jax.jit(lambda e: scale_for((8.0, 4.0), e, 1e-3))(epsilon)
        plain = scale_for((8.0, 4.0), epsilon, 1e-3)
        assert np.isfinite(found)
        np.testing.assert_allclose(found, plain, rtol=1e-6)
