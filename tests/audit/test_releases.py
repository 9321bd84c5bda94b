"""Releases are found anywhere in a step, and cost as much as their members together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import audit, domains, learners, mechanisms, noise
from dpjax.audit import visits
from dpjax.core import Feedback, Learner, Privacy, empty_report
from dpjax.feedback import bandit
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum

pytestmark = [
    pytest.mark.filterwarnings("ignore:spent is infinite"),
    pytest.mark.usefixtures("quick_compilation"),
]

PAIR = audit.Pair(jnp.zeros((2, 1)), jnp.zeros((2, 1)).at[0].set(1.0))
WEIGHTS = jnp.array([1.0, 2.0, 3.0])


def learner_of(release, scale):
    """A learner whose actions are ``release(key, loss, scale)``."""
    zero = jnp.zeros((), jnp.float32)
    return Learner(
        lambda key: (zero, zero),
        lambda state, key, loss: (state, release(key, loss, scale)),
        Feedback("first", lambda loss, action: bandit(loss, jnp.int32(0))),
        None, 2, Privacy()._replace(epsilon=1.0), empty_report,
    )  # fmt: skip


def replays_of(release, *scales):
    """One replay per scale; the loss of the first round changes by 1."""
    run = jax.jit(lambda scale: audit.replay(learner_of(release, scale), PAIR, jr.key(0)))
    return [run(jnp.float32(scale)) for scale in scales]


def spent_by(release, *scales, delta=0.0):
    return [float(audit.spent(each, delta)) for each in replays_of(release, *scales)]


def noisy(keys, values, scale):
    """Each value with noise under its own key."""
    return jax.vmap(noise.laplace, (0, 0, None))(keys, values, scale)


def totals(keys, values, scale):
    """The same, as exact sums."""
    exact = ExactSum(*jax.vmap(exact_sums.of)(values))
    return exact_sums.to_float(jax.vmap(noise.laplace.total, (0, 0, None))(keys, exact, scale))


# Each is (key, loss, scale) -> (), with its cost at scale 1. ----------------------------------


def by_keyword(key, loss, scale):
    return noise.laplace(scale=scale, value=loss, key=key)


def in_a_scan(key, loss, scale):
    def one(total, inputs):
        own, weight = inputs
        return total + noise.laplace(own, weight * loss, scale), None

    return lax.scan(one, 0.0 * loss, (jr.split(key, 3), WEIGHTS))[0]


def in_a_scan_that_goes_back(key, loss, scale):
    """Its rows are released, and their sum is played."""

    def one(total, inputs):
        own, weight = inputs
        return total + weight, noise.laplace(own, total * loss, scale)

    return jnp.sum(lax.scan(one, 0.0, (jr.split(key, 3), WEIGHTS), reverse=True)[1])


def in_a_loop_of_fixed_length(key, loss, scale):
    def again(i, total):
        return total + noise.laplace(jr.fold_in(key, i), loss, scale)

    return lax.fori_loop(0, 8, again, 0.0 * loss)


def in_a_condition_in_a_scan(key, loss, scale):
    """Every second round releases twice the loss."""

    def one(total, inputs):
        own, i = inputs
        drawn = lax.cond(
            i % 2 == 0,
            lambda: noise.laplace(own, loss, scale),
            lambda: noise.laplace(own, 2.0 * loss, scale),
        )
        return total + drawn, None

    return lax.scan(one, 0.0 * loss, (jr.split(key, 4), jnp.arange(4)))[0]


def in_a_scan_in_a_condition(key, loss, scale):
    return lax.cond(
        jnp.sum(jr.key_data(key)) == 0,
        lambda: noise.laplace(key, 100.0 * loss, scale),
        lambda: in_a_scan(key, loss, scale),
    )


def side_by_side(key, loss, scale):
    return jnp.sum(noisy(jr.split(key, 3), loss * WEIGHTS, scale))


def side_by_side_in_columns(key, loss, scale):
    """Vectors in the columns of a matrix, each with its own scale."""
    columns = loss * jnp.arange(6.0).reshape(2, 3)
    noisy = jax.vmap(noise.laplace, (0, 1, 0))(jr.split(key, 3), columns, scale * WEIGHTS)
    return jnp.sum(noisy)


def of_one_value(key, loss, scale):
    """All members share the value, each with its own noise."""
    return jnp.sum(jax.vmap(lambda own: noise.laplace(own, loss, scale))(jr.split(key, 3)))


def in_two_maps(key, loss, scale):
    rows = jax.vmap(lambda keys, weight: noisy(keys, weight * loss * WEIGHTS, scale))
    return jnp.sum(rows(jr.split(key, (2, 3)), WEIGHTS[:2]))


def in_a_scan_that_is_mapped(key, loss, scale):
    keys = jr.split(key, 2)
    return jnp.sum(jax.vmap(lambda own: in_a_scan(own, loss, scale))(keys))


def as_exact_sums(key, loss, scale):
    return jnp.sum(totals(jr.split(key, 3), loss * WEIGHTS, scale))


def as_sums_of_draws(key, loss, scale):
    """A sum of several draws hides as much as one draw; a sum of none hides no change."""
    values, counts = loss * jnp.array([0.0, 2.0, 3.0]), jnp.array([0, 1, 5])
    totals = ExactSum(*jax.vmap(exact_sums.of)(values))
    keys = jr.split(key, 3)
    released = jax.vmap(noise.laplace.sum, (0, 0, None, 0))(keys, totals, scale, counts)
    return jnp.sum(exact_sums.to_float(released))


def as_noise_of_vectors(key, loss, scale):
    """The largest weights are 2 and 4: costs 1 / 2 and 2 / 4."""
    weights = jnp.array([[1.0, -2.0], [4.0, 0.0]])
    along = jax.vmap(noise.laplace.along, (0, 0, None, 0))
    return jnp.sum(along(jr.split(key), loss * WEIGHTS[:2], scale, weights))


def as_least_values(key, loss, scale):
    """Two choices among three values, which change by 2, 1 and 0."""
    values = loss * jnp.arange(3.0)[::-1]
    found = jax.vmap(lambda own: noise.least(own, values, scale))(jr.split(key))
    return jnp.sum(found).astype(jnp.float32)


def as_flips(key, loss, scale):
    ones = (loss * jnp.array([1.0, 3.0])).astype(jnp.int32)
    found = jax.vmap(lambda own, value: noise.randomized_response(own, value, scale, 9))
    return jnp.sum(found(jr.split(key), ones)).astype(jnp.float32)


def as_logits(key, loss, scale):
    rows = jnp.stack([loss * WEIGHTS[:2] / scale] * 3)
    drawn = jax.vmap(noise.categorical)(jr.split(key, 3), rows)
    return jnp.sum(drawn).astype(jnp.float32)


def cost_of_logits(scale):
    """Of softmax(0, 0) and softmax(1, 2): the first entry has the largest ratio."""
    return 3.0 * (np.log1p(np.exp(1.0 / scale)) - np.log(2.0))


SEEN = {
    by_keyword: 1.0,
    in_a_scan: 6.0,
    in_a_scan_that_goes_back: 3.0 + 5.0,
    in_a_loop_of_fixed_length: 8.0,
    in_a_condition_in_a_scan: 6.0,
    in_a_scan_in_a_condition: 6.0,
    side_by_side: 6.0,
    side_by_side_in_columns: (0 + 3) / 1 + (1 + 4) / 2 + (2 + 5) / 3,
    of_one_value: 3.0,
    in_two_maps: 18.0,
    in_a_scan_that_is_mapped: 12.0,
    as_exact_sums: 6.0,
    as_sums_of_draws: 5.0,
    as_noise_of_vectors: 1.0,
    as_least_values: 4.0,
    as_flips: 4.0,
}
QUICK = (by_keyword, side_by_side, side_by_side_in_columns, in_two_maps, as_exact_sums)


@pytest.mark.parametrize(
    "release",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in SEEN],
    ids=lambda release: release.__name__,
)
def test_a_release_costs_what_its_members_cost_together(release):
    """Half the noise costs twice as much."""
    cost = SEEN[release]
    assert spent_by(release, 1.0, 0.5) == pytest.approx([cost, 2.0 * cost], rel=1e-5)


# Functions of the members that do not change if all members move equally. ----------------------


def whether_coins_differ(key, loss, scale):
    heads = jax.vmap(lambda own: noise.coin(own, jax.nn.sigmoid(loss / scale)))(jr.split(key))
    return (heads[0] ^ heads[1]).astype(jnp.float32)


def the_sum_of_two_choices(key, loss, scale):
    law = jax.nn.softmax(loss * WEIGHTS[:2] / scale)
    return jnp.sum(jax.vmap(lambda own: noise.choose(own, law))(jr.split(key))).astype(jnp.float32)


def the_difference_of_counts(key, loss, scale):
    ones = jnp.stack([loss, 3.0 * loss]).astype(jnp.int32)
    found = jax.vmap(lambda own, value: noise.randomized_response(own, value, scale, 9))
    counts = found(jr.split(key), ones)
    return (counts[0] - counts[1]).astype(jnp.float32)


def the_smallest_total(key, loss, scale):
    found = totals(jr.split(key, 3), loss * WEIGHTS, scale)
    return jnp.argmin(found).astype(jnp.float32)


def the_smallest_value(key, loss, scale):
    found = noisy(jr.split(key, 3), loss * WEIGHTS, scale)
    return jnp.argmin(found).astype(jnp.float32)


@pytest.mark.parametrize(
    ("release", "cost"),
    [
        (as_logits, cost_of_logits),
        (whether_coins_differ, lambda scale: cost_of_logits(scale) / 1.5),
        (the_sum_of_two_choices, lambda scale: cost_of_logits(scale) / 1.5),
        pytest.param(the_difference_of_counts, lambda scale: 4.0 / scale, marks=pytest.mark.slow),
        (the_smallest_total, lambda scale: 6.0 / scale),
        (the_smallest_value, lambda scale: 6.0 / scale),
    ],
    ids=lambda value: value.__name__.strip("<>"),
)
def test_members_that_are_compared_cost_what_they_cost_by_themselves(release, cost):
    """At each of 16 keys, whatever is released."""

    @jax.jit
    def spent(scale):
        learner = learner_of(release, scale)
        return jax.vmap(lambda key: audit.replay(learner, PAIR, key).pure)(jr.split(jr.key(7), 16))

    for scale in (1.0, 0.5):
        np.testing.assert_allclose(spent(jnp.float32(scale)), cost(scale), rtol=1e-5)


# Other ways of accounting ----------------------------------------------------------------------


def test_gaussian_noise_side_by_side_adds_up_in_zcdp():
    def release(key, loss, scale):
        noisy = jax.vmap(lambda own, weight: noise.gaussian(own, weight * loss, scale))
        return jnp.sum(noisy(jr.split(key, 3), WEIGHTS))

    for scale, found in zip((1.0, 0.5), replays_of(release, 1.0, 0.5), strict=True):
        assert float(found.rho) == pytest.approx(14.0 / (2.0 * scale**2), rel=1e-5)
        assert float(found.gaussian) == float(found.rho) and int(found.touched) == 1


@pytest.mark.parametrize(
    "name",
    [
        "binomial",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("skellam", "discrete_gaussian")),
    ],
)
def test_integers_side_by_side_are_accounted_for_one_by_one(name):
    """Each of three sums has its own share of delta, and its own change."""
    law = noise.LAWS[name]
    amount, less = {"binomial": (1600.0, 400.0)}.get(name, (20.0, 10.0))

    def release(key, loss, amount):
        totals = ExactSum(*jax.vmap(exact_sums.of)(loss * WEIGHTS))
        released = jax.vmap(law.total, (0, 0, None))(jr.split(key, 3), totals, amount)
        return jnp.sum(exact_sums.to_float(released))

    spent = spent_by(release, amount, less, delta=1e-5)
    for each, found in zip((amount, less), spent, strict=True):
        exact = [law.epsilon(int(each), 1e-5 / 3, change) for change in (1, 2, 3)]
        assert found == pytest.approx(sum(exact), rel=1e-6)
    assert spent[1] > 1.7 * spent[0]


@pytest.mark.slow
def test_vectors_side_by_side_are_accounted_for_together():
    def release(key, loss, scale):
        noisy = jax.vmap(lambda own, weight: noise.skellam(own, weight * loss, scale))
        return jnp.sum(noisy(jr.split(key, 3), WEIGHTS))

    norms = np.asarray(WEIGHTS)
    spent = spent_by(release, 20.0, 10.0, delta=1e-5)
    for scale, found in zip((20.0, 10.0), spent, strict=True):
        together = noise.skellam.together((norms, norms), scale, 1e-5)
        assert found == pytest.approx(float(together), rel=1e-5)
    assert spent[1] > 1.7 * spent[0]


# Shared or hidden keys -------------------------------------------------------------------------


def one_key_for_all_members(key, loss, scale):
    return jnp.sum(jax.vmap(lambda weight: noise.laplace(key, weight * loss, scale))(WEIGHTS))


def one_key_for_each_row(key, loss, scale):
    """Mapped by the outer map and shared within the inner one."""
    row = jax.vmap(lambda own: one_key_for_all_members(own, loss, scale))
    return jnp.sum(row(jr.split(key, 2)))


def one_key_for_each_column(key, loss, scale):
    """Shared by the outer map and mapped by the inner one."""
    keys = jr.split(key, 3)
    row = jax.vmap(lambda weight: noisy(keys, weight * loss * jnp.ones(3), scale))
    return jnp.sum(row(WEIGHTS[:2]))


def one_key_for_all_rounds(key, loss, scale):
    def one(total, weight):
        return total + noise.laplace(key, weight * loss, scale), None

    return lax.scan(one, 0.0 * loss, WEIGHTS)[0]


def equal_keys(key, loss, scale):
    """The keys are mapped but all equal."""
    keys = jr.wrap_key_data(jnp.stack([jr.key_data(key)] * 3))
    return jnp.sum(noisy(keys, loss * WEIGHTS, scale))


def two_members_alike(key, loss, scale):
    return jnp.sum(noisy(jr.split(key, 3)[jnp.array([0, 1, 0])], loss * WEIGHTS, scale))


@pytest.mark.parametrize(
    "release",
    [
        one_key_for_all_members, one_key_for_each_row, one_key_for_each_column,
        one_key_for_all_rounds, equal_keys, two_members_alike,
    ],
    ids=lambda release: release.__name__,
)  # fmt: skip
def test_noise_that_members_share_hides_nothing(release):
    (replayed,) = replays_of(release, 1.0)
    assert not bool(replayed.fresh_keys)
    assert float(audit.spent(replayed, 0.0)) == np.inf


# Releases that a replay cannot find -------------------------------------------------------------


def until_it_is_small(key, loss, scale):
    def again(carry):
        index, _ = carry
        return index + 1, noise.laplace(jr.fold_in(key, index), loss, scale)

    start = jnp.int32(0), 9.0 + 0.0 * loss
    return lax.while_loop(lambda carry: carry[1] > 5.0, again, start)[1]


def in_a_loop_of_a_traced_length(key, loss, scale):
    def again(i, total):
        return total + noise.laplace(jr.fold_in(key, i), loss, scale)

    return lax.fori_loop(0, jr.randint(key, (), 1, 4), again, 0.0 * loss)


def in_the_condition_of_a_loop(key, loss, scale):
    def going(index):
        return noise.laplace(jr.fold_in(key, index), loss, scale) > 5.0

    return 0.0 * lax.while_loop(going, lambda index: index + 1, 0)


def in_a_long_scan(key, loss, scale):
    def one(total, own):
        return total + noise.laplace(own, loss / 300.0, scale / 300.0), None

    return lax.scan(one, 0.0 * loss, jr.split(key, visits.MOST_ROUNDS + 1))[0]


def in_a_loop_within_a_condition(key, loss, scale):
    return lax.cond(loss > 0.5, until_it_is_small, lambda key, loss, scale: loss, key, loss, scale)


def in_a_checkpoint(key, loss, scale):
    return jax.checkpoint(lambda value: noise.laplace(key, value, scale))(loss)


REFUSED = {
    until_it_is_small: "a loop whose number of rounds is not fixed",
    in_a_loop_of_a_traced_length: "a loop whose number of rounds is not fixed",
    in_the_condition_of_a_loop: "a loop whose number of rounds is not fixed",
    in_a_loop_within_a_condition: "a loop whose number of rounds is not fixed",
    in_a_long_scan: f"a scan of {visits.MOST_ROUNDS + 1} rounds",
    in_a_checkpoint: "(checkpoint|remat2)",
}


def beside_a_release(other):
    """A release at the declared scale, beside another with a tenth of the noise."""

    def release(key, loss, scale):
        own, rest = jr.split(key)
        hidden = other(rest, loss, 0.1 * scale) > 7.0
        return noise.laplace(own, loss, scale) + hidden.astype(jnp.float32)

    return release


@pytest.mark.parametrize("release", REFUSED, ids=lambda release: release.__name__)
def test_a_release_out_of_reach_is_refused(release):
    """Its action does not depend on it, so a replay without it would spend 1 instead of 11."""
    sentence = f"^learner: an audit cannot find a release .laplace. in {REFUSED[release]}; it finds"
    with pytest.raises(ValueError, match=sentence):
        audit.replay(learner_of(beside_a_release(release), 1.0), PAIR, jr.key(0))
    drawn_at_init = learner_of(by_keyword, 1.0)._replace(
        init=lambda key: (jnp.float32(0.0), 0.0 * release(key, jnp.float32(0.0), 1.0))
    )
    with pytest.raises(ValueError, match=sentence):
        audit.replay(drawn_at_init, PAIR, jr.key(0))


@pytest.mark.parametrize("mechanism", ["honaker", "kary", "smooth"])
def test_noise_that_a_mechanism_draws_in_a_loop_is_that_of_its_sums(mechanism):
    """The noise is added to zeros. The sums are marked as releases; half their noise is found."""
    learner = learners.ftrl(
        8, domains.simplex(3), epsilon=1.0, mechanism=getattr(mechanisms, mechanism)
    )
    pairs = audit.pairs_for(learner, 4, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.spent.max() == pytest.approx(1.0, rel=1e-5)
    mutants = audit.mutants(learner, jax.tree.map(lambda leaf: leaf[0], pairs.losses))
    halved = audit.verdict(mutants["noise halved"], pairs, jr.key(1))
    assert "epsilon" in halved.failed and halved.spent.max() == pytest.approx(2.0, rel=1e-5)


def noise_alone(key, scale):
    """Noise on zeros, in a loop of a traced length."""

    def again(index, total):
        return total + noise.laplace(jr.fold_in(key, index), jnp.zeros(()), scale)

    return lax.fori_loop(0, jr.randint(key, (), 1, 4), again, jnp.float32(0.0))


@pytest.mark.parametrize("share", [1.0, 0.01])
def test_a_loss_beside_noise_on_zeros_is_no_release(share):
    """Alone, and beside a release at the declared scale."""

    def only(key, loss, scale):
        return share * loss + noise_alone(key, scale)

    def beside(key, loss, scale):
        own, rest = jr.split(key)
        return noise.laplace(own, loss, scale) + only(rest, loss, scale)

    for release in (only, beside):
        replayed = audit.replay(learner_of(release, 1.0), PAIR, jr.key(0))
        assert audit.spent(replayed, 0.0) == np.inf


@pytest.mark.parametrize("release", [until_it_is_small, in_a_long_scan, in_a_checkpoint])
def test_mutants_reach_releases_in_any_loop(release):
    """They run the loops unchanged. Without noise, a loop returns the sum of the losses."""
    learner = learner_of(release, 1.0)
    forgotten = audit.mutants(learner, PAIR.losses)["noise forgotten"]

    def action(learner):
        return learner.step(jnp.float32(0.0), jr.key(0), jnp.float32(1.0))[1]

    if release is in_a_checkpoint:
        with pytest.raises(ValueError, match="^learner: an audit cannot find a release"):
            action(forgotten)
        return
    expected = 1.0 if release is until_it_is_small else (visits.MOST_ROUNDS + 1) / 300.0
    assert float(action(forgotten)) == pytest.approx(expected, rel=1e-5)
    assert float(action(learner)) != pytest.approx(expected, rel=1e-3)


def test_loops_without_releases_are_not_entered():
    """Neither a while loop, nor a long scan, nor a scan of no rounds with a release in it."""

    def release(key, loss, scale):
        own, rest = jr.split(key)
        halved = lax.while_loop(lambda x: x > 2.0, lambda x: 0.5 * x, 4.0 + loss)
        summed, _ = lax.scan(lambda x, i: (x + i, None), 0.0, jnp.arange(1000.0))
        never, _ = lax.scan(lambda x, k: (noise.laplace(k, x, 1.0), None), 0.0, jr.split(rest, 0))
        return noise.laplace(own, loss, scale) + 0.0 * (halved + summed + never)

    assert spent_by(release, 1.0, 0.5) == [1.0, 2.0]


def with_a_leak_in_one_member(key, loss, scale):
    found = noisy(jr.split(key, 3), loss * WEIGHTS, scale)
    return jnp.sum(found + jnp.array([0.0, 0.0, 1e-3]) * loss)


def with_a_scale_from_data(key, loss, scale):
    scales = scale + 1e-4 * loss * jnp.array([0.0, 0.0, 1.0])
    return jnp.sum(jax.vmap(noise.laplace)(jr.split(key, 3), loss * WEIGHTS, scales))


def with_one_member_without_noise(key, loss, scale):
    scales = scale * jnp.array([1.0, 0.0, 1.0])
    return jnp.sum(jax.vmap(noise.laplace)(jr.split(key, 3), loss * WEIGHTS, scales))


@pytest.mark.parametrize(
    "release",
    [with_a_leak_in_one_member, with_a_scale_from_data, with_one_member_without_noise],
    ids=lambda release: release.__name__,
)
def test_what_is_not_hidden_spends_all(release):
    assert spent_by(release, 1.0) == [np.inf]


@pytest.mark.slow
@pytest.mark.parametrize(
    "release",
    [by_keyword, in_a_condition_in_a_scan, in_two_maps, in_a_scan_that_is_mapped, as_least_values],
    ids=lambda release: release.__name__,
)
def test_mutants_are_made_where_replays_find_releases(release):
    """Half the noise costs twice as much. A shared key for all noise is found, as is no noise."""
    found = audit.mutants(learner_of(release, 1.0), PAIR.losses)

    def spent(mutant):
        replayed = jax.jit(lambda: audit.replay(mutant, PAIR, jr.key(0)))()
        return float(audit.spent(replayed, 0.0))

    assert spent(found["noise halved"]) == pytest.approx(2.0 * SEEN[release], rel=1e-5)
    assert spent(found["noise reused"]) == spent(found["noise forgotten"]) == np.inf


@pytest.mark.slow
def test_one_integer_with_binomial_noise_is_accounted_for_exactly():
    """As a value, not as a sum. A quarter of the coins costs more."""

    def release(key, loss, scale):
        return noise.binomial(key, loss, scale)

    for coins in (400.0, 100.0):
        (found,) = spent_by(release, coins, delta=1e-4)
        assert found == pytest.approx(noise.binomial.epsilon(int(coins), 1e-4), rel=1e-5)
