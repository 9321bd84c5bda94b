"""Vectors with Skellam noise: the bound against exact integer sums, in 1 and 2 entries."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpjax import noise, privacy
from dpjax.noise._skellam import _log_pmf, renyi

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
