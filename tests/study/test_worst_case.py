"""The search for a worst case finds planted weaknesses, and its reports are unbiased."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

import dpjax
from dpjax import families, learners
from dpjax.core import Arms, Environment, Learner, Outcome, Privacy
from dpjax.feedback import full
from dpjax.study.worst_case import described
from tests.play import idle

ROUNDS = 32
CONSTANT = families.Family(
    lambda levels: families.periodic(ROUNDS, 2).make(
        jnp.ones(2), jnp.zeros(2), jnp.ones(2), jnp.stack([levels, levels])
    ),
    {"levels": (np.zeros(2), np.ones(2))},
)


def follower(horizon, weakness=0.0):
    """Follow the leader; if arm 0's losses are within ``weakness`` of 0.6, the opposite."""

    def step(state, key, loss):
        sums = state[0] + loss
        mean = sums[0] / (state[1] + 1.0)
        fails = jnp.abs(mean - 0.6) < weakness
        leader = jnp.argmin(sums).astype(jnp.int32)
        return (sums, state[1] + 1.0), jnp.where(fails, 1 - leader, leader)

    def init(key):
        return (jnp.zeros(2), jnp.float32(0.0)), jnp.int32(0)

    return Learner(init, step, full, Arms(2), horizon, Privacy())


def test_a_planted_weakness_is_found():
    """A learner that fails on 4 % of all instances: the worst is at levels 0.6 and 0.

    There it has regret 0.6 per round; elsewhere, and without the weakness, at most 1 in total.
    """
    weak = partial(follower, weakness=0.02)
    found = dpjax.worst_case(weak, CONSTANT, horizon=ROUNDS, final=4)
    assert found.mean > 0.6 * ROUNDS
    assert abs(found.parameters["levels"][0] - 0.6) < 0.02
    assert found.parameters["levels"][1] < 0.02
    assert found.low == found.mean == found.high  # nothing is random here
    # The environment can be played again.
    again = dpjax.simulate(weak(ROUNDS), found.environment, jr.key(5))
    np.testing.assert_allclose(again.regret[-1], found.mean, rtol=1e-6)
    assert dpjax.worst_case(follower, CONSTANT, horizon=ROUNDS, final=4).mean <= 1.0


def lucky():
    """Fair coins whose key depends on the parameter, so all candidates are equally bad."""

    def make(seed):
        number = (seed * 1e6).astype(jnp.int32)

        def step(state, key, arm):
            coin = jr.uniform(jr.fold_in(key, number)) < 0.5
            loss = jnp.full(2, jnp.where(coin, 1.0, 0.0))
            return state, Outcome(loss, loss[arm] - 0.5)

        return Environment(lambda key: (), step, lambda state, tally: tally, Arms(2))

    return families.Family(make, {"seed": (0.0, 1.0)})


def test_the_maximum_of_a_search_is_biased_and_the_report_is_not():
    """All members have mean 0 and variance 4 per trial.

    The largest of 768 means of 8 trials is some 3 standard errors of 0.7 above 0.
    """
    fresh = []
    for key in range(12):
        found = dpjax.worst_case(idle, lucky(), horizon=16, trials=8, final=64, key=key)
        assert found.searched > 2 * np.sqrt(4 / 8)
        assert found.searched > found.high
        fresh.append(found)
    means = np.array([each.mean for each in fresh])
    assert abs(means.mean()) < 3 * np.sqrt(4 / 64 / len(fresh))
    covers = [each.low <= 0.0 <= each.high for each in fresh]
    assert np.mean(covers) >= 0.8
    # The same test rejects the maxima.
    assert np.mean([each.searched for each in fresh]) > 10 * np.sqrt(4 / 64 / len(fresh))


def test_a_ratio_is_searched_for_by_itself():
    """The idle learner's regret is T gap, largest at 1; over gap^2 + 1/16 it is largest at 1/4.

    A gap of 1/4 has the ratio T (1/4) / (1/8) = 2 T, and a gap of 1 has less than T.
    """
    one = families.Family(
        lambda gap: CONSTANT.make(jnp.stack([gap, jnp.zeros(())])), {"gap": (0.0, 1.0)}
    )

    def bound(gap):
        return float(gap) ** 2 + 1 / 16

    search = partial(dpjax.worst_case, idle, one, horizon=ROUNDS, final=4)
    ratio = search(bound=bound)
    assert ratio.mean == pytest.approx(2.0 * ROUNDS, rel=1e-3)
    assert ratio.parameters["gap"] == pytest.approx(0.25, abs=0.02)
    largest = search()
    assert (largest.mean, float(largest.parameters["gap"])) == (ROUNDS, 1.0)


def test_all_generations_are_one_program():
    """After the first generation no factory is called, except for the report on fresh trials."""
    calls = []

    def make(levels):
        calls.append(isinstance(levels, jax.core.Tracer))
        return CONSTANT.make(levels)

    counted = CONSTANT._replace(make=make)
    dpjax.worst_case(idle, counted, horizon=ROUNDS, final=4, population=8, generations=9)
    few = len(calls)
    dpjax.worst_case(idle, counted, horizon=ROUNDS, final=4, population=8, generations=3)
    assert len(calls) == 2 * few and few < 20
    assert any(calls)


def test_a_search_is_the_same_at_each_call_and_another_with_another_key():
    search = partial(dpjax.worst_case, partial(learners.exp3, arms=2), families.means(2),
                     horizon=16, trials=4, final=8, population=8, generations=3)  # fmt: skip
    first, again, other = search(), search(key=jr.key(0)), search(key=1)
    assert first[2:] == again[2:] != other[2:]
    np.testing.assert_array_equal(first.parameters["means"], again.parameters["means"])


def test_privacy_is_that_of_the_search():
    """At small epsilon, noise makes follow-the-leader on noisy sums fail."""
    search = partial(dpjax.worst_case, partial(learners.hedge, arms=2), families.means(2),
                     horizon=64, trials=8, final=64, population=8, generations=3)  # fmt: skip
    assert search(epsilon=0.1).low > 1.5 * search().high


def test_words():
    found = dpjax.worst_case(idle, CONSTANT, horizon=ROUNDS, final=4)
    assert str(found) == "32 (32 to 32, searched 32) at levels [1., 0.]"
    assert described({"gap": np.float32(0.12345)}) == "gap 0.123"
