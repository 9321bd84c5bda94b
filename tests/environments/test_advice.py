"""Expert advice: its distribution, its tally, and a user's tables."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import environments
from dpjax.core import Policies

FIRST = jax.tree_util.Partial(lambda features: jnp.int32(0))
LAWS = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])


def rounds(environment, count, seed=0):
    """Outcomes of independent first rounds."""
    state = environment.init(jr.key(seed))
    keys = jr.split(jr.key(seed + 1), count)
    return jax.jit(jax.vmap(lambda key: environment.step(state, key, FIRST)[1]))(keys)


def test_advice_is_of_laws_that_follow_the_losses():
    """Expert i loses (1 - w_i) <uniform, l> + w_i min l in each round; losses are 0 or 1."""
    weights = np.array([0.0, 0.5, 1.0])
    environment = environments.advice([0.3, 0.5, 0.6, 0.9], 3, informative=weights)
    assert environment.action_set == Policies(3, 4)
    (advice, losses), tally = jax.tree.map(np.asarray, rounds(environment, 4000)[:2])
    assert advice.shape == (4000, 4, 3)
    np.testing.assert_allclose(advice.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(advice[:, :, 0], 0.25)
    expected = (1 - weights) * losses.mean(axis=1)[:, None] + weights * losses.min(axis=1)[:, None]
    np.testing.assert_allclose(tally, losses[:, :1] - expected, atol=1e-6)
    assert np.abs(losses.mean(axis=0) - [0.3, 0.5, 0.6, 0.9]).max() < 4 * 0.5 / 4000**0.5


def test_noise_breaks_ties_and_hides_small_differences():
    """For losses 0.5 and 0.75, P(U + 0.5 < V + 0.75) = 1 - 0.75^2 / 2 = 0.71875."""
    environment = environments.advice(np.array([[0.5, 0.75]]), 2, informative=[1.0, 1.0])
    advice, _ = rounds(environment, 20_000).loss
    share = np.asarray(advice[:, 0, :]).mean(axis=0)
    assert np.abs(share - (1 - 0.75**2 / 2)).max() < 4 * 0.45 / 20_000**0.5
    assert 0.5 < np.mean(advice[:, 0, 0] == advice[:, 0, 1]) < 0.7  # experts draw independently


def test_tables_are_replayed():
    losses = np.array([[0.0, 1.0], [0.5, 0.25]])
    environment = environments.advice(losses, LAWS)
    assert environment.horizon == 2
    for t in range(2):
        state, outcome = environment.step(jnp.int32(t), jr.key(0), FIRST)
        assert state == t + 1
        np.testing.assert_allclose(outcome.loss[0], LAWS[t].T)
        np.testing.assert_allclose(outcome.loss[1], losses[t])
        np.testing.assert_allclose(outcome.tally, losses[t, 0] - LAWS[t] @ losses[t])
    assert environments.advice([0.5, 0.5], LAWS).horizon == 2
    assert environments.advice([0.5, 0.5], LAWS[0]).horizon is None
    assert float(environment.regret((), jnp.array([2.0, 3.0]))) == 3.0
