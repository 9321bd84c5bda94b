"""Integer noise: the laws of its draws, what a replay charges for it, and how much is needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise, privacy
from dpjax.audit.records import record
from dpjax.audit.rules import RULES, integer_row
from dpjax.audit.spending import integer_epsilon
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums, integer_laws

TRIALS = 40_000
DELTA = 1e-6


def draws(name, amount, seed=0, total=0.0):
    """What is added to a sum, (TRIALS,) float64."""
    add = getattr(noise, name)
    start = exact_sums.of(total)

    def draw(key):
        moved = exact_sums.add(add(key, start, amount), exact_sums.negative(start))
        return exact_sums.to_float(moved)

    return np.asarray(jax.jit(jax.vmap(draw))(jr.split(jr.key(seed), TRIALS)), np.float64)


def discrete_gaussian(scale):
    points = np.arange(-60, 61)
    weights = np.exp(-0.5 * (points / scale) ** 2)
    return stats.rv_discrete(values=(points, weights / weights.sum()))


LAWS = {
    "discrete_laplace": (1.5, lambda b: stats.dlaplace(1.0 / b)),
    "discrete_gaussian": (2.3, discrete_gaussian),
    "skellam": (5.0, lambda v: stats.skellam(v / 2.0, v / 2.0)),
    "binomial": (41, lambda m: stats.binom(int(m), 0.5, loc=-0.5 * int(m))),
}


def fit(sample, law):
    """The p-value of a sample under a law on the integers, or half-integers; tails together."""
    offset = sample[0] % 1.0
    assert (sample % 1.0 == offset).all()
    points = np.arange(-20, 21) + offset
    expected = np.append(law.pmf(points), 0.0) * len(sample)
    found = np.append([(sample == point).sum() for point in points], 0.0)
    expected[-1], found[-1] = len(sample) - expected.sum(), len(sample) - found.sum()
    often = expected >= 10.0
    rare = ~often
    found = np.append(found[often], found[rare].sum())
    expected = np.append(expected[often], expected[rare].sum())
    used = expected > 0.5
    found, expected = found[used], expected[used]
    return stats.chi2.sf(((found - expected) ** 2 / expected).sum(), max(len(found) - 1, 1))


@pytest.mark.parametrize("name", LAWS)
def test_draws_have_their_law(name):
    """By chi-square; an amount that is off by a tenth is rejected."""
    amount, law = LAWS[name]
    sample = draws(f"{name}_total", amount)
    assert fit(sample, law(amount)) > 1e-3
    assert fit(sample, law(1.1 * amount + (name == "binomial"))) < 1e-6


@pytest.mark.parametrize(
    ("name", "amount", "variance"),
    [
        ("discrete_laplace", 1e4, 2e8),
        ("discrete_gaussian", 1e4, 1e8),
        ("skellam", 1e8, 1e8),
        ("binomial", 2**31 - 1, (2**31 - 1) / 4),
    ],
)
def test_much_noise_has_its_variance(name, amount, variance):
    """On a sum of 10^9 - 1 losses, to six standard errors; 10 % more is rejected."""
    sample = draws(f"{name}_total", amount, 1, 10.0**9)
    error = np.sqrt(np.mean((sample**2 - variance) ** 2) / TRIALS)
    assert abs(np.mean(sample**2) - variance) < 6.0 * error < 0.1 * variance
    assert abs(np.mean(sample)) < 6.0 * np.sqrt(variance / TRIALS)


@pytest.mark.parametrize("name", LAWS)
def test_no_noise_leaves_the_sum(name):
    add = getattr(noise, f"{name}_total")
    for value in (0.0, 3.25, -7.5):
        assert exact_sums.to_float(add(jr.key(0), exact_sums.of(value), 0)) == value


# --- amounts ---

EXACT = {
    "binomial": (privacy.binomial_delta, privacy.binomial_coins, int),
    "skellam": (privacy.skellam_delta, privacy.skellam_variance, float),
    "discrete_gaussian": (privacy.discrete_gaussian_delta, privacy.discrete_gaussian_scale, float),
}
EPSILONS = np.array([0.003, 0.0213, 0.05, 0.31, 1.0, 2.7, 4.0], np.float32)


@pytest.mark.parametrize("law", EXACT)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_amounts_of_integer_noise_are_enough_and_hardly_more(law, delta):
    """The exact delta is kept, and not by less noise; deviations are within a percent."""
    delta_of, least, kind = EXACT[law]
    amounts = np.asarray(jax.jit(lambda e: jax.vmap(
        lambda each: privacy.integer_noise(law, each, delta))(e))(EPSILONS))  # fmt: skip
    squared = 1 if law == "discrete_gaussian" else 0.5
    for epsilon, amount in zip(EPSILONS, amounts, strict=True):
        assert delta_of(kind(amount), float(epsilon)) <= delta
        if epsilon >= 0.02:
            needed = least(float(epsilon), delta)
            assert (amount / needed) ** squared <= 1.011
        assert delta_of(kind(0.95 * amount), float(epsilon)) > delta or epsilon > 2.0
    assert float(privacy.integer_noise(law, np.inf, delta)) == 0.0


def test_amounts_of_noise_do_not_depend_on_tracing():
    for law in privacy.INTEGER_LAWS:
        traced = jax.jit(lambda e, law=law: privacy.integer_noise(law, e, DELTA))(np.float32(0.7))
        assert float(traced) == float(privacy.integer_noise(law, 0.7, DELTA))


def test_bad_amounts():
    with pytest.raises(ValueError, match="at most 2147483647 coins"):
        privacy.integer_noise("binomial", 1e-5, DELTA)
    with pytest.raises(ValueError, match="law must be one of"):
        privacy.integer_noise("poisson", 1.0, DELTA)
    with pytest.raises(TypeError, match="delta must be a plain number"):
        jax.jit(lambda d: privacy.integer_noise("skellam", 1.0, d))(1e-6)


@pytest.mark.parametrize("law", EXACT)
@pytest.mark.parametrize("change", [1, 3])
def test_epsilon_at_a_delta_is_the_least(law, change):
    delta_of = EXACT[law][0]
    amount = {"binomial": 300, "skellam": 75.0, "discrete_gaussian": 8.5}[law]
    epsilon = getattr(privacy, f"{law}_epsilon")(amount, DELTA, change)
    assert delta_of(amount, epsilon, change) == pytest.approx(DELTA, rel=1e-6)


# --- what a replay charges ---


def charged(name, value, twin, amount):
    """(pure, rho, and epsilon at DELTA of what the host accounts for) of one release."""
    rule = RULES[f"{name}_words"]
    both = []
    for total in (value, twin):
        words = jnp.stack(exact_sums.of(total))
        inputs = (jr.key(0), words, amount)
        both.append(record(rule, inputs, [getattr(noise, f"{name}_words")(*inputs)]))
    cost = rule.cost(*both)
    epsilon = 0.0
    if rule.integer is not None:
        law, amount, change, _ = np.asarray(integer_row(rule, *both))
        name = privacy.INTEGER_LAWS[int(law)]
        epsilon = integer_epsilon(name, float(amount), DELTA, int(change)) if change else 0.0
    return float(cost.pure), float(cost.rho), epsilon


def test_what_a_changed_sum_costs():
    assert charged("discrete_laplace", 5.0, 6.0, 2.0) == (0.5, 0.125, 0.0)
    assert charged("gaussian", 5.0, 7.5, 5.0) == (0.0, 0.125, 0.0)
    for name, exact in (
        ("binomial", privacy.binomial_epsilon),
        ("skellam", privacy.skellam_epsilon),
        ("discrete_gaussian", privacy.discrete_gaussian_epsilon),
    ):
        for change in (1, 2):
            found = charged(name, 10.0**9, 10.0**9 - 64 * change, 400)
            assert found == (0.0, 0.0, exact(400, DELTA, 64 * change))
        assert charged(name, 4.5, 4.5, 400) == (0.0, 0.0, 0.0)
        # Half the amount costs more.
        assert charged(name, 4.0, 5.0, 200)[2] > 1.3 * charged(name, 4.0, 5.0, 400)[2]


@pytest.mark.parametrize("name", LAWS)
def test_integer_noise_hides_no_part_of_an_integer(name):
    """Nor does anything hide where there is no noise."""
    assert charged(name, 4.0, 4.25, 400)[:2] == (np.inf, np.inf)
    assert charged(name, 4.0, 5.0, 0)[:2] == (np.inf, np.inf)


def test_noise_that_users_divide_by_their_number_is_too_little():
    """Each of n users adds a part of Skellam noise. Parts of deviation s / sqrt(n) make up s.

    With deviation s / n a replay of one changed loss charges far more than the declared epsilon.
    """
    epsilon, users = 0.5, 400
    variance = float(privacy.integer_noise("skellam", epsilon, DELTA))
    right, wrong = users * (variance / users), users * (variance / users**2)
    assert charged("skellam", 7.0, 8.0, right)[2] <= epsilon
    assert charged("skellam", 7.0, 8.0, wrong)[2] > 5.0 * epsilon
    # The right parts add up to the law of the whole, by chi-square.
    keys = jr.split(jr.key(9), TRIALS // 8 * users).reshape(TRIALS // 8, users)
    parts = jax.jit(jax.vmap(jax.vmap(lambda key: integer_laws.skellam(key, 5.0 / users))))(keys)
    assert fit(np.asarray(parts.sum(axis=1), np.float64), stats.skellam(2.5, 2.5)) > 1e-3


# --- any scale ---

VALUES = {"discrete_laplace": 2.0, "discrete_gaussian": 1.0, "skellam": 1.0}


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("scale", [10.0, 1e3, 1.1e6, 4e7, 1e9, 1e12])
def test_noise_of_any_scale_has_its_variance(name, scale):
    """Of 2^16 draws, to six standard errors; 10 % more is rejected."""
    draw = getattr(noise, name)
    sample = np.asarray(jax.jit(draw)(jr.key(3), jnp.zeros(2**16), jnp.float32(scale)), np.float64)
    variance = VALUES[name] * scale**2
    error = np.std(sample**2) / 2**8
    assert abs(np.mean(sample**2) - variance) < 6.0 * error < 0.1 * variance
    assert abs(np.mean(sample)) < 6.0 * np.sqrt(variance) / 2**8
    if scale < 2**20:
        assert (sample == np.round(sample)).all()


@pytest.mark.parametrize("name", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_noise_beyond_the_range_of_a_sum_hides_it(name):
    """At a scale of 10^11 nearly all results are cut off, and not the noise alone."""
    add = getattr(noise, f"{name}_total")
    keys = jr.split(jr.key(4), 200)

    def results(total):
        return jax.vmap(lambda key: add(key, exact_sums.of(total), 1e11).whole)(keys)

    one, other = (np.asarray(results(total)) for total in (5.0, 1000.0))
    same = one == other
    assert same.mean() > 0.9
    assert set(one[same].tolist()) == {-(2**31), 2**31 - 1}


@pytest.mark.parametrize(
    "name", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian", "skellam", "binomial"]
)
def test_noise_that_is_not_a_number_hides_the_sum(name):
    add = jax.jit(getattr(noise, f"{name}_total"))
    results = [
        int(add(jr.key(5), exact_sums.of(total), jnp.float32(np.nan)).whole) for total in (0, 3)
    ]
    assert results[0] == results[1] == 2**31 - 1


@pytest.mark.slow
def test_an_epsilon_that_cannot_be_had_is_declared_as_nan():
    """Where a plain one is refused, and for NaN; a Skellam variance of 10^10 can be had."""

    def declared(law, epsilon):
        made = sum_noise(law, epsilon, DELTA)
        return made.privacy.epsilon, made.variance

    for law in ("binomial", "skellam", "discrete_gaussian"):
        found = jax.jit(jax.vmap(lambda e, law=law: declared(law, e)))(
            jnp.float32([1e-5, 1e-3, 1.0, np.inf])
        )
        if law == "binomial":
            assert np.isnan(found[0][0]) and np.isnan(found[1][0])
        else:
            assert found[0][0] == np.float32(1e-5) and found[1][0] > 1e9
        assert found[0][1:].tolist() == [np.float32(1e-3), 1.0, np.inf]
        assert found[1][-1] == 0.0 and (np.diff(found[1][1:]) < 0.0).all()
        traced = jax.jit(lambda e, law=law: privacy.integer_noise(law, e, DELTA))
        assert np.isnan(traced(jnp.float32(np.nan)))


@pytest.mark.parametrize("law", ["binomial", "skellam", "discrete_gaussian", "discrete_laplace"])
def test_sums_of_averages_are_rounded_before_integer_noise(law):
    """Sums that differ by at most 1 are rounded to integers that do; integers stay as they are."""
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
