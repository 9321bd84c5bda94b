"""Users with several rounds: pairs, cost, cancellation, and learners that count one round."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, learners, mechanisms, noise, privacy
from dpjax.audit import Pair
from dpjax.combinators import doubling, minibatch, user_level
from dpjax.core import Arms, Batch, BatchLearner, Feedback, Privacy, Sums
from dpjax.feedback import bandit
from dpjax.maths import exact_sums

pytestmark = pytest.mark.usefixtures("quick_compilation")
K, TAU, HORIZON = 3, 4, 13


def noisy_sums(release, declared):
    """Plays batches of TAU rounds, and its next action shows a bit of each batch's noisy sum."""

    def step(state, key, total):
        bit = (release(key, total) > 1.5).astype(jnp.int32)
        return state, Batch(bit, jnp.int32(TAU))

    return BatchLearner(
        init=lambda key: ((), Batch(jnp.int32(0), jnp.int32(TAU))),
        step=step,
        feedback=Feedback("first arm", lambda loss, action: bandit(loss, jnp.int32(0))),
        action_set=Arms(2),
        horizon=HORIZON,
        privacy=declared,
    )


def laplace(key, total):
    return exact_sums.to_float(noise.laplace.total(key, total, 1.0 / 0.2))


def gaussian(key, total):
    return noise.gaussian(key, exact_sums.to_float(total), 5.0)


# Gaussian noise of deviation 5 on each batch.
RELEASES = Privacy(
    epsilon=privacy.gaussian_epsilon(0.2, 1e-5), delta=1e-5, rho=0.5 / 25.0,
    sums=Sums("gaussian", "releases"),
)  # fmt: skip


def changing(*rounds, horizon=HORIZON):
    losses = jnp.zeros((horizon, 2))
    return Pair(losses, losses.at[jnp.array(rounds), 0].set(1.0))


TOGETHER, SPREAD = changing(0, 1, 2), changing(0, 4, 8)


def test_k_rounds_spend_k_epsilon():
    """In one batch and in k batches. A user with one round spends as much as a round."""
    learner = user_level(noisy_sums(laplace, Privacy(epsilon=0.2)), rounds_per_user=K)
    run = jax.jit(lambda pair: audit.replay(learner, pair, jr.key(0)))
    for pair, touched in ((TOGETHER, 1), (SPREAD, 3)):
        found = run(pair)
        assert float(found.pure) == pytest.approx(K * 0.2) and int(found.touched) == touched
        assert float(audit.spent(found, 0.0)) == pytest.approx(float(learner.privacy.epsilon))
    assert float(run(changing(5)).pure) == pytest.approx(0.2)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_a_replay_with_the_mechanism_spends_what_its_columns_do(law):
    """The worst three rounds spend all that is declared, others less; as one round, too much."""
    horizon, k, index = 9, 3, int(law == "gaussian")
    mechanism = mechanisms.tree(horizon, noise=law)
    scale = 4.0 * mechanism.sensitivity[index]
    mu = mechanism.sensitivity[index] / scale
    one = Privacy(epsilon=mu, sums=mechanism.sums)
    if law == "gaussian":
        one = one._replace(epsilon=privacy.gaussian_epsilon(mu, 1e-4), delta=1e-4, rho=0.5 * mu**2)
    plain = audit.releases(mechanism, (), scale=scale, privacy=one)
    learner = user_level(plain, rounds_per_user=k, mechanism=mechanism)
    grouped = user_level(plain, rounds_per_user=k)
    assert float(learner.privacy.epsilon) < float(grouped.privacy.epsilon)
    delta = float(learner.privacy.delta)
    run = jax.jit(lambda pair: audit.replay(learner, pair, jr.key(0), mechanism=mechanism))
    _, encoder = mechanism.matrices()
    found = []
    whole = jax.jit(lambda pair: audit.replay(grouped, pair, jr.key(0)))
    for rounds in ((0, 1, 2), (0, 2, 4), (5, 6, 7)):
        pair = changing(*rounds, horizon=horizon)
        replayed = run(Pair(pair.losses[:, 0], pair.others[:, 0]))
        # Without the mechanism, the norms of all changed columns are added up.
        bound = float(whole(Pair(pair.losses[:, 0], pair.others[:, 0]))[index])
        assert bound == pytest.approx(0.5 * (k * mu) ** 2 if index else k * mu, rel=1e-5)
        moved = encoder[:, list(rounds)].sum(axis=1) / scale
        exact = 0.5 * np.sum(moved**2) if index else np.abs(moved).sum()
        assert float(replayed[index]) == pytest.approx(exact, rel=1e-5)
        found.append(float(audit.spent(replayed, delta)))
    assert max(found) <= float(learner.privacy.epsilon) * (1.0 + 1e-5)
    worst = 0 if index else 1
    assert found[worst] == pytest.approx(float(learner.privacy.epsilon), rel=1e-4)
    assert min(found) < 0.8 * max(found)
    # A user counted as one round: the declaration of a round, or a third of the noise.
    pair = changing(*((0, 1, 2) if index else (0, 2, 4)), horizon=horizon)
    pairs = jax.tree.map(lambda side: side[None, :, 0], pair)
    assert audit.verdict(learner, pairs, jr.key(1), mechanism=mechanism).failed == ()
    wrong = plain._replace(privacy=one._replace(unit="user", rounds_per_user=k))
    assert "epsilon" in audit.verdict(wrong, pairs, jr.key(1), mechanism=mechanism).failed
    mutant = audit.mutants(learner, pair.losses[:, 0])["one user counted as one round"]
    caught = audit.verdict(mutant, pairs, jr.key(1), mechanism=mechanism)
    assert "epsilon" in caught.failed
    with pytest.raises(ValueError, match="^mechanism must be that of the learner's single stream"):
        audit.verdict(learner, pairs, jr.key(1), mechanism=mechanisms.tree(4))


def test_a_cap_on_the_rounds_in_a_release_is_what_a_user_spends():
    """Rounds in batches of TAU = 4: k = 5, and at most 2 share a batch, 2^2 + 2^2 + 1."""
    rho, k, most = RELEASES.rho, 5, 2
    plain = noisy_sums(gaussian, RELEASES)
    learner = user_level(plain, rounds_per_user=k, rounds_per_release=most)
    assert float(learner.privacy.rho) == pytest.approx(9 * rho)
    assert float(learner.privacy.epsilon) < float(
        user_level(plain, rounds_per_user=k).privacy.epsilon
    )
    run = jax.jit(lambda pair: audit.replay(learner, pair, jr.key(0)))
    within, beyond = changing(0, 1, 4, 5, 8), changing(0, 1, 2, 4, 5)
    found = run(within)
    assert float(found.rho) == pytest.approx(9 * rho)
    spent = float(audit.spent(found, 1e-5))
    assert spent == pytest.approx(float(learner.privacy.epsilon), rel=1e-5)
    # Three rounds of a user in one batch exceed the declaration.
    assert float(run(beyond).rho) == pytest.approx(13 * rho)
    mutant = audit.mutants(learner, within.losses)["one user counted as one round"]
    pairs = jax.tree.map(lambda side: side[None], within)
    assert audit.verdict(learner, pairs, jr.key(1)).failed == ()
    assert "rho" in audit.verdict(mutant, pairs, jr.key(1)).failed
    assert float(user_level(plain, rounds_per_user=3, rounds_per_release=9).privacy.rho) == (
        pytest.approx(9 * rho)
    )


def test_a_release_of_several_batches_has_one_cap():
    """Six rounds of a user in six batches of one phase of AdaP-TT change its sum by up to six."""
    horizon, k = 120, 6
    options = {"delta": 1e-3, "noise": "gaussian", "failure": 0.9}
    plain = learners.adap_tt(horizon, 2, epsilon=1.0, **options)
    once, often = (user_level(plain, rounds_per_user=k, rounds_per_release=most) for most in (1, k))
    rho = float(plain.privacy.rho)
    assert float(once.privacy.rho) == pytest.approx(k * rho)
    assert float(often.privacy.rho) == pytest.approx(k * k * rho)

    # The releases that each round alone affects: six rounds affect one and the same.
    losses, key = jnp.full((horizon, 2), 0.5), jr.key(0)
    run = jax.jit(lambda at: audit.replay(plain, Pair(losses, losses.at[at].set(1.0)), key).reached)
    reached = np.stack([np.asarray(run(at)) for at in range(horizon)])
    rounds = np.flatnonzero(reached[:, reached.sum(axis=0).argmax()])[-k:]
    assert len(rounds) == reached[rounds].sum(axis=0).max() == k
    base = losses.at[rounds].set(0.0)
    pairs = Pair(base[None], base.at[rounds].set(1.0)[None])
    # This release has more rounds of the user than the first declaration covers.
    assert "no release" in audit.verdict(once, pairs, key).failed
    found = audit.verdict(often, pairs, key)
    assert found.failed == () and found.spent[0] > 0.99 * float(often.privacy.epsilon)


def test_pairs_cover_all_rounds_of_a_user_and_verdicts_those_that_the_cap_allows():
    rho, k, most = RELEASES.rho, 4, 2
    learner = user_level(noisy_sums(gaussian, RELEASES), rounds_per_user=k, rounds_per_release=most)
    pairs = audit.pairs_for(learner, 64, jr.key(0))
    changed = np.asarray((pairs.losses != pairs.others).any(axis=-1))
    assert (changed.sum(axis=1) == k).all()
    in_batches = np.stack([changed[:, at : at + TAU].sum(axis=1) for at in range(0, 12, TAU)])
    covered = in_batches.max(axis=0) <= most
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and 0 < covered.sum() < 64
    # Changes of opposite signs in one batch may cancel, and some are of the other arm alone.
    assert not found.spent[~covered].any() and (found.spent[covered] > 0.0).mean() > 0.6
    assert found.spent.max() == pytest.approx(float(learner.privacy.epsilon), rel=1e-4)
    # As if each of the user's rounds were in a separate release.
    wrong = learner._replace(privacy=learner.privacy._replace(rho=k * rho))
    assert "rho" in audit.verdict(wrong, pairs, jr.key(1)).failed


def test_two_rounds_of_one_vector_may_move_it_in_one_direction():
    """AdaC-GOPE releases one vector per phase, which several batches change."""
    actions = np.concatenate([np.ones((1, 3)), np.eye(3)])
    plain = learners.adac_gope(64, actions, rho=0.1)
    learner = user_level(plain, rounds_per_user=2, rounds_per_release=1)
    key, pairs = jr.key(0), audit.pairs_for(learner, 64, jr.key(1))
    verdict = audit.verdict(learner, pairs, key)
    keys = jr.split(key, 64)
    spent = jax.jit(jax.vmap(lambda pair, key: audit.replay(plain, pair, key).rho))(pairs, keys)
    assert float(spent.max()) > 1.3 * float(learner.privacy.rho)  # on pairs outside its declaration
    assert not {"rho", "epsilon"} & set(verdict.failed)
    group = user_level(plain, rounds_per_user=2)
    assert audit.verdict(group, pairs, key).failed == ()


# Pairs ----------------------------------------------------------------------------------------

BOX = domains.box_losses(3, 0.0, 1.0)


@pytest.mark.parametrize("changed", [2, 3])
def test_pairs_of_groups(changed):
    """Exactly ``changed`` rounds differ, together or spread out, with equal or alternating signs.

    Every direction comes with both signs. Learners on arms ignore a shift of all entries, so the
    worst direction for them moves one entry up and another down.
    """
    pair = audit.pairs(jr.key(0), 12, BOX, 64, unit="user", changed=changed)
    ours, theirs = map(np.asarray, pair)
    differs = (ours != theirs).any(axis=2)
    np.testing.assert_array_equal(differs.sum(axis=1), changed)
    assert not differs[:, -1].any()
    together = np.array([np.ptp(np.flatnonzero(row)) == changed - 1 for row in differs])
    assert 0.2 < together.mean() < 0.9
    change = [(a - b)[row] for a, b, row in zip(ours, theirs, differs, strict=True)]
    equal = np.array([np.allclose(rows, rows[0]) for rows in change])
    turning = np.array([np.allclose(rows[1:], -rows[:-1]) for rows in change])
    assert (equal | turning).all() and 0.3 < equal.mean() < 0.7
    # Both kinds of direction occur with both kinds of rounds.
    assert {(a, b) for a, b in zip(equal, together, strict=True)} == {
        (False, False), (False, True), (True, False), (True, True)
    }  # fmt: skip
    direction = np.arange(64) // 2 % 4
    for kind in range(4):
        assert {*equal[direction == kind]} == {False, True}


def test_contexts_of_a_user_differ_in_k_rounds_and_one_round_is_what_it_was():
    ours, theirs = audit.contextual_pairs(jr.key(0), 12, 2, 32, changed=4)
    differ = np.zeros((32, 12), bool)
    for one, other in zip(ours, theirs, strict=True):
        differ |= np.asarray(one != other).reshape(32, 12, -1).any(axis=2)
    assert (differ.sum(axis=1) == 4).all() and not differ[:, -1].any()
    user = audit.pairs(jr.key(0), 12, BOX, 32, unit="user", changed=1)
    np.testing.assert_array_equal(user.others, audit.pairs(jr.key(0), 12, BOX, 32).others)


# The declaration ------------------------------------------------------------------------------


def test_user_level_changes_the_declaration_alone():
    base = learners.dp_ucb_int(64, 3, epsilon=1.0)
    learner = user_level(base, rounds_per_user=2)
    assert learner._replace(privacy=base.privacy, init=base.init, step=base.step) == base
    ours, theirs = learner.privacy, base.privacy
    assert float(ours.epsilon) == pytest.approx(2 * float(theirs.epsilon))
    growth = math.exp(float(theirs.epsilon)) + 1.0
    assert float(ours.delta) == pytest.approx(growth * float(theirs.delta), rel=1e-5)
    assert float(ours.rho) == pytest.approx(4 * float(theirs.rho))
    assert (ours.unit, ours.rounds_per_user) == ("user", 2)
    assert ours.accountant == f"{theirs.accountant}; group privacy of 2 rounds"
    once = user_level(base, rounds_per_user=1).privacy
    np.testing.assert_allclose(once[:3], [float(x) for x in theirs[:3]], rtol=1e-6)

    def traced(epsilon):
        made = user_level(learners.lazy_ucb(8, 2, epsilon=epsilon / 3), rounds_per_user=3)
        return made.privacy[:2]

    assert [float(x) for x in jax.jit(traced)(0.6)] == [pytest.approx(0.6), 0.0]


def test_other_combinators_keep_the_user():
    base = user_level(learners.hedge(8, 2, epsilon=1.0), rounds_per_user=2)
    assert minibatch(base, 8, 2).privacy == base.privacy

    def make(horizon):
        return user_level(learners.hedge(horizon, 2, epsilon=0.5), rounds_per_user=2)

    declared = doubling(make, 24, first=8).privacy
    assert (declared.unit, declared.rounds_per_user) == ("user", 2)
