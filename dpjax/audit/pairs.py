"""Neighbouring sequences of linear losses, random and extreme."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import _check
from dpjax.core import Arms, Policies
from dpjax.domains import Domain
from dpjax.settings import in_float32


class Pair(NamedTuple):
    """Two neighbouring sequences: pytrees with a leading axis of T rounds, of which one differs."""

    losses: Any
    others: Any


@in_float32
def pairs(key, horizon, losses, count, *, neighbours="replace", unit="round") -> Pair:
    """Pairs of sequences of loss vectors from a set, at its extremes and within.

    Of four sequences one is drawn within the set, the others from its extreme vectors; of these,
    half are one vector in all rounds, the least for one entry: an arm that is played throughout. In
    every second pair round 1 differs, which most releases can depend on; in the others any of the
    rounds 1 .. T - 1 (the losses of round T act on nothing). The two vectors are those farthest
    apart in a direction: all ones, one entry, two entries against each other (a common shift is
    invisible on the simplex), or at random.

    Args:
      key: PRNG key.
      horizon: T, at least 2.
      losses: a :class:`dpjax.domains.LossSet`.
      count: how many.
      neighbours: "replace", or "zero_out": the other vector is 0.
      unit: "round", or "entry": one entry of the vector differs.

    Returns:
      A Pair with leading axes (count, T).
    """
    _check.key(key=key)
    horizon, count = _check.size(2, horizon=horizon), _check.size(1, count=count)
    _check.one_of("replace", "zero_out", neighbours=neighbours)
    _check.one_of("round", "entry", unit=unit)
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
        # One dimension has no entry against which another could go.
        against = one_hot if dim == 1 else against
        random = jr.normal(direction_key, (dim,))
        kinds = jnp.stack([jnp.ones(dim, jnp.float32), one_hot, against, random])
        direction = kinds[(index // 2) % 4]
        changed = losses.maximizer(direction)
        other = losses.maximizer(-direction)
        if neighbours == "zero_out":
            other = jnp.zeros_like(changed)
        if unit == "entry":
            other = jnp.where(jnp.arange(dim) == entry, other, changed)
        at = jnp.where(index % 2 == 0, 0, jr.randint(round_key, (), 0, horizon - 1))
        here = (jnp.arange(horizon) == at)[:, None]
        return Pair(jnp.where(here, changed[None], base), jnp.where(here, other[None], base))

    return jax.jit(jax.vmap(one))(jr.split(key, count), jnp.arange(count))


def check_neighbours(pair) -> int:
    """The number of rounds of a Pair; refuses what are no neighbours.

    Of what is traced the shapes are looked at alone.
    """
    sides = [jax.tree.leaves(side) for side in (pair.losses, pair.others)]
    shapes = [[(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in side] for side in sides]
    if shapes[0] != shapes[1] or not shapes[0] or not all(shape for shape, _ in shapes[0]):
        raise ValueError(
            "pair: losses and others must be alike in shape and dtype, with an axis of rounds"
        )
    lengths = {shape[0] for shape, _ in shapes[0]}
    if len(lengths) != 1:
        raise ValueError(f"pair: the axes of rounds differ in length, {sorted(lengths)}")
    (rounds,) = lengths
    if not any(isinstance(leaf, jax.core.Tracer) for side in sides for leaf in side):
        if not all(np.isfinite(np.asarray(leaf)).all() for side in sides for leaf in side):
            raise ValueError("pair: losses and others must be finite")
        differ = np.zeros(rounds, bool)
        for ours, theirs in zip(*sides, strict=True):
            unequal = np.asarray(ours) != np.asarray(theirs)
            differ |= unequal.reshape(rounds, -1).any(axis=1)
        if differ.sum() != 1:
            raise ValueError(f"pair: neighbours differ in one round, these in {differ.sum()}")
    return rounds


def check_fits(learner, losses) -> None:
    """Refuses losses that a learner cannot be shown over its horizon, as far as shapes tell.

    Args:
      learner: a Learner.
      losses: as of a :class:`Pair`, rounds in front.

    Raises:
      ValueError: another number of rounds, arms or coordinates than the learner's.
    """
    leaves, structure = jax.tree.flatten(losses)
    shapes = [jnp.shape(leaf) for leaf in leaves]
    if not shapes or any(shape[:1] != (learner.horizon,) for shape in shapes):
        raise ValueError(
            f"pair: the learner's horizon is {learner.horizon} rounds, the losses have shapes "
            f"{', '.join(map(str, shapes))}"
        )
    dtypes = [jnp.result_type(leaf) for leaf in leaves]
    rounds = [jax.ShapeDtypeStruct(s[1:], d) for s, d in zip(shapes, dtypes, strict=True)]
    reason = _fits(learner, jax.tree.unflatten(structure, rounds))
    if reason:
        each = " and ".join(str(shape[1:]) for shape in shapes)
        raise ValueError(f"pair: losses of shape {each} a round do not fit the learner: {reason}")


def _fits(learner, loss) -> str:
    """Why a learner cannot be shown a round's loss (a pytree of shapes); empty where it can."""
    actions, leaves = learner.action_set, jax.tree.leaves(loss)
    shapes = [leaf.shape for leaf in leaves]
    if isinstance(actions, Arms) and not callable(loss) and shapes != [(actions.count,)]:
        return f"it plays {actions.count} arms"
    if isinstance(actions, Domain) and not callable(loss) and shapes != [(actions.dim,)]:
        return f"it plays points of R^{actions.dim}"
    if isinstance(actions, Policies):
        arms = shapes[-1][:1]
        if shapes != [(*arms, actions.dim), arms]:
            return f"it plays policies over features in R^{actions.dim}"
    try:
        state, action = jax.eval_shape(learner.init, jr.key(0))
        seen = jax.eval_shape(learner.feedback, loss, action)
        after = jax.eval_shape(learner.step, state, jr.key(0), seen)
    except (TypeError, ValueError, IndexError) as error:
        return str(error).splitlines()[0]
    before, after = ([leaf.shape for leaf in jax.tree.leaves(tree)]
                     for tree in ((state, action), after))  # fmt: skip
    return "" if before == after else "its state or its action changes shape"
