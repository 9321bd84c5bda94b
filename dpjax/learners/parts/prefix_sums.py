"""Private prefix sums of loss vectors, calibrated for a loss set, a mechanism and an epsilon.

Full-information learners post-process these releases.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import mechanisms
from dpjax.core import Array, Clip, Mechanism, Neighbours, Number, Privacy, PyTree, Unit, _check
from dpjax.domains import LossSet, clipped, sensitivity
from dpjax.learners.parts.arm_sums import check_delta_of
from dpjax.mechanisms import prefix
from dpjax.noise import LAWS, LawName
from dpjax.privacy.printed import stated


class PrefixSums(NamedTuple):
    """A mechanism, and its stream with the noise for a declared privacy."""

    mechanism: Mechanism
    init: Callable  # key -> (state, release of the empty prefix)
    step: Callable  # (state, key, value) -> (state, release of the values so far)
    scale: PyTree  # () noise scale of each draw
    privacy: Privacy
    clip: Clip | None = None  # of the learner whose losses are summed

    def deviation(self, rounds: Number | None = None) -> Array:
        """The standard deviation of a coordinate's noise in these prefixes (n,), or in all (T,).

        Integer noise is treated as the continuous law of its scale.
        """
        spread = jnp.asarray(self.mechanism.variance(rounds), jnp.float32)
        return self.scale * jnp.sqrt(LAWS[self.mechanism.noise].variance(1.0) * spread)


# Released values if a mechanism of that model sums one value of each round.
RELEASED = {
    "central": "actions 1..T",
    "local": "messages 1..T",
    "shuffle": "shuffled messages of all batches, actions 1..T",
    "distributed": "opened sums of all batches, actions 1..T",
}


def build(factory: Callable, horizon: int, noise: str) -> Mechanism:
    """Build a factory's mechanism; raise if the learner cannot use it."""
    built = factory(horizon, noise=noise)
    _check.built(Mechanism, "mechanisms.tree(horizon)", **{"what mechanism returns": built})
    if built.horizon < horizon:
        raise ValueError(
            f"mechanism covers {built.horizon} rounds, fewer than the horizon, {horizon}"
        )
    if built.noise != noise:
        raise ValueError(f"mechanism has {built.noise} noise, but the learner needs {noise}")
    return built


def of_rounded(
    change: tuple[Number, Number],
    shape: tuple[int, ...],
    value_range: tuple[Number, Number],
    unit: Unit,
) -> tuple:
    """The (L1, L2) change of a value whose entries are rounded at random to integers.

    An entry that changes by c moves by at most c + 1, within the integers around its range. (Both
    neighbours are rounded with the same uniform number, which does not depend on the losses.)

    Args:
      change: (L1, L2) before rounding.
      shape: of a value.
      value_range: (low, high) of the entries of a value. They need not be losses.
      unit: "entry" if only one entry changes.

    Examples:
      >>> l1, l2 = prefix_sums.of_rounded((1.0, 1.0), (3,), (0.0, 1.0), "round")
      >>> float(l1), round(float(l2), 3)
      (3.0, 1.732)
    """
    count = 1 if unit == "entry" else math.prod(shape)
    low, high = value_range
    traced = any(isinstance(number, jax.core.Tracer) for number in (*change, low, high))
    library: Any = jnp if traced else np
    widest = library.ceil(high) - library.floor(low)
    return (
        library.minimum(change[0] + count, count * widest),
        library.minimum(change[1] + count**0.5, count**0.5 * widest),
    )


def calibrate(
    horizon: int,
    shape: tuple[int, ...],
    change: tuple[Number, Number],
    *,
    epsilon: Number,
    delta: Number | None,
    mechanism: Callable,
    noise: LawName,
    value_range: tuple[Number, Number],
    loss_range: tuple[float, float],
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    printed_scale: Number | None = None,
) -> PrefixSums:
    """The mechanism that hides a change of one value by at most ``change``.

    Let B C be the mechanism's factorization and Delta the change of one value. Laplace noise of
    scale |C|_1 Delta_1 / epsilon makes all releases together epsilon-DP. Gaussian noise of standard
    deviation |C|_2 Delta_2 / mu makes them one Gaussian mechanism, where mu solves its equation for
    (epsilon, delta) exactly. Both also hold for adaptively chosen values (:mod:`dpjax.mechanisms`).

    The mechanism's model is declared, for values that each belong to one round. Callers that sum
    rounds first declare the central model.

    Args:
      horizon: T, for releases of the prefixes 0 .. T - 1.
      shape: of a value.
      change: (L1, L2), the largest change of one value between neighbours.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1); None for pure-DP noise (:class:`dpjax.noise.Law`).
      mechanism: a factory in :mod:`dpjax.mechanisms`, or a similar one; it is called with the
        horizon and ``noise``.
      noise: a name of ``dpjax.noise.LAWS``, or a law itself.
      value_range: (low, high) of the entries of the summed values. Integer noise needs it, since
        the entries are rounded. It has no default, since the values need not be losses.
      loss_range: the declared range of losses.
      neighbours: the declared neighbours.
      unit: the declared unit.
      printed_scale: a paper's scale of each draw for this epsilon, for the tree. It replaces the
        derived scale, and the epsilon of this scale is declared.

    Raises:
      ValueError, TypeError: an argument is invalid; a mechanism is shorter than the horizon.

    Examples:
      >>> made = prefix_sums.calibrate(
      ...     1000, (3,), (2.0, 1.0), epsilon=1.0, delta=None, mechanism=mechanisms.tree,
      ...     noise="laplace", value_range=(0.0, 1.0), loss_range=(0.0, 1.0),
      ... )
      >>> float(made.scale), made.privacy.model
      (20.0, 'central')
    """
    horizon, law = prefix.check(horizon, noise, integers=True)
    _check.factory("mechanisms.tree", mechanism=mechanism)
    check_delta_of(law.name, law.pure, delta)
    plain = mechanism.func if isinstance(mechanism, partial) else mechanism
    if printed_scale is not None and plain is not mechanisms.tree:
        raise ValueError("calibration: the printed scale requires mechanisms.tree")
    built = build(mechanism, horizon, law.name)
    encoder = built.sensitivity
    noiseless = encoder[1] == float("inf")  # exact sums, for which no scale is defined
    epsilon = jnp.asarray(float("inf") if noiseless else epsilon, jnp.float32)
    if noiseless:
        encoder = (0.0, 0.0)
    if law.integers:
        change = of_rounded(change, shape, value_range, unit)
    encoded = encoder[0] * change[0], encoder[1] * change[1]
    if printed_scale is None:
        calibrated = law.calibrate(encoded, epsilon, delta)
    else:
        calibrated = law.declare(encoded, printed_scale, delta)
    declared = Privacy(
        epsilon=calibrated.epsilon,
        delta=0.0 if delta is None else delta,
        rho=calibrated.rho,
        neighbours=neighbours,
        unit=unit,
        loss_range=loss_range,
        model=built.model,
        released=RELEASED[built.model],
        accountant=accountant_of(built),
        sums=built.sums,
    )
    if printed_scale is not None:
        declared = stated(declared, "printed", epsilon)
    stream = built.stream(shape, scale=jnp.asarray(calibrated.scale, jnp.float32))
    return PrefixSums(built, stream.init, stream.step, calibrated.scale, declared)


def clip_into(losses: LossSet, unit: Unit) -> Callable:
    """The ``clip`` of a learner whose loss vectors are in a LossSet.

    Args:
      losses: a LossSet.
      unit: "round" or "entry", as in :func:`dpjax.domains.clipped`.

    Returns:
      A function: loss (d,) -> (the loss within the set (d,), 1 if it was outside, otherwise 0).
    """
    clip = clipped(losses, unit)
    # A vector on the border of the set may move by rounding when it is clipped.
    tolerance = 1e-5 * max(abs(bound) for bound in losses.entry)

    def clip_loss(loss):
        inside = clip(loss)
        outside = ~(jnp.max(jnp.abs(inside - loss)) <= tolerance)  # True for NaN
        return inside, outside.astype(jnp.int32)

    return clip_loss


def prefix_sums(
    horizon: int,
    losses: LossSet,
    *,
    epsilon: Number,
    delta: Number | None,
    mechanism: Callable,
    noise: LawName,
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    printed_scale: Number | None = None,
) -> PrefixSums:
    """Noisy sums of the losses of rounds 1 .. t, t = 0 .. T - 1, with a declared privacy.

    The noise is calibrated by :func:`calibrate` to the change of one loss vector of the set.

    Args:
      horizon: T, rounds.
      losses: a LossSet. Losses outside the set are counted, and moved to the nearest vector in it.
        If the unit is an entry, they are instead clipped entry by entry
        (:func:`dpjax.domains.clipped`).
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1); None for pure-DP noise (:class:`dpjax.noise.Law`).
      mechanism: a factory in :mod:`dpjax.mechanisms`, or a similar one; it is called with the
        horizon and ``noise``.
      noise: a name of ``dpjax.noise.LAWS``, or a law itself.
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      printed_scale: as in :func:`calibrate`.

    Raises:
      ValueError, TypeError: an argument is invalid; a mechanism is shorter than the horizon.

    Examples:
      >>> made = prefix_sums.prefix_sums(
      ...     1000, domains.box_losses(3, 0.0, 1.0), epsilon=1.0, delta=None,
      ...     mechanism=mechanisms.tree, noise="laplace",
      ... )
      >>> float(made.scale)  # 10 levels, and 3 entries that move by 1
      30.0
    """
    calibrated = calibrate(
        horizon, (losses.dim,), sensitivity(losses, neighbours, unit), epsilon=epsilon,
        delta=delta, mechanism=mechanism, noise=noise, value_range=losses.entry,
        loss_range=losses.entry, neighbours=neighbours, unit=unit, printed_scale=printed_scale,
    )  # fmt: skip
    return calibrated._replace(clip=clip_into(losses, unit))


def accountant_of(mechanism: Mechanism) -> str:
    """The theorem by which the noise of a mechanism hides one value."""
    law = LAWS[mechanism.noise]
    title = law.title
    name = f"{title[0].upper()}{title[1:]} mechanism"
    if mechanism.model == "local":
        return f"{name} on each item"
    if mechanism.model != "central":
        idealised = "" if law.integers else ", which idealises integer noise"
        return f"{name} on the sum of each batch{idealised}"
    if mechanism.noise == "gaussian":
        return f"one {name} on the encoded stream, exact"
    return f"{name} on the encoded stream"


def sampled_rounds(horizon: int) -> np.ndarray:
    """The rounds 0 .. T - 1, or 2^20 of them, evenly spread, if there are more.

    They are spread by multiples of the golden ratio, since rounds at equal distances would share
    their low bits.

    Examples:
      >>> prefix_sums.sampled_rounds(4), len(prefix_sums.sampled_rounds(10**9))
      (array([0, 1, 2, 3]), 1048576)
    """
    if horizon <= 2**20:
        return np.arange(horizon)
    shares = np.arange(2**20, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)
    return (shares * np.uint64(horizon) >> np.uint64(32)).astype(np.int64)


def noise_length(horizon: int, dim: int, sums: PrefixSums) -> Array:
    """The root mean square length of the noise in the prefixes 0 .. T - 1, in R^d, ().

    The mean is over :func:`sampled_rounds`.
    """
    spread = float(np.mean(sums.mechanism.variance(sampled_rounds(horizon))))
    draws = dim * spread * float(LAWS[sums.mechanism.noise].variance(1.0))
    return jnp.asarray(np.sqrt(draws), jnp.float32) * sums.scale
