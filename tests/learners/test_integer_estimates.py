"""Integer noise on one-point estimates, whose entries are far larger than losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, learners
from dpjax.learners.parts.one_point import entries_of, values
from dpjax.learners.parts.prefix_sums import of_rounded

LEARNERS = {
    "private_one_point": lambda **given: learners.private_one_point(5, domains.ball(2), **given),
    "projection_free": lambda **given: learners.projection_free(9, domains.ball(2), **given),
}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_replay_spends_at_most_what_is_declared(name, law):
    """On losses that jump between the ends of the range; half the noise is found."""
    delta = None if law == "discrete_laplace" else 1e-3
    learner = LEARNERS[name](
        epsilon=1.0, delta=delta, noise=law, smoothing=0.1, loss_range=(-1.0, 1.0)
    )
    plus = jnp.tile(jnp.array([18.0, 24.0]), (learner.horizon, 1))
    pairs = [
        audit.Pair(sign * plus, (sign * plus).at[at].multiply(-1.0))
        for sign in (1.0, -1.0)
        for at in (0, 1)
    ]
    rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    keys = jr.split(jr.key(0), 8)

    def spends(learner):
        run = jax.vmap(
            jax.vmap(lambda pair, key: audit.replay(learner, pair, key), (None, 0)), (0, None)
        )
        found = jax.tree.map(np.asarray, jax.jit(run)(rows, keys))
        return np.asarray(audit.spent(found, float(learner.privacy.delta)))

    found = spends(learner)
    assert found.max() <= float(learner.privacy.epsilon) * (1.0 + 1e-4)
    assert found.max() > 0.3
    mutant = audit.mutants(learner, plus)["noise halved"]
    assert spends(mutant).max() > 1.9 * found.max()


@pytest.mark.parametrize("size", [4.0, 40.0])
def test_the_change_of_a_rounded_estimate_is_that_of_the_estimate(size):
    """Rounds the estimates of both neighbours with the same uniform numbers, in NumPy."""
    domain = domains.ball(3)
    losses = values(domain, (-1.0, 1.0), 1.0, 0.0)
    change = size * (losses.high - losses.low)
    l1, l2 = of_rounded((3**0.5 * change, change), (3,), entries_of(size, losses), "round")
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(4000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    levels = generator.uniform(size=(4000, 3))
    below, above = (np.ceil(sign * size * directions - levels) for sign in (-1.0, 1.0))
    moved = np.abs(above - below)
    assert np.linalg.norm(moved, axis=1).max() <= l2 <= change + 3**0.5
    assert moved.sum(axis=1).max() <= l1
    assert np.linalg.norm(moved, axis=1).max() > 0.95 * change
    assert change > 2.0 * 3**0.5  # the change of a rounded loss in [-1, 1], which is too small
