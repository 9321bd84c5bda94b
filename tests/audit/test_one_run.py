"""Audits from a single run: the p-value, its level at the true epsilon, and its power."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, learners, mechanisms, privacy
from dpjax.audit.one_run import guessed
from dpjax.combinators import randomized_response
from tests.play import idle


def pair_of(horizon, arms=2):
    return audit.Pair(jnp.zeros((horizon, arms)), jnp.ones((horizon, arms)))


def exp3(horizon, epsilon=1.0):
    return learners.dp_exp3_lap(horizon, 2, epsilon=epsilon, mixing=0.3)


def test_the_p_value_by_hand():
    """With delta = 0 it is a binomial tail; with delta, the sum in the authors' program."""
    q = np.e / (1 + np.e)
    assert audit.one_run_p_value(30, 40, 100, 1.0) == pytest.approx(
        sum(stats.binom.pmf(k, 40, q) for k in range(30, 41))
    )
    largest, total = 0.0, 0.0
    for i in range(1, 31):
        total += stats.binom.pmf(30 - i, 40, q)
        largest = max(largest, total / i)
    expected = audit.one_run_p_value(30, 40, 100, 1.0) + largest * 1e-3 * 2 * 100
    assert audit.one_run_p_value(30, 40, 100, 1.0, 1e-3) == pytest.approx(expected)
    assert audit.one_run_p_value(0, 40, 100, 1.0, 1e-3) == 1.0


def test_the_bound_is_where_the_p_value_crosses():
    for delta in (0.0, 1e-4):
        found = audit.one_run_epsilon(180, 200, 300, delta=delta)
        values = [audit.one_run_p_value(180, 200, 300, e, delta) for e in (found, found + 1e-3)]
        assert values[0] == pytest.approx(0.05, rel=1e-3) and values[1] > 0.05
    assert audit.one_run_epsilon(100, 200, 300) == 0.0
    with pytest.raises(ValueError, match="correct must be at most guesses"):
        audit.one_run_epsilon(10, 9, 20)


def exact_tail(correct, rounds, mu):
    """P of this many right guesses of all coins, one Gaussian message each: attained by mu-GDP."""
    return stats.binom.sf(correct - 1, rounds, stats.norm.cdf(mu / 2))


def test_one_guess_refutes_mu_where_no_test_is_so_good():
    """One coin is guessed right with probability at most Phi(mu / 2), and this is tight."""
    for mu in (0.0, 0.5, 2.0):
        best = stats.norm.cdf(mu / 2)
        assert audit.one_run_refutes(1, 1, 1, mu, best + 1e-6)
        assert not audit.one_run_refutes(1, 1, 1, mu, best - 1e-6)
    assert audit.one_run_mu(1, 1, 1, confidence=0.2) == pytest.approx(2 * stats.norm.ppf(0.8))


def test_no_count_that_mu_gdp_has_is_refuted():
    """At its own probability, with Gaussian messages; at mu / 2 some counts would be refuted."""
    refuted = {False: 0, True: 0}
    for mu in (0.3, 1.0, 2.0):
        for rounds in (1, 2, 5, 12):
            for correct in range(1, rounds + 1):
                level = exact_tail(correct, rounds, mu) * (1 - 1e-9)
                for half in refuted:
                    claim = mu / 2 if half else mu
                    refuted[half] += audit.one_run_refutes(correct, rounds, rounds, claim, level)
    assert refuted[False] == 0 and refuted[True] >= 10


def gaussian_counts(mu, audited, guesses, games):
    """Right guesses of the most certain coins, one message N(+-mu / 2, 1) per coin: (games,)."""
    rng = np.random.default_rng(0)
    coins = rng.integers(0, 2, (games, audited)) == 1
    messages = np.where(coins, mu / 2, -mu / 2) + rng.normal(size=coins.shape)
    surest = np.argsort(-np.abs(messages), axis=1)[:, :guesses]
    return np.take_along_axis((messages > 0) == coins, surest, 1).sum(1)


@pytest.mark.parametrize(("mu", "audited", "guesses"), [(0.5, 1024, 256), (1.0, 1024, 256)])
def test_the_true_mu_is_seldom_refuted_and_half_the_noise_is(mu, audited, guesses):
    """2000 games of each; the most certain quarter of the coins is guessed."""
    true, halved = (gaussian_counts(each, audited, guesses, 2000) for each in (mu, 2 * mu))
    refutes = np.array([
        audit.one_run_refutes(correct, guesses, audited, mu) for correct in range(guesses + 1)
    ])  # fmt: skip
    assert (np.diff(refutes.astype(int)) >= 0).all()
    assert refutes[true].mean() <= 0.05 and refutes[halved].mean() > 0.9
    typical = int(np.median(true))
    assert 0.5 * mu < audit.one_run_mu(typical, guesses, audited) < mu
    # If all coins are guessed, the bound is far looser.
    every = gaussian_counts(2 * mu, audited, audited, 50).max()
    assert not audit.one_run_refutes(int(every), audited, audited, mu)


@cache
def scored(epsilon, runs):
    """Scores and coins of runs of 257 rounds, (runs, 256)."""
    learner, pair = exp3(257, epsilon), pair_of(257)
    run = jax.jit(jax.vmap(lambda key: audit.one_run_scores(learner, pair, key)))
    return jax.device_get(run(jr.split(jr.key(0), runs)))


def bounds_of(epsilon, runs):
    found = [guessed(*each, 128) for each in zip(*scored(epsilon, runs), strict=True)]
    return np.array([audit.one_run_epsilon(correct, 128, 256) for correct in found])


def test_the_true_epsilon_is_never_exceeded_in_95_of_100_runs():
    """200 runs of DP-EXP3-Lap at epsilon = 1; noise for epsilon = 2 refutes it in nearly all."""
    found = bounds_of(1.0, 200)
    wrong = int((found > 1.0).sum())
    assert stats.binomtest(wrong, 200, 0.05, alternative="greater").pvalue > 0.05
    assert found.mean() > 0.5
    assert (bounds_of(2.0, 50) > 1.0).mean() > 0.9


def test_the_scores_are_log_likelihood_ratios():
    """Laplace messages: at most epsilon, and equal to it for a share (1 + 1 / e) / 2 of rounds."""
    scores, coins = scored(1.0, 200)
    assert np.abs(scores).max() <= 1.0 + 1e-5
    assert (np.abs(scores) > 0.999).mean() == pytest.approx((1 + np.exp(-1)) / 2, abs=0.01)
    sure = np.abs(scores) > 0.999
    right = (scores > 0) == coins
    assert right[sure].mean() == pytest.approx(np.e / (1 + np.e), abs=0.01)


def local_ftrl(horizon):
    return learners.ftrl(
        horizon, domains.ball(2), epsilon=3.0, delta=1e-5, noise="gaussian",
        mechanism=mechanisms.per_item,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["coins", "gaussian"])
def test_coins_and_gaussian_messages(name):
    """Randomized response, and FTRL with noise on each loss: a bound below the declaration."""
    horizon = 513
    learner, pair = local_ftrl(horizon), pair_of(horizon)
    if name == "coins":
        learner = randomized_response(learners.ucb1(horizon, 2), epsilon=2.0)
    else:
        vectors = jnp.broadcast_to(jnp.array([1.0, 0.0]), (horizon, 2))
        pair = audit.Pair(vectors, -vectors)
    delta, declared = float(learner.privacy.delta), float(learner.privacy.epsilon)
    found = audit.one_run(learner, pair, jr.key(0), delta=delta)
    assert 0.2 * declared < found.epsilon <= declared
    if name == "gaussian":
        assert 0.3 < found.mu * float(privacy.gaussian_inverse_mu(declared, delta)) <= 1.0


def test_a_longer_run_is_tighter_and_only_rounds_that_differ_are_audited():
    """A round that is equal on both sides scores 0 and is never guessed."""
    found = audit.one_run(exp3(4097), pair_of(4097), jr.key(0))
    assert 0.8 < found.epsilon <= 1.0 and found.audited == 4096 and found.guesses == 2048
    pair = pair_of(65)
    pair = pair._replace(others=pair.others.at[10:].set(0.0))
    found = audit.one_run(exp3(65), pair, jr.key(0))
    assert found.audited == 10 and found.guesses == 5
    assert guessed(np.zeros(4), np.zeros(4, bool), 4) == 0


@pytest.mark.parametrize(
    ("learner", "changes", "message"),
    [
        (exp3(9), {"guesses": 9}, "guesses must be at most 8"),
        (exp3(9), {"delta": 1.0}, "delta must be in"),
        (learners.hedge(9, 2, epsilon=1.0), {}, "must be of the local model, not central"),
        (idle(9), {}, "must be of the local model"),
        (
            learners.successive_elimination(9, 2, epsilon=1.0, noise="local_laplace"), {},
            "likelihoods are known only of",
        ),
    ],
)  # fmt: skip
def test_bad_input(learner, changes, message):
    with pytest.raises(ValueError, match=message):
        audit.one_run(learner, pair_of(9), jr.key(0), **changes)
