"""Sets of possible loss vectors of a round, and their sensitivities."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from dpjax.core import Neighbours, Numbers, Unit, _check
from dpjax.domains._vectors import check_radius, into_ball, into_l1_ball, unit_vector
from dpjax.domains.base import LossSet
from dpjax.maths.clipping import within


def box_losses(dim: int, low: Numbers = -1.0, high: Numbers = 1.0) -> LossSet:
    """Losses with each entry in [low, high].

    Examples:
      >>> losses = domains.box_losses(4, 0.0, 1.0)
      >>> losses.norms, losses.diameters, losses.spread
      ((4.0, 2.0), (4.0, 2.0), 1.0)
    """
    dim = _check.size(1, dim=dim)
    _check.ordered(low, high)
    low, high = float(low), float(high)
    largest, width = max(abs(low), abs(high)), high - low
    return LossSet(
        dim=dim,
        clip=lambda loss: jnp.clip(loss, low, high),
        maximizer=lambda g: jnp.where(g > 0, jnp.float32(high), jnp.float32(low)),
        centre=np.full(dim, (low + high) / 2),
        norms=(dim * largest, dim**0.5 * largest),
        diameters=(dim * width, dim**0.5 * width),
        spread=width if dim > 1 else 0.0,
        entry=(low, high),
    )


def ball_losses(dim: int, radius: float = 1.0) -> LossSet:
    """Losses of Euclidean norm at most ``radius``.

    Examples:
      >>> losses = domains.ball_losses(2)
      >>> losses.norms[1], losses.diameters[1]  # in L2
      (1.0, 2.0)
      >>> [round(x, 3) for x in losses.clip(jnp.array([3.0, 4.0])).tolist()]
      [0.6, 0.8]
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)
    return LossSet(
        dim=dim,
        clip=lambda loss: into_ball(loss, radius),
        maximizer=lambda g: radius * unit_vector(g),
        centre=np.zeros(dim),
        norms=(dim**0.5 * radius, radius),
        diameters=(2 * dim**0.5 * radius, 2 * radius),
        spread=2**0.5 * radius if dim > 1 else 0.0,
        entry=(-radius, radius),
    )


def l1_losses(dim: int, radius: float = 1.0) -> LossSet:
    """Losses whose absolute values sum to at most ``radius``.

    Examples:
      >>> losses = domains.l1_losses(3)
      >>> losses.norms, losses.diameters
      ((1.0, 1.0), (2.0, 2.0))
    """
    dim, radius = _check.size(1, dim=dim), check_radius(radius)

    def maximizer(g):
        largest = jnp.argmax(jnp.abs(g))
        sign = jnp.where(g >= 0, 1.0, -1.0)
        return radius * jnp.where(jnp.arange(dim) == largest, sign, 0.0)

    return LossSet(
        dim=dim,
        clip=lambda loss: into_l1_ball(loss, radius),
        maximizer=maximizer,
        centre=np.zeros(dim),
        norms=(radius, radius),
        diameters=(2 * radius, 2 * radius),
        spread=radius if dim > 1 else 0.0,
        entry=(-radius, radius),
    )


def sensitivity(losses: LossSet, neighbours: Neighbours, unit: Unit) -> tuple[float, float]:
    """The largest L1 and L2 changes of one round's loss vector between neighbours.

    Args:
      losses: a LossSet.
      neighbours: "replace" if another vector of the set replaces the loss vector, "zero_out" if 0
        replaces it.
      unit: "round" if the whole vector changes, "entry" if one of its entries changes (Dwork, Naor,
        Pitassi & Rothblum 2010).

    Examples:
      >>> losses = domains.box_losses(3, -1.0, 1.0)
      >>> domains.sensitivity(losses, "replace", "round")[0]
      6.0
      >>> domains.sensitivity(losses, "zero_out", "round")[0]
      3.0
      >>> domains.sensitivity(losses, "replace", "entry")[0]
      2.0
    """
    _check.one_of("replace", "zero_out", neighbours=neighbours)
    _check.one_of("round", "entry", unit=unit)
    if unit == "entry":
        low, high = losses.entry
        change = high - low if neighbours == "replace" else max(abs(low), abs(high))
        return change, change
    return losses.diameters if neighbours == "replace" else losses.norms


def clipped(losses: LossSet, unit: Unit) -> Callable:
    """A function that clips loss vectors so that :func:`sensitivity` bounds their change.

    For the unit "round" it returns the nearest vector of the set. For "entry" it clips each entry
    separately, since one entry out of range changes all entries of the nearest vector. The result
    may then exceed the set's ``norms``. Regret bounds use these norms; calibrations for entries do
    not.

    Args:
      losses: a LossSet.
      unit: "round" or "entry".

    Returns:
      A function (d,) -> (d,). It first clips entries to 1000 times their range, since for larger
      entries the nearest vector in float32 may be outside the set. NaN is clipped to the low end.

    Examples:
      >>> losses, loss = domains.ball_losses(2), jnp.array([3.0, 4.0])
      >>> [round(x, 3) for x in domains.clipped(losses, "round")(loss).tolist()]
      [0.6, 0.8]
      >>> domains.clipped(losses, "entry")(loss).tolist()
      [1.0, 1.0]
    """
    _check.one_of("round", "entry", unit=unit)
    low, high = losses.entry
    if unit == "entry":
        return lambda loss: within(loss, low, high)
    limit = 1e3 * max(abs(low), abs(high))
    return lambda loss: losses.clip(within(loss, -limit, limit))
