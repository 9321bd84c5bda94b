"""Private online Frank-Wolfe for i.i.d. smooth losses, with a recursive gradient estimate."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from dpjax import mechanisms
from dpjax.core import Array, Learner, Number, PyTree, _check
from dpjax.domains import Domain, ball_losses, check_domain
from dpjax.feedback import gradient, whole
from dpjax.learners.parts.prefix_sums import prefix_sums
from dpjax.maths.barriers import rounded_product
from dpjax.maths.two_words import add_compensated
from dpjax.noise import LawName


class OnlineFrankWolfeState(NamedTuple):
    point: Array  # (d,) x_t
    error: Array  # (d,) the rounding error of x_t, since late steps are smaller than its last digit
    previous: Array  # (d,) x_(t-1)
    round: Array  # () int32, t
    sums: PyTree  # state of the private prefix sums
    longer: Array  # () int32


class OnlineFrankWolfeReport(NamedTuple):
    longer: Array  # () int32, vectors w_t longer than G + beta D, which were scaled down to it


def online_frank_wolfe(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: LawName = "laplace",
    smoothness: float = 0.0,
) -> Learner:
    """Private online Frank-Wolfe: one linear minimization a round, no projection.

    The gradient of the mean loss at x_t is estimated from the gradients of f_t at the last two
    points, d_t = ((t-1)/t)(d_(t-1) - grad f_t(x_(t-1))) + grad f_t(x_t). So t d_t is the prefix sum
    of

        w_t = t grad f_t(x_t) - (t - 1) grad f_t(x_(t-1)).

    With the released sum S~_t the next point is

        x_(t+1) = x_t + (v_t - x_t) / (t + 1),   v_t = argmin over the domain of <S~_t / t, v>.

    Args:
      domain: a Domain with a linear minimizer. G is the length of the longest vector of its loss
        set, as in :func:`one_point_gradient`.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), for noise that is not pure DP, as in :func:`ftrl`.
      mechanism: a factory of ``dpjax.mechanisms``.
      noise: as in :func:`ftrl`.
      smoothness: beta >= 0, the Lipschitz constant of the loss gradients; 0 for linear losses.

    Returns:
      A Learner that observes the whole loss function. An action is x_t (d,), in the domain. Vectors
      w_t longer than G + beta D, with D the diameter, are scaled down to this length and counted in
      the report.

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central, for replacement
    of one round's loss function. Released values: actions 1..T. Since |x_t - x_(t-1)| is at most
    D / t, |w_t| is at most G + beta D (t - 1) / t. So a replaced loss changes w_t by at most 2
    (G + beta D) in L2, and given the releases it changes no other summand.

    Regret: for i.i.d. losses at most
    (G D + D z)(1 + ln T) + 4 W D sqrt(T) + (D z + beta D^2 / 2)(ln(T)^2 / 2 + ln T), in expectation
    against the best point for their mean. Here W = G + beta D, and z is the largest root mean
    square length of a prefix's noise. No bound is known for losses that are not i.i.d. The
    derivation is ours: the sum of w_1 .. w_t minus t grad F(x_t) is a martingale whose steps are at
    most W in mean square. So the mean error of d_t is at most W / sqrt(t), and its release adds
    z / t. A step of length 1 / (t + 1) then gives (t + 1) h_(t+1) <= t h_t +
    D (W / sqrt(t) + z / t) + beta D^2 / (2 (t + 1)), with h_t = F(x_t) - min F and h_1 <= G D.

    Reference: Han, Liang, Liang, Wang, Yao & Zhang, "On private online convex optimization: optimal
    algorithms in lp-geometry and high dimensional contextual bandits", 2022, as reconstructed.

    Examples:
      >>> made = [
      ...     learners.online_frank_wolfe(1000, domains.ball(2), epsilon=1.0, smoothness=x)
      ...     for x in (0.0, 1.0)
      ... ]
      >>> [x.privacy.loss_range for x in made]
      [(-1.0, 1.0), (-3.0, 3.0)]
    """
    check_domain(domain)
    _check.non_negative(smoothness=smoothness)
    longest = domain.losses.norms[1]
    sums = prefix_sums(
        horizon, ball_losses(domain.dim, longest + smoothness * domain.diameter), epsilon=epsilon,
        delta=delta, mechanism=mechanism, noise=noise,
    )  # fmt: skip
    centre = jnp.asarray(domain.centre, jnp.float32)

    def init(key):
        (state, _), one = sums.init(key), jnp.ones((), jnp.int32)
        return OnlineFrankWolfeState(
            centre, jnp.zeros_like(centre), centre, one, state, one - 1
        ), centre

    def step(state, key, loss):
        x, t = state.point, state.round.astype(jnp.float32)
        now, before = gradient(loss, x), gradient(loss, state.previous)
        # t times the new gradient minus (t - 1) times the old, avoiding a difference of large
        # numbers.
        increment = now + rounded_product(t - 1.0, now - before)
        inside, longer = sums.clip(increment)
        inner, release = sums.step(state.sums, key, inside)
        toward = domain.minimizer(release / t)
        change = rounded_product(1.0 / (t + 1.0), toward - x)
        point, error = add_compensated(x, state.error, change)
        longer = state.longer + longer
        return OnlineFrankWolfeState(point, error, x, state.round + 1, inner, longer), point

    def report(state):
        return OnlineFrankWolfeReport(state.longer)

    return Learner(init, step, whole, domain, horizon, sums.privacy, report)
