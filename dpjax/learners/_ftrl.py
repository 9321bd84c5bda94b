"""Follow the regularized leader on private prefix sums."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from dpjax import mechanisms
from dpjax.core import Array, Learner, Neighbours, Number, PyTree, Unit, _check
from dpjax.domains import Domain, LossSet, Regularizer, ball_losses, fitting
from dpjax.feedback import full
from dpjax.learners.parts.prefix_sums import noise_length, prefix_sums
from dpjax.noise import LAWS, LawName, name_of
from dpjax.privacy.printed import Calibration, is_printed


class AnytimeState(NamedTuple):
    round: Array  # () int32, t
    sums: PyTree


def default_rate(horizon: int, regularizer: Regularizer, losses: LossSet) -> float:
    """eta = sqrt(D_R / (S T)), which minimizes D_R / eta + eta S T."""
    return float(np.sqrt(regularizer.range / (regularizer.stability(losses) * horizon)))


def noisy_rate(horizon: int, regularizer: Regularizer, losses: LossSet, length: Number):
    """eta = sqrt(D_R / (T (S + 2 z sqrt(S S_1)))), which minimizes the bound for adaptive losses.

    z is the root mean square length of a prefix's noise (``length``), and S_1 the stability for
    losses of length 1. The noise moves the played point, and this changes the point's loss by at
    most eta 2 sqrt(S S_z). Here S_z = z^2 S_1 is the stability for losses as long as the noise.
    """
    stability = regularizer.stability(losses)
    unit = regularizer.stability(ball_losses(losses.dim))
    price = stability + 2.0 * length * float(np.sqrt(stability * unit))
    return jnp.sqrt(regularizer.range / (horizon * price))


def printed_scale(horizon: int, losses: LossSet, epsilon: Number):
    """lambda = |Y|_1 log2 T / epsilon, the scale of each node: Agarwal & Singh 2017, Lemma 3.3.

    The paper does not state the base of the logarithm. Its algorithm counts ceil(log T) nodes, so
    the base is 2. |Y|_1 is the largest norm of a loss vector. This is the largest change if a
    vector is zeroed out, and also if experts' losses in [0, 1] are replaced. Replaced losses of a
    symmetric set change by twice as much. Under replacement (the paper's Definition 2.1) the true
    epsilon is then twice the printed one.
    """
    return jnp.asarray(losses.norms[0] * np.log2(horizon), jnp.float32) / epsilon


def ftrl(
    horizon: int,
    domain: Domain,
    *,
    epsilon: Number,
    delta: Number | None = None,
    mechanism: Callable = mechanisms.tree,
    noise: LawName = "laplace",
    neighbours: Neighbours = "replace",
    unit: Unit = "round",
    rate: Number | str | None = None,
    calibration: Calibration = "derived",
) -> Learner:
    """Follow the regularized leader on noisy prefix sums of the losses.

    Let L~_t be the released sum of the losses up to t, and L~_0 that of no losses. Round t plays

        x_t = argmin over the domain of eta <x, L~_(t-1)> + R(x).

    Args:
      horizon: T, rounds.
      domain: a Domain, such as simplex(d), ball(d), cube(d), or your own. The noise is calibrated
        to its loss set. Its regularizer is used: negative entropy on the simplex (exponential
        weights), otherwise the squared norm. To change them pass ``domain._replace(losses=...,
        regularizer=...)``.
      epsilon: privacy parameter; inf adds no noise.
      delta: in (0, 1), with Gaussian, discrete Gaussian or Skellam noise.
      mechanism: a factory of ``dpjax.mechanisms``. The paper's is ``partial(tree,
        identical_law=True)``. With ``per_item`` the learner is local; then set the rate to
        :func:`dpjax.bounds.ftrl_local_rate`.
      noise: "laplace" or "discrete_laplace" for pure differential privacy; "gaussian",
        "discrete_gaussian" or "skellam". The discrete noises need tree, kary or per_item, and round
        losses to integers at random.
      neighbours: "replace" or "zero_out".
      unit: "round", the whole loss vector, or "entry", one coordinate of it.
      rate: eta > 0; default sqrt(D_R / (S T)) for every epsilon. "noisy" minimizes the bound for
        adaptive losses below; this rate is smaller if epsilon is smaller. "anytime" is the rate
        sqrt(D_R / (2 S t)) in round t, for unknown horizons. Its noise does not depend on T either
        if the mechanism is hybrid, unbounded, buffered(made_for=) or per_item.
      calibration: "derived", or "printed" for the paper's scale (Laplace noise and the tree only).

    Returns:
      A Learner with full information. An action is x, (d,).

    Privacy: epsilon-DP (Laplace) or (epsilon, delta)-DP (Gaussian, exact), central. Released
    values: actions 1..T, which read the prefixes 0 .. T - 1. The tree over these prefixes has
    ceil(log2 T) levels, and each node has Laplace noise of scale Delta_1 ceil(log2 T) / epsilon.
    "printed" has the scale |Y|_1 log2 T / epsilon. It is correct for neighbours "zero_out" and for
    experts' losses in [0, 1]. For replaced losses of a symmetric set it is half the derived scale,
    and 2 epsilon is declared. Both calibrations have the same rate.

    Regret: at most 2 sqrt(D_R S T) + E[max <Z, x> - min <Z, x>] against oblivious losses. The noise
    Z has the same law for every prefix (``identical_law``), so it enters once and not in every
    round. This is the paper's theorem with the constants of its proof. For experts with losses in
    [-1, 1] the paper states the looser bound 2 sqrt(T ln d) plus O(d log^1.5 T
    sqrt(ln d) / epsilon).

    With the rate "anytime" it is at most 2 sqrt(2 D_R S T) + E[max <Z, x> - min <Z, x>] against
    oblivious losses, with Z the noise of the last prefix. Here the noise may grow with t, if its
    law is one law times a scale that does not decrease, as with Gaussian ``unbounded``. Then the
    noise is coupled to one draw and adds to the regularizer, which grows in the same way. The
    derivation is ours.

    Against adaptive losses, and therefore on the gradients of convex losses
    (:func:`dpjax.combinators.on_gradients`), the noise enters in every round. The played point is
    the noiseless one, moved by the noise Z of the release. So regret is at most D_R / eta + eta T
    (S + 2 z sqrt(S S_1)), with z the root mean square length of Z and S_1 the stability for losses
    of length 1. With the squared norm this is D_R / eta + eta T (G^2 / 4 + G z / 2). With the rate
    "noisy" it is D sqrt(T (G^2 + 2 G z)), with D the radius of the domain and G the length of the
    longest loss. This has the order of the bound of Kairouz et al. 2021. The derivation is ours,
    for noise added to exact sums of all rounds.

    Reference: Agarwal & Singh, "The price of differential privacy for online learning", 2017,
    Algorithms 1 and 2, Theorem 3.1; Kairouz, McMahan, Song, Thakkar, Thakurta & Xu, "Practical and
    private (deep) learning without sampling or shuffling", 2021, for convex losses.

    Examples:
      >>> laws = (mechanisms.tree, mechanisms.per_item)
      >>> made = [learners.ftrl(1000, domains.simplex(3), epsilon=1.0, mechanism=x) for x in laws]
      >>> [(x.privacy.model, x.privacy.sums.sensitivity[0]) for x in made]
      [('central', 10.0), ('local', 1.0)]
    """
    losses, regularizer = fitting(domain, None), domain.regularizer
    noise = name_of(noise)
    if isinstance(rate, str):
        _check.one_of("noisy", "anytime", rate=rate)
        if rate == "noisy" and LAWS[noise].integers:
            raise ValueError(f"rate: noisy is for laplace and gaussian noise, not for {noise}")
    else:
        _check.positive(**_check.specified(rate=rate))
    printed = is_printed(calibration)
    if printed and noise != "laplace":
        raise ValueError("calibration: the paper prints a scale for Laplace noise only")
    sums = prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise,
        neighbours=neighbours, unit=unit,
        printed_scale=printed_scale(horizon, losses, epsilon) if printed else None,
    )  # fmt: skip

    anytime = isinstance(rate, str) and rate == "anytime"
    if anytime:
        rate = default_rate(2, regularizer, losses)  # of round 1
    elif isinstance(rate, str):
        length = noise_length(horizon, losses.dim, sums)
        rate = noisy_rate(horizon, regularizer, losses, length)
    eta = default_rate(horizon, regularizer, losses) if rate is None else rate
    eta = jnp.asarray(eta, jnp.float32)

    def act(state, release):
        return state, regularizer.argmin(release, eta)

    def init(key):
        return act(*sums.init(key))

    def step(state, key, loss):
        return act(*sums.step(state, key, loss))

    def anytime_init(key):
        state, action = init(key)
        return AnytimeState(jnp.ones((), jnp.int32), state), action

    def anytime_step(state, key, loss):
        t = state.round + 1
        inner, release = sums.step(state.sums, key, loss)
        action = regularizer.argmin(release, eta / jnp.sqrt(t.astype(jnp.float32)))
        return AnytimeState(t, inner), action

    played = (anytime_init, anytime_step) if anytime else (init, step)
    return Learner(*played, full, domain, horizon, sums.privacy, clip=sums.clip)
