"""Competitors, references, and applicable lower bounds; points and features."""

import importlib
from functools import partial

import numpy as np

from dpjax import domains, learners
from dpjax.audit import audited as audits
from dpjax.audit import reasons
from dpjax.core import Arms, Policies
from dpjax.learners import entrants
from dpjax.learners.entrants import sizes
from dpjax.learners.factories import taken
from dpjax.study.standard import standard

# The package exports the function under the module's name.
comparing = importlib.import_module("dpjax.study.compare")
HORIZON = 64
# One learner of each kind of actions and feedback.
FIELDS = ("exp3", "hedge", "ftrl", "scrible", "two_point_gradient", "linucb", "exp4", "cucb",
          "dueling_elimination")  # fmt: skip
SEMI_BANDITS = {"cucb", "semi_bandit_ftrl"}
# Learners that refuse the others' domain: it is no set of vertices, or has no barrier.
LEFT_OUT = {
    **dict.fromkeys(("ftrl", "scrible", "two_point_gradient"), SEMI_BANDITS),
    "cucb": {"scrible"},
}


def built(name):
    """A built-in learner of standard size, as if it were a user's own."""
    given = sizes(HORIZON) | ({"domain": domains.capped_simplex(5, 2)} if name == "cucb" else {})
    return entrants.entrant(getattr(learners, name), HORIZON, given).build(HORIZON)


def test_each_learner_competes_with_those_that_play_and_see_the_same():
    """The fields are a partition of all learners, except that some refuse the domain."""
    fields = {name: entrants.field_for(built(name), HORIZON) for name in FIELDS}
    competing = [name for field in fields.values() for name in field.entrants]
    assert sorted(competing) == learners.__all__ and {*fields["cucb"].entrants} == SEMI_BANDITS
    for name, field in fields.items():
        assert name in field.entrants and {*field.left_out} == LEFT_OUT.get(name, set())
        counted = len(field.entrants) + len(field.left_out) + field.others
        assert counted == len(learners.__all__)
        for entrant in field.entrants.values():
            assert entrant.private == ("epsilon" in taken(entrant.factory))


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
        assert all(game.batch for game in standard(Arms(count), True).values())
        *names, last = standard(Arms(count), False)
        assert names == ["wide gap", "narrow gap"]
        assert standard(Arms(count), False)[last].batch is None
    for actions in (Policies(5), Policies(5, 4), domains.ball(5)):
        assert len(standard(actions, False)) == 3


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
    nothing = row | {"checks": "nothing declared", "attack": None}
    assert "declares no privacy" in audits.finding(nothing)
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
        said = audits.finding(undecided)
        assert "cannot decide" in said and reasons._UNDECIDED[checks] in said
    assert "an attack bounds epsilon from below by 1.5" in audits.finding(
        row | {"checks": "attack", "attack": 1.5, "flagged": True}
    )
