"""Batch play: algorithms that play one action for many rounds and then read one sum."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import _check
from dpjax.action_sets import check_fit
from dpjax.core import Array, Batch, BatchLearner, Environment, Learner, Result
from dpjax.maths import exact_sums
from dpjax.settings import in_float32


def checkpoint_rounds(learner, environment, checkpoints) -> np.ndarray:
    """The rounds at which a game records regret: as given, or that many, evenly spaced.

    The last one is the horizon. Also refuses a game that cannot be played, or not to the end.
    """
    check_fit(learner, environment)
    horizon = learner.horizon
    _check.size(1, horizon=horizon)
    if environment.horizon is not None and environment.horizon < horizon:
        raise ValueError(
            f"horizon: the learner plays {horizon} rounds, "
            f"but the environment has only {environment.horizon}"
        )
    if np.ndim(checkpoints) == 0:
        count = min(_check.size(1, checkpoints=checkpoints), horizon)
        return np.array([horizon * (i + 1) // count for i in range(count)], np.int32)
    rounds = np.asarray(checkpoints)
    if rounds.dtype.kind not in "iu" or rounds.ndim != 1:
        raise TypeError("checkpoints must be a number, or a sequence of rounds (integers)")
    if not (rounds[:1] >= 1).all() or not (np.diff(rounds) > 0).all() or rounds[-1:] != [horizon]:
        raise ValueError(
            f"checkpoints must increase from at least 1 to the horizon, {horizon}, "
            f"got {rounds.tolist()}"
        )
    return rounds.astype(np.int32)


class EveryRoundState(NamedTuple):
    learner: Any  # the batch learner's state
    batch: Batch  # in play
    played: Array  # () int32, rounds of it that were played
    total: Any  # what they revealed, with an ExactSum in place of each leaf


def every_round(batch_learner) -> Learner:
    """The same algorithm as a Learner, which any environment can play round by round.

    The batch learner steps with the key of the round at which its batch ends. What a round adds
    to the cost of a batch step is a counter and a sum; under vmap with differing batch lengths
    the batch step itself is computed in every round, so it has to be cheap.
    """

    def begin(state, batch):
        nothing = jax.tree.map(lambda leaf: exact_sums.nothing(jnp.shape(leaf)), batch_learner.zero)
        return EveryRoundState(state, batch, jnp.zeros((), jnp.int32), nothing), batch.action

    def init(key):
        return begin(*batch_learner.init(key))

    def step(state, key, loss):
        total = jax.tree.map(
            lambda seen, so_far: exact_sums.add(so_far, exact_sums.of(seen)), loss, state.total
        )
        state = state._replace(played=state.played + 1, total=total)
        return lax.cond(
            state.played >= state.batch.rounds,
            lambda: begin(*batch_learner.step(state.learner, key, total)),
            lambda: (state, state.batch.action),
        )

    return Learner(
        init=init,
        step=step,
        feedback=batch_learner.feedback,
        action_set=batch_learner.action_set,
        horizon=batch_learner.horizon,
        privacy=batch_learner.privacy,
        report=lambda state: batch_learner.report(state.learner),
    )


def as_learner(learner) -> Learner:
    """A Learner as it is, a BatchLearner played round by round."""
    return every_round(learner) if isinstance(learner, BatchLearner) else learner


class _Progress(NamedTuple):
    learner: Any
    batch: Batch
    environment: Any
    round: Array  # () int32, rounds played
    tally: Any  # per checkpoint, (n, ...)


@in_float32
def simulate_batches(learner, environment: Environment, key, *, checkpoints=100) -> Result:
    """One trajectory, a whole batch of rounds at a time.

    Needs an environment with i.i.d. rounds (one that has ``batch``): the sum of a batch is one
    draw, exact in law at the ends of batches. Between them the tally grows in proportion, which
    is exact where it is the gap of the arm (pseudo-regret). Time grows with the number of
    batches, not with the horizon: 10^9 rounds are no more than a few dozen steps for an
    algorithm with growing batches.

    Keys are those of :func:`dpjax.simulate`; the trajectories are others, equal in law.

    Args:
      learner: a BatchLearner, with a horizon below 2^31.
      environment: an Environment whose ``batch`` is not None.
      key: PRNG key, consumed.
      checkpoints: at how many evenly spaced rounds regret is recorded, or these rounds themselves,
        the last one the horizon.

    Returns:
      A Result, with regret (n,).

    Raises:
      TypeError, ValueError: the learner does not play in batches or has more than bandit feedback,
        the environment's rounds are not i.i.d., or it is shorter than the learner's horizon.
    """
    if not isinstance(learner, BatchLearner):
        raise TypeError(
            f"learner must be a BatchLearner to be played by batches, got {type(learner).__name__}"
        )
    _check.players(learner, environment)
    if environment.batch is None:
        raise ValueError(
            "environment has no batch play (its rounds are not i.i.d., or its regret is the "
            'realised one: use bernoulli(means, regret="pseudo"), or simulate)'
        )
    _check.key(key=key)
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    marks = jnp.asarray(rounds)
    nature, coins = jr.split(key)
    learner_state, batch = learner.init(jr.fold_in(coins, 0))
    environment_state = environment.init(jr.fold_in(nature, 0))

    def one_batch(progress):
        length = jnp.clip(progress.batch.rounds, 1, learner.horizon - progress.round)
        end = progress.round + length
        # A batch that the horizon cuts short teaches the learner nothing: its losses are not drawn.
        unfinished = length < progress.batch.rounds
        environment_state, total, tally_of_one = environment.batch(
            progress.environment,
            jr.fold_in(nature, end),
            progress.batch.action,
            jnp.where(unfinished, 0, length),
            learner.feedback,
        )
        overlap = jnp.clip(marks - progress.round, 0, length).astype(jnp.float32)
        tally = jax.tree.map(
            lambda so_far, one: so_far + jnp.tensordot(overlap, one, axes=0),
            progress.tally,
            tally_of_one,
        )
        learner_state, batch = learner.step(progress.learner, jr.fold_in(coins, end), total)
        learner_state = jax.tree.map(
            lambda new, old: jnp.where(unfinished, old, new), learner_state, progress.learner
        )
        return _Progress(learner_state, batch, environment_state, end, tally)

    if any(jnp.shape(leaf) for leaf in jax.tree.leaves(learner.zero)):
        raise ValueError("learner must have bandit feedback to be played by batches")
    one = jax.eval_shape(
        lambda: environment.batch(
            environment_state, nature, batch.action, batch.rounds, learner.feedback
        )
    )[2]
    zero = jax.tree.map(lambda x: jnp.zeros((len(rounds), *x.shape), x.dtype), one)
    last = lax.while_loop(
        lambda progress: progress.round < learner.horizon,
        one_batch,
        _Progress(learner_state, batch, environment_state, jnp.zeros((), jnp.int32), zero),
    )
    regret = jax.vmap(lambda tally: environment.regret(last.environment, tally))(last.tally)
    tally = jax.tree.map(lambda x: x[-1], last.tally)
    return Result(marks, regret, tally, learner.report(last.learner))
