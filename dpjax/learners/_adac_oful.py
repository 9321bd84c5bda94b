"""AdaC-OFUL: OFUL on public features, with noisy loss sums released ever more rarely."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import noise
from dpjax.core import Array, Learner, Number, Policies
from dpjax.feedback import contextual
from dpjax.learners._linucb import Belief, most_optimistic
from dpjax.learners.parts.arm_sums import gaussian_draws
from dpjax.learners.parts.gram import Bounds
from dpjax.learners.parts.gram_calibration import normal_length
from dpjax.maths import ellipsoids
from dpjax.maths.two_words import add_compensated

# A batch may end slightly below the growth 1 + C: unit vectors often reach exactly this factor.
SLACK = 0.999


class AdacOfulState(NamedTuple):
    sums: Array  # (packed + d,) sum of x x' over all rounds, and of loss x over the current batch
    error: Array  # (packed + d,) the rounding errors of these sums (Kahan)
    released: Array  # (d,) the noisy sum of loss x over all complete batches
    volume: Array  # () ln det V / lambda^d when the last batch ended
    belief: Belief  # of the current policy
    batches: Array  # () int32, complete batches


class AdacOfulReport(NamedTuple):
    batches: Array  # () int32, complete batches, each with one released noisy sum


def adac_oful(
    horizon: int,
    dim: int,
    *,
    rho: Number,
    delta: Number | None = None,
    growth: Number = 1.0,
    ridge: Number = 1.0,
    feature_bound: Number = 1.0,
    loss_bound: Number = 1.0,
    parameter_bound: Number = 1.0,
    deviation: Number | None = None,
    failure: Number | None = None,
) -> Learner:
    """AdaC-OFUL: OFUL on public features, with one noisy sum for each doubling of det V.

    The mean loss of an arm with features x is <theta, x>. Let V = lambda I + sum x x', without
    noise. A batch of rounds ends when det V has grown by a factor of at least 1 + C since the batch
    began. The batch's sum of loss times x is then released with Gaussian noise. Let u~ be the sum
    of the releases of all l batches so far. Until the end of the next batch, each round plays the
    arm with the smallest <theta~, x> - beta |x|_(V^-1), with

        theta~ = V^-1 u~,
        beta = sigma sqrt(2 ln(2 / alpha) + ln det(V / lambda)) + S sqrt(lambda)
               + s sqrt(l m) (sqrt(d) + sqrt(2 ln(2 L / alpha))).

    Here s is the noise scale. m is the largest row sum of |V^-1|, or 1 / lambda if that is smaller.
    It is at least the largest eigenvalue of V^-1. For features of length 1,
    L = d ln(1 + T / (d lambda)) / ln(1 + C) bounds the number of batches.

    This is an ablation of :func:`linucb` with ``gram.losses_only()``. There a tree releases a noisy
    sum in every round, with at most log2 T noise draws in it. Here a sum may contain up to L draws.

    Args:
      horizon: T, rounds.
      dim: d, the number of features of an arm.
      rho: zCDP parameter; inf adds no noise. An epsilon-DP learner has rho = epsilon^2 / 2.
      delta: the delta at which epsilon is declared; it changes nothing else. Default T^-2.
      growth: C > 0. Near 0 every round is a batch.
      ridge: lambda > 0. A larger ridge improves the worst case, in which the played features are
        few and similar to each other.
      feature_bound: the largest length of a feature vector. Longer ones are scaled down to it.
      loss_bound: losses outside [-loss_bound, loss_bound] are clipped.
      parameter_bound: S, an upper bound on |theta|.
      deviation: sigma, such that losses are sigma-sub-Gaussian; default loss_bound.
      failure: alpha, the probability that some confidence bound fails; default 1 / T.

    Returns:
      A Learner with contextual feedback. An action is a policy: a function that maps the round's
      features (K, d) to an arm.

    Privacy: rho-zCDP and sqrt(2 rho)-GDP for replacement of one loss, with public features.
    Released values: policies 1..T. Each loss is in one released sum, which it moves by at most 2
    feature_bound loss_bound in L2. The end of a batch depends on features only, and played features
    depend on losses only through earlier releases. The epsilon at delta is that of sqrt(2 rho)-GDP.

    Regret: with probability 1 - alpha, at most sqrt(1 + C) times that of OFUL with the beta above
    (ours): O~(d sqrt(T) (1 + sqrt(d / rho))) for any features. If the
    played features spread in all directions, m is O(d / t), and privacy costs only
    O~(d^2 / sqrt(rho)).

    Reference: Azize & Basu, "Concentrated differential privacy for bandits", 2023, as recalled;
    Abbasi-Yadkori, Pal & Szepesvari 2011, 5.1 (OFUL that switches rarely). The noise, its width and
    the constants are our own derivation.

    Examples:
      >>> declared = learners.adac_oful(1000, 3, rho=0.5).privacy
      >>> declared.unit, declared.released  # features are public
      ('entry', 'policies 1..T')
    """
    failure = 1.0 / max(horizon, 2) if failure is None else failure
    deviation = loss_bound if deviation is None else deviation
    bounds = Bounds(feature_bound, loss_bound, parameter_bound)
    precision = 2.0 * jnp.asarray(rho, jnp.float32)
    scale = 2.0 * feature_bound * loss_bound / jnp.sqrt(precision)
    share = jnp.where(scale > 0.0, 0.5, 1.0) * failure  # for the noise of the losses themselves
    visits = horizon * jnp.square(feature_bound) / (dim * ridge)
    least = SLACK * jnp.log1p(growth)  # growth of ln det V that ends a batch
    most = jnp.clip(dim * jnp.log1p(visits) / least, 1.0, horizon)
    length = scale * normal_length(dim, 0.5 * failure / most)
    size = ellipsoids.packed_size(dim)

    def shape_of(sums):
        shape = ellipsoids.ellipsoid(ellipsoids.add_to_diagonal(sums[:size], dim, ridge), dim)
        return shape, ellipsoids.log_determinant(shape, ridge)

    def believe(shape, volume, released, batches):
        inverse = jax.vmap(lambda unit: ellipsoids.solve(shape.whitener, unit))(jnp.eye(dim))
        largest = jnp.minimum(jnp.max(jnp.sum(jnp.abs(inverse), axis=1)), 1.0 / ridge)
        beta = deviation * jnp.sqrt(2.0 * jnp.log(1.0 / share) + volume)
        beta = beta + parameter_bound * jnp.sqrt(jnp.float32(ridge))
        beta = beta + length * jnp.sqrt(batches.astype(jnp.float32) * largest)
        return Belief(ellipsoids.solve(shape.whitener, released), beta * shape.whitener)

    def policy(state):
        return state, jax.tree_util.Partial(most_optimistic, state.belief)

    def init(key):
        del key
        sums, released = jnp.zeros(size + dim, jnp.float32), jnp.zeros(dim, jnp.float32)
        zero = jnp.zeros((), jnp.int32)
        shape, volume = shape_of(sums)
        belief = believe(shape, volume, released, zero)
        return policy(AdacOfulState(sums, sums, released, volume, belief, zero))

    def step(state, key, seen):
        x, loss = seen
        row = jnp.concatenate([ellipsoids.outer(x), loss * x])
        sums, error = add_compensated(state.sums, state.error, row)
        shape, volume = shape_of(sums)
        ended = volume - state.volume > least
        # The sums of an unfinished batch are not read.
        noisy = noise.gaussian(key, jnp.where(ended, sums[size:], 0.0), scale)
        released = jnp.where(ended, state.released + noisy, state.released)
        batches = state.batches + ended.astype(jnp.int32)
        renewed = believe(shape, volume, released, batches), volume
        belief, volume = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old), renewed, (state.belief, state.volume)
        )
        fresh = ended & (jnp.arange(size + dim) >= size)
        sums, error = (jnp.where(fresh, 0.0, leaf) for leaf in (sums, error))
        return policy(AdacOfulState(sums, error, released, volume, belief, batches))

    accountant = "parallel composition of Gaussian mechanisms"
    declared = gaussian_draws(precision, horizon, delta, accountant)
    declared = declared._replace(
        unit="entry", loss_range=(-loss_bound, loss_bound), released="policies 1..T"
    )
    return Learner(
        init, step, contextual, Policies(dim), horizon, declared,
        report=lambda state: AdacOfulReport(state.batches),
        clip=bounds.clip,
    )  # fmt: skip
