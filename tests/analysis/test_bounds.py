"""Bounds as curves: values computed by hand, and their range of validity."""

import math

import numpy as np
import pytest

from dpjax import bounds
from dpjax.learners.parts.dartboard import derived_setting

ARMS, HORIZON = 4, 2**18
K_LN_K = ARMS * math.log(ARMS)

# The mini-batch size that balances the bound of EXP3_tau against switching costs, and its epsilon
# at delta = T^-2 in Tossou & Dimitrakakis 2017: 28 K ln K + sqrt(112 K ln K ln T).
TAU = (HORIZON / (7 * K_LN_K)) ** (1 / 3)
EPSILON = 28 * K_LN_K + math.sqrt(112 * K_LN_K * math.log(HORIZON))


def rounds_to(value, printed):
    """Whether a value rounds to the printed number."""
    decimals = len(printed.partition(".")[2])
    return abs(float(value) - float(printed)) <= 0.5 * 10.0**-decimals * (1 + 1e-9)


def test_exp3_and_switching_costs_by_hand():
    """Auer et al. 2002, Corollary 3.2, by hand: 2 sqrt(e - 1) sqrt(T K ln K); Dekel et al. 2014."""
    assert rounds_to(TAU, "18.9020") and rounds_to(EPSILON, "243.29193")
    value = bounds.exp3(HORIZON, ARMS)
    assert rounds_to(value, "3160.86")
    # Each is one term in double precision, so only rounding errors remain.
    assert value == pytest.approx(2 * math.sqrt((math.e - 1) * HORIZON * K_LN_K), rel=1e-14)
    assert bounds.exp3(100, 2) == pytest.approx(2 * math.sqrt(171.8281828459045 * math.log(4)))
    value = bounds.switching_cost_lower(HORIZON, ARMS)
    assert rounds_to(value, "7.2244")
    assert value == pytest.approx(4 ** (1 / 3) * 4096 / 900, rel=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "scaled", "printed"), [(EPSILON, "3485.05", "344.10"), (1.0, "82034.7", "81778.1")]
)
def test_dp_exp3_lap(epsilon, scaled, printed):
    """The scaled term (2b + 1) 3160.86 with b = ln T / epsilon, and the corollary as printed."""
    whole = bounds.dp_exp3_lap(HORIZON, ARMS, epsilon)
    extras = 2 * ARMS + math.sqrt(32 * HORIZON) / epsilon  # rejections and noise
    assert rounds_to(whole - extras, scaled)
    corollary = bounds.dp_exp3_lap_printed(HORIZON, ARMS, epsilon)
    assert rounds_to(corollary, printed)
    # They differ by the "+ 1" in the interval's length, which contributes EXP3's own bound.
    assert whole - corollary == pytest.approx(bounds.exp3(HORIZON, ARMS), rel=1e-11)
    assert bounds.dp_exp3_lap(HORIZON, ARMS, np.inf) == bounds.exp3(HORIZON, ARMS) + 8
    assert bounds.dp_exp3_lap_printed(HORIZON, ARMS, np.inf) == 8


def test_exp3_minibatch():
    """With a switching cost, at the balancing tau; the theorem requires m < tau."""
    value = bounds.exp3_minibatch(HORIZON, ARMS, TAU, 1)
    assert rounds_to(value, "27756.0")
    closed = 2 * (7 * K_LN_K) ** (1 / 3) * HORIZON ** (2 / 3) + TAU
    assert value == pytest.approx(closed, rel=1e-13)
    # Without memory, the term T m / tau vanishes.
    memoryless = bounds.exp3_minibatch(HORIZON, ARMS, TAU, 0)
    assert value - memoryless == pytest.approx(HORIZON / TAU, rel=1e-10)
    tau = np.array([1.0, 2.0, 3.0, 4.0])
    for memory in (0, 1, 2, 3, 4, np.inf):
        value = bounds.exp3_minibatch(1000, 3, tau, memory)
        np.testing.assert_array_equal(np.isnan(value), memory >= tau)
    assert np.isnan(bounds.exp3_minibatch(1000, 3, np.nan, 0))


@pytest.mark.parametrize("wrong", [[None, 1.0], 1j, ["a"], [[1.0], [1.0, 2.0]], np.ma.masked])
def test_arguments_that_are_no_numbers_are_named(wrong):
    for call in (lambda: bounds.exp3(100, wrong), lambda: bounds.exp3(100, arms=wrong)):
        with pytest.raises(ValueError, match="^arms(:| is)"):
            call()


def test_ftrl_by_hand():
    """T = 1024 (10 levels), N = 4, epsilon = 2, term by term; without privacy at inf."""
    log_dim = math.log(4)
    noise = (8 * 4 * 10**1.5 * math.sqrt(log_dim) + 4 * 4 * 10 * log_dim) / 2
    simplex = bounds.ftrl(1024, 4, 2.0, domain="simplex")
    assert simplex == pytest.approx(math.sqrt(2 * 1024 * log_dim) + noise, rel=1e-14)
    noise = 4 * math.sqrt(2) * 4 * 10**1.5 / 2
    assert bounds.ftrl(1024, 4, 2.0, domain="ball") == pytest.approx(32 + noise, rel=1e-14)
    assert bounds.ftrl(1024, 4, 2.0, domain="cube") == pytest.approx(64 + noise, rel=1e-14)
    assert bounds.ftrl(1025, 4, 2.0, domain="ball") > 32 + noise + 10  # an eleventh level
    assert bounds.ftrl(1024, 4, np.inf, domain="ball") == 32


def test_the_rate_of_local_ftrl_by_hand():
    """T = 1024, N = 4, epsilon = 2. In short games it is capped on the simplex."""
    moments = {"simplex": math.log(4) / (0.5 + 64 / 3), "ball": 4 / 33, "cube": 4 * 4 / 9}
    for domain, share in moments.items():
        found = bounds.ftrl_local_rate(1024, 4, 2.0, domain=domain)
        assert found == pytest.approx(math.sqrt(share / 1024), rel=1e-14)
    assert bounds.ftrl_local_rate(2, 4, 0.1, domain="simplex") == 0.1 / 16


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


def test_experts_by_hand():
    """Hedge at its best rate; the dartboard, only if eta <= p; limited updates."""
    rate = math.sqrt(8 * math.log(5) / 200)
    assert bounds.hedge(200, 5, rate) == pytest.approx(math.sqrt(200 * math.log(5) / 2))
    dartboard = bounds.shrinking_dartboard(300, 4, 0.01, 0.05)
    assert dartboard == pytest.approx(3 + 100 * math.log(4) + 600 * math.exp(-5))
    assert np.isnan(bounds.shrinking_dartboard(300, 4, 0.06, 0.05))
    updates = bounds.limited_updates(256, 4, 2.0)
    assert updates == pytest.approx(1 + 3.42 * 16 * math.sqrt(math.log(4)) + 16 * math.log(4))
    assert math.sqrt(2) / (math.sqrt(2) - 1) < 3.42


def test_bandits_by_hand():
    """EXP2, SCRiBLE and batches, term by term; at epsilon = inf the noise terms vanish."""
    log = math.log(100)
    value = bounds.exp2(100, 4, 2.0)
    assert value == pytest.approx(math.sqrt(100 * 4 * math.log(4) * (3 + 2 + 4 * log)) + 1)
    assert bounds.exp2(100, 4, np.inf) == pytest.approx(math.sqrt(1200 * math.log(4)) + 1)
    assert bounds.exp2_rate(100, 4, 0.5) == pytest.approx(2 * math.sqrt(400 * log * math.log(4)))
    cases = [
        # 2 n sqrt(2 nu T ln T (M^2 + s^2)) + 2M at N = 4, epsilon = 2.
        ("simplex", "scalar", 6 * math.sqrt(8 * 100 * log * (0.25 + 2 * 0.25)) + 1),
        ("simplex", "vector", 6 * math.sqrt(8 * 100 * log * (0.25 + 2 * 16)) + 1),
        ("ball", "scalar", 8 * math.sqrt(2 * 100 * log * 3) + 2),
        ("ball", "vector", 8 * math.sqrt(2 * 100 * log * (1 + 2 * 4)) + 2),
        ("cube", "scalar", 8 * math.sqrt(8 * 100 * log * 3) + 2),
        ("cube", "vector", 8 * math.sqrt(8 * 100 * log * (1 + 2 * 4)) + 2),
    ]
    for domain, noise, expected in cases:
        got = bounds.scrible(100, 4, 2.0, domain=domain, noise=noise)
        assert got == pytest.approx(expected, rel=1e-13)
    # The simplex is a polytope of dimension 3 with 4 facets and M = 1/2. Half the facets contribute
    # a factor sqrt(1/2).
    polytope = bounds.scrible_polytope(100, 3, 2.0, rows=4, bound=0.5)
    assert polytope == pytest.approx(cases[0][2], rel=1e-13)
    half = bounds.scrible_polytope(100, 3, 2.0, rows=2, bound=0.5)
    assert (polytope - 1) == pytest.approx((half - 1) * math.sqrt(2), rel=1e-13)
    assert bounds.before_bandits(1000, 0.5) == pytest.approx(200)
    assert bounds.before_bandits(1000, 0.5, arms=3) == pytest.approx(600)
    assert bounds.tsallis_inf(100, 4) == pytest.approx(81)


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        *((name, (1024, 4, 2.0), {"domain": "sphere"})
          for name in ("ftrl", "ftrl_local_rate", "scrible")),
        ("scrible", (100, 4, 1.0), {"noise": "gaussian", "domain": "ball"}),
        ("batched_bandit", (100, 4, 1.0), {"base": "exp3"}),
        ("linear_elimination", (1e8, 20, 5, 1.0), {"model": "shuffled"}),
    ],
)  # fmt: skip
def test_unknown_words_are_refused(name, arguments, options):
    with pytest.raises(ValueError, match=rf"\b{next(iter(options))}\b"):
        getattr(bounds, name)(*arguments, **options)


def test_batched_bandit_by_hand():
    """epsilon = 0.3: batches of 4 with noise of scale 1 / 1.2, 25 batches and a rest."""
    sigma = math.sqrt(1 + 2 / 1.44)
    value = bounds.batched_bandit(103, 4, 0.3)
    assert value == pytest.approx(4 * 30 * sigma * math.sqrt(4 * 26) + 4)
    over_exp2 = bounds.batched_bandit(103, 4, 0.3, base="exp2")
    assert over_exp2 == pytest.approx(4 * bounds.exp2(25, 4, 1.2) + 4)
    assert bounds.batched_bandit(100, 4, np.inf) == pytest.approx(30 * math.sqrt(404) + 1)


@pytest.mark.parametrize("domain", ["simplex", "ball", "cube"])
def test_the_printed_theorem_on_ftrl_is_below_ours_by_a_root_of_two(domain):
    """Only in its first term: sqrt(T ln N), sqrt(T / 2), sqrt(N T / 2)."""
    plain = {"simplex": np.log(5.0), "ball": 0.5, "cube": 2.5}[domain]
    found = bounds.ftrl_printed(100, 5, np.inf, domain=domain)
    assert found == pytest.approx(10 * math.sqrt(plain))
    noise = [
        bound(100, 5, 0.5, domain=domain) - bound(100, 5, np.inf, domain=domain)
        for bound in (bounds.ftrl, bounds.ftrl_printed)
    ]
    assert noise[0] == pytest.approx(noise[1])


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
