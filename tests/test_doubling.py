"""The doubling trick: epochs of fresh learners, which compose in parallel."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import combinators, domains, learners
from tests.learners.replay import changed_rounds, play, worlds

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
