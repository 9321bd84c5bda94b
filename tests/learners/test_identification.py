"""Learners that stop: games in NumPy, error rates and stopping times."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import bounds, environments, learners, simulate_batches, sweep
from dpjax.combinators import as_learner
from dpjax.learners import factories
from dpjax.learners.parts import identification, top_two
from tests.play import play_table

LONGEST = 10**8


class Case(NamedTuple):
    """The settings of a game; the arm with the largest gain, 1 minus its mean loss, is best."""

    gains: Any  # (K,)
    epsilon: Any = np.inf
    failure: Any = 0.1


@cache
def game_of(name, horizon, arms, options):
    """The game of a Case, entirely traced, so that all cases share one program."""

    def game(case):
        sizes = {"arms": arms, "epsilon": case.epsilon, "failure": case.failure}
        learner = factories.build(name, horizon, sizes, failure=case.failure, **dict(options))
        return learner, environments.bernoulli(1.0 - case.gains, regret="pseudo")

    return game


def played(name, cases, trials, *, horizon=LONGEST, **options):
    """The report of each trial of each case: leaves (cases, trials)."""
    points = Case(*(np.array(field, np.float32) for field in zip(*cases, strict=True)))
    game = game_of(name, horizon, len(cases[0].gains), tuple(options.items()))
    swept = sweep(
        game, points, trials, jr.key(0), play=simulate_batches, checkpoints=1, progress=False
    )
    return swept.report


GAINS = (0.7, 0.5, 0.3)
# Cases whose noise matters little, somewhat, and most.
INSTANCES = [
    Case(GAINS, 0.1, 0.1), Case((0.6, 0.5, 0.4), 1.0, 0.1), Case((0.95, 0.8, 0.1), 0.01, 0.1)
]  # fmt: skip


# Errors ---------------------------------------------------------------------------------------


def check_errors(found, cases):
    """At most ``failure`` errors, by Clopper-Pearson at 0.999; nearly all trials stop."""
    assert found.stopped.mean() > 0.999
    wrong = (found.stopped & (found.recommendation != 0)).sum(axis=1)
    for count, case in zip(wrong.tolist(), cases, strict=True):
        interval = stats.binomtest(count, found.stopped.shape[1]).proportion_ci(0.998, "exact")
        assert interval.high <= case.failure


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("adap_tt", {}, 0.0), ("dp_tt", {}, 0.0), ("dp_tt", {"forget": False}, 0.3),
        ("adap_tt", {"forget": False, "ratio": 1.5}, 0.3), ("adap_tt", {"rule": "printed"}, 0.3),
        ("ctb_tt", {}, 0.3), ("ttucb", {}, 0.3), ("lucb", {}, 0.3), ("track_and_stop", {}, 0.3),
    ],
)  # fmt: skip
def test_errors_are_rarer_than_failure(name, options, least):
    cases = [case._replace(epsilon=max(case.epsilon, least)) for case in INSTANCES]
    check_errors(played(name, cases, 1000, **options), cases)


# Stopping times -------------------------------------------------------------------------------


def test_stopping_times_scale_with_epsilon():
    """As 1 / epsilon if the noise is large; if it is small, epsilon does not matter.

    Another program, in NumPy, has the means below, from 60 to 200 trials. Phases double, so an
    eighth of epsilon is three phases.
    """
    known = {0.001: None, 0.008: None, 0.01: (81493, 1510), 1.0: (2970, 81), np.inf: (2616, 73)}
    found = played("dp_tt", [Case(GAINS, epsilon, 0.01) for epsilon in known], 500)
    assert found.stopped.all()
    means = found.stopping_time.mean(axis=1)
    assert 7.5 < means[0] / means[1] < 8.5
    assert means[3] == pytest.approx(means[4], rel=0.15)
    for mean, other in zip(means, known.values(), strict=True):
        if other is not None:
            assert mean == pytest.approx(other[0], abs=4.0 * (1.2 * other[1]))


# The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adap_tt", "ttucb"])
def test_the_horizon_changes_nothing_before_the_stop(name):
    """The rest of a stopped game is one batch of any length."""
    cases = [Case(GAINS, 1.0, 0.3)]
    short, long = (played(name, cases, 200, horizon=n) for n in (10**6, 10**8))
    assert short.stopped.all()
    jax.tree.map(np.testing.assert_array_equal, short, long)


# Sequential elimination and halving -----------------------------------------------------------


def test_sequential_halving_errs_no_more_than_its_bound():
    """It errs less with a larger privacy budget."""
    gains = (0.75, 0.625, 0.5, 0.375, 0.25, 0.25, 0.25, 0.25)
    epsilons = (0.01, 0.1, 1.0, np.inf)
    cases = [Case(gains, epsilon) for epsilon in epsilons]
    found = played("sequential_halving", cases, 2000, horizon=1000)
    assert found.stopped.all()
    wrong = (found.recommendation != 0).mean(axis=1)
    # Measured in NumPy by another program.
    np.testing.assert_allclose(wrong, [0.788, 0.27, 0.0035, 0.005], atol=0.045)
    for rate, epsilon in zip(wrong, epsilons, strict=True):
        bound = bounds.sequential_halving_error(1000, 1.0 - np.array(gains), epsilon)
        assert rate <= bound
    assert wrong[0] > wrong[1] > wrong[2]


@pytest.mark.parametrize(
    ("horizon", "stopped"), [(1, False), (4, False), (14, False), (15, True), (16, True)]
)
def test_sequential_halving_plays_what_it_can(horizon, stopped):
    """Seven arms and three stages of 7, 4 and 2 * 2 rounds; 15 rounds suffice."""
    means = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = played("sequential_halving", [Case(1.0 - np.array(means))], 200, horizon=horizon)
    assert (found.stopped == stopped).all()
    assert (found.stopping_time == min(horizon, 15)).all()
    if stopped:
        assert (found.recommendation == 0).all()


def decided(rule, means, samples, phases, best, failure):
    """Whether each arm is worse than the best one by this rule, at epsilon = inf."""
    arms, gaps, spread = len(means), means - means[best], 1.0 / samples[best] + 1.0 / samples
    if rule == "hoeffding":  # at ln((K - 1) j (j + 1) j' (j' + 1) / failure)
        shares = phases * (phases + 1)
        exponents = np.log((arms - 1) * shares[best] * shares / failure)
        return gaps >= np.sqrt(exponents / 2.0 * spread)
    last = np.maximum(phases[best], phases)
    half = np.log((arms - 1) * np.pi**2 / 6 * last**2 / failure) / 2
    slow = 2 * np.log(4 + np.log(samples[best])) + 2 * np.log(4 + np.log(samples))
    return gaps**2 / 2 / spread >= 2 * (half + np.log(half)) + slow


def reference(losses, failure, ratio, forget, rule):
    """(arms (T,), stopping time, recommendation) of AdaP-TT at epsilon = inf.

    It plays by batches, like the learner, and reads the losses round by round.
    """
    horizon, arms = losses.shape
    pulls, waiting, phases, samples = (np.zeros(arms, int) for _ in range(4))
    buffer, sums, led, own = (np.zeros(arms) for _ in range(4))
    begun, played, arm, length, best = np.zeros(arms, int), [], 0, 1, 0

    def room(arm):
        return max(1, int(np.ceil((ratio - 1.0) * begun[arm] - 1e-9))) - waiting[arm]

    while True:
        rounds = len(played) + np.arange(length)
        if rounds[-1] >= horizon:
            return np.array(played + [arm] * (horizon - len(played))), horizon, best
        played += [arm] * length
        pulls[arm], waiting[arm] = pulls[arm] + length, waiting[arm] + length
        buffer[arm] += losses[rounds, arm].sum()
        complete = room(arm) == 0
        if complete:
            sums[arm] = buffer[arm] + (0.0 if forget else sums[arm])
            samples[arm] = waiting[arm] + (0 if forget else samples[arm])
            phases[arm], begun[arm], waiting[arm], buffer[arm] = phases[arm] + 1, pulls[arm], 0, 0.0
        means = np.where(phases > 0, sums / np.maximum(samples, 1), np.inf)
        best = int(np.argmin(means))
        if phases.min() < 1:
            arm = int(np.argmin(phases))
            length = room(arm)
            continue
        worse = decided(rule, means, samples, phases, best, failure)
        if complete and np.all(worse | (np.arange(arms) == best)):
            return np.array(played + [best] * (horizon - len(played))), len(played), best
        t = (pulls - waiting).sum()
        leader = int(np.argmin(means - np.sqrt(np.log(t) / (2.0 * samples))))
        costs = (means - means[leader] + 1.0 / (1.0 + np.sqrt(t))) / np.sqrt(
            1.0 / pulls[leader] + 1.0 / pulls
        )
        costs[leader] = np.inf
        challenger = int(np.argmin(costs))
        leads = 2 * own[leader] <= led[leader]
        arm = leader if leads else challenger
        chunk = int(np.ceil(min(pulls[leader], pulls[challenger]) / 8))
        length = min(chunk, room(arm))
        led[leader] += length
        own[leader] += length if leads else 0


@pytest.mark.parametrize(
    ("forget", "ratio", "rule", "horizon"),
    [
        (True, 2.0, "hoeffding", 700), (False, 1.5, "hoeffding", 700),
        (False, 1.5, "printed", 2500),
    ],
)  # fmt: skip
def test_games_of_adap_tt_by_hand(forget, ratio, rule, horizon, monkeypatch):
    """With real-valued losses, ties are rare after the first ones, which are broken in order."""
    for module in (identification, top_two):
        monkeypatch.setattr(module, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))
    games, failure = 12, 0.25
    tables = np.random.default_rng(0).random((games, horizon, 3), np.float32)
    tables = (tables * [0.2, 0.9, 1.0]).astype(np.float32)
    learner = learners.adap_tt(
        horizon, 3, epsilon=np.inf, failure=failure, forget=forget, ratio=ratio, rule=rule
    )
    game = jax.jit(jax.vmap(lambda losses: play_table(learner, losses, jr.key(0))))(tables)
    reports = jax.vmap(as_learner(learner).report)(game.last)
    stops = []
    for i, table in enumerate(tables.astype(np.float64)):
        arms, stopping_time, best = reference(table, failure, ratio, forget, rule)
        np.testing.assert_array_equal(game.actions[i][:horizon], arms)
        if stopping_time < horizon:
            assert reports.stopped[i] and int(reports.recommendation[i]) == best
            assert int(reports.stopping_time[i]) == stopping_time
        stops.append(stopping_time)
    assert len(set(stops)) > 3 and min(stops) < horizon


# Arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adap_tt", "dp_tt", "ctb_tt", "ttucb", "lucb", "track_and_stop"])
def test_a_horizon_of_one_round_is_censored(name):
    private = name in ("adap_tt", "dp_tt", "ctb_tt")
    learner = getattr(learners, name)(1, 2, failure=0.1, **({"epsilon": 1.0} if private else {}))
    state, batch = learner.init(jr.key(0))
    report = learner.report(state)
    assert not report.stopped and report.stopping_time == batch.rounds == 1
