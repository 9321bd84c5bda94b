"""Learners that are Python classes with ``select`` and ``update``, in studies.

Such a learner cannot be traced, so a study plays it in a loop. Each trial has its own object, and
one compiled call per round plays nature in all trials.
"""

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Arms, Array, BatchLearner, Learner, Privacy, _check
from dpjax.engine import settings
from dpjax.engine.progress import Bar
from dpjax.feedback import bandit
from dpjax.game.checkpoints import Checkpoints, checkpoint_rounds
from dpjax.game.current import current
from dpjax.game.play import PIECE, add_tallies
from dpjax.game.rounds import one_round
from dpjax.store.layout import arrays_of
from dpjax.study.labelled import Played
from dpjax.study.programs import StudyProgram, columns, pairs
from dpjax.study.watched import warn_of


class Player(Protocol):
    """An object that plays one trial."""

    def select(self) -> int:
        """The arm of the next round, 0 .. K - 1."""

    def update(self, arm: int, loss: float) -> Any:
        """Learn the loss of the arm that was played."""


class _Init(NamedTuple):
    """A placeholder for the functions that such a Learner lacks."""

    name: str
    make: Callable  # seed -> Player

    def __call__(self, key):
        raise TypeError(
            f"{self.name} is a Python class and cannot be traced; Study.run plays it without a "
            "store, and audit.black_box audits it"
        )


def from_python(
    make: Callable[..., Player],
    *,
    delta: float = 0.0,
    loss_range: tuple[float, float] = (0.0, 1.0),
    model: str = "central",
) -> Callable[..., Learner]:
    """A learner factory for a Study from a Python class.

    The class has two methods: ``select()`` returns the arm of the next round, and
    ``update(arm, loss)`` receives its loss, a float. :meth:`dpjax.Study.run` makes an object for
    each trial and calls both once per round. Trial i faces the same nature as trial i of all other
    learners. It is slow: each round takes one compiled call, and two Python calls per trial.

    Args:
      make: the class, or a function that returns such an object. It receives by name those of
        ``horizon``, ``arms``, ``seed`` and the axes of the grid that it takes. ``seed`` is a whole
        number below 2^32, different in each trial. A class that takes no seed draws its own random
        numbers, which the study's key does not reproduce; some libraries always draw the same ones.
        A study warns if all trials have the same regret.
      delta: the declared delta. The declared epsilon is the ``epsilon`` of the grid. A class that
        takes no epsilon declares no privacy.
      loss_range: losses outside of it are clipped before ``update``.
      model: the declared trust model.

    Returns:
      A factory that takes ``horizon``, ``arms`` and the arguments of ``make``.

    Examples:
      >>> class Greedy:
      ...     def __init__(self, arms):
      ...         self.sums, self.pulls = np.zeros(arms), np.zeros(arms)
      ...     def select(self):
      ...         return int(np.argmin(self.sums / np.maximum(self.pulls, 1)))
      ...     def update(self, arm, loss):
      ...         self.sums[arm] += loss
      ...         self.pulls[arm] += 1
      >>> made = dpjax.Study(
      ...     {"UCB1": learners.ucb1, "greedy": dpjax.from_python(Greedy)},
      ...     {"coins": environments.bernoulli([0.1, 0.9])}, {"horizon": 32, "arms": 2}, trials=4)
      >>> data = made.run(progress=False)
      >>> data.dpjax.table()["learner"].tolist()
      ['UCB1', 'greedy']
    """
    _check.function("a class with select and update", make=make)
    name = getattr(make, "__name__", type(make).__name__)
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = {
        argument: parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for argument, parameter in inspect.signature(make).parameters.items()
        if parameter.kind in kinds
    }

    def factory(horizon, arms, **arguments):
        _check.arms(arms)
        arguments = {"horizon": horizon, "arms": arms, **arguments}
        declared = {"epsilon": _check.epsilon(arguments["epsilon"]), "delta": delta} if (
            "epsilon" in parameters) else {}  # fmt: skip
        known = {argument: value for argument, value in arguments.items() if argument in parameters}

        def player(seed):
            instance = make(**known, **({"seed": seed} if "seed" in parameters else {}))
            for method in ("select", "update"):
                if not callable(getattr(instance, method, None)):
                    raise TypeError(f"{name} must have the methods select() and update(arm, loss), "
                                    f"but has no {method}")  # fmt: skip
            return instance

        init = _Init(name, player)
        privacy = Privacy(**declared, loss_range=loss_range, model=model)
        return Learner(init, _observe, bandit, Arms(arms), horizon, privacy)

    positional = [inspect.Parameter(argument, kinds[0]) for argument in ("horizon", "arms")]
    others = parameters.keys() - {"horizon", "arms", "seed"}
    rest = [argument for word, argument in parameters.items() if word in others]
    factory.__signature__ = inspect.Signature([*positional, *rest])  # type: ignore[attr-defined]
    factory.__name__ = name
    return factory


def _observe(state, key, seen):
    """The step of a learner whose object plays: it only observes its loss."""
    return (), ()


def is_python(learner: Learner | BatchLearner) -> bool:
    """Whether a learner is a Python class."""
    return isinstance(learner.init, _Init)


def play(
    program: StudyProgram, trials: int, key: Array, checkpoints: Checkpoints, bar: Bar
) -> Played:
    """Play a program of a study whose learner is a Python class.

    Args:
      program: of the study.
      trials, checkpoints: as in the study.
      key: the study's PRNG key.
      bar: counts rounds x trials.

    Raises:
      TypeError, ValueError: an object lacks a method, or does not select an arm. Errors of the
        class itself are passed on.
    """
    with settings.of_sweep():
        game, points = program.game(), program.points()
        games = pairs(game, points)
        keys = jax.vmap(partial(jr.fold_in, key))(jnp.arange(trials))
        outputs = [_play(learner, environment, keys, checkpoints, bar)
                   for learner, environment in games]  # fmt: skip
        rounds = checkpoint_rounds(games[0][0], games[0][1], checkpoints)
    regret, *_, clipped = result = jax.tree.map(lambda *leaves: np.stack(leaves), *outputs)
    bad = np.argwhere(~np.isfinite(regret).all(axis=2)).tolist()
    least = clipped.min(axis=1).astype(float)
    warn_of(game, points, int(rounds[-1]), bad, least, stacklevel=4)
    arrays = arrays_of(result)
    same = np.flatnonzero((regret == regret[:, :1]).all(axis=(1, 2)))
    if trials > 1 and len(same):
        name = games[same[0]][0].init.name
        warnings.warn(
            f"all {trials} trials of {name} have the same regret to the last digit, so their "
            "standard error is 0; if the class draws random numbers, give it a parameter seed and "
            "pass it on to its generator",
            RuntimeWarning,
            stacklevel=4,
        )
    return Played(
        program, rounds, arrays, {"privacy": columns([learner.privacy for learner, _ in games])}
    )


@current
def _play(learner, environment, keys, checkpoints, bar) -> tuple:
    """(regret (S, n), tally, report, clipped) of all trials: a Result without its rounds."""
    nature, coins = jnp.moveaxis(jax.vmap(jr.split)(keys), 1, 0)
    seeds = jax.vmap(lambda key: jr.bits(jr.fold_in(key, 0)))(coins)
    players = [learner.init.make(seed) for seed in np.asarray(seeds).tolist()]

    def one(state, key, t, arm):
        keys, states = (key, key), ((), arm, state)  # The learner's key and state are not used.
        (*_, state), played = one_round(learner, environment, keys, t, states)
        return state, (played.outcome.tally, played.clipped), played.loss

    @jax.jit
    def all_trials(states, sums, t, arms):
        states, new, losses = jax.vmap(one, in_axes=(0, 0, None, 0))(states, nature, t, arms)
        return states, add_tallies(sums, new), losses

    regret_of = jax.jit(jax.vmap(environment.regret))
    states = jax.vmap(lambda key: environment.init(jr.fold_in(key, 0)))(nature)
    first = jax.tree.map(lambda leaf: leaf[0], states)
    zero = jax.eval_shape(one, first, nature[0], jnp.int32(1), jnp.int32(0))[1]
    zero = jax.tree.map(lambda leaf: jnp.zeros((len(players), *leaf.shape), leaf.dtype), zero)
    t, total, regret = 0, zero, []

    def select(player, t):
        count, name = learner.action_set.count, learner.init.name
        return _check.selected(player.select(), count, name, t)

    for end in checkpoint_rounds(learner, environment, checkpoints).tolist():
        while t < end:  # It sums in pieces, as dpjax.simulate does.
            piece, stop = zero, min(t + PIECE, end)
            while t < stop:
                t += 1
                arms = [select(player, t) for player in players]
                states, piece, losses = all_trials(
                    states, piece, np.int32(t), np.array(arms, np.int32)
                )
                for player, arm, loss in zip(players, arms, losses.tolist(), strict=True):
                    player.update(arm, loss)
                bar.update(len(players))
            total = add_tallies(total, piece)
        regret.append(np.asarray(regret_of(states, total[0])))
    tally, clipped = jax.tree.map(np.asarray, total)
    return np.stack(regret, axis=1), tally, (), clipped
