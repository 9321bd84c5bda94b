"""EXP3 against the formulas of Auer et al. 2002, the law of its draws, and its own privacy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from scipy import stats

from dpjax.core._versions import enable_x64
from dpjax.learners.exp3 import (
    Exp3State,
    default_mixing,
    exp3,
    log_ratio_cap,
    printed_epsilon,
    probabilities,
    update,
)
from tests.play import play_table
from tests.zcdp import least_epsilon

# A fixed state for tests of one draw: the largest exponent is 0, and they are far from uniform.
EXPONENTS = np.array([-1.2, 0.0, -4.0, -0.3], np.float32)
MIXING = 0.2


def p_by_hand(estimates, mixing):
    """p = (1 - gamma) exp(gamma G / K) / sum + gamma / K in float64, with unshifted G."""
    estimates = np.asarray(estimates, np.float64)
    weights = np.exp(mixing * estimates / len(estimates))
    return (1 - mixing) * weights / weights.sum() + mixing / len(estimates)


def state_at(exponents, arm, probability):
    return Exp3State(
        jnp.asarray(exponents, jnp.float32),
        jnp.asarray(arm, jnp.int32),
        jnp.asarray(probability, jnp.float32),
    )


def test_three_rounds_by_hand():
    """Exponents, probabilities and arms of 200 games equal a float64 loop with unshifted G."""
    arms, mixing = 3, 0.3
    losses = np.array([[0.9, 0.1, 0.5], [0.0, 1.0, 0.25], [0.6, 0.3, 0.7]])
    learner = exp3(3, arms, mixing=mixing)

    def game(key):
        # The uniform number of the learner's single draw per round.
        uniform = [jr.uniform(jr.fold_in(key, t)) for t in range(4)]
        return play_table(learner, losses.astype(np.float32), key).states, jnp.stack(uniform)

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(1), 200))
    states, uniforms = jax.tree.map(np.asarray, games)
    for *leaves, uniform in zip(*states, uniforms, strict=True):
        exponents, played, probability = leaves
        estimates = np.zeros(arms)
        for t in range(4):
            p = p_by_hand(estimates, mixing)
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniform[t], side="right"))
            assert played[t] == arm
            # A dozen float32 operations, each within 2^-24 = 6e-8.
            assert probability[t] == pytest.approx(p[arm], rel=2e-6)
            theta = mixing * estimates / arms
            np.testing.assert_allclose(exponents[t], theta - theta.max(), atol=1e-6)
            if t < 3:
                estimates[arm] += (1 - losses[t, arm]) / p[arm]
    assert len(np.unique(states.arm, axis=0)) > 20  # many different games


@pytest.fixture(scope="module")
def arm_counts():
    """How often 100 000 keys drew each arm from the fixed state; a loss of 1 does not change it."""
    learner = exp3(100, 4, mixing=MIXING)

    def arm(key):
        return learner.step(state_at(EXPONENTS, 0, 0.25), key, jnp.float32(1.0))[1]

    drawn = jax.jit(jax.vmap(arm))(jr.split(jr.key(2), 100_000))
    return np.bincount(drawn, minlength=4)


def p_at_exponents(mixing):
    """(1 - gamma) softmax(theta) + gamma / K of the fixed state in float64; gamma may be 0."""
    weights = np.exp(EXPONENTS.astype(np.float64))
    return (1 - mixing) * weights / weights.sum() + mixing / 4


def draw_pvalue(counts, mixing):
    return stats.chisquare(counts, counts.sum() * p_at_exponents(mixing)).pvalue


def test_law_of_the_arms(arm_counts):
    """Frequencies match (1 - gamma) softmax + gamma / K in a chi-square test."""
    assert draw_pvalue(arm_counts, MIXING) > 1e-3


def test_law_of_the_arms_has_power(arm_counts):
    """The same test rejects doubled, 10 % larger, or missing exploration."""
    for wrong in (2 * MIXING, 1.1 * MIXING, 0.0):
        assert draw_pvalue(arm_counts, wrong) < 1e-6


def test_gain_estimates_are_unbiased():
    """The exact mean over arms of the change of G is the gain vector, up to a shift."""
    gains = np.array([0.8, 0.1, 0.6, 1.0])
    p = p_at_exponents(MIXING)
    learner = exp3(100, 4, mixing=MIXING)

    def after(arm, probability, loss):
        state = state_at(EXPONENTS, arm, probability)
        return learner.step(state, jr.key(0), loss)[0].exponents

    losses = jnp.asarray(1 - gains, jnp.float32)
    moved = jax.vmap(after)(jnp.arange(4), jnp.asarray(p, jnp.float32), losses)
    change = (np.asarray(moved, np.float64) - EXPONENTS) * 4 / MIXING
    mean = p @ change
    # Exponents of size 4 are exact to 2.4e-7, which is 20 times that in units of G.
    np.testing.assert_allclose(mean - mean.mean(), gains - gains.mean(), atol=1e-5)


def test_default_mixing():
    """The rate of Auer et al. 2002, Corollary 3.2, for a long game and when capped at 1."""
    exact = np.sqrt(4 * np.log(4) / ((np.e - 1) * 2**18))
    assert exact == pytest.approx(0.00350865, abs=5e-9)
    assert float(default_mixing(2**18, 4)) == pytest.approx(exact, rel=1e-6)
    for arms in (3, 4, 10):
        assert default_mixing(1, arms) == 1.0
    # With two arms, K ln K is below e - 1.
    assert float(default_mixing(1, 2)) == pytest.approx(np.sqrt(np.log(4) / (np.e - 1)), rel=1e-6)
    assert float(default_mixing(jnp.int32(2**18), 4)) == float(default_mixing(2**18, 4))


# Stability: for any history, one changed gain changes no probability by more than a factor e. The
# two worlds play the same arms, and are computed in float64 so that the claims hold up to rounding.

MIXINGS = (0.0035, 0.05, 0.3, 0.8)
ROUNDS = 300
CHANGED = 20  # rounds of common history before the change, if histories start level
CHOICES = 4  # ways to choose arms: uniform, by the first world's law, least likely, most likely


def compare(first, second, mixing):
    """Range of the difference of exponents, and the largest |ln(p' / p)|."""
    difference = second - first
    ratio = jnp.log(probabilities(second, mixing) / probabilities(first, mixing))
    return jnp.max(difference) - jnp.min(difference), jnp.max(jnp.abs(ratio))


def play(first, second, arm, gain, other, mixing):
    """One round of both worlds with the same arm and gains ``gain`` and ``other``."""
    first = update(first, arm, probabilities(first, mixing)[arm], gain, mixing)
    second = update(second, arm, probabilities(second, mixing)[arm], other, mixing)
    return first, second


def random_history(start, key, mixing, choice, gain_kind, changed):
    """Ranges and ratios (ROUNDS,) along one history; the gain differs in round ``changed``."""
    arms = start.shape[0]

    def one_round(worlds, t):
        first, second = worlds
        arm_key, gain_key, other_key = jr.split(jr.fold_in(key, t), 3)
        p = probabilities(first, mixing)
        by_law = jr.choice(arm_key, arms, p=p)
        options = jnp.stack([jr.randint(arm_key, (), 0, arms), by_law, p.argmin(), p.argmax()])
        gain, other = jr.uniform(gain_key), jr.uniform(other_key)
        # Gains in [0, 1]; coin flips; ones, changed to a 0.
        gain = jnp.stack([gain, jnp.round(gain), jnp.ones_like(gain)])[gain_kind]
        other = jnp.stack([other, 1.0 - gain, jnp.zeros_like(gain)])[gain_kind]
        other = jnp.where(t == changed, other, gain)
        worlds = play(first, second, options[choice], gain, other, mixing)
        return worlds, compare(*worlds, mixing)

    return lax.scan(one_round, (start, start), jnp.arange(ROUNDS))[1]


def skewed(rng, cases, arms):
    """Exponents as after long histories, down to values dominated by the exploration."""
    start = -rng.random((cases, arms)) * 12.0
    return start - start.max(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("arms", [2, 4, 10])
def test_a_changed_gain_stays_bounded_along_random_histories(arms):
    """The range of the difference of exponents is at most 1, and never grows after the change."""
    rng = np.random.default_rng(arms)
    grid = np.meshgrid(MIXINGS, range(CHOICES), range(3), range(8), indexing="ij")
    mixing, choice, gain_kind, repeat = (axis.ravel() for axis in grid)
    # Even repeats start level and change a gain later; odd repeats start skewed and change at once.
    start = np.where(repeat[:, None] % 2, skewed(rng, len(mixing), arms), 0.0)
    changed = np.where(repeat % 2, 0, CHANGED)
    with enable_x64(True):
        keys = jr.split(jr.key(arms), len(mixing))
        run = jax.jit(jax.vmap(random_history))
        ranges, ratios = run(start, keys, mixing, choice, gain_kind, changed)
        assert ranges.dtype == np.float64
        ranges, ratios = np.asarray(ranges), np.asarray(ratios)
    before = np.arange(ROUNDS) < changed[:, None]
    assert (ranges[before] == 0.0).all()
    # Exponents are at most a few hundred, and each sum is exact to 2^-53 of them: 1e-13 per round.
    assert ranges.max() <= 1 + 1e-10
    after = np.arange(1, ROUNDS) > changed[:, None]
    assert np.diff(ranges)[after].max() <= 1e-11
    assert (ratios <= ranges + 1e-10).all()
    # The bound is nearly attained, so the histories are extreme enough.
    assert ranges.max() > 0.99


GAINS = np.array([0.0, 0.5, 1.0])
STEPS = 25


def greedy_history(start, key, mixing):
    """Ranges and ratios after a change in round 1, then after each greedily chosen (arm, gain).

    The change is 0 against 1 for a random arm. Every other round is random, to leave local maxima
    of the greedy choice.
    """
    arms = start.shape[0]
    candidates = [jnp.repeat(jnp.arange(arms), 3), jnp.tile(jnp.asarray(GAINS), arms)]

    def one_round(worlds, t):
        def outcome(arm, gain):
            return play(*worlds, arm, gain, gain, mixing)

        after = jax.vmap(outcome)(*candidates)
        ratios = jax.vmap(compare, (0, 0, None))(*after, mixing)[1]
        anything = jr.randint(jr.fold_in(key, t), (), 0, 3 * arms)
        pick = jnp.where(t % 2 == 1, ratios.argmax(), anything)
        worlds = jax.tree.map(lambda leaf: leaf[pick], after)
        return worlds, compare(*worlds, mixing)

    zero, one = jnp.zeros((), start.dtype), jnp.ones((), start.dtype)
    worlds = play(start, start, jr.randint(key, (), 0, arms), zero, one, mixing)
    first = compare(*worlds, mixing)
    rest = lax.scan(one_round, worlds, jnp.arange(1, STEPS))[1]
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rest)


@pytest.mark.parametrize("arms", [2, 4, 10])
def test_search_for_the_largest_change_of_a_probability(arms):
    """No history changes ln p by 1: the largest change found by a search is in [.27, .32].

    Let x be the ratio of the two parts of p, weights over exploration. A change of one gain from 0
    to 1 changes the exponent by 1 / (1 + x), and p by the factor (1 + x e^(1 / (1 + x))) / (1 + x),
    at most e^0.2855 for small gamma. The search finds no history that exceeds it.
    """
    rng = np.random.default_rng(arms)
    mixing = np.tile(MIXINGS, 500)
    start = skewed(rng, len(mixing), arms)
    with enable_x64(True):
        keys = jr.split(jr.key(arms), len(mixing))
        found = jax.jit(jax.vmap(greedy_history))(start, keys, mixing)
        ranges, ratios = map(np.asarray, found)
    assert ranges.max() <= 1 + 1e-10
    assert np.diff(ranges).max() <= 1e-11
    assert 0.27 <= ratios.max() <= 0.32
    x = np.linspace(0.0, 10.0, 10_001)
    at_once = np.log((1 + x * np.exp(1 / (1 + x))) / (1 + x)).max()
    assert ratios.max() == pytest.approx(at_once, abs=2e-3)


def round_robin(sign):
    """The largest |ln(p' / p)| over 400 rounds of 1, 2, 3, 4, 1, ..., all with gain ``sign``."""
    mixing, zero = jnp.float32(0.1), jnp.zeros(4, jnp.float32)

    def one_round(worlds, t):
        other = jnp.where(t == 0, 0.0, sign)
        worlds = play(*worlds, t % 4, sign, other, mixing)
        return worlds, compare(*worlds, mixing)[1]

    return np.asarray(lax.scan(one_round, (zero, zero), jnp.arange(400))[1]).max()


def test_the_loss_form_is_not_stable():
    """With losses, theta_j -= (gamma / K) loss / p_j: a changed loss changes ln p by up to the cap.

    The history is the simplest one, and harmless with gains: arms in turn, all losses 1.
    """
    cap = float(log_ratio_cap(4, 0.1))
    assert cap == pytest.approx(3.611, abs=5e-4)
    worst = round_robin(jnp.float32(-1.0))
    assert 2.0 < worst <= cap + 1e-4  # a quotient of float32 probabilities
    assert round_robin(jnp.float32(1.0)) <= 1.0


def cap_by_hand(arms, mixing):
    return np.log((arms * (1 - mixing) + mixing) / mixing)


def derived_by_hand(horizon, arms, mixing):
    """(epsilon, rho): T - 1 draws of bounded range 1, or by their log-ratios, in float64."""
    cap, delta = cap_by_hand(arms, mixing), 1 / max(horizon, 2) ** 2
    rho = (horizon - 1) * min(1, 2 * cap) ** 2 / 8
    pure = (horizon - 1) * min(1, cap)
    return min(pure, least_epsilon(rho, delta)), rho


def printed_by_hand(horizon, arms, mixing):
    delta = 1 / max(horizon, 2) ** 2
    mixed = 2 * (1 - mixing) * horizon + np.sqrt(2 * horizon * np.log(1 / delta))
    return min(2 * horizon, horizon * cap_by_hand(arms, mixing), mixed)


@pytest.mark.parametrize("mixing", [None, 0.0035, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("arms", [2, 4, 10])
def test_declared_epsilon(arms, mixing):
    """The declared and the printed values equal float64 arithmetic, from 1 round to 2^20."""
    for horizon in (1, 2, 64, 2**18, 2**20):
        derived = exp3(horizon, arms, mixing=mixing).privacy
        printed = exp3(horizon, arms, mixing=mixing, calibration="printed").privacy
        gamma = mixing or min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * horizon)))
        epsilon, rho = derived_by_hand(horizon, arms, gamma)
        # The logarithm of the cap cancels if gamma is close to 1: a few 2^-24 over 0.1.
        assert float(derived.epsilon) == pytest.approx(epsilon, rel=1e-5, abs=2e-6)
        assert float(derived.rho) == pytest.approx(rho, rel=1e-5)
        assert float(printed.paper_epsilon) == pytest.approx(
            printed_by_hand(horizon, arms, gamma), rel=1e-5
        )
        assert (printed.epsilon, printed.rho) == (derived.epsilon, derived.rho)
        assert float(printed.epsilon) <= float(printed.paper_epsilon)
        assert derived.delta == printed.delta == 1 / max(horizon, 2) ** 2
        assert (derived.calibration, printed.calibration) == ("derived", "printed")
        assert (derived.neighbours, derived.unit, derived.model) == ("replace", "round", "central")


def test_one_round_is_free():
    """The first action sees no data, so a game of one round declares 0."""
    for mixing in (None, 0.01):
        privacy = exp3(1, 4, mixing=mixing).privacy
        assert privacy.epsilon == 0.0
        assert privacy.rho == 0.0


@pytest.mark.parametrize(
    ("horizon", "arms", "mixing", "smallest"),
    [
        (2**18, 4, 1e-9, 2.0 * 2**18),
        (2, 2, 0.5, 2 * np.log(3.0)),
        (2**18, 4, 0.9, 0.2 * 2**18 + np.sqrt(2.0 * 2**18 * 36 * np.log(2))),
    ],
)
def test_printed_epsilon_has_three_terms(horizon, arms, mixing, smallest):
    """Each term of the printed minimum is the smallest in some case; delta = 2^-36."""
    value = float(printed_epsilon(horizon, arms, mixing, 2.0**-36))
    assert value == pytest.approx(smallest, rel=1e-6)


def test_log_ratio_cap():
    """The cap is the ratio of the extreme probabilities if one arm has all the weight."""
    for arms, mixing in [(2, 0.1), (4, 0.1), (10, 0.8), (3, 1.0)]:
        exponents = jnp.where(jnp.arange(arms) == 0, 0.0, -80.0)
        p = np.asarray(probabilities(exponents, mixing), np.float64)
        cap = float(log_ratio_cap(arms, mixing))
        assert cap == pytest.approx(np.log(p.max() / p.min()), abs=1e-6)
        assert cap == pytest.approx(cap_by_hand(arms, mixing), rel=1e-6, abs=1e-6)
