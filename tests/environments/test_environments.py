"""Environments: a contract that all of them satisfy, then each against its paper and its law.

Games use the keys of ``simulate``: init folds 0 into nature's key, round t folds t. So nature's
draws can be computed independently of the environment.
"""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments
from dpjax.environments.arms import uniform_at
from dpjax.feedback import bandit, full
from dpjax.maths import laws
from tests.play import play_actions

ARMS, ROUNDS = 3, 24
MEANS = [0.6, 0.3, 0.5]
SEGMENTS, ENDS = [MEANS, [0.5, 0.6, 0.3], [0.2, 0.9, 0.5]], [5, 12, ROUNDS]
TABLE = np.random.default_rng(0).random((ROUNDS, ARMS)).astype(np.float32)


# Examples of each factory, over three arms and with at least 24 rounds.
def seasonal(t):
    """Means of three arms that alternate."""
    return 0.5 + 0.4 * jnp.cos(t / 1 + jnp.array([0.0, 2.0, 4.0]))


EXAMPLES = {
    "bernoulli": {
        "realised": lambda: environments.bernoulli(MEANS),
        "pseudo": lambda: environments.bernoulli(MEANS, regret="pseudo"),
    },
    "deterministic": {"": lambda: environments.deterministic(ARMS)},
    "from_means": {
        "seasonal": lambda: environments.from_means(seasonal),
        "realised": lambda: environments.from_means(seasonal, ROUNDS, regret="realised"),
    },
    "fully_oblivious": {"": lambda: environments.fully_oblivious(ARMS)},
    "gaussian": {"pseudo": lambda: environments.gaussian(MEANS, deviation=0.5)},
    "heavy_tailed": {"pseudo": lambda: environments.heavy_tailed(MEANS, tail=1.6)},
    "memory": {
        "m=0": lambda: environments.memory(MEANS, rounds=0),
        "m=2": lambda: environments.memory(MEANS, rounds=2),
    },
    "oblivious": {"": lambda: environments.oblivious(ARMS, 5)},
    "piecewise": {
        "segments": lambda: environments.piecewise(SEGMENTS, ENDS),
        "realised": lambda: environments.piecewise(SEGMENTS, ENDS, regret="realised"),
    },
    "switching_cost": {
        "multiscale": lambda: environments.switching_cost(ROUNDS, ARMS),
        "gaussian": lambda: environments.switching_cost(ROUNDS, ARMS, walk="gaussian"),
    },
    "table": {"": lambda: environments.table(TABLE)},
}
# Environments whose losses depend on the arms of earlier rounds.
ADAPTIVE = {("memory", "m=2"), ("switching_cost", "multiscale"), ("switching_cost", "gaussian")}

# Environments with unbounded losses, which learners see clipped.
UNBOUNDED = {"gaussian", "heavy_tailed"}

CASES = [(name, example) for name in EXAMPLES for example in EXAMPLES[name]]
every_environment = pytest.mark.parametrize(("name", "example"), CASES)


def all_losses(outcome):
    """An outcome with the drawn losses of all arms, (K,)."""
    return outcome._replace(loss=full(outcome.loss, jnp.int32(0)))


def play(environment, arms, nature, probe=False):
    """For arms (T,): outcomes, losses each arm would meet (T, arm, K), regret after each round."""
    return play_actions(environment, arms, nature, jnp.arange(ARMS) if probe else None)


CONSTANT = np.repeat(np.arange(ARMS), ROUNDS).reshape(ARMS, ROUNDS)
VARIED = np.random.default_rng(1).integers(0, ARMS, (4, ROUNDS))
VARIED[0] = np.repeat(np.arange(8) % ARMS, 3)  # long enough to warm up
SEQUENCES = np.concatenate([CONSTANT, VARIED]).astype(np.int32)


@cache
def played_twice(name, example):
    """All sequences under two keys: (outcomes, probes, regret) of (2, S, T)."""
    environment = EXAMPLES[name][example]()

    def game(nature, arms):
        return play(environment, arms, nature, probe=True)

    both = jax.jit(jax.vmap(jax.vmap(game, (None, 0)), (0, None)))
    return jax.tree.map(np.asarray, both(jnp.stack([jr.key(1), jr.key(2)]), SEQUENCES))


def played(name, example):
    """All sequences under one key: losses (S, T, K), tallies, probes, regret (S, T)."""
    outcomes, probes, regret = played_twice(name, example)
    return outcomes.loss[0], outcomes.tally[0], probes[0], regret[0]


def suffered(losses):
    """Losses of the played arms, (S, T), from losses (S, T, K)."""
    return np.take_along_axis(losses, SEQUENCES[:, :, None], axis=2)[:, :, 0]


def test_the_examples_cover_the_registry():
    """A new environment over arms needs an example here; others have their own files."""
    contextual = {
        "advice", "classification", "contextual_table", "fixed_actions", "gap_arms", "glm_arms",
    }  # fmt: skip
    of_points = {"linear_losses", "convex_losses", "spiked_covariance"}
    in_pairs = {"consensus", "dueling"}  # never over three arms
    others = {"logged"}  # its rounds end at a row that depends on the arms
    assert set(EXAMPLES) == set(environments.__all__) - of_points - contextual - in_pairs - others


@every_environment
def test_init_and_step_agree_in_tree_shape_and_dtype(name, example):
    """A state fits into scan, tallies are float32, and regret is a scalar."""
    environment = EXAMPLES[name][example]()
    first = jax.eval_shape(environment.init, jr.key(0))
    arm = jax.ShapeDtypeStruct((), jnp.int32)
    second, outcome = jax.eval_shape(environment.step, first, jr.key(0), arm)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
    loss = jax.eval_shape(full, outcome.loss, arm)
    assert loss.shape == (ARMS,) and loss.dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(outcome.tally))
    regret = jax.eval_shape(environment.regret, first, outcome.tally)
    assert regret.shape == () and regret.dtype == jnp.float32
    assert environment.horizon in (None, ROUNDS)
    if environment.batch is not None:
        state, total, tally = jax.eval_shape(
            lambda *arguments: environment.batch(*arguments, bandit), first, jr.key(0), arm, arm
        )
        assert jax.tree.structure(state) == jax.tree.structure(first)
        assert [(x.shape, x.dtype) for x in total] == [((), jnp.int32)] * 2
        assert jax.tree.map(lambda x: x.shape, tally) == jax.tree.map(
            lambda x: x.shape, outcome.tally
        )


@every_environment
def test_losses_are_in_the_unit_interval_and_do_not_depend_on_the_current_arm(name, example):
    """All arms meet the same losses, except for rounding; another key has others, if any is drawn.

    Also right after a switch of arms. Some environments declare unbounded losses.
    """
    losses, _, probes, _ = played(name, example)
    expected = np.broadcast_to(losses[:, :, None, :], probes.shape)
    np.testing.assert_allclose(probes, expected, rtol=0, atol=2**-23)
    assert (losses.min() >= 0.0 and losses.max() <= 1.0) != (name in UNBOUNDED)
    first, second = played_twice(name, example)[0].loss
    assert (first == second).all() == (name in {"deterministic", "table"})


@every_environment
def test_nature_is_the_same_whatever_the_arms(name, example):
    """Under one key, oblivious losses agree bit for bit; adaptive ones agree for a fixed arm."""
    losses, tally, _, _ = played(name, example)
    if (name, example) not in ADAPTIVE:
        np.testing.assert_array_equal(losses, np.broadcast_to(losses[:1], losses.shape))
        return
    assert (losses != losses[:1]).any()
    # The tally is suffered - comparator, each rounded to 2^-24.
    fixed = suffered(losses)[:, :, None] - tally
    np.testing.assert_allclose(fixed, np.broadcast_to(fixed[:1], fixed.shape), rtol=0, atol=3e-7)


@every_environment
def test_regret_is_what_was_suffered_less_the_best_fixed_arm(name, example):
    """After each round, against games that play one arm throughout, in NumPy.

    Tallies are sums of at most 24 float32 terms of size 1: an error below 24 * 24 * 2^-24.
    """
    losses, tally, _, regret = played(name, example)
    if example in ("pseudo", "segments", "seasonal"):
        means = np.array(MEANS if example == "pseudo" else SEGMENTS)
        gaps = means - means.min(axis=-1, keepdims=True)
        # The means of each round; a segment includes its last round.
        of_round = np.searchsorted(ENDS, np.arange(1, ROUNDS + 1)) if means.ndim == 2 else ...
        gaps = np.broadcast_to(gaps[of_round], (ROUNDS, ARMS))
        if example == "seasonal":
            means = np.stack([seasonal(t) for t in range(1, ROUNDS + 1)])
            gaps = means - means.min(axis=1, keepdims=True)
        played_gaps = gaps[np.arange(ROUNDS), SEQUENCES]
        np.testing.assert_allclose(tally, played_gaps, atol=1e-7)
        np.testing.assert_allclose(regret, np.cumsum(played_gaps, axis=1), atol=4e-5)
        return
    total = np.cumsum(suffered(losses).astype(np.float64), axis=1)
    np.testing.assert_allclose(regret, total - total[:ARMS].min(axis=0), atol=4e-5)
    # So always playing the best arm in hindsight has no regret.
    assert np.abs(regret[:ARMS, -1]).min() < 4e-5


# --- bernoulli ---


DRAWS = 200_000


def sampled_outcomes(environment, key, arm=0):
    """Many independent first rounds of a stateless environment."""
    step = jax.jit(
        jax.vmap(lambda key, arm: all_losses(environment.step((), key, arm)[1]), (0, None))
    )
    return jax.tree.map(np.asarray, step(jr.split(key, DRAWS), jnp.int32(arm)))


def test_a_loss_that_is_looked_at_alone_is_the_one_of_the_vector():
    key = jr.key(0)
    uniform = jr.uniform(key, (50,))
    found = [uniform_at(key, jnp.int32(arm), 50) for arm in range(50)]
    np.testing.assert_array_equal(found, uniform)
    with jax.threefry_partitionable(False):
        np.testing.assert_array_equal(uniform_at(key, jnp.int32(7), 50), jr.uniform(key, (50,))[7])
    outcome = environments.bernoulli([0.5] * 50, regret="pseudo").step((), key, jnp.int32(3))[1]
    losses = full(outcome.loss, jnp.int32(3))
    assert losses.shape == (50,) and 10 < np.sum(losses) < 40
    found = jax.vmap(lambda arm: bandit(outcome.loss, arm))(jnp.arange(50))
    np.testing.assert_array_equal(found, losses)


def joint_p(losses, means):
    """Chi-square p-value of binary loss vectors against independent Bernoulli(means)."""
    cells = losses @ 2 ** np.arange(len(means))
    counts = np.bincount(cells.astype(int), minlength=2 ** len(means))
    bits = np.array(list(product([0, 1], repeat=len(means))))[:, ::-1]
    probabilities = np.where(bits == 1, means, 1 - np.array(means)).prod(axis=1)
    return stats.chisquare(counts, probabilities * len(losses)).pvalue


def test_pseudo_and_realised_regret_share_their_losses():
    """Only the accounting differs, not the game."""
    realised, pseudo = played("bernoulli", "realised"), played("bernoulli", "pseudo")
    np.testing.assert_array_equal(realised[0], pseudo[0])
    assert environments.bernoulli(MEANS).batch is None


def test_a_batch_of_bernoulli_rounds_sums_like_its_rounds():
    """40 rounds at once are Binomial(40, mean) for each arm; the tally of one round is the gap."""
    environment = environments.bernoulli(MEANS, regret="pseudo")
    batch = jax.jit(
        jax.vmap(lambda key, arm: environment.batch((), key, arm, jnp.int32(40), bandit)[1:])
    )
    keys, count = jr.split(jr.key(5), ARMS * 10_000), 10_000
    totals, tally = batch(keys, jnp.repeat(jnp.arange(ARMS), count))
    assert not totals.part.any()
    totals = np.asarray(totals.whole).reshape(ARMS, count)
    gaps = np.repeat(np.array(MEANS) - min(MEANS), count)
    np.testing.assert_allclose(tally, gaps, atol=1e-7)

    def p_value(draws, mean):
        expected = stats.binom(40, mean).pmf(np.arange(41)) * count
        tail = expected < 5
        observed = np.bincount(draws.astype(int), minlength=41)
        return stats.chisquare(
            [*observed[~tail], observed[tail].sum()], [*expected[~tail], expected[tail].sum()]
        ).pvalue

    for arm, mean in enumerate(MEANS):
        assert p_value(totals[arm], mean) > 1e-3
        assert p_value(totals[arm], mean + 0.01) < 1e-6  # 13 standard errors of the mean


# --- piecewise ---


def test_each_segment_has_its_own_means():
    """Frequencies of ones in 4000 games, per round; a segment too long by one is 30 errors off."""
    environment, games = environments.piecewise(SEGMENTS, ENDS), 4000
    arms = jnp.zeros(ROUNDS, jnp.int32)
    losses = jax.vmap(lambda key: play(environment, arms, key)[0].loss)(jr.split(jr.key(30), games))
    means = np.array(SEGMENTS)[np.searchsorted(ENDS, np.arange(1, ROUNDS + 1))]
    error = np.asarray(losses).mean(0) - means
    assert np.abs(error / np.sqrt(means * (1 - means) / games)).max() < 4.5


# --- from_means ---


def test_segments_are_means_of_the_round():
    """The same losses and regret as piecewise, whose means are also a function of the round."""
    arms, key = jnp.array([0, 1, 2, 0] * 4)[:ROUNDS], jr.key(3)

    def means(t):
        return jnp.asarray(SEGMENTS, jnp.float32)[jnp.searchsorted(jnp.array(ENDS), t)]

    ours = play(environments.from_means(means, ROUNDS), arms, key)
    theirs = play(environments.piecewise(SEGMENTS, ENDS), arms, key)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_means_may_depend_on_traced_numbers():
    def regret(height):
        environment = environments.from_means(lambda t: height * (1 / (t + jnp.array([0, 1]))))
        return play(environment, jnp.zeros(3, jnp.int32), jr.key(0))[2][-1]

    gaps = np.array([1.0 - 1 / 2, 1 / 2 - 1 / 3, 1 / 3 - 1 / 4])
    assert jax.jit(regret)(0.5) == pytest.approx(0.5 * gaps.sum(), rel=1e-6)


# --- gaussian ---


def test_gaussian_losses_have_their_law():
    """Kolmogorov-Smirnov per arm; arms are independent. Another deviation is rejected."""
    losses, tally = sampled_outcomes(
        environments.gaussian([-1.0, 0.5, 3.0], deviation=0.25), jr.key(20), 2
    )
    for column, mean in zip(losses.T, (-1.0, 0.5, 3.0), strict=True):
        assert stats.kstest(column, stats.norm(mean, 0.25).cdf).pvalue > 1e-3
        assert stats.kstest(column, stats.norm(mean, 0.26).cdf).pvalue < 1e-6
    correlation = np.corrcoef(losses.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 4 / np.sqrt(DRAWS)
    # Pseudo-regret is the gap of the arm, whatever was drawn.
    np.testing.assert_array_equal(tally, 4.0)


# --- deterministic ---


@pytest.mark.parametrize("arms", [3, 5])
def test_deterministic_against_the_text(arms):
    """Gains, rounds counted from 1: 0.38; 1 where t is even; 1 where 3 divides t; 0."""
    environment = environments.deterministic(arms)
    step = jax.jit(environment.step)
    state = environment.init(jr.key(0))
    for t in range(1, 14):
        state, outcome = step(state, jr.key(t), jnp.int32(0))
        gains = [0.38, float(t % 2 == 0), float(t % 3 == 0)] + [0.0] * (arms - 3)
        np.testing.assert_allclose(1 - outcome.loss, gains, atol=1e-7)


# --- fully oblivious, oblivious ---


@pytest.mark.parametrize(
    ("half_width", "law"),
    [
        (None, [0.45, 0.5, 0.5, 0.5]), (0.04, [0.46, 0.5, 0.5, 0.5]), (0.0, [0.5] * 3),
        (0.25, [0.25, 0.5, 0.5]),
    ],
)  # fmt: skip
def test_fully_oblivious_is_bernoulli_in_law(half_width, law):
    """All loss vectors over 2e5 rounds, by chi-square; a mean off by 0.01 is rejected."""
    options = {} if half_width is None else {"half_width": half_width}
    environment = environments.fully_oblivious(len(law), **options)
    losses = sampled_outcomes(environment, jr.key(6)).loss
    assert joint_p(losses, law) > 1e-3
    assert joint_p(losses, [law[0] + 0.01, *law[1:]]) < 1e-6
    if half_width is None:
        losses = sampled_outcomes(environments.bernoulli(law), jr.key(6)).loss
        assert joint_p(losses, law) > 1e-3


@cache
def oblivious_losses(rounds, *period):
    """Losses (rounds, 32) of the oblivious adversary: two draws agree with probability 2^-32."""
    environment = environments.oblivious(32, *period)

    arms = jnp.zeros(rounds, jnp.int32)
    game = jax.jit(lambda nature: play(environment, arms, nature)[0].loss)
    return np.asarray(game(jr.key(8)))


@pytest.mark.parametrize(("rounds", "period"), [(23, 5), (6, 1), (401, None)])
def test_oblivious_redraws_at_multiples_of_its_period(rounds, period):
    """Only there; rounds before the first multiple share a separate draw.

    The period is 200 unless given.
    """
    losses = oblivious_losses(rounds, *([period] if period else []))
    changed = 2 + np.flatnonzero((losses[1:] != losses[:-1]).any(axis=1))
    expected = [t for t in range(2, rounds + 1) if t % (period or 200) == 0]
    np.testing.assert_array_equal(changed, expected)
    draws = losses[[0, *(t - 1 for t in expected)]]
    assert len(np.unique(draws, axis=0)) == len(draws)


# --- switching cost ---


LONG = 2**18  # the horizon of Tossou & Dimitrakakis 2017, with four arms
SIGMA, GAP = 1 / 162, 1.531058e-4  # 1 / (9 log2 T) and 4^(1/3) T^(-1/3) / (9 log2 T)
WALKS = ["multiscale", "gaussian"]
every_walk = pytest.mark.parametrize("walk", WALKS)
SWITCHING = np.resize([0, 0, 1, 1, 0, 0, 3], 100)


@pytest.fixture(scope="module")
def long_games():
    """The first 100 rounds of 2^18 for each walk: (losses of the four fixed arms (100, 4),
    (losses, tallies) of SWITCHING), and the normal draws xi_1, xi_2, ... under the same keys.
    """
    arms = np.concatenate([np.tile(np.arange(4)[:, None], 100), SWITCHING[None]]).astype(np.int32)

    def games(nature):
        found = {}
        for walk in WALKS:
            environment = environments.switching_cost(LONG, 4, walk=walk)
            played = jax.vmap(lambda a, e=environment: play(e, a, nature)[0])(arms)
            fixed = jnp.stack([played.loss[arm, :, arm] for arm in range(4)], axis=1)
            found[walk] = fixed, (played.loss[4], played.tally[4])
        normals = jax.vmap(lambda t: laws.normal(jr.fold_in(nature, t)))(jnp.arange(1, 101))
        return found, normals

    return jax.tree.map(lambda x: np.asarray(x, np.float64), jax.jit(games)(jr.key(9)))


@every_walk
def test_the_walk_against_its_recursion(walk, long_games):
    """W_t = W_rho(t) + sigma xi_t with independently drawn xi, and the gap of the best arm."""
    games, normals = long_games
    w = np.zeros(101)
    for t in range(1, 101):
        w[t] = w[t & (t - 1) if walk == "multiscale" else t - 1] + SIGMA * normals[t - 1]
    losses = games[walk][0]
    best = losses.mean(axis=0).argmin()
    expected = 0.5 + w[1:, None] - GAP * (np.arange(4) == best)
    # At most 100 sums, each rounded to 2^-25 near 1/2 or less.
    np.testing.assert_allclose(losses, expected, rtol=0, atol=100 * 2**-25)
    # The mean of 100 differences has an error of 4e-9, or 3e-5 of the gap.
    assert (losses.max(axis=1) - losses[:, best]).mean() == pytest.approx(GAP, rel=2e-4)


@every_walk
def test_a_switch_costs_the_whole_loss_and_the_comparator_pays_none(walk, long_games):
    """Loss 1 in a switching round, the fixed arm's loss otherwise; tallies against L_t."""
    fixed, (losses, tally) = long_games[0][walk]
    rounds = np.arange(100)
    switched = np.append(False, SWITCHING[1:] != SWITCHING[:-1])
    np.testing.assert_array_equal(switched[:9], [0, 0, 1, 0, 1, 0, 1, 1, 0])
    paid = np.where(switched, 1.0, fixed[rounds, SWITCHING])
    # Numbers in [0, 1] and their differences, rounded to 2^-24 or less per operation.
    np.testing.assert_allclose(losses[rounds, SWITCHING], paid, rtol=0, atol=2e-7)
    np.testing.assert_allclose(tally, paid[:, None] - fixed, rtol=0, atol=2e-7)
    # In round 1 no arm is a switch; later every arm is, except the previous one.
    same = np.arange(4) == SWITCHING[:-1, None]
    np.testing.assert_allclose(losses[0], fixed[0], rtol=0, atol=2e-7)
    np.testing.assert_allclose(losses[1:], np.where(same, fixed[1:], 1.0), rtol=0, atol=2e-7)


def test_the_best_arm_is_uniform():
    """Chi-square over 4000 keys."""
    environment = environments.switching_cost(1024, ARMS)
    game = jax.jit(jax.vmap(lambda key: play(environment, jnp.zeros(2, jnp.int32), key)[0]))
    outcomes = game(jr.split(jr.key(11), 4000))
    # Arm 0 never switches; the others' losses are read from the comparators.
    best = np.argmin(outcomes.loss[:, :, :1] - outcomes.tally, axis=2)
    np.testing.assert_array_equal(best[:, 0], best[:, 1])
    assert stats.chisquare(np.bincount(best[:, 0], minlength=ARMS)).pvalue > 1e-3


def test_losses_are_clipped_where_the_walk_leaves_the_unit_interval():
    """The plain walk over 2^12 rounds, 0.6 wide at the end: clip(W + 1/2 - gap 1{best}, 0, 1)."""
    horizon = 2**12
    environment = environments.switching_cost(horizon, ARMS, walk="gaussian")
    sigma = 1 / (9 * 12)
    gap = (ARMS / horizon) ** (1 / 3) * sigma

    def game(nature):
        outcomes = play(environment, jnp.zeros(horizon, jnp.int32), nature)[0]
        rounds = jnp.arange(1, horizon + 1)
        normals = jax.vmap(lambda t: laws.normal(jr.fold_in(nature, t)))(rounds)
        return outcomes.loss[:, :1] - outcomes.tally, normals

    losses, normals = jax.jit(jax.vmap(game))(jr.split(jr.key(17), 8))
    losses = np.asarray(losses)
    walk = 0.5 + sigma * np.cumsum(np.asarray(normals, np.float64), axis=1)
    assert walk.min() < -0.1 and walk.max() > 1.1
    best = losses.mean(axis=1).argmin(axis=1)
    advantage = np.where(np.arange(ARMS) == best[:, None], gap, 0.0)
    expected = np.clip(walk[:, :, None] - advantage[:, None], 0.0, 1.0)
    # 2^12 sums, rounded to 2^-25 (2^-24 above 1): the error is a random walk and stays below this.
    np.testing.assert_allclose(losses, expected, rtol=0, atol=10 * np.sqrt(horizon) * 2**-24)


# --- memory ---

LENGTH = 40


@pytest.fixture(scope="module")
def memory_games():
    """Arms (20, 40), and losses for warm losses 0 or Bernoulli and m = 0..3: (2, 4, 20, 40, K)."""
    arms = np.random.default_rng(2).integers(0, ARMS - 1, (20, LENGTH)).astype(np.int32)
    arms[10:] = np.repeat(arms[10:, ::4], 4, axis=1)  # long enough to warm up

    def game(means, m, arms):
        return play(environments.memory(means, rounds=m), arms, jr.key(1))[0].loss

    over_arms = jax.vmap(game, (None, None, 0))
    over_both = jax.vmap(jax.vmap(over_arms, (None, 0, None)), (0, None, None))
    means = jnp.array([[0.0] * ARMS, MEANS])
    return arms, np.asarray(jax.jit(over_both)(means, jnp.arange(4), arms))


def test_memory_looks_at_the_last_m_rounds_and_no_further(memory_games):
    """Warm exactly if the arm was played in all of the last m rounds, by that definition.

    Rounds before the first count as rounds of the first arm.
    """
    arms, losses = memory_games
    for m, row, t in product(range(4), range(len(arms)), range(1, LENGTH)):
        window = [arms[row, max(t - i, 0)] for i in range(1, m + 1)]
        warm = np.array([all(a == arm for a in window) for arm in range(ARMS)])
        np.testing.assert_array_equal(losses[0, m, row, t], np.where(warm, 0, 1))
    assert (losses[0, :, :, 0] == 0).all()  # nothing was played before the first round


def test_memory_1_is_a_switching_cost_and_memory_0_none_on_bernoulli_losses(memory_games):
    """Under the same key: the losses of ``bernoulli``, and 1 if the arm changes."""
    arms, losses = (each[..., :ROUNDS] if each.ndim == 2 else each[..., :ROUNDS, :]
                    for each in memory_games)  # fmt: skip
    free = played("bernoulli", "realised")[0][0]
    np.testing.assert_array_equal(losses[1, 0], np.broadcast_to(free, losses[1, 0].shape))
    switched = np.diff(arms, axis=1, prepend=arms[:, :1]) != 0
    own = np.take_along_axis(losses[1, 1], arms[..., None], axis=2)[..., 0]
    expected = np.where(switched, 1.0, free[np.arange(ROUNDS), arms])
    np.testing.assert_array_equal(own, expected)
    assert switched.any(axis=1).all()


# --- table ---


def test_a_table_is_replayed_row_by_row():
    """Also integers and booleans; its horizon is its number of rows."""
    np.testing.assert_array_equal(played("table", "")[0][0], TABLE)
    for losses in ([[0, 1], [1, 0], [1, 1]], np.eye(3, 2, dtype=bool), jnp.eye(3, 2)):
        environment = environments.table(losses)
        outcomes, _, _ = play_actions(environment, jnp.ones(3, jnp.int32), jr.key(0))
        assert environment.horizon == 3
        rows = np.asarray(losses, np.float32)
        np.testing.assert_array_equal(outcomes.loss, rows)
        np.testing.assert_array_equal(outcomes.tally, rows[:, 1:] - rows)


def test_floats_may_be_traced():
    """Means, half widths and memories under vmap give the results of plain numbers."""
    rows = jnp.array([[0.1, 0.9, 0.5], [0.7, 0.2, 0.5]])

    def first_losses(means, half_width, m):
        made = (
            environments.bernoulli(means, regret="pseudo"),
            environments.gaussian(means, deviation=half_width),
            environments.fully_oblivious(ARMS, half_width=half_width),
            environments.oblivious(ARMS, 2, half_width=half_width),
            environments.memory(means, rounds=m),
            environments.table(jnp.asarray(means)[None]),
        )
        states = [environment.init(jr.key(0)) for environment in made]
        return [
            all_losses(environment.step(state, jr.key(1), jnp.int32(1))[1])
            for environment, state in zip(made, states, strict=True)
        ]

    traced = jax.jit(jax.vmap(first_losses))(rows, jnp.array([0.0, 0.25]), jnp.array([0, 3]))
    plain = jax.jit(lambda: first_losses([0.7, 0.2, 0.5], 0.25, 3))()
    for a, b in zip(jax.tree.leaves(traced), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a[1], b, atol=1e-7)
