"""Bounds by simulation, by their learners, by hand, and their order.

The examples in their docstrings have golden values.
"""

import inspect
import math

import numpy as np
import pytest
from scipy import optimize
from scipy.special import rel_entr

from dpjax import bounds, domains, learners, mechanisms, privacy
from dpjax.bounds import convex
from dpjax.learners._ftpl import default_perturbation
from dpjax.learners._private_ftal import default_convexity as ftal_convexity
from dpjax.learners._private_giga import default_convexity as giga_convexity
from dpjax.learners._projection_free import smoothing_radius, step_size
from dpjax.learners.parts.dartboard import derived_setting
from dpjax.learners.parts.one_point import flaxman_radius
from dpjax.learners.parts.prefix_sums import prefix_sums


def test_a_memory_as_long_as_a_batch_has_no_bound():
    tau = np.array([1.0, 2.0, 3.0, 4.0])
    for memory in (0, 1, 2, 3, 4, np.inf):
        value = bounds.exp3_minibatch(1000, 3, tau, memory)
        np.testing.assert_array_equal(np.isnan(value), memory >= tau)
    assert np.isnan(bounds.exp3_minibatch(1000, 3, np.nan, 0))


def test_the_noise_term_of_ftrl_bounds_the_range_of_the_noise():
    """E[max <Z, x> - min <Z, x>] over 20 000 sums of 10 Laplace draws; a quarter is too small."""
    draws = np.random.default_rng(0).laplace(size=(20_000, 10, 4)).sum(axis=1)
    means = {  # at epsilon = 1
        "simplex": 80 * np.ptp(draws, axis=1).mean(),
        "ball": 80 * np.linalg.norm(draws, axis=1).mean(),
        "cube": 40 * np.abs(draws).sum(axis=1).mean(),
    }
    for domain, mean in means.items():
        plain, private = (bounds.ftrl(1024, 4, e, domain=domain) for e in (np.inf, 1.0))
        assert (private - plain) / 4 < mean < private - plain


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("horizon", [64, 2**16])
def test_the_pure_dartboard_has_at_least_the_eta_of_its_bound(horizon, epsilon):
    """The bound's eta is private by the learner's own formula, and not larger than that."""
    restart = 1 / math.sqrt(8 * horizon)
    eta = min(math.sqrt(math.log(4) / horizon), restart, epsilon * restart / (2 + restart))
    setting = derived_setting(horizon, 4, epsilon, None)
    assert eta <= float(setting.rate) * (1 + 1e-5) <= math.sqrt(math.log(4) / horizon) * (1 + 1e-4)
    assert restart * (1 - 1e-5) <= float(setting.restart)
    found = bounds.shrinking_dartboard_pure(horizon, 4, epsilon)
    assert found == pytest.approx(bounds.shrinking_dartboard(horizon, 4, eta, restart))
    at_learner = bounds.shrinking_dartboard(horizon, 4, float(setting.rate), restart)
    assert np.isnan(at_learner) or at_learner <= found * (1 + 1e-5)


@pytest.mark.parametrize("domain", ["arms", "ball", "cube"])
def test_random_losses_gain_what_their_bound_says(domain):
    """Simulates the best action in hindsight; all other actions lose nothing on average."""
    generator, rounds, games = np.random.default_rng(0), 60, 20_000
    if domain == "arms":
        losses = generator.integers(0, 2, (games, rounds, 3)) - 0.5
        gains = -losses.sum(axis=1).min(axis=1)
    elif domain == "cube":
        signs = generator.choice([-1.0, 1.0], (games, rounds // 3, 3))
        gains = np.abs(signs.sum(axis=1)).sum(axis=1)
    else:  # orthogonal to the sum so far, so that squared lengths add up
        total = np.zeros((games, 3))
        for _ in range(rounds):
            new = np.cross(total, generator.normal(size=(games, 3)))
            new += np.where(total.any(axis=1, keepdims=True), 0.0, [1.0, 0.0, 0.0])
            total += new / np.linalg.norm(new, axis=1, keepdims=True)
        gains = np.linalg.norm(total, axis=1)
    error = gains.std() / np.sqrt(games)
    found = float(bounds.random_losses(rounds, 3, domain=domain))
    assert abs(found - gains.mean()) < 4.0 * error + 1e-6


# --- stochastic arms ---

HORIZON = 10**7


def test_divergence_spot_checks():
    """For x >= y, since gains are mirrored losses."""
    divergence = bounds.d_epsilon_divergence
    assert divergence(0.5, 0.25, 0.1) == pytest.approx(0.0240470, abs=5e-8)
    assert divergence(0.75, 0.25, 0.5) == pytest.approx(0.2247022, abs=5e-8)
    assert divergence(0.3, 0.25, 1.0) == pytest.approx(0.0064015, abs=5e-8)
    assert divergence(0.3, 0.25, 1.0) == bounds.kl(0.3, 0.25)
    # Edge cases: no budget, equal means, a certain arm.
    assert divergence(0.4, 0.4, 1.0) == 0.0
    assert divergence(0.4, 0.0, 2.0) == pytest.approx(0.8)
    assert np.isinf(divergence(0.4, 0.0, np.inf))
    assert divergence(1.0, 0.5, np.inf) == pytest.approx(np.log(2))


def test_the_order_of_the_lower_bounds():
    """d_epsilon >= Lai & Robbins, on 200 random instances.

    d_epsilon's bound falls with epsilon, and is at least its epsilon term, sum ln T / epsilon.
    """
    random = np.random.default_rng(0)
    for _ in range(200):
        means = random.uniform(0.02, 0.98, random.integers(2, 8))
        epsilon = np.sort(10 ** random.uniform(-3, 1, 4))
        tight = bounds.d_epsilon(HORIZON, means, epsilon)
        plain = bounds.lai_robbins(HORIZON, means)
        assert (tight >= plain * (1 - 1e-9)).all()
        assert (np.diff(tight) <= 1e-9 * tight[:-1]).all()
        private = (len(means) - 1) * np.log(HORIZON) / epsilon
        assert (tight >= private * (1 - 1e-9)).all()
        assert bounds.d_epsilon(HORIZON, means, np.inf) == pytest.approx(plain, rel=1e-9)


def test_arms_as_good_as_the_best_cost_nothing():
    means = np.array([0.2, 0.2, 0.6])
    pair = np.array([0.2, 0.6])
    assert bounds.lai_robbins(1e5, means) == bounds.lai_robbins(1e5, pair)
    assert bounds.d_epsilon(1e5, means, 0.3) == bounds.d_epsilon(1e5, pair, 0.3)
    assert bounds.ucb1(1e5, means) == bounds.ucb1(1e5, pair)
    assert bounds.lai_robbins(1e5, [0.5, 0.5]) == 0.0


def test_linear_elimination_by_hand():
    """Four actions in the plane, epsilon 2: T = 1000, where it is vacuous, and T = 10^6."""
    assert bounds.linear_elimination(1000, 4, 2, 2.0) == pytest.approx(1001)
    for model in ("central", "local"):
        log_t = np.log(1e6)
        q, term = (2e6) ** (1 / log_t), np.log(4 * 4 * 1e12)
        total, left, gap = 1.0, 1e6, 1.0
        for i in range(1, int(log_t)):
            if q**i + 4 > left:
                break
            total, left = total + (q**i + 4) * gap, left - q**i - 4
            largest = 4 / q**i
            count = 4 if model == "central" else q**i / 4
            u = np.sqrt(term / (term + count))
            noise = largest * (term - count * np.log(1 - u**2)) / (2.0 * u)
            gap = min(1.0, 4 * (np.sqrt(8 * term / q**i) + noise))
        assert i == 12 and gap < 0.2
        computed = bounds.linear_elimination(1e6, 4, 2, 2.0, model=model)
        assert computed == pytest.approx(total + left * gap, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, np.inf])
def test_lazy_ucb_counts_to_where_two_radii_are_below_the_gap(epsilon):
    """Two arms, by bisection over integers O: 4 O + 1 pulls, each of which costs the gap."""
    gap, level = 0.2, 3 * np.log2(1e6)

    def radius(samples):
        return np.sqrt(level / samples) + level / (epsilon * samples)

    low, high = 1, 10**9
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 2 * radius(middle) >= gap else (low, middle)
    found = bounds.lazy_ucb(1e6, [0.3, 0.5], epsilon)
    assert found == pytest.approx(gap * (4 * high + 1), rel=1e-9)


# --- the unit ball: constants are those of the learners ---

DIM = 5
BALL = domains.ball(DIM)
# The learners use float32, the bounds float64.
CLOSE = {"rel": 1e-5}


def sums(horizon, epsilon, **options):
    given = {"delta": None, "mechanism": mechanisms.tree, "noise": "laplace", **options}
    return prefix_sums(horizon, BALL.losses, epsilon=epsilon, **given)


@pytest.mark.parametrize("horizon", [2, 3, 64, 1000, 1025])
def test_the_noise_of_the_tree_is_that_of_the_mechanism(horizon):
    made = sums(horizon, 0.5)
    lengths = np.sqrt(2.0 * DIM * made.mechanism.variance(np.arange(horizon))) * float(made.scale)
    largest, mean = convex._tree_noise(np.float64(horizon), DIM, 2.0 * DIM**0.5, 0.5)
    # A prefix has a node of every level only if all bits of some prefix are set.
    assert lengths.max() <= largest * (1 + 1e-6)
    assert lengths.max() >= 0.7 * largest
    assert mean == pytest.approx(np.sqrt(np.mean(lengths**2)), **CLOSE)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_private_ftal(epsilon):
    horizon = 1000
    made = sums(horizon, epsilon)
    h = float(ftal_convexity(horizon, BALL, made))
    noise = np.sqrt(2.0 * DIM * 10) * float(made.scale)  # in 10 levels
    logs = 1 + np.log(horizon)
    expected = h * 4 * horizon / 2 + ((1 + 2 * h) ** 2 / 2 + noise) * logs / h
    assert bounds.private_ftal(horizon, DIM, epsilon) == pytest.approx(expected, **CLOSE)


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_private_giga(epsilon):
    horizon, delta = 1000, 1e-6
    inverse_mu = privacy.gaussian_inverse_mu(epsilon, delta)
    size = BALL.losses.diameters[1] * np.sqrt(horizon - 1) * float(inverse_mu)
    a = float(giga_convexity(horizon, BALL, 1.0, size))
    logs = 1 + np.log(horizon)
    steps = (1 + a) ** 2 / (2 * a) + np.sqrt(DIM) * 1.5 * size / a
    found = bounds.private_giga(horizon, DIM, float(inverse_mu), drift=0.5)
    assert found == pytest.approx(a * horizon / 2 + steps * logs, **CLOSE)


@pytest.mark.parametrize("epsilon", [0.1, 10.0, np.inf])
def test_follow_the_perturbed_leader(epsilon):
    horizon, delta = 1024, 1e-6
    mechanism = inspect.signature(learners.ftpl).parameters["mechanism"].default
    made = sums(horizon, epsilon, delta=delta, noise="gaussian", mechanism=mechanism)
    private = np.sqrt(made.mechanism.variance(np.arange(horizon))) * float(made.scale)
    assert np.ptp(private) <= 1e-6 * private.max()  # one distribution for all prefixes
    s = max(default_perturbation(horizon, BALL.losses), private.max())
    expected = s * DIM**0.5 + horizon / (s * np.sqrt(2 * np.pi))
    inverse_mu = float(privacy.gaussian_inverse_mu(epsilon, delta))
    assert bounds.ftpl_private(horizon, DIM, inverse_mu) == pytest.approx(expected, **CLOSE)
    if np.isinf(epsilon):
        assert expected == pytest.approx((8 / np.pi * DIM) ** 0.25 * np.sqrt(horizon), **CLOSE)


@pytest.mark.parametrize("horizon", [64, 4096])
def test_one_point_learners(horizon):
    zeta = float(flaxman_radius(horizon, BALL, 2.0, 1.0))
    longest = DIM * 2.0 / zeta
    plain = longest * np.sqrt(horizon) + 3 * zeta * horizon
    assert bounds.one_point_gradient(horizon, DIM) == pytest.approx(plain, **CLOSE)
    assert bounds.private_one_point(horizon, DIM, np.inf) == pytest.approx(plain, **CLOSE)
    # With much noise, the base point moves across the ball.
    much = float(bounds.private_one_point(horizon, DIM, 1e-3))
    assert much == pytest.approx(plain + 2 * horizon, **CLOSE)
    printed = 2 * horizon**0.75 * np.sqrt(3 * DIM * 2 * (1 + 2))
    assert bounds.flaxman_printed(horizon, DIM) == pytest.approx(printed)


@pytest.mark.parametrize(("horizon", "epsilon"), [(1024, np.inf), (1024, 1.0), (2**24, 10.0)])
def test_projection_free(horizon, epsilon):
    batch = math.isqrt(horizon)
    batches = -(-horizon // batch)
    zeta = smoothing_radius(horizon, 2.0, DIM)
    value = 2.0 + zeta
    eta = float(step_size(batches, batch, 2.0, DIM, zeta, value, 1.0))
    longest = DIM * value / zeta
    kappa2 = batch * longest**2 + batch**2
    levels = (batches - 2).bit_length()  # the prefixes 0 .. batches - 2
    scale = levels * 2 * DIM**0.5 * longest / epsilon
    noise = np.sqrt(2 * DIM * levels) * scale
    away = min(2.0, eta * (np.sqrt(kappa2) + noise) + 4 / np.sqrt(batch + 2))
    expected = 1 / (2 * eta) + eta * batches * kappa2 / 2 + batches * batch * away
    expected += 2 * zeta * horizon
    assert bounds.projection_free(horizon, DIM, epsilon) == pytest.approx(expected, **CLOSE)


# --- characteristic times: a second solver, closed forms and golden numbers ---

# Mean losses of the instances of Azize et al. 2023.
INSTANCES = {
    "mu1": 1 - np.array([0.95, 0.9, 0.9, 0.9, 0.5]),
    "mu2": 1 - np.array([0.75, 0.7, 0.7, 0.7, 0.7]),
    "mu3": np.clip([1.0, 0.75, 0.5, 0.25, 0.0], 1e-6, 1 - 1e-6),
    "mu4": 1 - np.array([0.75, 0.625, 0.5, 0.375, 0.25]),
    "mu5": 1 - np.array([0.75, 0.53125, 0.375, 0.28125, 0.25]),
    "mu6": 1 - np.array([0.75, 0.71875, 0.625, 0.46875, 0.25]),
}
EPSILONS = np.array([0.01, 0.1, 1.0, np.inf])


def departure(x, y, epsilon):
    """d_epsilon(x, y) for y <= x in float64: epsilon (x - z) + kl(z, y) at the best z."""
    z = x
    if np.isfinite(epsilon):
        z = np.minimum(x, y / (y + (1 - y) * np.exp(-epsilon)))
    linear = 0.0 if np.isinf(epsilon) else epsilon * (x - z)
    return linear + rel_entr(z, y) + rel_entr(1 - z, 1 - y)


def cheapest(best, other, epsilon, weights):
    """The cheapest mean u and its cost, by scipy's scalar minimisation."""

    def cost(u):
        # of one sample of each arm, if both means become u
        costs = departure(1 - best, 1 - u, epsilon), departure(other, u, epsilon)
        return weights @ np.array(costs)

    width = other - best
    bounds_ = (best + 1e-12 * width, other - 1e-12 * width)
    found = optimize.minimize_scalar(
        cost, bounds=bounds_, method="bounded", options={"xatol": 1e-11}
    )
    return min((cost(u), u) for u in (found.x, *bounds_))


def test_times_are_those_of_the_best_weights():
    """Every arm's cost is 1 / T*, and no other weights near these cost more."""
    random = np.random.default_rng(0)

    def least(means, weights, epsilon):
        return [cheapest(means[0], means[b], epsilon, weights[[0, b]])[0]
                for b in range(1, len(means))]  # fmt: skip

    instances = [np.sort(random.uniform(0.01, 0.99, arms)) for arms in (2, 3, 8)]
    for means in [INSTANCES["mu1"], INSTANCES["mu4"], *instances]:
        for epsilon in (0.003, 0.3, 3.0, np.inf):
            time, weights = bounds.characteristic_time(means, epsilon)
            assert weights.sum() == pytest.approx(1, rel=1e-12) and (weights >= 0).all()
            np.testing.assert_allclose(least(means, weights, epsilon), 1 / time, rtol=1e-6)
            for _ in range(4):
                other = weights * np.exp(0.3 * random.normal(size=len(means)))
                found = min(least(means, other / other.sum(), epsilon))
                assert found <= (1 + 1e-6) / time


def test_total_variation_time():
    expected = [82.2222, 100, 12.3333, 24.6667, 15.9429, 77.5556]
    means = [INSTANCES[f"mu{i}"] for i in range(1, 7)]
    values = [bounds.total_variation_time(m) for m in means]
    np.testing.assert_allclose(values, expected, rtol=6e-6)  # mu3 is clipped by 1e-6.
    small = [bounds.characteristic_time(m, 1e-7)[0] * 1e-7 for m in means]
    np.testing.assert_allclose(small, values, rtol=1e-5)
    # The proportional formula used below 1e-9 agrees with the solver above it.
    times, weights = bounds.characteristic_time(means[0], np.array([1e-12, 1e-10, 1e-8]))
    np.testing.assert_allclose(times * [1e-12, 1e-10, 1e-8], values[0], rtol=1e-6)
    np.testing.assert_allclose(weights[0], weights[2], atol=1e-6)


def test_arms_in_another_order():
    means = INSTANCES["mu4"]
    time, weights = bounds.characteristic_time(means, EPSILONS)
    order = [3, 1, 4, 0, 2]
    permuted, moved = bounds.characteristic_time(means[order], EPSILONS)
    np.testing.assert_allclose(permuted, time, rtol=1e-12)
    np.testing.assert_allclose(moved, weights[:, order], rtol=1e-6)


def test_stopping_times_under_local_privacy():
    """Golden numbers; randomized response only increases them; tiny epsilon costs 1 / epsilon^2."""
    golden = {"mu1": [598026, 5909.91], "mu2": [720826, 8054.35], "mu4": [57262.4, 649.621]}
    factor = bounds.stopping_time_lower([0.2, 0.4], np.inf, 0.01) / 41.350947
    for name, row in golden.items():
        means = INSTANCES[name]
        value = bounds.stopping_time_lower_local(means, [0.1, 1.0], 0.01)
        np.testing.assert_allclose(value / factor, row, rtol=2e-6)
        assert (value > bounds.stopping_time_lower(means, [0.1, 1.0], 0.01)).all()
    extreme = bounds.stopping_time_lower_local(means, [1e-9, 1e-8, 1e-3, np.inf], 0.01)
    np.testing.assert_allclose(extreme[:3] * [1e-18, 1e-16, 1e-6], extreme[0] * 1e-18, rtol=1e-5)
    plain = bounds.stopping_time_lower(means, np.inf, 0.01)
    assert extreme[3] == pytest.approx(plain, rel=1e-8)
