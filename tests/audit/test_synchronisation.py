"""An agent that sends noisy sums to a server, at times that depend on the data it hides.

An example of a synchronisation rule on raw data, as Zhou & Chowdhury 2023 (arXiv 2302.13945) report
of FedUCB (Dubey & Pentland 2020): noise on the messages does not help if the sending times reveal
the data. A rule on previously released values is private.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, noise
from dpjax.audit import Pair
from dpjax.core import Learner, Privacy
from dpjax.feedback import full

HORIZON, SIGMA = 4, 4.0


class Agent(NamedTuple):
    raw: Any  # (2, 2) sum of x x' so far
    noisy: Any  # (2, 2) sum of x x' + noise


def agent(*, trigger_on, threshold=3.5):
    """Its action is whether it sends, and the noisy sums that it sends, (3,)."""

    def step(state, key, row):
        square = row[:, None] * row[None, :]
        state = Agent(state.raw + square, state.noisy + noise.gaussian(key, square, SIGMA))
        (a, b), (c, d) = jnp.eye(2) + getattr(state, trigger_on)
        due = a * d - b * c > threshold
        sent = jnp.where(due, jnp.diag(state.noisy), 0.0)
        return state, jnp.append(sent, due.astype(jnp.float32))

    start = Agent(jnp.zeros((2, 2)), jnp.zeros((2, 2)))
    rho = 1.0 / SIGMA**2  # the largest change of x x' for unit vectors is sqrt(2)
    declared = Privacy(epsilon=1.5, delta=1e-5, rho=rho)
    return Learner(lambda key: (start, jnp.zeros(3)), step, full, None, HORIZON, declared)


# The second unit vector equals the first or is orthogonal to it: det(I + sum) is 3 or 4.
ROWS = jnp.zeros((HORIZON, 2)).at[:2, 0].set(1.0)
PAIR = Pair(ROWS, ROWS.at[1].set(jnp.array([0.0, 1.0])))


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.filterwarnings("ignore:spent is infinite")
def test_a_trigger_on_raw_data_is_a_release_without_noise():
    found = jax.jit(lambda key: audit.replay(agent(trigger_on="raw"), PAIR, key))(jr.key(0))
    assert not bool(found.same_actions) and bool(found.noise_seen)
    assert float(audit.spent(found, 1e-5)) == np.inf
    assert "depend on the losses other than through the releases" in audit.explain(found)[0]
    # The flag of round 3 alone distinguishes the sequences, for any key.
    flags = [
        jax.vmap(lambda key, rows=rows: audit.play(agent(trigger_on="raw"), rows, key)[2, 2])(
            jr.split(jr.key(1), 50)
        )
        for rows in PAIR
    ]
    assert not flags[0].any() and flags[1].all()


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("seed", range(3))
def test_a_trigger_on_noisy_sums_is_post_processing(seed):
    learner = agent(trigger_on="noisy")
    found = jax.jit(lambda key: audit.replay(learner, PAIR, key))(jr.key(seed))
    assert bool(found.same_actions) and int(found.touched) == 1
    assert float(found.rho) == pytest.approx(float(learner.privacy.rho))
    assert float(audit.spent(found, 1e-5)) <= float(learner.privacy.epsilon)
