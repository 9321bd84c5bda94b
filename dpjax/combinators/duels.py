"""A learner of duels from two bandit learners."""

from collections.abc import Callable
from typing import NamedTuple

import jax

from dpjax.combinators._shared import check_made
from dpjax.combinators.batches import as_learner
from dpjax.core import Arms, Learner, Number, Pairs, PyTree, _check
from dpjax.feedback import clip_seen


class Players(NamedTuple):
    """The states, or the reports, of the two players of :func:`sparring`.

    Examples:
      >>> learner = combinators.sparring(learners.batched_bandit, 1000, 4, epsilon=1.0)
      >>> state, pair = jax.eval_shape(learner.init, jax.random.key(0))
      >>> state._fields
      ('row', 'column', 'pair')
    """

    row: PyTree
    column: PyTree
    pair: PyTree = ()  # the current pair, () int32


def sparring(make: Callable, horizon: int, arms: int, *, epsilon: Number) -> Learner:
    """Play duels with two bandit learners: one chooses the row player, the other the column player.

    If the row player loses the share b of a duel, the first learner sees the loss b of its arm, and
    the second sees the loss 1 - b.

    Args:
      make: called once as ``make(horizon, arms, epsilon=epsilon / 2)``, such as
        ``learners.batched_bandit``; returns a Learner or BatchLearner over arms with bandit
        feedback and losses in [0, 1]. Both players are copies of it, with independent draws.
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.

    Returns:
      A Learner that plays pairs (:class:`dpjax.core.Pairs`), for example on
      :func:`dpjax.environments.dueling`. Its report contains the reports of both players.

    Raises:
      ValueError, TypeError: an argument is invalid; the learner has other actions, feedback or
        losses, or neighbours "zero_out" (a loss of 0 of one player is a loss of 1 of the other).

    Privacy: twice the epsilon, delta and rho of a player, since both players see each duel. With
    epsilon / 2 for each player this is epsilon. The losses of a player depend on the other's
    actions, so its privacy has to hold for adaptively chosen losses. Two such concurrent learners
    compose like two sequential mechanisms (Vadhan & Wang 2021, as recalled).

    Regret: let P_ij = (1 + m_j - m_i) / 2. Against any column player, the expected loss of arm i as
    row player exceeds that of the best arm by (m_i - m_b) / 2. The same holds for column players.
    So the sum of both players' regrets is the regret "utility" of
    :func:`dpjax.environments.dueling`, in expectation. Each player faces an adaptive adversary, so
    bounds for oblivious losses are only heuristic here.

    Reference: Ailon, Karnin & Joachims, "Reducing dueling bandits to cardinal bandits", 2014
    (Sparring), as recalled.

    Examples:
      >>> learner = combinators.sparring(learners.batched_bandit, 1000, 4, epsilon=1.0)
      >>> float(learner.privacy.epsilon), learner.action_set
      (1.0, Pairs(count=16))
    """
    horizon, arms = _check.size(1, horizon=horizon), _check.arms(arms)
    epsilon = _check.epsilon(epsilon)
    _check.function("a factory of bandit learners, such as learners.batched_bandit", make=make)
    player = as_learner(make(horizon, arms, epsilon=0.5 * epsilon))
    check_made(player, horizon)
    if player.action_set != Arms(arms) or player.feedback.kind != "bandit":
        raise ValueError(f"make must return a learner of {arms} arms with bandit feedback")
    declared = player.privacy
    if tuple(declared.loss_range) != (0.0, 1.0) or declared.neighbours != "replace":
        raise ValueError("make must return a learner for replaced losses in [0, 1]")

    def paired(row, column):
        return Players(row[0], column[0], row[1] * arms + column[1]), row[1] * arms + column[1]

    def init(key):
        row_key, column_key = jax.random.split(key)
        return paired(player.init(row_key), player.init(column_key))

    def step(state, key, loss):
        row_key, column_key = jax.random.split(key)
        other, _ = clip_seen(player, 1.0 - loss)
        return paired(
            player.step(state.row, row_key, loss), player.step(state.column, column_key, other)
        )

    def report(state):
        return Players(player.report(state.row), player.report(state.column))

    twice = declared._replace(
        reported=(),
        epsilon=2.0 * declared.epsilon, delta=2.0 * declared.delta, rho=2.0 * declared.rho,
        accountant=f"{declared.accountant}; twice, for two players", sums=None,
    )  # fmt: skip
    return player._replace(
        init=init, step=step, report=report, action_set=Pairs(arms * arms), privacy=twice
    )
