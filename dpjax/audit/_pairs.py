"""Neighbouring sequences of losses for audits, and checks that they fit a learner."""

import operator
from functools import partial, reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.combinators import _returned
from dpjax.core import Arms, Array, BatchLearner, Learner, Policies, PyTree, _arrays, _check
from dpjax.domains import Domain, LossSet
from dpjax.domains.action_sets import words
from dpjax.engine.settings import in_float32


class Pair(NamedTuple):
    """Two neighbouring sequences of T losses, which differ in one round or in one user's rounds.

    Each is a pytree whose leaves have a leading axis of T rounds.
    """

    losses: PyTree
    others: PyTree


@in_float32
def pairs(
    key: Array,
    horizon: int,
    losses: LossSet,
    count: int,
    *,
    neighbours: str = "replace",
    unit: str = "round",
    changed: int = 1,
    spacing: int | None = None,
) -> Pair:
    """Pairs of neighbouring sequences of loss vectors from a set.

    The pairs cycle through these cases:

    - The shared vectors are drawn inside the set in every fourth pair, and are extreme in the
      others. Half of these repeat one vector in all rounds, with the least loss at one entry, so
      that one arm is played throughout.
    - The differing round is round 1 in every second pair, since most releases can depend on it. In
      the others it is drawn from the rounds 1 .. T - 1, since no action follows round T. If several
      rounds differ, the others follow that round, or in every second pair are drawn from
      1 .. T - 1. In the second half of every 32 pairs the two vectors are swapped from one
      differing round to the next, so each direction occurs with and without swaps.
    - The two vectors of that round are farthest apart in some direction: all ones, one entry, one
      entry against another (on the simplex a common shift is invisible), or random.

    Args:
      key: PRNG key.
      horizon: T, at least 2.
      losses: a :class:`dpjax.domains.LossSet`.
      count: number of pairs.
      neighbours: "replace", or "zero_out" if the other vector is 0.
      unit: "round" or "user" if the whole vector differs; "entry" if only one entry differs.
      changed: k, how many rounds differ: the rounds of a user or of a group
        (:func:`dpjax.combinators.user_level` declares their privacy).
      spacing: distance between these rounds if it is fixed; rounds beyond the horizon are left out.

    Returns:
      A Pair with leading axes (count, T).

    Examples:
      >>> key, losses = jax.random.key(0), domains.box_losses(2)
      >>> shapes = jax.eval_shape(lambda key: audit.pairs(key, 5, losses, count=3), key)
      >>> shapes.losses.shape  # pairs, rounds, arms
      (3, 5, 2)
    """
    horizon, count = _check.size(2, horizon=horizon), _check.size(1, count=count)
    _check.one_of("replace", "zero_out", neighbours=neighbours)
    _check.one_of("round", "entry", "user", unit=unit)
    changed = _check.size(1, changed=changed)
    if changed >= horizon:
        raise ValueError(f"changed must be below the horizon {horizon}, got {changed}")
    dim = losses.dim

    def one(key, index):
        base_key, inner_key, direction_key, round_key, entry_key = jr.split(key, 5)
        extreme = jax.vmap(losses.maximizer)(jr.normal(base_key, (horizon, dim)))
        centre = jnp.asarray(losses.centre, jnp.float32)[None]
        mixed = jr.uniform(inner_key, (horizon, 1))
        within = centre + mixed * (extreme - centre)
        base = jnp.where(index % 4 == 3, jax.vmap(losses.clip)(within), extreme)
        entry = jr.randint(entry_key, (), 0, dim)
        one_hot = (jnp.arange(dim) == entry).astype(jnp.float32)
        lasting = losses.maximizer(1.0 - 2.0 * one_hot)
        base = jnp.where((index % 4 != 3) & (index // 8 % 2 == 1), lasting[None], base)
        against = one_hot - jnp.roll(one_hot, 1)
        # In one dimension there is no second entry.
        against = one_hot if dim == 1 else against
        random = jr.normal(direction_key, (dim,))
        kinds = jnp.stack([jnp.ones(dim, jnp.float32), one_hot, against, random])
        direction = kinds[(index // 2) % 4]
        first = losses.maximizer(direction)
        other = losses.maximizer(-direction)
        if neighbours == "zero_out":
            other = jnp.zeros_like(first)
        if unit == "entry":
            other = jnp.where(jnp.arange(dim) == entry, other, first)
        at = jnp.where(index % 2 == 0, 0, jr.randint(round_key, (), 0, horizon - 1))
        spread = (index // 2 + index // 8) % 2 == 1
        user_key = jr.fold_in(round_key, 2)  # randint splits its key in 0 and 1
        changed_at = changed_rounds(user_key, at, spread, horizon, changed, spacing)[:, None]
        # The two vectors are swapped from one differing round to the next.
        turned = (index // 16 % 2 == 1) & (changed > 1) & (jnp.cumsum(changed_at, axis=0) % 2 == 0)
        ours = jnp.where(turned, other[None], first[None])
        theirs = jnp.where(turned, first[None], other[None])
        return Pair(jnp.where(changed_at, ours, base), jnp.where(changed_at, theirs, base))

    return jax.jit(jax.vmap(one))(jr.split(key, count), jnp.arange(count))


def changed_rounds(
    key: Array,
    at: Array,
    spread: Array,
    horizon: int,
    count: int | Array,
    spacing: int | None = None,
):
    """Which rounds differ, (T,) bool: round ``at``, or the ``count`` rounds of a user.

    A user's rounds are consecutive from ``at``, so that a batch holds as many as possible. With
    ``spread`` they are drawn from all rounds but the last. ``spacing`` is their distance.
    """
    rounds = jnp.arange(horizon)
    if count == 1:
        return rounds == at
    if spacing is not None:
        steps, rest = jnp.divmod(rounds - at, spacing)
        return (rest == 0) & (steps >= 0) & (steps < count) & (rounds < horizon - 1)
    first = jnp.minimum(at, horizon - 1 - count)
    order = jnp.append(jr.permutation(key, horizon - 1), horizon)
    return jnp.where(spread, order < count, (rounds >= first) & (rounds < first + count))


def differing(pair: Pair):
    """In which rounds the sequences of a pair differ, (T,) bool, for NumPy or JAX arrays."""
    leaves = zip(*map(jax.tree.leaves, pair), strict=True)
    return reduce(operator.or_, ((x != y).reshape(len(x), -1).any(axis=1) for x, y in leaves))


def check_pairs(**values: PyTree) -> None:
    """A batch of pairs. Losses need not be finite, since learners clip them."""
    _check.built(Pair, "one that audit.pairs makes", **values)


def check_finite(**values: PyTree) -> None:
    """A Pair. Losses that are not traced must be finite numbers."""
    check_pairs(**values)
    for name, pair in values.items():
        for side, losses in pair._asdict().items():
            for leaf in jax.tree.leaves(losses):
                if not _check.is_traced(leaf):
                    _arrays.real(f"{name}: {side}", leaf)


def check_neighbours(pair: Pair, rounds_per_user: int = 1) -> int:
    """Check that the sequences of a Pair are neighbours, and return the number of rounds.

    If a loss is traced, only shapes and dtypes are checked.

    Args:
      pair: a Pair.
      rounds_per_user: in how many rounds its sequences may differ.

    Raises:
      ValueError, TypeError: the sequences differ in shape or dtype, are not finite, or differ in
        no round or in more than ``rounds_per_user``; or ``pair`` is not a Pair.
    """
    check_finite(pair=pair)
    ours, theirs = (
        [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(side)]
        for side in pair
    )
    if ours != theirs or not ours or not all(shape for shape, _ in ours):
        raise ValueError(
            "pair: losses and others must be alike in shape and dtype, with an axis of rounds"
        )
    lengths = {shape[0] for shape, _ in ours}
    if len(lengths) != 1:
        raise ValueError(f"pair: the axes of rounds differ in length, {sorted(lengths)}")
    (rounds,) = lengths
    if not _check.is_traced(pair):
        differ = differing(jax.tree.map(np.asarray, pair))
        if not 1 <= differ.sum() <= rounds_per_user:
            most = "one round" if rounds_per_user == 1 else f"at most {rounds_per_user} rounds"
            raise ValueError(f"pair: neighbours differ in {most}, these in {differ.sum()}")
    return rounds


def check_fits(learner: Learner | BatchLearner, losses: PyTree) -> None:
    """Check that the shapes of losses fit a learner.

    Args:
      learner: a Learner.
      losses: one side of a :class:`Pair`, with a leading axis of rounds.

    Raises:
      ValueError: the number of rounds, arms or coordinates is not the learner's.
    """
    shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(losses)]
    if not shapes or any(shape[:1] != (learner.horizon,) for shape in shapes):
        raise ValueError(
            f"pair: the learner's horizon is {learner.horizon} rounds, the losses have shapes "
            f"{', '.join(map(str, shapes))}"
        )
    reason = _fits(learner, jax.eval_shape(partial(jax.tree.map, lambda leaf: leaf[0]), losses))
    if reason:
        shapes_of_both = " and ".join(str(shape[1:]) for shape in shapes)
        raise ValueError(
            f"pair: losses of shape {shapes_of_both} a round do not fit the learner: {reason}"
        )


def _fits(learner, loss) -> str:
    """Why a round's loss (a pytree of shapes) does not fit the learner; empty if it fits."""
    actions, leaves = learner.action_set, jax.tree.leaves(loss)
    shapes = [leaf.shape for leaf in leaves]
    if isinstance(actions, Arms) and not callable(loss) and shapes != [(actions.count,)]:
        return f"it plays {actions.count} arms"
    if isinstance(actions, Domain) and not callable(loss) and shapes != [(actions.dim,)]:
        return f"it plays points of R^{actions.dim}"
    if isinstance(actions, Policies):
        arms = (actions.arms,) if actions.arms else shapes[-1][:1]
        if shapes != [(*arms, actions.dim), arms]:
            return f"it plays {words(actions)}"
    try:
        _returned.check_learner(learner, loss)
    except (TypeError, ValueError, IndexError) as error:
        if actions is not None and not callable(loss):
            raise  # The losses fit the actions, so the fault is the learner's.
        return str(error).splitlines()[0]
    return ""
