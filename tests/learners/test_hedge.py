"""Hedge: its draws, and exactly how much they reveal."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, environments, sweep
from dpjax.audit import Pair
from dpjax.cli import audits
from dpjax.combinators import tracking
from dpjax.learners.hedge import declared_epsilon, hedge, logits
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum
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


def law(losses, rate):
    """P_t (..., T, K) of rounds 1..T on tables (..., T, K), as the learner computes it."""
    losses = jnp.asarray(losses, jnp.float32)
    before = jnp.cumsum(losses, axis=-2) - losses

    def of_round(before):
        return jax.nn.softmax(logits(exact_sums.of(before), jnp.float32(rate)))

    p = jnp.vectorize(of_round, signature="(k)->(k)")(before)
    return np.asarray(p, np.float64)


def largest_log_ratio(ours, theirs):
    """The largest log-ratio of an arm sequence; draws on one table are independent."""
    return (np.log(ours) - np.log(theirs)).max(-1).sum(-1)


def play(learner, losses, keys):
    """Arms (n, T + 1), and the last states, in NumPy."""
    return played(learner, losses, keys)[:2]


def played(learner, losses, keys):
    """As ``play``, with the number of clipped losses, (n,)."""

    def game(key):
        made = play_table(learner, losses, key)
        return made.actions, made.last, made.clipped

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(game))(keys))


@pytest.mark.parametrize("epsilon", [2.0, np.inf])
def test_games_by_hand(epsilon):
    """100 games equal a float64 loop; with twice the rate, which is half the noise, they do not."""
    horizon, arms = 40, 3
    losses = np.array(jr.uniform(jr.key(1), (horizon, arms)))
    keys = jr.split(jr.key(2), 100)
    played, state = play(hedge(horizon, arms, epsilon=epsilon), losses, keys)
    rounds = jnp.arange(horizon)
    uniforms = jax.vmap(lambda key: jax.vmap(lambda t: jr.uniform(jr.fold_in(key, t)))(rounds))
    uniforms = np.asarray(uniforms(keys))

    def by_hand(rate):
        total, drawn = np.zeros(arms), []
        for t in range(horizon):
            p = np.exp(-rate * total)
            drawn.append(np.searchsorted(np.cumsum(p / p.sum())[:-1], uniforms[:, t], "right"))
            total += losses[t].astype(np.float64)
        return np.stack(drawn, axis=1), total

    rate = rate_by_hand(horizon, arms, epsilon, horizon**-2.0)
    expected, total = by_hand(rate)
    np.testing.assert_array_equal(played[:, :horizon], expected)
    np.testing.assert_allclose(exact_sums.to_float(state)[0], total, rtol=1e-6)
    assert (expected != by_hand(2 * rate)[0]).mean() > 0.02
    assert (rate < plain_by_hand(horizon, arms)) == np.isfinite(epsilon)


@pytest.mark.parametrize("delta", [None, 1e-30, 1e-6, 0.5])
@pytest.mark.parametrize("horizon", [1, 2, 16, 2**10, 2**20])
def test_declared_epsilon(horizon, delta):
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


def test_both_accountants_are_used():
    """At a tiny delta a few draws sum to less than their zCDP; many draws do not."""
    for horizon, by_sum in [(8, True), (4096, False)]:
        privacy = hedge(horizon, 4, epsilon=1.0, delta=1e-30).privacy
        rate = np.sqrt(2 * float(privacy.rho) / (horizon - 1))
        assert (2 * rate * (horizon - 1) == pytest.approx(1.0, rel=1e-5)) == by_sum


@pytest.mark.parametrize(("horizon", "arms"), [(5, 2), (4, 3)])
@pytest.mark.parametrize("rate", [0.05, 0.5, 2.0])
def test_log_ratios_of_all_small_games(horizon, arms, rate):
    """Over all 0/1 loss tables and all replaced rounds: never above 2 eta per draw.

    No draw's log-ratios leave a window of length 2 eta. Arms of the whole game, exactly.
    """
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=arms)))
    index = np.array(list(itertools.product(range(len(rows)), repeat=horizon - 1)))
    tables = np.concatenate([rows[index], np.zeros((len(index), 1, arms))], axis=1)
    p = np.log(law(tables, rate)).reshape(*[len(rows)] * (horizon - 1), horizon, arms)
    worst = 0.0
    for axis in range(horizon - 1):
        for shift in range(1, len(rows)):
            ratios = p - np.roll(p, shift, axis)
            assert np.ptp(ratios, axis=-1).max() <= 2 * rate + 1e-5
            worst = max(worst, ratios.max(-1).sum(-1).max())
    declared = 2 * rate * (horizon - 1)
    assert declared / 2 < worst <= declared * (1 + 1e-5)


def test_the_sum_of_log_ratios_is_tight():
    """If one arm has all the weight, the others have log-ratios near 2 eta in every round."""
    horizon, arms = 40, 64
    learner = hedge(horizon, arms, epsilon=60.0, delta=1e-30)
    rate = rate_of(learner)
    assert float(learner.privacy.epsilon) == pytest.approx(2 * rate * (horizon - 1), rel=1e-5)
    best = np.arange(arms) == 0
    ours = np.where(best, 0.0, 1.0) * np.ones((horizon, 1))
    theirs = ours.copy()
    ours[0], theirs[0] = best, ~best
    exact = largest_log_ratio(law(ours, rate), law(theirs, rate))
    assert 0.8 * 60 < exact <= 60
    # Half the noise exceeds the declaration.
    assert largest_log_ratio(law(ours, 2 * rate), law(theirs, 2 * rate)) > 1.6 * 60


def exact_delta(p, q, draws, epsilon):
    """delta at epsilon of ``draws`` independent draws from (p, 1 - p) against (q, 1 - q)."""
    count = np.arange(draws + 1)
    ours, theirs = (stats.binom.pmf(count, draws, x) for x in (p, q))
    return np.maximum(ours - np.exp(epsilon) * theirs, 0.0).sum()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-6), (3.0, 1e-5)])
def test_delta_of_a_game_whose_first_round_is_replaced(epsilon, delta):
    """Two arms, losses (1, 0) or (0, 1) and then none: T - 1 equal draws, exact by binomials."""
    horizon = 2000
    learner = hedge(horizon, 2, epsilon=epsilon, delta=delta)
    declared = float(learner.privacy.epsilon)
    assert declared == pytest.approx(epsilon, rel=1e-5)
    ours = np.zeros((2, 2))
    ours[0, 0] = 1.0

    def delta_at(rate):
        p, q = (law(losses, rate)[1, 0] for losses in (ours, ours[:, ::-1]))
        return exact_delta(p, q, horizon - 1, declared)

    rate = rate_of(learner)
    # (The conversion from zCDP is loose: by factors of 125 to 440 here.)
    assert delta / 1000 < delta_at(rate) <= delta
    # Half the noise exceeds the declaration.
    assert delta_at(2 * rate) > 2 * delta


def test_probabilities_of_large_sums():
    """softmax(-eta L) for sums near a million that differ by little: to 1e-5, against float64."""
    whole = np.array([2**30, 2**30 + 1, 2**30 + 700, 2**31 - 1], np.int32)
    part = np.array([0.75, 0.0, 0.5, 0.0])
    exact = np.exp(-0.01 * (whole.astype(np.float64) + part - 2**30))
    units = (part * 2**30).astype(np.int32)
    sums = ExactSum(jnp.asarray(whole), jnp.asarray(units))
    p = jax.nn.softmax(logits(sums, jnp.float32(0.01)))
    np.testing.assert_allclose(p, exact / exact.sum(), rtol=1e-5, atol=1e-12)


def adversarial(horizon, arms):
    """Losses 1 for the leading half of the arms, and 0 for the others, so that Hedge is behind."""
    total, losses = np.zeros(arms), np.zeros((horizon, arms), np.float32)
    for t in range(horizon):
        losses[t, np.argsort(total + 1e-6 * np.arange(arms))[: arms // 2]] = 1.0
        total += losses[t]
    return losses


def test_regret_is_within_its_bound():
    """Mean over 400 games on an adversary's table; at least a third of sqrt(T ln K / 2)."""
    horizon, arms, trials = 1024, 8, 400
    losses = adversarial(horizon, arms)
    # From the middle on there is a best arm, with enough time to find it.
    losses[horizon // 2 :, 1:] = np.maximum(losses[horizon // 2 :, 1:], 0.5)
    epsilons = np.array([0.5, 5.0, np.inf])

    def game(epsilon):
        return hedge(horizon, arms, epsilon=epsilon), environments.table(losses)

    result = sweep(game, epsilons, trials, jr.key(4), checkpoints=1, progress=False)
    mean = result.regret[:, :, -1].mean(1)
    error = result.regret[:, :, -1].std(1) / np.sqrt(trials)
    rates = np.array([rate_of(game(epsilon)[0]) for epsilon in epsilons])
    bound = np.log(arms) / rates + rates * horizon / 8
    assert (mean + 4 * error <= bound).all()
    assert bound[-1] == pytest.approx(np.sqrt(horizon * np.log(arms) / 2), rel=1e-5)
    assert mean[-1] > bound[-1] / 3


def test_traced_arguments_give_the_same_declaration():
    """Under jit and vmap, with epsilon and delta traced."""

    def declared(epsilon, delta):
        return hedge(100, 3, epsilon=epsilon, delta=delta).privacy.epsilon

    epsilons, deltas = np.float32(EPSILONS), np.geomspace(1e-8, 0.1, 8).astype(np.float32)
    traced = jax.jit(jax.vmap(declared))(epsilons, deltas)
    by_one = [declared(float(e), float(d)) for e, d in zip(epsilons, deltas, strict=True)]
    np.testing.assert_allclose(traced, by_one, rtol=1e-6)
    assert float(declared_epsilon(100, jnp.float32(0.0), 0.1)[0]) == 0.0


def test_losses_outside_the_range_are_clipped_and_counted():
    """-3 acts as 0 and 7 as 1; exactly these entries are counted."""
    wild = jnp.array([[-3.0, 0.5, 7.0], [0.0, 1.0, 1.5], [0.2, 0.3, 0.4]])
    learner = hedge(4, 3, epsilon=1.0)
    arms, state, clipped = played(learner, wild, jr.key(0)[None])
    tame_arms, tame, none = played(learner, jnp.clip(wild, 0.0, 1.0), jr.key(0)[None])
    np.testing.assert_array_equal(arms, tame_arms)
    jax.tree.map(np.testing.assert_array_equal, state, tame)
    assert (clipped, none) == (3, 0)


# Fixed share ---------------------------------------------------------------------------------


def test_sharing_nothing_is_hedge_draw_for_draw():
    """With a positive share, arms are drawn from the law computed by hand in float64."""
    horizon, arms = 60, 3
    losses = np.array(jr.uniform(jr.key(1), (horizon, arms)))
    keys = jr.split(jr.key(2), 50)
    for epsilon in (1.0, np.inf):
        plain = play(hedge(horizon, arms, epsilon=epsilon), losses, keys)[0]
        shared = play(hedge(horizon, arms, epsilon=epsilon, share=0.0), losses, keys)[0]
        np.testing.assert_array_equal(shared, plain)
    share, rate = 0.1, 0.4
    played, state = play(hedge(horizon, arms, epsilon=np.inf, rate=rate, share=share), losses, keys)
    p = np.full(3, 1 / 3)
    laws = [p]
    for row in losses.astype(np.float64):
        v = p * np.exp(-rate * row)
        p = (1 - share) * v / v.sum() + share / 3
        laws.append(p)
    one = jax.tree.map(lambda leaf: leaf[0], state)
    np.testing.assert_allclose(jax.nn.softmax(logits(one, rate)), p, rtol=1e-5)
    levels = np.array(
        [[float(jr.uniform(jr.fold_in(key, t))) for t in range(horizon + 1)] for key in keys[:5]]
    )
    expected = [
        [np.searchsorted(np.cumsum(p)[:-1], u, "right") for p, u in zip(laws, row, strict=True)]
        for row in levels
    ]
    np.testing.assert_array_equal(played[:5], expected)


@pytest.mark.parametrize("share", [0.0, 1e-42])
def test_an_arm_that_fell_far_behind_comes_back(share):
    """Sharing nothing is Hedge after any losses. A law kept instead of sums stayed at 0 forever."""
    rounds = 400
    learner = hedge(20_000, 2, epsilon=np.inf, rate=1.0, share=share)
    plain = hedge(20_000, 2, epsilon=np.inf, rate=1.0)
    losses = np.repeat([[0.0, 1.0], [1.0, 0.0]], rounds // 2, axis=0).astype(np.float32)
    states = [play(x, losses, jr.split(jr.key(2), 1))[1] for x in (learner, plain)]
    jax.tree.map(np.testing.assert_array_equal, *states)
    one = jax.tree.map(lambda leaf: leaf[0], states[0])
    np.testing.assert_array_equal(jax.nn.softmax(logits(one, 1.0)), [0.5, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("share", [None, 0.0, 1e-42, 1e-3])
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
    assert found.failed == ()
    less = learner.privacy._replace(epsilon=learner.privacy.epsilon / 50, rho=jnp.float32(0.0))
    assert "epsilon" in audits.replays(learner._replace(privacy=less), pairs).failed


def test_sharing_declares_what_hedge_declares_and_spends_no_more():
    """Rates set by epsilon are the same; half of the declaration is too little."""
    plain = hedge(16, 3, epsilon=0.5).privacy
    for share in (0.0, 0.02, 0.3):
        declared = hedge(16, 3, epsilon=0.5, share=share).privacy
        # There is no paper's epsilon: a NaN, which equals nothing.
        assert np.isnan(declared.paper_epsilon) and np.isnan(plain.paper_epsilon)
        assert declared._replace(paper_epsilon=0.0) == plain._replace(paper_epsilon=0.0)
    learner = hedge(16, 3, epsilon=0.5, rate=1.0, share=0.02)
    pairs = audit.pairs_for(learner, 8, audits.keys()[0])
    assert audits.replays(learner, pairs).failed == ()
    declared = learner.privacy._replace(epsilon=learner.privacy.epsilon / 4, rho=jnp.float32(0.0))
    assert "epsilon" in audits.replays(learner._replace(privacy=declared), pairs).failed


def test_sharing_tracks_an_arm_that_shifts():
    """Against 3 shifts: within the bound of fixed share, and far below Hedge without sharing."""
    horizon, arms, trials = 1024, 4, 50
    best = np.repeat([0, 1, 2, 3], horizon // 4)
    losses = np.where(np.arange(arms) == best[:, None], 0.0, 1.0).astype(np.float32)

    def game(share):
        learner = hedge(horizon, arms, epsilon=np.inf, share=share)
        return learner, tracking(environments.table(losses), 3)

    shares = np.array([0.0, 3 / (horizon - 1)])
    result = sweep(game, shares, trials, jr.key(6), checkpoints=1, progress=False)
    without, sharing = result.regret[:, :, -1].mean(1)
    largest = 8 * (bounds.fixed_share(horizon, arms, 1.0, 3) - horizon / 8)
    bound = bounds.fixed_share(horizon, arms, np.sqrt(largest / horizon), 3)
    assert sharing <= bound < without / 3


@pytest.mark.parametrize("share", [-0.1, 0.6, np.nan])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ValueError, match="share must be"):
        hedge(16, 3, epsilon=1.0, share=share)


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


def test_the_printed_rate_without_privacy_is_that_of_hedge():
    """The best rate without privacy caps it, also in the paper's statement."""
    plain = hedge(64, 3, epsilon=np.inf)
    for epsilon in (np.inf, 1e4):
        printed = hedge(64, 3, epsilon=epsilon, calibration="printed")
        assert float(printed.privacy.rho) == float(plain.privacy.rho)
        assert np.isfinite(float(printed.privacy.paper_epsilon))
    with pytest.raises(ValueError, match="share must be None"):
        hedge(64, 3, epsilon=1.0, share=0.1, calibration="printed")
