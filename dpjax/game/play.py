"""One game by rounds, as a pure function of a key."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.combinators import as_learner
from dpjax.core import Array, BatchLearner, Environment, Learner, Result, _check
from dpjax.engine import closure_digest
from dpjax.engine.settings import in_float32
from dpjax.game.checkpoints import Checkpoints
from dpjax.game.checks import checked_rounds
from dpjax.game.rounds import Round, one_round, start
from dpjax.maths.clipping import add_counts

# A float32 sum of n similar terms has a relative error of up to n / 2^25, which is more than a
# tenth at 4 million terms. If pieces are summed first, n is the number of rounds in a piece plus
# the number of pieces, and the error at 4 million terms is 2e-4.
PIECE = 1024


@in_float32
@closure_digest.renewable
def simulate(
    learner: Learner | BatchLearner,
    environment: Environment,
    key: Array,
    *,
    checkpoints: Checkpoints = 100,
) -> Result:
    """Play ``learner.horizon`` rounds and record the regret.

    In each round the environment steps first, then the learner. Losses outside the learner's
    declared range are clipped before the learner sees them, and counted in ``Result.clipped``. The
    learner's last action is never played. Nature and the learner have separate keys, into which the
    round is folded (0 for init). So with the same key, all learners and hyperparameters face the
    same nature.

    The function is pure and not compiled. Wrap it in ``jax.jit`` or ``jax.vmap``, or use
    :func:`dpjax.sweep`.

    Args:
      learner: a Learner or BatchLearner (which is then played round by round).
      environment: an Environment at least as long as the learner's horizon.
      key: one PRNG key, (), as ``jax.random.key`` makes, consumed.
      checkpoints: the number n of rounds at which regret is recorded, or these rounds themselves:
        (n,) increasing integers of at least 1 that end with the horizon. A number is spaced evenly,
        or geometrically from round 100 if the horizon is at least 10^6.

    Returns:
      A Result with regret (n,). Tallies are summed over pieces of 1024 rounds and then over the
      pieces, which keeps float32 sums accurate over millions of rounds.

    Raises:
      ValueError: the learner and the environment do not fit each other, the environment has fewer
        rounds than the learner plays, or an action of the first rounds is not in the action set
        (not checked in compiled or transformed code).
      TypeError: the learner, the environment or the key has another type; or one of their functions
        returns something else, changes a shape or a dtype, or branches on a traced value.

    Examples:
      >>> easy = environments.table(np.tile([0.0, 1.0], (64, 1)))  # the first arm loses nothing
      >>> result = dpjax.simulate(learners.ucb1(64, 2), easy, jax.random.key(0), checkpoints=4)
      >>> result.rounds.tolist(), bool((jnp.diff(result.regret) >= 0.0).all())
      ([16, 32, 48, 64], True)
    """
    rounds = checked_rounds(learner, environment, key, checkpoints)
    firsts = np.concatenate([[1], rounds[:-1] + 1]).astype(np.int32)
    return _segments(learner, environment, key, firsts, rounds)


@in_float32
def rounds_until(
    learner: Learner | BatchLearner, environment: Environment, key: Array, rounds: Array
) -> Result:
    """:func:`simulate` with checkpoints (n,) int32 that may be traced and may end anywhere."""
    firsts = jnp.concatenate([jnp.ones(1, jnp.int32), rounds[:-1] + 1])
    return _segments(learner, environment, key, firsts, rounds)


def _segments(learner, environment, key, firsts, rounds) -> Result:
    """Play segments of rounds, from first rounds (n,) to last rounds (n,)."""
    learner = as_learner(learner)
    keys, states = start(learner, environment, key)

    def counted_round(t, carry):
        *states, tally = carry
        states, played = one_round(learner, environment, keys, t, states)
        return *states, add_tallies(tally, (played.outcome.tally, played.clipped))

    # Each call defines a new function, because JAX caches shapes by function and ignores closures.
    _, action, environment_state = states
    outcome = jax.eval_shape(
        lambda state, action: environment.step(state, keys[0], action), environment_state, action
    )[1]
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), outcome.tally)
    zero = zero, jnp.zeros((), jnp.int32)

    def one_segment(carry, bounds):
        first, end = bounds

        def one_piece(i, carry):
            *states, total = carry
            begin = first + i * PIECE
            stop = jnp.minimum(begin + PIECE, end)
            *states, tally = lax.fori_loop(begin, stop, counted_round, (*states, zero))
            return *states, add_tallies(total, tally)

        pieces = (end - first + PIECE - 1) // PIECE
        carry = lax.fori_loop(0, pieces, one_piece, carry)
        _, _, environment_state, (total, _) = carry
        return carry, environment.regret(environment_state, total)

    carry = (*states, zero)
    bounds = jnp.asarray(firsts), jnp.asarray(rounds + 1)
    carry, regret = lax.scan(one_segment, carry, bounds)
    learner_state, _, _, (total, clipped) = carry
    regret = _check.nan_unless_sound(learner, regret)
    return Result(jnp.asarray(rounds), regret, total, learner.report(learner_state), clipped)


def add_tallies(one: tuple, other: tuple) -> tuple:
    """The sum of two pairs (tally, number of clipped losses)."""
    return jax.tree.map(jnp.add, one[0], other[0]), add_counts(one[1], other[1])


@in_float32
@closure_digest.renewable
def trajectory(
    learner: Learner | BatchLearner,
    environment: Environment,
    key: Array,
    *,
    record: Callable[[Round], Any],
) -> Any:
    """Play ``learner.horizon`` rounds as :func:`dpjax.simulate` does, and record each of them.

    Keys and game are those of ``simulate``. The records of all rounds are kept in memory, so record
    few numbers if the horizon is long.

    Args:
      learner: a Learner or BatchLearner (which is then played round by round).
      environment: an Environment at least as long as the learner's horizon.
      key: one PRNG key, (), as ``jax.random.key`` makes, consumed.
      record: a function of a :class:`dpjax.game.rounds.Round` that returns a pytree, such as
        ``lambda played: played.action``. A Round has the fields t, action, loss (the learner's
        feedback), clipped, outcome, learner and environment (their states after the round).

    Returns:
      The records with a leading axis (T,).

    Raises:
      ValueError, TypeError: as in ``simulate``; or ``record`` is not a function.

    Examples:
      >>> easy = environments.table(np.tile([0.0, 1.0], (64, 1)))
      >>> arms, seen = dpjax.trajectory(
      ...     learners.ucb1(64, 2), easy, jax.random.key(0),
      ...     record=lambda played: (played.action, played.loss),
      ... )
      >>> arms.shape, bool((arms.astype(jnp.float32) == seen).all())
      ((64,), True)
    """
    _check.function("a function of a Round", record=record)
    checked_rounds(learner, environment, key, 1)
    learner = as_learner(learner)
    keys, states = start(learner, environment, key)

    def recorded_round(states, t):
        states, played = one_round(learner, environment, keys, t, states)
        return states, record(played)

    rounds = jnp.arange(1, learner.horizon + 1, dtype=jnp.int32)
    return lax.scan(recorded_round, states, rounds)[1]
