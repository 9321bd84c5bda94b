"""A learner that plays in batches, and a batch learner that plays round by round."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from dpjax.combinators import _returned
from dpjax.combinators._shared import check_learner
from dpjax.core import Array, Batch, BatchLearner, Learner, Number, PyTree, _check
from dpjax.domains.action_sets import example_loss
from dpjax.feedback import seen_inside
from dpjax.maths import exact_sums


def minibatch(learner: Learner, horizon: int, tau: Number) -> BatchLearner:
    """Play each action of the base for tau rounds, and show the base their average loss.

    Args:
      learner: the base, a Learner that sees a loss, or a vector of losses, in each round. It plays
        ceil(T / tau) batches, and its horizon must be at least this number.
      horizon: T, rounds.
      tau: rounds in a batch, 1 <= tau; may be traced.

    Returns:
      A BatchLearner. The base never sees an incomplete last batch.

    Raises:
      ValueError, TypeError: an argument is invalid; the base is too short, sees more than losses,
        declares users with rounds a fixed distance apart, or declares neighbours other than
        "replace" (an average with one loss of 0 is not 0).

    Privacy: that of the base, whose losses are the averages. Released values: actions 1..T. A
    replaced round changes one average. A trusted party must see the losses of a batch to average
    them, so the local, the shuffle and the distributed model become the central one. Integer noise
    of the base also hides averages, since it is added to sums that are rounded to integers. If the
    base uses the smaller sensitivity 1 / tau of an average, the caller must replace the
    declaration.

    Reference: Arora, Dekel & Tewari, "Online bandit learning against an adaptive adversary:
    from regret to policy regret", 2012, Algorithm 1.

    Examples:
      >>> batches = combinators.minibatch(learners.exp3(100, 4), 1000, tau=10)
      >>> state, batch = jax.jit(batches.init)(jax.random.key(0))
      >>> int(batch.rounds), batches.horizon
      (10, 1000)
    """
    check_learner(learner, Learner)
    if learner.feedback.losses is not True:
        raise ValueError(
            "learner must see only losses, which can be averaged; its feedback is "
            f"{learner.feedback.name!r}"
        )
    horizon = _check.size(1, horizon=horizon)
    _check.between(1.0, jnp.inf, tau=tau)
    if not _check.is_traced(tau):
        batches = -(-horizon // int(min(float(tau), horizon)))
        if batches > learner.horizon:
            raise ValueError(
                f"tau: the learner must have a horizon of {batches}, the batches of {tau} rounds "
                f"in {horizon} rounds, but it has {learner.horizon}"
            )
    rounds = jnp.asarray(jnp.minimum(tau, horizon), jnp.int32)
    declared = learner.privacy._replace(sums=None)  # The sums are now of means of batches.
    if declared.spacing is not None:
        raise ValueError(
            "learner must not declare users whose rounds are a fixed distance apart, since batches "
            "change that distance"
        )
    if declared.neighbours != "replace":
        raise ValueError(
            f"learner must be for neighbours 'replace', not {declared.neighbours!r}: an average "
            "with one loss of 0 is not 0"
        )
    if declared.model not in ("central", "joint"):
        declared = declared._replace(model="central", released="actions 1..T")

    def init(key):
        state, action = learner.init(key)
        return state, Batch(action, rounds)

    def step(state, key, total):
        # Each loss has been clipped. An average of bits is not a bit, so bases for bits round their
        # sums.
        state, action = learner.step(state, key, exact_sums.mean(total, rounds))
        return state, Batch(action, rounds)

    # The fields of the two kinds of learners are the same.
    return BatchLearner(*learner._replace(init=init, step=step, horizon=horizon, privacy=declared))


class EveryRoundState(NamedTuple):
    """The state of :func:`dpjax.every_round`."""

    learner: PyTree  # the batch learner's state
    batch: Batch  # the current one
    played: Array  # () int32, its played rounds
    total: PyTree  # the sum of their feedback, with an ExactSum as each leaf


def every_round(batch_learner: BatchLearner) -> Learner:
    """Convert a batch learner to a Learner, which plays any environment round by round.

    The batch learner steps with the key of the round in which its batch ends. Other rounds need
    only a counter and a sum. But under vmap with batches of different lengths, the batch step is
    computed in every round, so it has to be cheap.

    Args:
      batch_learner: a BatchLearner of any horizon, in rounds.

    Raises:
      TypeError: it is not a BatchLearner.

    Examples:
      >>> batches = learners.sequential_halving(1000, 4, epsilon=1.0)
      >>> state, batch = batches.init(jax.random.key(0))
      >>> state, arm = dpjax.every_round(batches).init(jax.random.key(0))
      >>> int(batch.rounds), int(arm) == int(batch.action)  # the arm of so many rounds
      (125, True)
    """
    example = "learners.sequential_halving(horizon, arms, epsilon=1.0)"
    _check.built(BatchLearner, example, batch_learner=batch_learner)

    def begin(state, batch):
        loss = example_loss(batch_learner.action_set)
        seen, _ = jax.eval_shape(partial(seen_inside, batch_learner), loss, batch.action)
        nothing = jax.tree.map(lambda leaf: exact_sums.nothing(leaf.shape), seen)
        return EveryRoundState(state, batch, jnp.zeros((), jnp.int32), nothing), batch.action

    def init(key):
        return begin(*_returned.first(batch_learner, key))

    def step(state, key, loss):
        total = jax.tree.map(
            lambda seen, so_far: exact_sums.add(so_far, exact_sums.of(seen)), loss, state.total
        )
        state = state._replace(played=state.played + 1, total=total)
        return lax.cond(
            state.played >= state.batch.rounds,
            lambda: begin(
                *_returned.following(batch_learner, state.learner, state.batch, key, total)
            ),
            lambda: (state, state.batch.action),
        )

    def report(state):
        return batch_learner.report(state.learner)

    return Learner(*batch_learner._replace(init=init, step=step, report=report))


def as_learner(learner: Learner | BatchLearner) -> Learner:
    """A Learner unchanged, or a BatchLearner played round by round.

    Examples:
      >>> made = learners.exp3(1000, 4), learners.sequential_halving(1000, 4, epsilon=1.0)
      >>> [type(x).__name__ for x in made]
      ['Learner', 'BatchLearner']
      >>> [type(combinators.as_learner(x)).__name__ for x in made]
      ['Learner', 'Learner']
    """
    return every_round(learner) if isinstance(learner, BatchLearner) else learner
