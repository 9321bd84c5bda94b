"""AdaC-GOPE: linear elimination with Gaussian noise on one vector for each phase."""

import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Number, Numbers
from dpjax.learners.parts.elimination_phases import elimination_phases, log_term
from dpjax.learners.parts.sum_noise import zcdp_noise
from dpjax.maths import designs, ellipsoids, exact_sums


def adac_gope(
    horizon: int,
    actions: Numbers,
    *,
    rho: Number,
    delta: Number | None = None,
    ratio: Number | None = None,
    failure: Number | None = None,
) -> BatchLearner:
    """AdaC-GOPE: linear elimination whose phases release one vector with Gaussian noise.

    Phases, designs and eliminations are those of :func:`linear_elimination`, which adds noise to
    the loss sum of each arm in the core set. Here the sums S_a are combined into one vector of R^d,

        sum_a (S_a - n_a / 2) W a / g + N(0, I / (2 rho)),

    with V = sum_a n_a a a', W' W = V^-1, and g the largest |W a| in the core set. So a loss moves
    the vector by at most 1. The least-squares estimate of <theta, x> from this vector has Gaussian
    noise of variance g^2 |W x|^2 / (2 rho). Arms are eliminated with the radius

        gamma_x = sqrt(2 L |W x|^2 (1 / 4 + g^2 / (2 rho))),   L = ln(4 |A_i| T / beta).

    Separate noise on each sum would increase this variance: on average by the factor n / d if the
    core set has n arms. The core sets of :func:`dpjax.maths.designs.g_optimal` have only a few more
    than d arms, so the gain is small here.

    Args:
      horizon: T, rounds.
      actions: (K, d), as for :func:`linear_elimination`.
      rho: zCDP parameter; inf adds no noise. An epsilon-DP learner has rho = epsilon^2 / 2.
      delta: the delta at which epsilon is declared; it changes nothing else. Default T^-2.
      ratio: q, the growth of the phases, above 1; default (2T)^(1 / ln T), which is about 2.8.
      failure: beta in (0, 1), the probability that some estimate has an error above gamma; default
        1 / T.

    Returns:
      A BatchLearner with bandit feedback. An action is the row index of an arm.

    Privacy: rho-zCDP and sqrt(2 rho)-GDP for replacement of one round. Released values: actions
    1..T. Each loss is in one released vector, which it moves by at most 1 in L2. Designs, W and g
    depend only on earlier releases. The epsilon at delta is that of sqrt(2 rho)-GDP.

    Regret: O(sqrt(d T ln(K T)) + d sqrt(ln(K T) / rho) ln T) with probability 1 - beta. This is our
    own derivation, with the argument of :func:`linear_elimination`.

    Reference: Azize & Basu, "Concentrated differential privacy for bandits", 2023; the noise is as
    recalled. The phases are those of Hanna et al. 2022.

    Examples:
      >>> learner = learners.adac_gope(1000, np.eye(3), rho=0.5)
      >>> float(learner.privacy.rho), round(float(learner.privacy.epsilon), 2)  # at delta = T^-2
      (0.5, 4.89)
      >>> learner.privacy.sums.noise, learner.privacy.sums.over
      ('gaussian', 'releases')
    """
    points = jnp.asarray(designs.span_coordinates(actions), jnp.float32)
    law = zcdp_noise(horizon, rho, delta)
    dim = points.shape[1]

    def whitened(state):
        """(W a sqrt(n) for each arm (K, d), n, g sqrt(n)), with n () the rounds of the phase."""
        basis, _ = designs.coordinates(points, state.active)
        rounds = jnp.maximum(jnp.sum(state.stage.pulls), 1).astype(jnp.float32)
        shares = state.stage.pulls.astype(jnp.float32) / rounds
        rows = whiten(basis, shares)
        lengths = jnp.sqrt(jnp.sum(rows * rows, axis=1))
        largest = jnp.max(jnp.where(state.stage.pulls > 0, lengths, 0.0))
        return rows, rounds, jnp.maximum(largest, 1e-30)

    def record(key, state, total, played):
        del key
        rows, _, largest = whitened(state)
        share = rows[state.arm] / largest
        # The two integers of the sum are multiplied separately, so that a long sum is not rounded
        # to float32.
        whole = exact_sums.repeated(share, jnp.broadcast_to(total.whole, (dim,)))
        part = exact_sums.of(share * (total.part.astype(jnp.float32) * exact_sums.UNIT))
        centre = exact_sums.repeated(-0.5 * share, jnp.broadcast_to(played, (dim,)))
        return exact_sums.add(exact_sums.add(state.stage.kept, centre), exact_sums.add(whole, part))

    def evaluate(key, state):
        rows, rounds, largest = whitened(state)
        released = exact_sums.to_float(law.release(key, state.stage.kept, rounds))
        estimates = jnp.sum(rows * released[None], axis=1) * (largest / rounds)
        proxy = (law.per_loss + law.variance * largest * largest / rounds) / rounds
        logs = log_term(jnp.sum(state.active, dtype=jnp.float32), horizon, failure)
        lengths = jnp.sqrt(jnp.sum(rows * rows, axis=1))
        return estimates, lengths * jnp.sqrt(2.0 * logs * proxy)

    return elimination_phases(
        horizon, points, ratio, exact_sums.nothing((dim,)), record, evaluate, law.privacy
    )


def whiten(basis: Array, weights: Array):
    """W a for each action, (K, d), with W' W the inverse of V = sum_a w_a a a'.

    Args:
      basis: actions in :func:`dpjax.maths.designs.coordinates`, (K, d). If a coordinate is 0 for
        all actions, 1 is added to its diagonal entry of V.
      weights: (K,).
    """
    dim = basis.shape[1]
    information = jnp.sum(weights[:, None, None] * basis[:, :, None] * basis[:, None, :], axis=0)
    empty = jnp.all(basis == 0.0, axis=0)
    information = information + jnp.where(empty, jnp.eye(dim), 0.0)
    rows, columns = ellipsoids.indices(dim)
    packed = ellipsoids.ellipsoid(information[rows, columns], dim).whitener
    lower = jnp.tril(jnp.ones((dim, dim))) * ellipsoids.unpack(packed, dim)
    return jnp.sum(basis[:, None, :] * lower[None], axis=2)
