"""Hedge, limited updates and sparse vector experts: their draws, and how much they reveal."""

import itertools
import math
from collections import defaultdict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds
from dpjax.audit import Pair, comparisons
from dpjax.cli import audits
from dpjax.learners import sparse_vector_experts
from dpjax.learners._hedge import hedge, logits
from dpjax.learners._limited_updates import limited_updates
from dpjax.learners._sparse_vector_experts import split
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums
from tests.audit.test_declarations import halved
from tests.play import play_table
from tests.zcdp import largest_rho, least_epsilon

EPSILONS = [1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, np.inf]


def plain_by_hand(horizon, arms):
    return np.sqrt(8 * np.log(arms) / horizon)


def rate_by_hand(horizon, arms, epsilon, delta):
    """eta in float64: sqrt(8 ln K / T), or the larger of those allowed by the sum and by zCDP."""
    draws = horizon - 1
    if draws == 0 or np.isinf(epsilon):
        return plain_by_hand(horizon, arms)
    root = np.sqrt(largest_rho(epsilon, delta))
    private = max(epsilon / (2 * draws), np.sqrt(2 / draws) * root)
    return min(plain_by_hand(horizon, arms), private)


def declared_by_hand(horizon, rate, delta):
    rho = (horizon - 1) * rate**2 / 2
    return min(2 * rate * (horizon - 1), least_epsilon(rho, delta)), rho


def rate_of(learner):
    """eta, from the declared rho = (T - 1) eta^2 / 2."""
    return np.sqrt(2 * float(learner.privacy.rho) / (learner.horizon - 1))


def play(learner, losses, keys):
    """Arms (n, T + 1), and the last states, in NumPy."""

    def game(key):
        made = play_table(learner, losses, key)
        return made.actions, made.last

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(game))(keys))


@pytest.mark.parametrize(
    ("epsilon", "share", "given"),
    [(2.0, None, None), (2.0, 0.0, None), (np.inf, None, None), (np.inf, 0.1, 0.4)],
)
def test_games_of_hedge_by_hand(epsilon, share, given):
    """100 games equal a float64 loop; with twice the rate, which is half the noise, they do not."""
    horizon, arms = 40, 3
    losses = np.array(jr.uniform(jr.key(1), (horizon, arms)))
    keys = jr.split(jr.key(2), 100)
    learner = hedge(horizon, arms, epsilon=epsilon, share=share, rate=given)
    played, state = play(learner, losses, keys)
    rounds = jnp.arange(horizon + 1)
    uniforms = jax.vmap(lambda key: jax.vmap(lambda t: jr.uniform(jr.fold_in(key, t)))(rounds))
    uniforms, share = np.asarray(uniforms(keys)), share or 0.0

    def by_hand(rate):
        p, drawn = np.full(arms, 1 / arms), []
        for t in range(horizon + 1):
            drawn.append(np.searchsorted(np.cumsum(p)[:-1], uniforms[:, t], "right"))
            if t < horizon:
                v = p * np.exp(-rate * losses[t].astype(np.float64))
                p = (1 - share) * v / v.sum() + share / arms
        return np.stack(drawn, axis=1), p

    rate = given or rate_by_hand(horizon, arms, epsilon, horizon**-2.0)
    expected, p = by_hand(rate)
    np.testing.assert_array_equal(played, expected)
    one = jax.tree.map(lambda leaf: leaf[0], state)
    np.testing.assert_allclose(jax.nn.softmax(logits(one, jnp.float32(rate))), p, rtol=1e-5)
    assert (expected != by_hand(2 * rate)[0]).mean() > 0.02
    assert given or (rate < plain_by_hand(horizon, arms)) == np.isfinite(epsilon)


@pytest.mark.parametrize("delta", [None, 1e-30, 1e-6, 0.5])
@pytest.mark.parametrize("horizon", [1, 2, 16, 2**10, 2**20])
def test_declared_epsilon_of_hedge(horizon, delta):
    """At most the requested one, and equal to float64 arithmetic at the largest such rate."""
    for epsilon in EPSILONS:
        privacy = hedge(horizon, 5, epsilon=epsilon, delta=delta).privacy
        used = max(horizon, 2) ** -2.0 if delta is None else delta
        rate = rate_by_hand(horizon, 5, epsilon, used)
        exact, rho = declared_by_hand(horizon, rate, used)
        # Some dozen float32 operations. If delta allows most of it, epsilon is a difference of
        # terms that cancel.
        assert float(privacy.epsilon) == pytest.approx(exact, rel=1e-5, abs=2e-6)
        assert float(privacy.rho) == pytest.approx(rho, rel=2e-5)
        assert float(privacy.epsilon) <= epsilon * (1 + 1e-6)
        assert privacy.delta == used
        if horizon > 1 and rate < plain_by_hand(horizon, 5):
            assert exact == pytest.approx(epsilon, rel=1e-9)
            assert declared_by_hand(horizon, 1.001 * rate, used)[0] > epsilon


# Fixed share ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, 1e-42])
def test_laws_of_arms_far_behind_stay_within_the_declaration(share):
    """A replaced round around which an arm's weight leaves the range of float32, e^-87.

    The replay spends at most the declared epsilon, and more than a fiftieth of it. If a law were
    rounded to 0 on one side only, epsilon would be infinite.
    """
    rounds = 256
    learner = hedge(rounds, 2, epsilon=200.0, rate=0.5, share=share)
    losses = np.tile(np.float32([0.0, 1.0]), (rounds, 1))
    others = losses.copy()
    others[170] = [1.0, 0.0]
    pairs = Pair(jnp.asarray(losses)[None], jnp.asarray(others)[None])
    found = audits.replays(learner, pairs)
    assert found.failed == () and found.spent.max() > learner.privacy.epsilon / 50


# Printed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "spent"), [(1.0, 0.8531), (5.0, 4.9346), (20.0, 26.055)])
def test_the_printed_rate_has_about_what_it_states(epsilon, spent):
    """eta = 2 epsilon / sqrt(8 T ln(1/delta)), below the derived rate at small epsilon."""
    horizon, delta = 2**16, 1e-6
    printed = hedge(horizon, 3, epsilon=epsilon, delta=delta, rate=9.0, calibration="printed")
    rate = 2 * epsilon / np.sqrt(8 * horizon * np.log(1 / delta))
    assert rate_of(printed) == pytest.approx(rate, rel=1e-5)
    declared = printed.privacy
    assert float(declared.paper_epsilon) == pytest.approx(epsilon, rel=1e-5)
    # The paper omits rho, and its conversion has no ln(1 - 1 / order).
    exact = least_epsilon((horizon - 1) * rate**2 / 2, delta)
    assert float(declared.epsilon) == pytest.approx(exact, rel=1e-5)
    assert exact == pytest.approx(spent, rel=1e-3)
    derived = rate_of(hedge(horizon, 3, epsilon=epsilon, delta=delta, rate=9.0))
    assert (rate < derived) == (exact < epsilon)
    # Half the noise has another epsilon.
    assert least_epsilon((horizon - 1) * 2 * rate**2, delta) > 1.9 * exact


def probabilities(total, epsilon):
    return jax.nn.softmax(selectors.exponential(total, epsilon))


def permute_and_flip(total, epsilon):
    return jax.nn.softmax(selectors.permute_and_flip(total, epsilon))


@pytest.mark.parametrize("epsilon", [0.7, 20.0])
def test_games_of_limited_updates_by_hand(epsilon):
    """300 games equal a float64 loop over batches of 1, 2, 4, ... rounds, the last one cut short.

    At twice the epsilon, which is half the noise, they do not.
    """
    horizon, keys = 45, jr.split(jr.key(2), 300)
    losses = np.array(jr.uniform(jr.key(1), (horizon, 3)))
    learner = limited_updates(horizon, 3, epsilon=epsilon)
    play = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1]))
    played = np.asarray(play(keys))

    def by_hand(epsilon):
        drawn, total = np.zeros((300, horizon), int), np.zeros(3)
        for start in (1, 2, 4, 8, 16, 32):
            uniform = jax.vmap(lambda key, t=start - 1: jr.uniform(jr.fold_in(key, t)))(keys)
            p = np.exp(-epsilon / 2 * (total - total.min()))
            batch = slice(start - 1, 2 * start - 1)
            arms = np.searchsorted(np.cumsum(p / p.sum())[:-1], np.asarray(uniform), "right")
            drawn[:, batch] = arms[:, None]
            total = losses[batch].astype(np.float64).sum(0)
        return drawn

    np.testing.assert_array_equal(played, by_hand(epsilon))
    assert (played != by_hand(2 * epsilon)).mean() > 0.02


def test_declared_privacy_of_limited_updates():
    """epsilon itself, pure, and the rho of one exponential mechanism of width epsilon."""
    privacy = limited_updates(100, 3, epsilon=0.5).privacy
    assert privacy[:2] == (0.5, 0.0) and float(privacy.rho) == pytest.approx(0.25 / 8)


def test_batches_of_limited_updates_fill_any_horizon():
    """Lengths double up to 2^30, the limit of int32 rounds, and no further."""
    learner = limited_updates(2**31 - 1, 3, epsilon=1.0)
    state, batch = learner.init(jr.key(0))
    lengths = [int(batch.rounds)]
    for _ in range(31):
        state, batch = learner.step(state, jr.key(0), exact_sums.nothing((3,)))
        lengths.append(int(batch.rounds))
    assert lengths == [2**j for j in range(31)] + [2**30]


# Other selectors -----------------------------------------------------------------------------


def permutations_by_hand(total, epsilon):
    """Permute-and-flip: over all orders, the first arm whose coin shows heads; in float64."""
    q = np.exp(-epsilon / 2 * (np.asarray(total, np.float64) - np.min(total)))
    p = np.zeros(len(q))
    for order in itertools.permutations(range(len(q))):
        left = 1.0
        for arm in order:
            p[arm] += left * q[arm]
            left *= 1.0 - q[arm]
    return p / math.factorial(len(q))


@pytest.mark.parametrize("total", [[0.0, 0.0], [0.0, 1.5, 1.5], [3.0, 2.0, 9.0, 2.5, 2.0]])
def test_permute_and_flip_equals_all_permutations(total):
    """It is also the law of the noisy minimum with exponential noise, by 4e5 draws."""
    sums = exact_sums.of(jnp.float32(total))
    p = np.asarray(permute_and_flip(sums, jnp.float32(0.8)))
    np.testing.assert_allclose(p, permutations_by_hand(total, 0.8), rtol=1e-5)
    noisy = np.array(total) - np.random.default_rng(1).exponential(2 / 0.8, (400_000, len(total)))
    found = np.bincount(noisy.argmin(1), minlength=len(total)) / 4e5
    error = np.sqrt(p * (1 - p) / 4e5)
    assert (np.abs(found - p) < 4.5 * error).all()
    # Half the noise has another law, unless all sums are equal.
    if np.ptp(total):
        sharper = permutations_by_hand(total, 1.6)
        assert (np.abs(found - sharper) > 10 * error).any()


def largest_log_ratio(law, epsilon):
    """Over sums of three arms and all replaced rounds with losses 0 and 1."""
    steps = np.arange(0.0, 40 / epsilon, 2 / epsilon)
    before = np.stack(np.meshgrid(steps, steps, [0.0]), -1).reshape(-1, 1, 3) + 10.0
    moves = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=3)))
    sums = np.concatenate([before, before + moves], axis=1).astype(np.float32)
    # Replaced rounds two steps away are in the same table, since the first entry may change too.
    p = jax.vmap(jax.vmap(lambda s: law(exact_sums.of(s), jnp.float32(epsilon))))(sums)
    logs = np.log(np.asarray(p, np.float64))
    return np.abs(logs[:, 1:] - logs[:, :1]).max()


@pytest.mark.parametrize("law", [probabilities, permute_and_flip])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_log_ratios_of_a_draw(epsilon, law):
    """At most epsilon, and nearly that somewhere; half the noise exceeds it."""
    found = largest_log_ratio(law, epsilon)
    assert 0.8 * epsilon < found <= epsilon * (1 + 1e-4)
    assert largest_log_ratio(lambda s, e: law(s, 2 * e), epsilon) > 1.5 * epsilon


GRID = np.linspace(-40.0, 40.0, 8001)
DENSITY = np.exp(-np.abs(GRID)) / 2 * (GRID[1] - GRID[0])


def tail(x):
    """P(Lap(1) > x)."""
    return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def answers(values, level, scale, exceeded):
    """The probability that none of values (n,) exceeds the noisy level, or only the last one."""
    above = tail((level - np.asarray(values, float)[:, None]) / scale + GRID)
    stay = 1.0 - above
    if exceeded:
        stay[-1] = above[-1]
    return float((DENSITY * stay.prod(0)).sum())


def path_law(losses, level, scale, gamma, budget):
    """{arms of the T rounds: probability} on losses (T - 1, K), in float64."""
    rounds, arms = losses.shape
    choices = [(False, 0), *((True, arm) for arm in range(arms))]
    found = defaultdict(float)
    for first in range(arms):
        for path in itertools.product(choices, repeat=rounds):
            arm, start, left, p, played = first, 0, budget, 1.0 / arms, [first]
            for t, (anew, other) in enumerate(path):
                played.append(other if anew else played[-1])
                if not anew:
                    continue
                if left == 0:
                    p = 0.0
                    break
                p *= answers(losses[start : t + 1, arm].cumsum(), level, scale, True)
                weights = np.exp(-gamma * losses[: t + 1].sum(0))
                p *= weights[other] / weights.sum()
                arm, start, left = other, t + 1, left - 1
            if p > 0.0 and left > 0 and start < rounds:
                p *= answers(losses[start:, arm].cumsum(), level, scale, False)
            if p > 0.0:
                found[tuple(played)] += p
    return found


def test_games_of_sparse_vector_experts_have_their_law():
    """Arms of 4 rounds in 10^5 games, by all paths; half the noise has another law."""
    losses, runs, epsilon = np.array([[1, 0], [0.5, 0.2], [1, 0], [0, 0]]), 100_000, 2.0
    learner = sparse_vector_experts(4, 2, epsilon=epsilon, threshold=1.0, draws=2)
    play = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1]))
    played, count = np.unique(
        np.asarray(play(jr.split(jr.key(0), runs))), axis=0, return_counts=True
    )
    seen = dict(zip(map(tuple, played.tolist()), count / runs, strict=True))

    def off(factor):
        first, gamma = split(epsilon, 2.0)
        expected = path_law(losses[:-1], 1.0, factor / first, gamma / factor, 2)
        assert sum(expected.values()) == pytest.approx(1.0, abs=1e-4)
        return max(abs(seen.get(a, 0) - p) / np.sqrt(p / runs) for a, p in expected.items())

    assert off(1.0) < 4.5
    assert off(0.5) > 20


def test_comparisons_cost_no_less_than_their_exact_law():
    """Four values and any changes of them; one case attains nearly the whole cost."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for case in range(40):
        values, change = rng.uniform(-2, 2, 4), rng.uniform(-1, 1, 4)
        if case == 0:
            values, change = np.full(4, 12.0), np.full(4, 0.5)
        exact = 0.0
        for n, exceeded in [(1, True), (2, True), (3, True), (4, True), (4, False)]:
            ours, theirs = (answers(v[:n], 1.0, 1.0, exceeded) for v in (values, values + change))
            exact = max(exact, abs(np.log(ours / theirs)))
        rows = jnp.stack([jnp.float32(change), jnp.zeros(4), jnp.ones(4)], axis=1)
        pure, rho, drawn = comparisons.costs(rows, jnp.zeros((4, 2), jnp.uint32))
        assert exact <= float(pure) + 1e-3
        assert float(rho) == pytest.approx(float(pure) ** 2 / 2)
        np.testing.assert_array_equal(drawn[:, 2], [True, False, False, False])
        largest = max(largest, exact / float(pure))
    assert largest > 0.999


def charged(units, exceeded, keys):
    rows = jnp.stack(
        [jnp.float32(units), jnp.float32(exceeded), jnp.ones(len(units), jnp.float32)], axis=1
    )
    words = jnp.stack([jnp.uint32(keys), jnp.zeros(len(units), jnp.uint32)], axis=1)
    pure, _, drawn = comparisons.costs(rows, words)
    return float(pure), list(np.asarray(drawn[:, 2], bool))


def test_each_armed_threshold_is_charged_once():
    """A change from some round on costs 1, with either sign; changes of both signs cost 3."""
    none = [False] * 4
    assert charged([0, 1, 1, 1], none, [7] * 4) == (1.0, [True, False, False, False])
    assert charged([0, -1, -1, -1], none, [7] * 4)[0] == 1.0
    assert charged([1, -1, 1, -1], none, [7] * 4)[0] == 3.0
    # A fresh threshold is charged separately; one that continues after firing counts as fresh.
    fired = [False, True, False, False]
    assert charged([0, 1, 1, 1], fired, [7, 7, 8, 8]) == (2.0, [True, False, True, False])
    assert charged([0, 1, 0, 0], fired, [7] * 4) == (1.0, [True, False, True, False])
    # Two thresholds may alternate: 7 is compared in rounds 1 and 3.
    assert charged([0, 1, 1, 1], none, [7, 8, 7, 8]) == (2.0, [True, False, True, False])


def test_report_and_declaration_of_sparse_vector_experts():
    """The budget's end is reported; epsilon is the total, half of it for comparisons."""
    learner = sparse_vector_experts(64, 3, epsilon=2.0, threshold=0.5, draws=3)
    state = play_table(learner, np.ones((64, 3)), jr.key(0)).last
    report = learner.report(state)
    assert (int(report.redrawn), bool(report.spent)) == (3, True)
    gamma = 2.0 / 12
    assert float(learner.privacy.epsilon) == pytest.approx(2.0)
    assert float(learner.privacy.rho) == pytest.approx(0.5 + 3 * gamma**2 / 2)
    plain = sparse_vector_experts(64, 3, epsilon=np.inf)
    assert np.isinf(plain.privacy.epsilon)
    state = play_table(plain, np.eye(3)[[0] * 64], jr.key(1)).last
    assert int(plain.report(state).redrawn) <= 1


# A random prefix ------------------------------------------------------------------------------


def test_games_with_random_prefixes_by_hand():
    """300 games equal a float64 loop; with the sums of whole batches they do not."""
    horizon, keys = 45, jr.split(jr.key(2), 300)
    losses = np.array(jr.uniform(jr.key(1), (horizon, 3)))
    learner = limited_updates(horizon, 3, epsilon=2.0, prefix="random")
    play = jax.jit(jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1]))
    played = np.asarray(play(keys))

    def keys_of(rounds, part):
        return jax.vmap(lambda key, t: jr.split(jr.fold_in(key, t))[part])(keys, rounds)

    def by_hand(whole):
        drawn = np.zeros((300, horizon), int)
        ends, total = np.zeros(300, int), np.zeros((300, 3))
        for start in (1, 2, 4, 8, 16, 32):
            p = np.exp(-(total - total.min(1, keepdims=True)))
            below = np.cumsum(p / p.sum(1, keepdims=True), axis=1)[:, :-1]
            uniform = np.asarray(jax.vmap(jr.uniform)(keys_of(ends, 0)))
            batch = slice(start - 1, 2 * start - 1)
            drawn[:, batch] = (below <= uniform[:, None]).sum(1)[:, None]
            rest = np.zeros(300, int)
            if start > 1:
                place = jax.vmap(lambda key, n=start // 2: jr.randint(key, (), 0, n))
                rest = np.asarray(place(keys_of(np.full(300, start - 1), 1)))
            ends = 2 * start - 1 - rest
            last = np.full(300, 2 * start - 1) if whole else ends
            read = (np.arange(horizon) >= start - 1) & (np.arange(horizon) < last[:, None])
            total = read @ losses.astype(np.float64)
        return drawn

    np.testing.assert_array_equal(played, by_hand(whole=False))
    assert (played != by_hand(whole=True)).mean() > 0.02


def test_prefixes_are_uniform_on_the_upper_half_of_a_batch():
    """4000 batches of eight rounds, and the only batches of one and of two rounds."""

    def lengths(key):
        learner = limited_updates(100, 3, epsilon=1.0, prefix="random")
        state, batch = learner.init(key)
        read = [batch.rounds]
        for t in range(3):
            state, batch = learner.step(
                state._replace(rest=jnp.int32(0)), jr.fold_in(key, t), exact_sums.nothing((3,))
            )
            read.append(batch.rounds)
        return jnp.stack(read)

    found = np.asarray(jax.jit(jax.vmap(lengths))(jr.split(jr.key(0), 4000)))
    assert (found[:, :2] == [1, 2]).all() and set(found[:, 2]) == {3, 4}
    counts = np.bincount(found[:, 3], minlength=9)
    assert counts[:5].sum() == 0 and np.abs(counts[5:] - 1000).max() < 4.5 * np.sqrt(750)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("selector", ["exponential", "laplace"])
def test_random_prefixes_spend_at_most_what_is_declared(selector):
    """Replays find no violation, and with half the noise they find one."""
    learner = audits.build("limited_updates", "", 16, 1.0, selector=selector, prefix="random")
    pairs = audit.pairs_for(learner, 32, audits.keys()[0])
    found = audits.replays(learner, pairs)
    assert found.failed == () and 0.7 < found.spent.max() <= 1.0 + 1e-5
    wrong = audits.replays(halved(learner, pairs), pairs)
    assert "epsilon" in wrong.failed and wrong.spent.max() > 1.4


def expected_gaps(gap, epsilon, most):
    """sum_m gap P(the worse arm is drawn from m rounds), for arms of means (1 -+ gap) / 2."""
    high = (0.5 + 0.5 * gap) ** 2
    low = (0.5 - 0.5 * gap) ** 2
    steps = [low, 1.0 - high - low, high]  # of the difference of the losses of a round
    law, total = np.ones(1), 0.0
    for m in range(1, most + 1):
        law = np.convolve(law, steps)
        difference = np.arange(-m, m + 1)
        total += gap * (law @ (1.0 / (1.0 + np.exp(np.clip(epsilon / 2 * difference, -700, 700)))))
    return total


@pytest.mark.parametrize("epsilon", [0.05, 0.4, 2.0, 40.0])
@pytest.mark.parametrize("gap", [0.1, 0.3, 1.0])
def test_the_bound_for_random_prefixes_exceeds_the_exact_sum(gap, epsilon):
    """Two Bernoulli arms: 4 times the sum of the expected gaps after 1..2000 rounds."""
    means = [0.5 - gap / 2, 0.5 + gap / 2]
    exact = 4.0 * expected_gaps(gap, epsilon, 2000)
    assert exact <= float(bounds.limited_updates_prefix(2**40, means, epsilon)) - 1.0


def test_the_bound_for_random_prefixes_has_the_entropy_of_all_arms():
    """Losses that equal their means, with gaps at several scales: the sum is near ln K / eta."""
    for gaps in ([0.0] + [1.0] * 999, [0.0, 0.1] + [0.2] * 10 + [0.4] * 100 + [0.8] * 1000):
        scores = -0.05 * np.arange(4000)[:, None] * np.array(gaps)
        p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        found = 1.0 + 4.0 * (p @ gaps).sum()
        bound = float(bounds.limited_updates_prefix(2**40, gaps, 0.1))
        assert 0.3 * bound < found < bound
