"""All histories of small games, counted: none is likelier than replay and declaration allow.

A learner on two arms has 2^8 histories of eight actions. Each history and each prefix is counted
over many seeds on both sequences of a pair. The largest log-ratio whose simultaneous confidence
interval lies above 0 is compared with the epsilon from replays of the same pair, and with the
declared epsilon. A replay depends on its key, so the largest over many keys counts.
"""

from functools import partial

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
RUNS, REPLAYS, BLOCK, PAIRS = 2**16, 32, 2**12, 10
LEVEL = 1e-3  # of all intervals of one learner together
EVENTS = 2 ** (HORIZON + 1) - 2  # histories of 1 .. T actions
SIZES = {
    "arms": ARMS, "actions": np.array([[1.0, 0.0], [-1.0, 0.5]]), "dim": ARMS, "delta": DELTA,
    "epsilon": EPSILON, "domain": audits.domain_of("simplex"),
}  # fmt: skip


def build(name):
    return as_learner(factories.build(name, HORIZON, SIZES, **audits.OPTIONS.get(name, {})))


def counts_of(learner, sequences, key):
    """Counts of each history, (sequences, 2^T); sequences have independent seeds.

    A history is the number whose bits are the actions, the first action in the highest bit.
    """
    places = jnp.arange(HORIZON - 1, -1, -1, dtype=jnp.int32)

    def history_of(losses, key):
        actions = play_table(learner, losses, key).actions[:HORIZON].astype(jnp.int32)
        return jnp.sum(actions << places, dtype=jnp.int32)

    def histories(losses_and_key):
        losses, key = losses_and_key
        return lax.map(partial(history_of, losses), jr.split(key, RUNS), batch_size=BLOCK)

    keys = jr.split(key, len(sequences))
    found = jax.jit(lambda: lax.map(histories, (sequences, keys)))()
    return np.array([np.bincount(row, minlength=ARMS**HORIZON) for row in np.asarray(found)])


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


def look(learner, *, replays=True):
    """The largest log-ratio found with confidence, and the largest epsilon of replays, (pairs,).

    Counts all histories of a learner on all pairs in both directions.
    """
    delta, pairs = float(learner.privacy.delta), audit.pairs_for(learner, PAIRS, jr.key(4))
    both = jnp.concatenate([pairs.losses, pairs.others])
    ours, theirs = np.split(with_prefixes(counts_of(learner, both, jr.key(11))), 2)
    tests = 4 * PAIRS * EVENTS
    shown = np.maximum(
        largest_ratio(ours, theirs, delta, tests), largest_ratio(theirs, ours, delta, tests)
    )
    if not replays:
        return shown, np.inf
    keys = jr.split(jr.key(12), REPLAYS)

    def of_pair(pair):
        return jax.vmap(lambda key: audit.replay(learner, Pair(*pair), key))(keys)

    whole = both, jnp.concatenate([pairs.others, pairs.losses])
    with quick():
        replayed = jax.jit(lambda: lax.map(of_pair, whole))()
    of_keys = np.asarray(audit.spent(jax.tree.map(np.asarray, replayed), delta))
    return shown, of_keys.max(axis=-1).reshape(2, PAIRS).max(axis=0)


@pytest.mark.parametrize("name", learners.__all__)
def test_no_history_shows_more_than_is_declared_and_its_replays_spend(name):
    learner = build(name)
    if not isinstance(learner.action_set, Arms) or not np.isfinite(learner.privacy.epsilon):
        pytest.skip("it plays no arms, or declares nothing")
    if isinstance(learner.action_set, Pairs):
        pytest.skip("4^8 histories are too many; test_dueling_elimination.py has their exact law")
    shown, spent = look(learner)
    allowed = 1 + audit.verdicts.ROUNDING
    assert shown.max() <= float(learner.privacy.epsilon) * allowed
    more = np.flatnonzero(shown > spent * allowed)
    assert not len(more), (more, shown[more], spent[more])


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
    shown, spent = look(answers(EPSILON))
    assert 0.9 < shown.max() <= 1.0 and spent.max() == pytest.approx(EPSILON, rel=1e-4)
    assert look(answers(2 * EPSILON), replays=False)[0].max() > 1.8
