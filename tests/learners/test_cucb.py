"""CUCB: buffers, indices and reading by hand, its law at k = 1, and the cost of its releases."""

from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, combinators, domains, environments, feedback, learners, sweep
from dpjax.learners import cucb
from dpjax.learners.cucb import SPREAD, most_ones
from tests.learners.given_noise import with_releases
from tests.play import play_table

HORIZON, DIM, ONES = 200, 5, 2
EDGES = [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
CATALOGUE = {
    "sets": (domains.capped_simplex(DIM, ONES), 2),
    "at most two": (domains.uniform_matroid(DIM, ONES), 2),
    "partition": (domains.partition_matroid([0, 0, 1, 1, 1], [1, 2], bases=True), 3),
    "trees": (domains.forests(EDGES, 4), 3),
    "paths": (domains.paths(EDGES, 0, 3), 3),
}
both = pytest.mark.parametrize("read", ["one", "all"])
models = pytest.mark.parametrize("model", ["central", "local"])
quickly = pytest.mark.usefixtures("quick_compilation")
MODULE = "dpjax.learners.cucb"


def tables(horizon=HORIZON, seed=0):
    means = np.linspace(0.2, 0.8, DIM)
    losses = np.random.default_rng(seed).uniform(size=(horizon, DIM)) < means
    return jnp.asarray(losses, jnp.float32)


def paired(first, second, horizon, at=0):
    """Losses of 1/2 except in one round, which is ``first`` or ``second``."""
    base = np.full((horizon, len(first)), 0.5, np.float32)
    losses, others = base.copy(), base.copy()
    losses[at], others[at] = first, second
    return audit.Pair(jnp.asarray(losses), jnp.asarray(others))


def spent(learner, pair):
    return float(audit.spent(audit.replay(learner, pair, jr.key(3)), learner.privacy.delta))


def test_semi_bandit_feedback_shows_the_played_entries():
    loss, action = jnp.array([0.2, 0.5, 0.9]), jnp.array([1.0, 0.0, 1.0])
    np.testing.assert_allclose(feedback.semi_bandit(loss, action), [0.2, 0.0, 0.9])
    with pytest.raises(TypeError, match="needs linear losses"):
        feedback.semi_bandit(lambda x: x, action)


@pytest.mark.parametrize("name", CATALOGUE)
def test_k_is_the_most_ones_of_a_vertex(name):
    domain, ones = CATALOGUE[name]
    assert most_ones(domain) == ones
    assert float(cucb(8, domain, epsilon=1.0).privacy.epsilon) == 1.0


@pytest.mark.parametrize(
    "domain",
    [domains.ball(3), domains.cube(3), domains.box([0, 0, 0], [1, 2, 1]), domains.l1_ball(3)],
)
def test_other_vertices_are_refused(domain):
    with pytest.raises(ValueError, match=r"^domain must have vertices of ones and zeros"):
        cucb(8, domain, epsilon=1.0)


def test_bad_arguments_are_refused_by_name():
    domain = CATALOGUE["sets"][0]
    for argument, value in (("read", "two"), ("model", "shuffle"), ("exploration", 0.0)):
        with pytest.raises(ValueError, match=f"^{argument} "):
            cucb(8, domain, epsilon=1.0, **{argument: value})


def by_hand(states, losses, draws, read, local, epsilon):
    """Samples and means (T, d) after each round, given the actions and the entries read."""
    scale = (1.0 if read == "one" else ONES) / epsilon
    samples, totals, buffers = np.zeros(DIM, int), np.zeros(DIM), [[] for _ in range(DIM)]
    reads = np.zeros(DIM, int)
    for t, loss in enumerate(losses):
        action = np.flatnonzero(np.asarray(states.action[t]))
        before = samples + [len(buffer) for buffer in buffers]
        after = np.asarray(states.samples[t + 1] + states.buffer.pulls[t + 1])
        if read == "one":
            # The entry that was read advanced its buffer, or was released from it.
            moved = (np.asarray(states.samples[t + 1]) != samples) | (after != before)
            assert moved.sum() == 1 and moved[action].sum() == 1
            assert before[moved][0] == before[action].min()
            action = np.flatnonzero(moved)
        for i in action:
            reads[i] += 1
            buffers[i].append(float(loss[i]))
            if local:
                totals[i] += loss[i] + scale * draws[t, i]
                samples[i] += 1
                buffers[i] = []
            elif len(buffers[i]) == max(1, 2 * samples[i]):
                samples[i] = len(buffers[i])
                totals[i] = sum(buffers[i]) + scale * draws[t, i]
                buffers[i] = []
        yield samples.copy(), totals / np.maximum(samples, 1)


@both
@models
@pytest.mark.parametrize("epsilon", [0.5, np.inf])
@quickly
def test_buffers_means_and_indices_by_hand(read, model, epsilon):
    """Means are of the latest full buffer; in the local model, of all losses read."""
    losses, domain = tables(), CATALOGUE["sets"][0]
    draws = np.random.default_rng(1).laplace(size=(HORIZON, DIM)).astype(np.float32)
    given = jnp.asarray(draws)
    plain = cucb(HORIZON, domain, epsilon=epsilon, read=read, model=model)
    logged = with_releases(plain, lambda i, value, scale: value + scale * given[i])
    learner = logged._replace(init=lambda key: _vector_log(logged.init(key)))
    game = jax.jit(lambda: play_table(learner, losses, jr.key(2)))()
    states, local = jax.device_get(game.states.inner), model == "local"
    scale = (1.0 if read == "one" else ONES) / epsilon
    variance = 0.25 + 2 * scale**2 * local
    for t, (samples, means) in enumerate(by_hand(states, losses, draws, read, local, epsilon)):
        np.testing.assert_array_equal(states.samples[t + 1], samples)
        if not (samples > 0).all():
            # An entry that was never read is played next.
            assert (samples[np.asarray(states.action[t + 1]) > 0] == 0).any()
            continue
        log_t = np.log(t + 2)
        radius = np.sqrt(6 * variance * log_t / samples) + 3 * scale * log_t / samples
        index = means - radius
        chosen = np.sum(index[np.asarray(states.action[t + 1]) > 0])
        slack = 2 * ONES * SPREAD * radius.max() + 1e-5
        assert chosen <= np.sort(index)[:ONES].sum() + slack
    assert samples.max() >= 8


def _vector_log(start):
    """A log of releases with one value per entry."""
    state, action = start
    return state._replace(log=state.log._replace(value=jnp.zeros(DIM, jnp.float32))), action


@quickly
def test_at_one_arm_of_k_it_has_the_law_of_lazy_ucb():
    """With its radius and private means: the loss of 400 games by Kolmogorov-Smirnov."""
    horizon, domain = 256, domains.simplex(3)
    nature = environments.linear_losses(domain, "iid", bias=1.0)

    def mine(epsilon):
        return cucb(horizon, domain, epsilon=epsilon, exploration=0.5), nature

    def lazy(epsilon):
        arms = combinators.arms_as_points(nature, 3)
        return learners.lazy_ucb(horizon, 3, epsilon=epsilon, exploration=0.5, log_base=np.e), arms

    def regret(game, key):
        found = sweep(game, np.array([2.0]), 400, jr.key(key), checkpoints=1, progress=False)
        return found.regret[0, :, -1]

    usual = regret(mine, 1)
    with mock.patch(f"{MODULE}.VARIANCE", 0.5):  # the radius of lazy_ucb
        same = regret(lambda epsilon: mine(epsilon), 2)
    other = regret(lazy, 3)
    assert stats.ks_2samp(same, other).pvalue > 1e-3
    assert stats.ks_2samp(usual, other).pvalue < 1e-3


@both
@models
@quickly
def test_a_replaced_round_spends_epsilon_and_not_more(read, model):
    """In the first round all entries change: "all" spends epsilon / k on each, "one" all on one.

    Half of the noise spends twice as much, and noise for one entry k times as much.
    """
    domain, horizon = CATALOGUE["sets"][0], 12
    pair = paired(np.zeros(DIM), np.ones(DIM), horizon)
    learner = cucb(horizon, domain, epsilon=0.7, read=read, model=model)
    assert spent(learner, pair) == pytest.approx(0.7, rel=1e-4)
    halved = audit.mutants(learner, pair.losses)["noise halved"]
    assert spent(halved, pair) == pytest.approx(1.4, rel=1e-4)
    if read == "all":
        for_one = cucb(horizon, domain, epsilon=0.7 * ONES, read=read, model=model)
        wrong = for_one._replace(privacy=learner.privacy)
        assert spent(wrong, pair) == pytest.approx(0.7 * ONES, rel=1e-4)


@both
@models
@pytest.mark.parametrize(
    "name", ["paths", *(pytest.param(n, marks=pytest.mark.slow) for n in CATALOGUE if n != "paths")]
)
@quickly
def test_no_pair_spends_more_over_the_catalogue(name, read, model):
    learner = cucb(16, CATALOGUE[name][0], epsilon=1.0, read=read, model=model)
    found = audit.verdict(learner, audit.pairs_for(learner, 16, jr.key(1)), jr.key(2))
    assert found.failed == () and found.spent.max() <= 1.0 + 1e-4


@pytest.mark.parametrize("name", CATALOGUE)
@quickly
def test_it_plays_vertices_and_learns_the_best(name):
    """It ends by playing entries of small mean; actions are 0/1 points of the domain."""
    domain, ones = CATALOGUE[name]
    losses = tables(1500)
    learner = cucb(1500, domain, epsilon=np.inf, exploration=0.5)
    game = jax.jit(lambda: play_table(learner, losses, jr.key(0)))()
    actions = np.asarray(game.actions)
    assert np.isin(actions, (0.0, 1.0)).all() and actions.sum(axis=1).max() <= ones
    best = domain.minimizer(jnp.linspace(0.2, 0.8, DIM))
    late, means = actions[750:].mean(axis=0), np.linspace(0.2, 0.8, DIM)
    assert means @ (late - np.asarray(best)) < 0.12
    assert np.asarray(domain.contains(jnp.asarray(actions[5])))


@quickly
def test_the_order_of_entries_does_not_matter():
    """All first actions are equally likely, and either of two entries is read first."""
    domain = CATALOGUE["sets"][0]
    learner = cucb(4, domain, epsilon=1.0)

    def first(key):
        state, action = learner.init(key)
        state, _ = learner.step(state, jr.fold_in(key, 1), action)
        return action, state.samples

    actions, reads = jax.jit(jax.vmap(first))(jr.split(jr.key(0), 4000))
    places = np.asarray(actions) @ (2 ** np.arange(DIM))
    counts = np.unique(places, return_counts=True)[1]
    assert len(counts) == 10 and stats.chisquare(counts).pvalue > 1e-3
    assert stats.chisquare(np.asarray(reads).sum(axis=0)).pvalue > 1e-3


@quickly
def test_losses_out_of_range_are_clipped_where_they_are_read():
    domain = CATALOGUE["sets"][0]
    learner = cucb(6, domain, epsilon=np.inf, read="all")
    wild = jnp.array([[-3.0, 7.0, np.nan, 0.5, 2.0]] * 6, jnp.float32)
    tame = jnp.array([[0.0, 1.0, 0.0, 0.5, 1.0]] * 6, jnp.float32)
    ours, theirs = (play_table(learner, losses, jr.key(1)) for losses in (wild, tame))
    np.testing.assert_array_equal(ours.actions, theirs.actions)
    outside = np.asarray(ours.actions[:-1])[:, [0, 1, 2, 4]].sum()
    assert int(ours.clipped) == outside > 0
    assert int(theirs.clipped) == 0


def test_an_action_without_entries_is_legal():
    """At most two entries: once all bounds are positive, nothing is played and nothing is read."""
    learner = cucb(400, CATALOGUE["at most two"][0], epsilon=np.inf, exploration=0.1)
    losses = jnp.ones((400, DIM))
    game = jax.jit(lambda: play_table(learner, losses, jr.key(1)))()
    assert (np.asarray(game.actions).sum(axis=1) == 0).any()
    state = game.last
    assert int(jnp.sum(state.samples)) < 400


def test_the_bound_by_hand():
    """Central and local values in closed form; less privacy has the smaller bound."""
    horizon, log_t = 1024, np.log(1024)
    for read, model, c, h in (
        ("one", "central", 6, 2.0), ("all", "central", 4, 6.0), ("one", "local", 1, 2.0),
    ):  # fmt: skip
        b = 0.25 + (2 * h * h if model == "local" else 0)
        value = (1 + 2**-13) * (
            6 * np.sqrt(96 * b * c * 5 * horizon * log_t) + 12 * c * 5 * h * 3 * log_t * (1 + log_t)
        )
        value += 2.5 * 15 + 3 * np.sqrt(np.log(2) * 5 * horizon / 2)
        found = bounds.cucb(horizon, 5, 3, 0.5, read=read, model=model)
        assert found == pytest.approx(value)
    assert (np.diff(bounds.cucb(10**6, 5, 3, [0.1, 1.0, np.inf])) < 0).all()
    for argument in ({"read": "two"}, {"model": "joint"}):
        with pytest.raises(ValueError, match=next(iter(argument))):
            bounds.cucb(10, 5, 2, 1.0, **argument)
