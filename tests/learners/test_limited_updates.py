"""Limited updates: the law of a batch's draw, exactly how much it reveals, and its regret bound."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds
from dpjax.cli import audits
from dpjax.learners._limited_updates import limited_updates
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums
from tests.audit.test_declarations import halved
from tests.play import play_table


def probabilities(total, epsilon):
    return jax.nn.softmax(selectors.exponential(total, epsilon))


def permute_and_flip(total, epsilon):
    return jax.nn.softmax(selectors.permute_and_flip(total, epsilon))


@pytest.mark.parametrize("epsilon", [0.7, 20.0])
def test_games_by_hand(epsilon):
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


def test_declared_privacy():
    """epsilon itself, pure, and the rho of one exponential mechanism of width epsilon."""
    privacy = limited_updates(100, 3, epsilon=0.5).privacy
    assert privacy[:2] == (0.5, 0.0) and float(privacy.rho) == pytest.approx(0.25 / 8)


def test_batches_fill_any_horizon():
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


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("calibration", "spent"), [("derived", 1.0), ("printed", 2.0)])
def test_the_laplace_selector_spends_what_it_declares(calibration, spent):
    """The printed one twice what the paper states, since two sums change in opposite directions."""
    options = {"selector": "laplace", "calibration": calibration}
    learner = audits.build("limited_updates", "", 16, 1.0, **options)
    declared = learner.privacy
    assert (float(declared.epsilon), float(declared.rho)) == (spent, 0.5 * spent**2)
    assert calibration == "derived" or float(declared.paper_epsilon) == 1.0
    verdict = audits.replays(learner, audit.pairs_for(learner, 32, audits.keys()[0]))
    assert verdict.failed == () and verdict.spent.max() == pytest.approx(spent, rel=1e-5)


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
