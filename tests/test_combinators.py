"""Learners made from learners, and environments made from environments."""

import itertools
import pickle
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

import dpjax
from dpjax import audit, combinators, domains, environments, learners, noise, simulate
from dpjax.cli import audits
from dpjax.core import Arms, BatchLearner, Feedback, Learner, Privacy
from dpjax.feedback import bandit, seen_inside
from tests.learners.replay import changed_rounds, play, worlds
from tests.play import play_table, step

ROUNDS = 12
MEANS = [0.3, 0.5, 0.6]
ZERO = jnp.zeros((), jnp.int32)


class Log(NamedTuple):
    fed: Any  # (ROUNDS,) its input losses, followed by nan
    count: Any  # () int32


def logging(horizon=ROUNDS, arms=3):
    """A learner that plays arms 0, 1, 0, 1, ... and records its inputs."""

    def step(state, key, loss):
        fed = jnp.where(jnp.arange(ROUNDS) == state.count, loss, state.fed)
        return Log(fed, state.count + 1), (state.count + 1) % 2

    start = Log(jnp.full(ROUNDS, jnp.nan), ZERO), ZERO
    report = lambda state: state.count  # noqa: E731
    return Learner(lambda key: start, step, bandit, Arms(arms), horizon, Privacy(), report)


def feed(learner, losses):
    """The state after the given losses, one per round."""
    state, action = learner.init(jr.key(0))
    actions = [int(action)]
    for t, loss in enumerate(losses, start=1):
        state, action = step(learner, state, jr.fold_in(jr.key(0), t), jnp.float32(loss))
        actions.append(int(action))
    return state, actions


def arms_of(learner, environment, key):
    return dpjax.trajectory(learner, environment, key, record=lambda played: played.action)


# --- laplace_feedback ---


@pytest.mark.parametrize(
    ("shift", "losses", "fed", "rejected"),
    [
        (2.0, [0.0, 0.5, 0.75, 1.0, 0.25], [3.5 / 4, 1.0, 0.75, 0.75, 3.75 / 4], 2),
        (-2.0, [0.0, 0.5, 1.0], [0.75, 0.0, 0.125], 1),
        # It is clipped before the noise.
        (0.0, [-2.0, 0.0, 3.0, 1.0, np.inf], [0.375, 0.375, 0.625, 0.625, 0.625], 0),
    ],
)
def test_laplace_feedback_feeds_scaled_losses_and_the_null_loss(
    shift, losses, fed, rejected, monkeypatch
):
    """Accepted in [-b, 1 + b], ends included: it passes on (l~ + b) / (2b + 1), else null_loss."""
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + shift)
    learner = combinators.laplace_feedback(logging(7), epsilon=0.5, threshold=1.5, null_loss=0.75)
    state, actions = feed(learner, losses)
    np.testing.assert_allclose(state.base.fed[: len(losses)], fed)
    assert actions == [0, 1, 0, 1, 0, 1][: len(actions)]
    assert learner.report(state) == (rejected, len(losses))
    assert learner.privacy[:2] == (0.5, 0.0) and learner.privacy.model == "local"
    assert learner.horizon == 7 and learner.feedback is bandit


KINDS = {
    "randomized_response": partial(combinators.randomized_response, epsilon=1.0),
    "randomized_coordinate": partial(combinators.randomized_coordinate, epsilon=1.0),
    "on_gradients": combinators.on_gradients,
    "sparring": lambda learner: combinators.sparring(lambda *_, **__: learner, 8, 2, epsilon=1.0),
    "simulate_batches": lambda learner: dpjax.simulate_batches(
        learner, environments.bernoulli([0.2, 0.6], regret="pseudo"), jr.key(0)
    ),
}
LEARNERS = {
    "randomized_coordinate": lambda: learners.hedge(8, 2, epsilon=np.inf),
    "on_gradients": lambda: learners.ftrl(8, domains.ball(2), epsilon=np.inf),
    "simulate_batches": lambda: learners.adap_ucb(8, 2, epsilon=np.inf),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_a_feedback_decides_and_not_its_name(name):
    """Also in another process; a feedback of one's own that is named "bandit" is none."""
    learner = LEARNERS.get(name, lambda: learners.kl_ucb(8, 2))()._replace(privacy=Privacy())
    seen = learner.feedback
    for feedback in (pickle.loads(cloudpickle.dumps(seen)), replace(seen, name="other")):
        KINDS[name](learner._replace(feedback=feedback))
    with pytest.raises(ValueError, match="feedback|full information"):
        KINDS[name](learner._replace(feedback=Feedback(seen.name, seen.see)))


# --- minibatch ---


def test_minibatch_feeds_averages_of_whole_batches():
    """11 rounds of batches of 3: three averages; the remaining two rounds are not reported."""
    base = logging()
    learner = combinators.minibatch(base, 11, 3)
    assert learner.feedback is base.feedback and learner.privacy == base.privacy
    assert learner.horizon == 11
    losses = np.linspace(0.1, 1.1, 11)
    state, actions = feed(combinators.every_round(learner), losses)
    assert actions == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert learner.report(state.learner) == 3
    averages = losses[:9].reshape(3, 3).mean(axis=1)
    # float32: two sums and a quotient.
    np.testing.assert_allclose(state.learner.fed[:3], averages, rtol=3e-7)
    assert np.isnan(state.learner.fed[3:]).all()


@pytest.mark.parametrize(("tau", "rounds"), [(1, 1), (3.9, 3), (8, 8), (20, 8), (1e12, 8)])
def test_minibatch_plays_a_whole_number_of_rounds(tau, rounds):
    """tau is rounded down and capped at the horizon, before it can overflow."""
    batch = combinators.minibatch(logging(), 8, tau).init(jr.key(0))[1]
    assert batch.rounds == rounds and batch.rounds.dtype == jnp.int32


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("law", ["binomial", "discrete_laplace"])
def test_minibatch_over_integer_noise_spends_what_it_declares(law):
    """Averages are not bits, so integer noise alone would not hide them. Half of it is found."""
    delta = None if law == "discrete_laplace" else 1e-3
    base = learners.sequential_halving(6, 2, epsilon=1.0, delta=delta, noise=law)
    learner = combinators.every_round(combinators.minibatch(combinators.every_round(base), 24, 4))
    declared = learner.privacy
    assert (declared.model, declared.released) == ("central", "actions 1..T")
    losses = jnp.zeros((24, 2)).at[1].set(1.0)
    pair = audit.Pair(losses, losses.at[2].set(1.0))  # averages of 1/4 and 1/2
    found, halved = (
        audit.spent(audit.replay(each, pair, jr.key(0)), declared.delta)
        for each in (learner, audit.mutants(learner, losses)["noise halved"])
    )
    assert 0.5 < found <= 1.0 + 1e-4 and halved > 1.3 * found


@pytest.mark.parametrize("model", ["local", "silo", "shuffle", "distributed", "central", "joint"])
def test_someone_has_to_see_the_losses_that_minibatch_averages(model):
    declared = Privacy(epsilon=1.0, model=model, released="messages 1..T")
    found = combinators.minibatch(logging()._replace(privacy=declared), 8, 2).privacy
    if model not in ("central", "joint"):
        declared = declared._replace(model="central", released="actions 1..T")
    assert found == declared


# --- count_switches and tracking ---

SWITCHING = {
    "bernoulli": lambda: environments.bernoulli(MEANS),
    "switching_cost": lambda: environments.switching_cost(96, 3),
    "memory": lambda: environments.memory(MEANS, rounds=2),
}


@pytest.mark.parametrize("name", SWITCHING)
def test_count_switches_counts_and_leaves_the_game_as_it_is(name):
    """Regret and tally agree bit for bit; the switches are those of the trajectory."""
    environment, learner = SWITCHING[name](), learners.exp3(96, 3)

    def game(key):
        plain = simulate(learner, environment, key, checkpoints=4)
        counted = simulate(learner, combinators.count_switches(environment), key, checkpoints=4)
        return plain, counted, arms_of(learner, environment, key)

    plain, counted, arms = jax.jit(jax.vmap(game))(jr.split(jr.key(8), 5))
    np.testing.assert_array_equal(counted.regret, plain.regret)
    np.testing.assert_array_equal(counted.tally.tally, plain.tally)
    switches = (np.diff(arms, axis=1) != 0).sum(axis=1)
    np.testing.assert_array_equal(counted.tally.switches, switches)
    assert switches.min() > 10


def least_losses(losses, shifts):
    """The least loss over all sequences of arms with at most ``shifts`` shifts."""
    rounds, arms = losses.shape
    sequences = np.array(list(itertools.product(range(arms), repeat=rounds)))
    few = (np.diff(sequences, axis=1) != 0).sum(axis=1) <= shifts
    return losses[np.arange(rounds), sequences[few]].sum(axis=1).min()


@pytest.mark.parametrize("shifts", [0, 2, 9])
def test_tracking_regret_is_that_of_all_sequences(shifts):
    """Against brute force over 3^6 sequences of arms, after each round of several games."""
    losses = np.random.default_rng(1).random((6, 3)).astype(np.float32)
    losses[:2, 0] = losses[2:4, 1] = 0.0
    environment = combinators.tracking(environments.table(losses), shifts)
    learner = learners.hedge(6, 3, epsilon=np.inf)
    least = [least_losses(losses[:t], shifts) for t in range(1, 7)]
    for seed in range(3):
        result = simulate(learner, environment, jr.key(seed), checkpoints=6)
        suffered = np.cumsum(losses[np.arange(6), arms_of(learner, environment, jr.key(seed))])
        np.testing.assert_allclose(result.regret, suffered - least, atol=1e-5)


# --- arms and points ---


def test_sample_arms_sees_losses_that_are_drawn_where_they_are_used():
    """Those of bernoulli with pseudo-regret are a function; the base sees the whole vector."""
    sampled = combinators.sample_arms(learners.ftrl(8, domains.simplex(3), epsilon=1.0))
    made = environments.bernoulli([0.2, 0.5, 0.8], regret="pseudo")
    for key in jr.split(jr.key(0), 8):
        loss = made.step(made.init(key), key, jnp.int32(1))[1].loss
        assert callable(loss)
        np.testing.assert_array_equal(sampled.feedback(loss, jnp.int32(1)), loss.vector())


def test_sample_arms_draws_from_the_point_that_the_base_plays():
    """Frequencies over 20 000 seeds of round 9's arm against its mean point: chi-square."""
    base = learners.ftrl(16, domains.simplex(3), epsilon=5.0)
    sampled, losses = combinators.sample_arms(base), jr.uniform(jr.key(0), (8, 3))

    def last(key):
        keys = jr.split(key, 9)
        state, arm = sampled.init(keys[0])
        own, point = base.init(jr.split(keys[0])[0])  # the base under the same keys
        for i in range(8):
            state, arm = sampled.step(state, keys[i + 1], losses[i])
            own, point = base.step(own, jr.split(keys[i + 1])[0], losses[i])
        return arm, point

    arms, points = jax.jit(jax.vmap(last))(jr.split(jr.key(1), 20_000))
    counts = np.bincount(arms, minlength=3)
    expected = np.asarray(points, np.float64).mean(axis=0) * 20_000
    assert stats.chisquare(counts, expected).pvalue > 1e-3
    assert stats.chisquare(counts, np.full(3, 20_000 / 3)).pvalue < 1e-6
    # Conditional on its point, an arm has that law too, not only on average.
    hits = points[np.arange(20_000), arms].mean()
    assert abs(hits - (points**2).sum(axis=1).mean()) < 4 * points.std() / 20_000**0.5


def test_arms_are_drawn_from_points_outside_of_the_simplex():
    """Negative entries count as 0 and the rest is rescaled, so no probability is negative."""
    point = jnp.array([15.0, -5.0, 5.0])
    outside = learners.hedge(8, 3, epsilon=1.0)._replace(
        action_set=domains.simplex(3), init=lambda key: ((), point),
        step=lambda state, key, loss: ((), point),
    )  # fmt: skip
    arms = jax.vmap(combinators.sample_arms(outside).init)(jr.split(jr.key(0), 4000))[1]
    counts = np.bincount(np.asarray(arms), minlength=3)
    assert counts[1] == 0 and counts[0] / 4000 == pytest.approx(0.75, abs=0.03)


def test_arms_as_points_is_the_game_on_unit_vectors():
    """The same losses, tallies and regret as for a learner whose points are unit vectors."""
    losses = jr.uniform(jr.key(2), (20, 3))
    environment = environments.linear_losses(domains.simplex(3), losses)
    games = combinators.arms_as_points(environment, 3), environments.table(losses)
    by_arms, table = (simulate(logging(), game, jr.key(0), checkpoints=4) for game in games)
    np.testing.assert_allclose(by_arms.regret, table.regret, atol=1e-5)
    np.testing.assert_allclose(by_arms.tally.loss, losses[:ROUNDS].sum(axis=0), atol=1e-5)


# --- rescale_losses ---


@pytest.mark.parametrize("name", ["ucb1", "lazy_ucb", "adap_ucb"])
def test_a_learner_on_scaled_losses_plays_as_on_its_own(name):
    """Losses 2 l - 1 in [-1, 1]: the same arms, and twice the regret, under the same key.

    The losses are multiples of 1/4, so scaling in both directions is exact.
    """
    losses = jr.randint(jr.key(0), (120, 3), 0, 5).astype(jnp.float32) / 4.0
    arguments = {} if name == "ucb1" else {"epsilon": 2.0}
    learner = getattr(learners, name)(120, 3, **arguments)
    scaled = combinators.rescale_losses(learner, -1.0, 1.0)
    table = environments.table(losses)

    def step(state, key, arm):
        state, outcome = table.step(state, key, arm)
        return state, outcome._replace(loss=2.0 * outcome.loss - 1.0, tally=2.0 * outcome.tally)

    plain = simulate(learner, table, jr.key(1), checkpoints=30)
    other = simulate(scaled, table._replace(step=step), jr.key(1), checkpoints=30)
    np.testing.assert_array_equal(other.regret, 2.0 * plain.regret)
    assert float(np.abs(plain.regret).max()) > 1.0
    # Nothing else of the declaration changes; noise is calibrated to losses in [0, 1].
    assert scaled.privacy == learner.privacy._replace(loss_range=(-1.0, 1.0))
    assert type(scaled) is type(learner) and scaled.horizon == 120


def test_rescaled_losses_are_clipped_to_their_range():
    """-7, 2 and an infinite loss become the ends of [-1, 1]; the base sees losses in [0, 1]."""
    learner = combinators.rescale_losses(logging(), -1.0, 1.0)
    seen = [-7.0, -1.0, -0.5, 0.0, 1.0, 2.0, np.inf, -np.inf]
    fed = [float(seen_inside(learner, jnp.full(2, loss), 1)[0]) for loss in seen]
    assert fed == [0.0, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 0.0]
    # Rewards r in [2, 6] as losses -r.
    rewards = combinators.rescale_losses(logging(), -6.0, -2.0)
    assert [float(rewards.feedback(jnp.full(2, x), 0)) for x in (-6.0, -3.0)] == [0.0, 0.75]


# --- delays and counts of plays ---


def test_a_copy_is_fed_the_losses_of_its_rounds_but_the_one_after_its_last_action():
    learner = combinators.interleave(logging, 11, 2)
    losses = np.arange(11.0) / 16
    state, actions = feed(learner, losses)
    for turn in range(3):
        fed = state.copies.fed[turn][: state.copies.count[turn]]
        np.testing.assert_array_equal(fed, losses[turn::3][:-1])
    # A copy plays 0, 1, 0, ..., so three rounds have arm 0, then three arm 1.
    assert actions[:11] == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1]
    np.testing.assert_array_equal(learner.report(state), [3, 3, 2])
    assert learner.horizon == 11


@jax.jit
def actions_of(losses):
    learner = combinators.interleave(partial(learners.exp3, arms=2), 24, 3)
    return play_table(learner, losses, jr.key(0)).actions


def test_no_action_depends_on_a_loss_before_it_has_arrived():
    """Losses of round 5 first matter in round 9, the next turn of its copy."""
    losses = jr.uniform(jr.key(1), (24, 2))
    plain = actions_of(losses)
    changed = np.zeros(len(plain), bool)
    for amount in (0.0, 1.0):
        changed |= np.asarray(actions_of(losses.at[4].set(amount)) != plain)
    assert not changed[:8].any() and not (changed[8:24].reshape(4, 4)[:, 1:]).any()
    every = actions_of(1.0 - losses) != plain
    assert every[4:].any() and not every[:4].any()


def test_without_delay_it_is_the_learner_itself_bit_for_bit():
    environment = environments.bernoulli([0.3, 0.5, 0.6])
    for make in (partial(learners.dp_exp3_lap, arms=3, epsilon=1.0),
                 partial(learners.adap_ucb, arms=3, epsilon=1.0)):  # fmt: skip
        games = [simulate(each, environment, jr.key(3))
                 for each in (make(64), combinators.interleave(make, 64, 0))]  # fmt: skip
        for a, b in zip(*map(jax.tree.leaves, games), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("quick_compilation")
def test_replays_spend_what_one_copy_declares():
    """For noise on sums of an arm, and on prefix sums, which draw before the first round.

    A copy's play after the last round is neither released nor stored (``dp_ucb_int``).
    """
    for make in (
        partial(learners.dp_ucb_int, arms=2, epsilon=1.0),
        partial(learners.ftrl, domain=domains.simplex(3), epsilon=1.0),
    ):
        learner = combinators.interleave(make, 14, 2)
        assert learner.privacy.epsilon == make(5).privacy.epsilon
        assert "parallel composition of 3 copies" in learner.privacy.accountant
        pairs = audit.pairs_for(learner, 16, audits.keys()[0])
        verdict = audits.replays(learner, pairs)
        assert not verdict.failed and verdict.spent.max() == pytest.approx(
            float(learner.privacy.epsilon), rel=1e-3
        )
        halved = audit.mutants(learner, jax.tree.map(lambda x: x[0], pairs.losses))["noise halved"]
        assert "epsilon" in audits.replays(halved, pairs).failed


@pytest.mark.parametrize("by_batches", [False, True])
def test_plays_are_counted_and_the_game_stays_as_it_is(by_batches):
    environment = environments.bernoulli([0.3, 0.5, 0.6], regret="pseudo")
    learner: Learner | BatchLearner = learners.explore_then_commit(200, 3, epsilon=1.0, rounds=20)
    play = dpjax.simulate_batches if by_batches else simulate

    def game(key):
        plain = play(learner, environment, key, checkpoints=4)
        return plain, play(learner, combinators.count_plays(environment), key, checkpoints=4)

    plain, counted = jax.jit(jax.vmap(game))(jr.split(jr.key(8), 5))
    np.testing.assert_array_equal(counted.regret, plain.regret)
    np.testing.assert_array_equal(counted.tally.tally, plain.tally)
    plays = np.asarray(counted.tally.plays)
    assert (plays.sum(axis=1) == 200).all() and (np.sort(plays)[:, :2] == 20).all()
    np.testing.assert_array_equal(plays.argmax(axis=1), counted.report.arm)
    if not by_batches:
        arms = dpjax.trajectory(
            combinators.every_round(learner), environment, jr.key(0), record=lambda p: p.action
        )
        single = simulate(learner, combinators.count_plays(environment), jr.key(0))
        np.testing.assert_array_equal(single.tally.plays, np.bincount(arms, minlength=3))


# --- the doubling trick ---

BALL = domains.ball(2)
make = partial(learners.projection_free, domain=BALL, epsilon=10.0, smoothing=0.3, rate=0.5)
HORIZON = 100  # epochs of 16, 32 and 64 rounds, the last one cut
EPOCHS = [(0, 16), (16, 48), (48, 100)]
LOSSES = jr.normal(jr.key(0), (HORIZON, 2))


def test_each_epoch_is_a_fresh_learner():
    """Its plays are those of a learner of the epoch's length, with the keys of its rounds."""
    key = jr.key(4)
    learner = combinators.doubling(make, HORIZON, first=16)
    plays, _, state = jax.jit(lambda: play(learner, LOSSES, key))()
    for i, (first, end) in enumerate(EPOCHS):
        alone = make(16 * 2**i)
        state_, action = alone.init(jr.fold_in(jr.fold_in(key, 0), i))
        for t in range(first, min(end, first + 12)):
            np.testing.assert_allclose(plays[t], action, atol=1e-5)
            seen = alone.feedback(LOSSES[t], action)
            state_, action = jax.jit(alone.step)(state_, jr.fold_in(key, t + 1), seen)
    assert len(learner.report(state)) == 3
    assert float(learner.privacy.epsilon) == 10.0


def test_a_changed_round_changes_its_own_epoch_only():
    """By replay with the same key: epochs compose in parallel, and cost as much as one.

    The test would find a learner without restarts, which changes until the end.
    """
    usual, changed = LOSSES[None], changed_rounds(LOSSES, -LOSSES)
    every = jnp.concatenate([usual, changed])
    plays = worlds(combinators.doubling(make, HORIZON, first=16), every, jr.key(4))[0]
    touched = np.zeros(3, bool)
    for t in range(HORIZON):
        own = next(i for i, (first, end) in enumerate(EPOCHS) if first <= t < end)
        differs = np.flatnonzero((plays[t + 1] != plays[0]).any(axis=1))
        first, end = EPOCHS[own]
        assert set(differs) <= set(range(first, end))
        touched[own] |= len(differs) > 0
    assert touched.all()
    whole = worlds(make(HORIZON), every, jr.key(4))[0]
    differs = np.flatnonzero((whole[1] != whole[0]).any(axis=1))
    assert differs[0] == 20 and differs[-1] >= 90


# --- grids and random Fourier features ---

CENTRES = jnp.array([[-0.5], [0.6]])
DEPTHS = jnp.array([0.1, 0.4])
GRID = np.linspace(-1.0, 1.0, 9)[:, None]


def wells(row, x):
    """Two wells; the second is deeper, and each round shows one of them at random."""
    centre, depth = row
    return 0.5 - depth * jnp.maximum(1.0 - 4.0 * jnp.abs(x[0] - centre[0]), 0.0)


def test_a_learner_over_arms_finds_the_deeper_well():
    """Regret is recomputed in NumPy from the losses met; the grid contains the best point."""
    two_wells = environments.convex_losses(domains.cube(1), wells, parameters=(CENTRES, DEPTHS))
    grid, learner = combinators.on_grid(two_wells, GRID), learners.hedge(400, 9, epsilon=np.inf)
    losses, arms = dpjax.trajectory(
        learner, grid, jr.key(0), record=lambda played: (played.outcome.loss, played.action)
    )
    losses, arms = np.asarray(losses), np.asarray(arms)
    total = losses[np.arange(400), arms].sum() - losses.sum(axis=0).min()
    regret = simulate(learner, grid, jr.key(0), checkpoints=1).regret[-1]
    assert float(regret) == pytest.approx(total, abs=1e-3)
    deeper = np.abs(GRID[:, 0] - 0.6).argmin()
    assert losses.sum(axis=0).argmin() == deeper == np.bincount(arms[200:]).argmax()
    of_rows = jax.vmap(jax.vmap(wells, (None, 0)), (0, None))((CENTRES, DEPTHS), jnp.array(GRID))
    away = np.abs(losses[:, None] - np.asarray(of_rows)[None]).max(axis=2)
    assert away.min(axis=1).max() < 1e-6 and set(away.argmin(axis=1)) == {0, 1}


LENGTH = 0.2


def smooth(x):
    """A function in the Gaussian kernel's space with length scale LENGTH: a sum of five bumps."""
    centres, weights = np.array([0.05, 0.3, 0.5, 0.7, 0.9]), np.array([1.0, -1.0, 1.0, -0.5, 0.5])
    bumps = np.exp(-((x[..., None] - centres) ** 2) / (2 * LENGTH**2))
    return 0.5 * np.sum(bumps * weights, axis=-1)


def table(rounds, arms=8):
    """Contexts (T, K, 2), a number and a constant, and losses that are smooth in them."""
    x = np.random.default_rng(0).uniform(size=(rounds, arms)).astype(np.float32)
    return np.stack([x, np.ones_like(x)], axis=2), smooth(x)


def phi(count, x, scale=LENGTH):
    """Features (n, m) of contexts (n, d)."""
    plain = environments.contextual_table(x[None], np.zeros((1, len(x))))
    kernel = combinators.fourier_features(plain, count, scale=scale, key=jr.key(1))
    return np.asarray(kernel.step(kernel.init(None), jr.key(0), lambda x: 0)[1].loss[0])


def test_features_have_length_1_and_their_products_are_the_kernel():
    """With 2^14 features; with another length scale, the products are another kernel."""
    x = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32) * 0.3
    features = phi(2**14, x)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, atol=1e-5)
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    kernel = np.exp(-squares / (2 * LENGTH**2))
    assert np.abs(features @ features.T - kernel).max() < 6 / np.sqrt(2**14)
    wider = phi(2**14, x, scale=1.2 * LENGTH)
    assert np.abs(wider @ wider.T - kernel).max() > 12 / np.sqrt(2**14)


@pytest.mark.slow
def test_a_linear_learner_plays_a_kernel_bandit():
    """It suffers less than on the contexts themselves, which no line fits well."""
    plain = environments.contextual_table(*table(3000))
    kernel = combinators.fourier_features(plain, 32, scale=LENGTH, key=jr.key(1))

    def suffered(environment):
        dim = environment.action_set.dim
        learner = learners.linucb(3000, dim, epsilon=np.inf, delta=0.01, feature_bound=1.5)
        return float(simulate(learner, environment, jr.key(0), checkpoints=1).tally.suffered)

    best = float(np.min(table(3000)[1], axis=1).sum())
    assert suffered(kernel) - best < 0.5 * (suffered(plain) - best)


def test_a_policy_is_asked_with_the_features():
    plain = environments.contextual_table(*table(1))
    kernel = combinators.fourier_features(plain, 6, scale=1.0, key=jr.key(1))
    policy = jax.tree_util.Partial(lambda w, x: jnp.argmax(x @ w), jnp.arange(6.0))
    _, outcome = kernel.step(kernel.init(None), jr.key(0), policy)
    features, losses = outcome.loss
    assert float(outcome.tally.suffered) == float(losses[policy(features)])
