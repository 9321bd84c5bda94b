"""The doubling trick: a fresh learner for each epoch of a game of unknown length."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.combinators._shared import check_made, step_before
from dpjax.core import Array, Learner, Privacy, _check
from dpjax.feedback import clip_seen


class DoublingState(NamedTuple):
    """The state of :func:`doubling`.

    Examples:
      >>> learner = combinators.doubling(lambda horizon: learners.exp3(horizon, 2), 100, first=40)
      >>> state, arm = jax.eval_shape(learner.init, jax.random.key(0))
      >>> len(state.learners)  # epochs of 40 and 80 rounds
      2
    """

    round: Array  # () int32, rounds played
    learners: tuple  # the state of each epoch's learner
    first_actions: tuple  # of each


def _largest(numbers):
    """The largest of numbers that may be traced; nan if one of them is nan."""
    if any(isinstance(number, jax.Array) for number in numbers):
        return jnp.max(jnp.stack([jnp.asarray(number, jnp.float32) for number in numbers]))
    return float(np.max(numbers))


def _of_any_epoch(declared) -> Privacy:
    """The declaration for a change of any round, from the declarations of the epochs."""
    first = declared[0]
    if first.unit == "user" and first.sums is not None and first.sums.over == "prefixes":
        raise ValueError(
            "make must not declare users by the columns of a mechanism, since a user's rounds may "
            "be the first ones of several epochs"
        )
    for name in (
        "neighbours", "unit", "rounds_per_user", "rounds_per_release", "spacing", "model",
        "released", "reported", "calibration",
    ):  # fmt: skip
        values = sorted({getattr(epoch, name) for epoch in declared}, key=str)
        if len(values) > 1:
            raise ValueError(f"make must declare one {name} for all horizons, got {values}")
    lows, highs = zip(*(epoch.loss_range for epoch in declared), strict=True)
    numbers = ("epsilon", "delta", "rho", "paper_epsilon")
    return first._replace(
        **{name: _largest([getattr(epoch, name) for epoch in declared]) for name in numbers},
        # The range that no epoch clips.
        loss_range=(_largest(lows), -_largest([-high for high in highs])),
        accountant="; ".join(dict.fromkeys(epoch.accountant for epoch in declared)),
        sums=None,  # A user's rounds may be in several epochs.
    )


def doubling(make: Callable, horizon: int, *, first: int = 64) -> Learner:
    """The doubling trick: a fresh learner for each epoch of 64, 128, 256, ... rounds.

    It is for unknown horizons: the horizon determines only where the game ends. Each epoch's
    learner starts without knowledge of earlier losses.

    Args:
      make: horizon -> Learner, whose action must have one shape and dtype for all horizons.
      horizon: T, rounds to be played. The last epoch may be longer and is then cut short.
      first: rounds of the first epoch.

    Returns:
      A Learner. Its report is the tuple of the epochs' reports.

    Raises:
      ValueError, TypeError: an argument is invalid; epochs whose declarations do not combine.

    Privacy: the largest epsilon, delta and rho of the epochs. Only one epoch sees the loss of a
    round, and the others start from a state without data. So given the releases of the other
    epochs, a change of one round changes the law of only one epoch's actions (parallel composition,
    which holds for adaptive losses too). The round may belong to any epoch. If learners choose
    delta = T^-2 by their own horizon, delta is that of the shortest epoch. A factor log T would be
    needed only if all epochs read the same round.

    Regret: if that of an epoch of n rounds is at most C n^a, that of the game is at most C
    2^a / (2^a - 1) T^a up to constants.

    Reference: Auer, Cesa-Bianchi, Freund & Schapire 1995; Ene, Nguyen & Vladu 2021, who pay a
    factor O(log T) in privacy.

    Examples:
      >>> learner = combinators.doubling(lambda horizon: learners.exp3(horizon, 2), 100, first=40)
      >>> made = learner, learners.exp3(80, 2)  # as the longest epoch
      >>> [round(float(x.privacy.epsilon), 1) for x in made]
      [27.0, 27.0]
    """
    horizon, first = _check.size(1, horizon=horizon), _check.size(1, first=first)
    lengths = [first]
    while sum(lengths) < horizon:
        lengths.append(min(2 * lengths[-1], _check.LARGEST_SIZE))
    epochs = [make(length) for length in lengths]
    for learner, length in zip(epochs, lengths, strict=True):
        check_made(learner, length)
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]

    def init(key):
        starts = [epoch.init(jax.random.fold_in(key, i)) for i, epoch in enumerate(epochs)]
        states, actions = zip(*starts, strict=True)
        return DoublingState(jnp.zeros((), jnp.int32), states, actions), actions[0]

    def step(state, key, loss):
        t = state.round + 1

        def within(i):
            def play():
                seen, _ = clip_seen(epochs[i], loss)
                mine = epochs[i], state.learners[i], key, seen
                if i + 1 < len(epochs):
                    inner, action = step_before(t == ends[i], *mine, state.first_actions[i + 1])
                else:
                    inner, action = epochs[i].step(*mine[1:])
                return (*state.learners[:i], inner, *state.learners[i + 1 :]), action

            return play

        epoch = sum((t > end).astype(jnp.int32) for end in ends[:-1])
        branches = [within(i) for i in range(len(epochs))]
        learners, action = jax.lax.switch(jnp.asarray(epoch, jnp.int32), branches)
        return DoublingState(t, learners, state.first_actions), action

    return epochs[0]._replace(
        init=init,
        step=step,
        horizon=horizon,
        privacy=_of_any_epoch([epoch.privacy for epoch in epochs]),
        report=lambda state: tuple(
            epoch.report(inner) for epoch, inner in zip(epochs, state.learners, strict=True)
        ),
    )
