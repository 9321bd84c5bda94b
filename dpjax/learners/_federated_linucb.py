"""Federated LinUCB: silos share one linear contextual bandit by noisy sums of fixed batches."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax import mechanisms
from dpjax.core import Array, Learner, Number, Policies, PyTree, _check
from dpjax.feedback import contextual
from dpjax.learners._linucb import Belief, LinucbReport, confidence, most_optimistic
from dpjax.learners.parts import prefix_sums
from dpjax.learners.parts.gram import Bounds
from dpjax.learners.parts.gram_calibration import gaussian_regularizer
from dpjax.learners.parts.gram_streams import largest_variance
from dpjax.maths import ellipsoids

RELEASED = {
    "silo": "messages of silos, policies 1..T",
    "distributed": "opened sums of all batches, policies 1..T",
}


class FederatedState(NamedTuple):
    round: Array  # () int32, t
    rows: Array  # (M, packed) of each silo, the sum of v v' over the current batch
    sums: PyTree  # of the trees, one for each silo
    belief: Belief  # of the current policy
    indefinite: Array  # () int32


def federated_linucb(
    horizon: int,
    dim: int,
    *,
    epsilon: Number,
    delta: Number,
    silos: int = 2,
    batch: int | None = None,
    model: Literal["silo", "distributed"] = "silo",
    ridge: Number = 1.0,
    feature_bound: Number = 1.0,
    loss_bound: Number = 1.0,
    parameter_bound: Number = 1.0,
    deviation: Number | None = None,
    failure: Number | None = None,
) -> Learner:
    """Federated LinUCB: silos send noisy sums of fixed batches, and all play one policy.

    M silos serve users with a common parameter theta. Round t belongs to silo t mod M, so each silo
    serves T / M users. A batch is M B rounds. At its end silo i adds its sum of v v' over the
    batch, v = (x, loss), to its own binary tree. It sends the noisy sum G~_i of all its batches to
    the server. With

        V = sum_i G~_i + (rho_min + Upsilon) I,    theta~ = V^-1 u~,

    where u~ is the last row of the sum, the server announces a policy for the next batch. It plays
    the arm with the smallest <theta~, x> - beta |x|_(V^-1). Upsilon bounds the norm of the noise.
    beta and rho_min are those of :func:`linucb` for sqrt(M) times the noise.

    Args:
      horizon: T, rounds: the users of all silos together.
      dim: d, the number of features of an arm.
      epsilon: privacy parameter; inf adds no noise, and the Gram matrix is regularized by
        ``ridge``.
      delta: in (0, 1).
      silos: M, a public number.
      batch: B, users of each silo in a batch, a public number; default sqrt(T) / M, rounded up.
      model: "silo", in which each message is private by itself; or "distributed", in which a secure
        sum opens only the sum of the messages, and each silo adds 1 / M of the noise variance.
      ridge: lambda > 0 of OFUL, as in :func:`linucb`.
      feature_bound: L. Longer feature vectors are counted, and scaled down to length L before they
        are summed.
      loss_bound: losses outside [-loss_bound, loss_bound] are clipped.
      parameter_bound: S, an upper bound on |theta|.
      deviation: sigma, such that losses are sigma-sub-Gaussian; default loss_bound.
      failure: alpha, the probability that some confidence bound fails; default 1 / T.

    Returns:
      A Learner with contextual feedback. An action is a policy: a function that maps the round's
      features (K, d) to an arm. A batch that is cut short by the horizon is not summed. Matrices
      that are not positive definite are treated and counted as in :func:`linucb`.

    Privacy: (epsilon, delta)-DP for replacement of one user's features and losses. Released values:
    the messages of silos and policies 1..T. Users trust their own silo; neither the server nor
    other silos see a row. Changing one row moves one sum of one silo by sqrt(2) L~^2 in Frobenius
    norm, L~^2 = L^2 + loss_bound^2. All releases are one Gaussian mechanism on a tree with a leaf
    for each batch. A user's own arm depends on its features without noise. Batches are fixed in
    advance: a schedule that depends on rows without noise, for example through their determinant,
    is not private, whatever the noise.

    Regret: O~(M^(3/4) d^(3/4) sqrt(T / M) / sqrt(epsilon)) in total for "silo", plus O~(M B d) for
    batches (:func:`dpjax.bounds.federated_linucb`). For "distributed" M^(3/4) becomes M^(1/2), the
    regret of :func:`linucb` over T rounds.

    Reference: in the style of Dubey & Pentland, "Differentially-private federated linear bandits",
    2020, and Zhou & Chowdhury, "On differentially private federated linear contextual bandits",
    2023, as reconstructed: their proofs were not read. Noise and constants are our own derivation.

    Examples:
      >>> learner = learners.federated_linucb(4096, 3, silos=4, epsilon=1.0, delta=1e-6)
      >>> learner.privacy.model, learner.privacy.released
      ('silo', 'messages of silos, policies 1..T')
    """
    silos = _check.size(1, silos=silos)
    batch = math.ceil(math.sqrt(horizon) / silos) if batch is None else batch
    users = min(silos * _check.size(1, batch=batch), horizon)  # of a batch
    failure = 1.0 / max(horizon, 2) if failure is None else failure
    deviation = loss_bound if deviation is None else deviation
    bounds = Bounds(feature_bound, loss_bound, parameter_bound)
    senders = silos if model == "silo" else 1  # A secure sum acts as one silo of all users.
    batches = -(-horizon // users)
    # Entries off the diagonal appear twice. Those on it have twice the variance.
    rows, columns = ellipsoids.indices(dim + 1)
    weights = jnp.asarray(np.where(rows == columns, np.sqrt(2.0), 1.0)[None], jnp.float32)
    change = bounds.row**2
    sums = prefix_sums.calibrate(
        batches, (senders, len(rows)), (np.inf, change), epsilon=epsilon, delta=delta,
        mechanism=mechanisms.tree, noise="gaussian", value_range=(-change, change),
        loss_range=(-bounds.loss, bounds.loss),
    )  # fmt: skip
    noisiest = senders * largest_variance(mechanisms.tree, sums.mechanism)
    regularizer = gaussian_regularizer(
        sums.scale * np.sqrt(noisiest), dim, failure / (2.0 * batches), norm_bound="tight",
        ridge=ridge,
    )  # fmt: skip
    # Half of the failure probability is for private noise, and half for the losses' own noise.
    share = jnp.where(jnp.isfinite(jnp.asarray(epsilon)), 2.0, 1.0)

    def announce(messages):
        total = jnp.sum(weights * messages, axis=0)
        return confidence(
            ellipsoids.add_to_diagonal(total, dim + 1, regularizer.offset), regularizer, dim,
            log_failure=jnp.log(share / failure), deviation=deviation,
            parameter_bound=parameter_bound,
        )  # fmt: skip

    def policy(state):
        return state, jax.tree_util.Partial(most_optimistic, state.belief)

    def init(key):
        inner, messages = sums.init(key)
        belief, _ = announce(messages)
        zero = jnp.zeros((), jnp.int32)
        return policy(FederatedState(zero, jnp.zeros_like(messages), inner, belief, zero))

    def step(state, key, seen):
        features, loss = seen
        row = ellipsoids.outer(jnp.append(features, loss))
        sender = jnp.arange(senders) == state.round % senders
        rows = state.rows + jnp.where(sender[:, None], row, 0.0)
        now = state._replace(round=state.round + 1, rows=rows)

        def communicate():
            inner, messages = sums.step(now.sums, key, rows / weights)
            belief, definite = announce(messages)
            indefinite = now.indefinite + (~definite).astype(jnp.int32)
            return FederatedState(now.round, jnp.zeros_like(rows), inner, belief, indefinite)

        return policy(lax.cond(now.round % users == 0, communicate, lambda: now))

    declared = sums.privacy._replace(
        model=model, released=RELEASED[model], sums=None,
        accountant=f"{sums.privacy.accountant}, of batches",
    )  # fmt: skip
    return Learner(
        init, step, contextual, Policies(dim), horizon, declared,
        report=lambda state: LinucbReport(state.indefinite),
        clip=bounds.clip,
    )  # fmt: skip
