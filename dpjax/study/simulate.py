"""One trajectory as a pure function of a key: by rounds, by batches, or with a record."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dpjax.combinators import _returned, as_learner
from dpjax.core import Array, Batch, BatchLearner, Environment, Learner, Outcome, Result, _check
from dpjax.domains.action_sets import check_fit
from dpjax.engine import closure_digest
from dpjax.engine.settings import in_float32
from dpjax.feedback import seen_inside
from dpjax.maths.clipping import add_counts

# A float32 sum of n similar terms has a relative error of up to n / 2^25, which is more than a
# tenth at 4 million terms. If pieces are summed first, n is the number of rounds in a piece plus
# the number of pieces, and the error at 4 million terms is 2e-4.
PIECE = 1024
# From this horizon on, checkpoints are spaced geometrically, beginning at round _FIRST.
_LONG, _FIRST = 10**6, 100
# The actions of a user's learner are checked in its first rounds, in this many trials.
_TRIED_ROUNDS, _TRIED_KEYS = 32, 16
# The number of rounds at which regret is recorded, or these rounds themselves.
Checkpoints = int | Sequence[int] | np.ndarray


def checkpoint_rounds(
    learner: Learner | BatchLearner,
    environment: Environment,
    checkpoints: Checkpoints,
) -> np.ndarray:
    """The rounds at which a game records regret; the last one is the horizon.

    Args:
      learner: a Learner or BatchLearner.
      environment: an Environment.
      checkpoints: the number of rounds, or the rounds themselves. A number is spaced evenly below a
        horizon of 10^6, and otherwise geometrically from round 100.

    Returns:
      (n,) int32.

    Raises:
      ValueError: the learner and the environment do not fit each other, the environment has fewer
        rounds than the learner plays, or the checkpoints do not increase to the horizon.
      TypeError: the checkpoints are not integers.
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
        if horizon < _LONG:
            return np.array([horizon * (i + 1) // count for i in range(count)], np.int32)
        steps = np.arange(count)
        spaced = np.rint(np.geomspace(horizon, _FIRST, count)[::-1]).astype(np.int64)
        # Checkpoints are distinct rounds, and each leaves enough rounds for all later ones.
        later = np.maximum.accumulate(spaced - steps) + steps
        return np.minimum(later, horizon - steps[::-1]).astype(np.int32)
    rounds = np.asarray(checkpoints)
    if rounds.dtype.kind not in "iu" or rounds.ndim != 1:
        raise TypeError("checkpoints must be a number, or a sequence of rounds (integers)")
    if not (rounds[:1] >= 1).all() or not (np.diff(rounds) > 0).all() or rounds[-1:] != [horizon]:
        raise ValueError(
            f"checkpoints must increase from at least 1 to the horizon, {horizon}, "
            f"got {rounds.tolist()}"
        )
    return rounds.astype(np.int32)


class Round(NamedTuple):
    """The record of one round."""

    t: Array  # () int32, counted from 1
    action: Any  # the action that was played
    loss: Any  # the feedback of the learner, clipped
    clipped: Array  # () int32, number of observed losses outside the declared range
    outcome: Outcome  # returned by the environment
    learner: Any  # the learner's state after the round
    environment: Any  # the environment's state after the round


def start(learner: Learner, environment: Environment, key: Array) -> tuple[tuple, tuple]:
    """The keys and states that :func:`one_round` takes in round 1."""
    nature, coins = jr.split(key)
    learner_state, action = learner.init(jr.fold_in(coins, 0))
    return (nature, coins), (learner_state, action, environment.init(jr.fold_in(nature, 0)))


def one_round(
    learner: Learner, environment: Environment, keys: tuple[Array, Array], t: Array, states: tuple
) -> tuple[tuple, Round]:
    """Play round t: first the environment steps, then the learner.

    Args:
      learner: a Learner.
      environment: an Environment.
      keys: nature's key and the learner's key. The function folds t into both.
      t: the round, () int32.
      states: (the learner's state, its action, the environment's state) before the round.

    Returns:
      (states, Round). The states are those after the round, with the learner's next action.
    """
    nature, coins = keys
    state, action, environment_state = states
    environment_state, outcome = environment.step(environment_state, jr.fold_in(nature, t), action)
    loss, clipped = seen_inside(learner, outcome.loss, action)
    state, following = learner.step(state, jr.fold_in(coins, t), loss)
    played = Round(t, action, loss, clipped, outcome, state, environment_state)
    return (state, following, environment_state), played


def check_returned(learner: Learner | BatchLearner, environment: Environment, key: Array) -> None:
    """Check what a learner and an environment return, once, before their game is compiled.

    Raises:
      TypeError: as in ``dpjax.combinators._returned.check_game``.
      ValueError: as in :func:`check_actions`.
    """
    _returned.check_game(as_learner(learner), environment)
    check_actions(learner, environment, key)


def check_actions(learner: Learner | BatchLearner, environment: Environment, key: Array) -> None:
    """Check that a learner plays actions of its action set, in its first rounds and a few trials.

    In a compiled game JAX replaces an arm out of range by the nearest arm. The factories of
    ``dpjax.learners`` are tested, so their learners are not played. With a traced key, or in a
    function that JAX traces, nothing is checked.

    Raises:
      ValueError: an action is not in the action set, or a batch has no round.
    """
    if _check.is_tested(learner) or _check.is_traced(key):
        return
    one_by_one, actions = as_learner(learner), learner.action_set
    batches, last = isinstance(learner, BatchLearner), min(learner.horizon, _TRIED_ROUNDS)

    def play(key):
        keys, states = start(one_by_one, environment, key)

        def recorded_round(states, t):
            rounds = states[0].batch.rounds if batches else jnp.int32(1)
            states, played = one_round(one_by_one, environment, keys, t, states)
            return states, (rounds, *_returned.within(actions, played.action, played.outcome.loss))

        return lax.scan(recorded_round, states, jnp.arange(1, last + 1, dtype=jnp.int32))[1]

    keys = jax.vmap(partial(jr.fold_in, key))(jnp.arange(_TRIED_KEYS))
    rounds, present, numbers = played = jax.jit(jax.vmap(play))(keys)
    if _check.is_traced(played):
        return
    if rounds.min() < 1:
        raise ValueError(f"learner: a batch must have at least 1 round, got {rounds.min()}")
    _returned.check_within(actions, present, numbers)


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
    _check.players(learner, environment)
    _check.key(key=key)
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    check_returned(learner, environment, key)
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
    regret, total, report = _forward_only((regret, total, learner.report(learner_state)))
    return Result(jnp.asarray(rounds), regret, total, report, clipped)


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
      record: a function of a :class:`dpjax.study.simulate.Round` that returns a pytree, such as
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
    _check.players(learner, environment)
    _check.key(key=key)
    _check.function("a function of a Round", record=record)
    checkpoint_rounds(learner, environment, 1)
    check_returned(learner, environment, key)
    learner = as_learner(learner)
    keys, states = start(learner, environment, key)

    def recorded_round(states, t):
        states, played = one_round(learner, environment, keys, t, states)
        return states, record(played)

    rounds = jnp.arange(1, learner.horizon + 1, dtype=jnp.int32)
    return lax.scan(recorded_round, states, rounds)[1]


class _Progress(NamedTuple):
    learner: Any
    batch: Batch
    environment: Any
    round: Array  # () int32, rounds played
    tally: Any  # per checkpoint, (n, ...)
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
    if learner.feedback.name != "bandit":
        raise ValueError(
            "learner must have bandit feedback to be played by batches, not "
            f"{learner.feedback.name!r}"
        )
    _check.key(key=key)
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    check_returned(learner, environment, key)
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
    nature, coins = jr.split(key)
    learner_state, batch = learner.init(jr.fold_in(coins, 0))
    environment_state = environment.init(jr.fold_in(nature, 0))

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


# The tangent of ``forward_only``: it is passed on, and cannot be transposed.
tangent_p = Primitive("forward_only")
tangent_p.def_impl(lambda tangent: tangent)
tangent_p.def_abstract_eval(lambda tangent: tangent)
mlir.register_lowering(tangent_p, lambda context, tangent: [tangent])
batching.defvectorized(tangent_p)


def _forward_only(tree):
    """The pytree, unchanged; reverse-mode derivatives raise an error with an explanation.

    The rounds of ``simulate`` are a loop whose length varies between checkpoints, which JAX
    differentiates only in forward mode.
    """
    return jax.tree.map(lambda x: _kept(x) if jnp.issubdtype(x.dtype, jnp.inexact) else x, tree)


@jax.custom_jvp
def _kept(value):
    return value


@_kept.defjvp
def _pass_on(primals, tangents):
    return _kept(*primals), tangent_p.bind(*tangents)


def _refuse(cotangent, tangent):
    del cotangent, tangent
    raise TypeError(
        "simulate cannot be differentiated in reverse mode; use forward mode (jax.jacfwd, "
        "jax.jvp), or differentiate the records of dpjax.trajectory"
    )


def _linear(primals, tangents):
    return tangent_p.bind(*primals), tangent_p.bind(*tangents)


ad.primitive_jvps[tangent_p] = _linear
ad.primitive_transposes[tangent_p] = _refuse
