"""Private generalized infinitesimal gradient ascent: noise on the output, none on the state."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import _check, noise, privacy
from dpjax.core import Array, Learner, Privacy, full
from dpjax.domains import fitting, sensitivity
from dpjax.prefix_sums import PrefixSumsReport


class PrivateGigaState(NamedTuple):
    round: Array  # () int32, losses seen
    point: Array  # (d,) the gradient method's own, which is never shown
    clipped: Array  # () int32


def private_giga(
    horizon,
    domain,
    *,
    epsilon,
    delta,
    losses=None,
    neighbours="replace",
    unit="round",
    strong_convexity=None,
) -> Learner:
    """Noisy output of a gradient method: a hidden descent, a noisy copy of it each round.

    Each linear loss is given the quadratic (alpha / 2) |x - c|^2, c the centre of the domain, and
    followed by gradient steps of length 1 / (alpha t):

        x_(t+1) = projection of x_t - (l_t + alpha (x_t - c)) / (alpha t)
        played:   projection of x_(t+1) + N(0, (beta / t)^2)

    A baseline. The hidden point of a changed round is forgotten as 1 / t, and so is the noise, but
    each of the T outputs pays for itself: the noise is sqrt(T) times that of one.

    Args:
      horizon: T, rounds.
      domain: a Domain.
      epsilon: privacy; inf adds no noise.
      delta: in (0, 1).
      losses: a LossSet of the domain's dimension; by default the domain's own.
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      strong_convexity: alpha > 0. By default the one with the least bound below.

    Returns:
      A Learner with full information, whose action is x, (d,), the centre of the domain at first.
      Losses outside the loss set are moved to its nearest vector and counted.

    Privacy: (epsilon, delta)-DP, central, released: actions 1..T. A change of one loss by Delta_2
    in round s moves x_(s+1) by at most Delta_2 / (alpha s), and each later step shrinks that by
    1 - 1 / r before a projection that does not widen it: Delta_2 / (alpha t) after round t,
    whatever s. So all T - 1 outputs that depend on losses are Gaussian mechanisms of one ratio of
    sensitivity to noise, and compose exactly: beta = (Delta_2 / alpha) sqrt(T - 1) / mu. The
    paper's form is (3 epsilon, 2 delta)-DP with constants of its own, which we do not carry.

    Regret: as we derive it, alpha T R^2 / 2 + (G^2 / (2 alpha) + G sqrt(d) beta)(1 + ln T) up to
    constants, with R the radius of the domain around c and G the largest |l|_2; the default alpha
    is the least of it.

    Reference: Jain, Kothari & Thakurta, "Differentially private online learning", 2012, PGIGA, here
    with steps 1 / (alpha t).
    """
    horizon = _check.size(1, horizon=horizon)
    losses = fitting(domain, losses)
    _check.positive(epsilon=epsilon, strong_convexity=strong_convexity)
    _check.inside(0.0, 1.0, delta=delta)
    epsilon = jnp.asarray(epsilon, jnp.float32)
    change = sensitivity(losses, neighbours, unit)[1]
    inverse_mu = privacy.gaussian_inverse_mu(epsilon, delta)
    # beta alpha: what the noise is in units of 1 / (alpha t).
    size = jnp.asarray(change * np.sqrt(horizon - 1), jnp.float32) * inverse_mu
    bound = losses.norms[1]
    if strong_convexity is None:
        gradients = bound**2 / 2 + bound * float(np.sqrt(losses.dim)) * size
        strong_convexity = jnp.sqrt(
            2 * gradients * float(1 + np.log(horizon)) / (horizon * domain.radius**2)
        )
    alpha = jnp.asarray(strong_convexity, jnp.float32)
    centre = jnp.asarray(domain.centre, jnp.float32)
    tolerance = 1e-5 * max(abs(end) for end in losses.entry)

    def init(key):
        del key  # the first action is the centre, and data-free
        zero = jnp.zeros((), jnp.int32)
        return PrivateGigaState(zero, centre, zero), centre

    def step(state, key, loss):
        inside = losses.clip(loss)
        outside = jnp.max(jnp.abs(inside - loss)) > tolerance
        t = state.round + 1
        gradient = inside + alpha * (state.point - centre)
        rate = 1.0 / (alpha * t.astype(jnp.float32))
        point = domain.project(state.point - rate * gradient)
        shown = domain.project(noise.gaussian(key, point, rate * size))
        return PrivateGigaState(t, point, state.clipped + outside.astype(jnp.int32)), shown

    declared = Privacy(
        epsilon=epsilon,
        delta=delta,
        rho=0.5 / inverse_mu**2,
        neighbours=neighbours,
        unit=unit,
        loss_range=losses.entry,
        model="central",
        released="actions 1..T",
        calibration="derived",
        accountant="exact composition of T - 1 Gaussian mechanisms",
    )
    return Learner(
        init=init,
        step=step,
        feedback=full,
        action_set=domain,
        horizon=horizon,
        privacy=declared,
        report=lambda state: PrefixSumsReport(state.clipped),
    )
