"""Federated LinUCB: LinUCB with a delay, noise per silo, replays, and mistakes."""

from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, learners, privacy
from dpjax.learners.linucb import most_optimistic
from dpjax.learners.parts import prefix_sums
from dpjax.maths import ellipsoids
from dpjax.mechanisms import prefix
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


# The algorithm ---------------------------------------------------------------------------------


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


def test_a_batch_longer_than_the_horizon_is_never_summed():
    found = beliefs(federated(10, 4, 2**31 - 1), table(10, 4, DIM))
    assert_same(found, jax.tree.map(lambda leaf: np.broadcast_to(leaf[:1], leaf.shape), found))


def test_by_default_a_batch_has_about_the_root_of_all_users():
    rows = table(100, 3, DIM)
    assert_same(beliefs(federated(100, 4, None), rows), beliefs(federated(100, 4, 3), rows))


@pytest.mark.parametrize(
    ("argument", "value"),
    [("silos", 0), ("batch", 0), ("model", "local"), ("ridge", 0.0), ("failure", 1.0),
     ("delta", None), ("delta", 1.0), ("loss_bound", 0.0)],
)  # fmt: skip
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"silos": 2, "epsilon": 1.0, "delta": DELTA} | {argument: value}
    with pytest.raises(ValueError, match=f"^{argument}"):
        learners.federated_linucb(16, DIM, **given)


# Noise and privacy -----------------------------------------------------------------------------


def noise_of_messages(silos, batches, keys):
    """The noise of each silo's messages, with rows of 0: (keys, batches, M, packed)."""
    learner = federated(silos * (batches + 1), silos, 1)
    rows = jnp.zeros((silos * batches, 1, DIM)), jnp.zeros((silos * batches, 1))

    def game(key):
        walks = play_table(learner, rows, key).states.sums.noise.walk[silos::silos]
        counts = jnp.arange(1, batches + 1)
        return jax.vmap(prefix.read)(walks, prefix.trailing_zeros(counts))

    return np.asarray(jax.jit(jax.vmap(game))(jr.split(jr.key(1), keys)))


def test_the_noise_of_a_sum_has_m_times_popcount_of_the_variance_of_a_draw():
    """The silos' draws are independent. Half the scale is far off."""
    silos, batches, keys = 3, 7, 2000
    noise = noise_of_messages(silos, batches, keys)
    scale = np.sqrt(3.0) * 2.0 * float(privacy.gaussian_inverse_mu(1.0, DELTA))
    ones = np.array([b.bit_count() for b in range(1, batches + 1)])
    ratio = noise.sum(axis=2).var(axis=0) / (silos * ones[:, None] * scale**2)
    errors = (ratio - 1.0) / np.sqrt(2.0 / keys)
    assert np.abs(errors).max() < 4.5
    assert np.min(4.0 * ratio - 1.0) > 20.0 * np.sqrt(2.0 / keys)
    for entry in range(noise.shape[-1]):
        between = np.corrcoef(noise[:, -1, :, entry].T)[np.triu_indices(silos, 1)]
        assert np.abs(between).max() < 4.5 / np.sqrt(keys)


HORIZON, SILOS, BATCH = 16, 4, 1


def pair(at=4, horizon=HORIZON, features=False):
    """One arm e1 per round, with loss 1; in one round the loss is -1, or else the arm is e2.

    (e1, 1) and (e1, -1) are orthogonal rows of the largest length, whose sums differ most.
    """
    rows = jnp.zeros((horizon, 1, DIM)).at[..., 0].set(1.0)
    losses = jnp.ones((horizon, 1))
    if features:
        return audit.Pair((rows, losses), (rows.at[at, 0].set(jnp.array([0.0, 1.0])), losses))
    return audit.Pair((rows, losses), (rows, losses.at[at].set(-1.0)))


def replayed(learner, **where):
    return audit.replay(learner, pair(**where), jr.key(2))


@pytest.mark.parametrize("model", ["silo", "distributed"])
def test_a_user_spends_what_is_declared_by_one_sum_of_one_silo(model):
    learner = federated(HORIZON, SILOS, BATCH, model=model)
    declared = learner.privacy
    assert (declared.model, declared.unit, float(declared.epsilon)) == (model, "round", 1.0)
    found = replayed(learner)
    assert found.same_actions and found.same_keys and found.noise_seen and found.touched == 1
    assert float(found.rho) == pytest.approx(float(declared.rho), rel=1e-4)
    halved = audit.mutants(learner, pair().losses)["noise halved"]
    assert float(replayed(halved).rho) == pytest.approx(4.0 * float(declared.rho), rel=1e-4)


def test_the_row_of_a_user_is_in_the_sum_of_the_own_silo_only():
    learner = federated(HORIZON, SILOS, 2)
    states = [
        play_table(learner, losses, jr.key(2)).states.rows[5 + 1]
        for losses in (pair(at=5).losses, pair(at=5).others)
    ]
    changed = np.any(states[0] != states[1], axis=1)
    np.testing.assert_array_equal(changed, np.arange(SILOS) == 5 % SILOS)


def altered(change, horizon=HORIZON, silos=SILOS):
    """``federated``, with calibrated sums altered by ``change``."""
    calibrate = prefix_sums.calibrate

    def altered_sums(leaves, shape, size, **keywords):
        return change(lambda shape: calibrate(leaves, shape, size, **keywords), shape)

    with mock.patch.object(prefix_sums, "calibrate", altered_sums):
        return federated(horizon, silos, BATCH)


def of_a_secure_sum(calibrate, shape):
    """Mistake: each silo adds s / sqrt(M), as for a secure sum, but sends its message itself."""
    made = calibrate(shape)
    stream = made.mechanism.stream(shape, scale=made.scale / SILOS**0.5)
    return made._replace(init=stream.init, step=stream.step)


def shared(calibrate, shape):
    """Mistake: all silos add the same draw, made by the first silo."""
    made = calibrate((1, shape[1]))

    def init(key):
        inner, first = made.init(key)
        return (inner, jnp.zeros(shape)), jnp.broadcast_to(first, shape)

    def step(state, key, rows):
        inner, total = state
        total = total + rows
        inner, message = made.step(inner, key, rows[:1])
        return (inner, total), total + (message - total[:1])

    return made._replace(init=init, step=step)


def with_own_rows(learner):
    """Mistake: the next round's silo adds its own rows, without noise, to its policy."""

    def step(state, key, seen):
        state, policy = learner.step(state, key, seen)
        belief = policy.args[0]
        own = state.rows[state.round % SILOS, 3:5]  # the sum of loss x within the packed sum
        return state, jax.tree_util.Partial(
            most_optimistic, belief._replace(estimate=belief.estimate + own)
        )

    return learner._replace(step=step)


def test_noise_of_a_secure_sum_on_each_message_spends_m_times_rho():
    found = replayed(altered(of_a_secure_sum))
    assert found.same_actions
    declared = float(federated(HORIZON, SILOS, BATCH).privacy.rho)
    assert float(found.rho) == pytest.approx(SILOS * declared, rel=1e-4)


@pytest.mark.parametrize("at", [4, 5])
def test_noise_that_silos_share_hides_no_row(at):
    """Whether the row belongs to the silo that draws the noise or to another."""
    assert not replayed(altered(shared), at=at).same_actions


def test_a_silo_that_adds_its_own_rows_without_noise_is_found():
    learner = federated(HORIZON, SILOS, 2)
    assert replayed(learner, at=1).same_actions
    assert not replayed(with_own_rows(learner), at=1).same_actions


# The trigger of the first paper ----------------------------------------------------------------

LIMIT = 3.5  # between the determinants 3 of I + 2 e1 e1' and 4 of I + e1 e1' + e2 e2'


def remembered(calibrate, shape):
    """The same sums, with the last messages kept in the state."""
    made = calibrate(shape)

    def init(key):
        inner, messages = made.init(key)
        return (inner, messages), messages

    def step(state, key, rows):
        inner, messages = made.step(state[0], key, rows)
        return (inner, messages), messages

    return made._replace(init=init, step=step)


def triggered(raw):
    """Agents that adopt the server's policy once det(I + sum x x') is at least LIMIT.

    They read the sum without noise (``raw``) or as released.
    """
    base = altered(remembered, 4, 1)
    weights = np.where(np.equal(*ellipsoids.indices(DIM + 1)), np.sqrt(2.0), 1.0)

    def init(key):
        state, policy = base.init(key)
        return (state, policy), policy

    def step(state, key, seen):
        inner, policy = state
        inner, new = base.step(inner, key, seen)
        exact, messages = inner.sums
        total = jnp.asarray(weights, jnp.float32) * (exact.total if raw else messages)[0]
        gram = ellipsoids.unpack(total, DIM + 1)[:DIM, :DIM]
        now = jnp.linalg.det(jnp.eye(DIM) + gram) >= LIMIT
        policy = jax.tree.map(lambda ours, theirs: jnp.where(now, ours, theirs), new, policy)
        return (inner, policy), policy

    return base._replace(init=init, step=step)


def test_a_schedule_that_depends_on_raw_rows_is_found():
    """Dubey & Pentland 2020, as described by Zhou & Chowdhury 2023. The noise of sums is unchanged.

    The rows of rounds 1 and 2 are e1, e1 or e1, e2.
    """
    raw, noisy = (
        audit.replay(triggered(reads), pair(at=1, horizon=4, features=True), jr.key(2))
        for reads in (True, False)
    )
    assert float(raw.rho) == pytest.approx(float(noisy.rho), rel=1e-6)
    assert not raw.same_actions and noisy.same_actions
    declared = triggered(True).privacy
    with pytest.warns(UserWarning, match="depend on the losses other than through the releases"):
        assert audit.spent(raw, declared.delta) == np.inf
    assert audit.spent(noisy, declared.delta) <= float(declared.epsilon) + 1e-4


def synchronisations(rows, limit):
    """Whether each round ends a phase, by (t - t0) ln(det / det0) >= limit; (streams, T)."""
    streams, rounds, dim = rows.shape
    growth = np.cumsum(rows[..., None] * rows[..., None, :], axis=1) + np.eye(dim)
    logs = np.linalg.slogdet(growth)[1]
    since, level, found = np.zeros(streams), np.zeros(streams), np.zeros((streams, rounds), bool)
    for t in range(rounds):
        ends = (t + 1 - since) * (logs[:, t] - level) >= limit
        since, level = np.where(ends, t + 1, since), np.where(ends, logs[:, t], level)
        found[:, t] = ends
    return found


def test_one_row_moves_a_synchronisation_in_a_sixth_of_all_streams():
    """So the leak is no corner case: 300 unit rows with d = 3, one of them replaced."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 300, 3))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    others, at = rows.copy(), rng.integers(150, size=500)
    others[np.arange(500), at] = rows[np.arange(500)[::-1], 200]
    for limit in (5.0, 20.0, 60.0):
        differ = np.any(synchronisations(rows, limit) != synchronisations(others, limit), axis=1)
        assert 0.1 < differ.mean() < 0.35


def test_its_bound_at_batches_of_one_round_is_that_of_linucb_times_the_root_of_two():
    """Except for the 2 d log2(1 + T / d) rounds in which a determinant may double."""
    plain, batched = bounds.linucb(10**4, 5, 1.0, 1.0, 0.0), []
    for users in (1.0, 101.0):
        batched.append(float(bounds.federated_linucb(10**4, 5, users, 1.0, 1.0, 0.0)))
    doublings = 5.0 * np.log2(1.0 + 10**4 / 5.0)
    assert batched[0] == pytest.approx(2.0**0.5 * plain + 2.0 * doublings)
    assert batched[1] - batched[0] == pytest.approx(200.0 * doublings)
