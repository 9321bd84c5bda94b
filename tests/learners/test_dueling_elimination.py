"""Dueling elimination: a NumPy reference, its privacy and regret, and sparring."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import (
    Study,
    audit,
    combinators,
    environments,
    learners,
    noise,
    simulate,
    simulate_batches,
)  # fmt: skip
from dpjax.core import Arms, Learner, Pairs, Privacy
from dpjax.feedback import bandit
from dpjax.learners import dueling_elimination
from dpjax.learners._dueling_elimination import exponent
from dpjax.maths import exact_sums
from tests.environments.test_dueling import CYCLE, NARROW

ELIMINATION = importlib.import_module("dpjax.learners.parts.elimination")
pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_all_failures_add_up_to_less_than_beta():
    """3 s e^-x over all phases. With 4 instead of 5 they would be 1.23 beta."""
    phases = np.arange(1.0, 1e5)
    total = np.sum(3 * 7 * np.exp(-np.asarray(exponent(phases, 7.0, 0.1), np.float64)))
    assert 0.98 * 0.1 < total < 0.1 < 5 / 4 * total


def by_hand(bits, horizon, means_count, epsilon, failure, compare, draws):
    """The pairs of a game (T,) in NumPy, on bits (T, K, K), with standard Laplace draws."""
    active, played, phase, draws = list(range(means_count)), [], 1, iter(draws)
    scale = (1.0 if compare == "pairs" else 2.0) / epsilon
    while len(active) > 1:
        s, left = len(active), horizon - len(played)
        meets = [(i, j) for i in active for j in active if i < j]
        x = np.log(5 * s * phase**2 / failure)
        width = 2.0**-phase / 4 if compare == "pairs" else 2.0**-phase / 8 * s / (s - 1)
        n = x * ((np.sqrt(0.5) + np.sqrt(0.5 + 4 * scale * width)) / (2 * width)) ** 2
        m = int(np.ceil(n if compare == "pairs" else n / (s - 1)))
        if m * len(meets) > left:
            m = -(-left // len(meets))
            for pair in meets:
                played += [pair] * m
            return np.array(played[:horizon])
        lost = np.zeros((means_count, means_count))
        for i, j in meets:
            here = np.arange(len(played), len(played) + m)
            lost[i, j], lost[j, i] = bits[here, i, j].sum(), m - bits[here, i, j].sum()
            played += [(i, j)] * m
        noisy = next(draws) * scale
        if compare == "pairs":
            upper = np.triu(lost + noisy, 1)
            rates = upper / m + np.tril(1 - upper.T / m, -1)
            w = np.sqrt(x / (2 * m)) + scale * x / m
            active = [i for i in active if all(rates[i, j] <= 0.5 + w for j in active if j != i)]
        else:
            n = m * (s - 1)
            scores = (lost.sum(axis=1) + noisy) / n
            w = np.sqrt(x / (2 * n)) + scale * x / n
            active = [i for i in active if scores[i] <= min(scores[active]) + 2 * w]
        phase += 1
    played += [(active[0], active[0])] * (horizon - len(played))
    return np.array(played)


@pytest.mark.parametrize("compare", ["scores", "pairs"])
def test_games_by_hand(compare, monkeypatch):
    """Whole games equal the NumPy reference, pair by pair, with the same noise."""
    horizon, games, arms, epsilon = 2500, 8, 3, 0.4
    monkeypatch.setattr(ELIMINATION, "smallest", lambda key, x: jnp.argmin(x).astype(jnp.int32))
    rng = np.random.default_rng(0)
    means = np.array([0.2, 0.45, 0.7])  # the second arm leaves after phase 1 or 2
    lost = 0.5 + 0.5 * (means[:, None] - means)
    bits = (rng.random((games, horizon, arms, arms)) < lost).astype(np.float32)
    shape = (arms, arms) if compare == "pairs" else (arms,)
    draws = rng.laplace(size=(games, 8, *shape)).astype(np.float32)

    def play(bits, draws):
        def total(law, key, counts, scale):
            del law
            return exact_sums.of(exact_sums.to_float(counts) + scale * key.reshape(-1))

        learner = dueling_elimination(horizon, arms, epsilon=epsilon, failure=0.9, compare=compare)
        learner = combinators.as_learner(learner)

        def one(carry, bit):
            state, pair = carry
            # The phase's draw replaces the noise key.
            monkeypatch.setattr(jr, "split", lambda key: (draws[state.learner.number - 1], key))
            return learner.step(state, jr.key(0), bit.reshape(-1)[pair]), pair

        monkeypatch.setattr(noise.Law, "total", total)
        return jax.lax.scan(one, learner.init(jr.key(0)), bits)[1]

    found = np.asarray(jax.jit(jax.vmap(play))(bits, draws))
    expected = [
        by_hand(game, horizon, arms, epsilon, 0.9, compare, row)
        for game, row in zip(bits, draws, strict=True)
    ]
    np.testing.assert_array_equal(found, np.array(expected) @ [arms, 1])
    assert len({tuple(np.bincount(row, minlength=9)) for row in found}) > 1


def reports(learner, environment, games=20):
    run = jax.jit(jax.vmap(
        lambda key: simulate_batches(learner, environment, key, checkpoints=1).report
    ))  # fmt: skip
    return run(jr.split(jr.key(0), games))


@pytest.mark.parametrize(("compare", "winner"), [("scores", 1), ("pairs", 0)])
def test_scores_remove_a_condorcet_winner_that_loses_by_borda_and_pairs_keep_it(compare, winner):
    learner = dueling_elimination(10**6, 4, epsilon=1.0, compare=compare)
    report = reports(learner, environments.dueling(NARROW))
    assert (np.asarray(report.recommendation) == winner).all() and np.all(report.stopped)


def test_in_a_cycle_no_arm_leaves():
    """Each arm loses to another; a phase then ends with all three arms."""
    learner = dueling_elimination(10**5, 3, epsilon=np.inf, compare="pairs", failure=0.5)
    report = reports(learner, environments.dueling(CYCLE, regret="borda"), 1)
    assert int(report.active[0]) == 3 and int(report.epochs[0]) >= 3


def test_the_best_arm_of_duels_is_an_arm_and_no_pair():
    study = Study(
        dueling_elimination, {"duels": environments.dueling([0.9, 0.1])},
        {"epsilon": [np.inf], "horizon": 4096, "arms": 2}, trials=3,
    )  # fmt: skip
    data = study.run(progress=False)
    assert data["report_recommendation"].values.ravel().tolist() == [1, 1, 1]
    assert float(data.dpjax.identification()["error"].max()) == 0.0


# --- sparring ---


def test_sparring_spends_epsilon_in_two_halves():
    learner = combinators.sparring(learners.dp_exp3_lap, 8, 2, epsilon=1.0)
    assert float(learner.privacy.epsilon) == pytest.approx(1.0)
    found = audit.verdict(learner, audit.pairs_for(learner, 12, jr.key(0)), jr.key(1))
    assert found.failed == () and found.touched == 2
    assert found.spent.max() == pytest.approx(1.0, rel=1e-3)


def test_rho_and_delta_of_sparring_are_twice_a_players():
    def player(horizon, arms, *, epsilon):
        return learners.adac_ucb(horizon, arms, rho=0.5 * epsilon**2, delta=1e-6)

    learner, own = combinators.sparring(player, 64, 3, epsilon=1.0), player(64, 3, epsilon=0.5)
    assert float(learner.privacy.rho) == pytest.approx(2 * float(own.privacy.rho))
    assert float(learner.privacy.delta) == pytest.approx(2e-6)


def test_the_column_player_wins_what_the_row_player_loses():
    """Two fixed players that report their observations."""

    def player(horizon, arms, *, epsilon):
        zero = jnp.zeros((), jnp.int32)
        return Learner(
            lambda key: (jnp.float32(0.0), zero), lambda seen, key, loss: (seen + loss, zero),
            bandit, Arms(arms), horizon, Privacy(), lambda seen: seen,
        )  # fmt: skip

    learner = combinators.sparring(player, 8, 2, epsilon=np.inf)
    environment = environments.table(np.full((8, 4), 0.25))._replace(action_set=Pairs(4))
    report = simulate(learner, environment, jr.key(0)).report
    assert (float(report.row), float(report.column)) == (2.0, 6.0)
