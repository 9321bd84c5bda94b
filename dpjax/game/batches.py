"""A game by batches: a whole batch of rounds at a time."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax.combinators import _returned
from dpjax.core import Array, Batch, BatchLearner, Environment, PyTree, Result, _check
from dpjax.engine import closure_digest
from dpjax.engine.settings import in_float32
from dpjax.feedback import seen_inside
from dpjax.game.checkpoints import Checkpoints
from dpjax.game.checks import checked_rounds
from dpjax.game.rounds import start


class _Progress(NamedTuple):
    learner: PyTree
    batch: Batch
    environment: PyTree
    round: Array  # () int32, rounds played
    tally: PyTree  # per checkpoint, (n, ...)
    clipped: Array  # () int32


@in_float32
@closure_digest.renewable
def simulate_batches(
    learner: BatchLearner,
    environment: Environment,
    key: Array,
    *,
    checkpoints: Checkpoints = 100,
) -> Result:
    """Play one trajectory, a whole batch of rounds at a time.

    The environment must have i.i.d. rounds, that is, a ``batch``. One draw gives the total loss of
    a batch. Results are exact in law at the ends of batches. Within a batch the tally grows
    linearly, which is exact for pseudo-regret. Time grows with the number of batches, not with the
    horizon: with growing batches, 10^9 rounds take a few dozen steps.

    Keys are those of :func:`dpjax.simulate`. Trajectories differ from those of ``simulate`` but
    have the same law.

    Args:
      learner: a BatchLearner, with a horizon below 2^31.
      environment: an Environment whose ``batch`` is not None.
      key: one PRNG key, (), as ``jax.random.key`` makes, consumed.
      checkpoints: the number n of rounds at which regret is recorded, or these rounds themselves:
        (n,) increasing integers of at least 1 that end with the horizon. A number is spaced evenly,
        or geometrically from round 100 if the horizon is at least 10^6.

    Returns:
      A Result with regret (n,).

    Raises:
      TypeError, ValueError: the learner does not play in batches or has more than bandit feedback;
        or the environment does not fit it, is shorter than its horizon, or has rounds that are not
        i.i.d.

    Examples:
      >>> learner = learners.successive_elimination(10**6, 2, epsilon=1.0)
      >>> losses = environments.bernoulli([0.2, 0.8], regret="pseudo")
      >>> result = dpjax.simulate_batches(learner, losses, jax.random.key(0))  # a few dozen steps
      >>> result.regret.shape, bool(result.regret[-1] < 0.01 * 10**6)
      ((100,), True)
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
    if learner.feedback.kind != "bandit":
        raise ValueError(
            "learner must have bandit feedback to be played by batches, not "
            f"{learner.feedback.name!r}"
        )
    rounds = checked_rounds(learner, environment, key, checkpoints)
    _returned.check_batch(learner, environment)
    return _batches(learner, environment, key, rounds, learner.horizon)


@in_float32
def batches_until(
    learner: BatchLearner, environment: Environment, key: Array, rounds: Array
) -> Result:
    """:func:`simulate_batches` with checkpoints (n,) int32 that may be traced."""
    return _batches(learner, environment, key, rounds, rounds[-1])


def _batches(learner, environment, key, rounds, horizon) -> Result:
    """Play batches until the horizon, with checkpoints at the rounds (n,)."""
    play_batch = environment.batch
    marks, none = jnp.asarray(rounds), jnp.zeros((), jnp.int32)
    see = partial(seen_inside, learner)
    (nature, coins), (learner_state, batch, environment_state) = start(learner, environment, key)

    def one_batch(progress):
        length = jnp.clip(progress.batch.rounds, 1, horizon - progress.round)
        end = progress.round + length
        # If the horizon cuts a batch short, the learner sees none of it, and no loss is drawn.
        unfinished = length < progress.batch.rounds
        environment_state, (total, clipped), tally_of_one = play_batch(
            progress.environment,
            jr.fold_in(nature, end),
            progress.batch.action,
            jnp.where(unfinished, 0, length),
            see,
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
        clipped = progress.clipped + clipped.whole
        return _Progress(learner_state, batch, environment_state, end, tally, clipped)

    one = jax.eval_shape(
        lambda: play_batch(environment_state, nature, batch.action, batch.rounds, see)
    )[2]
    zero = jax.tree.map(lambda x: jnp.zeros((len(rounds), *x.shape), x.dtype), one)
    last = lax.while_loop(
        lambda progress: progress.round < horizon,
        one_batch,
        _Progress(learner_state, batch, environment_state, none, zero, none),
    )
    regret = jax.vmap(lambda tally: environment.regret(last.environment, tally))(last.tally)
    regret = _check.nan_unless_sound(learner, regret)
    tally = jax.tree.map(lambda x: x[-1], last.tally)
    return Result(marks, regret, tally, learner.report(last.learner), last.clipped)
