"""EXP2: exponential weights with exploration, on losses with Laplace noise."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import noise, privacy
from dpjax.combinators import private_reduction
from dpjax.core import (
    Arms,
    Array,
    Feedback,
    Learner,
    Number,
    Numbers,
    Privacy,
    PyTree,
    _check,
)
from dpjax.domains import Domain, from_minimizer
from dpjax.feedback import bandit, linear, unclipped
from dpjax.maths import designs
from dpjax.privacy.printed import Calibration, is_printed


class Actions(NamedTuple):
    """Actions a_1 .. a_K that span a space of dimension r, with a law mu for exploration.

    Arms are the K unit vectors, with r = g = K and uniform mu.
    """

    count: int  # type: ignore[assignment] # K; tuples have a method of that name
    rank: int  # r
    exploration: PyTree  # mu (K,) NumPy
    spread: float  # g, the largest a' P^+ a under mu, at least r
    scores: Callable  # (p (K,), index) -> <a_j, P^+ a_index> for all j, (K,), P = E_p[a a']
    play: Callable  # index -> the action in the environment's form
    feedback: Feedback
    action_set: PyTree  # Arms, or the Domain spanned by the vectors


class Exp2State(NamedTuple):
    exponents: Array  # (K,) -eta <a_j, L~>, shifted so that the largest is 0
    scores: Array  # (K,) <a_j, P^+ a> for the current action a
    violations: Array  # () int32


class Exp2Report(NamedTuple):
    violations: Array  # () int32, rounds that the proof excludes: eta <a, l~> < -1 for an action
    capped: Array  # () int32, 1 if gamma was cut to 1/2, so that the regret bound does not apply


def arms_as_actions(arms: int) -> Actions:
    """K arms. The estimate is the loss of the played arm divided by the arm's probability."""

    def scores(p, arm):
        return jnp.zeros(arms, jnp.float32).at[arm].set(1.0 / p[arm])

    uniform = np.full(arms, 1.0 / arms)
    return Actions(arms, arms, uniform, float(arms), scores, lambda arm: arm, bandit, Arms(arms))


def vectors_as_actions(vectors: np.ndarray) -> Actions:
    """Vectors (K, d), explored by their G-optimal design."""
    exploration, spread, white = g_optimal_design(vectors)
    white, points = jnp.asarray(white, jnp.float32), jnp.asarray(vectors, jnp.float32)
    count, rank = white.shape

    def scores(p, index):
        # In these coordinates P is the identity under the design, so for any actions the
        # eigenvalues of P under p are at least gamma.
        spread = jnp.sum(p[:, None, None] * white[:, :, None] * white[:, None, :], axis=0)
        return jnp.sum(white * jnp.linalg.solve(spread, white[index])[None], axis=1)

    def play(index):
        return points[index]

    return Actions(count, rank, exploration, spread, scores, play, linear, hull(vectors))


def hull(vectors: np.ndarray) -> Domain:
    """The convex hull of vectors (K, d)."""
    # NumPy arrays are not part of a trace, so a traced game can be checked against its domain.
    centre, points = np.mean(vectors, axis=0), np.asarray(vectors, np.float32)
    radius = float(np.max(np.linalg.norm(vectors - centre, axis=1)))
    return from_minimizer(
        vectors.shape[1],
        lambda g: jnp.asarray(points)[jnp.argmin(jnp.asarray(points) @ g)],
        centre=centre,
        radius=max(radius, 1e-30),
        diameter=max(2.0 * radius, 1e-30),
    )


def g_optimal_design(vectors: np.ndarray):
    """The mu whose largest a' P^+ a, with P = E_mu[a a'], is within 1 % of the smallest possible.

    The smallest is the rank r (Kiefer & Wolfowitz 1960). The design is computed by
    :func:`dpjax.maths.designs.g_optimal`.

    Args:
      vectors: (K, d).

    Returns:
      mu (K,), the largest a' P^+ a, and the actions in coordinates (K, r) where P = I, in float64.
    """
    coordinates = designs.span_coordinates(vectors)
    with jax.core.eval_context():
        mu = np.asarray(_near_optimal(jnp.asarray(coordinates, jnp.float32)), np.float64)
    mu = mu / mu.sum()
    cholesky = np.linalg.cholesky(coordinates.T @ (mu[:, None] * coordinates))
    white = np.linalg.solve(cholesky, coordinates.T).T
    return mu, float(np.sum(white**2, axis=1).max()), white


# Jitted, since a loop outside of jit would be compiled at every call. The ratio is slightly below
# 1.01, to leave room for rounding.
_near_optimal = jax.jit(partial(designs.g_optimal, ratio=1.0099))


def derived_rates(rounds, actions, loss_range, scale, centre, *, rate=None):
    """(eta, gamma, whether gamma was cut). ``rounds`` may be traced.

    Let M be the largest |l - centre|, w = high - low and lambda the scale of the Laplace noise.
    With probability at least 1 - 1 / T the noise never exceeds B = 2 lambda ln T. Since
    e^-x <= 1 - x + x^2 for x >= -1, eta g (M + B) <= gamma implies

        regret <= ln K / eta + eta T r (M^2 + 2 lambda^2) + gamma T w + w,

    where the second term uses q_j <= p_j / (1 - gamma). We set gamma = eta g (M + B) and the eta
    that minimizes the sum, sqrt(ln K / (T (r (M^2 + 2 lambda^2) + w g (M + B)))). An eta passed as
    ``rate`` is kept, and gamma follows from it.
    """
    low, high = loss_range
    largest = jnp.maximum(jnp.abs(low - centre), jnp.abs(high - centre))
    rounds = jnp.asarray(rounds, jnp.float32)
    reach = actions.spread * (largest + 2.0 * scale * jnp.log(rounds))
    second_moment = largest * largest + 2.0 * scale * scale
    price = actions.rank * second_moment + (high - low) * reach
    if rate is not None:
        eta = jnp.asarray(rate, jnp.float32)
        return eta, jnp.minimum(0.5, eta * reach), eta * reach > 0.5
    eta = jnp.sqrt(jnp.log(jnp.float32(actions.count)) / (rounds * price))
    gamma = jnp.minimum(0.5, eta * reach)
    # If gamma is cut, eta is reduced to keep the condition, but the regret bound does not apply.
    return jnp.minimum(eta, gamma / reach), gamma, eta * reach > 0.5


def printed_rates(rounds, actions, loss_range, scale, *, rate=None):
    """eta = sqrt(ln N / (2 N T (1 + 2 lambda^2 ln NT))), gamma = eta N sqrt(1 + 2 lambda^2 ln NT).

    The paper prints them for losses in [-1, 1], and losses are scaled to that range here. The third
    value is whether gamma was cut to 1. An eta passed as ``rate``, for unscaled losses, is kept,
    and gamma follows from it.
    """
    low, high = loss_range
    unit = jnp.maximum(jnp.abs(low), jnp.abs(high))
    rounds, arms = jnp.asarray(rounds, jnp.float32), actions.count
    inflation = 1.0 + 2.0 * jnp.square(scale / unit) * jnp.log(arms * rounds)
    eta = jnp.sqrt(jnp.log(jnp.float32(arms)) / (2.0 * arms * rounds * inflation))
    if rate is not None:
        eta = unit * jnp.asarray(rate, jnp.float32)
    gamma = eta * arms * jnp.sqrt(inflation)
    return eta / unit, jnp.minimum(1.0, gamma), gamma > 1.0


def exponential_weights(horizon: int, actions: Actions, rates: tuple, centre: Number) -> Learner:
    """Algorithm 5 on the received losses, which may be noisy and outside any range.

    ``centre`` is subtracted from each loss. For arms this is the same game with smaller estimates.
    """
    eta, gamma, capped = rates
    exploration = jnp.asarray(actions.exploration, jnp.float32)

    def draw(key, exponents, violations):
        weights = jnp.exp(exponents)
        p = (1.0 - gamma) * weights / jnp.sum(weights) + gamma * exploration
        index = noise.choose(key, p)
        state = Exp2State(exponents, actions.scores(p, index), violations)
        return state, actions.play(index)

    def init(key):
        return draw(key, jnp.zeros(actions.count, jnp.float32), jnp.zeros((), jnp.int32))

    def step(state, key, loss):
        steps = -eta * (loss - centre) * state.scores
        violations = state.violations + (jnp.max(steps) > 1.0).astype(jnp.int32)
        exponents = state.exponents + steps
        return draw(key, exponents - jnp.max(exponents), violations)

    def report(state):
        return Exp2Report(state.violations, jnp.asarray(capped, jnp.int32))

    feedback, points = actions.feedback, actions.action_set
    return Learner(init, step, feedback, points, horizon, Privacy(), report, clip=unclipped)


def exp2(
    horizon: int,
    arms: Numbers,
    *,
    epsilon: Number,
    loss_range: tuple[Number, Number] | None = None,
    rate: Number | None = None,
    mixing: Number | None = None,
    calibration: Calibration = "derived",
) -> Learner:
    """EXP2 with exploration on noisy losses, over arms or a finite set of vectors.

    The estimate L~ of the sum of the losses starts at zero. Each round draws an action from

        p_j = (1 - gamma) exp(-eta <a_j, L~>) / sum_i exp(-eta <a_i, L~>) + gamma mu_j,

    observes f = <l, a> + Lap((high - low) / epsilon) for the played action a, and adds l~ = f P^+ a
    to the estimate, with P = sum_j p_j a_j a_j'. For arms, the actions are unit vectors, mu is
    uniform, and l~ is f over the probability of the arm.

    Args:
      horizon: T, rounds.
      arms: K, at least 2, or a set of actions (K, d), which must be concrete (not traced).
      epsilon: privacy parameter; inf adds no noise and gives EXP2 with its own rates.
      loss_range: (low, high) of the losses <l, a>; default (0, 1) for arms, (-1, 1) for vectors.
      rate: eta, positive; the default minimizes the regret bound (:func:`derived_rates`), or is the
        paper's (:func:`printed_rates`).
      mixing: gamma, in (0, 1]; by default it follows from eta by the same functions.
      calibration: "derived", or "printed" for the paper's noise, eta and gamma (arms only).

    Returns:
      A Learner whose action is an arm or a point (d,), and which observes only its loss. The report
      counts the rounds with eta <a, l~> < -1 for some action, which the proof excludes, and states
      whether gamma was cut.

    Privacy: epsilon-DP, local, for replacement of one round. Released values: actions 1..T. Epsilon
    does not depend on eta and gamma, since the noise is added to the losses. "printed" has noise of
    scale 1 / epsilon, which is correct for losses in [0, 1]. For losses in [-1, 1] this is half the
    derived scale, and 2 epsilon is declared, by the paper's Definition 2.1.

    Regret: at most sqrt(T K ln K (3 + 8 / epsilon^2 + 8 ln T / epsilon)) + 1 in expectation over
    arms with losses in [0, 1] (oblivious), and twice that in [-1, 1]. For sets of vectors see
    :func:`derived_rates`. The proof needs gamma >= eta N (1 + 4 lambda ln NT). The printed gamma is
    eta N sqrt(1 + 2 lambda^2 ln NT), which is smaller for every lambda > 0.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithms 4 and 5, Theorem 4.1; Bubeck, Cesa-Bianchi & Kakade 2012 for sets of vectors.

    Examples:
      >>> printed = learners.exp2(
      ...     1000, 4, epsilon=1.0, loss_range=(-1.0, 1.0), calibration="printed"
      ... )
      >>> float(printed.privacy.epsilon), printed.privacy.model
      (2.0, 'local')
    """
    printed = is_printed(calibration)
    over_arms = not isinstance(arms, list | tuple) and np.ndim(arms) != 2
    if over_arms:
        actions = arms_as_actions(_check.arms(arms))
    elif printed:
        raise ValueError("calibration: the paper prints rates for arms only")
    else:
        actions = vectors_as_actions(designs.as_vectors("arms", arms))
    if loss_range is None:
        loss_range = (0.0, 1.0) if over_arms else (-1.0, 1.0)
    low, high = _check.interval(loss_range=loss_range)
    if not printed:
        # A constant may be subtracted for arms only: it is not a linear function of vectors.
        centre = (low + high) / 2 if over_arms else 0.0
        scale = privacy.laplace_scale(high - low, epsilon)
        rates = derived_rates(horizon, actions, (low, high), scale, centre, rate=rate)
    else:
        centre = 0.0
        scale = privacy.laplace_scale(jnp.maximum(jnp.abs(low), jnp.abs(high)), epsilon)
        rates = printed_rates(horizon, actions, (low, high), scale, rate=rate)
    if mixing is not None:
        rates = rates[0], jnp.asarray(mixing, jnp.float32), False
    return private_reduction(
        exponential_weights(horizon, actions, rates, centre),
        epsilon=epsilon,
        loss_range=(low, high),
        calibration=calibration,
    )
