"""Replays of batches of up to 2^30 rounds: the cost of one loss among them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, learners
from dpjax.audit import Pair
from dpjax.core import Feedback, Learner
from dpjax.feedback import unclipped
from dpjax.learners.parts.arm_sums import ArmSums
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

pytestmark = pytest.mark.usefixtures("quick_compilation")

LONGEST = 2**31 - 1


def given_totals(learner, batches):
    """A BatchLearner as a Learner whose rounds are batches and whose losses determine their sums.

    The loss is a pair: of the batch's last round, () or (K,) with full information, and of each
    other round.
    """

    def total(losses, batch):
        last, others = losses
        more = jnp.broadcast_to(batch.rounds - 1, others.shape)
        return exact_sums.add(exact_sums.repeated(others, more), exact_sums.of(last))

    return Learner(
        init=learner.init,
        step=learner.step,
        feedback=Feedback("total", total),
        clip=unclipped,
        action_set=None,
        horizon=batches,
        privacy=learner.privacy._replace(reported=()),
    )


def neighbours(batches, last=0.0, changed=1.0):
    """Pairs that replace the last loss of batch 1, 2, ..., with that axis in front.

    The other losses have one mean per batch, equal for all arms, so that no two batches tie.
    """
    shape = np.shape(last)
    means = np.linspace(0.95, 0.99, batches).reshape(batches, *[1] * len(shape))
    others = np.broadcast_to(means + np.zeros(shape), (batches - 1, batches, *shape))
    here = np.eye(batches)[:-1].reshape(batches - 1, batches, *[1] * len(shape)) > 0
    sides = np.where(here, changed, last), np.where(here, last, last)
    sides = [np.broadcast_to(side, others.shape).astype(np.float32) for side in sides]
    return Pair(*((side, others.astype(np.float32)) for side in sides))


def spent(learner, pairs):
    """The cost of each pair in multiples of the declared epsilon or, if delta > 0, of rho."""
    replayed = jax.jit(jax.vmap(lambda pair: audit.replay(learner, pair, jr.key(0))))(pairs)
    assert np.all(replayed.same_actions) and np.all(replayed.same_scales)
    if learner.privacy.delta == 0.0:
        return np.asarray(replayed.pure) / float(learner.privacy.epsilon)
    np.testing.assert_array_equal(replayed.gaussian, replayed.rho)
    return np.asarray(replayed.rho) / float(learner.privacy.rho)


def longest_batch(learner, pairs):
    """Rounds of the longest batch that the learner sees."""

    def one(carry, inputs):
        state, batch = carry
        i, losses = inputs
        after = learner.step(state, jr.fold_in(jr.key(0), i), learner.feedback(losses, batch))
        return after, batch.rounds

    start = learner.init(jr.fold_in(jr.key(0), 0))
    inputs = jnp.arange(1, learner.horizon), jax.tree.map(lambda leaf: leaf[0, :-1], pairs.losses)
    return int(jnp.max(jax.jit(lambda: jax.lax.scan(one, start, inputs)[1])()))


# Each with the number of batches that it sees within the horizon and uses.
BY_BATCHES = [
    ("adap_ucb", 62, {"epsilon": 1.0}),
    ("adap_klucb", 62, {"epsilon": 1.0}),
    ("dp_klucb", 62, {"epsilon": 1.0}),
    ("dp_imed", 62, {"epsilon": 1.0}),
    ("adac_ucb", 62, {"rho": 0.02}),
    ("adac_gope", 39, {"rho": 0.02}),
    ("successive_elimination", 20, {"epsilon": 1.0, "failure": 2.4e-5}),
    ("linear_elimination", 39, {"epsilon": 1.0}),
    ("linear_elimination", 41, {"epsilon": 1.0, "noise": "local_laplace"}),
    ("batched_bandit", 4, {"epsilon": 2.0**-29, "base": "exp2"}),
]


@pytest.mark.parametrize(("name", "batches", "options"), BY_BATCHES)
def test_one_loss_among_a_billion_costs_what_is_declared(name, batches, options):
    """In each batch in turn. With half the noise it is twice epsilon, or four times rho."""
    arms = np.eye(2) if name in ("linear_elimination", "adac_gope") else 2
    learner = given_totals(getattr(learners, name)(LONGEST, arms, **options), batches)
    pairs = neighbours(batches)
    assert longest_batch(learner, pairs) > 2**27  # beyond the resolution of one float32
    np.testing.assert_allclose(spent(learner, pairs), 1.0, rtol=1e-5)
    one = jax.tree.map(lambda leaf: leaf[0], pairs.losses)
    halved = audit.mutants(learner, one)["noise halved"]
    np.testing.assert_allclose(spent(halved, pairs), 4.0 if "rho" in options else 2.0, rtol=1e-5)


def test_one_loss_vector_among_a_billion_moves_the_draw_of_limited_updates():
    """Between level arms, (0, 1) for (1, 0) costs epsilon / 2 after a batch of any size.

    With twice the epsilon, which is half the noise, it costs epsilon.
    """
    pairs = neighbours(31, last=(0.0, 1.0), changed=(1.0, 0.0))
    for epsilon, expected in [(1.0, 0.5), (2.0, 1.0)]:
        learner = given_totals(learners.limited_updates(LONGEST, 2, epsilon=epsilon), 31)
        assert longest_batch(learner, pairs) == 2**29
        np.testing.assert_allclose(spent(learner, pairs) * epsilon, expected, rtol=1e-5)


def at_the_end_of_a_billion(name):
    """A learner that plays round by round, before the last of 2^30 losses of one arm."""
    sums = ArmSums(
        jnp.array([2**30 - 1, 5], jnp.int32),
        ExactSum(jnp.array([2**30 - 2**20, 3], jnp.int32), jnp.array([2**29, 7], jnp.int32)),
    )
    # dp_ucb_int has so much epsilon that it releases a mean in every round.
    learner = getattr(learners, name)(LONGEST, 2, epsilon=1.0 if name == "lazy_ucb" else 1000.0)
    state, arm = learner.init(jr.key(0))
    state, samples = state._replace(round=sums.pulls[0] + 5), jnp.array([2**29, 5], jnp.int32)
    if name == "lazy_ucb":
        state = state._replace(kept=state.kept._replace(samples=samples, buffer=sums))
    else:
        state = state._replace(samples=samples, sums=sums)
    return learner._replace(init=lambda key: (state, arm), horizon=2)


@pytest.mark.parametrize("name", ["lazy_ucb", "dp_ucb_int"])
def test_the_billionth_loss_of_an_arm_costs_what_is_declared(name):
    """Epsilon for a mean released once, n^(-v / 2) for release n of dp_ucb_int."""
    learner = at_the_end_of_a_billion(name)
    pair = Pair(jnp.array([[0.0, 0.5], [0.0, 0.5]]), jnp.array([[1.0, 0.5], [0.0, 0.5]]))
    declared = 2.0 ** (-30 * 1.1 / 2) if name == "dp_ucb_int" else 1.0
    halved = audit.mutants(learner, pair.losses)["noise halved"]
    for player, factor in [(learner, 1.0), (halved, 2.0)]:
        replayed = jax.jit(lambda player=player: audit.replay(player, pair, jr.key(0)))()
        assert replayed.same_actions
        assert float(replayed.pure) == pytest.approx(factor * declared, rel=1e-5)
