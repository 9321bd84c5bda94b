"""Private prefix sums of loss vectors: where a loss set, a mechanism and epsilon meet.

Full-information learners are post-processing of what is released here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from dpjax import _check, mechanisms, privacy
from dpjax.core import Array, Mechanism, Number, Privacy, Stream
from dpjax.domains import clipped, sensitivity


class PrefixSumsState(NamedTuple):
    mechanism: Any
    clipped: Array  # () int32


class PrefixSumsReport(NamedTuple):
    clipped: Array  # () int32, loss vectors that lay outside the declared set and were clipped


class PrefixSums(NamedTuple):
    """A calibrated mechanism that clips what it sums."""

    init: Callable  # key -> (state, release of the empty prefix, (d,))
    step: Callable  # (state, key, loss (d,)) -> (state, release of the losses so far, (d,))
    report: Callable  # state -> PrefixSumsReport
    scale: Any  # () of each draw
    variance: Callable  # as of the Mechanism: of the noise a coordinate, over that of a draw
    privacy: Privacy


class Calibrated(NamedTuple):
    """A mechanism, and its stream with the noise that a declared privacy asks for."""

    mechanism: Mechanism
    stream: Stream
    scale: Any  # () of each draw
    privacy: Privacy


def build(factory, horizon, noise) -> Mechanism:
    """The mechanism that a learner's factory makes, refused where it does not serve the learner."""
    built = factory(horizon, noise=noise)
    _check.built(Mechanism, "mechanisms.tree(horizon)", **{"what mechanism returns": built})
    if built.horizon < horizon:
        raise ValueError(
            f"mechanism covers {built.horizon} rounds, fewer than the horizon, {horizon}"
        )
    if built.noise != noise:
        raise ValueError(f"mechanism has {built.noise} noise where the learner asks for {noise}")
    return built


def calibrate(
    horizon,
    shape,
    change,
    *,
    epsilon,
    delta,
    mechanism,
    noise,
    loss_range,
    neighbours="replace",
    unit="round",
    printed_scale=None,
) -> Calibrated:
    """The mechanism that hides a change of one value by at most ``change``.

    With C of the mechanism's factorization and Delta the change of one value, Laplace noise of
    scale |C|_1 Delta_1 / epsilon makes all releases together epsilon-DP, and Gaussian noise of
    standard deviation |C|_2 Delta_2 / mu makes them one Gaussian mechanism, mu the exact solution
    for (epsilon, delta): for values chosen adaptively too (see :mod:`dpjax.mechanisms`).

    Args:
      horizon: T, for releases of the prefixes 0 .. T - 1.
      shape: of a value.
      change: (L1, L2), the largest change of one value between neighbours.
      epsilon: privacy; inf adds no noise.
      delta: in (0, 1) where noise is "gaussian", None where it is "laplace".
      mechanism: a factory of :mod:`dpjax.mechanisms`, or one like them, which is called with
        the horizon and ``noise``.
      noise: "laplace" or "gaussian".
      loss_range: to declare.
      neighbours: to declare.
      unit: to declare.
      printed_scale: a paper's scale of each draw for this epsilon, in place of the derived one;
        for the tree. The epsilon that is declared is then the one that this scale has.

    Raises:
      ValueError, TypeError: bad arguments, by name; a mechanism that is shorter than the horizon.
    """
    horizon = _check.size(1, horizon=horizon)
    epsilon = _check.epsilon(epsilon)
    _check.one_of("laplace", "gaussian", noise=noise)
    _check.factory("mechanisms.tree", mechanism=mechanism)
    if noise == "gaussian" and delta is None:
        raise ValueError("delta must be given where noise is gaussian, which is never pure DP")
    if noise == "laplace" and delta is not None:
        raise ValueError("delta must be left out where noise is laplace, which is pure DP")
    if delta is not None:
        _check.delta(delta)
    plain = mechanism.func if isinstance(mechanism, partial) else mechanism
    if printed_scale is not None and plain is not mechanisms.tree:
        raise ValueError("calibration: the printed scale is that of mechanisms.tree, no other")

    built = build(mechanism, horizon, noise)
    encoder = built.sensitivity
    noiseless = encoder[0] == float("inf")  # the exact sums: no scale has a meaning
    epsilon = jnp.asarray(float("inf") if noiseless else epsilon, jnp.float32)
    if noiseless:
        encoder = (0.0, 0.0)
    rho, paper_epsilon, calibration = float("nan"), float("nan"), "derived"
    if printed_scale is not None:
        paper_epsilon, calibration = epsilon, "printed"
    if noise == "laplace":
        moved, accountant = encoder[0] * change[0], "Laplace mechanism on the encoded stream"
        scale = privacy.laplace_scale(moved, epsilon)
        if printed_scale is not None:
            scale, epsilon = printed_scale, privacy.noise_ratio(moved, printed_scale)
    else:
        moved = encoder[1] * change[1]
        accountant = "one Gaussian mechanism on the encoded stream, exact"
        scale = privacy.gaussian_scale(moved, epsilon, delta)
        rho = 0.5 / privacy.gaussian_inverse_mu(epsilon, delta) ** 2
        if printed_scale is not None:
            scale, mu = printed_scale, privacy.noise_ratio(moved, printed_scale)
            epsilon, rho = privacy.gaussian_epsilon(mu, delta), 0.5 * mu * mu
    declared = Privacy(
        epsilon=epsilon,
        delta=0.0 if delta is None else delta,
        rho=rho,
        neighbours=neighbours,
        unit=unit,
        loss_range=loss_range,
        calibration=calibration,
        accountant=accountant,
        paper_epsilon=paper_epsilon,
    )
    stream = built.stream(shape, scale=jnp.asarray(scale, jnp.float32))
    return Calibrated(built, stream, scale, declared)


def prefix_sums(
    horizon: int,
    losses,
    *,
    epsilon: Number,
    delta: Number | None,
    mechanism: Callable,
    noise: str,
    neighbours: str = "replace",
    unit: str = "round",
    printed_scale=None,
) -> PrefixSums:
    """Noisy sums of the losses of rounds 1 .. t, t = 0 .. T - 1, with a declared privacy.

    Calibrated by :func:`calibrate` for the change of one loss vector of the set.

    Args:
      horizon: T, rounds.
      losses: a LossSet. Losses outside it are moved to its nearest vector, or, where the unit is
        an entry, have their entries clipped to its range (:func:`dpjax.domains.clipped`), and are
        counted.
      epsilon: privacy; inf adds no noise.
      delta: in (0, 1) where noise is "gaussian", None where it is "laplace".
      mechanism: a factory of :mod:`dpjax.mechanisms`, or one like them, which is called with
        the horizon and ``noise``.
      noise: "laplace" or "gaussian".
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      printed_scale: as for :func:`calibrate`.

    Raises:
      ValueError, TypeError: bad arguments, by name; a mechanism that is shorter than the horizon.
    """
    built, stream, scale, declared = calibrate(
        horizon, (losses.dim,), sensitivity(losses, neighbours, unit), epsilon=epsilon,
        delta=delta, mechanism=mechanism, noise=noise, loss_range=losses.entry,
        neighbours=neighbours, unit=unit, printed_scale=printed_scale,
    )  # fmt: skip

    clip = clipped(losses, unit)

    def init(key):
        state, release = stream.init(key)
        return PrefixSumsState(state, jnp.zeros((), jnp.int32)), release

    # A vector on the border of the set moves by rounding when it is clipped.
    tolerance = 1e-5 * max(abs(bound) for bound in losses.entry)

    def step(state, key, loss):
        inside = clip(loss)
        outside = ~(jnp.max(jnp.abs(inside - loss)) <= tolerance)  # NaN too
        inner, release = stream.step(state.mechanism, key, inside)
        return PrefixSumsState(inner, state.clipped + outside.astype(jnp.int32)), release

    return PrefixSums(
        init=init,
        step=step,
        report=lambda state: PrefixSumsReport(state.clipped),
        scale=scale,
        variance=built.variance,
        privacy=declared,
    )
