"""Loss vectors on convex sets: where they lie, what they depend on, and regret against them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, environments, learners, simulate
from dpjax.environments.linear_losses import KINDS

DOMAINS = {"simplex": domains.simplex(3), "ball": domains.ball(3), "cube": domains.cube(3)}
ROUNDS = 40
CASES = [(name, kind) for name in DOMAINS for kind in KINDS]
every_case = pytest.mark.parametrize(("name", "kind"), CASES)


def actions(name, seed):
    """Points of the domain, (T, d)."""
    return jax.vmap(DOMAINS[name].minimizer)(jr.normal(jr.key(seed), (ROUNDS, 3)))


def play(environment, played, nature):
    """Losses (T, d), the losses that another action would have met, and regret after each round."""
    state = environment.init(jr.fold_in(nature, 0))
    tally = jax.eval_shape(environment.step, state, nature, played[0])[1].tally
    total = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tally)

    def one_round(carry, t_and_action):
        state, total = carry
        t, action = t_and_action
        key = jr.fold_in(nature, t)
        other = environment.step(state, key, -action)[1].loss
        state, outcome = environment.step(state, key, action)
        total = jax.tree.map(jnp.add, total, outcome.tally)
        return (state, total), (outcome.loss, other, environment.regret(state, total))

    rounds = jnp.arange(1, len(played) + 1)
    return jax.lax.scan(one_round, (state, total), (rounds, played))[1]


@cache
def played(name, kind):
    """Two sequences of actions under four keys: everything of play, leading axes (4, 2)."""
    environment = environments.linear_losses(DOMAINS[name], kind, period=8)
    both = jnp.stack([actions(name, 1), actions(name, 2)])
    game = jax.vmap(jax.vmap(lambda a, k: play(environment, a, k), (0, None)), (None, 0))
    return jax.tree.map(np.asarray, jax.jit(game)(both, jr.split(jr.key(0), 4)))


@every_case
def test_losses_lie_in_the_set_and_do_not_depend_on_the_current_action(name, kind):
    losses, other, _ = played(name, kind)
    clip = DOMAINS[name].losses.clip
    flat = losses.reshape(-1, 3)
    np.testing.assert_allclose(jax.vmap(clip)(jnp.asarray(flat)), flat, atol=1e-5)
    np.testing.assert_allclose(losses, other, atol=1e-6)
    same = (losses[:, 0] == losses[:, 1]).all()
    assert same == (kind != "adaptive")  # which alone depends on past actions
    different = (losses[0] != losses[1]).any()
    assert different == (kind != "alternating")  # which alone is not random


@every_case
def test_regret_is_that_of_the_best_fixed_point(name, kind):
    """Recomputed in float64 after each round, with the closed form of the best point."""
    losses, _, regret = played(name, kind)
    points = np.stack([actions(name, 1), actions(name, 2)]).astype(np.float64)
    suffered = np.cumsum(np.sum(losses * points, axis=-1), axis=-1)
    total = np.cumsum(losses.astype(np.float64), axis=-2)
    best = {
        "simplex": total.min(axis=-1),
        "ball": -np.linalg.norm(total, axis=-1),
        "cube": -np.abs(total).sum(axis=-1),
    }[name]
    np.testing.assert_allclose(regret, suffered - best, atol=1e-3)


def test_iid_entries_of_a_box_have_the_law_of_their_direction():
    """P(entry = 1) = Phi(bias u_i) in 40 000 rounds of one game, and rounds do not depend."""
    environment = environments.linear_losses(DOMAINS["simplex"], "iid", bias=0.7)
    key = jr.key(5)
    state = environment.init(jr.fold_in(key, 0))
    center = jnp.full(3, 1 / 3)
    draw = jax.vmap(lambda t: environment.step(state, jr.fold_in(key, t), center)[1].loss)
    losses = np.asarray(draw(jnp.arange(1, 40_001)))
    expected = stats.norm.cdf(0.7 * np.asarray(state.directions[0], np.float64))
    error = np.sqrt(expected * (1 - expected) / 40_000)
    assert (np.abs(losses.mean(axis=0) - expected) < 4 * error).all()
    assert (np.abs(losses.mean(axis=0) - 0.5) > 4 * error).any()
    lagged = np.mean((losses[1:] - expected) * (losses[:-1] - expected), axis=0)
    assert (np.abs(lagged) < 4 * expected * (1 - expected) / 200).all()


def test_switching_draws_a_direction_every_period_and_drifting_comes_back():
    """The state's directions change after each period, and only then; a drift has one plane."""
    domain, key = DOMAINS["ball"], jr.key(1)
    environment = environments.linear_losses(domain, "switching", period=5)
    state = environment.init(jr.fold_in(key, 0))
    seen = []
    for t in range(1, 17):
        state, _ = environment.step(state, jr.fold_in(key, t), jnp.zeros(3))
        seen.append(np.asarray(state.directions[0]))
    changed = [t + 1 for t in range(1, 16) if (seen[t] != seen[t - 1]).any()]
    assert changed == [6, 11, 16]
    # Without noise to speak of, l_t points along the direction.
    drift = environments.linear_losses(domain, "drifting", bias=1e6, period=12)
    losses = np.asarray(play(drift, jnp.zeros((25, 3)), key)[0])
    np.testing.assert_allclose(losses[12:24], losses[:12], atol=1e-3)
    np.testing.assert_allclose(losses[6:12], -losses[:6], atol=1e-3)
    assert np.linalg.matrix_rank(losses, tol=1e-2) == 2


def follow_the_leader(domain, horizon):
    """No regularization: the minimizer of the exact sums."""
    big = domains.Regularizer(lambda s, rate=1.0: domain.minimizer(s), 1.0, lambda losses: 1.0)
    return learners.ftrl(horizon, domain, epsilon=np.inf, regularizer=big)


@pytest.mark.parametrize("name", DOMAINS)
def test_alternating_losses_defeat_the_leader_and_not_the_regularized_one(name):
    """Regret at least 0.2 a round in 400 rounds, linear; FTRL's stays below 3 sqrt(T)."""
    domain = DOMAINS[name]
    environment = environments.linear_losses(domain, "alternating")
    leader = simulate(follow_the_leader(domain, 400), environment, jr.key(0), checkpoints=2)
    assert (np.asarray(leader.regret) > 0.2 * np.asarray(leader.rounds)).all()
    plain = learners.ftrl(400, domain, epsilon=np.inf)
    assert simulate(plain, environment, jr.key(0)).regret[-1] < 3 * 400**0.5


def test_the_adaptive_adversary_makes_the_last_action_expensive():
    """Repeating a point meets losses that point its way; the opposite point does not."""
    domain = DOMAINS["ball"]
    environment = environments.linear_losses(domain, "adaptive", bias=2.0)
    same = jnp.tile(jnp.array([1.0, 0, 0]), (400, 1))
    losses = np.asarray(play(environment, same, jr.key(3))[0])
    assert losses[1:, 0].mean() > 0.5
    assert abs(losses[1:, 1].mean()) < 0.2


def test_a_users_own_losses_are_replayed_row_by_row():
    rows = np.asarray(jr.uniform(jr.key(1), (ROUNDS, 3)))
    environment = environments.linear_losses(DOMAINS["simplex"], rows)
    losses, _, _ = play(environment, actions("simplex", 1), jr.key(0))
    np.testing.assert_array_equal(losses, rows)
    assert environment.horizon == ROUNDS
    with pytest.raises(ValueError, match="horizon"):
        longer = learners.ftrl(ROUNDS + 1, DOMAINS["simplex"], epsilon=1.0)
        simulate(longer, environment, jr.key(0))


def test_tallies_stay_accurate_over_many_rounds():
    """2^16 rounds of losses of 0.1 at a fixed point: within 1e-4 of the float64 sum."""
    rows = np.full((2**16, 2), 0.1, np.float32)
    environment = environments.linear_losses(domains.simplex(2), rows)
    learner = learners.ftrl(2**16, domains.simplex(2), epsilon=np.inf)
    tally = simulate(learner, environment, jr.key(0), checkpoints=1).tally
    np.testing.assert_allclose(tally.loss, np.float64(np.float32(0.1)) * 2**16, rtol=1e-4)


def test_bad_arguments_are_refused_in_one_sentence():
    domain = DOMAINS["simplex"]
    rows = np.full((4, 3), 0.5)
    missing, outside = rows.copy(), rows.copy()
    missing[2, 1], outside[1, 0] = np.nan, 1.5
    for losses, message in [
        (missing, "losses: row 3, column 2 is missing or infinite"),
        (outside, "losses: row 2 lies outside the loss set"),
        (rows[:, :2], r"losses: must have shape \(T, 3\), got \(4, 2\)"),
        (rows[:0], "losses: must have shape"),
        ([["a"]], "losses: must be a table of numbers"),
        ("brownian", "losses must be an array .* or one of iid, drifting"),
    ]:
        with pytest.raises(ValueError, match=message):
            environments.linear_losses(domain, losses)
    for changes, name in [({"bias": -1.0}, "bias"), ({"period": 0}, "period")]:
        with pytest.raises(ValueError, match=name):
            environments.linear_losses(domain, "iid", **changes)
    with pytest.raises(ValueError, match="losses must have the dimension of the domain, 3, got 2"):
        environments.linear_losses(domain, "iid", loss_set=domains.box_losses(2))
