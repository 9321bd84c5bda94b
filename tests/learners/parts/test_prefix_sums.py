"""Loss set, mechanism and epsilon together: the calibration, its reading, its errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, mechanisms, privacy
from dpjax.learners.parts.prefix_sums import noise_length, prefix_sums

FACTORIES = [name for name in mechanisms.__all__ if name != "exact"]


def build(horizon, losses, *, epsilon=1.0, delta=None, mechanism=mechanisms.tree, **options):
    noise = "laplace" if delta is None else "gaussian"
    return prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise, **options
    )


@pytest.mark.parametrize("name", FACTORIES)
def test_scale_follows_from_the_two_sensitivities(name):
    """scale epsilon = |C|_1 Delta_1; Gaussian: |C|_2 Delta_2 / scale is mu(epsilon, delta)."""
    mechanism = getattr(mechanisms, name)
    losses = domains.ball_losses(5)
    for neighbours in ("replace", "zero_out"):
        change = domains.sensitivity(losses, neighbours, "round")
        given = {"epsilon": 0.5, "mechanism": mechanism, "neighbours": neighbours}
        if name != "unbounded":  # refuses Laplace noise
            encoder = mechanism(100, noise="laplace").sensitivity[0]
            laplace = build(100, losses, **given)
            assert laplace.scale * 0.5 == pytest.approx(encoder * change[0], rel=1e-6)
        encoder = mechanism(100, noise="gaussian").sensitivity[1]
        gaussian = build(100, losses, delta=1e-5, **given)
        mu = encoder * change[1] / gaussian.scale
        assert privacy.gaussian_delta(mu, 0.5) == pytest.approx(1e-5, rel=1e-3)
        assert gaussian.privacy.rho == pytest.approx(float(mu) ** 2 / 2, rel=1e-5)


def test_losses_are_clipped_and_counted_and_those_on_the_border_are_not():
    sums = build(8, domains.ball_losses(3), epsilon=np.inf)
    directions = np.asarray(jr.normal(jr.key(0), (8, 3)))
    border = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for size, outside in ((1.0, 0), (3.0, 8)):
        rows, clipped = jax.vmap(sums.clip)(jnp.asarray(size * border, jnp.float32))
        assert clipped.sum() == outside
        np.testing.assert_allclose(rows, border, atol=1e-6)


def test_the_exact_mechanism_declares_nothing():
    for delta in (None, 1e-6):
        sums = build(8, domains.box_losses(2), delta=delta, mechanism=mechanisms.exact)
        assert sums.privacy.epsilon == np.inf and sums.scale == 0.0


@pytest.mark.parametrize("law", ["laplace", "gaussian", "discrete_gaussian", "skellam"])
def test_the_length_of_the_noise_is_known_at_a_traced_epsilon(law):
    """As for a plain one: sweeps trace it, and rates depend on it."""

    def length(epsilon):
        delta = None if law == "laplace" else 1e-5
        sums = prefix_sums(
            8, domains.box_losses(2), epsilon=epsilon, delta=delta, mechanism=mechanisms.tree,
            noise=law,
        )  # fmt: skip
        return noise_length(8, 2, sums)

    assert float(jax.jit(length)(0.5)) == pytest.approx(float(length(0.5)), rel=1e-6)
    assert float(length(0.25)) > 1.5 * float(length(0.5))
