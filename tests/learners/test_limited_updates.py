"""Limited updates: the law of a batch's draw, exactly how much it reveals, and regret."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, environments, noise, simulate_batches, sweep
from dpjax.cli import audits
from dpjax.learners.limited_updates import limited_updates
from dpjax.learners.parts import selectors
from dpjax.maths import exact_sums
from tests.play import play_table


def probabilities(total, epsilon):
    return jax.nn.softmax(selectors.exponential(total, epsilon))


def permute_and_flip(total, epsilon):
    return jax.nn.softmax(selectors.permute_and_flip(total, epsilon))


def play(learner, losses, keys):
    """Arms (n, T)."""
    return jax.vmap(lambda key: play_table(learner, losses, key).actions[:-1])(keys)


def table(horizon, arms=3):
    return np.array(jr.uniform(jr.key(1), (horizon, arms)))


def p_by_hand(total, epsilon):
    """exp(-epsilon S / 2), normalized, in float64."""
    weights = np.exp(-epsilon / 2 * (np.asarray(total, np.float64) - np.min(total)))
    return weights / weights.sum()


@pytest.mark.parametrize("epsilon", [0.7, 20.0])
def test_games_by_hand(epsilon):
    """300 games equal a float64 loop over batches of 1, 2, 4, ... rounds, the last one cut short.

    At twice the epsilon, which is half the noise, they do not.
    """
    horizon = 45
    losses, keys = table(horizon), jr.split(jr.key(2), 300)
    learner = limited_updates(horizon, 3, epsilon=epsilon)
    played = np.asarray(play(learner, losses, keys))

    def by_hand(epsilon):
        drawn, total = np.zeros((300, horizon), int), np.zeros(3)
        for start in (1, 2, 4, 8, 16, 32):
            uniform = jax.vmap(lambda key, t=start - 1: jr.uniform(jr.fold_in(key, t)))(keys)
            p = p_by_hand(total, epsilon)
            batch = slice(start - 1, 2 * start - 1)
            arms = np.searchsorted(np.cumsum(p)[:-1], np.asarray(uniform), "right")
            drawn[:, batch] = arms[:, None]
            total = losses[batch].astype(np.float64).sum(0)
        return drawn

    np.testing.assert_array_equal(played, by_hand(epsilon))
    assert (played != by_hand(2 * epsilon)).mean() > 0.02


def test_each_round_is_used_once():
    """Under the same keys, other losses in one round change only arms of the next batch.

    At epsilon = 1000 and with nearly equal losses, so that one loss changes many draws.
    """
    horizon = 31
    losses, keys = np.full((horizon, 3), 0.5, np.float32), jr.split(jr.key(3), 20)
    learner = limited_updates(horizon, 3, epsilon=1000.0)
    changed = np.where(np.eye(horizon, dtype=bool)[:, :, None], [1.0, 0.4, 1.0], losses)
    tables = np.concatenate([losses[None], changed]).astype(np.float32)
    before, *played = np.asarray(
        jax.jit(jax.vmap(lambda table: play(learner, table, keys)))(tables)
    )
    for t, after in enumerate(played, start=1):
        differs = (after != before).any(0)
        following = 2 ** (int(np.log2(t)) + 1)
        expected = np.zeros(horizon, bool)
        expected[following - 1 : 2 * following - 1] = True
        np.testing.assert_array_equal(differs, expected)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_log_ratios_of_all_small_games(epsilon):
    """Arms of 8 rounds, exactly: over all tables of 2 arms with losses 0 and 1.

    Three draws see data, from 1, 2 and 4 rounds. No replaced round changes the game's
    log-likelihood by more than epsilon, which longer batches attain.
    """

    def worst(rounds, epsilon):
        rows = np.array(list(itertools.product([0.0, 1.0], repeat=2)), np.float32)
        index = np.array(list(itertools.product(range(4), repeat=rounds)))
        totals = exact_sums.of(rows[index].sum(1))
        p = jax.vmap(probabilities, (0, None))(totals, jnp.float32(epsilon))
        logs = np.log(np.asarray(p, np.float64)).reshape(*[4] * rounds, 2)
        return max((logs.max(axis) - logs.min(axis)).max() for axis in range(rounds))

    ratios = [worst(rounds, epsilon) for rounds in (1, 2, 4)]
    assert max(ratios) <= epsilon * (1 + 1e-5)
    # Twice epsilon, that is half the noise, exceeds the declaration.
    assert worst(4, 2.05 * epsilon) > epsilon
    # Attained by an arm far behind the leader, if a round turns from favouring one to favouring the
    # other.
    far = np.ceil(40 / epsilon)
    before, after = (
        np.log(probabilities(exact_sums.of(jnp.float32(total)), jnp.float32(epsilon)))[1]
        for total in ([0.0, far, far], [1.0, far - 1, far])
    )
    assert 0.99 * epsilon < after - before <= epsilon + 1e-5


def test_declared_privacy():
    """epsilon itself, pure, and the rho of one exponential mechanism of width epsilon."""
    for epsilon in (1e-9, 0.5, 7.0):
        privacy = limited_updates(100, 3, epsilon=epsilon).privacy
        assert float(privacy.epsilon) == np.float32(epsilon)
        assert privacy.delta == 0.0
        assert float(privacy.rho) == pytest.approx(epsilon**2 / 8, rel=1e-6)
    assert np.isinf(limited_updates(100, 3, epsilon=np.inf).privacy.epsilon)


def test_infinite_epsilon_follows_the_leader_of_the_batch():
    """The best arm of the previous batch, uniformly among ties; and nothing is nan."""
    losses = table(60)
    learner = limited_updates(60, 3, epsilon=np.inf)
    played = np.asarray(play(learner, losses, jr.split(jr.key(5), 50)))
    for start in (1, 2, 4, 8, 16):
        leader = losses[start - 1 : 2 * start - 1].sum(0).argmin()
        assert (played[:, 2 * start - 1 : 4 * start - 1] == leader).all()
    assert set(played[:, 0]) == {0, 1, 2}
    p = probabilities(exact_sums.of(jnp.float32([3.0, 2.0, 2.0, 9.0])), jnp.float32(jnp.inf))
    np.testing.assert_array_equal(p, [0.0, 0.5, 0.5, 0.0])
    p = probabilities(exact_sums.of(jnp.float32([2.0, 2.0])), jnp.float32(1e-9))
    np.testing.assert_array_equal(p, [0.5, 0.5])


def bound(horizon, arms, epsilon):
    log_arms = np.log(arms)
    noise = 4 * log_arms * np.log2(horizon) / epsilon
    return 1 + 3.42 * np.sqrt(horizon * log_arms) + noise


def test_regret_is_within_its_bound_on_iid_losses():
    """Mean over 400 games, for an easy and a hard instance; more privacy costs more."""
    horizon, trials = 2048, 400
    epsilons = np.array([0.05, 0.5, 5.0, np.inf])
    for means in ([0.2, 0.8, 0.8, 0.8], [0.45, 0.5, 0.5, 0.5]):

        def game(epsilon, means=means):
            learner = limited_updates(horizon, 4, epsilon=epsilon)
            return learner, environments.bernoulli(means, regret="pseudo")

        result = sweep(game, epsilons, trials, jr.key(6), checkpoints=1, progress=False)
        regret = result.regret[:, :, -1]
        error = regret.std(1) / np.sqrt(trials)
        assert (regret.mean(1) + 4 * error <= bound(horizon, 4, epsilons)).all()
        assert (np.diff(regret.mean(1)) < 4 * error[1:]).all()


def test_regret_is_linear_against_an_adversary():
    """Losses that switch with every batch mislead it: its bound is for i.i.d. losses only."""
    horizon = 2**11 - 1
    rounds = np.arange(1, horizon + 1)
    odd = np.floor(np.log2(rounds)) % 2
    losses = np.stack([odd, 1 - odd], 1).astype(np.float32)

    def game(epsilon):
        return limited_updates(horizon, 2, epsilon=epsilon), environments.table(losses)

    result = sweep(game, np.array([np.inf]), 20, jr.key(7), checkpoints=1, progress=False)
    assert result.regret[0, :, -1].min() > horizon / 2
    assert horizon / 2 > bound(horizon, 2, np.inf)


def test_losses_outside_the_range_are_clipped_before_they_are_summed():
    """-5 acts as 0 and 9 as 1: one extreme loss changes a sum by at most 1."""
    wild = 4 * table(31) - 1.5
    learner, keys = limited_updates(31, 3, epsilon=2.0), jr.split(jr.key(8), 100)
    tame = play(learner, np.clip(wild, 0.0, 1.0), keys)
    np.testing.assert_array_equal(play(learner, wild, keys), tame)


def test_batches_fill_any_horizon():
    """Lengths double up to 2^30, the limit of int32 rounds, and no further."""
    learner = limited_updates(2**31 - 1, 3, epsilon=1.0)
    state, batch = learner.init(jr.key(0))
    lengths = [int(batch.rounds)]
    for _ in range(31):
        state, batch = learner.step(state, jr.key(0), exact_sums.nothing((3,)))
        lengths.append(int(batch.rounds))
    assert lengths == [2**j for j in range(31)] + [2**30]


def test_play_by_batches_is_refused():
    """An environment sums a batch's losses of one arm, not of all."""
    learner = limited_updates(64, 2, epsilon=1.0)
    environment = environments.bernoulli([0.2, 0.5], regret="pseudo")
    with pytest.raises(ValueError, match="bandit feedback"):
        simulate_batches(learner, environment, jr.key(0))


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


@pytest.mark.parametrize("arms", [50, 51, 1000])
def test_permute_and_flip_of_many_arms(arms):
    """Level arms are equally likely, as by exact integration; at epsilon = inf so are ties."""
    level = permute_and_flip(exact_sums.nothing((arms,)), jnp.float32(1.0))
    np.testing.assert_allclose(level, 1 / arms, rtol=1e-5)
    some = exact_sums.of(jnp.arange(arms, dtype=jnp.float32) // 2)
    p = permute_and_flip(some, jnp.float32(jnp.inf))
    np.testing.assert_array_equal(p, np.where(np.arange(arms) < 2, np.float32(0.5), 0.0))


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


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_log_ratios_of_permute_and_flip(epsilon):
    """At most epsilon, and nearly that somewhere; half the noise exceeds it."""
    found = largest_log_ratio(permute_and_flip, epsilon)
    assert 0.8 * epsilon < found <= epsilon * (1 + 1e-4)
    assert largest_log_ratio(lambda s, e: permute_and_flip(s, 2 * e), epsilon) > 1.5 * epsilon


@pytest.mark.parametrize("selector", ["permute_and_flip", "laplace"])
@pytest.mark.usefixtures("quick_compilation")
def test_other_selectors_spend_no_more_than_they_declare(selector):
    """By replay; and all mutants are found."""
    learner = audits.build("limited_updates", "", 16, 1.0, selector=selector)
    assert float(learner.privacy.epsilon) == 1.0 and float(learner.privacy.rho) == 0.5
    pairs = audit.pairs_for(learner, 32, audits.keys()[0])
    verdict = audits.replays(learner, pairs)
    assert verdict.failed == () and verdict.spent.max() > 0.6
    mistakes = audit.replayed_mutants(learner, pairs, jr.key(1))
    assert len(mistakes) >= 3 and all(found.failed for found in mistakes.values())


@pytest.mark.usefixtures("quick_compilation")
def test_the_printed_laplace_selector_spends_twice_what_the_paper_states():
    """Two sums change in opposite directions; also exactly, by the law of two arms far apart."""
    learner = audits.build(
        "limited_updates", "", 16, 1.0, selector="laplace", calibration="printed"
    )
    declared = learner.privacy
    assert (float(declared.epsilon), float(declared.paper_epsilon)) == (2.0, 1.0)
    verdict = audits.replays(learner, audit.pairs_for(learner, 32, audits.keys()[0]))
    assert verdict.failed == () and verdict.spent.max() == pytest.approx(2.0, rel=1e-5)

    def behind(gap):
        """P(Z - Z' > gap) for two Laplace variables of scale 1."""
        return (2 + gap) * np.exp(-gap) / 4

    exact = np.log(behind(40.0) / behind(42.0))
    assert 1.9 < exact < 2.0


def test_the_least_noisy_value_has_its_law():
    """10^5 draws of two values against the formula; at scale 0 ties are drawn uniformly."""
    keys = jr.split(jr.key(4), 100_000)
    draw = jax.jit(jax.vmap(noise.least, (0, None, None)))
    second = np.asarray(draw(keys, jnp.float32([0.0, 3.0]), jnp.float32(2.0))).mean()
    x = 1.5
    assert second == pytest.approx((2 + x) * np.exp(-x) / 4, abs=4 * 0.5 / 100_000**0.5)
    ties = np.asarray(draw(keys, jnp.float32([1.0, 0.0, 0.0]), jnp.float32(0.0)))
    assert (ties > 0).all() and abs(ties.mean() - 1.5) < 4 * 0.5 / 100_000**0.5


@pytest.mark.parametrize("selector", ["exponential", "permute_and_flip", "laplace"])
def test_regret_at_fixed_gaps_does_not_grow(selector):
    """From T = 2^12 to 2^16 within 3 standard errors, and within a bound that does not grow."""
    means, trials = [0.3, 0.6, 0.6, 0.7], 300
    found = []
    for horizon in (2**12, 2**16):

        def game(epsilon, horizon=horizon):
            learner = limited_updates(horizon, 4, epsilon=epsilon, selector=selector)
            return learner, environments.bernoulli(means, regret="pseudo")

        result = sweep(game, np.array([0.3]), trials, jr.key(7), checkpoints=1, progress=False)
        regret = result.regret[0, :, -1]
        found.append((regret.mean(), regret.std() / trials**0.5))
    (short, error), (long, other) = found
    assert abs(long - short) < 3 * np.hypot(error, other)
    bounded = [
        bounds.limited_updates_gaps(T, means, 0.3, selector=selector) for T in (2**16, 2**40)
    ]
    assert long + 3 * other < bounded[0] == pytest.approx(bounded[1])
    assert bounded[0] < bounds.limited_updates(2**16, 4, 0.3, selector=selector)


def test_a_printed_calibration_is_that_of_laplace_noise_alone():
    with pytest.raises(ValueError, match="calibration must be one of derived"):
        limited_updates(16, 3, epsilon=1.0, calibration="printed")
    with pytest.raises(ValueError, match="selector must be one of"):
        limited_updates(16, 3, epsilon=1.0, selector="gumbel")
