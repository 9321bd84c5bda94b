"""Competitors, references, and applicable lower bounds; points and features."""

import importlib
from functools import partial

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, domains, learners
from dpjax.audit import audited as audits
from dpjax.audit import reasons
from dpjax.bounds import instances as lower_bounds
from dpjax.combinators import as_learner
from dpjax.core import Arms, Policies
from dpjax.domains.action_sets import check_fit
from dpjax.learners import entrants
from dpjax.learners.entrants import sizes
from dpjax.learners.factories import taken
from dpjax.study.standard import drawn, standard

# The package exports the function under the module's name.
comparing = importlib.import_module("dpjax.study.compare")
HORIZON = 64
FIELDS = {
    "exp3": {
        "adac_gope", "adac_ucb", "adap_klucb", "adap_tt", "adap_ucb", "batched_bandit", "ctb_tt",
        "dp_exp3_lap", "dp_imed", "dp_klucb", "dp_ts_ucb", "dp_tt", "dp_ucb", "dp_ucb_bound",
        "dp_ucb_int", "exp2", "exp3", "exp3_minibatch",
        "explore_then_commit", "gaussian_thompson", "kl_ucb",
        "lazy_thompson", "lazy_ucb", "linear_elimination", "lucb",
        "robust_elimination",
        "sequential_halving", "successive_elimination", "thompson", "track_and_stop",
        "tsallis_inf", "ttucb", "ucb1",
    },
    "hedge": {"hedge", "limited_updates", "shrinking_dartboard", "sparse_vector_experts"},
    "ftrl": {
        "ftpl", "ftrl", "online_frank_wolfe", "online_gradient", "private_ftal", "private_giga",
    },
    "scrible": {"one_point_gradient", "private_one_point", "projection_free", "scrible"},
    "two_point_gradient": {"two_point_gradient"},
    "linucb": {"adac_oful", "federated_linucb", "glm_sgd", "linucb"},
    "exp4": {"exp4", "probing_experts"},
    "cucb": {"cucb", "semi_bandit_ftrl"},
    "dueling_elimination": {"dueling_elimination"},
}  # fmt: skip


# Learners that refuse the others' domain: it is no set of vertices, or has no barrier.
LEFT_OUT = {
    **dict.fromkeys(("ftrl", "scrible", "two_point_gradient"), FIELDS["cucb"]),
    "cucb": {"scrible"},
}  # fmt: skip


def built(name):
    """A built-in learner of standard size, as if it were a user's own."""
    given = sizes(HORIZON) | ({"domain": domains.capped_simplex(5, 2)} if name == "cucb" else {})
    return entrants.entrant(getattr(learners, name), HORIZON, given).build(HORIZON)


@pytest.mark.parametrize("name", FIELDS)
def test_all_that_play_and_see_the_same_compete(name):
    field = entrants.field_for(built(name), HORIZON)
    assert {*field.entrants} == FIELDS[name]
    assert {*field.left_out} == LEFT_OUT.get(name, set())
    counted = len(field.entrants) + len(field.left_out) + field.others
    assert counted == len(learners.__all__)
    for entrant in field.entrants.values():
        assert entrant.private == ("epsilon" in taken(entrant.factory))


def test_every_learner_competes_somewhere():
    assert sorted(name for names in FIELDS.values() for name in names) == learners.__all__


@pytest.mark.parametrize("name", ["exp3", "ftrl", "linucb", "exp4", "dueling_elimination"])
def test_actions_of_every_kind_have_an_environment_that_is_drawn(name):
    """Its rounds differ, and its actions are those of the learner."""
    learner = as_learner(built(name))
    environment = drawn(learner.action_set)
    check_fit(learner, environment)
    first, (_, action) = environment.init(jr.key(0)), learner.init(jr.key(0))

    @jax.vmap
    def seen(key):
        return learner.feedback(environment.step(first, key, action)[1].loss, action)

    found = jax.tree.leaves(jax.jit(seen)(jr.split(jr.key(1), 16)))
    assert any(np.ptp(leaf, axis=0).max() > 0.0 for leaf in found)


def test_who_refuses_the_domain_is_left_out_with_the_reason():
    """SCRiBLE needs a barrier, which a user's own domain lacks."""
    ball = domains.ball(3)
    own = domains.from_minimizer(
        3, ball.minimizer, centre=np.zeros(3), diameter=2.0, losses=ball.losses, inradius=1.0
    )
    mine = learners.one_point_gradient(HORIZON, own)
    field = entrants.field_for(mine, HORIZON)
    assert "barrier" in field.left_out["scrible"]
    assert "scrible" not in field.entrants


def test_games_by_batches_have_three_environments_that_allow_them():
    for count in (2, 4):
        assert all(each.environment.batch for each in standard(Arms(count), True))
        *iid, adversary = standard(Arms(count), False)
        assert [each.name for each in iid] == ["wide gap", "narrow gap"]
        assert adversary.environment.batch is None and adversary.means is None
    for actions in (Policies(5), Policies(5, 4), domains.ball(5)):
        assert len({each.name for each in standard(actions, False)}) == 3


def test_lower_bounds_are_those_of_the_instance_and_of_the_declaration():
    wide, _, adversary = standard(Arms(4), False)
    means = np.array([0.3, 0.5, 0.5, 0.5])

    def at(epsilon, delta, where=wide, feedback="bandit feedback", model="central"):
        return lower_bounds.lower_bounds(where, feedback, 10**5, epsilon, delta, model)

    pure = at(0.1, 0.0)
    assert pure[0] == ("d_epsilon", pytest.approx(bounds.d_epsilon(10**5, means, 0.1)))
    # For losses in [0, 1]; the function uses rewards in {-1, 1}.
    assert pure[1:] == [("shariff_sheffet", pytest.approx(3.0 * np.log(10**5) / 40.0))]
    assert pure[0].value > 400.0 * pure[1].value * 0.999
    for epsilon, delta in ((np.inf, 0.0), (0.1, 1e-10)):
        ((name, value),) = at(epsilon, delta)
        assert (name, value) == ("lai_robbins", pytest.approx(bounds.lai_robbins(10**5, means)))
        assert value < pure[0].value
    for epsilon in (0.1, 1.0, 10.0):
        local = at(epsilon, 0.0, model="local")
        value = bounds.lai_robbins_local(10**5, means, epsilon)
        assert local[0] == ("lai_robbins_local", pytest.approx(value))
        assert local[1:] == at(epsilon, 0.0)
    assert at(0.1, 0.0, adversary) == at(0.1, 0.0, feedback="full information") == []
    unit = standard(Policies(4), False)[0]
    contextual_bound = at(0.1, 0.0, unit, "contextual bandit feedback")
    # Losses -1 and 1 have twice the regret of losses 0 and 1.
    assert [each.value for each in contextual_bound] == pytest.approx(
        [2.0 * each.value for each in pure]
    )


def test_sizes_of_ones_own_are_bound_by_partial():
    factory = partial(learners.exp3, arms=7)
    learner = entrants.entrant(factory, HORIZON).build(HORIZON)
    assert learner.action_set == Arms(7)
    assert {*entrants.field_for(learner, HORIZON, ["ucb1"]).entrants} == {"ucb1"}
    assert sizes(HORIZON)["arms"] == 4


def test_the_words_of_an_audit():
    """For one that passes, one that declares nothing, and three that fail."""
    row = {"epsilon": 1.0, "declared": 1.0, "delta": 0.0, "replay": 0.9, "pairs": 64, "paths": 8,
           "runs": 9, "horizon": 16, "attack": 0.5, "checks": "pass", "flagged": False}  # fmt: skip
    passed = audits.finding(row)
    assert passed.startswith("At epsilon = 1: a replay finds no violation above the declared 1 on")
    mutants = [{"mutant": "noise halved", "caught": True}, {"mutant": "odd", "caught": False}]
    words = audits.summary(audits.Audited([row], mutants, False))
    assert "finds no violation above the declared levels" in words
    assert "at least" not in words and "bounds epsilon from below by 0.5" in words
    assert "replays caught 1 and missed odd." in words
    nothing = row | {"checks": "nothing declared", "attack": None}
    assert "declares no privacy" in audits.finding(nothing)
    assert "nothing to audit" in audits.summary(audits.Audited([nothing], [], False))
    for changes, message in [
        ({"checks": "epsilon, attack", "replay": 2.0, "attack": 1.5}, "spent 2, but 1 is declared"),
        ({"checks": "fresh_keys, epsilon", "replay": np.inf}, "the noise of a release is known"),
        ({"checks": "epsilon, clip", "replay": 90.0}, "only losses far out of the declared range"),
    ]:
        found = audits.finding(row | changes | {"flagged": True})
        assert "a violation was found" in found and message in found
    for checks in reasons._UNDECIDED:
        undecided = row | {"checks": checks, "attack": None}
        assert audits.status(checks) == 3 and audits.status(f"{checks}, fresh_keys") == 1
        assert "cannot decide" in audits.finding(undecided) and reasons._UNDECIDED[checks] in (
            audits.summary(audits.Audited([undecided], [], False))
        )
    assert "an attack bounds epsilon from below by 1.5" in audits.finding(
        row | {"checks": "attack", "attack": 1.5, "flagged": True}
    )
