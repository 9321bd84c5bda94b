"""LinUCB with changing regularizers: linear contextual bandits on a private Gram matrix."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Array, Learner, Number, Policies, PyTree, _check
from dpjax.feedback import contextual
from dpjax.learners.parts import gram as laws
from dpjax.learners.parts.gram_calibration import real
from dpjax.maths import ellipsoids
from dpjax.maths.laws import lowest


class Belief(NamedTuple):
    """The parameters of a policy: an ellipsoid around the estimated parameter."""

    estimate: Array  # (d,) theta~
    spread: Array  # (packed,) beta W, lower triangular, with W' W = V^-1


class LinucbState(NamedTuple):
    sums: PyTree  # of the private Gram matrix
    indefinite: Array  # () int32


class LinucbReport(NamedTuple):
    indefinite: Array  # () int32, rounds whose matrix V_t was not positive definite


def most_optimistic(belief: Belief, features: Array):
    """The arm with the smallest lower confidence bound: argmin <theta~, x> - beta sqrt(x' V^-1 x).

    Ties go to the first arm, up to rounding (:func:`dpjax.maths.laws.lowest`). In round 1 all arms
    of equal length tie.

    Args:
      belief: a Belief.
      features: (K, d).

    Returns:
      () int32.
    """
    dim = belief.estimate.shape[0]
    means = ellipsoids.inner(belief.estimate, features)
    widths = jnp.sqrt(ellipsoids.whiten(belief.spread, features))
    tied = lowest(means, widths, dim)
    arms = jnp.arange(features.shape[0])
    return jnp.min(jnp.where(tied, arms, arms[-1]))


def confidence(release, regularizer, dim, *, log_failure, deviation, parameter_bound):
    """The Belief from noisy packed sums of rows (x, loss), and whether V is positive definite."""
    gram_size = ellipsoids.packed_size(dim)
    bias = parameter_bound * jnp.sqrt(regularizer.largest) + regularizer.tilt
    shape = ellipsoids.ellipsoid(release[:gram_size], dim)
    estimate = ellipsoids.solve(shape.whitener, release[gram_size : gram_size + dim])
    growth = ellipsoids.log_determinant(shape, regularizer.smallest)
    beta = deviation * jnp.sqrt(jnp.maximum(2.0 * log_failure + growth, 0.0)) + bias
    return Belief(estimate, beta * shape.whitener), shape.definite


def linucb(
    horizon: int,
    dim: int,
    *,
    epsilon: Number,
    delta: Number,
    gram: laws.Gram | None = None,
    ridge: Number | None = None,
    feature_bound: Number = 1.0,
    loss_bound: Number = 1.0,
    parameter_bound: Number = 1.0,
    deviation: Number | None = None,
) -> Learner:
    """LinUCB on a noisy Gram matrix: jointly private, and OFUL at epsilon = inf.

    The mean loss of an arm with features x is <theta, x>. Let G~ and u~ be the released sum x x'
    and sum loss x over the past rounds, with noise and a shift of the eigenvalues. Noise and shift
    of G~ together have eigenvalues in [rho_min, rho_max], and gamma bounds the noise of u~. With

        V_t = G~,   theta~_t = V_t^-1 u~,
        beta_t = sigma sqrt(2 ln(2 / alpha) + ln det V_t - d ln rho_min) + S sqrt(rho_max) + gamma,

    round t plays the arm whose features x have the smallest <theta~_t, x> - beta_t |x|_(V_t^-1).

    Args:
      horizon: T, rounds.
      dim: d, the number of features of an arm.
      epsilon: privacy parameter; inf adds no noise, and the Gram matrix is regularized by
        ``ridge``.
      delta: in (0, 1).
      gram: the noise of the Gram matrix, from a factory in ``dpjax.gram``: ``gaussian``
        (symmetric), ``wishart`` (positive definite), or ``losses_only``, for public features. It
        sets the mechanism, the calibration, the shift of the eigenvalues, and alpha, the
        probability that some confidence bound fails. Default ``gram.gaussian()``.
      ridge: lambda > 0 of OFUL, which adds lambda |theta|^2 to the squared errors; default 1. It is
        a lower bound on rho_min, unless a floor of ``gram`` replaces it.
      feature_bound: L. Longer feature vectors are counted, and scaled down to length L before they
        are summed.
      loss_bound: losses outside [-loss_bound, loss_bound] are clipped.
      parameter_bound: S, an upper bound on |theta|.
      deviation: sigma, such that losses are sigma-sub-Gaussian; default loss_bound.

    Returns:
      A Learner with contextual feedback. An action is a policy: a function that maps the round's
      features (K, d) to an arm. If V_t is not positive definite, its pivots are replaced by their
      absolute values, and the round is counted.

    Privacy: (epsilon, delta)-joint DP for replacement of one round's features and losses. Released
    values: policies 1..T. A round's features affect its own arm without noise, and other arms only
    through releases. Changing one row moves the release by sqrt(2) L~^2 in Frobenius norm, with
    L~^2 = L^2 + loss_bound^2. The paper states L~^2. Its calibration is still correct, since its
    noise has twice the variance on the diagonal. (A footnote calls that unnecessary, but
    replacement needs it.) Gaussian noise is one exact Gaussian mechanism over all releases. So is
    the printed noise, which is 6 to 14 times as large as epsilon requires; the resulting smaller
    epsilon is declared. Wishart noise relies on Sheffet 2015, Theorem 4.1, in all calibrations.

    With the mechanism ``per_item`` a user chooses the arm from the public policy and sends the row
    with noise. Each message is one Gaussian mechanism. With batches of B users, one noisy sum is
    released for each batch, and the policy is fixed within it. If the users compute these sums by a
    shuffle-model protocol for vectors, the server sees no row. The binomial noise of this protocol
    is idealised as Gaussian. In both cases the noise grows with t, and so do rho_min, rho_max and
    gamma. Since the confidence bound of OFUL holds for one rho_min, ln(2 / alpha) becomes
    ln(2 T / alpha).

    Regret: O~(sqrt(T) d^(3/4) / sqrt(epsilon)) (:func:`dpjax.bounds.linucb`). It is O~(T^(3/4)) for
    ``per_item``, and O~(T^(3/5)) for batches of T^(3/5) users.

    Reference: Shariff & Sheffet, "Differentially private contextual linear bandits", 2018,
    Algorithm 1; Abbasi-Yadkori, Pal & Szepesvari 2011 (OFUL); Zheng, Cai, Huang, Li & Wang 2020 for
    the local model; Chowdhury & Zhou 2022 for the shuffle model. Their noise differs from ours.

    Examples:
      >>> learner = learners.linucb(1000, 3, epsilon=1.0, delta=1e-6)
      >>> learner.privacy.model, learner.privacy.released, learner.action_set
      ('joint', 'policies 1..T', Policies(dim=3, arms=None))
    """
    gram = laws.gaussian() if gram is None else gram
    _check.built(laws.Gram, "gram.gaussian()", gram=gram)
    laws.check_numbers(gram)
    if ridge is not None and gram.floor is not None:
        raise ValueError("ridge must be left out if gram has a floor, which replaces it")
    failure = 1.0 / max(horizon, 2) if gram.failure is None else gram.failure
    deviation = loss_bound if deviation is None else deviation
    bounds = laws.Bounds(feature_bound, loss_bound, parameter_bound)
    sums = gram.noise(
        horizon, dim, bounds, epsilon=epsilon, delta=delta, failure=failure,
        ridge=1.0 if ridge is None else real(ridge),
    )  # fmt: skip
    # Half of the failure probability is for private regularizers, and half for the losses' own
    # noise.
    share = jnp.where(sums.noisy, 2.0 * sums.events, 1.0)
    log_failure = jnp.log(share / jnp.asarray(failure, jnp.float32))
    sigma = jnp.asarray(deviation, jnp.float32)

    def act(state, indefinite, release):
        belief, definite = confidence(
            release, sums.now(state), dim, log_failure=log_failure, deviation=sigma,
            parameter_bound=parameter_bound,
        )  # fmt: skip
        indefinite = indefinite + (~definite).astype(jnp.int32)
        return LinucbState(state, indefinite), jax.tree_util.Partial(most_optimistic, belief)

    def init(key):
        state, release = sums.init(key)
        return act(state, jnp.zeros((), jnp.int32), release)

    def step(state, key, seen):
        features, loss = seen
        inner, release = sums.step(state.sums, key, features, loss)
        return act(inner, state.indefinite, release)

    return Learner(
        init, step, contextual, Policies(dim), horizon, sums.privacy,
        report=lambda state: LinucbReport(state.indefinite),
        clip=bounds.clip,
    )  # fmt: skip
