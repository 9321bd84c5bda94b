"""Learners made from learners, and environments made from environments."""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import (
    BatchLearner,
    audit,
    domains,
    environments,
    every_round,
    learners,
    noise,
    simulate,
    trajectory,
)
from dpjax.combinators import (
    arms_as_points,
    count_switches,
    laplace_feedback,
    minibatch,
    rescale_losses,
    sample_arms,
    tracking,
)
from dpjax.core import Arms, Learner, Privacy
from dpjax.feedback import bandit, seen_inside
from tests.play import step

ROUNDS = 12


class Log(NamedTuple):
    fed: Any  # (ROUNDS,) its input losses, followed by nan
    count: Any  # () int32


def logging(horizon=ROUNDS, arms=3):
    """A learner that plays arms 0, 1, 0, 1, ... and records its inputs."""

    def init(key):
        del key
        return Log(jnp.full(ROUNDS, jnp.nan), jnp.zeros((), jnp.int32)), jnp.zeros((), jnp.int32)

    def step(state, key, loss):
        del key
        fed = jnp.where(jnp.arange(ROUNDS) == state.count, loss, state.fed)
        return Log(fed, state.count + 1), (state.count + 1) % 2

    return Learner(init, step, bandit, Arms(arms), horizon, Privacy(), lambda state: state.count)


def feed(learner, losses):
    """The state after the given losses, one per round."""
    state, action = learner.init(jr.key(0))
    actions = [int(action)]
    for t, loss in enumerate(losses, start=1):
        state, action = step(learner, state, jr.fold_in(jr.key(0), t), jnp.float32(loss))
        actions.append(int(action))
    return state, actions


def test_laplace_feedback_feeds_scaled_losses_and_the_null_loss(monkeypatch):
    """Accepted in [-b, 1 + b], ends included: it passes on (l~ + b) / (2b + 1), else null_loss."""
    # With noise of exactly one scale, l~ = l + 2.
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + scale)
    learner = laplace_feedback(logging(), epsilon=0.5, threshold=1.5, null_loss=0.75)
    state, actions = feed(learner, [0.0, 0.5, 0.75, 1.0, 0.25])
    np.testing.assert_allclose(state.base.fed[:5], [3.5 / 4, 1.0, 0.75, 0.75, 3.75 / 4])
    assert actions == [0, 1, 0, 1, 0, 1]
    report = learner.report(state)
    assert (report.rejected, report.base) == (2, 5)
    # Below -b: l~ = l - 2.
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value - scale)
    state, _ = feed(learner, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(state.base.fed[:3], [0.75, 0.0, 0.125])
    assert learner.report(state).rejected == 1


def test_laplace_feedback_clips_before_noise(monkeypatch):
    """Noise is added to the clipped loss."""
    seen = []

    def record(key, value, scale):
        seen.append(float(value))
        return value

    monkeypatch.setattr(noise, "laplace", record)
    learner = laplace_feedback(logging(), epsilon=1.0, threshold=0.0, null_loss=0.0)
    state, _ = feed(learner, [-2.0, 0.0, 3.0, 1.0, np.inf])
    assert seen == [0.0, 0.0, 1.0, 1.0, 1.0]
    np.testing.assert_array_equal(state.base.fed[:5], seen)


def test_laplace_feedback_draws_fresh_noise_apart_from_the_base():
    """The round's key is split: one part for the noise, the other for the base."""

    def keep_key(state, key, loss):
        return (loss, jr.uniform(key)), jnp.zeros((), jnp.int32)

    start = (jnp.zeros(()), jnp.zeros(()))
    base = Learner(
        lambda key: (start, jnp.zeros((), jnp.int32)), keep_key, bandit, None, ROUNDS, Privacy()
    )
    learner = laplace_feedback(base, epsilon=1.0, threshold=50.0, null_loss=0.0)
    draws = []
    for t in (1, 2):
        key = jr.fold_in(jr.key(3), t)
        state, _ = learner.step(learner.init(key)[0], key, jnp.float32(0.5))
        noise_key, base_key = jr.split(key)
        fed, uniform = state.base
        draws.append(float(noise.laplace(noise_key, 0.0, 1.0)))
        assert uniform == jr.uniform(base_key)
        # float32 at a threshold of 50: 2^-24 of 101, in units of the noise scale.
        assert float(fed) * 101.0 - 50.0 - 0.5 == pytest.approx(draws[-1], abs=2e-5)
    assert draws[0] != draws[1]


def test_laplace_feedback_declares_its_own_privacy():
    """Pure and local, replacing the base's; horizon and feedback are the base's."""
    learner = laplace_feedback(logging(7), epsilon=0.3, threshold=1.0, null_loss=0.0)
    assert (learner.privacy.epsilon, learner.privacy.delta) == (0.3, 0.0)
    assert learner.privacy.model == "local"
    assert learner.horizon == 7
    assert learner.feedback is bandit


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *[("epsilon", value) for value in (0.0, -1.0, float("nan"))],
        *[("threshold", value) for value in (-0.1, float("nan"))],
    ],
)
def test_laplace_feedback_names_bad_arguments(argument, value):
    """The message names the wrong argument."""
    arguments = {"epsilon": 1.0, "threshold": 1.0, argument: value}
    with pytest.raises(ValueError, match=rf"\b{argument}\b"):
        laplace_feedback(logging(), null_loss=0.0, **arguments)


def test_minibatch_feeds_averages_of_whole_batches():
    """11 rounds of batches of 3: three averages; the remaining two rounds are not reported."""
    learner = minibatch(logging(), 11, 3)
    assert isinstance(learner, BatchLearner)
    assert learner.init(jr.key(0))[1].rounds == 3
    losses = np.linspace(0.1, 1.1, 11)
    state, actions = feed(every_round(learner), losses)
    assert actions == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert learner.report(state.learner) == 3
    averages = losses[:9].reshape(3, 3).mean(axis=1)
    # float32: two sums and a quotient.
    np.testing.assert_allclose(state.learner.fed[:3], averages, rtol=3e-7)
    assert np.isnan(state.learner.fed[3:]).all()


@pytest.mark.parametrize(("tau", "rounds"), [(1, 1), (3.9, 3), (8, 8), (20, 8), (1e12, 8)])
def test_minibatch_plays_a_whole_number_of_rounds(tau, rounds):
    """tau is rounded down and capped at the horizon, before it can overflow."""
    batch = minibatch(logging(), 8, tau).init(jr.key(0))[1]
    assert batch.rounds == rounds
    assert batch.rounds.dtype == jnp.int32


def test_minibatch_hands_on_what_is_the_bases():
    """Feedback, privacy and report; the horizon is the given one."""
    base = logging()
    learner = minibatch(base, 8, 2)
    assert learner.feedback is base.feedback
    assert learner.privacy == base.privacy
    assert learner.horizon == 8


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("law", ["binomial", "skellam", "discrete_gaussian", "discrete_laplace"])
def test_minibatch_over_integer_noise_spends_what_it_declares(law):
    """Averages are not bits, so integer noise alone would not hide them. Half of it is found."""
    delta = None if law == "discrete_laplace" else 1e-3
    base = learners.sequential_halving(6, 2, epsilon=1.0, delta=delta, noise=law)
    learner = every_round(minibatch(every_round(base), 24, 4))
    declared = learner.privacy
    assert (declared.model, declared.released) == ("central", "actions 1..T")
    losses = jnp.zeros((24, 2)).at[1].set(1.0)
    pair = audit.Pair(losses, losses.at[2].set(1.0))  # averages of 1/4 and 1/2
    found = audit.spent(audit.replay(learner, pair, jr.key(0)), declared.delta)
    assert 0.5 < found <= 1.0 + 1e-4
    halved = audit.mutants(learner, losses)["noise halved"]
    assert audit.spent(audit.replay(halved, pair, jr.key(0)), declared.delta) > 1.3 * found


@pytest.mark.parametrize("model", ["local", "silo", "shuffle", "distributed", "central", "joint"])
def test_someone_has_to_see_the_losses_that_minibatch_averages(model):
    declared = Privacy(epsilon=1.0, model=model, released="messages 1..T")
    found = minibatch(logging()._replace(privacy=declared), 8, 2).privacy
    kept = model in ("central", "joint")
    assert found == (
        declared if kept else declared._replace(model="central", released="actions 1..T")
    )


def test_minibatch_refuses_neighbours_whose_losses_are_0():
    """The averages 1 and 3/4 of four rounds differ by a loss of 0, but neither is 0."""
    base = logging()._replace(privacy=Privacy(epsilon=1.0, neighbours="zero_out"))
    with pytest.raises(ValueError, match="learner must be for neighbours 'replace', not 'zero_out"):
        minibatch(base, 8, 2)


def test_minibatch_refuses_what_has_no_average():
    """The average of features belongs to no arm."""
    base = learners.linucb(8, 2, epsilon=1.0, delta=1e-3)
    with pytest.raises(ValueError, match="learner must see only losses.*'contextual'"):
        minibatch(base, 16, 2)


@pytest.mark.parametrize(
    ("horizon", "tau", "name"),
    [(0, 1, "horizon"), (8, 0.5, "tau"), (8, 0, "tau"), (8, float("nan"), "tau")],
)
def test_minibatch_names_bad_arguments(horizon, tau, name):
    """The message names the wrong argument."""
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        minibatch(logging(), horizon, tau)


def test_batches_of_batches_are_refused():
    """No wrapper takes a BatchLearner, whose losses are sums over many rounds."""
    batches = minibatch(logging(), 8, 2)
    with pytest.raises(TypeError, match="learner must be a Learner"):
        minibatch(batches, 8, 2)
    with pytest.raises(TypeError, match="learner must be a Learner"):
        laplace_feedback(batches, epsilon=1.0, threshold=1.0, null_loss=0.0)


SWITCHING = {
    "bernoulli": lambda: environments.bernoulli([0.3, 0.5, 0.6]),
    "switching_cost": lambda: environments.switching_cost(96, 3),
    "memory": lambda: environments.memory([0.3, 0.5, 0.6], rounds=2),
}


@pytest.mark.parametrize("name", SWITCHING)
def test_count_switches_counts_and_leaves_the_game_as_it_is(name):
    """Regret and tally agree bit for bit; the switches are those of the trajectory."""
    environment, learner = SWITCHING[name](), learners.exp3(96, 3)

    def game(key):
        plain = simulate(learner, environment, key, checkpoints=4)
        counted = simulate(learner, count_switches(environment), key, checkpoints=4)
        arms = trajectory(learner, environment, key, record=lambda played: played.action)
        return plain, counted, arms

    plain, counted, arms = jax.jit(jax.vmap(game))(jr.split(jr.key(8), 5))
    np.testing.assert_array_equal(counted.regret, plain.regret)
    np.testing.assert_array_equal(counted.tally.tally, plain.tally)
    np.testing.assert_array_equal(counted.rounds, plain.rounds)
    switches = (np.diff(arms, axis=1) != 0).sum(axis=1)
    np.testing.assert_array_equal(counted.tally.switches, switches)
    assert switches.min() > 10


def test_count_switches_of_a_learner_that_never_and_one_that_always_switches():
    """No switch in one batch of all rounds; 11 in 12 alternating rounds; none at the start."""
    environment = count_switches(environments.bernoulli([0.2, 0.6], regret="pseudo"))
    assert environment.batch is None  # the inner environment's batches count no switches
    assert environment.horizon is None
    never = simulate(
        minibatch(logging(arms=2), ROUNDS, ROUNDS), environment, jr.key(0), checkpoints=1
    )
    always = simulate(logging(arms=2), environment, jr.key(0), checkpoints=1)
    assert never.tally.switches == 0
    assert always.tally.switches == ROUNDS - 1
    assert count_switches(environments.switching_cost(16, 2)).horizon == 16


def least_losses(losses, shifts):
    """The least loss over all sequences of arms with at most ``shifts`` shifts."""
    rounds, arms = losses.shape
    sequences = np.array(list(itertools.product(range(arms), repeat=rounds)))
    few = (np.diff(sequences, axis=1) != 0).sum(axis=1) <= shifts
    return losses[np.arange(rounds), sequences[few]].sum(axis=1).min()


@pytest.mark.parametrize("shifts", [0, 1, 2, 5, 9])
def test_tracking_regret_is_that_of_all_sequences(shifts):
    """Against brute force over 3^6 sequences of arms, after each round of several tables."""
    losses = np.random.default_rng(1).random((6, 3)).astype(np.float32)
    losses[:2, 0] = losses[2:4, 1] = 0.0
    environment = tracking(environments.table(losses), shifts)
    for seed in range(3):
        result = simulate(
            learners.hedge(6, 3, epsilon=np.inf), environment, jr.key(seed), checkpoints=range(1, 7)
        )
        arms = trajectory(
            learners.hedge(6, 3, epsilon=np.inf),
            environment,
            jr.key(seed),
            record=lambda played: played.action,
        )
        suffered = np.cumsum(losses[np.arange(6), arms])
        expected = [suffered[t - 1] - least_losses(losses[:t], shifts) for t in range(1, 7)]
        np.testing.assert_allclose(result.regret, expected, atol=1e-5)


def test_tracking_leaves_the_game_as_it_is():
    """Also if a bandit draws single losses; without shifts it is ordinary regret."""
    learner = learners.exp3(96, 3)
    means = [0.3, 0.5, 0.6]
    lazy = environments.bernoulli(means, regret="pseudo")
    plain = simulate(learner, lazy, jr.key(0), checkpoints=4)
    tracked = simulate(learner, tracking(lazy, 3), jr.key(0), checkpoints=4)
    np.testing.assert_array_equal(tracked.tally, plain.tally)
    realised = simulate(learner, environments.bernoulli(means), jr.key(0), checkpoints=4)
    still = simulate(learner, tracking(lazy, 0), jr.key(0), checkpoints=4)
    np.testing.assert_array_equal(still.regret, realised.regret)
    assert (tracked.regret >= still.regret).all() and tracked.regret[-1] > still.regret[-1] + 1
    assert tracking(environments.switching_cost(16, 2), 1).horizon == 16


def test_tracking_refuses_what_it_cannot_track():
    with pytest.raises(ValueError, match="shifts must be"):
        tracking(environments.deterministic(3), -1)
    points = environments.linear_losses(domains.simplex(3), "iid")
    with pytest.raises(ValueError, match="environment must be over arms"):
        tracking(points, 1)


def test_minibatch_refuses_a_base_too_short_for_its_batches():
    """500 batches with a base for 64 draws, and 3 batches, the last of one round, for 2 draws."""
    with pytest.raises(ValueError, match="tau: the learner must have a horizon of 500"):
        minibatch(learners.exp3(64, 3), 1000, 2)
    with pytest.raises(ValueError, match="tau: the learner must have a horizon of 3"):
        minibatch(learners.exp3(2, 3), 11, 5)


@pytest.mark.parametrize("threshold", [-1.0, float("inf"), float("nan")])
def test_laplace_feedback_refuses_a_threshold_that_accepts_everything(threshold):
    """With infinite b, (l~ + b) / (2b + 1) would be NaN."""
    with pytest.raises(ValueError, match="threshold must be at least 0 and finite"):
        laplace_feedback(learners.exp3(8, 3), epsilon=1.0, threshold=threshold, null_loss=1.0)


def test_sample_arms_sees_losses_that_are_drawn_where_they_are_used():
    """Those of bernoulli with pseudo-regret are a function; the base sees the whole vector."""
    sampled = sample_arms(learners.ftrl(8, domains.simplex(3), epsilon=1.0))
    made = environments.bernoulli([0.2, 0.5, 0.8], regret="pseudo")
    for key in jr.split(jr.key(0), 8):
        loss = made.step(made.init(key), key, jnp.int32(1))[1].loss
        assert callable(loss)
        np.testing.assert_array_equal(sampled.feedback(loss, jnp.int32(1)), loss.vector())


def test_sample_arms_draws_from_the_point_that_the_base_plays():
    """Frequencies over 20 000 seeds of round 9's arm against its mean point: chi-square."""
    base = learners.ftrl(16, domains.simplex(3), epsilon=5.0)
    losses = jr.uniform(jr.key(0), (8, 3))

    def last(key):
        sampled = sample_arms(base)
        keys = jr.split(key, 9)
        state, arm = sampled.init(keys[0])
        for i in range(8):
            state, arm = sampled.step(state, keys[i + 1], losses[i])
        # The base under the same keys.
        base_state, point = base.init(jr.split(keys[0])[0])
        for i in range(8):
            base_state, point = base.step(base_state, jr.split(keys[i + 1])[0], losses[i])
        return arm, point

    arms, points = jax.jit(jax.vmap(last))(jr.split(jr.key(1), 20_000))
    counts = np.bincount(arms, minlength=3)
    assert (
        stats.chisquare(counts, np.asarray(points, np.float64).mean(axis=0) * 20_000).pvalue > 1e-3
    )
    wrong = np.full(3, 20_000 / 3)
    assert stats.chisquare(counts, wrong).pvalue < 1e-6
    # Conditional on its point, an arm has that law too, not only on average.
    hits = points[np.arange(20_000), arms].mean()
    assert abs(hits - (points**2).sum(axis=1).mean()) < 4 * points.std() / 20_000**0.5


def test_arms_as_points_is_the_game_on_unit_vectors():
    """The same losses, tallies and regret as for a learner whose points are unit vectors."""
    losses = jr.uniform(jr.key(2), (20, 3))
    environment = environments.linear_losses(domains.simplex(3), losses)
    by_arms = simulate(logging(), arms_as_points(environment, 3), jr.key(0), checkpoints=4)
    table = simulate(logging(), environments.table(losses), jr.key(0), checkpoints=4)
    np.testing.assert_allclose(by_arms.regret, table.regret, atol=1e-5)
    np.testing.assert_allclose(
        by_arms.tally.loss, losses[: logging().horizon].sum(axis=0), atol=1e-5
    )


# --- rescale_losses ---


@pytest.mark.parametrize("name", ["ucb1", "lazy_ucb", "adap_ucb", "exp3"])
def test_a_learner_on_scaled_losses_plays_as_on_its_own(name):
    """Losses 2 l - 1 in [-1, 1]: the same arms, and twice the regret, under the same key.

    The losses are multiples of 1/4, so scaling in both directions is exact.
    """
    losses = jr.randint(jr.key(0), (120, 3), 0, 5).astype(jnp.float32) / 4.0
    arguments = {"epsilon": 2.0} if name in ("lazy_ucb", "adap_ucb") else {}
    learner = getattr(learners, name)(120, 3, **arguments)
    scaled = rescale_losses(learner, -1.0, 1.0)
    table = environments.table(losses)

    def step(state, key, arm):
        state, outcome = table.step(state, key, arm)
        return state, outcome._replace(loss=2.0 * outcome.loss - 1.0, tally=2.0 * outcome.tally)

    plain = simulate(learner, table, jr.key(1), checkpoints=30)
    other = simulate(scaled, table._replace(step=step), jr.key(1), checkpoints=30)
    np.testing.assert_array_equal(other.regret, 2.0 * plain.regret)
    assert float(np.abs(plain.regret).max()) > 1.0
    assert type(scaled) is type(learner)


def test_rescaled_losses_are_clipped_to_their_range():
    """-7, 2 and an infinite loss become the ends of [-1, 1]; the base sees losses in [0, 1]."""
    learner = rescale_losses(logging(), -1.0, 1.0)
    seen = [-7.0, -1.0, -0.5, 0.0, 1.0, 2.0, np.inf, -np.inf]
    fed = [float(seen_inside(learner, jnp.full(2, loss), 1)[0]) for loss in seen]
    assert fed == [0.0, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0, 0.0]
    # Rewards r in [2, 6] as losses -r.
    rewards = rescale_losses(logging(), -6.0, -2.0)
    assert float(rewards.feedback(jnp.full(2, -6.0), 0)) == 0.0
    assert float(rewards.feedback(jnp.full(2, -3.0), 0)) == 0.75


def test_gaussian_losses_reach_a_learner_clipped():
    """All losses passed on are in [0, 1], and their mean is that of the clipped law."""
    horizon, low, high, deviation = 20_000, -0.5, 1.5, 1.0

    class Extremes(NamedTuple):
        least: Any
        most: Any
        total: Any

    def init(key):
        del key
        return Extremes(jnp.float32(2), jnp.float32(-1), jnp.float32(0)), jnp.zeros((), jnp.int32)

    def step(state, key, loss):
        del key
        least, most = jnp.minimum(state.least, loss), jnp.maximum(state.most, loss)
        return Extremes(least, most, state.total + loss), jnp.zeros((), jnp.int32)

    base = Learner(init, step, bandit, Arms(2), horizon, Privacy(), lambda state: state)
    environment = environments.gaussian([0.2, 0.6], deviation=deviation)
    learner = rescale_losses(base, low, high)
    report = jax.jit(lambda: simulate(learner, environment, jr.key(0)).report)()
    assert (report.least, report.most) == (0.0, 1.0)
    draws = np.clip(stats.norm(0.2, deviation).ppf((np.arange(10**5) + 0.5) / 10**5), low, high)
    scaled = (draws - low) / (high - low)
    error = scaled.std() / np.sqrt(horizon)
    assert abs(float(report.total) / horizon - scaled.mean()) < 4 * error


def test_a_rescaled_learner_declares_its_range():
    """Nothing else of the declaration changes; noise is calibrated to losses in [0, 1]."""
    learner = learners.adap_ucb(64, 3, epsilon=0.5)
    declared = rescale_losses(learner, -2, 3).privacy
    assert declared.loss_range == (-2.0, 3.0)
    assert declared._replace(loss_range=(0.0, 1.0)) == learner.privacy
    assert rescale_losses(learner, -2, 3).horizon == 64


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1.0, 1.0, "^low must be below high"),
        (2.0, 1.0, "^low must be below high"),
        (np.nan, 1.0, "^low must be"),
        (0.0, np.nan, "^high must be"),
        (-np.inf, 1.0, "^low must be"),
        (0.0, np.inf, "^high must be"),
    ],
)
def test_rescale_losses_refuses_bad_ranges(low, high, message):
    """Empty, or not finite."""
    with pytest.raises(ValueError, match=message):
        rescale_losses(logging(), low, high)


def test_rescale_losses_refuses_what_has_another_range():
    """A learner that is rescaled already, or no learner at all."""
    once = rescale_losses(logging(), -1.0, 1.0)
    with pytest.raises(ValueError, match=r"^learner must be for losses in \[0, 1\]"):
        rescale_losses(once, 0.0, 2.0)
    with pytest.raises(TypeError, match="^learner must be a learner, got Environment"):
        rescale_losses(environments.bernoulli([0.1, 0.2]), 0.0, 1.0)
    with pytest.raises(ValueError, match="^learner must play arms or points, not policies"):
        rescale_losses(learners.glm_sgd(8, 2, epsilon=1.0), -1.0, 1.0)


def test_arms_are_drawn_from_points_outside_of_the_simplex():
    """Negative entries count as 0 and the rest is rescaled, so no probability is negative."""
    point = jnp.array([1.5, -0.5, 0.5])
    outside = learners.hedge(8, 3, epsilon=1.0)._replace(
        action_set=domains.simplex(3), init=lambda key: ((), point),
        step=lambda state, key, loss: ((), point),
    )  # fmt: skip
    played = sample_arms(outside)
    arms = jax.vmap(lambda key: played.init(key)[1])(jr.split(jr.key(0), 4000))
    counts = np.bincount(np.asarray(arms), minlength=3)
    assert counts[1] == 0 and counts[0] / 4000 == pytest.approx(0.75, abs=0.03)
