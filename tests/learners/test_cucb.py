"""CUCB: buffers, indices and reading by hand, its order, and the cost of its releases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains
from dpjax.learners import cucb
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
quickly = pytest.mark.usefixtures("quick_compilation")


def tables(horizon=HORIZON):
    return jnp.float32(np.random.default_rng(0).uniform(size=(horizon, DIM)) < MEANS)


def paired(first, second, horizon, at=0):
    """Losses of 1/2 except in one round, which is ``first`` or ``second``."""
    base = np.full((horizon, len(first)), 0.5, np.float32)
    losses, others = base.copy(), base.copy()
    losses[at], others[at] = first, second
    return audit.Pair(jnp.asarray(losses), jnp.asarray(others))


def spent(learner, pair):
    return float(audit.spent(audit.replay(learner, pair, jr.key(3)), learner.privacy.delta))


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
@quickly
def test_buffers_means_and_indices_by_hand(read, model, epsilon):
    """Means are of the latest full buffer; in the local model, of all losses read."""
    losses, local = tables(), model == "local"
    draws = np.random.default_rng(1).laplace(size=(HORIZON, DIM)).astype(np.float32)
    given = jnp.asarray(draws)
    plain = cucb(HORIZON, CATALOGUE["sets"][0], epsilon=epsilon, read=read, model=model)
    logged = with_releases(plain, lambda i, value, scale: value + scale * given[i])

    def init(key):
        """The log has one value per entry."""
        state, action = logged.init(key)
        return state._replace(log=state.log._replace(value=jnp.zeros(DIM, jnp.float32))), action

    game = jax.jit(lambda: play_table(logged._replace(init=init), losses, jr.key(2)))()
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


@pytest.mark.parametrize("read", ["one", "all"])
@pytest.mark.parametrize("model", ["central", "local"])
@quickly
def test_a_replaced_round_spends_epsilon_and_not_more(read, model):
    """If all entries change, "all" spends epsilon / k on each, and "one" all of it on one.

    Pairs of any other kind spend no more, on paths.
    """
    pair = paired(np.zeros(DIM), np.ones(DIM), 12)
    learner = cucb(12, CATALOGUE["sets"][0], epsilon=0.7, read=read, model=model)
    assert spent(learner, pair) == pytest.approx(0.7, rel=1e-4)
    learner = cucb(16, CATALOGUE["paths"][0], epsilon=1.0, read=read, model=model)
    found = audit.verdict(learner, audit.pairs_for(learner, 16, jr.key(1)), jr.key(2))
    assert found.failed == () and found.spent.max() <= 1.0 + 1e-4
