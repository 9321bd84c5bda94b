"""Dueling elimination: widths, a NumPy reference, one count per duel, and sparring."""

import importlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import (
    Study,
    audit,
    bounds,
    combinators,
    environments,
    learners,
    noise,
    simulate,
    simulate_batches,
    sweep,
)  # fmt: skip
from dpjax.core import Pairs, Privacy
from dpjax.learners import dueling_elimination
from dpjax.learners.dueling_elimination import duels_of_a_pair, exponent, least_rounds, radius
from dpjax.maths import exact_sums
from tests.environments.test_dueling import CYCLE, NARROW

ELIMINATION = importlib.import_module("dpjax.learners.parts.elimination")
MEANS = np.array([0.1, 0.5, 0.9])
pytestmark = pytest.mark.usefixtures("quick_compilation")


# --- widths ---


@pytest.mark.parametrize("scale", [0.0, 2.0, 200.0])
def test_the_least_rounds_have_the_width(scale):
    for width, x in ((0.125, 3.0), (0.01, 20.0)):
        rounds = least_rounds(width, x, scale)
        assert float(radius(rounds, x, scale)) == pytest.approx(width, rel=1e-5)


@pytest.mark.parametrize(("compare", "part"), [("scores", 0.25), ("pairs", 0.5)])
def test_a_phase_tells_gaps_of_its_size_apart(compare, part):
    """The width is a quarter of the scores' gap, or half of a pair's, at P_bi - 1/2 = 2^-e / 2."""
    for phase, active in ((1.0, 2.0), (3.0, 5.0)):
        duels = duels_of_a_pair(phase, active, 7.0, 2.0, compare)
        counted = duels * (active - 1.0) if compare == "scores" else duels
        gap = 0.5 * 2.0**-phase * (active / (active - 1.0) if compare == "scores" else 1.0)
        assert float(radius(counted, 7.0, 2.0)) == pytest.approx(part * gap, rel=1e-5)


def test_gaps_of_scores_are_larger_than_those_of_a_pair_by_s_over_s_minus_1():
    means = np.array([0.1, 0.2, 0.5, 0.9])
    lost = 0.5 + 0.5 * (means[:, None] - means)
    scores = (lost.sum(axis=1) - 0.5) / 3
    np.testing.assert_allclose(scores - scores[0], (means - 0.1) / 2 * 4 / 3)


def test_all_failures_add_up_to_less_than_beta():
    """3 s e^-x over all phases. With 4 instead of 5 they would be 1.23 beta."""
    phases = np.arange(1.0, 1e5)
    total = np.sum(3 * 7 * np.exp(-np.asarray(exponent(phases, 7.0, 0.1), np.float64)))
    assert 0.98 * 0.1 < total < 0.1 < 5 / 4 * total


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_the_noise_leaves_its_width_with_probability_e_to_the_minus_x(factor):
    """An exact binomial test at x = 3. The width for half the noise is rejected."""
    draws, x = 40_000, 3.0
    width = float(radius(1e9, x, 2.0) - radius(1e9, x, 0.0)) * 1e9
    drawn = np.abs(np.asarray(noise.laplace(jr.key(0), jnp.zeros(draws), 2.0)))
    p = stats.binomtest(int((drawn > factor * width).sum()), draws, float(np.exp(-x))).pvalue
    assert (p > 1e-3) == (factor == 1.0)


# --- games by hand ---


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


# --- privacy ---


def small(epsilon=1.0, **options):
    return dueling_elimination(16, 2, epsilon=epsilon, failure=0.9, exploration=0.01, **options)


def spent(learner, count=32):
    pairs = audit.pairs_for(learner, count, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.touched == 1
    return float(found.spent.max())


@pytest.mark.parametrize("compare", ["scores", "pairs"])
def test_replay(compare):
    """A replaced duel spends epsilon. Half the noise, that of 2 epsilon, spends 2 epsilon."""
    assert spent(small(1.0, compare=compare)) == pytest.approx(1.0, rel=1e-4)
    halved = small(2.0, compare=compare)._replace(privacy=small(1.0).privacy)
    assert spent(halved) == pytest.approx(2.0, rel=1e-4)


def test_a_scale_for_one_of_the_two_counts_spends_twice(monkeypatch):
    """A duel changes the counts of both players."""
    module = importlib.import_module("dpjax.learners.dueling_elimination")
    monkeypatch.setattr(module.privacy, "laplace_scale", lambda change, epsilon: 1.0 / epsilon)
    assert spent(small(1.0)) == pytest.approx(2.0, rel=1e-4)


def test_counts_that_are_kept_across_phases_spend_more(monkeypatch):
    """A duel is then also released at the end of each later phase."""

    def by_stages(horizon, arms, begin, record, evaluate, *rest):
        def keeping(key, state):
            (scores, stays), kept = evaluate(key, state), state.stage.kept.lost
            return (scores, kept), stays

        def begin_with(key, number, active, estimates, left):
            scores, kept = estimates
            stage = begin(key, number, active, scores, left)
            return stage._replace(kept=stage.kept._replace(lost=kept))

        nothing, privacy, report = rest
        start = (nothing, exact_sums.nothing((2,)))
        return ELIMINATION.by_stages(
            horizon, arms, begin_with, record, keeping, start, privacy, report
        )

    module = importlib.import_module("dpjax.learners.dueling_elimination")
    monkeypatch.setattr(module, "by_stages", by_stages)
    learner = dueling_elimination(32, 2, epsilon=1.0, failure=0.9, exploration=0.01)
    pairs = audit.pairs_for(learner, 32, jr.key(0))
    assert "epsilon" in audit.verdict(learner, pairs, jr.key(1)).failed


def tail(distance, scale):
    """P(z > distance) for the difference z of two Laplace draws."""
    y = np.abs(distance) / scale
    beyond = 0.25 * (2.0 + y) * np.exp(-y)
    return np.where(distance >= 0.0, beyond, 1.0 - beyond)


@pytest.mark.parametrize(("epsilon", "revealed"), [(0.1, 0.058), (1.0, 0.626), (10.0, 5.40)])
def test_what_the_actions_of_two_arms_reveal(epsilon, revealed):
    """Exactly, after the first phase: whether arm 0, arm 1 or neither left, given arm 0's losses.

    The probabilities are those of the learner's own draws. Half the noise reveals more.
    """
    x, found = float(exponent(1.0, 2.0, 0.9, 0.01)), []
    for scale in (2.0 / epsilon, 1.0 / epsilon):
        duels = int(np.ceil(float(duels_of_a_pair(1.0, 2.0, x, 2.0 / epsilon))))
        room = 2.0 * duels * float(radius(float(duels), x, 2.0 / epsilon))
        lead = 2.0 * np.arange(duels + 1) - duels  # arm 0's lost duels minus those of arm 1
        first, second = tail(room - lead, scale), tail(room + lead, scale)
        laws = np.stack([first, second, 1.0 - first - second])
        found.append(np.abs(np.diff(np.log(laws), axis=1)).max())
    assert found[0] == pytest.approx(revealed, rel=1e-2) and found[0] <= epsilon < 2 * found[1]
    assert found[1] > 1.4 * found[0]
    learner = dueling_elimination(8, 2, epsilon=epsilon, failure=0.9, exploration=0.01)
    state, batch = learner.init(jr.key(0))
    assert int(batch.rounds) == duels
    told = exact_sums.of(jnp.float32(duels))  # arm 0 lost all

    def left(key):
        active = learner.step(state, key, told)[0].active
        return jnp.array([~active[0], ~active[3]])

    draws = 20_000
    counts = np.asarray(jax.jit(jax.vmap(left))(jr.split(jr.key(1), draws))).sum(axis=0)
    laws = [float(tail(room - duels, 2.0 / epsilon)), float(tail(room + duels, 2.0 / epsilon))]
    for count, chance in zip(counts, laws, strict=True):
        assert stats.binomtest(int(count), draws, chance).pvalue > 1e-3


def test_both_counts_of_two_arms_are_all_duels():
    """Without noise, the two counts add up to the phase's duels."""
    learner = dueling_elimination(10_000, 2, epsilon=np.inf)
    state, batch = learner.init(jr.key(0))
    told = exact_sums.of(jnp.float32(0.75 * int(batch.rounds)))
    after, _ = learner.step(state, jr.key(0), told)
    assert after.number == 2
    np.testing.assert_allclose(after.stage.kept.scores, [0.75, 0.25], atol=1e-6)


# --- regret ---


def test_regret_is_below_the_bound_and_the_best_arm_stays():
    def game(epsilon):
        return dueling_elimination(2**15, 4, epsilon=epsilon), environments.dueling(MEANS4)

    epsilons = np.float32([0.3, 3.0, np.inf])
    played = sweep(game, epsilons, 100, jr.key(0), play=simulate_batches, checkpoints=1,
                   progress=False)  # fmt: skip
    regret = played.regret[..., -1].mean(axis=1)
    bound = bounds.dueling_elimination(2**15, MEANS4, epsilons)
    assert (regret < bound).all() and (regret > 0.2 * bound).all()
    assert (bound < 0.4 * 2**15).all()
    assert (np.asarray(played.report.recommendation) == 0).all()


MEANS4 = [0.1, 0.5, 0.7, 0.9]


@pytest.mark.parametrize(("compare", "winner"), [("scores", 1), ("pairs", 0)])
def test_scores_remove_a_condorcet_winner_that_loses_by_borda_and_pairs_keep_it(compare, winner):
    learner = dueling_elimination(10**6, 4, epsilon=1.0, compare=compare)
    run = jax.jit(jax.vmap(lambda key: simulate_batches(
        learner, environments.dueling(NARROW), key, checkpoints=1
    ).report))  # fmt: skip
    report = run(jr.split(jr.key(0), 20))
    assert (np.asarray(report.recommendation) == winner).all() and np.all(report.stopped)


def test_in_a_cycle_no_arm_leaves():
    """Each arm loses to another; a phase then ends with all three arms."""
    learner = dueling_elimination(10**5, 3, epsilon=np.inf, compare="pairs", failure=0.5)
    report = jax.jit(lambda key: simulate_batches(
        learner, environments.dueling(CYCLE, regret="borda"), key, checkpoints=1
    ).report)(jr.key(0))  # fmt: skip
    assert int(report.active) == 3 and int(report.epochs) >= 3


def test_the_local_model_by_randomized_response():
    """The bits of both players are flipped together, so the best arm still wins."""
    base = dueling_elimination(2**16, 3, epsilon=np.inf)
    learner = combinators.randomized_response(base, epsilon=2.0)
    assert learner.privacy.model == "local" and learner.action_set == Pairs(9)
    run = jax.jit(jax.vmap(lambda key: simulate_batches(
        learner, environments.dueling(MEANS), key, checkpoints=1
    ).report))  # fmt: skip
    report = run(jr.split(jr.key(0), 20))
    assert (np.asarray(report.recommendation) == 0).all() and np.all(report.active < 3)


def test_the_best_arm_of_duels_is_an_arm_and_no_pair():
    study = Study(
        dueling_elimination, {"duels": environments.dueling([0.9, 0.1])},
        {"epsilon": [np.inf], "horizon": 4096, "arms": 2}, trials=3,
    )  # fmt: skip
    data = study.run(progress=False)
    assert data["report_recommendation"].values.ravel().tolist() == [1, 1, 1]
    assert float(data.dpjax.identification()["error"].max()) == 0.0


@pytest.mark.parametrize(
    ("argument", "value"),
    [("failure", 1.0), ("exploration", 0.0), ("compare", "borda"), ("epsilon", 0.0)],
)
def test_arguments(argument, value):
    with pytest.raises(ValueError, match=argument):
        dueling_elimination(10, 2, **{"epsilon": 1.0, argument: value})


# --- sparring ---


def test_regret_is_the_sum_of_both_players():
    """The expected losses that both saw, minus those of the best arm."""
    horizon, arms, trials = 4096, 3, 40
    learner = combinators.sparring(learners.batched_bandit, horizon, arms, epsilon=2.0)
    environment = environments.dueling(MEANS, regret="utility")

    def step(state, key, pair):
        state, outcome = environment.step(state, key, pair)
        # The mean loss of each player's arm, minus that of the best arm.
        lost = jnp.asarray(0.5 + 0.5 * (MEANS[:, None] - MEANS[None]), jnp.float32)
        row, column = pair // arms, pair % arms
        both = lost[row, column] - lost[0, column] + lost[column, row] - lost[0, row]
        return state, outcome._replace(tally=(outcome.tally, both))

    watched = environment._replace(step=step, batch=None, regret=lambda state, tally: tally[0])
    run = jax.jit(jax.vmap(lambda key: simulate(learner, watched, key, checkpoints=1).tally))
    regret, both = run(jr.split(jr.key(0), trials))
    np.testing.assert_allclose(regret, both, rtol=1e-4)
    assert regret.mean() < 0.9 * horizon * (MEANS.mean() - 0.1)


def test_sparring_spends_epsilon_in_two_halves():
    learner = combinators.sparring(learners.dp_exp3_lap, 8, 2, epsilon=1.0)
    assert float(learner.privacy.epsilon) == pytest.approx(1.0)
    pairs = audit.pairs_for(learner, 32, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.touched == 2
    assert found.spent.max() == pytest.approx(1.0, rel=1e-3)
    whole = combinators.sparring(partial(doubled, learners.dp_exp3_lap), 8, 2, epsilon=1.0)
    wrong = whole._replace(privacy=learner.privacy)
    found = audit.verdict(wrong, pairs, jr.key(1))
    assert "epsilon" in found.failed and found.spent.max() == pytest.approx(2.0, rel=1e-3)


def doubled(make, horizon, arms, *, epsilon):
    """A player with half the noise."""
    return make(horizon, arms, epsilon=2.0 * epsilon)


def test_rho_and_delta_of_sparring_are_twice_a_players():
    def player(horizon, arms, *, epsilon):
        return learners.adac_ucb(horizon, arms, rho=0.5 * epsilon**2, delta=1e-6)

    learner, own = combinators.sparring(player, 64, 3, epsilon=1.0), player(64, 3, epsilon=0.5)
    assert float(learner.privacy.rho) == pytest.approx(2 * float(own.privacy.rho))
    assert float(learner.privacy.delta) == pytest.approx(2e-6)


def test_the_column_player_wins_what_the_row_player_loses():
    """Two fixed players that report their observations."""
    from dpjax.core import Arms, Learner
    from dpjax.feedback import bandit

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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (3, "make must be"), (lambda T, K, epsilon: 3, "make"),
        (lambda T, K, epsilon: learners.exp3(T + 1, K), "horizon"),
        (lambda T, K, epsilon: learners.exp3(T, K + 1), "make must return a learner of 3 arms"),
        (lambda T, K, epsilon: learners.hedge(T, K, epsilon=1.0), "bandit feedback"),
        (lambda T, K, epsilon: combinators.rescale_losses(learners.exp3(T, K), -1.0, 1.0), "losse"),
    ],
)  # fmt: skip
def test_players_that_are_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        combinators.sparring(make, 16, 3, epsilon=1.0)
