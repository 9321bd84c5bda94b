"""Likelihood ratios of actions: against closed forms, frequencies, and faulty filters."""

import itertools
import math
import sys
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from jax import lax
from jax import random as jr
from scipy.integrate import quad
from scipy.stats import chi2

from dpjax import audit, learners, mechanisms, noise
from dpjax.audit import densities, filters
from dpjax.core import Arms, Learner, Privacy, empty_report
from dpjax.feedback import full
from dpjax.maths import exact_sums
from dpjax.maths.intervals import mean_interval
from tests.refusals import refuses

pytestmark = pytest.mark.usefixtures("quick_compilation")

REVEALED = sys.modules["dpjax.audit._revealed"]
ARMS = 2


def of_release(release, rounds=2):
    """A learner that plays arm 0, then in each round the arm ``release(key, loss)``, () int32."""

    def step(state, key, loss):
        arm = jnp.asarray(release(key, loss), jnp.int32)
        return state + arm, arm

    def init(key):
        return jnp.int32(0), jnp.int32(0)

    return Learner(init, step, full, Arms(ARMS), rounds, Privacy(epsilon=1.0), empty_report)


# In round 1, arm 0 loses 1 on one sequence and 0 on the other.
PAIR = audit.Pair(jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.zeros((2, 2)))
LONG = audit.Pair(*(jnp.pad(side, ((0, 2), (0, 0)), constant_values=0.5) for side in PAIR))


def ratio_of(learner, pair, history, particles):
    ratio = jax.jit(lambda key: audit.log_ratio(learner, pair, history, key, particles=particles))
    return float(ratio(jr.key(0)))


ONE = jnp.array([0, 1])

# Closed forms ------------------------------------------------------------------------------------

K, WHOLE = np.arange(-20.0, 21.0), np.arange(-300, 301)
# ln P(noise = k) at a scale, by scipy.
DENSITIES = {
    "laplace": lambda s: scipy.stats.laplace.logpdf(K, scale=s),
    "gaussian": lambda s: scipy.stats.norm.logpdf(K, scale=s),
    "logistic": lambda s: scipy.stats.logistic.logpdf(K, scale=s),
    "binomial": lambda s: scipy.stats.binom.logpmf(K + s / 2, s, 0.5),
    "skellam": lambda s: scipy.stats.skellam.logpmf(K, s * s / 2, s * s / 2),
    "discrete_laplace": lambda s: scipy.stats.dlaplace.logpmf(K, 1 / s),
    "discrete_gaussian": lambda s: (
        -0.5 * (K / s) ** 2 - scipy.special.logsumexp(-0.5 * (WHOLE / s) ** 2)
    ),
}
# P'/P of the event that a value with noise of scale 1 is above 1/2, for the values 1 and 0.
ABOVE = float(np.divide(*scipy.stats.laplace.sf([0.5, -0.5])))


@pytest.mark.parametrize("name", noise.LAWS)
def test_log_densities_are_those_of_scipy(name):
    """Where scipy does not underflow. Integer noise has no mass beside integers."""
    for scale in (0.6, 1.5, 5.0, 30.0):
        scale = np.floor(20 * scale) if name == "binomial" else scale
        found = noise.LAWS[name].log_density(jnp.float32(K), jnp.float32(scale))
        expected = DENSITIES[name](scale)
        known = np.isfinite(expected)
        np.testing.assert_allclose(np.asarray(found)[known], expected[known], atol=1e-3)
    if name == "skellam":
        found = noise.skellam.log_density(jnp.array([0.5, 1.0, 1.00001]), 1.0)
        assert np.isneginf(found[0]) and np.isfinite(found[1:]).all()


def flipped(value):
    """The probability of more than 3 ones after flips of 5 bits with ``value`` ones."""
    flip = 1 / (1 + math.e)
    kept = scipy.stats.binom.pmf(np.arange(6), value, 1 - flip)
    added = scipy.stats.binom.pmf(np.arange(6), 5 - value, flip)
    return np.convolve(kept, added)[4:].sum()


def beyond_float32(key, loss):
    total = exact_sums.add(exact_sums.of(jnp.float32(2**28)), exact_sums.of(loss[0]))
    noisy = noise.laplace.total(key, total, 1.0)
    return exact_sums.to_float(exact_sums.add(noisy, exact_sums.of(-jnp.float32(2**28)))) > 0.5


def least_of_three(key, loss):
    noisy = jax.vmap(lambda key: noise.laplace(key, loss[0], 1.0))(jr.split(key, 3))
    return jnp.min(noisy) > 0.5


# P(z_1 - z_0 > d) = (2 + d) e^-d / 4 for two Laplace draws.
TAIL = 3 / (4 * math.e)
# release(key, loss) -> arm, the ratio of the probabilities of arm 1, and the number of particles.
DRAWS = {
    "chosen": (lambda key, loss: noise.choose(
        key, jnp.stack([0.7 - 0.4 * loss[0], 0.3 + 0.4 * loss[0]])), 0.3 / 0.7, 1),
    "by logits": (lambda key, loss: noise.categorical(
        key, jnp.stack([0.0 * loss[0], loss[0]])), 0.5 * (1 + math.exp(-1)), 1),
    "tossed": (lambda key, loss: noise.coin(
        key, jnp.stack([0.25 + 0.0 * loss[0], 0.5 * loss[0]])), 1 / 3, 1),
    "the least": (lambda key, loss: noise.least(key, -loss[::-1], 1.0), 0.5 / (1 - TAIL), 1),
    "flips": (lambda key, loss: noise.randomized_response(
        key, 3 + loss[0].astype(jnp.int32), 1.0, 5) > 3, flipped(3) / flipped(4), 2**14),
    "a comparison": (lambda key, loss: noise.exceeds(
        key, jr.key_data(jr.fold_in(key, 1)), 1.0, loss[0], 1.0), TAIL / 0.5, 2**14),
    "a release": (lambda key, loss: noise.laplace(key, loss[0], 1.0) > 0.5, ABOVE, 2**14),
    "30 coins": (lambda key, loss: noise.binomial(key, loss[0], 30.0) > 0.5,
                 np.divide(*scipy.stats.binom.sf([15, 14], 30, 0.5)), 2**14),
    "an exact sum": (beyond_float32, ABOVE, 2**14),
    "members of a vmap": (least_of_three, ABOVE**3, 2**15),
    # Runs on the first sequence alone would never show it.
    "almost never": (lambda key, loss: noise.laplace(key, -loss[0], 0.1) > 0.2,
                     math.exp(10.0), 2**10),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_a_ratio_is_that_of_an_event_under_its_law(name):
    release, ratio, particles = DRAWS[name]
    found = ratio_of(of_release(release), PAIR, ONE, particles)
    tolerance = 1e-4 if particles == 1 else 0.02 * (1.0 + abs(math.log(ratio)))
    assert found == pytest.approx(math.log(ratio), abs=tolerance)


def of_least(value):
    """ln P(each index is the least) of values (n,) in scales, in float64."""
    value = np.asarray(value, np.float64)
    ends = np.unique([*value, value.min() - 40.0, value.max() + 40.0])

    def density(t, i):
        tail = 0.5 * np.exp(-np.abs(t - value))
        survival = np.where(t < value, 1.0 - tail, tail)
        return tail[i] * np.prod(survival[:i]) * np.prod(survival[i + 1 :])

    chances = [
        sum(quad(density, *part, (i,), epsabs=0.0, epsrel=1e-6)[0] for part in pairwise(ends))
        for i in range(len(value))
    ]
    return np.log(chances)


@pytest.mark.parametrize(
    "value",
    [(0.0, 1.0, 5.0), (0.0, 30.0, 2.0), (60.0, 0.0), (3.0, 3.0, 3.0, 25.0, 40.0), range(12)],
    ids=str,
)
def test_the_least_of_sums_far_apart_has_its_exact_probability(value):
    expected, value = of_least(value), jnp.array(value, jnp.float32)
    found, wrong = (densities.OUTCOMES["least"](None, 0.7 * value, scale) for scale in (0.7, 0.701))
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(wrong - expected).max() > 1e-3


def test_rare_answers_have_a_finite_log_probability():
    """A comparison of values far apart, and flips of all bits, at probabilities below 1e-13."""
    key, armed = jr.key(0), jr.key_data(jr.key(1))
    below, _ = densities.OUTCOMES["comparison"](key, armed, 0.0, 30.0, 1.0)
    nearer, _ = densities.OUTCOMES["comparison"](key, armed, 0.0, 10.0, 1.0)
    assert below - nearer == pytest.approx(-20.0, abs=1e-4)
    found = densities._flips(None, None, jnp.int32(3), 0.1, 3, jnp.int32(0))
    assert found == pytest.approx(-3.0 * np.log1p(np.exp(10.0)), abs=1e-4)


# Pitfalls ----------------------------------------------------------------------------------------


def test_a_draw_that_is_not_used_tells_nothing():
    """The arm is redrawn only if a coin says so: the unused draw must not count as the action."""

    def release(key, loss):
        coin_key, arm_key = jr.split(key)
        anew = noise.coin(coin_key, jnp.float32(0.5))
        arm = noise.choose(arm_key, jnp.stack([1.0 - 0.8 * loss[0] - 0.1, 0.8 * loss[0] + 0.1]))
        return jnp.where(anew, arm, 0)

    expected = {0: (0.5 + 0.5 * 0.9) / (0.5 + 0.5 * 0.1), 1: 0.1 / 0.9}
    for arm, ratio in expected.items():
        found = ratio_of(of_release(release), PAIR, jnp.array([0, arm]), 2**15)
        assert found == pytest.approx(math.log(ratio), abs=0.06)


def test_a_draw_in_a_branch_that_is_not_taken_counts_once():
    def release(key, loss):
        def drawn():
            return noise.choose(key, jnp.stack([0.9 - 0.8 * loss[0], 0.1 + 0.8 * loss[0]]))

        return lax.cond(loss[1] > 0.0, drawn, lambda: jnp.int32(0))

    found = audit.revealed(of_release(release), PAIR, jr.key(0), [0.0], particles=4)
    assert found.chances == pytest.approx((1.0, 1.0), abs=1e-6)
    assert found.epsilon == 0.0


def test_noise_after_an_enumerated_draw_is_not_divided_by_its_mean():
    """Given the action, its mean is not 1."""

    def release(key, loss):
        coin_key, noise_key = jr.split(key)
        seen = noise.coin(coin_key, jnp.float32(0.5))
        return seen & (noise.laplace(noise_key, jnp.where(seen, loss[0], 0.0), 1.0) > 0.5)

    learner = of_release(release)
    assert not REVEALED.Filters(learner, PAIR, 1).one.step.early
    assert ratio_of(learner, PAIR, ONE, 2**15) == pytest.approx(math.log(ABOVE), abs=0.05)


def test_resampling_leaves_the_kept_run():
    particles = jnp.log(jnp.array([0.05, 0.75, 0.05, 0.15])), jnp.arange(4)
    resample = jax.vmap(lambda key: filters._resampled(particles, key, jnp.arange(4) == 0, False))
    (_, rows), _ = resample(jr.split(jr.key(0), 64))
    assert (rows[:, 0] == 0).all() and (rows[:, 1:] == 1).mean() > 0.6


def test_the_attack_reads_the_actions_alone():
    """A history has the same score, whatever noise was hidden."""
    learner = of_release(lambda key, loss: noise.laplace(key, loss[0], 1.0) > 0.5)
    made = REVEALED.Filters(learner, PAIR, 16)
    played = [made.plays(side, jr.key(i), 500) for i, side in enumerate(PAIR)]
    scores = [made.scores(PAIR, jr.key(9), each) for each in played]
    both = np.concatenate(played)[:, 1], np.concatenate(scores)
    for arm in (0, 1):
        assert len(np.unique(both[1][both[0] == arm])) == 1


def test_the_kept_run_is_a_particle_of_its_own_filter():
    learner = of_release(lambda key, loss: noise.laplace(key, loss[0], 1.0) > 0.5)
    found = REVEALED.Filters(learner, PAIR, 1).kept(PAIR, jr.key(0), 2**12)
    # With one particle, it is the ratio of the release, which can be as large as e.
    assert np.abs(found.log_ratio).max() == pytest.approx(1.0, abs=1e-4)
    # Each sequence has half of the runs.
    assert scipy.special.expit(found.log_ratio).mean() == pytest.approx(0.5, abs=0.02)
    # At epsilon = 0 the mean is the total variation of the two Laplace distributions, 1 - e^(-1/2).
    (losses,) = REVEALED.privacy_losses(found.log_ratio, np.zeros(1))
    low, high = mean_interval(losses / 2.0, 0.005)
    assert 2.0 * low < 1.0 - math.exp(-0.5) < 2.0 * high < 0.5
    many = REVEALED.Filters(learner, PAIR, 64).kept(PAIR, jr.key(0), 2**12)
    assert scipy.special.expit(many.log_ratio).mean() == pytest.approx(0.5, abs=0.01)


# The action depends on a prefix sum, so only one bit per round is visible.
def of_sums(mechanism):
    stream = mechanism.stream((), scale=2.0)

    def init(key):
        state, _ = stream.init(key)
        return state, jnp.int32(0)

    def step(state, key, loss):
        state, total = stream.step(state, key, loss[0])
        return state, (total > 1.0).astype(jnp.int32)

    return Learner(init, step, full, Arms(2), mechanism.horizon, Privacy(epsilon=1.0), empty_report)


def frequencies(learner, pair, runs, key=9):
    """ln P'/P of each history by counting, its standard error, and whether it was frequent."""
    made = REVEALED.Filters(learner, pair, 1)
    arms = learner.action_set.count
    base = arms ** np.arange(learner.horizon)[::-1]
    counts = [
        np.bincount(made.plays(side, jr.key(key + i), runs) @ base, minlength=arms**learner.horizon)
        for i, side in enumerate(pair)
    ]
    often = np.minimum(*counts) > 200
    ours, theirs = (np.maximum(count, 1) for count in counts)
    return np.log(theirs / ours), np.sqrt(1 / ours + 1 / theirs), often


def scores_against_frequencies(learner, pair, particles, runs):
    """Differences between filters and frequencies, over their standard error."""
    counted, error, often = frequencies(learner, pair, runs)
    made = REVEALED.Filters(learner, pair, particles)
    table = REVEALED.all_histories(made.one.learner)
    expected = list(itertools.product(range(ARMS), repeat=learner.horizon))
    np.testing.assert_array_equal(table, expected)
    found = [made.ratios(pair, table[often], jr.key(i)).log_ratio for i in range(4)]
    spread = np.std(found, axis=0, ddof=1)
    noise = np.maximum(spread, np.median(spread)) / 2.0
    return (np.mean(found, axis=0) - counted[often]) / np.hypot(error[often], noise)


SUMS = {
    "tree": mechanisms.tree(4),
    "tree, skellam": mechanisms.tree(4, noise="skellam"),
    "honaker": mechanisms.honaker(4),
    "smooth": mechanisms.smooth(4),
}


@pytest.mark.parametrize("name", SUMS)
def test_prefix_sums_agree_with_frequencies(name):
    scores = scores_against_frequencies(of_sums(SUMS[name]), LONG, 2**11, 2**16)
    assert len(scores) > 4
    assert np.abs(scores).max() < 4.5


def test_the_ratio_of_a_stream_with_noise_in_a_loop_is_unknown():
    """For the change in round 3, some sum has noise only from a loop. Its ratio is NaN."""
    learner, zeros = of_sums(mechanisms.kary(14, k=3)), jnp.zeros((14, 2))
    pair = audit.Pair(zeros.at[2].set(1.0), zeros)
    assert np.isnan(ratio_of(learner, pair, jnp.zeros(14, jnp.int32), 64))


# Intervals and bounds ----------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 0.003, 0.3])
def test_intervals_of_means_cover(mean):
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(200):
        # Mostly 0 and occasionally 1, or uniform: both have this mean.
        values = rng.random(400) < mean if rng.random() < 0.5 else 2 * mean * rng.random(400)
        low, high = mean_interval(values, 0.05)
        missed += not low <= mean <= high
        assert low <= values.mean() <= high
    assert missed <= 20
    assert mean_interval(np.zeros(4096), 0.025)[1] < 1.1e-3


TINY = of_release(lambda key, loss: noise.laplace(key, loss[0], 0.5) > 0.5, rounds=2)


def test_bounds_hold_the_exact_curve_between_them(monkeypatch):
    epsilons = np.array([0.0, 0.5, 1.0, 1.5])
    learner = learners.explore_then_commit(4, 2, epsilon=1.0, rounds=1)
    exact = audit.revealed(learner, LONG, jr.key(0), epsilons, particles=2**13)
    monkeypatch.setattr(REVEALED, "MOST_HISTORIES", 1)
    found = audit.revealed(learner, LONG, jr.key(0), epsilons, particles=64, runs=2**12)
    assert not found.exact
    assert (found.below <= exact.above + 1e-3).all() and (exact.above <= found.above).all()
    assert found.below[0] > 0.5 * exact.above[0] > 0.2 * found.above[0]


def test_the_worst_history_is_estimated_with_other_keys():
    """Otherwise the largest of many noisy estimates would be far above the truth, here 0."""

    def release(key, loss):
        coin_key, noise_key = jr.split(key)
        arm = noise.coin(coin_key, jnp.float32(0.5))
        unused = noise.laplace(noise_key, jnp.where(arm, 1.0, 1.0) * loss[0], 1.0)
        return arm & (unused > -jnp.inf)

    learner = of_release(release, rounds=4)
    selected = audit.revealed(learner, LONG, jr.key(1), [0.0], particles=4).epsilon
    found = audit.worst_history(learner, LONG, jr.key(1), particles=4, filters=256)
    assert selected > 0.3
    assert abs(found.log_ratio) < 0.15 and found.epsilon[0] < 0.05 < found.epsilon[1]


def test_the_worst_history_is_chosen_by_many_filters():
    """It has arm 0 after the first loss. With one filter each, noise would often pick another.

    P(arm 0) is e^-0.5 / 2 and e^-1.5 / 2.
    """

    def release(key, loss):
        arm_key, unused_key = jr.split(key)
        unused = noise.laplace(unused_key, loss[0], 0.5)
        return (noise.laplace(arm_key, loss[0], 1.0) < 1.5 - loss[1]) & (unused > -jnp.inf)

    learner = of_release(release, rounds=4)
    worst = 1.0
    for key in range(4):
        found = audit.worst_history(learner, LONG, jr.key(key), particles=16, filters=256)
        assert found.history[1] == 0, (key, found)
        assert abs(found.log_ratio) == pytest.approx(worst, abs=0.15)


def test_a_likelihood_attack_finds_what_counting_can_find():
    found = audit.likelihood_attack(TINY, PAIR, jr.key(0), runs=2**15)
    exact = audit.revealed(TINY, PAIR, jr.key(1), [0.0], particles=2**14)
    assert 0.9 * exact.epsilon < found.epsilon < exact.epsilon < 2.0
    assert found.event.startswith("likelihood ratio")
    beside = audit.likelihood_attack(TINY, PAIR, jr.key(0), runs=2**15, rival=True)
    assert beside.epsilon > 0.9 * exact.epsilon
    # A statistic is counted on the runs that it can afford. A filter of one step has all the power
    # of the trained statistic here, so it wins if it may filter as many runs.
    filters = REVEALED.Filters(TINY, PAIR, 64)
    attack = partial(REVEALED.attacked, filters, PAIR, jr.key(0), 2**15, 0.0, 0.95, True)
    few = attack(most=2**10)
    assert (few.runs, few.event.split()[0]) == (2**15, "trained")
    assert few.epsilon > 0.9 * exact.epsilon
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(REVEALED, "trained", lambda *_: lambda actions: jnp.float32(0.0))
        few = attack(most=2**10)
    assert (few.runs, few.event.split()[0]) == (2**10, "likelihood")
    assert 0.5 * exact.epsilon < few.epsilon < exact.epsilon


def test_draws_that_are_no_releases_are_played_as_they_are():
    """Centred Wishart noise at (0, 0) is a chi-square draw with 3 degrees of freedom, minus 3."""
    learner = of_release(
        lambda key, loss: noise.wishart(key, loss[0] * jnp.eye(2), 1.0, 3.0)[0, 0] > 0.5
    )
    found = audit.revealed(learner, PAIR, jr.key(0), [0.0], particles=2**14)
    assert found.below[0] == pytest.approx(chi2.sf(2.5, 3) - chi2.sf(3.5, 3), abs=0.015)


def test_what_cannot_be_computed_is_named():
    along = of_release(lambda key, loss: noise.laplace.along(key, loss[0], 1.0, jnp.ones(3)) > 0.5)
    unknown = r"a release \(laplace, along\) is not known"
    refuses(unknown, audit.revealed, (along, PAIR, jr.key(0), [0.0]))
    refuses("prefix sums draw no noise of their own", audit.revealed,
            (of_sums(mechanisms.square_root(4)), LONG, jr.key(0), [0.0]))  # fmt: skip


# Faulty filters ----------------------------------------------------------------------------------


# (site, inputs, released, right) -> log-density
MISTAKES = {
    "halved": lambda site, inputs, *rest, right=densities.log_density: right(
        site, (*inputs[:2], 0.5 * inputs[2], *inputs[3:]), *rest
    ),
    "missed": lambda *given, right=densities.log_density: right(*given) * 0.0,
    "twice": lambda *given, right=densities.log_density: 2.0 * right(*given),
}


@pytest.mark.parametrize("mechanism", [False, True])
def test_filters_with_mistakes_are_caught(mechanism, monkeypatch):
    learner, pair = (of_sums(SUMS["tree"]), LONG) if mechanism else (TINY, PAIR)
    assert np.abs(scores_against_frequencies(learner, pair, 2**12, 2**15)).max() < 4.5
    for mistake in MISTAKES.values():
        monkeypatch.setattr(filters, "log_density", mistake)
        assert np.abs(scores_against_frequencies(learner, pair, 2**12, 2**15)).max() > 6.0


# The learners ------------------------------------------------------------------------------------

# Two arms and 8 rounds; round 2 charges arm 0 on one sequence and arm 1 on the other.
TURNED = audit.Pair(*(jnp.zeros((8, 2)).at[1, arm].set(1.0) for arm in range(2)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "particles"),
    [
        ("exp3", {}, 1), ("dp_exp3_lap", {"epsilon": 1.0}, 1024),
        ("limited_updates", {"epsilon": 1.0}, 256), ("gaussian_thompson", {"delta": 0.01}, 1024),
        ("sparse_vector_experts", {"epsilon": 1.0, "threshold": 1.0}, 1024),
    ],
)  # fmt: skip
def test_learners_agree_with_frequencies(name, options, particles):
    learner = getattr(learners, name)(8, 2, **options)
    scores = scores_against_frequencies(learner, TURNED, particles, 2**18)
    assert len(scores) > 3
    assert np.abs(scores).max() < 5.0 and np.sqrt(np.mean(scores**2)) < 1.5


def test_hedge_reveals_all_that_it_pays():
    """The ratio of its worst history equals the replay's sum if one round moves all draws alike."""
    ones = jnp.ones((8, 2)).at[:, 0].set(0.0)
    pair = audit.Pair(*(ones.at[0].set(row) for row in np.eye(2)))
    for rate in (None, 0.1):
        learner = learners.hedge(8, 2, epsilon=1.0, rate=rate)
        found = audit.revealed(learner, pair, jr.key(0), [0.0], particles=1)
        paid = jax.jit(lambda key, learner=learner: audit.replay(learner, pair, key).pure)
        assert found.epsilon == pytest.approx(float(paid(jr.key(0))), rel=1e-4)


def test_the_pair_that_reveals_most_is_found():
    learner = learners.explore_then_commit(4, 2, epsilon=1.0, rounds=1)
    pairs = audit.worst_rounds(learner)
    place = audit.most_revealing(learner, pairs, jr.key(0), runs=16, particles=64)
    differs = np.asarray((pairs.losses[place] != pairs.others[place]).any(axis=1))
    # Rounds 1 and 2 explore; later observations are never used.
    assert differs.sum() == 1 and differs[:2].any()


@pytest.mark.slow
def test_the_attack_of_an_audit_is_that_of_the_better_statistic():
    """Points have no probability, so the usual attack runs."""
    learner = learners.explore_then_commit(4, 2, epsilon=1.0, rounds=1)
    found = audit.attack(learner, audit.worst_rounds(learner), jr.key(0), jr.key(1), runs=2**15)
    assert 0.5 < found.epsilon < 1.0
    pairs = audit.Pair(*(side[None] for side in LONG))
    ftrl = audit.releases(mechanisms.tree(4), (2,), scale=1.0)
    found = audit.attack(ftrl, pairs, jr.key(0), jr.key(1), runs=2**13)
    assert found.event.startswith("statistic")
