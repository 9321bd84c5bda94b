"""Online PCA: Gram losses and their sensitivities, the environment, and perturbed leaders."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, domains, environments, learners, mechanisms
from dpjax.engine import compute
from tests.engine.test_devices import run_children
from tests.play import play_actions, play_table

SIZE, RANK, HORIZON = 4, 2, 64
GRAM, FANTOPE = domains.gram_losses(SIZE), domains.fantope(SIZE, RANK)


def outer(v):
    return np.einsum("ti,tj->tij", v, v).reshape(len(v), -1)


def unit(rng, count, size=SIZE):
    v = rng.normal(size=(count, size))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def test_sensitivities_of_gram_losses():
    """sqrt 2 for two orthogonal directions, not 2; n for equal entries; n sqrt 2 in L1."""
    rng = np.random.default_rng(0)
    difference = outer(unit(rng, 20_000)) - outer(unit(rng, 20_000))
    l1, l2 = np.abs(difference).sum(axis=1).max(), np.linalg.norm(difference, axis=1).max()
    assert 0.95 * GRAM.diameters[0] < l1 <= GRAM.diameters[0]
    assert 0.999 * GRAM.diameters[1] < l2 <= GRAM.diameters[1] == pytest.approx(2**0.5)
    alike = np.full((1, SIZE), 0.5)
    assert np.abs(outer(alike)[0]).sum() == pytest.approx(GRAM.norms[0])
    v = unit(rng, 20_000, 2)
    entries = -outer(v)
    assert np.ptp(entries, axis=1).max() == pytest.approx(GRAM.spread, rel=1e-4)
    assert entries.min() >= GRAM.entry[0] and entries.max() <= GRAM.entry[1]


def test_gram_losses_are_clipped_to_the_nearest():
    """Eigenvalues by quadratic programming; members do not move; the maximizer is largest."""
    rng = np.random.default_rng(1)
    given = rng.normal(size=(50, SIZE, SIZE)).astype(np.float32)
    nearest = np.asarray(jax.vmap(GRAM.clip)(given.reshape(50, -1))).reshape(50, SIZE, SIZE)
    values = np.linalg.eigvalsh(nearest)
    assert values.max() < 1e-5 and values.sum(axis=1).min() > -1 - 1e-5
    symmetric = (given + np.swapaxes(given, 1, 2)) / 2
    # The nearest point has the least product with the removed part (a variational inequality).
    members = -outer(unit(rng, 500)).reshape(-1, SIZE, SIZE)
    off = symmetric - nearest
    product = np.einsum("aij,bij->ab", off, members) - np.sum(off * nearest, axis=(1, 2))[:, None]
    assert product.max() < 1e-4
    np.testing.assert_allclose(jax.vmap(GRAM.clip)(members.reshape(500, -1)),
                               members.reshape(500, -1), atol=1e-5)  # fmt: skip
    most = np.asarray(jax.vmap(GRAM.maximizer)(given.reshape(50, -1)))
    assert (
        np.sum(most * given.reshape(50, -1), axis=1)
        >= (given.reshape(50, -1) @ members.reshape(500, -1).T).max(axis=1) - 1e-5
    ).all()
    np.testing.assert_array_equal(GRAM.maximizer(jnp.eye(SIZE).ravel()), 0.0)


def test_the_law_of_the_directions_and_the_regret():
    """Variances from the signal, regret from eigenvalues; without a signal all are equal."""
    environment = environments.spiked_covariance(SIZE, RANK, signal=8.0)
    actions = jnp.tile(FANTOPE.centre.astype(np.float32)[None], (2000, 1))
    outcome, _, regret = play_actions(environment, actions, jr.key(0))
    total = -np.asarray(outcome.loss, np.float64).sum(axis=0).reshape(SIZE, SIZE)
    best = np.linalg.eigvalsh(total)[-RANK:].sum()
    suffered = float(np.sum(outcome.tally.suffered))
    assert suffered == pytest.approx(-2000 * RANK / SIZE, rel=1e-4)
    assert float(regret[-1]) == pytest.approx(suffered + best, rel=1e-3)
    heavy = np.diag(total) / 2000
    assert heavy.sum() == pytest.approx(1.0, rel=1e-4)
    assert (heavy[:RANK] > 0.3).all() and (heavy[RANK:] < 0.15).all()


# Learners that solve PCA without changes.
SERVE = {
    "ftpl": partial(
        learners.ftpl, mechanism=mechanisms.tree,
        perturbation=float(bounds.ftpl_gram_perturbation(8, SIZE, RANK)),
    ),
    "ftrl": partial(learners.ftrl, noise="gaussian"),
    "private_ftal": partial(learners.private_ftal, noise="gaussian"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["ftrl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ftpl", "private_ftal"))],
)
def test_a_replaced_direction_spends_what_is_declared(name):
    """Replay of v v' against w w', orthogonal; the sensitivity 1, that of a zeroed loss, fails."""
    rows = jnp.asarray(-outer(np.tile(np.eye(SIZE)[:1], (8, 1))), jnp.float32)
    other = rows.at[0].set(jnp.asarray(-outer(np.eye(SIZE)[1:2])[0], jnp.float32))
    pair = audit.Pair(rows, other)
    for diameters, caught in ((GRAM.diameters, False), ((GRAM.norms[0], 1.0), True)):
        domain = FANTOPE._replace(losses=GRAM._replace(diameters=diameters))
        learner = SERVE[name](8, domain, epsilon=1.0, delta=1e-5)
        spent = float(audit.spent(audit.replay(learner, pair, jr.key(0)), 1e-5))
        assert (spent > 1.3) if caught else spent == pytest.approx(1.0, rel=1e-3)


def test_the_matrix_exponential_is_ftrl():
    """exp(-eta L) / tr by SciPy."""
    from scipy.linalg import expm

    entropy = domains.von_neumann_entropy(SIZE)
    spectrahedron = domains.fantope(SIZE, 1)._replace(regularizer=entropy)
    rate = float(np.sqrt(8 * np.log(SIZE) / HORIZON))
    make = partial(learners.ftrl, rate=rate)
    rows = -outer(unit(np.random.default_rng(3), HORIZON)).astype(np.float32)
    game = play_table(make(HORIZON, spectrahedron, epsilon=np.inf), jnp.asarray(rows), jr.key(0))
    total = rows[:-1].sum(axis=0, dtype=np.float64).reshape(SIZE, SIZE)
    expected = expm(-rate * total)
    np.testing.assert_allclose(
        game.actions[HORIZON - 1].reshape(SIZE, SIZE), expected / np.trace(expected), atol=1e-4
    )


def test_programs_that_decompose_matrices_are_played_one_at_a_time():
    """Two of them at once wait for each other inside XLA, on its threads."""

    def takes_turns(domain):
        program = jax.make_jaxpr(lambda x: domain.project(x))(jnp.zeros(domain.dim))
        return compute.takes_turns(program)

    assert takes_turns(domains.fantope(3, 1)) and takes_turns(domains.fantope(4, 2))
    assert not takes_turns(domains.simplex(3)) and not takes_turns(domains.ball(3))


@pytest.mark.slow
def test_a_sweep_over_matrices_of_16_by_16_ends():
    """Before, it hung in four of five runs with two threads."""
    code = (
        "import numpy as np, jax\n"
        "from dpjax import domains, environments, learners, sweep\n"
        "entropy = domains.von_neumann_entropy(16)\n"
        "fantope = domains.fantope(16, 1)._replace(regularizer=entropy)\n"
        "def game(epsilon):\n"
        "    learner = learners.ftrl(256, fantope, epsilon=epsilon, delta=1e-6,\n"
        "                            noise='gaussian')\n"
        "    return learner, environments.spiked_covariance(16)\n"
        "sweep(game, np.array([1.0, np.inf]), 24, jax.random.key(0), progress=False)\n"
    )
    run_children([["-c", code]], 120)
