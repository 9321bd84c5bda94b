"""Private greedy SGD for logistic contextual bandits, by one coin per user or noisy batch sums."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Array, Learner, Number, Policies, Privacy, Sums, _check
from dpjax.feedback import contextual
from dpjax.learners.parts.arm_sums import check_delta
from dpjax.learners.parts.gram import clip_row
from dpjax.learners.parts.prefix_sums import RELEASED
from dpjax.maths import ellipsoids, laws
from dpjax.maths.clipping import within
from dpjax.maths.logistic import gradient_ball
from dpjax.maths.two_words import add_compensated


class GlmSgdState(NamedTuple):
    theta: Array  # (d,) of the current policy
    total: Array  # (d,) sum of the gradients of the current batch, without noise
    error: Array  # (d,) its rounding error (Kahan)
    waiting: Array  # () int32, rounds of the current batch
    report: "GlmSgdReport"


class GlmSgdReport(NamedTuple):
    updates: Array  # () int32, steps so far, one for each complete batch
    cut: Array  # () int32, steps that left the ball of radius S and were projected onto it


def greedy(theta: Array, features: Array):
    """The arm whose loss is least likely: argmin <theta, x>, the first in a tie.

    Args:
      theta: (d,).
      features: (K, d).

    Returns:
      () int32.
    """
    return jnp.argmin(ellipsoids.inner(theta, features)).astype(jnp.int32)


def coin_lead(epsilon: Number):
    """tanh(epsilon / 2) / 2: how far an epsilon-DP coin may be from 1/2, () float32.

    If epsilon >= 1, 1/2 minus this number is rounded up to a positive multiple of 2^-23. So the
    ratio of two probabilities stays below e^epsilon.
    """
    flip = 2.0**-23 * jnp.maximum(jnp.ceil(2.0**23 * jax.nn.sigmoid(-epsilon)), 1.0)
    return jnp.where(epsilon < 1.0, 0.5 * jnp.tanh(0.5 * epsilon), 0.5 - flip)


def coin_message(key: Array, offset: Array, radius: Number, lead: Number):
    """An unbiased estimate of a vector by one coin along a random direction, (d,).

    The direction v is uniform on the sphere. For the vector w the message is r B v with probability

        1/2 + sign(<v, w>) min(1, |w| / r) tanh(epsilon / 2) / 2,

    and otherwise -r B v, for B = sqrt(pi) Gamma((d + 1) / 2) / (Gamma(d / 2) tanh(epsilon / 2)).
    The direction is independent of the data, so the message is as private as its coin.

    Args:
      key: consumed.
      offset: w (d,), of length at most the radius.
      radius: r.
      lead: as in :func:`coin_lead`.
    """
    direction_key, coin_key = jr.split(key)
    direction = laws.normal(direction_key, offset.shape)
    direction = direction / jnp.sqrt(ellipsoids.squared_length(direction))
    share = jnp.minimum(1.0, jnp.sqrt(ellipsoids.squared_length(offset)) / radius)
    along = jnp.sign(jnp.sum(direction * offset)) * share * lead
    up = noise.coin(coin_key, jnp.stack([jnp.full_like(along, 0.5), along]))
    stretch = coin_stretch(len(offset)) / (2.0 * lead)
    return jnp.where(up, radius * stretch, -radius * stretch) * direction


def coin_stretch(dim: int):
    """sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2), which is 1 / E|v_1| for v on the sphere."""
    return math.exp(0.5 * math.log(math.pi) + math.lgamma(0.5 * (dim + 1)) - math.lgamma(0.5 * dim))


def default_strength(dim: int, parameter_bound: Number):
    """mu'(S) / (4 d): half of the curvature if the second moment of features is at least 1 / 2d."""
    tail = jax.nn.sigmoid(-jnp.asarray(parameter_bound, jnp.float32))
    return tail * (1.0 - tail) / (4.0 * dim)


def glm_sgd(
    horizon: int,
    dim: int,
    *,
    epsilon: Number,
    delta: Number | None = None,
    model: Literal["local", "shuffle", "joint"] = "local",
    batch: Number | None = None,
    strength: Number | None = None,
    parameter_bound: Number = 1.0,
    loss_range: tuple[float, float] = (0.0, 1.0),
) -> Learner:
    """Private greedy SGD for logistic bandits: one coin a user, or noisy sums of batches.

    A loss y is 1 with probability mu(<theta*, x>) for features x of length at most 1, with mu
    logistic and |theta*| <= S. Each round plays argmin <theta_j, x>, from theta_0 = 0. Batch j has
    the gradients g = (mu(<theta_j, x>) - y) x of its rounds. After the batch

        theta_(j+1) = the projection of theta_j - z_j / (m (j + j_0)) onto the ball of radius S,

    with j_0 = 1 + 1 / (4 m) and a private estimate z_j of the mean gradient:

        local           z_j = c + a message of g - c,   batches of 1
        shuffle, joint  z_j = (sum g + N(0, (D sigma)^2 I)) / n,   batches of n

    Here c is the centre and D the diameter of all possible gradients at theta_j
    (:func:`gradient_ball`). Both are public, since theta_j is. The message is one coin along a
    random direction (:func:`coin_message`). Gaussian noise of scale sigma hides a change by 1.

    At every finite epsilon, a message is at least sqrt(pi d / 2) radii long, up to lower-order
    terms: above epsilon = 5 its noise hardly falls. Without privacy the default is single steps,
    which may leave the ball in most rounds (see the report). Larger batches may then have less
    regret.

    Args:
      horizon: T, rounds.
      dim: d, the number of features of an arm. Features longer than 1 are scaled down to length 1.
      epsilon: privacy parameter; inf adds no noise. With batches of 1 the learner is then greedy
        SGD.
      delta: in (0, 1), for Gaussian noise; default T^-2. It must be left out in the local model,
        whose message is pure DP.
      model: "local", "shuffle" or "joint".
      batch: n in the models "shuffle" and "joint", at least 1 and rounded down; may be traced.
        Default 4 sigma T^(1/4) sqrt(d R / S) with R = D / 2 at parameters of length S, cut to
        [1, T]. Up to a logarithm this balances the terms of the bound that depend on n.
      strength: m > 0; default kappa / (4 d), with kappa = mu'(S) the smallest slope of mu. The
        regret bound needs m <= kappa lambda / 2. Here lambda is the smallest eigenvalue of E[x x']
        over the features that are played.
      parameter_bound: S, at least |theta*|.
      loss_range: (low, high) of the losses, Python floats. They are scaled to [0, 1] to be y. It is
        (-1, 1) for :func:`dpjax.environments.classification`.

    Returns:
      A Learner with contextual feedback. An action is a policy: a function that maps the round's
      features (K, d) to an arm. The report counts the steps and those that were projected.

    Privacy: epsilon-DP (local) or (epsilon, delta)-DP (exact Gaussian), for replacement of one
    round's features and losses. Local: the messages 1..T, each a function of one coin. Joint:
    policies 1..T; a round's features affect its own arm without noise, and other arms only through
    releases. A round is in one sum, which it moves by at most D <= 2. Shuffle: the same sums,
    computed by a shuffle protocol for vectors. Its binomial noise is idealised as Gaussian. A batch
    that is cut short by the horizon is not released.

    Regret: O(sqrt(d T) / (epsilon m)) in the local model (:func:`dpjax.bounds.glm_sgd`). In the
    other models it is O(sqrt(T) / m + n ln(T) / m) for batches of at least 4 d sigma^2 rounds
    (:func:`dpjax.bounds.glm_sgd_batched`). The learner does not explore. If the played features do
    not spread in all directions, lambda is 0. A worse arm may then be played in all rounds, and
    regret is linear in T.

    Reference: our derivation, after Han, Liang, Wang & Zhang 2021 (local generalized linear
    bandits by SGD, as recalled); Duchi, Jordan & Wainwright 2018 for the message.

    Examples:
      >>> learner = learners.glm_sgd(1000, 3, epsilon=1.0)
      >>> learner.privacy.model, learner.privacy.delta, learner.privacy.released
      ('local', 0.0, 'messages 1..T')
      >>> learners.glm_sgd(1000, 3, epsilon=1.0, delta=1e-6, model="joint").privacy.released
      'policies 1..T'
    """
    _check.between(1.0, jnp.inf, **_check.specified(batch=batch))
    low, high = _check.interval(loss_range=loss_range)
    local = model == "local"
    for name, value in {"delta": delta, "batch": batch}.items():
        if local and value is not None:
            raise ValueError(f"{name} must be left out if model is 'local', which has none")
    bound = jnp.asarray(parameter_bound, jnp.float32)
    m = default_strength(dim, bound) if strength is None else jnp.asarray(strength, jnp.float32)
    start = 1.0 + 0.25 / m
    noisy = jnp.asarray(epsilon, jnp.float32) < jnp.inf
    declared = Privacy(
        epsilon=epsilon, model=model, loss_range=(low, high),
        released=RELEASED.get(model, "policies 1..T"),
    )  # fmt: skip
    if local:
        lead, size = coin_lead(jnp.asarray(epsilon, jnp.float32)), jnp.int32(1)
        declared = declared._replace(accountant="randomized response, each gradient")
    else:
        delta = check_delta(horizon, delta)
        sigma = privacy.gaussian_scale(1.0, epsilon, delta)
        spread = dim * gradient_ball(bound)[1] / bound
        n = 4.0 * sigma * horizon**0.25 * jnp.sqrt(spread) if batch is None else batch
        size = jnp.clip(jnp.asarray(n, jnp.float32), 1.0, horizon).astype(jnp.int32)
        sigma = jnp.asarray(sigma, jnp.float32)
        declared = declared._replace(
            delta=delta, rho=0.5 / sigma**2, sums=Sums("gaussian", "releases", model),
            accountant="parallel composition of Gaussian mechanisms",
        )  # fmt: skip

    def released(key, theta, total):
        """The released sum of the gradients of a batch."""
        length = jnp.sqrt(ellipsoids.squared_length(theta))
        along, radius = gradient_ball(length)
        if not local:
            return noise.gaussian(key, total, 2.0 * radius * sigma)
        centre = along / jnp.maximum(length, 1e-30) * theta
        message = centre + coin_message(key, total - centre, radius, lead)
        return jnp.where(noisy, message, total)

    def play(state):
        return state, jax.tree_util.Partial(greedy, state.theta)

    def init(key):
        del key
        zeros, zero = jnp.zeros(dim, jnp.float32), jnp.zeros((), jnp.int32)
        return play(GlmSgdState(zeros, zeros, zeros, zero, GlmSgdReport(zero, zero)))

    def step(state, key, seen):
        x, loss = seen
        theta, (updates, cut) = state.theta, state.report
        y = within((loss - low) / (high - low), 0.0, 1.0)  # above 1 only by rounding
        gradient = (jax.nn.sigmoid(jnp.sum(theta * x)) - y) * x
        total, error = add_compensated(state.total, state.error, gradient)
        ended = state.waiting + 1 >= size
        # The sum of an unfinished batch is not released.
        z = released(key, theta, jnp.where(ended, total, 0.0)) / size.astype(jnp.float32)
        moved = theta - z / (m * (updates.astype(jnp.float32) + start))
        shrink = bound / jnp.maximum(bound, jnp.sqrt(ellipsoids.squared_length(moved)))
        report = GlmSgdReport(updates + 1, cut + (shrink < 1.0).astype(jnp.int32))
        zero = jnp.zeros_like(total)
        after = GlmSgdState(shrink * moved, zero, zero, jnp.zeros_like(state.waiting), report)
        before = GlmSgdState(theta, total, error, state.waiting + 1, state.report)
        return play(jax.tree.map(lambda new, old: jnp.where(ended, new, old), after, before))

    return Learner(
        init, step, contextual, Policies(dim), horizon, declared, report=lambda state: state.report,
        clip=lambda seen: clip_row(seen, 1.0, low, high),
    )  # fmt: skip
