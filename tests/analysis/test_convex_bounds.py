"""Bounds on the unit ball: their constants are those of the learners, and sums are done by hand."""

import inspect
import math

import numpy as np
import pytest

from dpjax import bounds, domains, learners, mechanisms, privacy
from dpjax.bounds import convex
from dpjax.learners._ftpl import default_perturbation
from dpjax.learners._private_ftal import default_convexity as ftal_convexity
from dpjax.learners._private_giga import default_convexity as giga_convexity
from dpjax.learners._projection_free import smoothing_radius, step_size
from dpjax.learners.parts.one_point import flaxman_radius
from dpjax.learners.parts.prefix_sums import prefix_sums

DIM = 5
BALL = domains.ball(DIM)
# The learners use float32, the bounds float64.
CLOSE = {"rel": 1e-5}


def sums(horizon, epsilon, **options):
    given = {"delta": None, "mechanism": mechanisms.tree, "noise": "laplace", **options}
    return prefix_sums(horizon, BALL.losses, epsilon=epsilon, **given)


@pytest.mark.parametrize("horizon", [2, 3, 64, 1000, 1025])
def test_the_noise_of_the_tree_is_that_of_the_mechanism(horizon):
    made = sums(horizon, 0.5)
    lengths = np.sqrt(2.0 * DIM * made.mechanism.variance(np.arange(horizon))) * float(made.scale)
    largest, mean = convex._tree_noise(np.float64(horizon), DIM, 2.0 * DIM**0.5, 0.5)
    # A prefix has a node of every level only if all bits of some prefix are set.
    assert lengths.max() <= largest * (1 + 1e-6)
    assert lengths.max() >= 0.7 * largest
    assert mean == pytest.approx(np.sqrt(np.mean(lengths**2)), **CLOSE)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_private_ftal(epsilon):
    horizon = 1000
    made = sums(horizon, epsilon)
    h = float(ftal_convexity(horizon, BALL, made))
    noise = np.sqrt(2.0 * DIM * 10) * float(made.scale)  # in 10 levels
    logs = 1 + np.log(horizon)
    expected = h * 4 * horizon / 2 + ((1 + 2 * h) ** 2 / 2 + noise) * logs / h
    assert bounds.private_ftal(horizon, DIM, epsilon) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_private_giga(epsilon):
    horizon, delta = 1000, 1e-6
    inverse_mu = privacy.gaussian_inverse_mu(epsilon, delta)
    size = BALL.losses.diameters[1] * np.sqrt(horizon - 1) * float(inverse_mu)
    a = float(giga_convexity(horizon, BALL, 1.0, size))
    logs = 1 + np.log(horizon)
    steps = (1 + a) ** 2 / (2 * a) + np.sqrt(DIM) * 1.5 * size / a
    found = bounds.private_giga(horizon, DIM, float(inverse_mu), drift=0.5)
    assert found == pytest.approx(a * horizon / 2 + steps * logs, **CLOSE)


@pytest.mark.parametrize("epsilon", [0.1, 10.0, np.inf])
def test_follow_the_perturbed_leader(epsilon):
    horizon, delta = 1024, 1e-6
    mechanism = inspect.signature(learners.ftpl).parameters["mechanism"].default
    made = sums(horizon, epsilon, delta=delta, noise="gaussian", mechanism=mechanism)
    private = np.sqrt(made.mechanism.variance(np.arange(horizon))) * float(made.scale)
    assert np.ptp(private) <= 1e-6 * private.max()  # one distribution for all prefixes
    s = max(default_perturbation(horizon, BALL.losses), private.max())
    expected = s * DIM**0.5 + horizon / (s * np.sqrt(2 * np.pi))
    inverse_mu = float(privacy.gaussian_inverse_mu(epsilon, delta))
    assert bounds.ftpl_private(horizon, DIM, inverse_mu) == pytest.approx(expected, **CLOSE)
    if np.isinf(epsilon):
        assert expected == pytest.approx((8 / np.pi * DIM) ** 0.25 * np.sqrt(horizon), **CLOSE)


@pytest.mark.parametrize("horizon", [64, 4096])
def test_one_point_learners(horizon):
    zeta = float(flaxman_radius(horizon, BALL, 2.0, 1.0))
    longest = DIM * 2.0 / zeta
    plain = longest * np.sqrt(horizon) + 3 * zeta * horizon
    assert bounds.one_point_gradient(horizon, DIM) == pytest.approx(plain, **CLOSE)
    assert bounds.private_one_point(horizon, DIM, np.inf) == pytest.approx(plain, **CLOSE)
    # With much noise, the base point moves across the ball.
    much = float(bounds.private_one_point(horizon, DIM, 1e-3))
    assert much == pytest.approx(plain + 2 * horizon, **CLOSE)
    printed = 2 * horizon**0.75 * np.sqrt(3 * DIM * 2 * (1 + 2))
    assert bounds.flaxman_printed(horizon, DIM) == pytest.approx(printed)


@pytest.mark.parametrize(("horizon", "epsilon"), [(1024, np.inf), (1024, 1.0), (2**24, 10.0)])
def test_projection_free(horizon, epsilon):
    batch = math.isqrt(horizon)
    batches = -(-horizon // batch)
    zeta = smoothing_radius(horizon, 2.0, DIM)
    value = 2.0 + zeta
    eta = float(step_size(batches, batch, 2.0, DIM, zeta, value, 1.0))
    longest = DIM * value / zeta
    kappa2 = batch * longest**2 + batch**2
    levels = (batches - 2).bit_length()  # the prefixes 0 .. batches - 2
    scale = levels * 2 * DIM**0.5 * longest / epsilon
    noise = np.sqrt(2 * DIM * levels) * scale
    away = min(2.0, eta * (np.sqrt(kappa2) + noise) + 4 / np.sqrt(batch + 2))
    expected = 1 / (2 * eta) + eta * batches * kappa2 / 2 + batches * batch * away
    expected += 2 * zeta * horizon
    assert bounds.projection_free(horizon, DIM, epsilon) == pytest.approx(expected, **CLOSE)
