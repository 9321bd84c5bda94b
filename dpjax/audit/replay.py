"""Replay: the same run twice, on neighbouring losses, with the first run's releases."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import exact_sums, interpret, privacy
from dpjax.audit.pairs import check_neighbours
from dpjax.batches import as_learner
from dpjax.core import Array


class Replay(NamedTuple):
    """What a replayed run shows. The checks are booleans, and all are to be true."""

    pure: Array  # () privacy loss by basic composition: Laplace noise, draws and coins
    rho: Array  # () the same as zCDP, with Gaussian noise
    gaussian: Array  # () the part of rho that is Gaussian noise
    touched: Array  # () int32, releases into which the change of the losses went
    same_actions: Array  # () actions depend on the losses through releases alone
    same_scales: Array  # () no scale depends on the losses other than through releases
    same_keys: Array  # () no key does
    fresh_keys: Array  # () no key draws twice in the steps (what ``init`` draws is not looked at)


class _Record(NamedTuple):
    active: Array  # () bool: the branch was taken
    value: Array  # what noise was added to; the probabilities of a draw
    scale: Array  # of the noise, times the mechanism's sensitivity; 1 for a draw
    key: Array  # its data
    release: Array


def replay(learner, pair, key) -> Replay:
    """Runs a learner on both sequences of a pair and adds up what their difference costs.

    The second run uses the keys of the first and, in place of its own releases, those of the first.
    All that a release depends on is then the same but for the losses, and the difference
    of what noise was added to is what the noise has to hide: |x - x'|_1 / b for Laplace noise,
    (|x - x'|_2 / sigma)^2 / 2 in zCDP for Gaussian noise, the largest log-ratio of an outcome's
    probabilities for a draw, and for a mechanism the change of the value times the norm of its
    encoder's columns over the scale. A release costs only where something is made of it: a
    different release, in its place, changes the state or the action.

    The sums bound the privacy loss of the releases at these losses, this key, and no other:
    nothing is shown about pairs that were not run. Differences within four units in the last place
    of a float32 are taken for rounding: a change of 1 in a sum of 2 million is not seen, but in an
    ExactSum. A release within a loop is not seen, and shows as actions that differ.

    Args:
      learner: a Learner or BatchLearner. Its arguments may be traced.
      pair: a Pair of losses as the learner's ``feedback`` takes them, T rounds, no more than the
        horizon.
      key: of the run.

    Returns:
      A Replay. May be mapped over pairs, keys and the learner's parameters, and compiled.

    Raises:
      ValueError: the sequences differ in shape, in no round or in several (where they are not
        traced), or are longer than the horizon.
    """
    learner = as_learner(learner)
    rounds = check_neighbours(pair)
    if rounds > learner.horizon:
        raise ValueError(f"pair: {rounds} rounds are more than the horizon, {learner.horizon}")
    state, action = learner.init(jr.fold_in(key, 0))
    first = jax.tree.map(lambda leaf: leaf[0], pair.losses)
    seen = jax.eval_shape(learner.feedback, first, action)
    step, shape = jax.make_jaxpr(learner.step, return_shape=True)(state, key, seen)
    structure = jax.tree.structure(shape)
    names = interpret.names(step)

    def play(state, key, seen, forced):
        """((state, action), records), with releases forced by functions of (index, release)."""

        def visit(index, name, function, inputs):
            (release,) = function(*inputs)
            record = _record(name, inputs, release)
            return [forced(index, release)], record

        outputs, records = interpret.run(step, jax.tree.leaves((state, key, seen)), visit)
        return jax.tree.unflatten(structure, outputs), records

    def one_round(carry, inputs):
        state, action, twin, twin_action = carry
        t, losses, others = inputs
        round_key = jr.fold_in(key, t)
        seen, twin_seen = learner.feedback(losses, action), learner.feedback(others, twin_action)
        after, records = play(state, round_key, seen, lambda index, release: release)

        # The second run, and what it would have been with each release, in turn, another one.
        # All side by side, so that they are computed alike to the last bit.
        def second(variant):
            def forced(index, _):
                release = records[index].release
                sign = jnp.where(variant % 2 == 0, -1, 1)
                other = _other(names[index], release, sign)
                return jnp.where(variant // 2 == index, other, release)

            return play(twin, round_key, twin_seen, forced)

        variants, twin_records = jax.vmap(second)(jnp.arange(2 * len(names) + 1))
        usual, twin_records = jax.tree.map(lambda leaf: leaf[-1], (variants, twin_records))
        differs = jnp.stack([_differs(leaf) for leaf in _leaves(variants)]).any(axis=0)
        total = _Costs(*[jnp.float32(0)] * 3, jnp.int32(0), *[jnp.bool(True)] * 2)
        for index, name in enumerate(names):
            used = differs[2 * index] | differs[2 * index + 1]
            total = _add(total, name, records[index], twin_records[index], used)
        drawn = [
            jnp.concatenate([
                record.key.reshape(-1, 2),
                jnp.broadcast_to(record.active, (record.key.size // 2, 1)).astype(jnp.uint32),
            ], axis=1)
            for name, record in zip(names, records, strict=True)
            if not name.endswith("_prefix")  # its draws are sites of their own
        ]  # fmt: skip
        drawn = jnp.concatenate(drawn) if drawn else jnp.zeros((0, 3), jnp.uint32)
        same = _close(after[1], usual[1])
        return (*after, *usual), (total, same, drawn)

    # The actions of all rounds: the last losses teach what acts after them.
    inputs = jax.tree.map(lambda leaf: leaf[:-1], (pair.losses, pair.others))
    times = jnp.arange(1, rounds)
    _, (costs, same, drawn) = lax.scan(one_round, (state, action, state, action), (times, *inputs))
    return Replay(
        pure=jnp.sum(costs.pure),
        rho=jnp.sum(costs.rho),
        gaussian=jnp.sum(costs.gaussian),
        touched=jnp.sum(costs.touched),
        same_actions=jnp.all(same),
        same_scales=jnp.all(costs.same_scales),
        same_keys=jnp.all(costs.same_keys),
        fresh_keys=_distinct(drawn.reshape(-1, 3)),
    )


def spent(replayed, delta):
    """The epsilon at delta that a Replay has used up; traced or NumPy, of any shape.

    Args:
      replayed: a Replay.
      delta: that the learner declares; 0 where it declares pure differential privacy.
    """
    pure = jnp.where(replayed.gaussian > 0.0, jnp.inf, replayed.pure)
    if delta == 0.0:
        return pure
    noise_alone = privacy.gaussian_epsilon(jnp.sqrt(2.0 * replayed.rho), delta)
    mixed = privacy.zcdp_epsilon(replayed.rho, delta)
    composed = jnp.where(replayed.gaussian == replayed.rho, noise_alone, mixed)
    return jnp.minimum(pure, composed)


class _Costs(NamedTuple):
    pure: Array
    rho: Array
    gaussian: Array
    touched: Array
    same_scales: Array
    same_keys: Array


def _record(name, inputs, release) -> _Record:
    if name in ("choose", "coin"):
        key, value = inputs
        scale = jnp.float32(1.0)
    elif name.endswith("_prefix"):
        _, key, value, scale, sensitivity = inputs
        scale = _quotient(scale, sensitivity)
    else:
        key, value, scale, *more = inputs
        if name == "laplace_along":
            scale = scale * jnp.max(jnp.abs(more[0]))
    data = jr.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return _Record(jnp.bool(True), *map(jnp.asarray, (value, scale, data, release)))


def _quotient(scale, sensitivity):
    return jnp.asarray(scale, jnp.float32) / jnp.asarray(sensitivity, jnp.float32)


def _add(total, name, record, twin, used) -> _Costs:
    """The total with what one site adds: its records in both runs, and whether it is used."""
    counts = used & record.active & twin.active
    pure, rho, gaussian = _cost(name, record, twin)
    pure, rho, gaussian = (jnp.where(counts, cost, 0.0) for cost in (pure, rho, gaussian))
    # An unequal branch is an unequal use of keys.
    same_keys = jnp.all(record.key == twin.key) & (record.active == twin.active)
    return _Costs(
        total.pure + pure,
        total.rho + rho,
        total.gaussian + gaussian,
        total.touched + (counts & (rho > 0.0)).astype(jnp.int32),
        total.same_scales & (_close(record.scale, twin.scale) | ~counts),
        total.same_keys & same_keys,
    )


def _cost(name, record, twin):
    """(pure, rho, the part of rho that is Gaussian) of one release."""
    zero = jnp.float32(0.0)
    if name in ("choose", "coin"):
        ratios = _log_ratios(name, record.value, twin.value)
        pure, span = jnp.max(jnp.abs(ratios)), jnp.max(ratios) - jnp.min(ratios)
        # Bounded range: Cesar & Rogers 2021.
        return pure, jnp.minimum(span * span / 8.0, pure * pure / 2.0), zero
    change = _change(name, record.value, twin.value)
    change = jnp.where(change > 0.0, change / record.scale, 0.0)
    if name.startswith("laplace"):
        pure = jnp.sum(change)
        return pure, pure * pure / 2.0, zero
    rho = jnp.sum(change * change) / 2.0
    return zero, rho, rho


def _change(name, ours, theirs):
    """How far apart two values are; 0 where that may be rounding."""
    if name.endswith("_words"):  # of an ExactSum: integers, (2, *shape)
        whole, part = ours - theirs
        return jnp.abs(whole.astype(jnp.float32) + exact_sums.UNIT * part.astype(jnp.float32))
    change = jnp.abs(ours - theirs)
    rounding = 4.0 * jnp.finfo(jnp.float32).eps * jnp.maximum(jnp.abs(ours), jnp.abs(theirs))
    return jnp.where(change > rounding, change, 0.0)


def _log_ratios(name, ours, theirs):
    """ln p / p' of each outcome; 0 where neither has a chance."""
    if name == "coin":
        ours, theirs = (jnp.clip(jnp.stack([p, 1.0 - p]), 0.0, 1.0) for p in (ours, theirs))
    ours, theirs = ours / jnp.sum(ours), theirs / jnp.sum(theirs)
    ratios = jnp.log(ours) - jnp.log(theirs)
    ratios = jnp.where((ours == 0.0) & (theirs == 0.0), 0.0, ratios)
    return jnp.where(jnp.abs(ratios) < 1e-6, 0.0, ratios)


def _other(name, release, sign):
    """Another release in its place, far away."""
    if name.endswith("_words"):
        return release.at[0].set(sign * 2**30)
    if release.dtype == jnp.bool:
        return ~release
    if jnp.issubdtype(release.dtype, jnp.integer):
        return jnp.where((release == 0) | (sign > 0), release + 1, release - 1)
    return release + sign.astype(release.dtype) * 1e3 * (1.0 + jnp.abs(release))


def _differs(variants):
    """Which of the variants (V, ...) of an array are not the last one, (V,)."""
    unequal = variants != variants[-1:]
    return unequal.reshape(len(variants), -1).any(axis=1)


def _close(tree, other):
    """Equal, real numbers to rounding."""
    pairs = zip(_leaves(tree), _leaves(other), strict=True)
    return jnp.all(jnp.array([jnp.all(_near(a, b)) for a, b in pairs]))


def _near(a, b):
    if jnp.issubdtype(a.dtype, jnp.inexact):
        return (a == b) | (jnp.abs(a - b) <= 1e-4 * (1e-3 + jnp.abs(a) + jnp.abs(b)))
    return a == b


def _leaves(tree):
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jr.key_data(leaf)
        yield leaf


def _distinct(drawn):
    """Whether no two active rows (two words of a key, 1 if active) are the same."""
    high, low, active = drawn.T
    high, low, idle = lax.sort((high, low, 1 - active), num_keys=3)
    twice = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (idle[1:] == 0) & (idle[:-1] == 0)
    return ~jnp.any(twice)
