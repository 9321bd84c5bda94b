"""Bandit learners in the local model: their inputs, their cost, and their declarations."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, environments, learners, noise, simulate, trajectory
from dpjax.combinators import (
    every_round,
    laplace_feedback,
    minibatch,
    randomized_coordinate,
    randomized_response,
    rescale_losses,
)
from dpjax.core import Arms, Batch, BatchLearner, Learner, Privacy
from dpjax.feedback import bandit, clip_seen, full, seen_inside

quickly = pytest.mark.usefixtures("quick_compilation")


class Fed(NamedTuple):
    last: Any  # () the last input


def keeping(feedback=bandit, arms=2):
    """A learner that plays arm 0 and stores its inputs."""

    def init(key):
        del key
        return Fed(jnp.zeros(())), jnp.zeros((), jnp.int32)

    def step(state, key, loss):
        del state, key
        return Fed(loss), jnp.zeros((), jnp.int32)

    return Learner(init, step, feedback, Arms(arms), 8, Privacy(), lambda state: state.last)


def fed(learner, losses, seed=0):
    """The base's input in the first round for each loss, with separate keys."""
    state, _ = learner.init(jr.key(0))

    def one(key, loss):
        inside, clipped = clip_seen(learner, loss)
        after, _ = learner.step(state, key, inside)
        return after.last, clipped

    keys = jr.split(jr.key(seed), len(losses))
    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(keys, jnp.asarray(losses, jnp.float32))]


# Inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_base_is_fed_bits_of_the_law_of_two_coins(epsilon):
    """A coin whose bias is the loss, then a flip, in NumPy; half the flips are rejected."""
    n, flip = 20_000, 1.0 / (1.0 + np.exp(epsilon))
    learner = randomized_response(keeping(), epsilon=epsilon)
    rng = np.random.default_rng(0)
    for loss in (0.0, 0.3, 1.0):
        bits, _ = fed(learner, np.full(n, loss), seed=int(10 * loss))
        assert set(np.unique(bits)) == {0.0, 1.0}
        for rate, least, most in ((flip, 1e-3, 1.0), (flip / 2.0, 0.0, 1e-6)):
            loops = (rng.random(n) < loss) ^ (rng.random(n) < rate)
            table = [[bits.sum(), n - bits.sum()], [loops.sum(), n - loops.sum()]]
            # Half the flips of a loss near 1/2 hardly show.
            if rate == flip or loss != 0.3:
                assert least <= stats.chi2_contingency(table).pvalue <= most


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 10.0, 15.0, 40.0])
def test_a_float32_coin_tells_losses_apart_by_no_more_than_epsilon(monkeypatch, epsilon):
    """Its probabilities are multiples of 2^-23, like its draws, for losses at both ends."""
    asked = []

    def record(key, probability):
        asked.append(np.float64(probability))
        return jnp.bool(True)

    monkeypatch.setattr(noise, "coin", record)
    learner = randomized_response(keeping(), epsilon=epsilon)
    state, _ = learner.init(jr.key(0))
    for loss in (0.0, 1.0, 0.999999, 1e-6):
        learner.step(state, jr.key(1), jnp.float32(loss))
    low, high = asked[:2]
    assert (2.0**23 * low).is_integer() and high == 1.0 - low
    assert low <= min(asked) and max(asked) <= high
    assert np.log(high / low) <= epsilon
    assert np.log(high / low) >= (0.999 * epsilon - 2e-7 if epsilon <= 10.0 else 14.8)


def test_no_flips_at_infinite_epsilon_and_losses_are_clipped_and_counted():
    learner = randomized_response(keeping(), epsilon=np.inf)
    bits, clipped = fed(learner, [0.0, 1.0, -3.0, 7.0, np.inf, np.nan, -0.0])
    assert bits.tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert clipped.tolist() == [0, 0, 1, 1, 1, 1, 0]
    assert learner.horizon == 8 and learner.feedback is bandit


def test_coin_and_base_have_keys_of_their_own():
    def step(state, key, loss):
        return Fed(jr.uniform(key)), jnp.zeros((), jnp.int32)

    learner = randomized_response(keeping()._replace(step=step), epsilon=1.0)
    coin_key, base_key = jr.split(jr.key(3))
    after, _ = learner.step(learner.init(jr.key(0))[0], jr.key(3), jnp.float32(0.0))
    assert after.last == jr.uniform(base_key) != jr.uniform(coin_key)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_sums_of_bits_have_the_law_of_flips_one_by_one(epsilon):
    """12 rounds, 3 of them with loss 1: chi-square against loops; half the flips are rejected."""
    n, ones, rounds = 20_000, 3, 12

    def step(state, key, total):
        del key
        return Fed(total.whole), Batch(jnp.zeros((), jnp.int32), jnp.int32(rounds))

    base = BatchLearner(
        init=lambda key: (Fed(jnp.int32(0)), Batch(jnp.zeros((), jnp.int32), jnp.int32(rounds))),
        step=step, feedback=bandit, action_set=Arms(2),
        horizon=16, privacy=Privacy(), report=lambda state: state.last,
    )  # fmt: skip
    learner = every_round(randomized_response(base, epsilon=epsilon))
    losses = (jnp.arange(rounds) < ones).astype(jnp.float32)

    @jax.jit
    @jax.vmap
    def play(key):
        state, action = learner.init(key)

        def one_round(carry, loss):
            state, key = carry
            key, own = jr.split(key)
            seen, _ = seen_inside(learner, jnp.stack([loss, 1.0 - loss]), action)
            return (learner.step(state, own, seen)[0], key), ()

        (state, _), _ = jax.lax.scan(one_round, (state, key), losses)
        return learner.report(state)

    drawn = np.asarray(play(jr.split(jr.key(0), n)))
    assert drawn.dtype == np.int32
    bits, rng = np.arange(rounds) < ones, np.random.default_rng(0)
    flip = 1.0 / (1.0 + np.exp(epsilon))
    for rate, least, most in ((flip, 1e-3, 1.0), (flip / 2.0, 0.0, 1e-6)):
        loops = (bits ^ (rng.random((n, rounds)) < rate)).sum(axis=1)
        table = np.stack([np.bincount(x, minlength=rounds + 1) for x in (drawn, loops)])
        frequent = table.sum(axis=0) >= 20
        rare = table[:, ~frequent].sum(axis=1, keepdims=True)
        table = np.concatenate([table[:, frequent], rare], axis=1)
        assert least <= stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue <= most
    seen = [seen_inside(learner, jnp.array([loss, 0.2]), jnp.int32(0)) for loss in (0.7, np.nan)]
    assert [(float(bit), int(outside)) for bit, outside in seen] == [(1.0, 0), (0.0, 1)]


# Cost -----------------------------------------------------------------------------------------


def seen_mean(mean, epsilon):
    flip = 1.0 / (1.0 + np.exp(epsilon))
    return flip + (1.0 - 2.0 * flip) * np.asarray(mean)


def pulls(learner, means, seed, trials=200):
    """How often arm 1 is played in each trial."""
    environment = environments.bernoulli(means)

    def count(key):
        arms = trajectory(learner, environment, key, record=lambda played: played.action)
        return jnp.sum(arms == 1)

    return np.asarray(jax.jit(jax.vmap(count))(jr.split(jr.key(seed), trials)))


def test_kl_ucb_plays_as_without_privacy_on_the_means_of_the_bits():
    """By ranks of its pulls; on the means themselves it plays differently."""
    horizon, means, epsilon = 1000, [0.2, 0.5], 1.5
    plain = learners.kl_ucb(horizon, 2)
    local = pulls(randomized_response(plain, epsilon=epsilon), means, 0)
    alike = pulls(plain, seen_mean(means, epsilon), 1)
    assert stats.mannwhitneyu(local, alike).pvalue > 1e-3
    assert stats.mannwhitneyu(local, pulls(plain, means, 2)).pvalue < 1e-6
    assert stats.mannwhitneyu(local, pulls(plain, seen_mean(means, 3.0), 3)).pvalue < 1e-3


# Declarations ---------------------------------------------------------------------------------


def subject(name, epsilon=1.0, horizon=12):
    learner = randomized_response(getattr(learners, name)(horizon, 3), epsilon=epsilon)
    return learner, audit.pairs_for(learner, 16, jr.key(0))


SLOW = ["tsallis_inf", "ucb1", "thompson", "ttucb", "lucb"]


@quickly
@pytest.mark.parametrize(
    "name", ["kl_ucb", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)]
)
def test_a_changed_loss_touches_one_release_and_costs_epsilon(name):
    """All mutants are found, as is a flip half as likely as it should be."""
    learner, pairs = subject(name)
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.touched == 1
    assert found.spent.max() == pytest.approx(1.0, rel=1e-5)
    for mistake, caught in audit.replayed_mutants(learner, pairs, jr.key(1)).items():
        assert caught.failed, mistake
    half = 0.5 / (1.0 + np.e)
    halved, _ = subject(name, epsilon=float(np.log(1.0 / half - 1.0)))
    found = audit.verdict(halved._replace(privacy=learner.privacy), pairs, jr.key(1))
    assert found.failed == ("epsilon",) and found.spent.max() == pytest.approx(1.862, rel=1e-3)


def test_the_declaration_is_local():
    for base in (learners.kl_ucb(8, 2), learners.ttucb(8, 2)):
        declared = randomized_response(base, epsilon=0.3).privacy
        assert (declared.epsilon, declared.delta, declared.model) == (0.3, 0.0, "local")
        assert (declared.unit, declared.released) == ("round", "randomized losses 1..T")
    # Averages of losses that share one coin are central, and still private.
    batched = minibatch(randomized_response(learners.tsallis_inf(8, 2), epsilon=0.3), 8, 2)
    assert batched.privacy.model == "central"
    scaled = rescale_losses(randomized_response(learners.kl_ucb(8, 2), epsilon=0.3), -1.0, 1.0)
    assert scaled.privacy.loss_range == (-1.0, 1.0) and scaled.privacy.model == "local"


def test_any_bandit_learner_plays_on_randomized_losses():
    bases = [
        learners.exp3(32, 3)._replace(privacy=Privacy()),
        every_round(learners.ttucb(32, 3)),
        minibatch(learners.tsallis_inf(16, 3), 32, 2),
    ]
    for base in bases:
        learner = randomized_response(base, epsilon=1.0)
        result = simulate(learner, environments.bernoulli([0.2, 0.5, 0.8]), jr.key(0))
        assert np.isfinite(result.regret).all()


def test_a_traced_base_is_accepted_without_privacy_and_gives_nan_with_it():
    @jax.jit
    @jax.vmap
    def regret(epsilon):
        learner = randomized_response(learners.dp_imed(32, 2, epsilon=epsilon), epsilon=1.0)
        return simulate(
            learner, environments.bernoulli([0.2, 0.8]), jr.key(0), checkpoints=1
        ).regret

    found = regret(jnp.array([jnp.inf, 1.0]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


def test_what_is_not_randomized_is_refused():
    local = partial(randomized_response, epsilon=1.0)
    with pytest.raises(TypeError, match="learner must be a learner"):
        local(learners.kl_ucb)
    noisy = [
        learners.lazy_ucb(8, 2, epsilon=1.0),
        learners.exp3(8, 2),
        local(learners.ucb1(8, 2)),
        laplace_feedback(learners.ucb1(8, 2), epsilon=1.0, threshold=1.0, null_loss=0.0),
    ]
    for learner in noisy:
        with pytest.raises(ValueError, match="learner must declare no privacy of its own"):
            local(learner)
    for learner in (keeping(full), keeping()._replace(action_set=None)):
        with pytest.raises(ValueError, match="learner must play arms and see one number a round"):
            local(learner)
    with pytest.raises(ValueError, match="learner must be for losses in"):
        local(rescale_losses(learners.kl_ucb(8, 2), -1.0, 1.0))
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="epsilon"):
            randomized_response(learners.kl_ucb(8, 2), epsilon=bad)


# One loss of many -----------------------------------------------------------------------------


def hedge(horizon, arms, rate=None):
    return learners.hedge(horizon, arms, epsilon=np.inf, rate=rate)._replace(privacy=Privacy())


def test_one_loss_is_sent_and_half_stands_for_the_others():
    """Each position is equally likely, and has a bit from randomized response."""
    n, flip = 30_000, 1.0 / (1.0 + np.e)
    base = keeping(full, arms=3)
    start = lambda key: (Fed(jnp.zeros(3)), jnp.zeros((), jnp.int32))  # noqa: E731
    learner = randomized_coordinate(base._replace(init=start), epsilon=1.0)
    losses = np.array([0.0, 0.4, 1.0], np.float32)
    vectors, clipped = fed(learner, np.tile(losses, (n, 1)))
    sent = vectors != 0.5
    assert (sent.sum(axis=1) == 1).all() and not clipped.any()
    assert stats.chisquare(sent.sum(axis=0)).pvalue > 1e-3
    for place, loss in enumerate(losses):
        bits = vectors[sent[:, place], place]
        for rate, least, most in ((flip, 1e-3, 1.0), (0.8 * flip, 0.0, 1e-6)):
            if rate == flip or loss != np.float32(0.4):
                expected = rate + (1.0 - 2.0 * rate) * float(loss)
                pvalue = stats.binomtest(int(bits.sum()), len(bits), expected).pvalue
                assert least <= pvalue <= most
    assert fed(learner, [[2.0, 0.5, np.nan]])[1] == 2


@quickly
def test_a_changed_vector_of_losses_costs_epsilon_and_touches_one_release():
    learner = randomized_coordinate(hedge(12, 3), epsilon=1.0)
    pairs = audit.pairs_for(learner, 16, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.touched == 1
    assert found.spent.max() == pytest.approx(1.0, rel=1e-5)
    half = 0.5 / (1.0 + np.e)
    halved = randomized_coordinate(hedge(12, 3), epsilon=float(np.log(1.0 / half - 1.0)))
    found = audit.verdict(halved._replace(privacy=learner.privacy), pairs, jr.key(1))
    assert found.failed == ("epsilon",)


def test_hedge_on_one_loss_a_round_stays_below_its_bound():
    """On losses that are hard at this horizon, although it learns something."""
    horizon, arms, epsilon = 1000, 8, 1.0
    rate = float(np.sqrt(8 * arms * np.log(arms) / horizon))
    shrink = np.tanh(epsilon / 2.0)
    fed_bound = np.log(arms) / rate + rate * np.exp(rate / 2) * horizon / (8 * arms)
    bound = arms / shrink * fed_bound
    gap = 2.0 * np.sqrt(arms * np.log(arms) / horizon)
    means = [0.5 - gap, *(arms - 1) * [0.5]]
    environment = environments.bernoulli(means, regret="pseudo")
    learner = randomized_coordinate(hedge(horizon, arms, rate), epsilon=epsilon)

    def final(key):
        return simulate(learner, environment, key, checkpoints=1).regret[0]

    regret = np.asarray(jax.jit(jax.vmap(final))(jr.split(jr.key(0), 100)))
    assert 0.2 * bound < regret.mean() + 4 * regret.std() / 10 < bound
    assert regret.mean() < 0.9 * gap * horizon * (1 - 1 / arms)


def test_what_has_no_vector_of_losses_is_refused():
    local = partial(randomized_coordinate, epsilon=1.0)
    with pytest.raises(ValueError, match="learner must declare no privacy of its own"):
        local(learners.hedge(8, 2, epsilon=np.inf))
    policies = learners.linucb(8, 2, epsilon=np.inf, delta=1e-3)
    policies = policies._replace(privacy=Privacy())
    for learner in (learners.kl_ucb(8, 2), keeping(), policies):
        with pytest.raises(ValueError, match="learner must see a vector of losses"):
            local(learner)
    with pytest.raises(TypeError, match="learner must be a Learner"):
        local(learners.ttucb(8, 2))
    cube = learners.ftrl(8, domains.ball(2), epsilon=np.inf)
    with pytest.raises(ValueError, match="learner must be for losses in"):
        local(cube)
    declared = local(hedge(8, 2)).privacy
    assert (declared.epsilon, declared.model) == (1.0, "local")
