"""Linear elimination: phases of growing length, each on a core set and on fresh losses."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import _check, noise, privacy
from dpjax.core import Arms, Array, Batch, BatchLearner, Number, Numbers
from dpjax.feedback import clipped_bandit
from dpjax.learners.parts.arm_sums import one_release
from dpjax.maths import designs, exact_sums
from dpjax.maths.laws import smallest


class LinearEliminationState(NamedTuple):
    phase: Array  # () int32, i
    active: Array  # (K,) bool, A_i
    pulls: Array  # (K,) int32, n_a of this phase; 0 outside its core set
    waiting: Array  # (K,) bool, arms that have yet to play in this phase, after the one in play
    sums: Array  # (K,) float32, noisy sums of the losses of this phase, less 1/2 each
    arm: Array  # () int32, the arm in play
    last: Array  # () bool, whether one arm plays to the end
    left: Array  # () int32, rounds from the start of this phase on


class LinearEliminationReport(NamedTuple):
    phases: Array  # () int32, phases that were completed
    active: Array  # () int32, arms that are left


def phase_length(phase, horizon):
    """q^i for phase i = 1, 2, ... and q = (2T)^(1 / ln T) = 2^(1 / ln T) e; float32."""
    log_ratio = 1.0 + jnp.log(2.0) / jnp.log(jnp.maximum(horizon, 2.0))
    return jnp.exp(jnp.asarray(phase, jnp.float32) * log_ratio)


def log_term(active, horizon):
    """L = ln(4 |A_i| T^2): the tail that leaves 1 / T to all arms and phases together."""
    return jnp.log(4.0 * active) + 2.0 * jnp.log(jnp.float32(horizon))


def printed_radius(length, dim, core, log_term, epsilon):
    """gamma_i = sqrt(4 d L / q^i) + (2 d |C_i| + 2 d L) / (epsilon q^i).

    With the size |C_i| of the core set where the text has its bound B d.
    """
    private = 2.0 * dim * core + 2.0 * dim * log_term
    return jnp.sqrt(4.0 * dim * log_term / length) + private / length / epsilon


def chernoff_radius(length, dim, core, log_term, epsilon, *, local=False):
    """The printed radius with a second term that Chernoff's bound gives.

    Every coefficient of the noise is at most c = 2 d / q^i, and there are |C_i| of them; with local
    noise q^i / (2 d) at most count as much as the largest one (:func:`noise_width`).
    """
    largest = 2.0 * dim / length
    count = 1.0 / largest if local else core
    tilt = noise_tilt(count, log_term)
    tail = (log_term - count * jnp.log1p(-tilt * tilt)) / tilt
    return jnp.sqrt(2.0 * largest * log_term) + largest * tail / epsilon


def noise_tilt(count, log_term):
    """Where Chernoff's bound is taken, in (0, 1): sqrt(L / (L + N)) for N Laplace draws.

    Within 1 % of the best for every N and L: it is exact for N far above and far below L.
    """
    return jnp.sqrt(log_term / (log_term + count))


def noise_width(coefficients, draws, log_term, epsilon):
    """What sum_a c_a z_a exceeds with probability at most e^-L, z_a sums of Laplace draws.

    (L - sum_a n_a ln(1 - u^2 c_a^2 / c^2)) c / (epsilon u) for the largest |c_a| = c and any u in
    (0, 1): Chernoff's bound.

    Args:
      coefficients: c_a, (..., K).
      draws: n_a, (K,), how many draws of scale 1 / epsilon z_a is the sum of; 0 for none.
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


def exact_radii(products, pulls, log_term, epsilon, *, local=False):
    """What each estimate may be off by, from the design itself, (K,).

    sqrt(x' V^-1 x L / 2) for losses in [0, 1], by Hoeffding's lemma, and the width of
    sum_a x' V^-1 a z_a (:func:`noise_width`).

    Args:
      products: x' V^-1 a, (K, K), with V = sum_a n_a a a'.
      pulls: n_a, (K,) float32.
      log_term: L.
      epsilon: of the noise.
      local: whether each loss has its own noise, or the sum of those of an arm has one.
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
    radius: str | Number = "exact",
    model: str = "central",
) -> BatchLearner:
    """Batched elimination over vectors: a few of them play for all, the worse leave.

    Arms are vectors a, and the mean loss of an arm is 1/2 + <theta, a> for some theta. Phase i,
    with q = (2T)^(1 / ln T):

    1. a core set of the active arms has a design pi with leverages of at most 2 d
       (:func:`dpjax.maths.designs.g_optimal`); its arm a plays n_a = ceil(pi_a q^i) times;
    2. the sum of its losses, less n_a / 2, is released with Laplace noise;
    3. least squares on these sums give theta~, V = sum_a n_a a a';
    4. an arm leaves whose <theta~, a> - gamma_a exceeds the least <theta~, a> + gamma_a.

    The arms of a phase play one after the other, in random order. A phase that does not fit into
    the rounds that are left is not begun: the arm with the least estimate plays them all (any, if
    there is none yet). That is so for i > ln T - 1, where the paper stops, and now and then for the
    last one below, since these phases may have 1.1 T rounds. The last arm that is active plays on.

    Losses linear in [-1, 1], as -<theta, a> for rewards, are those of
    ``rescale_losses(linear_elimination(...), -1, 1)``. Losses that are not centred at 1/2 need a
    constant as one more coordinate of the actions.

    Args:
      horizon: T, rounds.
      actions: (K, d), K at least 2, known and not traced. They need not span R^d, d is then the
        dimension of their span; neither their length nor the basis matters.
      epsilon: privacy; inf adds no noise.
      radius: gamma: "exact", for each arm from the numbers of the design (:func:`exact_radii`),
        "chernoff" (:func:`chernoff_radius`), or "printed" (:func:`printed_radius`; model "central"
        only).
      model: "central", or "local", where each loss has its own Laplace noise.

    Returns:
      A BatchLearner with bandit feedback, whose action is the row of an arm. Losses outside [0, 1]
      are clipped before they are summed.

    Privacy: epsilon-DP for replacement of one round, released: actions 1..T. Each loss is in one
    released sum, of sensitivity 1; which sum a round belongs to is a function of earlier releases,
    so the releases compose in parallel. Designs and radii do not look at losses. (For rewards in
    [-1, 1] the paper's noise of scale 1 / epsilon has 2 epsilon.) With "local", of the local model:
    what is observed of a round is an epsilon-DP function of its loss.

    Regret: with probability 1 - 1 / T no estimate is off by more than gamma, but for "printed",
    whose coefficient of ln(4 |A_i| T^2) / epsilon is below what Chernoff's bound gives. An arm of
    phase i then has a gap of at most 4 gamma_(i-1): O(sqrt(d T ln(K T)) + d (d + ln(K T)) ln T /
    epsilon) (:func:`dpjax.analysis.bounds.linear_elimination`), for "local"
    O(sqrt(d T ln(K T)) (1 + 1 / epsilon)).

    Reference: Hanna, Girgis, Fragouli & Diggavi, "Differentially private stochastic linear bandits:
    (almost) for free", 2022, as in Chari's survey, whose gamma we read as printed_radius: it
    divides the statistical term by epsilon, too. A zeta-net is :func:`dpjax.designs.circle_net`.
    """
    horizon = _check.size(1, horizon=horizon)
    points = jnp.asarray(designs.span_coordinates(actions), jnp.float32)
    epsilon = _check.epsilon(epsilon)
    _check.one_of("exact", "chernoff", "printed", radius=radius)
    _check.one_of("central", "local", model=model)
    if (radius, model) == ("printed", "local"):
        raise ValueError('radius: "printed" is of the central model only')
    arms, dim = points.shape
    epsilon_ = jnp.asarray(epsilon, jnp.float32)
    scale = privacy.laplace_scale(1.0, epsilon)  # of a sum of losses, or of a loss
    local = model == "local"

    def begin(key, phase, active, estimates, left):
        """A phase with ``left`` rounds to go, before its first batch."""
        # In float32, for the phase may have more rounds than every int32.
        weights = designs.g_optimal(points, active)
        wanted = jnp.ceil(weights * phase_length(phase, horizon))
        last = (jnp.sum(active, dtype=jnp.int32) == 1) | (
            jnp.sum(wanted) > left.astype(jnp.float32)
        )
        best = smallest(key, jnp.where(active, estimates, jnp.inf))
        to_the_end = jnp.zeros(arms, jnp.int32).at[best].set(left)
        pulls = jnp.where(last, to_the_end, jnp.minimum(wanted, horizon).astype(jnp.int32))
        none, nobody = jnp.zeros(arms, jnp.float32), jnp.zeros((), jnp.int32)
        return LinearEliminationState(phase, active, pulls, pulls > 0, none, nobody, last, left)

    def next_arm(key, state):
        arm = smallest(key, jnp.where(state.waiting, 0.0, jnp.inf))
        state = state._replace(arm=arm, waiting=state.waiting.at[arm].set(False))
        return state, Batch(arm, jnp.maximum(state.pulls[arm], 1))

    def init(key):
        none = jnp.zeros(arms, jnp.float32)
        everyone = jnp.ones(arms, bool)
        return next_arm(key, begin(key, jnp.int32(1), everyone, none, jnp.int32(horizon)))

    def evaluate(state):
        """Estimates of <theta, a> and gamma_a of the phase, (K,) each."""
        basis, _ = designs.coordinates(points, state.active)
        # As shares of the phase: V itself has entries of any size.
        rounds = jnp.maximum(jnp.sum(state.pulls), 1).astype(jnp.float32)
        pulls = state.pulls.astype(jnp.float32)
        spread = designs.inverse_information(basis, pulls / rounds)
        moment = jnp.sum(state.sums[:, None] / rounds * basis, axis=0)
        theta = jnp.sum(spread * moment[None], axis=1)
        estimates = jnp.sum(basis * theta[None], axis=1)

        logs = log_term(jnp.sum(state.active, dtype=jnp.float32), horizon)
        if radius == "exact":
            turned = jnp.sum(basis[:, None, :] * spread[None], axis=2)
            products = jnp.sum(turned[:, None, :] * basis[None], axis=2) / rounds
            return estimates, exact_radii(products, pulls, logs, epsilon_, local=local)
        length = phase_length(state.phase, horizon)
        core = jnp.sum(pulls > 0.0, dtype=jnp.float32)
        if radius == "printed":
            return estimates, printed_radius(length, dim, core, logs, epsilon_)
        return estimates, chernoff_radius(length, dim, core, logs, epsilon_, local=local)

    def step(state, key, total):
        noise_key, order_key = jax.random.split(key)
        played = jnp.maximum(state.pulls[state.arm], 1)
        centred = exact_sums.add(total, exact_sums.repeated(-0.5, played))
        if local:
            released = noise.laplace_sum(noise_key, centred, scale, played)
        else:
            released = noise.laplace_total(noise_key, centred, scale)
        sums = state.sums.at[state.arm].set(exact_sums.to_float(released))
        state = state._replace(sums=sums)

        estimates, gamma = evaluate(state)
        least = jnp.min(jnp.where(state.active, estimates + gamma, jnp.inf))
        keep = state.active & (state.last | (estimates - gamma <= least))
        phase = state.phase + (~state.last).astype(jnp.int32)
        left = state.left - jnp.sum(state.pulls)
        following = begin(order_key, phase, keep, estimates, left)
        more = jnp.any(state.waiting)
        state = jax.tree.map(lambda a, b: jnp.where(more, a, b), state, following)
        return next_arm(order_key, state)

    declared = one_release(epsilon)
    if local:
        accountant = "Laplace mechanism on each observed loss"
        declared = declared._replace(model="local", accountant=accountant)
    return BatchLearner(
        init=init,
        step=step,
        feedback=clipped_bandit,
        action_set=Arms(arms),
        zero=jnp.zeros((), jnp.float32),
        horizon=horizon,
        privacy=declared,
        report=lambda state: LinearEliminationReport(
            state.phase - 1, jnp.sum(state.active, dtype=jnp.int32)
        ),
    )
