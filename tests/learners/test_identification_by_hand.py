"""AdaP-TT without noise against a NumPy reference, arm by arm, and invalid arguments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import learners
from dpjax.combinators import as_learner
from dpjax.learners.parts import identification, top_two
from tests.play import play_table


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
def test_games_by_hand(forget, ratio, rule, horizon, monkeypatch):
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
