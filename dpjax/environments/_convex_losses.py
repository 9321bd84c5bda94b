"""Convex losses on a convex set, from a family of functions or a user's own function."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax.core import Array, Environment, Number, Outcome, PyTree, _arrays, _check
from dpjax.domains import Domain, check_domain
from dpjax.environments.loss_families import Family, as_function, offline_optimum
from dpjax.feedback import mean_value, middle
from dpjax.maths import laws

KINDS = ("iid", "drifting", "switching", "adaptive", "rows")


class ConvexLossesState(NamedTuple):
    round: Array  # () int32, rounds played
    row: Array  # () int32, of the last round
    action: Array  # (d,) of the last round
    parameters: PyTree  # the rows that nature drew, leading axis (n,); () if rows are given


class ConvexTally(NamedTuple):
    suffered: Array  # () f(x)
    counts: PyTree  # (n,) number of uses of each row; () for "rows"


def convex_losses(
    domain: Domain,
    family: Any,
    kind: Literal["iid", "drifting", "switching", "adaptive", "rows"] = "iid",
    *,
    parameters: PyTree = None,
    count: int = 16,
    spread: Number = 0.5,
    period: int = 200,
    steps: int = 400,
) -> Environment:
    """Convex losses f(parameters, x) on a convex set, one row of parameters per round.

    The rows are given, or nature draws them once. It first draws an extreme point z. Each row is
    then a loss that is small at a random point between z and another extreme point. The rounds use

      "iid"        a random row in each round
      "drifting"   one row after the other, each blending into the next over ``period`` rounds
      "switching"  a new random row every ``period`` rounds
      "adaptive"   the row that would have been worst for the last action
      "rows"       row t in round t, a user's own sequence

    Args:
      domain: a Domain.
      family: a Family of ``dpjax.loss_families``, or a user's own function (parameters, x) -> ().
        It must be convex in x, and defined outside the domain too if learners play there.
      kind: one of the words above.
      parameters: the rows, a pytree of arrays with a common leading axis (n,). Required for a
        user's own function and for "rows".
      count: n, the number of rows that are drawn.
      spread: in [0, 1], the distance of rows from each other.
      period: rounds.
      steps: number of steps of the method that finds the best point at each checkpoint.

    Returns:
      An Environment whose ``Outcome.loss`` is a callable pytree, for learners that see its value
      or its gradient (:func:`dpjax.combinators.on_gradients`).
      Regret is against the best fixed point of the domain, whose total loss is replaced by a
      certified lower bound (:func:`dpjax.loss_families.offline_optimum`). So regret is never
      understated, and it is overstated by at most the gap of that bound. With "adaptive" the losses
      are not oblivious, and regret is on the realised losses.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Examples:
      >>> segment, rows, key = domains.cube(1), jnp.array([[0.5], [-0.5]]), jax.random.key(0)
      >>> distance = loss_families.distance(segment)
      >>> environment = environments.convex_losses(segment, distance, "rows", parameters=rows)
      >>> state, outcome = environment.step(environment.init(key), key, jnp.array([0.0]))
      >>> float(outcome.loss(jnp.array([1.0])))  # |1 - 0.5|, as the loss can be asked anywhere
      0.5
    """
    check_domain(domain)
    function = as_function(family)
    _check.one_of(*KINDS, kind=kind)
    _check.between(0.0, 1.0, spread=spread)
    period, count = _check.size(1, period=period), _check.size(1, count=count)
    steps = _check.size(2, steps=steps)
    if parameters is None and (kind == "rows" or not isinstance(family, Family)):
        raise ValueError("parameters must be given for kind rows, and for your own function")
    has_rows = parameters is not None
    if has_rows:
        parameters = jax.tree.map(
            lambda leaf: jnp.asarray(_arrays.entries(parameters=leaf), jnp.float32), parameters
        )
        count = _rows(parameters)
        one = jax.tree.map(lambda leaf: leaf[0], parameters)
        shape = jax.eval_shape(function, one, jax.ShapeDtypeStruct((domain.dim,), jnp.float32))
        if getattr(shape, "shape", None) != ():
            raise ValueError("family: the function must return one number, (), for x (d,)")
    centre = jnp.asarray(domain.centre, jnp.float32)

    def draw_rows(key):
        def extreme(key):
            return domain.minimizer(laws.normal(key, (domain.dim,)))

        first_key, key = jr.split(key)
        z = extreme(first_key)

        def one_row(key):
            point_key, share_key, loss_key = jr.split(key, 3)
            share = spread * jr.uniform(share_key)
            return family.draw(loss_key, z + share * (extreme(point_key) - z))

        return jax.vmap(one_row)(jr.split(key, count))

    def row_of(state, key):
        t = state.round
        if kind == "rows":
            return t
        if kind == "iid":
            return jr.randint(key, (), 0, count)
        if kind == "switching":
            fresh = jr.randint(key, (), 0, count)
            return jnp.where(t % period == 0, fresh, state.row)
        if kind == "drifting":
            ahead = jr.uniform(key) < (t % period).astype(jnp.float32) / period
            return (t // period + ahead.astype(jnp.int32)) % count
        rows = parameters if has_rows else state.parameters
        values = jax.vmap(function, in_axes=(0, None))(rows, state.action)
        return jnp.argmax(values).astype(jnp.int32)

    def init(key):
        zero = jnp.zeros((), jnp.int32)
        return ConvexLossesState(zero, zero, centre, () if has_rows else draw_rows(key))

    def step(state, key, action):
        row = row_of(state, key)
        rows = parameters if has_rows else state.parameters
        loss = jax.tree_util.Partial(function, jax.tree.map(lambda leaf: leaf[row], rows))
        counts = () if kind == "rows" else (jnp.arange(count) == row).astype(jnp.float32)
        new = ConvexLossesState(state.round + 1, row, middle(action), state.parameters)
        return new, Outcome(loss, ConvexTally(mean_value(loss, action), counts))

    def regret(state, tally):
        weights = tally.counts
        if kind == "rows":
            weights = (jnp.arange(count) < state.round).astype(jnp.float32)
        rows = parameters if has_rows else state.parameters
        best = offline_optimum(domain, function, rows, weights, steps=steps)
        return tally.suffered - best.lower

    return Environment(init, step, regret, domain, horizon=count if kind == "rows" else None)


def _rows(parameters) -> int:
    """The common length of the leading axes, at least 1."""
    leaves = jax.tree.leaves(parameters)
    lengths = {len(leaf) if leaf.ndim else 0 for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError("parameters must be arrays with a common leading axis (n,), n at least 1")
    return lengths.pop()
