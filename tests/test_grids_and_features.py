"""Environments on grids of points, and contexts as random Fourier features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import combinators, domains, environments, learners, simulate, trajectory

SEGMENT = domains.cube(1)
CENTRES = jnp.array([[-0.5], [0.6]])
DEPTHS = jnp.array([0.1, 0.4])
GRID = np.linspace(-1.0, 1.0, 9)[:, None]


def wells(row, x):
    """Two wells; the second is deeper, and each round shows one of them at random."""
    centre, depth = row
    return 0.5 - depth * jnp.maximum(1.0 - 4.0 * jnp.abs(x[0] - centre[0]), 0.0)


def two_wells():
    return environments.convex_losses(SEGMENT, wells, parameters=(CENTRES, DEPTHS))


def test_a_learner_over_arms_finds_the_deeper_well():
    """Regret is recomputed in NumPy from the losses met; the grid contains the best point."""
    grid, learner = combinators.on_grid(two_wells(), GRID), learners.hedge(400, 9, epsilon=np.inf)
    losses, arms = trajectory(
        learner, grid, jr.key(0), record=lambda played: (played.outcome.loss, played.action)
    )
    losses, arms = np.asarray(losses), np.asarray(arms)
    total = losses[np.arange(400), arms].sum() - losses.sum(axis=0).min()
    regret = simulate(learner, grid, jr.key(0), checkpoints=1).regret[-1]
    assert float(regret) == pytest.approx(total, abs=1e-3)
    deeper = np.abs(GRID[:, 0] - 0.6).argmin()
    assert losses.sum(axis=0).argmin() == deeper == np.bincount(arms[200:]).argmax()
    of_rows = jax.vmap(jax.vmap(wells, (None, 0)), (0, None))((CENTRES, DEPTHS), jnp.array(GRID))
    away = np.abs(losses[:, None] - np.asarray(of_rows)[None]).max(axis=2)
    assert away.min(axis=1).max() < 1e-6 and set(away.argmin(axis=1)) == {0, 1}


# Random Fourier features ----------------------------------------------------------------------

LENGTH = 0.2


def smooth(x):
    """A function in the Gaussian kernel's space with length scale LENGTH: a sum of five bumps."""
    centres, weights = np.array([0.05, 0.3, 0.5, 0.7, 0.9]), np.array([1.0, -1.0, 1.0, -0.5, 0.5])
    bumps = np.exp(-((x[..., None] - centres) ** 2) / (2 * LENGTH**2))
    return 0.5 * np.sum(bumps * weights, axis=-1)


def table(rounds, arms=8):
    """Contexts (T, K, 2), a number and a constant, and losses that are smooth in them."""
    x = np.random.default_rng(0).uniform(size=(rounds, arms)).astype(np.float32)
    return np.stack([x, np.ones_like(x)], axis=2), smooth(x)


def phi(count, x, scale=LENGTH):
    """Features (n, m) of contexts (n, d)."""
    plain = environments.contextual_table(x[None], np.zeros((1, len(x))))
    kernel = combinators.fourier_features(plain, count, scale=scale, key=jr.key(1))
    return np.asarray(kernel.step(kernel.init(None), jr.key(0), lambda x: 0)[1].loss[0])


def test_features_have_length_1_and_their_products_are_the_kernel():
    """With 2^14 features; with another length scale, the products are another kernel."""
    x = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32) * 0.3
    features = phi(2**14, x)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=1e-5)
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    kernel = np.exp(-squares / (2 * LENGTH**2))
    assert np.abs(features @ features.T - kernel).max() < 6 / np.sqrt(2**14)
    wider = phi(2**14, x, scale=1.2 * LENGTH)
    assert np.abs(wider @ wider.T - kernel).max() > 12 / np.sqrt(2**14)


def test_more_features_fit_a_smooth_function_better():
    """The error of the best linear fit on [0, 1]: with 64 features, a hundredth of that with 4."""
    x = np.linspace(0, 1, 400, dtype=np.float32)
    errors = []
    for count in (4, 16, 64):
        features = phi(count, x[:, None]).astype(np.float64)
        fit, *_ = np.linalg.lstsq(features, smooth(x), rcond=1e-6)
        errors.append(np.abs(features @ fit - smooth(x)).max())
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[2] < 0.01 * errors[0]


@pytest.mark.slow
def test_a_linear_learner_plays_a_kernel_bandit():
    """It suffers less than on the contexts themselves, which no line fits well."""
    plain = environments.contextual_table(*table(3000))
    kernel = combinators.fourier_features(plain, 32, scale=LENGTH, key=jr.key(1))

    def suffered(environment):
        dim = environment.action_set.dim
        learner = learners.linucb(3000, dim, epsilon=np.inf, delta=0.01, feature_bound=1.5)
        return float(simulate(learner, environment, jr.key(0), checkpoints=1).tally.suffered)

    best = float(np.min(table(3000)[1], axis=1).sum())
    assert suffered(kernel) - best < 0.5 * (suffered(plain) - best)


def test_a_policy_is_asked_with_the_features():
    plain = environments.contextual_table(*table(1))
    kernel = combinators.fourier_features(plain, 6, scale=1.0, key=jr.key(1))
    policy = jax.tree_util.Partial(lambda w, x: jnp.argmax(x @ w), jnp.arange(6.0))
    _, outcome = kernel.step(kernel.init(None), jr.key(0), policy)
    features, losses = outcome.loss
    assert float(outcome.tally.suffered) == float(losses[policy(features)])
