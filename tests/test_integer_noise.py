"""Integer noise: the laws of its draws, its cost in a replay, and the amount needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.audit.records import record
from dpjax.audit.rules import RULES
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums
from dpjax.noise.release import Site

TRIALS = 40_000
DELTA = 1e-6


def draws(name, amount, seed=0, total=0.0):
    """The noise added to a sum, (TRIALS,) float64."""
    add = noise.LAWS[name].total
    start = exact_sums.of(total)

    def draw(key):
        moved = exact_sums.add(add(key, start, amount), exact_sums.negative(start))
        return exact_sums.to_float(moved)

    return np.asarray(jax.jit(jax.vmap(draw))(jr.split(jr.key(seed), TRIALS)), np.float64)


def discrete_gaussian(scale):
    points = np.arange(-60, 61)
    weights = np.exp(-0.5 * (points / scale) ** 2)
    return stats.rv_discrete(values=(points, weights / weights.sum()))


# The amount of noise, a wrong amount, and the law for an amount.
LAWS = {
    "discrete_laplace": (1.5, 1.65, lambda b: stats.dlaplace(1.0 / b)),
    "discrete_gaussian": (2.3, 2.53, discrete_gaussian),
    "skellam": (5.0**0.5, 5.5**0.5, lambda s: stats.skellam(s * s / 2.0, s * s / 2.0)),
    "binomial": (41, 46, lambda m: stats.binom(m, 0.5, loc=-0.5 * m)),
}


def fit(sample, law):
    """The p-value of a sample under a law on integers or half-integers; tails are merged."""
    offset = sample[0] % 1.0
    assert (sample % 1.0 == offset).all()
    points = np.arange(-20, 21) + offset
    expected = np.append(law.pmf(points), 0.0) * len(sample)
    found = np.append([(sample == point).sum() for point in points], 0.0)
    expected[-1], found[-1] = len(sample) - expected.sum(), len(sample) - found.sum()
    often = expected >= 10.0
    found, expected = (np.append(x[often], x[~often].sum()) for x in (found, expected))
    cells = ((found - expected) ** 2 / expected)[expected > 0.5]
    return stats.chi2.sf(cells.sum(), max(len(cells) - 1, 1))


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_their_law(name):
    """By chi-square; an amount, or the variance of Skellam noise, off by a tenth is rejected."""
    amount, wrong, law = LAWS[name]
    sample = draws(name, amount)
    assert fit(sample, law(amount)) > 1e-3
    assert fit(sample, law(wrong)) < 1e-6


def has_variance(sample, variance):
    """To six standard errors; 10 % more is rejected."""
    error = np.std(sample**2) / len(sample) ** 0.5
    assert abs(np.mean(sample**2) - variance) < 6.0 * error < 0.1 * variance
    assert abs(np.mean(sample)) < 6.0 * np.sqrt(variance / len(sample))


@pytest.mark.slow
@pytest.mark.parametrize("scale", [10.0, 1.1e6, 4e7, 1e12])
@pytest.mark.parametrize(
    ("name", "variance"), [("discrete_laplace", 2.0), ("discrete_gaussian", 1.0), ("skellam", 1.0)]
)
def test_noise_of_any_scale_has_its_variance(name, variance, scale):
    draw = jax.jit(getattr(noise, name))
    sample = np.asarray(draw(jr.key(3), jnp.zeros(2**16), jnp.float32(scale)), np.float64)
    has_variance(sample, variance * scale**2)
    if scale < 2**20:
        assert (sample == np.round(sample)).all()


# --- amounts ---

# How an amount is rounded, and the power that turns it into a deviation.
EXACT = {"binomial": (int, 0.5), "skellam": (float, 1.0), "discrete_gaussian": (float, 1.0)}
EPSILONS = np.array([0.003, 0.0213, 0.05, 0.31, 1.0, 2.7, 4.0], np.float32)


@pytest.mark.parametrize("law", EXACT)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_amounts_of_integer_noise_are_enough_and_hardly_more(law, delta):
    """The exact delta holds, and fails with less noise; deviations are within a percent."""
    own, (kind, power) = noise.LAWS[law], EXACT[law]
    fewer = 0.95**0.5 if law == "skellam" else 0.95
    amounts = np.asarray(jax.jit(lambda e: jax.vmap(
        lambda each: own.single(each, delta).scale)(e))(EPSILONS))  # fmt: skip
    for epsilon, amount in zip(EPSILONS, amounts, strict=True):
        assert own.delta(kind(amount), float(epsilon)) <= delta
        if epsilon >= 0.02:
            less = amount / 1.011 ** (1.0 / power)
            assert own.delta(kind(less), float(epsilon)) > delta or epsilon > 2.0
        assert own.delta(kind(fewer * amount), float(epsilon)) > delta or epsilon > 2.0
    assert float(own.single(np.inf, delta).scale) == 0.0


# --- cost in a replay ---


def cost(kind, law, draw, *both):
    """The cost of a release for the inputs of both worlds, without the key."""
    rule, site = RULES[kind], Site(kind, law)
    inputs = [(jr.key(0), *each) for each in both]
    return rule.cost(site, *(record(rule, site, each, draw(*each)) for each in inputs))


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian", "laplace"])
def test_noise_along_a_point_is_charged(name):
    """A sum of integers times weights is not an integer, and its exact cost is unknown."""
    law, weights = noise.LAWS[name], jnp.array([0.5, -1.0])
    usual, other = ((jnp.float32(value), jnp.float32(2.0), weights) for value in (0.0, 3.0))
    expected = 1.125 if name == "laplace" else np.inf
    assert float(cost("along", law, law.along, usual, other).rho) == expected
    assert float(cost("along", law, law.along, usual, usual).rho) == 0.0


@pytest.mark.parametrize("name", LAWS)
def test_integer_noise_hides_no_part_of_an_integer(name):
    """Without noise nothing is hidden either."""
    law = noise.LAWS[name]

    def draw(key, words, amount):
        return jnp.stack(law.total(key, exact_sums.ExactSum(*words), amount))

    for value, amount in ((4.25, 400), (5.0, 0)):
        both = [(jnp.stack(exact_sums.of(total)), amount) for total in (4.0, value)]
        found = cost("words", law, draw, *both)
        assert float(found.pure) == float(found.rho) == np.inf


# --- any scale ---


BEYOND = ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"]


@pytest.mark.parametrize("name", BEYOND)
def test_noise_beyond_the_range_of_a_sum_hides_it(name):
    """At a scale of 10^11 nearly all results are clipped, not only the noise."""
    add = noise.LAWS[name].total
    keys = jr.split(jr.key(4), 200)

    def results(total):
        return jax.vmap(lambda key: add(key, exact_sums.of(total), 1e11).whole)(keys)

    one, other = (np.asarray(results(total)) for total in (5.0, 1000.0))
    same = one == other
    assert same.mean() > 0.9
    assert set(one[same].tolist()) == {-(2**31), 2**31 - 1}


@pytest.mark.parametrize("name", [*BEYOND, "skellam", "binomial"])
def test_noise_that_is_not_a_number_hides_the_sum(name):
    add = jax.jit(noise.LAWS[name].total)
    for total in (0, 3):
        assert add(jr.key(5), exact_sums.of(total), jnp.float32(np.nan)).whole == 2**31 - 1


@pytest.mark.parametrize("law", ["binomial", "skellam", "discrete_gaussian", "discrete_laplace"])
def test_sums_of_averages_are_rounded_before_integer_noise(law):
    """Sums that differ by at most 1 are rounded to integers that do too; integers do not change."""
    made = sum_noise(law, np.inf, None if law == "discrete_laplace" else DELTA)

    @jax.jit
    @jax.vmap
    def rounded(total):
        return exact_sums.to_float(made.release(jr.key(0), exact_sums.of(total), 9))

    found = rounded(jnp.array([3.0, 0.0, 2.25, 2.5, 2.75, 3.4, 3.6]))
    assert found.tolist() == [3, 0, 2, 3, 3, 3, 4]
    generator = np.random.default_rng(0)
    totals, moves = generator.uniform(0, 8, 30), generator.uniform(0, 1, 30)
    moved = rounded(jnp.asarray(totals + moves)) - rounded(jnp.asarray(totals))
    assert set(moved.tolist()) == {0.0, 1.0}
