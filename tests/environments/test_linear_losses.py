"""Losses on convex sets: their sets, dependence, laws, and the regret against them.

Games use the keys of ``simulate``: init folds 0 into nature's key, round t folds t.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, environments
from dpjax.environments._linear_losses import KINDS
from tests.play import play_actions

DIM, ROUNDS, GAMES = 3, 40, 4
DOMAINS = {"simplex": domains.simplex(DIM), "ball": domains.ball(DIM), "cube": domains.cube(DIM)}
every_domain = pytest.mark.parametrize("name", DOMAINS)
every_case = pytest.mark.parametrize("kind", KINDS)

# Points of the simplex and, with signs, of the others: two games with different actions.
MIXTURES = np.random.default_rng(0).dirichlet(np.ones(DIM), (2, ROUNDS)).astype(np.float32)
SIGNS = np.random.default_rng(1).choice([-1.0, 1.0], (2, ROUNDS, DIM)).astype(np.float32)
SIGNED = SIGNS * MIXTURES
ACTIONS = {"simplex": MIXTURES, "ball": SIGNED, "cube": SIGNED}
PROBES = np.eye(DIM, dtype=np.float32)  # other actions, valid in all three

# How far a loss vector is outside its set, in closed form.
OUTSIDE = {
    "simplex": lambda loss: np.maximum(loss - 1, -loss).max(axis=-1),
    "ball": lambda loss: np.linalg.norm(loss, axis=-1) - 1,
    "cube": lambda loss: np.abs(loss).sum(axis=-1) - 1,
}
LEAST = {
    "simplex": lambda total: total.min(axis=-1),
    "ball": lambda total: -np.linalg.norm(total, axis=-1),
    "cube": lambda total: -np.abs(total).sum(axis=-1),
}


def play(environment, actions, nature):
    """Losses (T, d), losses at other actions (T, probes, d), regret after each round."""
    outcomes, met, regret = play_actions(environment, actions, nature, PROBES)
    return outcomes.loss, met, regret


def games(environment, actions, count=GAMES):
    """``play`` under several keys, for several action sequences (A, T, d): (keys, A, T, ...)."""
    over_actions = jax.vmap(lambda actions, key: play(environment, actions, key), (0, None))
    over_both = jax.jit(jax.vmap(over_actions, (None, 0)))
    return jax.tree.map(np.asarray, over_both(actions, jr.split(jr.key(0), count)))


@cache
def played(name, kind):
    """Each kind on each domain: two action sequences under four keys."""
    environment = environments.linear_losses(DOMAINS[name], kind, period=8)
    return games(environment, ACTIONS[name])


@cache
def guided(kind):
    """Losses on the ball with negligible noise, so that l_t is the unit vector of the direction."""
    environment = environments.linear_losses(DOMAINS["ball"], kind, bias=1e6, period=10)
    return games(environment, ACTIONS["ball"])[0]


# --- all kinds ---


@every_domain
@every_case
def test_losses_lie_in_the_loss_set(name, kind):
    """Drawn losses are extreme points: a corner, a unit vector, a signed axis."""
    losses = played(name, kind)[0]
    assert losses.dtype == np.float32
    assert OUTSIDE[name](losses.astype(np.float64)).max() <= 1e-6
    if kind != "alternating":
        extreme = losses * (1 - losses) if name == "simplex" else OUTSIDE[name](losses)
        np.testing.assert_allclose(extreme, 0, atol=1e-6)


@every_domain
@every_case
def test_what_a_loss_depends_on(name, kind):
    """Never on its round's action; on earlier ones only if "adaptive"; mostly on the key."""
    losses, met, _ = played(name, kind)
    expected = np.broadcast_to(losses[:, :, :, None], met.shape)
    np.testing.assert_allclose(met, expected, rtol=0, atol=5e-7)  # a batch is rounded differently
    same = (losses[:, 0] == losses[:, 1]).all(axis=(0, 2))
    assert same.all() if kind != "adaptive" else same[0] and not same.all()
    assert (losses[:1] == losses).all() == (kind == "alternating")


@every_domain
@every_case
def test_regret_is_what_was_suffered_less_the_best_fixed_point(name, kind):
    """After each round, in float64, with the least <L, x> in closed form."""
    losses, _, regret = played(name, kind)
    losses = losses.astype(np.float64)
    suffered = np.cumsum(np.sum(losses * ACTIONS[name], axis=-1), axis=-1)
    least = LEAST[name](np.cumsum(losses, axis=-2))
    # Sums of 40 float32 terms of size at most 1.
    np.testing.assert_allclose(regret, suffered - least, atol=5e-5)


# --- the laws ---

DRAWS = 40_000


def drawn(environment, state):
    """The losses of many rounds from one state, (DRAWS, d)."""
    step = lambda key: environment.step(state, key, jnp.zeros(DIM))[1].loss  # noqa: E731
    return np.asarray(jax.jit(jax.vmap(step))(jr.split(jr.key(5), DRAWS)), np.float64)


def deviations(losses, direction):
    """Losses (DRAWS, d), less P(entry = 1) = Phi(bias u_i), over their deviation: means below 4."""
    mean = stats.norm.cdf(0.7 * np.asarray(direction, np.float64))
    centred = (losses - mean) / np.sqrt(mean * (1 - mean))
    assert (np.abs(centred.mean(axis=0)) < 4 / DRAWS**0.5).all()
    assert (np.abs(mean - 0.5) > 10 / DRAWS**0.5).all()  # so entries of noise alone are rejected
    return centred


def test_iid_entries_of_a_box_have_the_law_of_their_direction():
    """In 40 000 rounds; entries and rounds are uncorrelated. z-tests at four standard errors."""
    environment = environments.linear_losses(DOMAINS["simplex"], "iid", bias=0.7)
    state = environment.init(jr.fold_in(jr.key(7), 0))
    centred = deviations(drawn(environment, state), state.directions[0])
    lagged = centred[1:].T @ centred[:-1] / (DRAWS - 1)
    together = np.triu(centred.T @ centred / DRAWS, 1)
    assert max(np.abs(lagged).max(), np.abs(together).max()) < 4 / DRAWS**0.5


def test_adaptive_entries_of_a_box_have_the_law_of_the_last_action():
    """Of sqrt(d) (x - centre) / radius: here sqrt(3) times (2, -1, -1) / sqrt(6)."""
    environment = environments.linear_losses(DOMAINS["simplex"], "adaptive", bias=0.7)
    state = environment.init(jr.key(0))
    state, _ = environment.step(state, jr.key(1), jnp.array([1.0, 0.0, 0.0]))
    deviations(drawn(environment, state), np.array([2.0, -1.0, -1.0]) / 2**0.5)


def test_iid_directions_stay_and_differ_from_game_to_game():
    """One direction per game, whatever the actions."""
    losses = guided("iid")
    np.testing.assert_allclose(losses, np.broadcast_to(losses[:, :1, :1], losses.shape), atol=1e-4)
    assert directions_differ(losses[:, 0, 0])


def directions_differ(directions):
    """No two of these unit vectors (n, d) point in the same direction."""
    cosines = directions @ directions.T
    return (cosines[~np.eye(len(cosines), dtype=bool)] < 0.999).all()


def test_switching_draws_a_direction_exactly_every_period():
    """Rounds 11, 21, 31 bring new directions; four games have sixteen different ones."""
    losses = guided("switching")[:, 0]
    blocks = losses.reshape(GAMES, 4, 10, DIM)
    np.testing.assert_allclose(blocks, np.broadcast_to(blocks[:, :, :1], blocks.shape), atol=1e-4)
    assert directions_differ(blocks[:, :, 0].reshape(-1, DIM))


def test_drifting_goes_round_once_a_period_in_a_plane():
    """Back after 10 rounds, opposite after 5, always in one plane, and never at rest."""
    losses = guided("drifting")[:, 0]
    np.testing.assert_allclose(losses[:, 10:], losses[:, :-10], atol=1e-3)
    np.testing.assert_allclose(losses[:, 5:], -losses[:, :-5], atol=1e-3)
    for game in losses:
        assert np.linalg.matrix_rank(game[:10], tol=1e-2) == 2
        assert np.linalg.norm(np.diff(game, axis=0), axis=1).min() > 0.01
    assert directions_differ(losses[:, 0])
    # The first round has the direction of i.i.d. losses.
    np.testing.assert_allclose(losses[:, 0], guided("iid")[:, 0, 0], atol=1e-4)


def test_adaptive_losses_point_to_the_last_action():
    """From the second round on."""
    actions = ACTIONS["ball"] / np.linalg.norm(ACTIONS["ball"], axis=-1, keepdims=True)
    expected = np.broadcast_to(actions[None, :, :-1], (GAMES, 2, ROUNDS - 1, DIM))
    np.testing.assert_allclose(guided("adaptive")[:, :, 1:], expected, atol=1e-3)


def test_alternating_losses_by_hand():
    """Half a step up, then full steps down and up: the running sum changes sign every round."""
    for name, middle, half in [("simplex", 0.5, 0.5), ("ball", 0.0, 1.0), ("cube", 0.0, 1.0)]:
        losses = played(name, "alternating")[0][0, 0]
        steps = half * np.array([0.5] + [-1.0, 1.0] * (ROUNDS // 2))[:ROUNDS]
        np.testing.assert_allclose(losses[:, 0], middle + steps, atol=1e-7)
        np.testing.assert_array_equal(losses[:, 1:], middle)


# --- losses of a deterministic leader ---


# --- a user's own ---


def test_a_users_own_losses_are_replayed_row_by_row():
    """Also integers, lists and JAX arrays; the horizon is the number of rows."""
    rows = np.random.default_rng(2).uniform(size=(ROUNDS, DIM)).astype(np.float32)
    for given in (rows, rows.astype(np.float64), rows.tolist(), jnp.asarray(rows), rows > 0.5):
        environment = environments.linear_losses(DOMAINS["simplex"], given)
        assert environment.horizon == ROUNDS
        state = environment.init(jr.key(0))
        for t in range(3):
            state, outcome = environment.step(state, jr.key(t), jnp.zeros(DIM))
            np.testing.assert_array_equal(outcome.loss, np.float32(given[t]))
    environment = environments.linear_losses(DOMAINS["simplex"], rows)
    losses, _, _ = games(environment, MIXTURES, 2)
    np.testing.assert_array_equal(losses, np.broadcast_to(rows, losses.shape))


def test_rows_are_checked_while_a_game_is_traced():
    """A factory called inside jit with concrete rows: no tracer escapes, and bad rows are found."""

    def first_loss(key, rows):
        environment = environments.linear_losses(DOMAINS["ball"], rows)
        return environment.step(environment.init(key), key, jnp.zeros(DIM))[1].loss

    rows = 0.5 * np.eye(DIM)
    np.testing.assert_array_equal(jax.jit(lambda k: first_loss(k, rows))(jr.key(0)), rows[0])
    with pytest.raises(ValueError, match=r"^losses: row 1 lies outside the loss set"):
        jax.jit(lambda k: first_loss(k, 4 * rows))(jr.key(0))


def test_rounding_does_not_put_a_row_outside():
    """Unit vectors in float32, and rows up to 5e-6 outside; the set itself does not change."""
    rows = np.random.default_rng(4).normal(size=(1000, DIM))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    environments.linear_losses(DOMAINS["ball"], rows * np.float32(1 + 5e-6))
    with pytest.raises(ValueError, match="lies outside the loss set"):
        environments.linear_losses(DOMAINS["ball"], rows * np.float32(1 + 1e-4))
    environments.linear_losses(DOMAINS["ball"], 2 * rows, loss_set=domains.ball_losses(DIM, 2.0))
