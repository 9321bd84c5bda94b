"""Divergences, costs, radii and thresholds in float32 against float64, also at extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, special
from scipy.special import gammaincc, xlog1py

from dpjax import bounds
from dpjax.maths import sampling_phases, transport
from dpjax.maths.divergences import d_epsilon, d_epsilon_lower, kl, kl_lower

CHANCES = np.float32([0, 1e-8, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999, 1 - 2**-24, 1])
RADII = np.float32([0, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1, 3, 10, 30, 100])
PRIVACIES = np.float32([1e-9, 1e-6, 1e-3, 0.1, 1, 10, 80, 1e4, np.inf])


def gap_of_log(r):
    """r - ln(1 + r), by its series for small r."""
    return r * r * (0.5 - r / 3 + r * r / 4) if abs(r) < 1e-4 else r - np.log1p(r)


def kl_by_hand(x, y):
    """In float64, as a sum of positive terms."""
    if y in (0.0, 1.0):
        return 0.0 if x == y else np.inf
    d = x - y
    left = y - x
    if x > 0:
        left = x * np.log(x / y) - d if y < 1e-9 * x else x * gap_of_log(-d / x)
    right = (1 - x) * gap_of_log(d / (1 - x)) if x < 1 else d
    return left + right


def lower_by_hand(x, radius, epsilon):
    """By root finding for ln(y / x); 0 if no y above 1e-304 x reaches the radius."""

    def excess(u):
        return d_epsilon_by_hand(x, x * np.exp(u), epsilon) - radius

    if x == 0.0 or radius == 0.0:
        return x
    if excess(-700.0) < 0.0:
        return 0.0
    return x * np.exp(optimize.brentq(excess, -700.0, 0.0, xtol=1e-300, rtol=1e-14))


def d_epsilon_by_hand(x, y, epsilon):
    """The closed form in float64, checked against the search."""
    if x <= y:
        return 0.0
    if np.isinf(epsilon):
        return kl_by_hand(x, y)
    if y == 0.0:
        return epsilon * x
    touching = y / (y + (1 - y) * np.exp(-epsilon))
    if touching >= x:
        return kl_by_hand(x, y)
    if epsilon > 1:
        return -epsilon * (1 - x) - np.log(y + (1 - y) * np.exp(-epsilon))
    return epsilon * x - np.log1p(y * np.expm1(epsilon))


def assert_bounds_close(computed, exact, x):
    """Off by less than 2e-4 of x - y, or by at most three units in the last place of x.

    The width x - y matters; float32 cannot resolve it if y is a neighbour of x.
    """
    error = np.abs(np.asarray(computed, np.float64) - exact)
    allowed = np.maximum(2e-4 * (x - exact), 6 * 2.0**-24 * x + 1e-37)
    worst = np.argmax(error - allowed)
    assert (error <= allowed).all(), (x[worst], exact[worst], computed[worst])


def test_kl():
    """Within 3e-7 of float64, and 0 or infinite exactly where float64 is."""
    x, y = (grid.ravel() for grid in np.meshgrid(CHANCES, CHANCES))
    computed = np.asarray(jax.jit(kl)(x, y), np.float64)
    exact = np.array([kl_by_hand(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(computed), finite)
    np.testing.assert_allclose(computed[finite], exact[finite], rtol=1e-6, atol=3e-7)
    assert (computed[x == y] <= 2e-7).all() and (computed >= 0).all()


def test_the_closed_form_is_the_infimum():
    """Of epsilon (x - z) + kl(z, y) over z in [y, x], by numerical minimisation in float64."""
    random = np.random.default_rng(0)
    for _ in range(300):
        y, x = np.sort(random.uniform(0.001, 0.999, 2))
        epsilon = 10 ** random.uniform(-3, 1.5)
        z = np.linspace(y, x, 4001)
        costs = epsilon * (x - z) + special.rel_entr(z, y) + special.rel_entr(1 - z, 1 - y)
        assert d_epsilon_by_hand(x, y, epsilon) == pytest.approx(costs.min(), rel=1e-3, abs=1e-6)


def test_d_epsilon():
    """Relative error 1e-6, or absolute 1e-7; never negative, at most kl and epsilon (x - y)."""
    x, y, epsilon = (grid.ravel() for grid in np.meshgrid(CHANCES, CHANCES, PRIVACIES))
    # At y = 0 and finite epsilon, x e^-epsilon must not be 0 in float32.
    below = (y <= x) & ((y > 0) | (epsilon <= 60) | np.isinf(epsilon))
    x, y, epsilon = x[below], y[below], epsilon[below]
    computed = np.asarray(jax.jit(d_epsilon)(x, y, epsilon), np.float64)
    cases = zip(x.astype(float), y.astype(float), epsilon.astype(float), strict=True)
    exact = np.array([d_epsilon_by_hand(*case) for case in cases])
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isinf(computed[~finite]), True)
    np.testing.assert_allclose(computed[finite], exact[finite], rtol=1e-6, atol=2e-7)
    assert (computed >= 0).all()
    most = epsilon * np.maximum(x.astype(np.float64) - y, 1e-30)
    assert (computed <= most * (1 + 1e-5) + 2e-7).all()


def test_d_epsilon_lower():
    """Against float64 over a grid of means, radii and epsilons; at infinity it is kl_lower."""
    x, radius, epsilon = (grid.ravel() for grid in np.meshgrid(CHANCES, RADII, PRIVACIES))
    computed = np.asarray(jax.jit(d_epsilon_lower)(x, radius, epsilon))
    cases = zip(x.astype(float), radius.astype(float), epsilon.astype(float), strict=True)
    exact = np.array([lower_by_hand(*case) for case in cases])
    assert (computed >= 0).all() and (computed <= x).all()
    assert_bounds_close(computed, exact, x.astype(np.float64))
    infinite, small = np.isinf(epsilon), (exact > 1e-30) & (exact < 0.1 * x)
    np.testing.assert_array_equal(computed[infinite], kl_lower(x[infinite], radius[infinite]))
    # Small bounds have a small relative error.
    np.testing.assert_allclose(computed[small & infinite], exact[small & infinite], rtol=1e-4)
    assert computed.dtype == np.float32 and (small & infinite).sum() > 20


transport_cost = jax.jit(transport.transport_cost)
hoeffding_radius = jax.jit(transport.hoeffding_radius)
transport_threshold = jax.jit(transport.transport_threshold)
transport_threshold_plain = jax.jit(transport.transport_threshold_plain)
transport_threshold_kept = jax.jit(transport.transport_threshold_kept)

MEANS = np.float32([0, 1e-6, 0.01, 0.3, 0.3001, 0.5, 0.9, 1 - 2**-20, 1])
COUNTS = np.float32([1, 37, 1e4, 1e9])
EPSILONS = np.float32([1e-9, 1e-3, 0.1, 1, 10, 1e6, np.inf])


def convex(r):
    """(1 + r) ln(1 + r) - r, by its series for small r."""
    series = r * r * (1 / 2 - r / 6 + r * r / 12 - r**3 / 20)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(r) < 1e-3, series, xlog1py(1 + r, r) - r)


def departure(mean, rest, distance, epsilon):
    """d_epsilon(mean + distance, mean) in float64, with kl as a sum of positive terms."""
    shrunk = np.exp(-epsilon)
    straight = mean * rest * -np.expm1(-epsilon) / (mean + rest * shrunk)
    part = np.minimum(distance, straight)
    linear = np.where(distance > part, np.minimum(epsilon, 1e4) * (distance - part), 0.0)
    return linear + mean * convex(part / mean) + rest * convex(np.maximum(-part / rest, -1.0))


def cost_by_search(x, y, n, m, epsilon):
    """The infimum by golden section, over the logit of the fraction of the way from x."""

    def cost(logit):
        part = (y - x) / (1 + np.exp(-logit))
        remaining = (y - x) / (1 + np.exp(logit))
        u, rest = x + part, (1 - y) + remaining
        return n * departure(rest, u, part, epsilon) + m * departure(u, rest, remaining, epsilon)

    low, high, golden = np.full(x.shape, -36.0), np.full(x.shape, 36.0), (np.sqrt(5) - 1) / 2
    for _ in range(55):
        left, right = high - golden * (high - low), low + golden * (high - low)
        first = cost(left) < cost(right)
        low, high = np.where(first, low, left), np.where(first, right, high)
    return cost(0.5 * (low + high))


def radius_by_search(n, m, draws_n, draws_m, exponent, epsilon):
    """The minimum by scipy in float64."""

    def chernoff(part):
        slope = part * epsilon * min(n, m)
        noise = draws_n * np.log1p(-((slope / (epsilon * n)) ** 2))
        noise += draws_m * np.log1p(-((slope / (epsilon * m)) ** 2))
        return (exponent + slope**2 * (1 / n + 1 / m) / 8 - noise) / slope

    found = optimize.minimize_scalar(
        lambda log: chernoff(np.exp(log)), bounds=(-30, -1e-9), method="bounded"
    )
    return found.fun


def tail(coefficients, c):
    """e^-c sum_i A_i c^i / i!, in float64, as a mixture of tails of Gamma laws."""
    weights = coefficients - np.append(coefficients[1:], 0.0)
    return np.sum(weights * gammaincc(np.arange(1, len(weights) + 1), c))


def test_transport_cost():
    """Relative errors below 2e-5 on a grid of means, counts and epsilons; 0 if y <= x."""
    grid = np.meshgrid(MEANS, MEANS, COUNTS, COUNTS, EPSILONS)
    x, y, n, m, epsilon = (values.ravel() for values in grid)
    computed = np.asarray(transport_cost(x, y, n, m, epsilon))
    assert computed.dtype == np.float32
    assert (computed[y <= x] == 0).all() and (computed[y > x] > 0).all()
    apart = x < y
    values = (value[apart].astype(np.float64) for value in (x, y, n, m, epsilon))
    np.testing.assert_allclose(computed[apart], cost_by_search(*values), rtol=2e-5)


def test_hoeffding_radius():
    random = np.random.default_rng(1)
    for _ in range(100):
        n, m = np.exp(random.uniform(0, 20, 2))
        draws = random.integers(1, 49, 2)
        exponent, epsilon = random.uniform(0.5, 40), np.exp(random.uniform(-20, 3))
        arguments = (*np.float32([n, m, *draws, exponent, epsilon]),)
        exact = radius_by_search(*(float(value) for value in arguments))
        # The search bounds only the relative position, and float64 has enough digits.
        assert float(hoeffding_radius(*arguments)) == pytest.approx(exact, rel=2e-5)


def test_threshold_coefficients():
    """Weights sum to 1; rows 0 and 1 in closed form; tails of sums of Laplace draws."""
    table = transport.threshold_coefficients()
    size = transport.MOST_DRAWS + 1
    assert table.shape == (size, size, 2 * size)
    np.testing.assert_allclose(table[..., :2], 1, rtol=1e-13)
    assert (np.diff(table, axis=-1) <= 1e-15).all() and (table >= 0).all()
    np.testing.assert_allclose(table, np.swapaxes(table, 0, 1), atol=1e-14)
    np.testing.assert_allclose(table[0, 0, :3], [1, 1, 0])
    np.testing.assert_allclose(table[1, 1, :5], [1, 1, 0.75, 0.25, 0])
    for j, golden in [(1, 0.009158), (2, 0.027473), (5, 0.096443), (12, 0.201490)]:
        law = -np.diff(table[j, 0])[2 : j + 2]
        above = np.sum(law * gammaincc(np.arange(3, j + 3) - 2, 4.0))
        assert above == pytest.approx(golden, abs=6e-7)


def test_thresholds():
    """The float64 tail is e^-exponent at every threshold."""
    exponents = np.float32([1e-2, 0.5, 3, 10, 40, 60])
    for function, row in [
        (transport_threshold_plain, np.array([1.0, 1.0])),
        (transport_threshold, np.array([1.0, 1.0, 0.75, 0.25])),
    ]:
        for exponent, c in zip(exponents, function(exponents), strict=True):
            assert -np.log(tail(row, float(c))) == pytest.approx(exponent, rel=2e-6, abs=5e-6)
    table = transport.threshold_coefficients()
    exponents = np.float32([1, 1.3, 3, 7.7, 10, 40, 60, 199, 400])
    for j, k in [(0, 0), (1, 1), (48, 48), (48, 0), (3, 17), (1, 40)]:
        kept = transport_threshold_kept(exponents, max(j, k))
        for exponent, c in zip(exponents, kept, strict=True):
            # It may be slightly too high, but never too low.
            reached = -np.log(tail(table[j, k], float(c)))
            assert reached >= exponent * (1 - 2e-6) - 2e-5
            if j == k and exponent < 200:
                assert -np.log(tail(table[j, k], 0.997 * float(c))) < exponent
    beyond = transport_threshold_kept(5.0, np.array([48, 49, 60]))
    assert np.isfinite(beyond[0]) and np.isinf(beyond[1:]).all()
    assert float(transport_threshold(1e4)) == pytest.approx(1e4 + 3 * np.log(1e4), rel=1e-3)


@pytest.mark.parametrize("game", [(0.3, 4096, 4096, 1, 0.01), (0.4, 1024, 1024, 6, 0.03)])
def test_equal_arms_rarely_pass(game):
    """Both tests pass with probability at most e^-exponent, under the law of losses and noise.

    Noise dominates here, so tests that ignore it, or use half its scale, pass too often.
    """
    mean, n, m, draws, epsilon = game
    random, size = np.random.default_rng(4), 200_000

    def private_means(count):
        noise = random.laplace(0, 1 / epsilon, (draws, size)).sum(axis=0)
        return ((random.binomial(count, mean, size) + noise) / count).astype(np.float32)

    x, y = private_means(n), private_means(m)
    clipped, exponents = (np.clip(x, 0, 1), np.clip(y, 0, 1)), np.float32([3, 5, 7])
    allowed = np.exp(-exponents) + 5 * np.sqrt(np.exp(-exponents) / size)

    def exceed(assumed, draws):
        """Whether each test passes too often, with thresholds for noise as at this epsilon."""
        radii = np.asarray(hoeffding_radius(n, m, draws, draws, exponents, assumed))
        costs = np.asarray(transport_cost(*clipped, n, m, assumed))
        thresholds = np.asarray(transport_threshold_kept(exponents, draws))
        passes = (y - x)[:, None] >= radii, costs[:, None] >= thresholds
        return [(np.mean(each, axis=0) > allowed).any() for each in passes]

    assert exceed(epsilon, draws) == [False, False]
    assert exceed(np.inf, 0) == exceed(2 * epsilon, draws) == [True, True]


def test_phase_exponent():
    """The tests' probabilities sum to failure, over all pairs of phases and wrong arms."""
    failure, arms = 0.05, 4
    phases = jnp.arange(1.0, 2001.0)
    exponents = sampling_phases.phase_exponent(failure, arms, phases[:, None], phases)
    total = (arms - 1) * np.exp(-np.asarray(exponents, np.float64)).sum()
    assert total == pytest.approx(failure * (1 - 1 / 2001) ** 2, rel=1e-5)
    first = float(sampling_phases.phase_exponent(failure, arms, 1, 1))
    assert first == pytest.approx(np.log(3 / 0.05) + 2 * np.log(2), rel=1e-6)
    integers = sampling_phases.phase_exponent(failure, arms, jnp.int32(2), jnp.int32(3))
    assert float(integers) == pytest.approx(np.log(3 / 0.05) + np.log(6 * 12), rel=1e-6)


def test_first_phase():
    """The learner's grids, and no earlier test that passes."""
    failure, arms = 0.01, 5
    needed = np.log((arms - 1) / failure)
    assert sampling_phases.phase_samples()[:6].tolist() == [1, 1, 2, 4, 8, 16]
    assert sampling_phases.phase_samples(2.0, False)[:5].tolist() == [1, 2, 4, 8, 16]
    assert sampling_phases.phase_samples(1.5, False)[:7].tolist() == [1, 2, 3, 5, 8, 12, 18]
    assert sampling_phases.phase_samples(1.5)[:7].tolist() == [1, 1, 1, 2, 3, 4, 6]
    for arguments in ((2.0, True), (2.0, False), (1.5, False), (1.1, True)):
        grid = sampling_phases.phase_samples(*arguments)
        assert int(sampling_phases.first_phase(failure, arms, np.inf, *arguments)) == 1
        assert int(sampling_phases.first_phase(failure, arms, 1e-9, *arguments)) == len(grid) + 1
        for epsilon in (1e-3, 0.03, 1.0):
            k0 = int(sampling_phases.first_phase(failure, arms, epsilon, *arguments))
            assert (grid[: k0 - 1] * epsilon < needed).all() and grid[k0 - 1] * epsilon >= needed
            if k0 > 1:  # The clearest test of the previous phase fails.
                exponent, n = sampling_phases.phase_exponent(failure, arms, 1, 1), grid[k0 - 2]
                assert hoeffding_radius(n, 1e9, 1, 1, exponent, epsilon) > 1
                cost = transport_cost(0.0, 1.0, n, 1e9, epsilon)
                assert cost < transport_threshold_plain(exponent)


def test_optimal_weights():
    """Those of the solver on the host, to 1e-3; ties and one arm far ahead stay finite."""
    weigh = jax.jit(jax.vmap(transport.optimal_weights, (None, 0)))
    random = np.random.default_rng(5)
    for arms in (2, 5):
        for _ in range(4):
            means = random.uniform(0, 1, arms).astype(np.float32)
            exact = bounds.characteristic_time(np.clip(means, 1e-3, 1 - 1e-3), EPSILONS)[1]
            np.testing.assert_allclose(weigh(means, EPSILONS), exact, atol=1e-3)
    for means in ([0.2, 0.2, 0.6, 0.6, 0.6], [0.0] * 5, [1.0] * 5, [0.0, 1.0, 1.0, 1.0, 1.0]):
        weights = np.asarray(weigh(np.float32(means), EPSILONS))
        assert np.isfinite(weights).all() and (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)
    tied = weigh(np.float32([0.2, 0.2, 0.6, 0.6, 0.6]), EPSILONS)
    np.testing.assert_allclose(tied[:, :2], 0.5, atol=0.01)
    # If all are equal, the first has the share of a best arm with equal gaps.
    equal = weigh(np.full(5, 0.5, np.float32), np.float32([np.inf]))
    np.testing.assert_allclose(equal, [[1 / 3, *[1 / 6] * 4]], atol=1e-3)
