"""Linear losses for the points of a convex set: i.i.d., drifting, adaptive, or a user's own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.core import Array, Environment, Number, Outcome, PyTree, _arrays, _check
from dpjax.domains import Domain, LossSet, fitting, support_function
from dpjax.feedback import mean_value, middle
from dpjax.maths import laws

KINDS = ("iid", "drifting", "switching", "alternating", "adaptive")


class LinearLossesState(NamedTuple):
    round: Array  # () int32, rounds played
    directions: Array  # (2, d) directions of losses; with "drifting" they turn towards the second
    action: Array  # (d,) of the last round


class LinearTally(NamedTuple):
    suffered: Array  # () <l, x>
    loss: Array  # (d,) l


def linear_losses(
    domain: Domain,
    losses: PyTree,
    *,
    loss_set: LossSet | None = None,
    bias: Number = 0.2,
    period: int = 200,
) -> Environment:
    """Linear losses <l_t, x> on a convex set: i.i.d., drifting, adaptive, or a user's own.

    ``losses`` is an array (T, d) of loss vectors, one of the words below, or a function (round,
    key, point) -> direction. The function receives a scalar round and key, and the last action
    (d,). Its direction has shape (d,). Except for arrays and "alternating", l_t is the vector of
    the loss set that is extreme in a direction: the function's, or bias u + a standard normal draw.
    On a box each entry is then at one of its ends, and on a ball l_t lies on the sphere.

      "iid"          u is drawn once, from the standard normal law
      "drifting"     u turns with the given period, in a plane that is drawn once
      "switching"    u is drawn again every ``period`` rounds
      "alternating"  the first entry alternates between its ends, and the others stay in the middle;
                     the first loss is half as large, so that the leader changes every round and
                     is always wrong
      "adaptive"     u points from the centre to the last action, which thus becomes expensive

    Args:
      domain: a Domain.
      losses: (T, d) array within the loss set, one of the words, or a function. Rounds are counted
        from 0, and before the first round the point is the domain's centre.
      loss_set: a LossSet of the domain's dimension; by default the domain's own.
      bias: weight of u relative to the standard normal draw, at least 0.
      period: rounds, for "drifting" and "switching".

    Returns:
      An Environment whose actions are points (d,) of the domain. Regret is against the best fixed
      point, by the support function. With "adaptive" the losses are not oblivious, and regret is
      on the realised losses.

    Raises:
      ValueError, TypeError: bad arguments, by name. For an array the message names row and column,
        counted from 1.

    Examples:
      >>> environment = environments.linear_losses(domains.cube(2), "alternating")
      >>> key, action = jax.random.key(0), jnp.zeros(2)
      >>> state, first = environment.step(environment.init(key), key, action)
      >>> state, second = environment.step(state, key, action)
      >>> print(first.loss, second.loss)
      [0.5 0. ] [-1.  0.]
    """
    loss_set = fitting(domain, loss_set)
    _check.non_negative(bias=bias)
    period = _check.size(1, period=period)
    centre = jnp.asarray(domain.centre, jnp.float32)
    horizon, rows = None, None
    if not isinstance(losses, str) and not callable(losses):
        rows = _as_rows(losses, loss_set)
        horizon = len(rows)
    elif isinstance(losses, str) and losses not in KINDS:
        raise ValueError(f"losses must be an array (T, d), a function or one of {', '.join(KINDS)}")
    dim = loss_set.dim

    def toward(key, direction):
        return loss_set.maximizer(bias * direction + laws.normal(key, (dim,)))

    def alternate(t):
        low, high = loss_set.entry
        sign = jnp.where(t % 2 == 0, 1.0, -1.0) * jnp.where(t == 0, 0.5, 1.0)
        first = jnp.arange(dim) == 0
        middle = jnp.asarray(loss_set.centre, jnp.float32)
        return middle + jnp.where(first, sign * (high - low) / 2, 0.0)

    def draw(state, key):
        """The loss vector of round t + 1, and the directions from then on."""
        t, directions = state.round, state.directions
        if rows is not None:
            return rows[t], directions
        if callable(losses):
            return loss_set.maximizer(losses(t, key, state.action)), directions
        if losses == "alternating":
            return alternate(t), directions
        if losses == "adaptive":
            # A direction of length about sqrt(d), like the drawn ones.
            return toward(key, dim**0.5 * (state.action - centre) / domain.radius), directions
        if losses == "drifting":
            angle = 2 * jnp.pi * t.astype(jnp.float32) / period
            turned = jnp.cos(angle) * directions[0] + jnp.sin(angle) * directions[1]
            return toward(key, turned), directions
        if losses == "switching":
            draw_key, key = jr.split(key)
            fresh = laws.normal(draw_key, directions.shape)
            directions = jnp.where((t > 0) & (t % period == 0), fresh, directions)
        return toward(key, directions[0]), directions

    def init(key):
        directions = laws.normal(key, (2, dim))
        return LinearLossesState(jnp.zeros((), jnp.int32), directions, centre)

    def step(state, key, action):
        loss, directions = draw(state, key)
        new = LinearLossesState(state.round + 1, directions, middle(action))
        return new, Outcome(loss, LinearTally(mean_value(loss, action), loss))

    return Environment(init, step, against_best_point(domain), domain, horizon)


def against_best_point(domain: Domain) -> Callable:
    """Regret against the best point of a domain in hindsight, from a :class:`LinearTally`."""
    return lambda state, tally: tally.suffered + support_function(domain, -tally.loss)


def _as_rows(losses, loss_set) -> Any:
    if isinstance(losses, jax.core.Tracer):
        return losses
    array = _arrays.real("losses", losses)
    if array.ndim != 2 or array.shape[1] != loss_set.dim or not len(array):
        raise ValueError(f"losses: must have shape (T, {loss_set.dim}), got {array.shape}")
    # The game may be traced, but the rows are concrete numbers.
    with jax.core.eval_context():
        rows = jnp.asarray(array, jnp.float32)
        moved = np.max(np.abs(np.asarray(jax.vmap(loss_set.clip)(rows) - rows)), axis=1)
    tolerance = 1e-5 * max(abs(bound) for bound in loss_set.entry)
    if np.any(moved > tolerance):
        row = int(np.argmax(moved > tolerance)) + 1
        raise ValueError(f"losses: row {row} lies outside the loss set")
    return rows
