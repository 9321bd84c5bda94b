"""Families of environments for the search of :func:`dpjax.worst_case`.

The parameters of a family lie in a box. They are traced, so one compiled program plays all members.
``family.make`` is an environment factory for a :class:`dpjax.Study` whose grid has the parameters.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax.core import Arms, Array, Environment, Number, Numbers, Outcome, _arrays, _check
from dpjax.domains import Domain, fitting
from dpjax.environments._advice import advice
from dpjax.environments._bernoulli import bernoulli
from dpjax.environments._dueling import dueling
from dpjax.environments._glm_arms import glm_arms
from dpjax.environments._linear_losses import linear_losses
from dpjax.environments._piecewise import piecewise
from dpjax.environments.arms import Accounting, best_fixed_arm
from dpjax.environments.contextual import offered
from dpjax.maths import laws

GAPS = np.geomspace(0.01, 1.0, 16)  # the gaps at which environments that take one are played


class Family(NamedTuple):
    """A family of environments with parameters in a box.

    Examples:
      >>> family = families.Family(
      ...     lambda mean: environments.bernoulli(jnp.stack([mean, 1.0 - mean])),
      ...     {"mean": (0.0, 1.0)})
      >>> family.make(mean=jnp.float32(0.25)).action_set
      Arms(count=2)
    """

    make: Callable[..., Environment]  # takes the parameters by name, all traced float32
    box: dict[str, tuple[Numbers, Numbers]]  # parameter -> (lowest, highest), of its shape


def gaps(
    arms: int, *, losses: Literal["drawn", "constant"] = "drawn", regret: Accounting = "realised"
) -> Family:
    """Arms, the first of which is better than all others by ``gap`` in [0, 1].

    Args:
      arms: K, at least 2.
      losses: "drawn", Bernoulli losses with means (1 - gap) / 2 and (1 + gap) / 2, or "constant",
        losses of 1 - gap and 1 in every round.
      regret: for drawn losses, as in :func:`dpjax.environments.bernoulli`.

    Examples:
      >>> environment = families.gaps(3, losses="constant").make(gap=jnp.float32(0.25))
      >>> _, outcome = environment.step(environment.init(None), None, 1)
      >>> print(outcome.loss)
      [0.75 1.   1.  ]
    """
    first = np.arange(_check.arms(arms)) == 0
    _check.one_of("drawn", "constant", losses=losses)

    def make(gap):
        if losses == "constant":
            return _sequence(arms, lambda t: 1.0 - jnp.where(first, gap, 0.0))
        return bernoulli(0.5 + jnp.where(first, -0.5, 0.5) * gap, regret=regret)

    return _family(make, {"gap": (0.0, 1.0)})


def at_gaps(arms: int) -> dict[str, Callable[..., Environment]]:
    """The environments of :func:`gaps` with pseudo-regret, for a grid with the axis gap.

    Examples:
      >>> sorted(families.at_gaps(4))
      ['constant', 'drawn']
    """
    kinds: tuple[Literal["drawn", "constant"], ...] = ("drawn", "constant")
    return {losses: gaps(arms, losses=losses, regret="pseudo").make for losses in kinds}


def means(arms: int, *, regret: Accounting = "realised") -> Family:
    """Bernoulli arms with any ``means`` (K,).

    Args:
      arms: K, at least 2.
      regret: as in :func:`dpjax.environments.bernoulli`.

    Examples:
      >>> families.means(2).box["means"][1].tolist()
      [1.0, 1.0]
    """
    size = _check.arms(arms)
    return _family(partial(bernoulli, regret=regret), {"means": (np.zeros(size), np.ones(size))})


def duels(arms: int) -> Family:
    """Duels by the linear link with any mean losses, ``preferences`` (K,).

    Args:
      arms: K, at least 2.

    Examples:
      >>> family = families.duels(3)
      >>> family.make(preferences=jnp.array([0.0, 0.5, 1.0])).action_set
      Pairs(count=9)
    """
    size = _check.arms(arms)
    return _family(dueling, {"preferences": (np.zeros(size), np.ones(size))})


def changes(
    horizon: int, arms: int, *, segments: int = 2, regret: Accounting = "realised"
) -> Family:
    """Bernoulli arms with ``means`` (S, K), which change after the rounds ``ends`` (S - 1,).

    Args:
      horizon: T, in rounds.
      arms: K, at least 2.
      segments: S, at least 2.
      regret: as in :func:`dpjax.environments.piecewise`.

    Examples:
      >>> family = families.changes(100, 3)
      >>> {name: np.shape(high) for name, (low, high) in family.box.items()}
      {'means': (2, 3), 'ends': (1,)}
    """
    shape = _check.size(2, segments=segments), _check.arms(arms)

    def make(means, ends):
        return piecewise(means, [*jnp.sort(ends), horizon], regret=regret)

    ends = np.zeros(segments - 1), np.full(segments - 1, float(horizon))
    return _family(make, {"means": (np.zeros(shape), np.ones(shape)), "ends": ends})


def periodic(horizon: int, arms: int) -> Family:
    """Deterministic periodic losses, with a different period for each arm.

    An arm has loss ``levels[0]`` for the share ``duty`` of its period of 2^``octaves`` rounds,
    which begins at ``phase``, and loss ``levels[1]`` for the rest. All parameters have an entry for
    each arm. Regret is against the best fixed arm.

    Args:
      horizon: T, the longest period, in rounds.
      arms: K, at least 2.

    Examples:
      >>> environment = families.periodic(100, 2).make(
      ...     octaves=jnp.ones(2), phase=jnp.array([0.0, 0.5]), duty=jnp.full(2, 0.5),
      ...     levels=jnp.array([[1.0, 1.0], [0.0, 0.25]]))
      >>> state, first = environment.step(environment.init(None), None, 0)
      >>> state, second = environment.step(state, None, 0)
      >>> print(first.loss, second.loss)
      [1.   0.25] [0. 1.]
    """
    zeros, ones = np.zeros(_check.arms(arms)), np.ones(arms)

    def make(octaves, phase, duty, levels):
        return _sequence(
            arms, lambda t: jnp.where(_early(t, octaves, phase, duty), levels[0], levels[1])
        )

    box = {"octaves": (ones, ones * math.log2(_check.size(2, horizon=horizon)))}
    box |= dict.fromkeys(("phase", "duty"), (zeros, ones))
    return _family(make, {**box, "levels": (np.zeros((2, arms)), np.ones((2, arms)))})


class PlayedShare(NamedTuple):
    share: Array  # (K,) share of recent rounds in which each arm was played


def thresholds(arms: int) -> Family:
    """An adaptive adversary over arms: an arm's loss depends on how often it was played.

    Arm i has loss ``above[i]`` if its share of recent rounds is above ``threshold[i]``, and
    ``below[i]`` otherwise. The share is an exponential average over about 2^``octaves`` rounds.
    Regret is against the best fixed arm on the realised losses.

    Args:
      arms: K, at least 2.

    Examples:
      >>> environment = families.thresholds(2).make(
      ...     threshold=jnp.full(2, 0.6), above=jnp.ones(2), below=jnp.zeros(2), octaves=0.0)
      >>> state, first = environment.step(environment.init(None), None, 0)
      >>> state, second = environment.step(state, None, 0)
      >>> print(first.loss, second.loss)  # arm 0 was played, and becomes expensive
      [0. 0.] [1. 0.]
    """
    zeros, ones = np.zeros(_check.arms(arms)), np.ones(arms)

    def make(threshold, above, below, octaves):
        def step(state, key, arm):
            loss = jnp.where(state.share > threshold, above, below)
            played = jnp.where(jnp.arange(arms) == arm, 1.0, 0.0)
            share = state.share + (played - state.share) * jnp.exp2(-octaves)
            return PlayedShare(share), Outcome(loss, loss[arm] - loss)

        def init(key):
            return PlayedShare(jnp.full(arms, 1.0 / arms, jnp.float32))

        return Environment(init, step, best_fixed_arm, Arms(arms))

    box = dict.fromkeys(("threshold", "above", "below"), (zeros, ones))
    return _family(make, {**box, "octaves": (0.0, 10.0)})


def directions(domain: Domain, horizon: int) -> Family:
    """Linear losses on a convex set, biased in a direction that changes once.

    Losses are biased towards ``first`` (d,) up to round ``change``. Afterwards they are biased
    towards ``second`` (d,) for the share ``duty`` of each period of 2^``octaves`` rounds, and
    towards its opposite for the rest. The share ``noise`` of a direction is a standard normal draw.
    A loss is the vector of the loss set that is extreme in its direction.

    Args:
      domain: a Domain, with its own losses.
      horizon: T, in rounds.

    Examples:
      >>> families.directions(domains.ball(2), 100).box["change"]
      (0.0, 100.0)
    """
    dim, rounds = fitting(domain, None).dim, float(_check.size(2, horizon=horizon))

    def make(first, second, change, octaves, duty, noise):
        def toward(t, key, action):
            later = jnp.where(_early(t, octaves, 0.0, duty), second, -second)
            direction = jnp.where(t.astype(jnp.float32) < change, first, later)
            return (1.0 - noise) * direction + noise * laws.normal(key, (dim,))

        return linear_losses(domain, toward)

    box: dict = {name: (-np.ones(dim), np.ones(dim)) for name in ("first", "second")}
    box |= {"change": (0.0, rounds), "octaves": (1.0, math.log2(rounds))}
    return _family(make, box | {"duty": (0.0, 1.0), "noise": (0.0, 1.0)})


def reactions(domain: Domain) -> Family:
    """An adaptive adversary on a convex set: linear losses that depend on the last point.

    Losses point towards ``above`` (d,) if <``watched``, x - centre> is above ``threshold`` times
    the domain's radius for the last point x, and towards ``below`` (d,) otherwise. Regret is on the
    realised losses.

    Args:
      domain: a Domain, with its own losses.

    Examples:
      >>> sorted(families.reactions(domains.ball(2)).box)
      ['above', 'below', 'threshold', 'watched']
    """
    dim, centre = fitting(domain, None).dim, jnp.asarray(domain.centre, jnp.float32)

    def make(watched, threshold, above, below):
        def toward(t, key, action):
            seen = jnp.sum(watched * (action - centre))
            return jnp.where(seen > threshold * domain.radius, above, below)

        return linear_losses(domain, toward)

    box = {name: (-np.ones(dim), np.ones(dim)) for name in ("watched", "above", "below")}
    return _family(make, {**box, "threshold": (-1.0, 1.0)})


def contexts(dim: int, arms: int) -> Family:
    """Fresh unit vectors as arms in each round; one is best by at least ``gap``.

    Mean losses are <theta, x>, for a unit vector theta along ``parameter`` (d,). The arms are
    distributed as in :func:`dpjax.environments.gap_arms`, with two changes. ``scales[0]`` contracts
    the mean losses of the other arms towards their least one. ``scales[1:]`` scale the coordinates
    of arms orthogonal to theta; if they are unequal, the arms cover few directions. Losses are -1
    and 1, and regret is pseudo-regret.

    Args:
      dim: d, at least 2.
      arms: K, at least 2.

    Examples:
      >>> box = families.contexts(3, 10).box
      >>> box["gap"], box["scales"][0].tolist()
      ((0.0, 1.499), [0.01, 0.01, 0.01])
    """
    ones = np.ones(_check.size(2, dim=dim))
    box = {"gap": (0.0, 1.499), "parameter": (-ones, ones), "scales": (0.01 * ones, ones)}
    return _family(partial(offered, dim, _check.arms(arms)), box)


def advised(arms: int, experts: int) -> Family:
    """Expert advice of any quality ``informative`` (N,), on Bernoulli arms with any ``means`` (K,).

    Args:
      arms: K, at least 2.
      experts: N, at least 2.

    Examples:
      >>> {name: np.shape(high) for name, (low, high) in families.advised(3, 5).box.items()}
      {'means': (3,), 'informative': (5,)}
    """
    sizes = {"means": _check.arms(arms), "informative": _check.size(2, experts=experts)}

    def make(means, informative):
        return advice(means, experts, informative=informative)

    return _family(make, {name: (np.zeros(size), np.ones(size)) for name, size in sizes.items()})


def logistic(dim: int, arms: int, *, longest: Number = 1.0) -> Family:
    """Logistic losses of fresh unit vectors, for a parameter of any length ``scale``.

    The direction of the parameter is drawn, as in :func:`dpjax.environments.glm_arms`, because it
    does not matter to rotation-invariant learners.

    Args:
      dim: d, dimension of an arm's features.
      arms: K, at least 2.
      longest: the largest length.

    Examples:
      >>> families.logistic(2, 2).make(scale=jnp.float32(0.5)).action_set
      Policies(dim=2, arms=None)
    """
    dim, arms = _check.size(1, dim=dim), _check.arms(arms)
    _check.inside(0.0, np.inf, longest=longest)

    def make(scale):
        return glm_arms(dim, arms, scale=scale)

    return _family(make, {"scale": (1e-3 * longest, longest)})


def _family(make, box) -> Family:
    """The family whose factory reads its parameters as float32 arrays of the shapes of the box."""

    def read(name, value):
        if not _check.is_traced(value):
            value = jnp.asarray(_arrays.real(name, value), jnp.float32)
        shape = np.shape(box[name][1])
        if value.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {value.shape}")
        return value

    signature = inspect.signature(make)

    @wraps(make)
    def reading(*arguments, **keywords):
        parameters = signature.bind(*arguments, **keywords).arguments
        return make(**{
            name: read(name, value) if name in box else value for name, value in parameters.items()
        })  # fmt: skip

    return Family(reading, box)


def _sequence(arms, losses) -> Environment:
    """An oblivious environment with losses (K,) in rounds t = 0, 1, ...."""

    def step(t, key, arm):
        loss = losses(t)
        return t + 1, Outcome(loss, loss[arm] - loss)

    return Environment(lambda key: jnp.zeros((), jnp.int32), step, best_fixed_arm, Arms(arms))


def _early(t, octaves, phase, duty):
    """Whether round t is in the first part of its period, of share ``duty``."""
    periods = t.astype(jnp.float32) * jnp.exp2(-octaves) + phase
    return periods - jnp.floor(periods) < duty
