"""All histories of small games, counted: none is likelier than replay and declaration allow.

A learner on two arms has 2^8 histories of eight actions. Each history and each prefix is counted
over many seeds on both sequences of a pair. The largest log-ratio whose simultaneous confidence
interval lies above 0 is compared with the epsilon from replays of the same pair, and with the
declared epsilon. A replay depends on its key, so the largest over many keys counts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from scipy import stats

from dpjax import Learner, Privacy, audit, learners, noise
from dpjax.audit import Pair
from dpjax.cli import audits
from dpjax.combinators import as_learner
from dpjax.core import Arms, Pairs
from dpjax.feedback import full
from dpjax.learners import factories
from tests import quick
from tests.play import play_table

pytestmark = pytest.mark.slow

HORIZON, ARMS, EPSILON, DELTA = 8, 2, 1.0, 1e-3
RUNS, REPLAYS, BLOCK = 2**16, 32, 2**12
LEVEL = 1e-3  # of all intervals of one learner together
EVENTS = 2 ** (HORIZON + 1) - 2  # histories of 1 .. T actions
SIZES = {
    "arms": ARMS, "actions": np.array([[1.0, 0.0], [-1.0, 0.5]]), "dim": ARMS, "delta": DELTA,
    "epsilon": EPSILON, "domain": audits.domain_of("simplex"),
}  # fmt: skip


def build(name):
    return as_learner(factories.build(name, HORIZON, SIZES, **audits.OPTIONS.get(name, {})))


def neighbour(vector, other, declared):
    """A neighbour of a round's vector: the other vector, as far as the declaration allows."""
    if declared.neighbours == "zero_out":
        return np.zeros_like(vector)
    if declared.unit == "entry":
        return np.where(np.arange(len(vector)) == 0, other, vector)
    return other


def pairs_of(learner):
    """Pairs of audits, and a change of the first and a middle round on three sequences."""
    made = audit.pairs_for(learner, 4, jr.key(4))
    rows = []
    for base, first, other in (
        ([0.5, 0.5], [1.0, 0.0], [0.0, 1.0]),
        ([1.0, 1.0], [1.0, 1.0], [0.0, 0.0]),
        ([-7.0, 9.0], [-1e6, 1e6], [1e6, -1e6]),
    ):
        for t in (0, HORIZON // 2 - 1):
            sides = np.tile(np.array(base, np.float32), (2, HORIZON, 1))
            sides[0, t] = first
            sides[1, t] = neighbour(sides[0, t], np.array(other, np.float32), learner.privacy)
            rows.append(sides)
    ours = jnp.array(rows)
    return Pair(
        jnp.concatenate([made.losses, ours[:, 0]]), jnp.concatenate([made.others, ours[:, 1]])
    )


def history_of(learner, losses, key):
    """The actions of all rounds as one number, the first action in the highest bit, () int32."""
    actions = play_table(learner, losses, key).actions[:HORIZON].astype(jnp.int32)
    return jnp.sum(actions << jnp.arange(HORIZON - 1, -1, -1, dtype=jnp.int32), dtype=jnp.int32)


def counts_of(learner, sequences, key):
    """Counts of each history, (sequences, 2^T) int32; sequences have independent seeds."""

    def of_sequence(given):
        losses, key = given

        def add(counts, key):
            seeds = jr.split(key, BLOCK)
            found = jax.vmap(lambda seed: history_of(learner, losses, seed))(seeds)
            return counts.at[found].add(1), None

        empty = jnp.zeros(ARMS**HORIZON, jnp.int32)
        return lax.scan(add, empty, jr.split(key, RUNS // BLOCK))[0]

    return lax.map(of_sequence, (sequences, jr.split(key, len(sequences))))


def with_prefixes(counts):
    """Counts of the histories of the first 1 .. T actions, (..., EVENTS)."""
    parts = [
        counts.reshape(*counts.shape[:-1], 2**rounds, -1).sum(axis=-1)
        for rounds in range(1, HORIZON + 1)
    ]
    return np.concatenate(parts, axis=-1)


def largest_ratio(counts, others, delta, tests):
    """For each pair, a lower confidence bound on the largest log of (p - delta) / q, at least 0.

    Each Clopper-Pearson interval of p and q fails with probability LEVEL / tests.
    """
    tail = LEVEL / tests
    low = np.where(counts > 0, stats.beta.ppf(tail, counts, RUNS - counts + 1), 0.0)
    high = np.where(others < RUNS, stats.beta.isf(tail, others + 1, RUNS - others), 1.0)
    with np.errstate(divide="ignore"):
        ratios = np.log(np.maximum(low - delta, 0.0) / high)
    return np.maximum(ratios.max(axis=-1), 0.0)


class Found(NamedTuple):
    declared: float
    shown: np.ndarray  # (pairs,) the largest log-ratio found with confidence
    spent: np.ndarray  # (pairs,) the largest epsilon of all replays


def look(learner, *, replays=True):
    """Counts all histories of a learner on all pairs in both directions, and replays the pairs."""
    declared = learner.privacy
    delta, pairs = float(declared.delta), pairs_of(learner)
    count = len(pairs.losses)
    both = jnp.concatenate([pairs.losses, pairs.others])
    counts = np.asarray(jax.jit(lambda key: counts_of(learner, both, key))(jr.key(11)))
    assert (counts.sum(axis=-1) == RUNS).all()
    events = with_prefixes(counts)
    ours, theirs = events[:count], events[count:]
    tests = 4 * count * EVENTS
    shown = np.maximum(
        largest_ratio(ours, theirs, delta, tests), largest_ratio(theirs, ours, delta, tests)
    )
    spent = np.full(count, np.inf)
    if replays:
        keys = jr.split(jr.key(12), REPLAYS)

        def of_pair(losses, others):
            return jax.vmap(lambda key: audit.replay(learner, Pair(losses, others), key))(keys)

        whole = Pair(both, jnp.concatenate([pairs.others, pairs.losses]))
        with quick():
            replayed = jax.jit(lambda: lax.map(lambda pair: of_pair(*pair), whole))()
        of_keys = np.asarray(audit.spent(jax.tree.map(np.asarray, replayed), delta))
        spent = of_keys.max(axis=-1).reshape(2, count).max(axis=0)
    return Found(float(declared.epsilon), shown, spent)


@pytest.mark.parametrize("name", learners.__all__)
def test_no_history_shows_more_than_is_declared_and_its_replays_spend(name):
    learner = build(name)
    if not isinstance(learner.action_set, Arms) or not np.isfinite(learner.privacy.epsilon):
        pytest.skip("it plays no arms, or declares nothing")
    if isinstance(learner.action_set, Pairs):
        pytest.skip("4^8 histories are too many; test_dueling_elimination.py has their exact law")
    found = look(learner)
    allowed = 1 + audit.verdicts.ROUNDING
    assert found.shown.max() <= found.declared * allowed
    more = np.flatnonzero(found.shown > found.spent * allowed)
    assert not len(more), (more, found.shown[more], found.spent[more])


def answers(truth):
    """A learner that declares 1 and plays a bit of its losses, truthfully with odds e^truth."""

    def step(state, key, loss):
        bit = (loss[0] > 0.5).astype(jnp.float32)
        chance = jnp.where(bit > 0.5, 1.0, jnp.exp(-truth)) / (1.0 + jnp.exp(-truth))
        first = noise.coin(key, chance).astype(jnp.int32)
        arm = jnp.where(state[0] == 0, first, state[1])
        return (state[0] + 1, arm), arm

    zero = jnp.zeros((), jnp.int32)
    return Learner(
        lambda key: ((zero, zero), zero), step, full, Arms(ARMS), HORIZON, Privacy(epsilon=EPSILON)
    )


def test_counts_find_odds_that_are_larger_than_declared():
    """With the declared odds, nearly all is found and never more; with twice, more than 1."""
    honest, leaky = look(answers(EPSILON)), look(answers(2 * EPSILON), replays=False)
    assert 0.9 < honest.shown.max() <= 1.0
    assert honest.spent.max() == pytest.approx(EPSILON, rel=1e-4)
    assert leaky.shown.max() > 1.8
