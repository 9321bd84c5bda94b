"""Private generalized infinitesimal gradient ascent, with noise on the output only."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import noise, privacy
from dpjax.core import Array, Learner, Neighbours, Number, Privacy, Unit
from dpjax.domains import Domain, LossSet, exact_projections, fitting, sensitivity
from dpjax.feedback import full
from dpjax.learners.parts.prefix_sums import clip_into
from dpjax.maths import two_words


class PrivateGigaState(NamedTuple):
    round: Array  # () int32, t, losses seen
    sum: two_words.TwoWords  # (d,) t (x_(t+1) - c), never released


def private_giga(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number,
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    strong_convexity: Number | None = None,
) -> Learner:
    """A gradient method on a hidden point, which is played with new noise in each round.

    The quadratic (alpha / 2) |x - c|^2 is added to each linear loss, with c the centre of the
    domain. Gradient steps of length 1 / (alpha t) lead to

        x_(t+1) = projection of x_t - (l_t + alpha (x_t - c)) / (alpha t)
        played:   projection of x_(t+1) + N(0, (beta / t)^2)

    The state is z_t = t (x_(t+1) - c), the projection of z_(t-1) - l_t / alpha on t (domain - c).

    This is a baseline. The effect of a changed round on the hidden point falls as 1 / t, and so
    does the noise. But each of the T outputs is a new release, so the noise is sqrt(T) times as
    large as for one output.

    Args:
      horizon: T, rounds. It is limited by float32 rounding, as described below.
      domain: a Domain with an exact projection.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1).
      neighbours: "replace" or "zero_out".
      unit: "round" or "entry".
      strong_convexity: alpha > 0; default the minimizer of the bound below
        (:func:`default_convexity`).

    Returns:
      A Learner with full information. An action is x, (d,), at first the centre of the domain.

    Raises:
      ValueError, TypeError: an argument is invalid; the domain's projection is approximate; the
        horizon is too long for the domain.

    Privacy: (epsilon, delta)-DP, central. Released values: actions 1..T. Each round moves z and
    projects it, and projections never increase distances. So a change of one loss by Delta_2 moves
    z by at most Delta_2 / alpha in its round and in all later ones, and x_(t+1) by 1 / t of that.
    The T - 1 outputs that depend on losses are Gaussian mechanisms with the same ratio of
    sensitivity to noise. They compose exactly, with beta = (Delta_2 / alpha) sqrt(T - 1) / mu. The
    paper states (3 epsilon, 2 delta)-DP with its own constants, which are not used here.

    Rounding: an approximate projection may increase distances, so it is refused. An exact
    projection has rounding errors, which add up over the rounds while the noise does not grow. So z
    is kept in two float32 words, and Delta_2 includes the largest effect of rounding
    (:func:`dpjax.domains.exact_projections.drift`). On the simplex of 5 entries with epsilon = 1
    and delta = 1e-6 this is 0.1 % at T = 2^10 and 5 % at T = 2^16. Horizons for which it may exceed
    Delta_2 itself are refused. The limit is about 2^19 on balls and 2^20 on the simplex. It is 724
    if projections are computed by roots or eigenvalues in one float32 word, as on lp balls.

    Regret: by our derivation, alpha T R^2 / 2 + (G^2 / (2 alpha) + G sqrt(d) beta)(1 + ln T) up to
    constants, with R the radius of the domain around c and G the largest |l|_2.

    Reference: Jain, Kothari & Thakurta, "Differentially private online learning", 2012, PGIGA, here
    with steps 1 / (alpha t).

    Examples:
      >>> learner = learners.private_giga(1000, domains.ball(2), epsilon=1.0, delta=1e-6)
      >>> learner.privacy.accountant
      'exact composition of T - 1 Gaussian mechanisms'
    """
    losses = fitting(domain, None)
    epsilon = jnp.asarray(epsilon, jnp.float32)
    exact = check_exact(domain, horizon)
    change = sensitivity(losses, neighbours, unit)[1]
    inverse_mu = privacy.gaussian_inverse_mu(epsilon, delta)
    # size = beta alpha, the noise in units of 1 / (alpha t)
    size = jnp.asarray(change * np.sqrt(horizon - 1), jnp.float32) * inverse_mu
    bound = longest_loss(losses, unit)
    if strong_convexity is None:
        strong_convexity = default_convexity(horizon, domain, bound, size)
    alpha = jnp.asarray(strong_convexity, jnp.float32)
    centre = jnp.asarray(domain.centre, jnp.float32)
    size = size * (1.0 + largest_drift(exact, domain, horizon, alpha, bound) / change)

    def init(key):
        del key  # the first action is the centre, which needs no noise
        nothing = two_words.of(jnp.zeros(domain.dim))
        return PrivateGigaState(jnp.zeros((), jnp.int32), nothing), centre

    def step(state, key, loss):
        count = state.round + 1
        t = count.astype(jnp.float32)
        moved = two_words.subtract(state.sum, two_words.of(loss / alpha))
        total = exact_projections.onto_multiple(exact, moved, t, centre)
        point = two_words.add(two_words.divide(total, t), two_words.of(centre)).high
        # Far from the domain one projection has a rounding error, so two are applied.
        shown = domain.project(domain.project(noise.gaussian(key, point, size / (alpha * t))))
        return PrivateGigaState(count, total), shown

    declared = Privacy(
        epsilon=epsilon,
        delta=delta,
        rho=0.5 / inverse_mu**2,
        neighbours=neighbours,
        unit=unit,
        loss_range=losses.entry,
        accountant="exact composition of T - 1 Gaussian mechanisms",
    )
    return Learner(init, step, full, domain, horizon, declared, clip=clip_into(losses, unit))


def longest_loss(losses: LossSet, unit: Unit) -> float:
    """G, the largest |l|_2 of a loss after clipping.

    If the unit is an entry, entries are clipped one by one, and the whole vector may be longer than
    any in the set.
    """
    if unit == "round":
        return losses.norms[1]
    return float(np.sqrt(losses.dim)) * max(abs(end) for end in losses.entry)


def default_convexity(horizon: int, domain: Domain, bound: Number, size: Number):
    """The alpha that minimizes alpha T R^2 / 2 + (G^2 / 2 + G sqrt(d) size)(1 + ln T) / alpha.

    ``bound`` is G and ``size`` is beta alpha, which does not depend on alpha.
    """
    gradients = bound**2 / 2 + bound * float(np.sqrt(domain.dim)) * size
    return jnp.sqrt(2 * gradients * float(1 + np.log(horizon)) / (horizon * domain.radius**2))


def largest_drift(exact, domain, horizon, alpha, bound):
    """alpha times the largest distance that rounding can move z in T rounds."""
    of_steps, of_points = exact_projections.drift(exact, domain.dim, horizon)
    # This is alpha |x|. As z is a sum of T steps, x is within G / alpha of the centre.
    farthest = alpha * float(np.linalg.norm(domain.centre))
    farthest = farthest + jnp.minimum(alpha * domain.radius, bound)
    return of_steps * bound + of_points * farthest


def check_exact(domain: Domain, horizon: int) -> exact_projections.ExactProjection:
    """The domain's exact projection; raises if there is none or rounding is too large."""
    exact = domain.exact_projection
    if exact is None:
        raise ValueError(
            "domain must have an exact projection: private_giga projects a hidden point, and an "
            "approximation may increase the effect of one loss"
        )
    limit = exact_projections.longest(exact, domain.dim)
    if horizon > limit:
        raise ValueError(
            f"horizon must be at most {limit} on this domain, got {horizon}: in float32 rounding "
            "may then move the hidden point farther than one loss does"
        )
    return exact
