"""Bad arguments are refused by name; constants may be traced, and change the play."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from dpjax import audit, learners
from dpjax.cli import audits
from tests import test_conformance as conformance
from tests.test_conformance import given_number, parameters

pytestmark = pytest.mark.usefixtures("quick_compilation")

INF = np.inf
# Positive and finite, for every learner that takes the argument.
POSITIVE = ["deviation", "exploration", "feature_bound", "growth", "largest_gap", "loss_bound"]
POSITIVE += ["moment", "parameter_bound", "prior", "rate", "ridge", "smoothing", "strength"]
POSITIVE += ["strong_convexity", "threshold", "variance"]
# For every learner that takes the argument, or for one learner.
BAD = dict.fromkeys(POSITIVE, (0.0, INF)) | {
    "batch": (0, 0.5),
    "draws": (0, 2.5),
    "failure": (0.0, 1.0),
    "log_base": (1.0, 0.5),
    "mixing": (0.0, 1.1, INF),
    "order": (1.0,),
    "pulls": (-1, 0.5),
    "ratio": (1.0, 0.5),
    "restart": (0.0, 0.6, INF),
    "rounds": (0.0, 0.5),
    "share": (0.6,),
    "shifts": (INF,),
    "silos": (0,),
    "tau": (0.0, 0.5),
    "dp_ts_ucb.exponent": (-0.1, 1.1),
    "dp_ucb_int.exponent": (1.0, 0.5, 1.6),
    "linear_elimination.ratio": (INF,),
    "one_point_gradient.smoothing": (1.0,),
    "private_one_point.smoothing": (1.0, INF),
    "shrinking_dartboard.batch": (18,),
    "shrinking_dartboard.rate": (0.6,),
}
WORDS = (
    "base", "calibration", "compare", "model", "neighbours", "noise", "radius", "read", "rule",
    "selector", "split", "unit",
)  # fmt: skip


@pytest.mark.parametrize("argument", [*BAD, *WORDS])
def test_bad_arguments_are_refused_by_name(argument):
    """Infinities, limits that are excluded, and unknown words."""
    one, _, own = argument.rpartition(".")
    takers = [one] if one else [name for name in learners.__all__ if own in parameters(name)]
    assert takers
    for name in takers:
        for value in BAD.get(argument, ("no such word",)):
            with pytest.raises((ValueError, TypeError), match=rf"^{own} must be") as refused:
                given_number(name, own, value)
            assert "\n" not in str(refused.value)


HORIZON, ARMS, SEEDS = 32, conformance.ARMS, 5


class Constant(NamedTuple):
    learner: str
    argument: str
    other: float  # a value that changes the play
    given: Any = ()  # further arguments, (name, value)
    horizon: int = HORIZON
    gap: float = 0.0  # the first arm's advantage over the others


PRINT = {"calibration": "printed"}
PLAIN, MANY, HUNDRED = (("epsilon", INF),), (("epsilon", 1e4),), (("epsilon", 100.0),)
PRINTED = (*HUNDRED, ("calibration", "printed"))
EXPLORATION = {
    "ucb1": 0.5, "kl_ucb": 0.1, "lazy_ucb": 0.1, "lazy_thompson": 0.1, "cucb": 0.1, "adap_ucb": 0.1,
    "adap_klucb": 0.1, "dp_klucb": 0.1, "dp_imed": 0.1, "dp_ucb_bound": 0.1,
}  # fmt: skip
CONSTANTS = [
    *(Constant(name, "exploration", value) for name, value in EXPLORATION.items()),
    Constant("dp_ucb", "exploration", 0.1, PLAIN),
    Constant("dp_ucb_int", "exploration", 0.1, HUNDRED),
    Constant("successive_elimination", "exploration", 0.5, (("failure", 0.99),), 1300),
    Constant("thompson", "prior", 10.0),
    Constant("tsallis_inf", "rate", 20.0),
    Constant("exp2", "rate", 5.0, HUNDRED),
    Constant("exp2", "mixing", 1.0, HUNDRED),
    Constant("exp2", "rate", 5.0, PRINTED),
    Constant("exp2", "mixing", 1.0, PRINTED),
    Constant("dp_exp3_lap", "mixing", 1.0),
    Constant("dp_exp3_lap", "threshold", 0.1),
    Constant("exp3_minibatch", "mixing", 0.05, (("epsilon", None), ("tau", 4.0))),
    Constant("batched_bandit", "tau", 1.0, (("epsilon", 0.25),)),
    Constant("batched_bandit", "rate", 10.0),
    Constant("batched_bandit", "rate", 1.0, (("base", "exp2"),)),
    Constant("scrible", "rate", 1.0, HUNDRED),
    Constant("one_point_gradient", "rate", 5.0),
    Constant("one_point_gradient", "smoothing", 0.02),
    Constant("private_one_point", "rate", 0.1, MANY),
    Constant("private_one_point", "smoothing", 0.02, MANY),
    Constant("online_gradient", "rate", 10.0, MANY),
    Constant("hedge", "rate", 10.0, PLAIN),
    Constant("linear_elimination", "ratio", 1.5),
    Constant("linear_elimination", "failure", 0.999, PLAIN, horizon=1024, gap=0.6),
    Constant("linucb", "ridge", 100.0, PLAIN),
    Constant("shrinking_dartboard", "restart", 0.5, (("epsilon", 1.0),)),
    Constant("shrinking_dartboard", "restart", 0.5, PRINTED),
]


def name_of(constant):
    return "-".join([constant.learner, constant.argument, *dict(constant.given)])


def learner_of(constant, **changes):
    given = {"horizon": constant.horizon, **dict(constant.given)}
    return conformance.make(constant.learner, **given, **changes)


def actions(constant, game, points):
    """(points, seeds, T, ...) of a sweep over float32 points."""
    means = np.float32([0.5 - constant.gap / 2, *[0.5 + constant.gap / 2] * (ARMS - 1)])
    table = np.asarray(conformance.table(constant.horizon))
    losses = means + np.float32(1.0 - constant.gap) * (table - np.float32(0.5))

    def recorded(point):
        return conformance.recorded(game(point), conformance.on_table(constant.learner, losses))

    return conformance.play(recorded, np.float32(points), SEEDS)[1]


@cache
def played_by_default(learner, *given):
    """Actions of the learner without passing it the constant."""
    constant = Constant(learner, "", 0.0, *given)
    return actions(constant, lambda point: learner_of(constant), [0.0])[0]


@pytest.mark.parametrize("constant", CONSTANTS, ids=name_of)
def test_another_value_changes_the_play(constant):
    """By a difference beyond rounding, in some round of some seed."""

    def game(value):
        return learner_of(constant, **{constant.argument: value})

    played = actions(constant, game, [constant.other])
    usual = played_by_default(constant.learner, *constant[3:])
    assert np.abs(played[0] - usual).max() > 1e-2


def audited(name, epsilon=1.0, **options):
    """A learner of the size used in audits."""
    return audits.build(name, audits.domains_of(name)[-1], audits.HORIZON, epsilon, **options)


@pytest.mark.parametrize(
    ("name", "epsilon", "value", "covers_less"),
    [
        ("hedge", INF, {"rate": 2.0}, {}),
        ("hedge", INF, {"rate": 0.1}, {"rate": 0.02}),
        ("exp3_minibatch", None, {"tau": 1.0}, {"tau": 1.0, "mixing": 0.99}),
        ("shrinking_dartboard", 5.0, PRINT | {"restart": 0.5}, PRINT | {"restart": 0.05}),
    ],
)
def test_draws_spend_what_is_declared_at_their_own_rate(name, epsilon, value, covers_less):
    """The declaration at another rate (Hedge's default, or with more mixing) is too small."""
    learner, other = audited(name, epsilon, **value), audited(name, epsilon, **covers_less)
    found = audits.replays(learner, audit.pairs_for(learner, 8, audits.keys()[0]))
    assert found.failed == ()
    assert float(other.privacy.epsilon) < found.spent.max() < INF


def test_a_rate_beyond_what_epsilon_allows_is_cut():
    """Hedge declares no more than requested."""
    asked, greedy = (audited("hedge", 0.5, **given) for given in ({}, {"rate": 5.0}))
    np.testing.assert_allclose(greedy.privacy[:3], asked.privacy[:3], rtol=1e-6)
    assert float(greedy.privacy.epsilon) <= 0.5 * (1 + 1e-6)
