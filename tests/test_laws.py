"""Each law of noise through its record alone, so a new law is tested once it is in LAWS.

Integer noise: the laws of its draws, its cost in a replay, and the amount needed.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from scipy import stats

from dpjax import Study, audit, domains, environments, learners, mechanisms, noise, privacy
from dpjax.audit.records import record
from dpjax.audit.rules import RULES
from dpjax.cli.learner_files import find_factory
from dpjax.core import Arms, Batch, BatchLearner, Feedback, Privacy, empty_report
from dpjax.feedback import bandit
from dpjax.learners.parts.sum_noise import sum_noise
from dpjax.maths import exact_sums, laws
from dpjax.noise.release import Site
from tests import ROOT
from tests.test_docs import programs

DELTA = 1e-4
SCALES = {"binomial": 400.0}  # others: 10. The deviation is then about 10.
every_law = pytest.mark.parametrize("law", noise.LAWS.values(), ids=noise.LAWS)


def test_the_record_names_itself():
    for name, law in noise.LAWS.items():
        assert law.name == name and getattr(noise, name) is law and repr(law) == f"noise.{name}"
    assert noise.discrete_gaussian.title == "discrete Gaussian"


def scale_of(law):
    return SCALES.get(law.name, 10.0)


def fewer(law, scale):
    """The scale of noise with half the deviation."""
    return scale / 4.0 if law.name == "binomial" else scale / 2.0


def draws(law, scale, count=2**17):
    keys = jr.split(jr.key(0), count)
    draw = jax.jit(jax.vmap(lambda key: law.draw(key, jnp.float32(scale), ())))
    return np.asarray(draw(keys), np.float64)


@every_law
def test_variance_and_cumulant_are_those_of_the_draws(law):
    """To six standard errors, plus a thousandth for integers; half the deviation is rejected.

    The noise is centred. The cumulant is finite below the pole.
    """
    scale = scale_of(law)
    pole = float(law.pole(jnp.float32(scale)))
    finite = [np.isfinite(law.cumulant(jnp.float32(x * min(pole, 0.5)), jnp.float32(scale)))
              for x in (0.999, 1.0)]  # fmt: skip
    assert finite == [True, np.isinf(pole)]
    found, variance = draws(law, scale), float(law.variance(jnp.float32(scale)))
    root = len(found) ** 0.5
    assert abs(found.mean()) < 6.0 * found.std() / root
    error = 6.0 * np.std(found**2) / root + 1e-3 * variance
    assert abs(np.mean(found**2) - variance) < error < 0.1 * variance
    if law.integers:
        assert (found % 1.0 == found[0] % 1.0).all()
    for tilt in (-0.4, 0.4):
        tilt /= variance**0.5
        powers = np.exp(tilt * found)
        error = 6.0 * np.std(powers) / root / np.mean(powers)
        cumulant, other = (
            float(law.cumulant(jnp.float32(tilt), jnp.float32(each)))
            for each in (scale, fewer(law, scale))
        )
        assert abs(np.log(np.mean(powers)) - cumulant) < error + 1e-3 * cumulant
        assert abs(np.log(np.mean(powers)) - other) > error


@every_law
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_the_scale_for_one_number_keeps_delta(law, epsilon):
    """By the law's exact delta if it has one; noise with half the deviation exceeds it."""
    delta = None if law.pure else DELTA
    found = law.single(epsilon, delta)
    assert float(found.epsilon) == pytest.approx(epsilon)

    def delta_of(scale):
        if law.delta is not None:
            return law.delta(int(scale) if law.name == "binomial" else float(scale), epsilon)
        if law.pure:  # for continuous Laplace noise
            return -np.expm1(min(0.5 * (epsilon - 1.0 / scale), 0.0))
        return float(privacy.gaussian_delta(1.0 / scale, epsilon))

    allowed = (1.0 + 1e-4) * DELTA if delta else 1e-6
    assert delta_of(float(found.scale)) <= allowed
    assert delta_of(fewer(law, float(found.scale))) > 2.0 * allowed
    assert float(law.single(np.inf, delta).scale) == 0.0
    traced = jax.jit(lambda e: law.single(e, delta).scale)
    assert float(traced(np.float32(epsilon))) == pytest.approx(float(found.scale), rel=1e-5)
    assert np.isnan(traced(np.float32(np.nan)))
    # Epsilons match deltas.
    assert (law.delta is not None) == law.integers
    if law.epsilon is not None:
        scale = int(found.scale) if law.name == "binomial" else float(found.scale)
        assert law.delta(scale, law.epsilon(scale, DELTA, 2), 2) == pytest.approx(DELTA, rel=1e-6)


@every_law
def test_a_vector_is_calibrated_and_declared_by_its_norms(law):
    """Scales grow with the relevant norm, and a scale has the epsilon that it was made for."""
    if law.calibrate is None:
        return
    delta = None if law.pure else DELTA
    found = law.calibrate((3.0, 2.0), 0.7, delta)
    twice = law.calibrate((6.0, 4.0), 0.7, delta)
    assert float(twice.scale) == pytest.approx(2.0 * float(found.scale), rel=0.01)
    other = law.calibrate((3.0, 4.0) if law.norm == 1 else (3.0, 1.0), 0.7, delta)
    assert (float(other.scale) == float(found.scale)) == (law.norm == 1)
    assert float(law.calibrate((3.0, 2.0), np.inf, delta).scale) == 0.0
    if law.declare is not None:
        declared = law.declare((3.0, 2.0), found.scale, delta)
        assert float(declared.epsilon) == pytest.approx(0.7, rel=1e-4)
        assert float(law.declare((3.0, 2.0), 0.5 * found.scale, delta).epsilon) > 1.3


@pytest.mark.usefixtures("quick_compilation")
@every_law
def test_a_replay_spends_what_a_law_is_calibrated_for(law):
    """One loss of an exact sum changes by 1. Noise with half the deviation spends far more."""
    epsilon, delta = 0.5, 0.0 if law.pure else DELTA
    scale = float(law.single(epsilon, delta or None).scale)

    def spent(scale):
        def init(key):
            return (), Batch(jnp.int32(0), jnp.int32(2))

        def step(state, key, total):
            released = law.total(key, total, scale)
            action = (exact_sums.to_float(released) > 0.5).astype(jnp.int32)
            return state, Batch(action, jnp.int32(2))

        learner = BatchLearner(
            init, step, Feedback("first", lambda loss, action: bandit(loss, jnp.int32(0))),
            Arms(2), 4,
            Privacy()._replace(epsilon=epsilon, delta=delta), empty_report,
        )  # fmt: skip
        pair = audit.Pair(jnp.zeros((4, 2)), jnp.zeros((4, 2)).at[1, 0].set(1.0))
        replayed = jax.jit(lambda: audit.replay(learner, pair, jr.key(0)))()
        return float(audit.spent(replayed, delta))

    # The zCDP of discrete Gaussian noise is not the cost of one exact release.
    assert 0.95 * epsilon < spent(scale) <= (1.0 + 1e-5) * epsilon
    assert spent(fewer(law, scale)) > 1.8 * epsilon


# The same bits, and derivatives -----------------------------------------------------------------

KEYS = jr.split(jr.key(5), 4)
VALUES = jnp.array([0.3, -2.0, 1e6, 0.0], jnp.float32)


def draw_of(law):
    return lambda key, value: law(key, jnp.asarray(value), jnp.float32(scale_of(law)))


# {name: a draw from a key and a value}, for every function of dpjax.noise and those of
# dpjax.maths.laws that read a key first.
DRAWS = {
    **{name: draw_of(law) for name, law in noise.LAWS.items()},
    "categorical": lambda key, value: noise.categorical(key, value * jnp.arange(3.0)),
    "choose": lambda key, value: noise.choose(key, jax.nn.softmax(value * jnp.arange(3.0))),
    "coin": lambda key, value: noise.coin(key, jax.nn.sigmoid(value)),
    "exceeds": lambda key, value: noise.exceeds(key, jr.key_data(jr.key(9)), 0.5, value, 1.0),
    "least": lambda key, value: noise.least(key, value * jnp.arange(3.0), 1.0),
    "randomized_response": lambda key, value: noise.randomized_response(key, 3, 1.0, 9),
    "wishart": lambda key, value: noise.wishart(key, value * jnp.eye(2), 1.0, 3.0),
    "along": lambda key, value: noise.laplace.along(key, value, 2.0, jnp.arange(3.0)),
    "total": lambda key, value: noise.laplace.total(key, exact_sums.of(value), 1.0),
    "sum": lambda key, value: noise.laplace.sum(key, exact_sums.of(value), 2.0, jnp.int32(5)),
    "prefix": lambda key, value: noise.laplace.prefix(key, value, 0.0, 1.0, (1.0, 1.0)),
    "draw": lambda key, value: noise.laplace.draw(key, jnp.float32(1.0), (8,)),
    "level": lambda key, value: laws.level(key),
    "random_words": lambda key, value: laws.random_words(key, (8,)),
    "smallest": lambda key, value: laws.smallest(key, value * jnp.zeros(3)),
}
RELEASES = {
    **{name: draw for name, draw in DRAWS.items() if name != "prefix"},  # it draws nothing
    **{
        f"{name} total": lambda key, value, law=law: law.total(
            key, exact_sums.of(value), scale_of(law)
        )
        for name, law in noise.LAWS.items()
    },
    **{
        f"{name} vector": lambda key, value, law=law: law(key, value * jnp.ones((2, 3)), 0.7)
        for name, law in noise.LAWS.items()
        if law.name not in ("skellam", "binomial")
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_has_the_same_bits_eagerly_compiled_mapped_and_scanned(name):
    """And different bits under another key."""
    release = RELEASES[name]

    def one_by_one(draw):
        return jax.tree.map(lambda *x: jnp.stack(x), *map(draw, KEYS, VALUES))

    eager = jax.tree.leaves(one_by_one(release))
    for found in (
        one_by_one(jax.jit(release)),
        jax.vmap(release)(KEYS, VALUES),
        jax.jit(jax.vmap(release))(KEYS, VALUES),
        lax.map(lambda each: release(*each), (KEYS, VALUES)),
    ):
        for ours, theirs in zip(eager, jax.tree.leaves(found), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs, strict=True)
    others = jax.tree.leaves(jax.vmap(release)(jr.split(jr.key(6), 64), jnp.full(64, 0.3)))
    assert max(len(np.unique(leaf)) for leaf in others) > 1


@pytest.mark.usefixtures("quick_compilation")
@every_law
def test_derivatives_at_a_fixed_draw(law):
    """A noisy value changes as the value does, in forward and reverse mode, mapped and compiled."""
    key, value, scale = jr.key(1), jnp.float32(1.5), jnp.float32(scale_of(law))

    def squared(value):
        return jnp.square(law(key, value, scale))

    exact = 2.0 * float(law(key, value, scale))
    for derivative in (jax.grad(squared), jax.jacfwd(squared), jax.jit(jax.grad(squared))):
        assert float(derivative(value)) == pytest.approx(exact, rel=1e-6)
    values, expected = jnp.stack([value, 2.0 * value]), [exact, exact + 2.0 * float(value)]
    for mapped in (jax.vmap(jax.grad(squared)), jax.grad(lambda x: jax.vmap(squared)(x).sum())):
        np.testing.assert_allclose(mapped(values), expected, rtol=1e-5)
    assert float(jax.grad(jax.grad(squared))(value)) == pytest.approx(2.0)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", ["laplace", "gaussian", "logistic"])
def test_derivatives_by_the_scale_and_the_weights(name):
    """The noise is the scale times a draw, so its derivative is the draw."""
    law = noise.LAWS[name]
    key, value, weights = jr.key(2), jnp.float32(0.5), jnp.array([1.0, -2.0, 0.5])

    def noisy(scale):
        return law(key, value, scale)

    for scale in (0.1, 3.0):
        draw = (float(noisy(scale)) - 0.5) / scale
        for derivative in (jax.grad(noisy), jax.jacfwd(noisy)):
            assert float(derivative(jnp.float32(scale))) == pytest.approx(draw, rel=1e-4)

    def along(weights):
        return law.along(key, value, 2.0, weights)

    for derivative in (jax.grad(along), jax.jacrev(along), jax.jacfwd(along)):
        draws = 2.0 * law(key, jnp.zeros(3), 1.0)
        np.testing.assert_allclose(derivative(weights), draws, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_choices_and_exact_sums_do_not_move():
    """They are integers or booleans. A derivative ignores them."""
    key = jr.key(4)

    def game(x):
        index = noise.choose(key, jax.nn.softmax(x * jnp.arange(3.0)))
        other = noise.categorical(key, x * jnp.arange(3.0))
        total = exact_sums.to_float(noise.laplace.total(key, exact_sums.of(x), 1.0 + x))
        heads = noise.coin(key, jax.nn.sigmoid(x))
        return x * (index + other).astype(jnp.float32) + 0.0 * total + jnp.where(heads, x, 0.0)

    x = jnp.float32(0.7)
    for derivative in (jax.grad(game), jax.jacfwd(game)):
        assert float(derivative(x)) == pytest.approx(float(game(x)) / 0.7, rel=1e-5)


# Integer noise -------------------------------------------------------------------------------


def moves(name, amount, seed=0, total=0.0):
    """The noise added to a sum, (40 000,) float64."""
    add = noise.LAWS[name].total
    start = exact_sums.of(total)

    def draw(key):
        moved = exact_sums.add(add(key, start, amount), exact_sums.negative(start))
        return exact_sums.to_float(moved)

    return np.asarray(jax.jit(jax.vmap(draw))(jr.split(jr.key(seed), 40_000)), np.float64)


def discrete_gaussian(scale):
    points = np.arange(-60, 61)
    weights = np.exp(-0.5 * (points / scale) ** 2)
    return stats.rv_discrete(values=(points, weights / weights.sum()))


# The amount of noise, a wrong amount, and the law for an amount.
INTEGER_LAWS = {
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


@pytest.mark.parametrize("name", INTEGER_LAWS)
def test_draws_have_their_law(name):
    """By chi-square; an amount, or the variance of Skellam noise, off by a tenth is rejected."""
    amount, wrong, law = INTEGER_LAWS[name]
    sample = moves(name, amount)
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
INTEGER_EPSILONS = np.array([0.003, 0.0213, 0.05, 0.31, 1.0, 2.7, 4.0], np.float32)


@pytest.mark.parametrize("law", EXACT)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_amounts_of_integer_noise_are_enough_and_hardly_more(law, delta):
    """The exact delta holds, and fails with less noise; deviations are within a percent."""
    own, (kind, power) = noise.LAWS[law], EXACT[law]
    fewer = 0.95**0.5 if law == "skellam" else 0.95
    amounts = np.asarray(jax.jit(lambda e: jax.vmap(
        lambda each: own.single(each, delta).scale)(e))(INTEGER_EPSILONS))  # fmt: skip
    for epsilon, amount in zip(INTEGER_EPSILONS, amounts, strict=True):
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
    worlds = [(jr.key(0), *inputs) for inputs in both]
    return rule.cost(site, *(record(rule, site, inputs, draw(*inputs)) for inputs in worlds))


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian", "laplace"])
def test_noise_along_a_point_is_charged(name):
    """A sum of integers times weights is not an integer, and its exact cost is unknown."""
    law, weights = noise.LAWS[name], jnp.array([0.5, -1.0])
    usual, other = ((jnp.float32(value), jnp.float32(2.0), weights) for value in (0.0, 3.0))
    expected = 1.125 if name == "laplace" else np.inf
    assert float(cost("along", law, law.along, usual, other).rho) == expected
    assert float(cost("along", law, law.along, usual, usual).rho) == 0.0


@pytest.mark.parametrize("name", INTEGER_LAWS)
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
    made = sum_noise(law, np.inf, None if law == "discrete_laplace" else 1e-6)

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


# A law from a user's file plays, calibrates, is audited and tabulated -------------------------

(PROGRAM,) = programs(ROOT / "docs" / "adding" / "law.md")
FACTORY = """
from dpjax import learners

def mine(horizon, arms, *, epsilon):
    return learners.successive_elimination(horizon, arms, epsilon=epsilon, noise=logistic)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(a factory, its law), from the file on the page under another name."""
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(PROGRAM.replace('"logistic"', '"own"') + FACTORY)
    _, factory = find_factory(f"{path}:mine")
    yield factory, factory.__globals__["logistic"]
    noise.LAWS.pop("own", None)


def on_sums(mechanism, law):
    return learners.ftrl(4, domains.simplex(3), epsilon=2.0, mechanism=mechanism, noise=law)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [mechanisms.tree, mechanisms.hybrid, mechanisms.per_item])
def test_replays_of_prefix_sums_spend_what_is_declared(found, mechanism):
    """And twice as much at half the scale."""
    learner = on_sums(mechanism, found[1])
    assert learner.privacy.sums.noise == "own" and float(learner.privacy.epsilon) == 2.0
    pairs = audit.pairs_for(learner, 4, jr.key(0))
    spent = audit.verdict(learner, pairs, jr.key(1), paths=1).spent.max()
    assert spent == pytest.approx(2.0, rel=1e-4)
    halved = audit.mutants(learner, pairs.losses[0])["noise halved"]
    assert audit.verdict(halved, pairs, jr.key(1), paths=1).status == 1


@pytest.mark.slow
def test_a_learner_of_batches_plays_calibrates_and_is_tabulated(found):
    factory, _ = found
    learner = factory(64, 2, epsilon=1.0)
    assert (learner.privacy.epsilon, learner.privacy.released) == (1.0, "actions 1..T")
    made = Study(
        {"mine": factory}, {"coins": environments.bernoulli([0.1, 0.9])},
        {"horizon": 64, "arms": 2, "epsilon": [1.0, 10.0]}, trials=4,
    )  # fmt: skip
    table = made.run(progress=False).dpjax.table()
    assert table["privacy_epsilon"].tolist() == [1.0, 10.0] and np.isfinite(table["mean"]).all()


def test_the_name_of_a_law_of_dpjax_is_refused(found):
    other = dataclasses.replace(found[1], name="laplace")
    with pytest.raises(ValueError, match=r"^noise: laplace is a law of dpjax; give yours another"):
        on_sums(mechanisms.tree, other)
    with pytest.raises(ValueError, match=r"^noise must be one of laplace, .*; got 'owns'$"):
        on_sums(mechanisms.tree, "owns")
