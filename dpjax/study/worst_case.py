"""A search for the worst environment of a family for a learner."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import xarray
from jax import random as jr

from dpjax.core import Array, Environment, _arrays, _check
from dpjax.environments.families import Family
from dpjax.game.batches import simulate_batches
from dpjax.game.play import simulate
from dpjax.learners.factories import taken
from dpjax.report import estimates
from dpjax.study.study import has_batches
from dpjax.study.sweep import planned, played, sweep

# The first places are drawn up to this share of the box's width outside of it, and are then clipped
# to its faces.
_BEYOND = 0.25
# New places lie around the best eighth of the last three generations. The last number is the share
# of coordinates that are redrawn.
_RECENT, _ELITE, _ANEW = 3, 8, 0.05
_LOOKS = 4  # The best candidates are replayed this many times before one is chosen.


class WorstCase(NamedTuple):
    """The worst environment that a search found, and its score on fresh trials.

    The score is the mean regret, or its ratio to a bound.
    """

    environment: Environment
    parameters: dict[str, np.ndarray]  # of the family, by name
    mean: float  # the score
    low: float  # the ends of a 95 % Student interval
    high: float
    searched: float  # the largest score during the search, biased upwards

    def __str__(self):
        score = f"{self.mean:.4g} ({self.low:.4g} to {self.high:.4g}, searched {self.searched:.4g})"
        return f"{score} at {described(self.parameters)}"


def worst_case(
    factory: Callable,
    family: Family,
    *,
    horizon: int,
    epsilon: float = np.inf,
    trials: int = 32,
    final: int = 1024,
    bound: Callable[..., Any] | None = None,
    population: int = 64,
    generations: int = 12,
    key: Array | int = 0,
) -> WorstCase:
    """Search a family for the environment with the largest mean regret of a learner.

    The search is the cross-entropy method (Rubinstein 1999). One compiled program plays all
    candidates of a generation on fresh trials. The best candidates are then played again, and the
    chosen one is reported on ``final`` further trials. So ``mean`` is not biased by the search.
    ``searched``, the largest score of the search, is biased upwards. The family's worst environment
    is at least as bad as the one that was found.

    Args:
      factory: makes the learner. It receives ``horizon`` and ``epsilon`` by name, if it takes them.
        ``functools.partial`` sets other arguments.
      family: one of :mod:`dpjax.environments.families`, or a user's own.
      horizon: T, in rounds.
      epsilon: the privacy parameter passed to the learner.
      trials: trials per candidate, at least 2.
      final: fresh trials of the environment that was found, at least 2.
      bound: function of the family's parameters, by name, that returns a bound on regret. The score
        is then regret divided by this bound.
      population: candidates in a generation, at least 2.
      generations: number of generations, at least 1.
      key: a PRNG key, or a seed, a whole number from 0 to 2^32 - 1.

    Raises:
      ValueError, TypeError: an argument is wrong, or as in :func:`dpjax.sweep`.

    Examples:
      >>> from functools import partial
      >>> factory = partial(learners.successive_elimination, arms=2)  # it explores throughout
      >>> found = dpjax.worst_case(factory, families.means(2, regret="pseudo"), horizon=64, final=8)
      >>> found.mean, sorted(found.parameters["means"].tolist())
      (32.0, [0.0, 1.0])
    """
    _check.epsilon(epsilon)
    _check.size(2, trials=trials)
    _check.size(2, final=final)
    _check.size(2, population=population)
    _check.size(1, generations=generations)
    fixed = {"horizon": _check.size(1, horizon=horizon)}
    names = set(taken(factory))
    seed = _check.key_or_seed(key=key)
    keys = iter(jr.split(seed, generations + _LOOKS + 1))
    generator = np.random.default_rng(np.asarray(jr.key_data(seed)))

    def game(point):
        arguments = fixed | {"epsilon": point["epsilon"]}
        learner = factory(**{name: arguments[name] for name in names & arguments.keys()})
        return learner, family.make(**point["parameters"])

    def points(places) -> dict[str, Any]:
        """Points of a sweep at places (P, N); 0 and 1 are the faces of the box."""
        epsilons = np.full(len(places), epsilon)
        return {"epsilon": epsilons, "parameters": _inside(family, places)}

    def scores(regret, at) -> np.ndarray:
        """The regret (P, S) of the points, or its ratio to the bound."""
        if bound is None:
            return regret
        bounds = [bound(**{name: leaf[i] for name, leaf in at["parameters"].items()})
                for i in range(len(regret))]  # fmt: skip
        with np.errstate(divide="ignore", invalid="ignore"):  # Without regret the ratio is 0.
            ratio = regret / np.asarray(bounds, np.float64)[:, None]
        return np.where(regret == 0.0, 0.0, ratio)

    first = _anywhere(generator, population, family)
    play = simulate_batches if has_batches(*game(_one(points(first)))) else simulate
    plan = planned(game, points(first), trials, seed, play, 1, None, None)

    def measured(places) -> np.ndarray:
        """The mean scores (P,) of a population on fresh trials, by one compiled program."""
        at = jax.tree.map(np.float32, points(places))
        result: Any = played(plan._replace(points=at, key=next(keys)), None, False, dict)
        return scores(result.regret[..., -1], at).mean(axis=1)

    seen = [(first, measured(first))]
    for generation in range(1, generations):
        places, values = _joined(seen[-_RECENT:])
        elite = places[np.argsort(-values)[: max(2, population // _ELITE)]]
        spread = elite.std(axis=0) / 2.0 + 0.02 * 0.8**generation
        new = elite[generator.integers(len(elite), size=population)]
        new = new + spread * generator.normal(size=new.shape)
        again = generator.random(new.shape) < _ANEW
        new = np.where(again, _anywhere(generator, population, family), new).clip(0.0, 1.0)
        seen.append((new, measured(new)))
    places, values = _joined(seen)
    best = places[np.argsort(-values)[:population]]
    looks = np.mean([measured(best) for _ in range(_LOOKS)], axis=0)
    chosen = points(best[[np.argmax(looks)]])
    result: Any = sweep(game, chosen, final, next(keys), play=play, checkpoints=1,
                        progress=False)  # fmt: skip
    fresh = xarray.DataArray(scores(result.regret[..., -1], chosen)[0], dims="trial")
    mean, low, high = (float(estimates.mean(fresh)[name]) for name in ("mean", "low", "high"))
    parameters = _one(chosen["parameters"])
    return WorstCase(family.make(**parameters), parameters, mean, low, high, float(values.max()))


def _joined(seen) -> tuple[np.ndarray, np.ndarray]:
    """The places (P, N) and scores (P,) of several generations."""
    places, values = zip(*seen, strict=True)
    return np.concatenate(places), np.concatenate(values)


def _anywhere(generator, count, family) -> np.ndarray:
    """Random places (count, N) in the box, some of them on its faces."""
    dim = sum(low.size for low, _ in _box(family).values())
    return generator.uniform(-_BEYOND, 1.0 + _BEYOND, (count, dim)).clip(0.0, 1.0)


def _box(family) -> dict[str, tuple[np.ndarray, ...]]:
    """The lowest and highest values of each parameter, broadcast to one shape."""
    box = {}
    for name, ends in family.box.items():
        what = f"the box of {name}"
        read = [_arrays.real(f"family: {what}", end, what=what) for end in ends]
        low, high = box[name] = np.broadcast_arrays(*read)
        if not np.all(low <= high):
            raise ValueError(f"family: {what} must be from low to high")
    return box


def _inside(family, places) -> dict[str, np.ndarray]:
    """The parameters, each (P, ...), at places (P, N) in [0, 1]."""
    parameters, begin = {}, 0
    for name, (low, high) in _box(family).items():
        share = places[:, begin : begin + low.size].reshape(-1, *low.shape)
        parameters[name] = low + share * (high - low)
        begin += low.size
    return parameters


def _one(points):
    """The first of the points of a sweep."""
    return jax.tree.map(lambda leaf: np.float32(leaf[0]), points)


def described(parameters: dict) -> str:
    """The parameters of a family as text, with three digits.

    Examples:
      >>> from dpjax.study.worst_case import described
      >>> described({"means": np.array([0.0, 1.0 / 3.0]), "ends": 12.0})
      'means [0.   , 0.333]; ends 12.'
    """
    return "; ".join(
        f"{name} {np.array2string(np.asarray(value), precision=3, separator=', ')}"
        for name, value in parameters.items()
    )
