"""Linear elimination: phases of growing length, each on a core set and on fresh losses."""

from typing import Literal

import jax.numpy as jnp

from dpjax.core import Array, BatchLearner, Number, Numbers
from dpjax.learners.parts.elimination_phases import elimination_phases, log_term, phase_length
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import designs, exact_sums
from dpjax.noise import LawName, name_of

# Noise with known formulas for every gamma.
LAPLACE = ("laplace", "local_laplace")


def printed_radius(length: Number, dim: int, core: Number, log_term: Number, epsilon: Number):
    """gamma_i = sqrt(4 d L / q^i) + (2 d |C_i| + 2 d L) / (epsilon q^i).

    The printed formula has the bound B d instead of the size |C_i| of the core set.
    """
    private = 2.0 * dim * core + 2.0 * dim * log_term
    return jnp.sqrt(4.0 * dim * log_term / length) + private / length / epsilon


def chernoff_radius(length, dim, core, log_term, epsilon, *, local=False):
    """The printed radius, with Chernoff's bound for the noise.

    The noise has |C_i| coefficients, each at most c = 2 d / q^i. With local noise there are more,
    but their bound is at most that of q^i / (2 d) coefficients of size c (:func:`noise_width`).
    """
    largest = 2.0 * dim / length
    count = 1.0 / largest if local else core
    tilt = noise_tilt(count, log_term)
    tail = (log_term - count * jnp.log1p(-tilt * tilt)) / tilt
    return jnp.sqrt(2.0 * largest * log_term) + largest * tail / epsilon


def noise_tilt(count: Number, log_term: Number):
    """The point in (0, 1) at which Chernoff's bound is evaluated: sqrt(L / (L + N)).

    N is the number of Laplace draws. At this point the bound is within 1 % of the best for every N
    and L. It is the best if N is far above or far below L.
    """
    return jnp.sqrt(log_term / (log_term + count))


def noise_width(coefficients: Array, draws: Number, log_term: Number, epsilon: Number):
    """The value that sum_a c_a z_a exceeds with probability at most e^-L.

    Each z_a is a sum of Laplace draws. Chernoff's bound is (L - sum_a n_a ln(1 - u^2 c_a^2 / c^2))
    c / (epsilon u) for the largest |c_a| = c and any u in (0, 1).

    Args:
      coefficients: c_a, (..., K).
      draws: n_a, (K,). z_a is the sum of n_a draws of scale 1 / epsilon.
      log_term: L.
      epsilon: inf for no noise.
    """
    size = jnp.where(draws > 0.0, jnp.abs(coefficients), 0.0)
    largest = jnp.max(size, axis=-1, keepdims=True)
    squares = jnp.square(size / jnp.maximum(largest, 1e-30))
    count = jnp.sum(draws * squares, axis=-1)
    tilt = noise_tilt(count, log_term)
    terms = draws * jnp.log1p(-jnp.square(tilt)[..., None] * squares)
    return jnp.max(size, axis=-1) * (log_term - jnp.sum(terms, axis=-1)) / tilt / epsilon


def exact_radii(
    products: Array, pulls: Array, log_term: Number, epsilon: Number, *, local: bool = False
):
    """Bounds on the errors of the estimates, computed from the design itself, (K,).

    The bound for arm x is sqrt(x' V^-1 x L / 2) for losses in [0, 1], by Hoeffding's lemma, plus
    the width of sum_a x' V^-1 a z_a (:func:`noise_width`).

    Args:
      products: x' V^-1 a, (K, K), with V = sum_a n_a a a'.
      pulls: n_a, (K,) float32.
      log_term: L.
      epsilon: privacy parameter; inf for no noise.
      local: whether each loss has its own noise; otherwise the sum of an arm's losses has one draw.
    """
    leverage = jnp.maximum(jnp.diagonal(products), 0.0)
    draws = pulls if local else (pulls > 0.0).astype(jnp.float32)
    width = noise_width(products, draws[None], log_term, epsilon)
    return jnp.sqrt(0.5 * leverage * log_term) + width


def linear_elimination(
    horizon: int,
    actions: Numbers,
    *,
    epsilon: Number,
    delta: Number | None = None,
    noise: LawName = "laplace",
    radius: Literal["joint", "exact", "chernoff", "printed"] | None = None,
    ratio: Number | None = None,
    failure: Number | None = None,
) -> BatchLearner:
    """Batched elimination over vectors: play a core set, then eliminate the worse arms.

    Arms are vectors a, and the mean loss of an arm is 1/2 + <theta, a> for some theta. In phase i:

    1. A core set of the active arms has a design pi with leverages of at most 2 d
      (:func:`dpjax.maths.designs.g_optimal`). Each arm a in it is played n_a = ceil(pi_a q^i)
      times.
    2. The sum of the losses of arm a, minus n_a / 2, is released with noise.
    3. Least squares on these sums, with V = sum_a n_a a a', gives theta~.
    4. An arm is eliminated if its <theta~, a> - gamma_a exceeds the smallest <theta~, a> + gamma_a.

    The arms of a phase are played one after the other, in random order. If the remaining rounds are
    too few for a phase, the arm with the smallest estimate is played in all of them (any arm if
    there is no estimate yet). With the default q this happens for i > ln T - 1, as in the paper,
    and sometimes one phase earlier, since the phases up to this i may have 1.1 T rounds in total.
    If one active arm is left, it is played to the end.

    For linear losses in [-1, 1], such as -<theta, a> for rewards, use
    ``rescale_losses(linear_elimination(...), -1, 1)``. If losses are not centred at 1/2, add a
    constant coordinate to the actions.

    Args:
      horizon: T, rounds.
      actions: (K, d), K at least 2, concrete (not traced). They need not span R^d; the d of the
        formulas is the dimension of their span. Their lengths and the basis do not matter.
      epsilon: privacy parameter; inf adds no noise.
      delta, noise: as in :func:`successive_elimination`. The paper's three models are "laplace",
        "binomial" for its shuffled sums, and "local_laplace".
      radius: gamma. "joint" has one bound for an arm's losses and their noise, from the design
        itself. "exact" has a bound for each of the two, also from the design (:func:`exact_radii`).
        "chernoff" is :func:`chernoff_radius`. "printed" is :func:`printed_radius`, in the central
        model only. Laplace noise allows all four, with "exact" as default; other noise allows only
        "joint". Use "joint" to compare noise laws.
      ratio: q, the growth of the phases, above 1; default (2T)^(1 / ln T), which is about 2.8.
      failure: beta in (0, 1), the probability that some estimate has an error above gamma; default
        1 / T.

    Returns:
      A BatchLearner with bandit feedback. An action is the row index of an arm.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. Each loss is in
    one released sum, of sensitivity 1. The sum to which a round belongs is a function of earlier
    releases, so the releases compose in parallel. Designs and radii do not depend on losses. (For
    rewards in [-1, 1] the paper's noise of scale 1 / epsilon has 2 epsilon.) Other noise gives
    (epsilon, delta)-DP or another model, as declared in the learner's ``privacy``. If the noise
    protects only bits, each loss is rounded to the nearer of 0 and 1.

    Regret: with probability 1 - beta no estimate has an error above gamma. (This does not cover
    "printed", whose coefficient of ln(4 |A_i| T / beta) / epsilon is below that of Chernoff's
    bound.) An arm of phase i then has a gap of at most 4 gamma_(i-1). By default this gives
    O(sqrt(d T ln(K T)) + d (d + ln(K T)) ln T / epsilon) (:func:`dpjax.bounds.linear_elimination`),
    and O(sqrt(d T ln(K T)) (1 + 1 / epsilon)) for "local_laplace".

    Reference: Hanna, Girgis, Fragouli & Diggavi, "Differentially private stochastic linear bandits:
    (almost) for free", 2022, as presented in Chari's survey. The survey's gamma also divides the
    statistical term by epsilon; we read it as :func:`printed_radius`.
    :func:`dpjax.maths.designs.circle_net` returns a zeta-net.

    Examples:
      >>> laws = ("laplace", "discrete_laplace", "local_laplace")
      >>> made = [learners.linear_elimination(1000, np.eye(3), epsilon=1.0, noise=x) for x in laws]
      >>> [x.privacy.model for x in made]
      ['central', 'distributed', 'local']
    """
    points = jnp.asarray(designs.span_coordinates(actions), jnp.float32)
    noise = name_of(noise)
    if radius is None:
        radius = "exact" if noise in LAPLACE else "joint"
    law = sum_noise(noise, epsilon, delta)
    if radius != "joint" and noise not in LAPLACE:
        raise ValueError(f"radius: {noise} noise allows joint only, got {radius}")
    if (radius, noise) == ("printed", "local_laplace"):
        raise ValueError('radius: "printed" requires the central model')
    arms, dim = points.shape
    budget = jnp.asarray(epsilon, jnp.float32)
    local = noise == "local_laplace"

    def radii(state, basis, spread, rounds):
        """gamma, (K,) or (), from coordinates (K, d) of the arms and the inverse of V / rounds."""
        logs = log_term(jnp.sum(state.active, dtype=jnp.float32), horizon, failure)
        pulls = state.stage.pulls.astype(jnp.float32)
        if radius in ("exact", "joint"):
            turned = jnp.sum(basis[:, None, :] * spread[None], axis=2)
            products = jnp.sum(turned[:, None, :] * basis[None], axis=2) / rounds
            if radius == "joint":
                # The error of the estimate of x is sum_a x' V^-1 a z_a, for the errors z_a of sums.
                counts = jnp.broadcast_to(pulls, products.shape)
                return law.error(products, counts, jnp.ones_like(counts), logs)
            return exact_radii(products, pulls, logs, budget, local=local)
        length = phase_length(state.number, horizon, ratio)
        core = jnp.sum(pulls > 0.0, dtype=jnp.float32)
        if radius == "printed":
            return printed_radius(length, dim, core, logs, budget)
        return chernoff_radius(length, dim, core, logs, budget, local=local)

    def record(key, state, total, played):
        released = law.release(key, total, played)
        centred = exact_sums.add(released, exact_sums.repeated(-0.5, played))
        return state.stage.kept.at[state.arm].set(exact_sums.to_float(centred))

    def evaluate(key, state):
        del key
        basis, _ = designs.coordinates(points, state.active)
        # Pulls are shares of the phase here, since the entries of V itself are unbounded.
        rounds = jnp.maximum(jnp.sum(state.stage.pulls), 1).astype(jnp.float32)
        pulls = state.stage.pulls.astype(jnp.float32)
        spread = designs.inverse_information(basis, pulls / rounds)
        moment = jnp.sum(state.stage.kept[:, None] / rounds * basis, axis=0)
        theta = jnp.sum(spread * moment[None], axis=1)
        estimates = jnp.sum(basis * theta[None], axis=1)
        return estimates, radii(state, basis, spread, rounds)

    nothing = jnp.zeros(arms, jnp.float32)  # noisy loss sums, minus 1/2 for each loss
    learner = elimination_phases(horizon, points, ratio, nothing, record, evaluate, law.privacy)
    return learner._replace(clip=law.clip)
