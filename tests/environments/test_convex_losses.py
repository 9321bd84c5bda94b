"""Convex losses: kinds, regret against a certified optimum, a user's function."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import optimize

from dpjax import domains, environments, learners, simulate
from dpjax.core import Learner, Privacy
from dpjax.environments import loss_families
from dpjax.feedback import value

BALL, CAPPED = domains.ball(3), domains.capped_simplex(4, 2)
FAMILIES = ("linear", "distance", "absolute", "quadratic", "largest")
ROUNDS = 60


@cache
def played(kind, family="distance", seed=0):
    """(rows met, plays, losses at three probes, regret) of a learner that plays at random."""
    made = getattr(loss_families, family)(CAPPED)
    environment = environments.convex_losses(CAPPED, made, kind, count=5, period=10)
    nature = jr.key(seed)
    probes = jnp.asarray(np.eye(4)[:3], jnp.float32)

    def one_round(carry, t):
        state, total = carry
        key = jr.fold_in(nature, t)
        action = CAPPED.minimizer(jr.normal(jr.fold_in(jr.key(9), t), (4,)))
        # The losses that other actions would have met in this round.
        met = jax.vmap(lambda probe: environment.step(state, key, probe)[1].loss(action))(probes)
        state, outcome = environment.step(state, key, action)
        total = jax.tree.map(jnp.add, total, outcome.tally)
        seen = jnp.concatenate([outcome.loss(action)[None], met])
        return (state, total), (jnp.argmax(outcome.tally.counts), action, seen)

    @jax.jit
    def run():
        start = environment.init(jr.fold_in(nature, 0))
        tally = jax.eval_shape(environment.step, start, nature, probes[0])[1].tally
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tally)
        rounds = jnp.arange(1, ROUNDS + 1)
        (state, tally), rows = jax.lax.scan(one_round, (start, zero), rounds)
        return *rows, tally, state.parameters, environment.regret(state, tally)

    return jax.device_get(run())


@pytest.mark.parametrize("kind", ["iid", "drifting", "switching", "adaptive"])
def test_kinds(kind):
    """Which row is met in which round; a loss does not depend on its round's action."""
    rows, plays, seen, tally, parameters, _ = played(kind)
    np.testing.assert_allclose(seen, np.broadcast_to(seen[:, :1], seen.shape), rtol=1e-6)
    assert tally.suffered == pytest.approx(seen[:, 0].sum(), rel=1e-5)
    np.testing.assert_array_equal(tally.counts, np.bincount(rows, minlength=5))
    if kind == "iid":
        assert (np.diff(rows) != 0).mean() > 0.5 and len(set(rows)) == 5
    if kind == "switching":
        changed = np.flatnonzero(np.diff(rows)) + 1
        assert len(changed) and (changed % 10 == 0).all()
    if kind == "drifting":
        steps = np.arange(ROUNDS) // 10
        assert (((rows - steps) % 5) <= 1).all()
        late = np.arange(ROUNDS) % 10 >= 5
        assert ((rows - steps) % 5)[late].mean() > ((rows - steps) % 5)[~late].mean() + 0.2
    if kind == "adaptive":
        before = np.concatenate([CAPPED.centre[None], plays[:-1]])
        distances = np.linalg.norm(before[:, None] - parameters[None], axis=-1)
        np.testing.assert_allclose(
            distances[np.arange(ROUNDS), rows], distances.max(axis=1), rtol=1e-5
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_small_near_points_of_the_domain(family):
    """Each loss is 0 somewhere on the domain, as PRIVATEBANDIT requires."""
    made = getattr(loss_families, family)(CAPPED)
    environment = environments.convex_losses(CAPPED, made, count=6)
    parameters = environment.init(jr.key(0)).parameters

    @jax.jit
    @jax.vmap
    def least(row):
        alone = jax.tree.map(lambda leaf: leaf[None], row)
        best = loss_families.offline_optimum(CAPPED, made.function, alone, jnp.ones(1))
        return best.value, best.lower

    value_, lower = least(parameters)
    if family != "largest":  # it may fall below 0
        assert (np.abs(value_) < 0.03).all()
    assert (lower < 0.03).all() and (value_ < 0.03).all()


@pytest.mark.parametrize("domain", [BALL, CAPPED], ids=["ball", "capped"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_optimum_is_certified(family, domain):
    """lower <= the least value found by SciPy <= value, and the two are close."""
    made = getattr(loss_families, family)(domain)
    environment = environments.convex_losses(domain, made, count=8, spread=1.0)
    parameters = environment.init(jr.key(1)).parameters
    weights = jnp.asarray(np.random.default_rng(0).uniform(size=8), jnp.float32)

    @jax.jit
    def solve():
        return loss_families.offline_optimum(domain, made.function, parameters, weights)

    best = solve()

    def sum_at(x):
        return jnp.sum(weights * jax.vmap(made.function, (0, None))(parameters, x))

    total, projected = jax.jit(sum_at), jax.jit(lambda x: sum_at(domain.project(x)))
    assert float(total(best.point)) == pytest.approx(float(best.value), rel=1e-4, abs=1e-5)
    assert bool(domain.contains(best.point, 1e-4))

    def objective(x):
        return float(projected(np.asarray(x, np.float32)))

    found = min(
        optimize.minimize(objective, start, method="Nelder-Mead", options={"maxiter": 600}).fun
        for start in (np.asarray(best.point), domain.centre)
    )
    scale = float(jnp.sum(weights))
    assert float(best.lower) <= found + 1e-4 * scale
    assert float(best.value) <= found + 0.01 * scale
    assert float(best.value - best.lower) <= 0.03 * scale


def test_regret_is_over_the_certified_bound():
    """Over 60 rounds, against SciPy; never below the regret against a point of the domain."""
    *_, tally, parameters, regret = played("iid")

    project = jax.jit(CAPPED.project)

    def total(x):
        x = np.asarray(project(np.asarray(x, np.float32)))
        return tally.counts @ np.linalg.norm(x - parameters, axis=1)

    best = optimize.minimize(total, CAPPED.centre, method="Nelder-Mead").fun
    assert tally.suffered - best - 1e-3 <= regret <= tally.suffered - best + 0.02 * ROUNDS


def test_a_users_own_function_and_rows():
    """cosh(<a, x>) for rows a, one per round: the sum is least at 0."""
    rows = jr.normal(jr.key(0), (ROUNDS, 3))

    def own(parameters, x):
        return jnp.cosh(jnp.sum(parameters["a"] * x))

    environment = environments.convex_losses(BALL, own, "rows", parameters={"a": rows})
    assert environment.horizon == ROUNDS
    point = jnp.array([0.5, 0.0, 0.0])
    learner = Learner(lambda key: ((), point), lambda state, key, seen: ((), point), value, BALL,
                      ROUNDS, Privacy())  # fmt: skip
    run = jax.jit(lambda: simulate(learner, environment, jr.key(0), checkpoints=3))
    result = run()
    suffered = np.cumsum(np.cosh(np.asarray(rows) @ point))
    expected = (suffered - np.arange(1, ROUNDS + 1))[19::20]
    np.testing.assert_allclose(result.regret, expected, rtol=1e-3)
    learner = learners.projection_free(
        ROUNDS, BALL, epsilon=1.0, loss_range=(0.0, 5.0), smoothing=0.3
    )
    played = jax.jit(lambda: simulate(learner, environment, jr.key(0), checkpoints=1))()
    assert np.isfinite(played.regret).all()


def test_a_vector_stands_for_its_linear_loss():
    """feedback.value accepts both, and learners with value feedback accept both environments."""
    x, loss = jnp.array([1.0, 2.0]), jnp.array([3.0, -1.0])
    assert float(value(loss, x)) == 1.0
    assert float(value(jax.tree_util.Partial(jnp.vdot, loss), x)) == 1.0
