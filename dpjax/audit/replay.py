"""Replays a learner on neighbouring losses, with the releases of its first run in the second."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import _check, privacy
from dpjax.audit.keys import bare, distinct, drawn, ever_bare
from dpjax.audit.pairs import Pair, check_fits, check_neighbours
from dpjax.audit.rules import RULES, draw, record
from dpjax.combinators import as_learner
from dpjax.core import Array, BatchLearner, Learner
from dpjax.engine import interpret
from dpjax.settings import in_float32

# Both runs compute actions in the same way, but may round them differently. Differences of so many
# units in the last place count as equal.
UNITS = 4.0


class Replay(NamedTuple):
    """What a replayed run shows. The checks, from ``noise_seen`` on, must all be true."""

    pure: Array  # () privacy loss of Laplace noise, draws and coins, by basic composition
    rho: Array  # () privacy loss of all releases, Gaussian noise too, in zCDP
    gaussian: Array  # () the part of rho that comes from Gaussian noise
    touched: Array  # () int32, how many releases the change of the losses reached
    noise_seen: Array  # () bool: there is a release, or nothing depends on the losses
    same_actions: Array  # () bool: actions depend on the losses through releases alone
    same_scales: Array  # () bool: scales of noise depend on the losses through releases alone
    same_keys: Array  # () bool: keys depend on the losses through releases alone
    fresh_keys: Array  # () bool: a release's key draws nothing else, and differs in another run


CHECKS = {
    "noise_seen": "no release was seen, and the state depends on the losses: noise must come from "
    "dpjax.noise to be seen",
    "same_actions": "the actions depend on the losses in another way than through the releases "
    "that were seen: noise must come from dpjax.noise to be seen, called with positional "
    "arguments, outside of loops and jax.vmap",
    "same_scales": "the law of some noise depends on the losses",
    "same_keys": "a key, or whether it is used, depends on the losses",
    "fresh_keys": "the noise of a release is known or used twice: its key draws something else "
    "too, or is the same whatever the key of the run",
}


@in_float32
def replay(learner: Learner | BatchLearner, pair: Pair, key: Array) -> Replay:
    """Runs a learner on both sequences of a pair and adds up what their difference costs.

    The second run uses the keys of the first and puts the first run's releases in place of its own.
    Both runs then differ in the losses alone, and the noise of a release has to hide the difference
    between the two values x and x' that it was added to. That costs

    - |x - x'|_1 / b for Laplace noise,
    - (|x - x'|_2 / sigma)^2 / 2 in zCDP for Gaussian noise,
    - the largest log-ratio of an outcome's probabilities for a draw,
    - for a mechanism, the change of the value times the norm of its encoder's columns over the
      scale. Changes of several values share their noise, and at most the norms add up.

    A release costs nothing if the learner makes nothing of it, that is, if no other release in its
    place (far below, far above, or the value without noise) changes the state, the action, or what
    goes into another release that is not free.

    With these releases the actions of all rounds have to be the same in both runs. The hidden state
    may differ, and so may the report, which is not released.

    The sums bound the privacy loss of the releases at these losses and this key. They show nothing
    about pairs that were not run. A difference within four units in the last place of a float32
    counts as rounding. One that noise hides does so only where it costs less than 1e-5, and one of
    an ExactSum never does. A replay sees only noise from
    :mod:`dpjax.noise`, called with positional arguments and outside of loops and ``jax.vmap``.
    Other noise shows as actions that differ.

    Args:
      learner: a Learner or BatchLearner. Its arguments may be traced.
      pair: a Pair of losses as the learner's ``feedback`` takes them, of as many rounds as the
        horizon.
      key: PRNG key of the run.

    Returns:
      A Replay, which :func:`spent` turns into an epsilon. ``replay`` may be mapped over pairs, keys
      and the learner's parameters, and compiled.

    Raises:
      ValueError: the sequences differ in shape, in no round, or in more than the learner's
        ``rounds_per_user``; are not finite (where they are not traced); or do not fit the learner.
    """
    _check.key(key=key)
    learner = as_learner(learner)
    rounds = check_neighbours(pair, learner.privacy.rounds_per_user)
    check_fits(learner, pair.losses)
    # A run with another key goes alongside, to see keys change. No round has the number 2^32 - 1.
    keys = jnp.stack([key, jr.fold_in(key, np.uint32(2**32 - 1))])
    begin = _traced(learner.init, key)
    starts, first_records = jax.vmap(lambda key: _run(begin, (jr.fold_in(key, 0),)))(keys)
    state, action = _row(starts, 0)
    seen = learner.feedback(jax.tree.map(lambda leaf: leaf[0], pair.losses), action)
    step = _traced(learner.step, state, key, seen)

    def one_round(carry, inputs):
        (states, actions), (twin, twin_action) = carry
        t, losses, others = inputs
        seen = jax.vmap(learner.feedback, (None, 0))(losses, actions)
        round_keys = jax.vmap(lambda key: jr.fold_in(key, t))(keys)
        worlds = states, round_keys, seen
        after, both = jax.vmap(lambda *world: _run(step, world))(*worlds)
        records, world = _row(both, 0), _row(worlds, 0)
        twin_world = twin, round_keys[0], learner.feedback(others, twin_action)

        # The lanes are the second run with one of its releases exchanged, for each in turn, then
        # the second run as it is, then the first run. They run side by side, so that all are
        # computed alike to the last bit.
        releases, spans, lanes = _variants(step.names, records)

        def lane(index, forced):
            chosen = jax.tree.map(
                lambda ours, theirs: jnp.where(index == lanes - 1, ours, theirs), world, twin_world
            )
            return _run(step, chosen, forced)

        found, lane_records = jax.vmap(lane)(jnp.arange(lanes), releases)
        usual, twin_records = _row((found, lane_records), -2)
        differs = jnp.stack([_differs(leaf) for leaf in _leaves(found)]).any(axis=0)
        used = _used(spans, differs, lane_records)
        costs = _costs(step.names, records, twin_records, used)
        own = _row(found, -1)
        same = _close(own[1], usual[1]), ~differs[-1]
        after = jax.tree.map(lambda ours, both: jnp.stack([ours, both[1]]), own, after)
        return (after, usual), (costs, same, drawn(step.names, both), bare(step.names, both))

    # No action follows the last losses.
    inputs = jax.tree.map(lambda leaf: leaf[:-1], (pair.losses, pair.others))
    times = jnp.arange(1, rounds)
    _, (costs, (same, idle), (rows, stale), unhidden) = lax.scan(
        one_round, (starts, (state, action)), (times, *inputs)
    )
    seen = any(name in RULES for name in (*begin.names, *step.names))
    begin_rows, begin_stale = drawn(begin.names, first_records)
    rows = jnp.concatenate([begin_rows, rows.reshape(-1, 4)])
    stale = jnp.any(stale) | begin_stale | ever_bare(unhidden)
    shared = _shared(costs.prefixes)
    return Replay(
        pure=jnp.sum(costs.pure),
        rho=jnp.sum(costs.rho) + shared[0],
        gaussian=jnp.sum(costs.gaussian) + shared[1],
        touched=jnp.sum(costs.touched),
        noise_seen=jnp.bool(seen) | jnp.all(idle),
        same_actions=jnp.all(same),
        same_scales=jnp.all(costs.same_scales),
        same_keys=jnp.all(costs.same_keys),
        fresh_keys=distinct(rows) & ~stale,
    )


def spent(replayed: Replay, delta: float) -> Array:
    """The epsilon at delta that a Replay has used up.

    It is infinite where a check fails, since the sums then leave something out. :func:`explain`
    says what, and so does a warning where the Replay is not traced.

    Args:
      replayed: a Replay, traced or NumPy, of any shape.
      delta: the delta that the learner declares, in [0, 1); 0 for pure differential privacy.
    """
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {delta}")
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in replayed):
        for sentence in explain(replayed):
            warnings.warn(f"spent is infinite: {sentence}", stacklevel=2)
    pure = jnp.where(replayed.gaussian > 0.0, jnp.inf, replayed.pure)
    found = pure
    if delta > 0.0:
        noise_alone = privacy.gaussian_epsilon(jnp.sqrt(2.0 * replayed.rho), delta)
        mixed = privacy.zcdp_epsilon(replayed.rho, delta)
        composed = jnp.where(replayed.gaussian == replayed.rho, noise_alone, mixed)
        found = jnp.minimum(pure, composed)
    passed = jnp.stack([jnp.asarray(getattr(replayed, check)) for check in CHECKS]).all(axis=0)
    return jnp.where(passed & ~jnp.isnan(found), found, jnp.inf)


def explain(replayed: Replay) -> list[str]:
    """A sentence for each check that fails somewhere, and one if no noise hides a change.

    Args:
      replayed: a Replay of any shape, not traced.
    """
    found = []
    for check, sentence in CHECKS.items():
        passed = np.asarray(getattr(replayed, check))
        if not passed.all():
            where = f" (in {(~passed).sum()} of {passed.size} replays)" if passed.ndim else ""
            found.append(sentence + where)
    if np.isinf(replayed.rho).any():
        found.append("nothing hides a change: the scale of its noise is 0 or not a number, or an "
                     "outcome has no chance on one of the sequences")  # fmt: skip
    return found


# One round of one run --------------------------------------------------------------------------


class _Traced(NamedTuple):
    program: Any  # a ClosedJaxpr
    structure: Any  # the tree structure of what it returns
    names: list  # names of its sites: releases, and what else consumes keys


def _traced(function, *arguments) -> _Traced:
    program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    return _Traced(program, jax.tree.structure(shape), interpret.names(program, draws=True))


def _run(traced, arguments, forced=None):
    """(what the function returns, records of its sites), with the releases ``forced`` if given."""

    def visit(index, name, function, inputs):
        outputs = function(*inputs)
        if name not in RULES:
            return outputs, draw(inputs[0])
        own = record(RULES[name], inputs, outputs)
        return outputs if forced is None else forced[index], own

    leaves = jax.tree.leaves(arguments)
    outputs, records = interpret.run(traced.program, leaves, visit, draws=True)
    return jax.tree.unflatten(traced.structure, outputs), records


def _row(tree, index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _variants(names, records):
    """The releases of runs that go side by side, each in a lane of its own.

    Returns:
      (releases, spans, lanes): the releases of each site, with a leading axis of lanes; for each
      site the slice of lanes in which its release is exchanged; and the number of lanes. The last
      two lanes exchange nothing.
    """
    others = [
        RULES[name].others(own) if name in RULES else []
        for name, own in zip(names, records, strict=True)
    ]
    lanes = sum(map(len, others)) + 2
    releases, spans, first = [], [], 0
    for own, mine in zip(records, others, strict=True):
        span = slice(first, first + len(mine))
        rows = [mine[lane - first] if span.start <= lane < span.stop else own.release
                for lane in range(lanes)]  # fmt: skip
        releases.append([jnp.stack(column) for column in zip(*rows, strict=True)])
        spans.append(span)
        first = span.stop
    return releases, spans, lanes


def _used(spans, differs, records) -> list:
    """Whether each release changes the state, the action, or what goes into a used one after it.

    ``differs`` (lanes,) says in which lanes the state or the action is another.
    """
    used: list = []
    for span, own in zip(reversed(spans), reversed(records), strict=True):
        used.insert(0, differs[span].any())
        for leaf in _leaves((own.value, own.scale, own.law)):
            differs = differs | (used[0] & _differs(leaf))
    return used


# What both runs differ in ----------------------------------------------------------------------


class _Costs(NamedTuple):
    pure: Array
    rho: Array
    gaussian: Array
    touched: Array
    same_scales: Array
    same_keys: Array
    prefixes: Array  # (n, 2) rho and gaussian of each release of prefix sums


def _costs(names, records, twins, used) -> _Costs:
    """The costs of one round, summed over the releases that are used."""
    nothing, same = jnp.float32(0), jnp.bool(True)
    total = _Costs(nothing, nothing, nothing, jnp.int32(0), same, same, jnp.zeros((0, 2)))
    for name, own, twin, matters in zip(names, records, twins, used, strict=True):
        if name not in RULES:
            continue
        counts = matters & own.active & twin.active
        cost = RULES[name].cost(own, twin)
        pure, rho, gaussian = (jnp.where(counts, part, 0.0) for part in cost)
        same_law = _close((own.scale, own.law), (twin.scale, twin.law))
        prefixes = jnp.stack([rho, gaussian])[None][: int(name.endswith("_prefix"))]
        # Where only one run takes a branch, the use of keys differs too.
        same_keys = jnp.all(own.key == twin.key) & (own.active == twin.active)
        total = _Costs(
            total.pure + pure,
            total.rho + rho,
            total.gaussian + gaussian,
            total.touched + (counts & (rho > 0.0)).astype(jnp.int32),
            total.same_scales & (same_law | ~counts),
            total.same_keys & same_keys,
            jnp.concatenate([total.prefixes, prefixes]),
        )
    return total


def _shared(prefixes):
    """What sums of rho and gaussian (T - 1, n, 2) miss where several values of one stream changed.

    The norms of the changes add up, and rho goes by the square of their sum.
    """
    square_of_sum = jnp.square(jnp.sum(jnp.sqrt(prefixes), axis=0))
    # Where one round changed, nothing is missing but for rounding. An infinite rho is complete.
    several = (jnp.sum(prefixes > 0.0, axis=0) > 1) & jnp.isfinite(square_of_sum)
    return jnp.sum(jnp.where(several, square_of_sum - jnp.sum(prefixes, axis=0), 0.0), axis=0)


def _differs(variants):
    """Which of the variants (V, ...) of an array differ from the last but one, (V,) bool."""
    unequal = variants != variants[-2:-1]
    return unequal.reshape(len(variants), -1).any(axis=1)


def _close(tree, other):
    """Whether two pytrees are equal, real numbers up to rounding."""
    pairs = zip(_leaves(tree), _leaves(other), strict=True)
    return jnp.all(jnp.array([jnp.all(_near(a, b)) for a, b in pairs]))


def _near(a, b):
    if jnp.issubdtype(a.dtype, jnp.inexact):
        rounding = UNITS * jnp.finfo(a.dtype).eps * jnp.maximum(jnp.abs(a), jnp.abs(b))
        return (a == b) | (jnp.isnan(a) & jnp.isnan(b)) | (jnp.abs(a - b) <= rounding)
    return a == b


def _leaves(tree):
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jr.key_data(leaf)
        yield leaf
