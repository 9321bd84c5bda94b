"""CUCB and FTRL for semi-bandits: laws of sets and paths, estimates, batches, and releases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from jax import random as jr
from scipy import stats

from dpjax import bounds, domains, noise, privacy
from dpjax.combinators import as_learner
from dpjax.domains import lotteries
from dpjax.learners import cucb, semi_bandit_ftrl
from dpjax.learners._cucb import SPREAD, most_ones
from tests.learners.given_noise import with_releases
from tests.play import play_table

HORIZON, DIM, ONES = 200, 5, 2
EDGES = [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
CATALOGUE = {
    "sets": (domains.capped_simplex(DIM, ONES), 2),
    "partition": (domains.partition_matroid([0, 0, 1, 1, 1], [1, 2]), 3),
    "trees": (domains.spanning_trees(EDGES, 4), 3),
    "paths": (domains.paths(EDGES, 0, 3), 3),
}
MEANS = np.linspace(0.2, 0.8, DIM)
pytestmark = pytest.mark.usefixtures("quick_compilation")


def tables(horizon=HORIZON):
    return jnp.float32(np.random.default_rng(0).uniform(size=(horizon, DIM)) < MEANS)


def test_k_is_the_most_ones_of_a_vertex():
    assert [most_ones(domain) for domain, _ in CATALOGUE.values()] == [2, 3, 3, 3]
    for domain in (domains.cube(3), domains.box([0, 0, 0], [1, 2, 1]), domains.l1_ball(3)):
        with pytest.raises(ValueError, match=r"^domain must have vertices of ones and zeros"):
            most_ones(domain)


def by_hand(states, losses, draws, read, local, scale):
    """Samples and means (T, d) after each round, given the actions and the entries read."""
    samples, totals, buffers = np.zeros(DIM, int), np.zeros(DIM), [[] for _ in range(DIM)]
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


@pytest.mark.parametrize("read", ["one", "all"])
@pytest.mark.parametrize(
    ("model", "epsilon"), [("central", 0.5), ("local", 0.5), ("central", np.inf)]
)
def test_buffers_means_and_indices_of_cucb_by_hand(read, model, epsilon):
    """Means are of the latest full buffer; in the local model, of all losses read."""
    losses, local = tables(), model == "local"
    draws = np.random.default_rng(1).laplace(size=(HORIZON, DIM)).astype(np.float32)
    given = jnp.asarray(draws)
    plain = cucb(HORIZON, CATALOGUE["sets"][0], epsilon=epsilon, read=read, model=model)
    logged = with_releases(plain, lambda i, value, scale: value + scale * given[i])
    game = jax.jit(lambda: play_table(logged, losses, jr.key(2)))()
    states = jax.device_get(game.states.inner)
    scale = (1.0 if read == "one" else ONES) / epsilon
    variance = 0.25 + 2 * scale**2 * local
    for t, (samples, means) in enumerate(by_hand(states, losses, draws, read, local, scale)):
        np.testing.assert_array_equal(states.samples[t + 1], samples)
        chosen = np.asarray(states.action[t + 1]) > 0
        if not (samples > 0).all():
            # An entry that was never read is played next.
            assert (samples[chosen] == 0).any()
            continue
        log_t = np.log(t + 2)
        radius = np.sqrt(6 * variance * log_t / samples) + 3 * scale * log_t / samples
        slack = 2 * ONES * SPREAD * radius.max() + 1e-5
        assert np.sum((means - radius)[chosen]) <= np.sort(means - radius)[:ONES].sum() + slack
    assert samples.max() >= 8


PATHS = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 1, 0, 1]], float)  # of EDGES
ON = {name: CATALOGUE[name][0] for name in ("sets", "partition", "paths")}
S = np.array([0.0, 1.0, 2.0, -3.0, 0.5, 9.0, 4.0])


def drawn(domain, s, count=2**14):
    """Actions (count, d), and the marginals of their law."""
    draw = jax.jit(jax.vmap(lambda key, s: domain.lottery.draw(key, s, noise.choose), (0, None)))
    actions, marginals = draw(jr.split(jr.key(0), count), jnp.asarray(s, jnp.float32))
    return np.asarray(actions, np.float64), np.asarray(marginals[0], np.float64)


# Laws of vertices -------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e7])
def test_marginals_are_the_minimizer_by_a_root_finder(k, size):
    s = size * S

    def over(m):
        return np.sum(np.minimum(1.0, np.maximum(s + m, 1.0) ** -2.0)) - k

    middle = np.sort(s)[k - 1]
    m = scipy.optimize.brentq(over, 1.0 - middle, 3.0 - middle, xtol=1e-12)
    expected = np.minimum(1.0, np.maximum(s + m, 1.0) ** -2.0)
    _, found = drawn(domains.capped_simplex(7, k), s, 1)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert found.sum() == k


@pytest.mark.parametrize("seed", range(6))
def test_sampling_has_its_marginals_exactly(seed):
    """Over all values of u, for difficult marginals: near 0, near 1, and with an inexact sum."""
    rng = np.random.default_rng(seed)
    n, k = 9, int(rng.integers(1, 9))
    x = rng.choice([0.0, 1e-7, 0.3, 1.0 - 1e-7, 1.0], n) + 1e-6 * rng.normal(size=n)
    x = np.clip(x, 0.0, 1.0)
    x = np.clip(x * k / max(x.sum(), 1e-3), 0.0, 1.0)
    while abs(x.sum() - k) > 1e-4:  # as the bisection returns it
        x = np.clip(x + (k - x.sum()) / n, 0.0, 1.0)
    units, bits = lotteries._in_units(jnp.asarray(x, jnp.float32), k)
    law = []

    def given(key, probabilities):
        law.append(np.asarray(probabilities, np.float64))
        return key

    sets = [lotteries._systematic(place, given, (units, bits)) for place in range(n)]
    actions, marginals = (np.asarray(each, np.float64) for each in zip(*sets, strict=True))
    assert np.isin(actions, (0.0, 1.0)).all() and (actions.sum(axis=1) == k).all()
    assert law[0].sum() == 1.0 and marginals[0].sum() == k
    np.testing.assert_array_equal(law[0] @ actions, marginals[0])
    np.testing.assert_allclose(marginals[0], x, atol=2e-4)


@pytest.mark.parametrize("size", [0.1, 1.0, 300.0])
def test_the_walk_has_the_law_of_exponential_weights_over_all_paths(size):
    s = -size * S[:5]
    weights = scipy.special.softmax(-PATHS @ s)
    actions, marginals = drawn(ON["paths"], s)
    np.testing.assert_allclose(marginals, weights @ PATHS, atol=1e-6)
    counts = np.array([np.sum((actions == path).all(axis=1)) for path in PATHS])
    likely = weights * len(actions) > 5
    assert counts.sum() == len(actions) and counts[~likely].sum() <= 30
    if likely.sum() > 1:
        expected = weights[likely] / weights[likely].sum() * counts[likely].sum()
        assert stats.chisquare(counts[likely], expected).pvalue > 1e-3


# Estimates --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read"), [("sets", "one"), ("sets", "all"), ("partition", "all"), ("paths", "one")]
)
def test_estimates_are_unbiased(name, read):
    """At weights far from equal, with the number of edges of each path."""
    losses = np.array([0.1, 0.9, 0.4, 0.0, 1.0])
    learner = semi_bandit_ftrl(10**9, ON[name], epsilon=1.0, read=read)
    lottery, moment = ON[name].lottery, {"one": 3.0, "all": 1 + 2 * ON[name].lottery.ones ** 2}
    rate = np.sqrt(lottery.penalty / lottery.stability / 1e9 / moment[read])
    rate /= np.sqrt(lottery.ones) if read == "one" else 1.0
    start = jnp.asarray(S[:5] / rate / 4, jnp.float32)

    def one(key):
        first, second, third = jr.split(key, 3)
        state, _ = learner.init(first)
        # A step on loss 0 from L = start, without noise on what is read, draws the action.
        state = state._replace(estimates=start, reads=jnp.zeros(5, bool))
        state, action = learner.step(state, second, jnp.zeros(5))
        after, _ = learner.step(state, third, jnp.asarray(losses, jnp.float32) * action)
        return after.estimates - state.estimates, state.marginals

    added, marginals = jax.jit(jax.vmap(one))(jr.split(jr.key(1), 2**16))
    added = np.asarray(added, np.float64)
    assert marginals[0].min() < 0.6 * marginals[0].max()
    error = added.std(axis=0) / np.sqrt(len(added))
    assert (np.abs(added.mean(axis=0) - losses) <= 4.5 * error).all()


@pytest.mark.parametrize("name", ["sets", "paths"])
def test_large_estimates_are_skipped_and_counted(name):
    """A noisy loss changes L on one side of the limit, and not on the other."""
    learner = semi_bandit_ftrl(100, ON[name], epsilon=np.inf)
    state, _ = jax.jit(learner.init)(jr.key(0))
    lottery = ON[name].lottery
    rate = np.sqrt(lottery.penalty / lottery.stability / 100 / lottery.ones)
    (entry,), x = np.flatnonzero(state.reads), np.asarray(state.marginals)
    limit = float(lottery.reach(state.marginals)[entry] * x[entry] / rate / state.action.sum())
    expected = (0.5 / np.sqrt(x[entry]) if name == "sets" else 1.0) * x[entry] / rate
    assert limit == pytest.approx(expected / float(state.action.sum()), rel=1e-5)
    step = jax.jit(learner.step)
    for size, used in ((0.99, True), (1.01, False)):
        for sign in (1.0, -1.0):
            after, _ = step(state, jr.key(1), sign * size * limit * state.action)
            assert (float(after.estimates[entry]) != 0.0) is used
            assert int(learner.report(after).skipped) == (not used)


# Privacy ----------------------------------------------------------------------------------------


# Games ------------------------------------------------------------------------------------------


def test_batches_play_one_action_and_read_the_same_entries():
    """tau = ceil(sqrt 2 / epsilon); "all" needs k times that, and sigma for Gaussian noise."""
    for given, expected in (
        ({"epsilon": 0.3}, 5), ({"epsilon": 0.3, "read": "all"}, 10), ({"epsilon": np.inf}, 1),
        ({"epsilon": 1e-6}, 64),
        ({"epsilon": 0.3, "delta": 0.1}, np.ceil(privacy.gaussian_inverse_mu(0.3, 0.1))),
    ):  # fmt: skip
        learner = semi_bandit_ftrl(64, ON["sets"], model="central", **given)
        _, batch = jax.jit(learner.init)(jr.key(0))
        assert int(batch.rounds) == expected
    learner = as_learner(semi_bandit_ftrl(64, ON["sets"], epsilon=0.3, model="central"))
    actions = np.asarray(play_table(learner, jnp.ones((64, 5)), jr.key(0)).actions)[:60]
    blocks = actions.reshape(12, 5, 5)
    assert (blocks == blocks[:, :1]).all() and len(np.unique(blocks[:, 0], axis=0)) > 3


def test_the_bound_by_hand():
    """In closed form: V = k (1 + 2 / epsilon^2) or 1 + 2 k^2 / epsilon^2, in batches for tau."""
    tau = 3.0  # 2 sqrt 2, rounded up
    for ones, options, expected in [
        (2, {}, np.sqrt(32 * 5 * 2 * 900 * 2 * 9)),
        (2, {"read": "all"}, np.sqrt(32 * 5 * 2 * 900 * (1 + 8 / 0.25))),
        (3, {"paths": 3}, np.sqrt(8 * np.log(3) * 5 * 900 * 3 * 9)),
        (2, {"model": "central"}, tau * np.sqrt(320 * 300 * 2 * (1 + 2 / 1.5**2)) + 2 * tau),
    ]:
        assert bounds.semi_bandit_ftrl(900, 5, ones, 0.5, **options) == pytest.approx(expected)
