"""Logged bandit feedback: each row has the loss of one arm, which a logging policy drew."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy
from jax import lax

from dpjax.core import Arms, Array, Environment, Numbers, Outcome, Policies, _arrays, _check
from dpjax.environments._classification import standardised
from dpjax.maths.intervals import mean_interval

# Counts of arms of a uniform log are more uneven than accepted with this probability.
_UNEVEN = 1e-9


class LogLosses(NamedTuple):
    """The losses of a round. They have no vector, since only that of the played arm is seen."""

    losses: Array  # (K,) next logged loss of each arm, 0 if there is none

    def __call__(self, arm):
        """The loss of an arm, () float32."""
        return self.losses[arm]


class LogTally(NamedTuple):
    suffered: Array  # () loss of the played arm, 0 after the end of the log
    counted: Array  # () 1, and 0 after the end of the log


def logged(
    actions: Numbers, losses: Numbers, *, arms: int | None = None, contexts: Numbers | None = None,
    propensities: Numbers | None = None,
) -> Environment:  # fmt: skip
    """Logged rounds of uniformly drawn arms, replayed for a learner.

    In each round, the log is read on to the next row whose logged arm is the arm that the learner
    plays. The learner sees the loss of this row. The rows before it are skipped, and the learner
    learns nothing from them. If the rows are i.i.d. and their arms uniform, the counted rounds have
    the law of a game with the learner (Li, Chu, Langford & Wang 2011).

    A round takes about K rows, so play a learner with a horizon of about n / K. The log ends in the
    first round whose arm is not in a later row. From then on, rounds have loss 0 and do not count.
    The field ``counted`` of the tally is the number of rounds that count.

    Learners with full information are refused, because a row has the loss of one arm. All trials
    replay the same log, so intervals over trials do not include the sampling error of the log.

    Args:
      actions: (n,) logged arms, 0 .. K - 1, each at least once.
      losses: (n,) losses of these arms in [0, 1].
      arms: K, at least 2; by default the largest logged arm plus 1.
      contexts: (n, p) features of the rows, for learners of policies. They are standardised, and
        each arm has its own coefficients, as in :func:`dpjax.environments.classification`.
      propensities: (n,) probabilities with which the arms were drawn, to check that they are 1 / K.

    Returns:
      An Environment of at most n rounds. Regret counts only counted rounds. It is relative to the
      mean logged loss of the best arm. With contexts, it is relative to a policy: it plays the arm
      with the smallest least-squares fit of the losses. Its loss is the mean over the rows that
      agree with it. Regret may be negative.

    Raises:
      ValueError: bad arrays, an arm that was never logged, or a log that is not uniform.

    Reference: Li, Chu, Langford & Wang, "Unbiased offline evaluation of contextual-bandit-based
    news article recommendation algorithms", 2011.

    Examples:
      >>> environment = environments.logged([0, 1, 1, 0], [0.5, 0.25, 0.75, 1.0])
      >>> row, outcome = environment.step(jnp.int32(0), None, 1)
      >>> int(row), float(outcome.loss(1))  # the second row is played
      (2, 0.25)
    """
    actions, losses, count = _rows(actions, losses)
    arms = int(actions.max()) + 1 if arms is None else arms
    arms = _check.arms(arms)
    tallies = np.bincount(actions, minlength=arms)
    if len(tallies) > arms or not tallies.all():
        arm = len(tallies) - 1 if len(tallies) > arms else int(np.argmin(tallies))
        raise ValueError(f"actions: arm {arm} was logged {tallies[arm]} times; actions must be "
                         f"0 .. {arms - 1}, each at least once")  # fmt: skip
    if (count + 1) * arms >= 2**31:
        raise ValueError(f"actions: (n + 1) K must be less than 2^31, got n = {count}, K = {arms}")
    _refuse_uneven(tallies, propensities, count)
    if contexts is not None:
        return _with_contexts(actions, losses, arms, contexts)
    best = float(np.min(np.bincount(actions, losses) / tallies))
    # Rows are sorted by arm, then by place in the log.
    order = np.argsort(actions, kind="stable")
    keys = jnp.asarray(actions[order] * (count + 1) + order, jnp.int32)
    firsts, ends = np.arange(arms) * (count + 1), np.cumsum(tallies)
    rows, table = jnp.asarray(order, jnp.int32), jnp.asarray(losses[order], jnp.float32)

    def step(row, key, arm):
        places = jnp.searchsorted(keys, jnp.asarray(firsts, jnp.int32) + row)
        found = places < jnp.asarray(ends)
        places = jnp.minimum(places, count - 1)
        loss = jnp.where(found, table[places], 0.0)
        following = jnp.where(found[arm], rows[places[arm]] + 1, count)
        return following, Outcome(
            LogLosses(loss), LogTally(loss[arm], found[arm].astype(jnp.float32))
        )

    return Environment(_first_row, step, _regret(best), Arms(arms), count)


def _with_contexts(actions, losses, arms, contexts) -> Environment:
    count = len(actions)
    contexts = _arrays.real("contexts", contexts)
    if contexts.ndim != 2 or len(contexts) != count or not contexts.size:
        raise ValueError(f"contexts must have shape ({count}, p), got {contexts.shape}")
    contexts = standardised(contexts)
    fits = [np.linalg.lstsq(contexts[actions == arm], losses[actions == arm], rcond=None)[0]
            for arm in range(arms)]  # fmt: skip
    agrees = np.argmin(contexts @ np.stack(fits, 1), axis=1) == actions
    best = float(losses[agrees].sum() / max(agrees.sum(), 1))
    rows, played = jnp.asarray(contexts, jnp.float32), jnp.asarray(actions, jnp.int32)
    table = jnp.asarray(losses, jnp.float32)

    def shown(row):
        return jnp.kron(jnp.eye(arms, dtype=jnp.float32), rows[jnp.minimum(row, count - 1)][None])

    def step(row, key, policy):
        def skipped(row):
            other = policy(shown(row)) != played[jnp.minimum(row, count - 1)]
            return (row < count) & other

        row = lax.while_loop(skipped, lambda row: row + 1, row)
        found = row < count
        loss = jnp.where(found, table[jnp.minimum(row, count - 1)], 0.0)
        tally = LogTally(loss, found.astype(jnp.float32))
        following = jnp.minimum(row + 1, count)
        return following, Outcome((shown(row), jnp.full(arms, loss)), tally)

    return Environment(_first_row, step, _regret(best), Policies(arms * rows.shape[1]), count)


def _first_row(key):
    return jnp.zeros((), jnp.int32)


def _regret(best):
    return lambda state, tally: tally.suffered - best * tally.counted


def _rows(actions, losses) -> tuple[np.ndarray, np.ndarray, int]:
    actions = _arrays.integers("actions", "an array (n,) of integers", actions, 1)
    losses = _arrays.real("losses", losses, 0.0, 1.0)
    if losses.shape != actions.shape:
        raise ValueError(f"losses must have shape {actions.shape} as actions, got {losses.shape}")
    if actions.min() < 0:
        raise ValueError(f"actions must be at least 0, got {actions.min()}")
    return actions.astype(np.int64), losses, len(actions)


def _refuse_uneven(tallies, propensities, count) -> None:
    """Refuse a log whose arms were not drawn uniformly."""
    arms = len(tallies)
    if propensities is not None:
        propensities = _arrays.real("propensities", propensities, 0.0, 1.0)
        if propensities.shape != (count,):
            raise ValueError(f"propensities must have shape ({count},), got {propensities.shape}")
        wrong = np.abs(propensities * arms - 1.0) > 1e-3
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(f"propensities: row {i + 1} is {propensities[i]:g}; a log is replayed "
                             f"only if all are 1 / K = {1 / arms:g}")  # fmt: skip
    spread = float(np.sum((tallies - count / arms) ** 2) / (count / arms))
    if scipy.special.chdtrc(arms - 1, spread) < _UNEVEN:
        raise ValueError(f"actions: arms were logged {min(tallies)} to {max(tallies)} times each; "
                         "a log is replayed only if its arms were drawn uniformly")  # fmt: skip


def inverse_propensity(
    losses: Numbers, propensities: Numbers, probabilities: Numbers, *, error: float = 0.05
) -> tuple[float, float, float]:
    """Estimate the mean loss of a policy from a log, which need not be uniform.

    The estimate is the mean of loss times probability / propensity. It is unbiased if the
    propensities are right and positive for each arm that the policy may play. The policy must not
    depend on these rows: fit it on others.

    Args:
      losses: (n,) logged losses in [0, 1].
      propensities: (n,) probabilities in (0, 1] with which the logged arms were drawn.
      probabilities: (n,) probabilities with which the policy plays the logged arms. For a policy
        without randomness they are 1 if it plays the logged arm, and else 0.
      error: probability that the interval does not contain the mean loss.

    Returns:
      (estimate, low, high). The interval holds for i.i.d. rows of any number
      (:func:`dpjax.maths.intervals.mean_interval`); low and high are in [0, 1].

    Raises:
      ValueError: bad arrays, of different lengths, or an error outside (0, 1).

    Examples:
      >>> from dpjax.environments.logs import inverse_propensity
      >>> actions, losses = np.array([0, 1, 1, 0]), np.array([0.5, 0.25, 0.75, 1.0])
      >>> inverse_propensity(losses, np.full(4, 0.5), actions == 1)[0]  # always arm 1
      0.5
    """
    arrays = {"losses": losses, "propensities": propensities, "probabilities": probabilities}
    read = [_arrays.real(name, value, 0.0, 1.0) for name, value in arrays.items()]
    for name, array in zip(arrays, read, strict=True):
        if array.shape != read[0].shape or array.ndim != 1 or not array.size:
            raise ValueError(f"{name} must have shape (n,), one entry for each row of the log, got "
                             f"{array.shape}")  # fmt: skip
    smallest = float(read[1].min())
    if smallest <= 0.0:
        raise ValueError(f"propensities must be greater than 0, got {smallest:g}")
    _check.inside(0.0, 1.0, error=error)
    values = read[0] * read[2] / read[1]
    low, high = mean_interval(smallest * values, 0.5 * error)
    return float(values.mean()), max(low / smallest, 0.0), min(high / smallest, 1.0)
