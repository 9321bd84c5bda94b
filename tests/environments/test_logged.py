"""Logged bandit feedback: replayed row by row in NumPy, and against games with all losses known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

import dpjax
from dpjax import combinators, domains, environments, learners
from dpjax.core import Arms, Environment, Outcome, Policies
from dpjax.environments.logs import inverse_propensity

ARMS, ROWS = 3, 40
RNG = np.random.default_rng(0)
ACTIONS = RNG.integers(0, ARMS, ROWS)
LOSSES = RNG.random(ROWS).astype(np.float32)
CONTEXTS = RNG.normal(size=(ROWS, 2))


def replayed(plays):
    """(rows, losses) of the counted rounds; ``plays(t, row)`` is the learner's arm."""
    rows, row = [], 0
    for t in range(ROWS):
        while row < ROWS and plays(t, row) != ACTIONS[row]:
            row += 1
        if row == ROWS:
            break
        rows.append(row)
        row += 1
    return rows, LOSSES[rows]


def play(environment, action_of):
    """The states, losses and tallies of all rounds, with any number of rounds after the end."""

    def step(state, t):
        state, outcome = environment.step(state, jr.key(0), action_of(t))
        return state, (state, outcome)

    _, (states, outcomes) = jax.lax.scan(step, environment.init(None), jnp.arange(ROWS))
    return np.asarray(states), jax.tree.map(np.asarray, outcomes)


def test_arms_are_replayed_as_by_hand_and_nothing_counts_after_the_end():
    sequence = np.random.default_rng(1).integers(0, ARMS, ROWS)
    environment = environments.logged(ACTIONS, LOSSES, propensities=np.full(ROWS, 1 / ARMS))
    assert environment.horizon == ROWS
    states, outcomes = play(environment, lambda t: jnp.asarray(sequence)[t])
    rows, losses = replayed(lambda t, row: sequence[t])
    count = len(rows)
    assert 8 < count < ROWS and (states[:count] == np.array(rows) + 1).all()
    assert (states[count:] == ROWS).all()
    np.testing.assert_array_equal(outcomes.tally.counted, np.arange(ROWS) < count)
    np.testing.assert_array_equal(outcomes.tally.suffered[:count], losses)
    assert not outcomes.tally.suffered[count:].any() and not outcomes.loss.losses[count + 1 :].any()
    total = jax.tree.map(lambda x: x.sum(), outcomes.tally)
    best = min(LOSSES[arm == ACTIONS].mean() for arm in range(ARMS))
    assert float(environment.regret(None, total)) == pytest.approx(
        losses.sum() - best * count, 1e-5
    )


def test_the_losses_of_all_arms_are_those_of_their_next_rows():
    """Also of the arms that are not played."""
    environment = environments.logged(ACTIONS, LOSSES, arms=ARMS)
    rows = jnp.arange(ROWS + 1, dtype=jnp.int32)
    step = jax.jit(jax.vmap(lambda row: environment.step(row, None, 0)[1].loss.losses))
    found = np.asarray(step(rows))
    for row, arm in np.ndindex(ROWS + 1, ARMS):
        later = [i for i in range(row, ROWS) if ACTIONS[i] == arm]
        assert found[row, arm] == (LOSSES[later[0]] if later else 0.0)


def test_policies_are_replayed_as_by_hand():
    """A policy plays the arm whose block has the largest first coordinate after a shift by t."""
    environment = environments.logged(ACTIONS, LOSSES, contexts=CONTEXTS)
    assert environment.action_set == Policies(3 * ARMS)
    weights = np.random.default_rng(2).normal(size=(ROWS, 3 * ARMS)).astype(np.float32)
    _, outcomes = play(
        environment, lambda t: lambda features: jnp.argmax(features @ jnp.asarray(weights)[t])
    )
    contexts = environments._classification.standardised(CONTEXTS)
    rows, losses = replayed(lambda t, row: np.argmax(weights[t].reshape(ARMS, 3) @ contexts[row]))
    count = len(rows)
    assert 5 < count < ROWS and outcomes.tally.counted.sum() == count
    np.testing.assert_array_equal(outcomes.tally.suffered[:count], losses)
    np.testing.assert_allclose(outcomes.loss[0][:count, 1, 3:6], contexts[rows], atol=1e-6)
    assert not outcomes.tally.suffered[count:].any()
    assert np.isfinite(environment.regret(None, jax.tree.map(np.sum, outcomes.tally)))


@pytest.mark.slow
def test_learners_with_full_information_are_refused():
    """Learners of points that see one value play, with an arm drawn from each point."""
    log = environments.logged(ACTIONS, LOSSES)
    points = domains.simplex(ARMS)
    sampled = combinators.sample_arms(learners.ftrl(ROWS, points, epsilon=1.0))
    for learner in (learners.hedge(ROWS, ARMS, epsilon=1.0), sampled):
        with pytest.raises(TypeError, match="^learner: needs the loss of every action .*functions"):
            dpjax.simulate(learner, log, jr.key(0))
    one = combinators.sample_arms(learners.scrible(ROWS, points, epsilon=1.0))
    played = jax.eval_shape(lambda key: dpjax.simulate(one, log, key), jr.key(0))
    assert played.regret.shape == (ROWS,)


@pytest.mark.slow
def test_a_learner_replays_and_its_counted_rounds_are_reported():
    learner = learners.exp3(ROWS, ARMS)
    result = dpjax.simulate(learner, environments.logged(ACTIONS, LOSSES), jr.key(0))
    assert 5 < float(result.tally.counted) < ROWS and np.isfinite(result.regret).all()


MEANS, HORIZON, TRIALS = np.array([0.2, 0.5, 0.8]), 60, 400
PIECE = 400  # rows of each trial, of which about 180 are read


@pytest.mark.slow
def test_the_loss_of_a_learner_is_that_of_a_game_with_all_losses_known():
    """Within 3 standard errors; a log of other losses is told apart."""
    rng = np.random.default_rng(3)
    actions = rng.integers(0, ARMS, TRIALS * PIECE)
    losses = (rng.random(len(actions)) < MEANS[actions]).astype(float)
    learner = learners.exp3(HORIZON, ARMS)

    def step(state, key, arm):
        losses = (jr.uniform(key, (ARMS,)) < MEANS).astype(jnp.float32)
        return state, Outcome(losses, losses[arm])

    known = Environment(lambda key: (), step, lambda state, tally: tally, Arms(ARMS))

    @jax.vmap
    def game(key):
        return dpjax.simulate(learner, known, key, checkpoints=1).tally

    real = np.asarray(jax.jit(game)(jr.split(jr.key(2), TRIALS)))

    def difference(losses):
        """Of the mean loss on pieces of a log to that of the games, in standard errors."""
        log = environments.logged(actions, losses)

        @jax.vmap
        def on_piece(trial, key):
            starts = log._replace(init=lambda key: trial * PIECE)
            tally = dpjax.simulate(learner, starts, key, checkpoints=1).tally
            return tally.suffered, tally.counted

        pieces = jnp.arange(TRIALS, dtype=jnp.int32)
        suffered, counted = jax.jit(on_piece)(pieces, jr.split(jr.key(1), TRIALS))
        assert (counted == HORIZON).all()
        error = np.hypot(np.std(suffered), np.std(real)) / np.sqrt(TRIALS)
        assert 3 * error < 0.05 * HORIZON
        return abs(float(np.mean(suffered) - np.mean(real))) / error

    assert difference(losses) < 3
    assert difference(np.minimum(losses + (actions == 0) * 0.2, 1.0)) > 3


def test_inverse_propensity_is_unbiased_and_wrong_propensities_are_not():
    """20 logs of 4000 rows; the policy prefers arm 0 and rows of kind 1 the last arm."""
    rng = np.random.default_rng(5)
    logging = np.array([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]])
    policy = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    table = np.stack([MEANS, MEANS[::-1]])
    truth = 0.5 * np.sum(policy * table)
    right, wrong, inside = [], [], []
    for _ in range(20):
        kinds = rng.integers(0, 2, 4000)
        levels = np.cumsum(logging, axis=1)[kinds]
        actions = np.sum(levels[:, :-1] < rng.random((4000, 1)), axis=1)
        losses = (rng.random(4000) < table[kinds, actions]).astype(float)
        known, chosen = logging[kinds, actions], policy[kinds, actions]
        estimate, low, high = inverse_propensity(losses, known, chosen)
        right.append(estimate)
        inside.append(low <= truth <= high)
        assert 0.0 <= low <= estimate <= high <= 1.0 and high - low < 0.2
        estimate, low, high = inverse_propensity(losses, np.full(4000, 1 / 3), chosen)
        wrong.append(estimate)
        assert not low <= truth <= high
    error = np.std(right, ddof=1) / np.sqrt(20)
    assert abs(np.mean(right) - truth) < 3 * error < 0.02
    assert abs(np.mean(wrong) - truth) > 3 * np.std(wrong, ddof=1) / np.sqrt(20)
    assert sum(inside) >= 18
