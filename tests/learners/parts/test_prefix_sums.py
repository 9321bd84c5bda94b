"""Loss set, mechanism and epsilon together: the calibration, its reading, its errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, gram, learners, mechanisms, privacy
from dpjax.cli import audits
from dpjax.learners import factories
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


# Learners on ``mechanisms.per_item``: each message, or each batch, is private by itself


def on_items(name, batch, noise="gaussian"):
    """The declaration of a learner on noisy items, with the size used in audits."""
    law = {"noise": noise} if name not in ("ftpl", "linucb") else {}
    law |= {"delta": audits.DELTA if noise == "gaussian" else None}
    mechanism = partial(mechanisms.per_item, batch=batch)
    law |= {"mechanism": mechanism, "gram": gram.gaussian(mechanism=mechanism)}
    return audits.build(name, audits.domains_of(name)[-1], audits.HORIZON, 1.0, **law).privacy


# They take a mechanism, and sum one value per round.
SUMMING = ["linucb", *(x for x in learners.__all__ if factories.takes(x, "mechanism"))]
SUMMING.remove("projection_free")


@pytest.mark.parametrize("name", SUMMING)
def test_learners_on_items_declare_their_model(name):
    """The model follows from the mechanism, and epsilon is the requested one."""
    local, shuffled = (on_items(name, batch) for batch in (1, 3))
    assert (local.model, local.released) == ("local", "messages 1..T")
    assert shuffled.model == "shuffle" and "shuffled messages" in shuffled.released
    assert local.accountant == "Gaussian mechanism on each item"
    assert "idealises" in shuffled.accountant and float(shuffled.delta) > 0.0
    for declared in (local, shuffled):
        assert (float(declared.epsilon), declared.unit) == (1.0, "round")
        rho = 0.5 / float(privacy.gaussian_inverse_mu(1.0, audits.DELTA)) ** 2
        assert float(declared.rho) == pytest.approx(rho, rel=1e-5)
    if name == "ftrl":
        assert on_items("ftrl", 1, "laplace").model == "local"
        assert on_items("ftrl", 3, "laplace").model == "distributed"
        # A batch's sum that is noised as one item is central.
        assert on_items("projection_free", 1).model == "central"
