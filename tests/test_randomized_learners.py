"""Bandit learners in the local model: their inputs, their cost, and their declarations."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, environments, learners, noise, simulate
from dpjax.combinators import (
    every_round,
    minibatch,
    randomized_coordinate,
    randomized_response,
    rescale_losses,
)
from dpjax.core import Arms, Batch, BatchLearner, Learner, Privacy
from dpjax.feedback import bandit, clip_seen, full, seen_inside
from tests.test_randomized_response import homogeneity

ZERO = jnp.zeros((), jnp.int32)


class Fed(NamedTuple):
    last: Any  # the last input


def keeping(action=ZERO, feedback=bandit, actions=Arms(2), start=0.0, **fields):  # noqa: B008
    """A learner that always plays one action and stores its inputs."""
    first = Fed(jnp.zeros(()) + start), action
    made = Learner(
        lambda key: first, lambda state, key, loss: (Fed(loss), action), feedback, actions, 8,
        Privacy(), lambda state: state.last,
    )  # fmt: skip
    return made._replace(**fields)


def fed(learner, losses, seed=0):
    """The state after the first round for each loss, with separate keys; and the clipped losses."""

    def one(key, loss):
        inside, clipped = clip_seen(learner, loss)
        return learner.report(learner.step(learner.init(key)[0], key, inside)[0]), clipped

    keys = jr.split(jr.key(seed), len(losses))
    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(keys, jnp.asarray(losses, jnp.float32))]


def flip_of(epsilon):
    return 1.0 / (1.0 + np.exp(epsilon))


def hedge(horizon, arms, rate=None):
    return learners.hedge(horizon, arms, epsilon=np.inf, rate=rate)._replace(privacy=Privacy())


# Inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_base_is_fed_bits_of_the_law_of_two_coins(epsilon):
    """A coin whose bias is the loss, then a flip; half the flips are rejected."""
    n, flip = 20_000, flip_of(epsilon)
    learner = randomized_response(keeping(), epsilon=epsilon)
    for loss in (0.0, 0.3, 1.0):
        bits, _ = fed(learner, np.full(n, loss), seed=int(10 * loss))
        assert set(np.unique(bits)) == {0.0, 1.0}
        for rate, least, most in ((flip, 1e-3, 1.0), (flip / 2.0, 0.0, 1e-6)):
            # Half the flips of a loss near 1/2 hardly show.
            if rate == flip or loss != 0.3:
                expected = rate + (1.0 - 2.0 * rate) * loss
                assert least <= stats.binomtest(int(bits.sum()), n, expected).pvalue <= most


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


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_sums_of_bits_have_the_law_of_flips_one_by_one(epsilon):
    """12 rounds, 3 of them with loss 1: chi-square against loops; half the flips are rejected."""
    n, ones, batch = 20_000, 3, Batch(ZERO, jnp.int32(12))
    base = BatchLearner(
        lambda key: (ZERO, batch), lambda state, key, total: (total.whole, batch), bandit, Arms(2),
        16, Privacy(), lambda state: state,
    )  # fmt: skip
    learner = every_round(randomized_response(base, epsilon=epsilon))
    losses = (jnp.arange(12) < ones).astype(jnp.float32)

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

    drawn, rng = np.asarray(play(jr.split(jr.key(0), n))), np.random.default_rng(0)
    assert drawn.dtype == np.int32
    for part, least, most in ((1.0, 1e-3, 1.0), (0.5, 0.0, 1e-6)):
        flips = rng.random((n, 12)) < part * flip_of(epsilon)
        loops = ((np.arange(12) < ones) ^ flips).sum(axis=1)
        assert least <= homogeneity(drawn, loops) <= most
    seen = [seen_inside(learner, jnp.array([loss, 0.2]), jnp.int32(0)) for loss in (0.7, np.nan)]
    assert [(float(bit), int(outside)) for bit, outside in seen] == [(1.0, 0), (0.0, 1)]


# Cost -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "make",
    [
        lambda epsilon: randomized_response(learners.kl_ucb(12, 3), epsilon=epsilon),
        lambda epsilon: randomized_response(
            minibatch(learners.kl_ucb(4, 3), 12, 3), epsilon=epsilon
        ),
        lambda epsilon: randomized_coordinate(hedge(12, 3), epsilon=epsilon),
    ],
    ids=["rounds", "batches", "coordinate"],
)
def test_a_changed_loss_touches_one_release_and_costs_epsilon(make):
    """A flip half as likely as it should be is found."""
    learner = make(1.0)
    pairs = audit.pairs_for(learner, 16, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.touched == 1
    assert found.spent.max() == pytest.approx(1.0, rel=1e-5)
    halved = make(float(np.log(2.0 * (1.0 + np.e) - 1.0)))._replace(privacy=learner.privacy)
    found = audit.verdict(halved, pairs, jr.key(1))
    assert found.failed == ("epsilon",) and found.spent.max() == pytest.approx(1.862, rel=1e-3)


# Declarations ---------------------------------------------------------------------------------


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


def test_a_traced_base_is_accepted_without_privacy_and_gives_nan_with_it():
    @jax.jit
    @jax.vmap
    def regret(epsilon):
        learner = randomized_response(learners.dp_imed(32, 2, epsilon=epsilon), epsilon=1.0)
        environment = environments.bernoulli([0.2, 0.8])
        return simulate(learner, environment, jr.key(0), checkpoints=1).regret

    found = regret(jnp.array([jnp.inf, 1.0]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


# One loss of many -----------------------------------------------------------------------------


def test_one_loss_is_sent_and_half_stands_for_the_others():
    """Each position is equally likely, and has a bit from randomized response."""
    n, losses = 30_000, np.array([0.0, 0.4, 1.0], np.float32)
    base = keeping(feedback=full, actions=Arms(3), start=jnp.zeros(3))
    learner = randomized_coordinate(base, epsilon=1.0)
    vectors, clipped = fed(learner, np.tile(losses, (n, 1)))
    sent = vectors != 0.5
    assert (sent.sum(axis=1) == 1).all() and not clipped.any()
    assert stats.chisquare(sent.sum(axis=0)).pvalue > 1e-3
    for place, loss in enumerate(losses):
        bits = vectors[sent[:, place], place]
        for part, least, most in ((1.0, 1e-3, 1.0), (0.8, 0.0, 1e-6)):
            if part == 1.0 or loss != np.float32(0.4):
                rate = part * flip_of(1.0)
                expected = rate + (1.0 - 2.0 * rate) * float(loss)
                pvalue = stats.binomtest(int(bits.sum()), len(bits), expected).pvalue
                assert least <= pvalue <= most
    assert fed(learner, [[2.0, 0.5, np.nan]])[1] == 2
    assert learner.privacy[0] == 1.0 and learner.privacy.model == "local"
