"""Releases are found anywhere in a step and cost as much as their members together.

If an action depends on the losses in any other way, all is spent, and a sentence says why.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import audit, mechanisms, noise
from dpjax.audit import Pair, visits
from dpjax.core import Arms, Batch, BatchLearner, Feedback, Learner, Policies, Privacy, empty_report
from dpjax.feedback import bandit, contextual
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

pytestmark = [
    pytest.mark.filterwarnings("ignore:spent is infinite"),
    pytest.mark.usefixtures("quick_compilation"),
]

FIRST = Feedback("first arm", lambda loss, action: bandit(loss, jnp.int32(0)))
CHANGED = Pair(jnp.zeros((4, 2)), jnp.zeros((4, 2)).at[1].set(1.0))
WEIGHTS = jnp.array([1.0, 2.0, 3.0])
HALF = 0.5  # the noise scale of the releases below
FINE = jnp.float32(0.0)


def learner_of(step, init=None, first=FINE):
    """A learner that sees the first arm's loss and acts by ``step(state, key, loss)``."""
    init = init or (lambda key: (FINE, first))
    return Learner(init, step, FIRST, None, 4, Privacy(epsilon=1.0), empty_report)


def only(release):
    """A step that plays ``release(key, loss)`` and keeps its state."""
    return lambda state, key, loss: (state, release(key, loss))


def replay_of(learner, pair=CHANGED):
    """The loss of one round changes by 1."""
    learner = learner if hasattr(learner, "step") else learner_of(learner)
    return jax.jit(lambda: audit.replay(learner, pair, jr.key(0)))()


def spent_by(learner, pair=CHANGED, delta=0.0):
    return float(audit.spent(replay_of(learner, pair), delta))


def noisy(keys, values, scale=HALF):
    """Each value with noise under its own key."""
    return jax.vmap(noise.laplace, (0, 0, None))(keys, values, scale)


def exact(values):
    return ExactSum(*jax.vmap(exact_sums.of)(values))


def totals(keys, values):
    """The same, as exact sums."""
    released = jax.vmap(noise.laplace.total, (0, 0, None))(keys, exact(values), HALF)
    return exact_sums.to_float(released)


# Each is (key, loss) -> (), with what it spends ------------------------------------------------

CASES: dict = {}
INF = np.inf


def spends(cost, whole=False):
    """Adds a release, or a whole step, to the cases."""

    def add(given):
        CASES[given.__name__] = given if whole else only(given), cost
        return given

    return add


@spends(2.0)
def by_keyword(key, loss):
    return noise.laplace(scale=HALF, value=loss, key=key)


@spends(12.0)
def in_a_scan(key, loss):
    def one(total, each):
        return total + noise.laplace(each[0], each[1] * loss, HALF), None

    return lax.scan(one, 0.0 * loss, (jr.split(key, 3), WEIGHTS))[0]


@spends(2.0 * (3.0 + 5.0))
def in_a_scan_that_goes_back(key, loss):
    """Its rows are released, and their sum is played."""

    def one(total, each):
        return total + each[1], noise.laplace(each[0], total * loss, HALF)

    return jnp.sum(lax.scan(one, 0.0, (jr.split(key, 3), WEIGHTS), reverse=True)[1])


@spends(16.0)
def in_a_loop_of_fixed_length(key, loss):
    def again(i, total):
        return total + noise.laplace(jr.fold_in(key, i), loss, HALF)

    return lax.fori_loop(0, 8, again, 0.0 * loss)


@spends(12.0)
def in_a_condition_in_a_scan(key, loss):
    """Every second round releases twice the loss."""

    def one(total, each):
        own, i = each
        drawn = lax.cond(
            i % 2 == 0,
            lambda: noise.laplace(own, loss, HALF),
            lambda: noise.laplace(own, 2.0 * loss, HALF),
        )
        return total + drawn, None

    return lax.scan(one, 0.0 * loss, (jr.split(key, 4), jnp.arange(4)))[0]


@spends(12.0)
def in_a_scan_in_a_condition(key, loss):
    other = lambda: noise.laplace(key, 100.0 * loss, HALF)  # noqa: E731
    return lax.cond(jnp.sum(jr.key_data(key)) == 0, other, lambda: in_a_scan(key, loss))


@spends(2.0 * ((0 + 3) / 1 + (1 + 4) / 2 + (2 + 5) / 3))
def side_by_side_in_columns(key, loss):
    """Vectors in the columns of a matrix, each with its own scale."""
    columns, scales = loss * jnp.arange(6.0).reshape(2, 3), HALF * WEIGHTS
    return jnp.sum(jax.vmap(noise.laplace, (0, 1, 0))(jr.split(key, 3), columns, scales))


@spends(6.0)
def of_one_value(key, loss):
    """All members share the value, each with its own noise."""
    return jnp.sum(jax.vmap(lambda own: noise.laplace(own, loss, HALF))(jr.split(key, 3)))


@spends(36.0)
def in_two_maps(key, loss):
    rows = jax.vmap(lambda keys, weight: noisy(keys, weight * loss * WEIGHTS))
    return jnp.sum(rows(jr.split(key, (2, 3)), WEIGHTS[:2]))


@spends(24.0)
def in_a_scan_that_is_mapped(key, loss):
    return jnp.sum(jax.vmap(lambda own: in_a_scan(own, loss))(jr.split(key, 2)))


@spends(10.0)
def as_sums_of_draws(key, loss):
    """A sum of several draws hides as much as one draw; a sum of none hides no change."""
    total, counts = exact(loss * jnp.array([0.0, 2.0, 3.0])), jnp.array([0, 1, 5])
    summed = jax.vmap(noise.laplace.sum, (0, 0, None, 0))
    return jnp.sum(exact_sums.to_float(summed(jr.split(key, 3), total, HALF, counts)))


@spends(2.0)
def as_noise_of_vectors(key, loss):
    """The largest weights are 2 and 4: costs 1 / 2 and 2 / 4 at scale 1."""
    weights = jnp.array([[1.0, -2.0], [4.0, 0.0]])
    along = jax.vmap(noise.laplace.along, (0, 0, None, 0))
    return jnp.sum(along(jr.split(key), loss * WEIGHTS[:2], HALF, weights))


@spends(8.0)
def as_least_values(key, loss):
    """Two choices among three values, which change by 2, 1 and 0."""
    values = loss * jnp.arange(3.0)[::-1]
    found = jax.vmap(lambda own: noise.least(own, values, HALF))(jr.split(key))
    return jnp.sum(found).astype(jnp.float32)


def flips(key, loss):
    ones = (loss * jnp.array([1.0, 3.0])).astype(jnp.int32)
    found = jax.vmap(lambda own, value: noise.randomized_response(own, value, HALF, 9))
    return found(jr.split(key), ones).astype(jnp.float32)


@spends(np.log(2.0))
def an_index_that_is_exchanged_for_every_other_one(key, loss):
    """Only the index 4 is used, and it is no neighbour of the drawn index."""
    rates = jnp.full(8, 1.0).at[4].set(1.0 + loss).at[1].set(1e9)
    return (noise.choose(key, rates / jnp.sum(rates)) == 4).astype(jnp.float32)


@spends(0.0)
def noise_that_is_not_used(key, loss):
    return jnp.where(loss < -1.0, noise.laplace(key, loss, HALF), 0.0)


@spends(4.0, whole=True)
def a_sum_that_is_used_in_every_round(state, key, loss):
    """It differs after rounds 2 and 3; the action after round 4 is never played."""
    return state + loss, noise.laplace(key, state + loss, HALF)


def twice(kept):
    def release(key, loss):
        """If the second noise alone changed, the first would be free."""
        first_key, second_key, other_key = jr.split(key, 3)
        second = noise.laplace(second_key, noise.laplace(first_key, loss, HALF), 1e-3)
        return noise.laplace(other_key, loss, 4.0) + jnp.where(kept, second, 0.0)

    return only(release)


CASES["noise that goes into other noise"] = twice(True), 2.25
CASES["noise that goes into other noise that is dropped"] = twice(False), 0.25


@spends(2.0)
def with_a_derivative_of_its_own(key, loss):
    release = jax.custom_jvp(lambda value: noise.laplace(key, value, HALF))
    release.defjvp(lambda primals, tangents: (release(*primals), *tangents))
    return release(loss)


def scaled_by(scale):
    return only(lambda key, loss: noise.laplace(key, loss, jnp.float32(scale)))


def prefix_used(*used):
    """The value of round 2 is in the sums of rounds 2 and 3."""
    stream = mechanisms.tree(4).stream((), scale=2.0)

    def init(key):
        state, release = stream.init(key)
        return (state, jnp.int32(0)), release * 0.0

    def step(state, key, loss):
        inner, t = state
        inner, release = stream.step(inner, key, loss)
        return (inner, t + 1), jnp.where(jnp.array(used)[t] > 0, release, 0.0)

    return learner_of(step, init)


def last_bits(leak):
    """Beside an entry of 1, an entry of 0.01 may be off by the last bits of 1 and no more."""

    def release(key, loss):
        return jnp.stack([0.0 * noise.laplace(key, loss, HALF) + 1.0, 0.01 + leak * loss])

    return learner_of(only(release), first=jnp.zeros(2))


CASES |= {
    "a memory that only the report tells": (
        lambda state, key, loss: (state + loss, noise.laplace(key, loss, HALF)), 2.0),
    "a negative scale": (scaled_by(-0.5), 2.0),
    # A change near the resolution of float32, and noise no larger than it.
    "a scale of rounding": (only(lambda key, loss: noise.laplace(key, 2.0**22 + loss, 0.01)), 100),
    "a prefix that is not used": (prefix_used(0, 0, 0), 0.0),
    "a prefix that is used later": (prefix_used(0, 0, 1), 1.0),
    "a prefix that is used before": (prefix_used(1, 0, 0), 0.0),
    "a leak in the last bits": (last_bits(1e-8), 0.0),
    "a small leak": (last_bits(1e-4), INF),
}  # fmt: skip


# Steps without privacy -------------------------------------------------------------------------


@spends(INF, whole=True)
def a_leak_in_the_last_round(state, key, loss):
    """After three rounds the state is 24, and the action shows the excess over 24."""
    state = state + 8.0 + 0.01 * loss
    return state, noise.laplace(key, loss, 1.0) + jnp.where(state >= 24.0, state, 0.0)


@spends(INF)
def no_draws(key, loss):
    return exact_sums.to_float(noise.laplace.sum(key, exact_sums.of(loss), 1.0, jnp.int32(0)))


@spends(INF)
def one_name_alike(key, loss):
    @jax.jit
    def laplace(key, value, scale):
        return value + 0.0 * jr.laplace(key) * scale

    return laplace(key, loss, 1.0)


@spends(INF)
def one_draw_for_all_rows(key, loss):
    rows = jax.vmap(lambda value: noise.laplace(key, value, 1.0))(jnp.stack([loss, 0.0 * loss]))
    return rows[0] - rows[1]


@spends(INF)
def weights_from_data(key, loss):
    return noise.laplace.along(key, loss, 1.0, jnp.stack([jnp.float32(1.0), 1.0 - loss]))


@spends(INF, whole=True)
def a_constant_key(state, key, loss):
    """The key differs between rounds, but is the same in each run."""
    own = jr.fold_in(jr.key(5), state.astype(jnp.int32))
    return state + 1.0, noise.laplace(own, loss, 1.0)


@spends(INF)
def a_probability_that_is_no_number(key, loss):
    chosen = noise.choose(key, jnp.stack([loss, jnp.float32(0.5)]) - loss * jnp.nan)
    return chosen.astype(jnp.float32)


def noise_of_jax(key, loss):
    return loss + 0.0 * jr.laplace(key)


def leaking(key, loss):
    return noise.laplace(key, loss, 1.0) + 1e-4 * loss


CASES |= {name: (only(release), INF) for name, release in {
    "noise of JAX without weight": noise_of_jax,
    "noise of JAX": lambda key, loss: loss + jr.laplace(key),
    "a leak beside a release": leaking,
    "a release times zero": lambda key, loss: 0.0 * noise.laplace(key, loss, 1.0) + loss,
    "integer noise": lambda key, loss: jnp.float32(
        noise.laplace(key, loss.astype(jnp.int32), 1.0)),
    "a key from data": lambda key, loss: noise.laplace(
        jr.fold_in(key, (loss > 0.5).astype(jnp.int32)), loss, 1.0),
    "a scale from data": lambda key, loss: noise.laplace(key, loss, 1.0 + 1e-5 * loss),
    "one key for two": lambda key, loss: noise.laplace(key, loss, 1.0) - noise.laplace(
        key, 0.0 * loss, 1.0),
    "a key that draws something else": lambda key, loss: noise.laplace(
        key, loss, 1.0) + jr.uniform(key),
}.items()}  # fmt: skip
CASES |= {
    "memory without release": (lambda state, key, loss: (state + loss, FINE), INF),
    "one key for two releases of data": (lambda state, key, loss: (
        loss, noise.laplace(key, loss, 1.0) + noise.laplace(key, state, 1.0)), INF),
    "a mechanism without noise": (lambda state, key, loss: (
        state + loss, noise.laplace.prefix(key, state + loss, loss, 1.0, (1.0, 1.0))), INF),
    "a scale of 0": (scaled_by(0.0), INF),
    "a scale of -0": (scaled_by(-0.0), INF),
    "a scale that is no number": (scaled_by(np.nan), INF),
}  # fmt: skip


# Shared keys ------------------------------------------------------------------------------------


def shared(key, loss):
    return jnp.sum(jax.vmap(lambda weight: noise.laplace(key, weight * loss, HALF))(WEIGHTS))


def one_key_for_each_column(key, loss):
    """Shared by the outer map and mapped by the inner one."""
    keys, ones = jr.split(key, 3), jnp.ones(3)
    return jnp.sum(jax.vmap(lambda weight: noisy(keys, weight * loss * ones))(WEIGHTS[:2]))


def one_key_for_all_rounds(key, loss):
    def one(total, weight):
        return total + noise.laplace(key, weight * loss, HALF), None

    return lax.scan(one, 0.0 * loss, WEIGHTS)[0]


def equal_keys(key, loss):
    """The keys are mapped but all equal."""
    return jnp.sum(noisy(jr.wrap_key_data(jnp.stack([jr.key_data(key)] * 3)), loss * WEIGHTS))


SHARED = {
    "one key for all members": shared,
    "one key for each row": lambda key, loss: jnp.sum(
        jax.vmap(lambda own: shared(own, loss))(jr.split(key))),
    "one key for each column": one_key_for_each_column,
    "one key for all rounds": one_key_for_all_rounds,
    "equal keys": equal_keys,
    "two members alike": lambda key, loss: jnp.sum(
        noisy(jr.split(key, 3)[jnp.array([0, 1, 0])], loss * WEIGHTS)),
}  # fmt: skip
CASES |= {name: (only(release), INF) for name, release in SHARED.items()}


@pytest.mark.parametrize("case", CASES)
def test_a_step_spends_what_it_is_worth_or_all(case):
    step, cost = CASES[case]
    replayed = replay_of(step)
    assert float(audit.spent(replayed, 0.0)) == pytest.approx(cost, rel=1e-4)
    assert bool(audit.explain(replayed)) == (cost == INF)
    assert bool(replayed.fresh_keys) or cost == INF
    assert case not in SHARED or not bool(replayed.fresh_keys)


# Functions of the members that do not change if all members move equally ------------------------

BOTH = WEIGHTS[:2] / HALF
# Of softmax(0, 0) and softmax(1, 2) at scale 1: the first entry has the largest ratio.
LOGITS = np.log1p(np.exp(1.0 / HALF)) - np.log(2.0)
COMPARED = {
    "logits": (3.0 * LOGITS, lambda key, loss: jnp.sum(
        jax.vmap(noise.categorical)(jr.split(key, 3), jnp.stack([loss * BOTH] * 3)))),
    "whether coins differ": (2.0 * LOGITS, lambda key, loss: jnp.diff(
        jax.vmap(lambda own: noise.coin(own, jax.nn.sigmoid(loss / HALF)))(jr.split(key)))[0]),
    "the sum of two choices": (2.0 * LOGITS, lambda key, loss: jnp.sum(
        jax.vmap(lambda own: noise.choose(own, jax.nn.softmax(loss * BOTH)))(jr.split(key)))),
    "the difference of counts": (8.0, lambda key, loss: jnp.diff(flips(key, loss))[0]),
    "the smallest total": (12.0, lambda key, loss: jnp.argmin(
        totals(jr.split(key, 3), loss * WEIGHTS))),
    "the smallest value": (12.0, lambda key, loss: jnp.argmin(
        noisy(jr.split(key, 3), loss * WEIGHTS))),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARED)
def test_members_that_are_compared_cost_what_they_cost_by_themselves(name):
    """At each of 16 keys, whatever is released."""
    cost, release = COMPARED[name]
    learner = learner_of(only(lambda key, loss: jnp.float32(release(key, loss))))
    spent = jax.vmap(lambda key: audit.replay(learner, CHANGED, key).pure)
    np.testing.assert_allclose(jax.jit(spent)(jr.split(jr.key(7), 16)), cost, rtol=1e-5)


# Other ways of accounting ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["binomial", "skellam", "discrete_gaussian"])
def test_integers_side_by_side_are_accounted_for_one_by_one(name):
    """Each of three sums has its own share of delta, and its own change."""
    law, amount = noise.LAWS[name], 400.0 if name == "binomial" else 10.0

    def release(key, loss):
        released = jax.vmap(law.total, (0, 0, None))
        return jnp.sum(
            exact_sums.to_float(released(jr.split(key, 3), exact(loss * WEIGHTS), amount))
        )

    each = [law.epsilon(int(amount), 1e-5 / 3, change) for change in (1, 2, 3)]
    assert spent_by(only(release), delta=1e-5) == pytest.approx(sum(each), rel=1e-6)


@pytest.mark.parametrize("law", [noise.gaussian, noise.skellam], ids=["gaussian", "skellam"])
def test_vectors_side_by_side_are_accounted_for_together(law):
    """Gaussian noise in zCDP, Skellam noise by its Renyi divergences."""

    def release(key, loss):
        members = jax.vmap(lambda own, weight: law(own, weight * loss, 10.0))
        return jnp.sum(members(jr.split(key, 3), WEIGHTS))

    found, norms = replay_of(only(release)), np.asarray(WEIGHTS)
    together = float(noise.skellam.together((norms, norms), 10.0, 1e-5))
    if law is noise.skellam:
        assert float(audit.spent(found, 1e-5)) == pytest.approx(together, rel=1e-5)
    else:
        assert float(found.rho) == float(found.gaussian) == pytest.approx(14 / 200, rel=1e-5)
        assert int(found.touched) == 1


# Releases that a replay cannot find -------------------------------------------------------------


def until_it_is_small(key, loss):
    def again(carry):
        return carry[0] + 1, noise.laplace(jr.fold_in(key, carry[0]), loss, HALF)

    start = jnp.int32(0), 9.0 + 0.0 * loss
    return lax.while_loop(lambda carry: carry[1] > 5.0, again, start)[1]


def in_the_condition_of_a_loop(key, loss):
    def going(index):
        return noise.laplace(jr.fold_in(key, index), loss, HALF) > 5.0

    return 0.0 * lax.while_loop(going, lambda index: index + 1, 0)


def in_a_long_scan(key, loss):
    def one(total, own):
        return total + noise.laplace(own, loss / 300.0, HALF / 300.0), None

    return lax.scan(one, 0.0 * loss, jr.split(key, visits.MOST_ROUNDS + 1))[0]


def in_a_checkpoint(key, loss):
    return jax.checkpoint(lambda value: noise.laplace(key, value, HALF))(loss)


LOOP = "a loop whose number of rounds is not fixed"
REFUSED = {
    until_it_is_small: LOOP,
    in_the_condition_of_a_loop: LOOP,
    in_a_long_scan: f"a scan of {visits.MOST_ROUNDS + 1} rounds",
    in_a_checkpoint: "(checkpoint|remat2)",
}


@pytest.mark.parametrize("release", REFUSED, ids=lambda release: release.__name__)
def test_a_release_out_of_reach_is_refused(release):
    """Its action does not depend on it, so a replay without it would find only the other one."""
    sentence = f"^learner: an audit cannot find a release .laplace. in {REFUSED[release]}; it finds"

    def beside(key, loss):
        own, rest = jr.split(key)
        hidden = release(rest, loss) > 7.0
        return noise.laplace(own, loss, 10.0 * HALF) + hidden.astype(jnp.float32)

    def init(key):
        return FINE, 0.0 * release(key, FINE)

    for learner in (learner_of(only(beside)), learner_of(only(by_keyword), init)):
        with pytest.raises(ValueError, match=sentence):
            audit.replay(learner, CHANGED, jr.key(0))


@pytest.mark.parametrize("share", [1.0, 0.01])
@pytest.mark.parametrize("beside", [False, True])
def test_a_loss_beside_noise_on_zeros_is_no_release(share, beside):
    """Noise in a loop of a traced length: alone, and beside a release at the declared scale."""

    def again(index, carry):
        total, key = carry
        return total + noise.laplace(jr.fold_in(key, index), jnp.zeros(()), HALF), key

    def release(key, loss):
        own, rest = jr.split(key)
        alone, _ = lax.fori_loop(0, jr.randint(rest, (), 1, 4), again, (FINE, rest))
        alone += share * loss
        return alone + noise.laplace(own, loss, 1.0) if beside else alone

    assert audit.spent(audit.replay(learner_of(only(release)), CHANGED, jr.key(0)), 0.0) == INF


@pytest.mark.parametrize("release", [until_it_is_small, in_a_long_scan, in_a_checkpoint])
def test_mutants_reach_releases_in_any_loop(release):
    """They run the loops unchanged. Without noise, a loop returns the sum of the losses."""
    learner = learner_of(only(release))
    forgotten = audit.mutants(learner, CHANGED.losses)["noise forgotten"]

    def action(learner):
        return float(learner.step(FINE, jr.key(0), jnp.float32(1.0))[1])

    if release is in_a_checkpoint:
        with pytest.raises(ValueError, match="^learner: an audit cannot find a release"):
            action(forgotten)
        return
    expected = 1.0 if release is until_it_is_small else (visits.MOST_ROUNDS + 1) / 300.0
    assert action(forgotten) == pytest.approx(expected, rel=1e-5)
    assert action(learner) != pytest.approx(expected, rel=1e-3)


def test_mutants_of_what_has_no_release_are_refused():
    with pytest.raises(ValueError, match="no release was seen in its steps"):
        audit.mutants(learner_of(only(noise_of_jax)), CHANGED.losses)
    assert audit.mutants(learner_of(only(leaking)), CHANGED.losses)


# Other learners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_key_of_init_that_draws_again_is_found(again):
    def init(key):
        own, kept = (key, key) if again else jr.split(key)
        return (kept, noise.laplace(own, FINE, 1.0)), FINE

    def step(state, key, loss):
        return state, noise.laplace(state[0], loss, 1.0) - state[1]

    learner = learner_of(step, init)._replace(horizon=2)
    replayed = replay_of(learner, Pair(jnp.zeros((2, 2)), jnp.zeros((2, 2)).at[0].set(1.0)))
    assert bool(replayed.fresh_keys) is not again


@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
def test_noise_that_is_zero_by_chance_is_not_missed(law):
    """Small integers are often drawn twice. Sums without noise are still found."""
    rounds, own = 16, noise.LAWS[law]
    pair = Pair(jnp.zeros((rounds, 2)), jnp.zeros((rounds, 2)).at[3].set(1.0))

    def fresh(scale, drawn):
        def step(state, key, loss):
            state += loss + drawn * own(key, FINE, scale)
            return state, own.prefix(key, state, loss, scale, (1.0, 1.0))

        learner = learner_of(step)._replace(horizon=rounds)
        return bool(audit.replay(learner, pair, jr.key(0)).fresh_keys)

    assert fresh(0.05, 1.0) and fresh(5.0, 1.0)
    assert not fresh(5.0, 0.0)


class Threshold(NamedTuple):
    level: Any

    def __call__(self, features):
        return jnp.sum(features[:, 0] > self.level, dtype=jnp.int32)


@pytest.mark.parametrize("leak", [0.0, 1e-4])
def test_a_policy_that_leaks_is_found_by_its_leaves(leak):
    def step(state, key, seen):
        return state, Threshold(noise.laplace(key, seen[1], 1.0) + leak * seen[1])

    learner = learner_of(step, lambda key: ((), Threshold(FINE)))
    learner = learner._replace(feedback=contextual, action_set=Policies(1))
    pair = Pair(*((jnp.ones((4, 2, 1)), side) for side in CHANGED))
    assert spent_by(learner, pair) == (INF if leak else 1.0)


@pytest.mark.parametrize("leaks", [False, True])
def test_a_batch_learner_that_leaks_is_found(leaks):
    def step(state, key, total):
        first = exact_sums.to_float(noise.laplace.total(key, total, 1.0)) > 0.5
        leak = leaks & (exact_sums.to_float(total) > 0.5)
        return state, Batch((first ^ leak).astype(jnp.int32), jnp.int32(2))

    start = (), Batch(jnp.int32(0), jnp.int32(2))
    learner = BatchLearner(
        lambda key: start, step, FIRST, Arms(2), 4, Privacy(epsilon=1.0), empty_report
    )
    assert spent_by(learner) == (INF if leaks else 1.0)


def test_infinite_is_said_in_a_sentence():
    one = replay_of(only(noise_of_jax))
    with pytest.warns(UserWarning, match="noise must come from dpjax.noise to be seen"):
        assert float(audit.spent(one, 0.0)) == INF
    for bad in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="delta must be in"):
            audit.spent(one, bad)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), one)
    assert "in 2 of 2 replays" in audit.explain(two)[0]
    assert "the noise scale is 0 or NaN" in audit.explain(replay_of(scaled_by(0.0)))[0]
