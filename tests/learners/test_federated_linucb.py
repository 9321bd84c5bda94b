"""Federated LinUCB: LinUCB with a delay, secure sums, and its bound."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, learners
from tests.learners.test_linucb import table
from tests.play import play_table

DELTA, DIM = 1e-3, 2
pytestmark = pytest.mark.usefixtures("quick_compilation")


def federated(horizon, silos, batch, epsilon=1.0, dim=DIM, **options):
    return learners.federated_linucb(
        horizon, dim, silos=silos, batch=batch, epsilon=epsilon, delta=DELTA, **options
    )


def beliefs(learner, rows, key=0):
    """The policies' parameters before each round, (T, ...)."""
    game = jax.jit(partial(play_table, learner))(rows, jr.key(key))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:-1], game.actions.args[0])


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_one_silo_with_batches_of_one_user_is_linucb(epsilon):
    rows = table(40, 4, 3)
    linucb = learners.linucb(40, 3, epsilon=epsilon, delta=DELTA)
    both = beliefs(federated(40, 1, 1, epsilon, dim=3), rows), beliefs(linucb, rows)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), *both)


def test_without_noise_it_is_oful_that_is_renewed_after_each_batch():
    """In NumPy: 50 rounds in batches of 12; the last two rounds form a cut batch."""
    horizon, users, dim = 50, 12, 3
    features, losses = table(horizon, 4, dim)
    found = beliefs(federated(horizon, 4, 3, np.inf, dim=dim), (features, losses))
    v, u, rows = np.eye(dim), np.zeros(dim), []
    for t, x in enumerate(features):
        if t % users == 0:
            for row, value in rows:
                v, u = v + np.outer(row, row), u + value * row
            rows, inverse = [], np.linalg.inv(v)
            estimate, beta = inverse @ u, np.sqrt(2 * np.log(horizon) + np.linalg.slogdet(v)[1]) + 1
        np.testing.assert_allclose(found.estimate[t], estimate, rtol=1e-4, atol=1e-6)
        w = np.zeros((dim, dim))
        w[np.tril_indices(dim)] = found.spread[t]
        np.testing.assert_allclose(w.T @ w, beta**2 * inverse, rtol=1e-4, atol=1e-5)
        arm = np.argmin(x @ estimate - beta * np.sqrt(np.einsum("ki,ij,kj->k", x, inverse, x)))
        rows.append((x[arm].astype(np.float64), losses[t, arm]))


def test_a_secure_sum_is_one_silo_of_all_users():
    rows = table(50, 4, DIM)
    opened = beliefs(federated(50, 4, 3, model="distributed"), rows)
    assert_same(opened, beliefs(federated(50, 1, 12), rows))
    assert (opened.spread[12] != beliefs(federated(50, 4, 3), rows).spread[12]).any()


def test_by_default_a_batch_has_about_the_root_of_all_users():
    rows = table(100, 3, DIM)
    assert_same(beliefs(federated(100, 4, None), rows), beliefs(federated(100, 4, 3), rows))


def test_the_row_of_a_user_is_in_the_sum_of_the_own_silo_only():
    rows, losses = jnp.zeros((16, 1, DIM)).at[..., 0].set(1.0), jnp.ones((16, 1))
    ours, theirs = (
        play_table(federated(16, 4, 2), (rows, side), jr.key(2)).states.rows[5 + 1]
        for side in (losses, losses.at[5].set(-1.0))
    )
    np.testing.assert_array_equal(np.any(ours != theirs, axis=1), np.arange(4) == 5 % 4)


def test_its_bound_at_batches_of_one_round_is_that_of_linucb_times_the_root_of_two():
    """Except for the 2 d log2(1 + T / d) rounds in which a determinant may double."""
    plain, batched = bounds.linucb(10**4, 5, 1.0, 1.0, 0.0), []
    for users in (1.0, 101.0):
        batched.append(float(bounds.federated_linucb(10**4, 5, users, 1.0, 1.0, 0.0)))
    doublings = 5.0 * np.log2(1.0 + 10**4 / 5.0)
    assert batched[0] == pytest.approx(2.0**0.5 * plain + 2.0 * doublings)
    assert batched[1] - batched[0] == pytest.approx(200.0 * doublings)
