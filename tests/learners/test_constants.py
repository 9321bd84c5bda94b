"""Rates and other constants: defaults, traced values, and their declarations."""

from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from dpjax import audit
from dpjax.cli import audits
from tests import test_conformance as conformance

INF = float("inf")
HORIZON, ARMS, SEEDS = 32, conformance.ARMS, 5
DOMAIN = conformance.ARGUMENTS["domain"]
quickly = pytest.mark.usefixtures("quick_compilation")


class Constant(NamedTuple):
    learner: str
    argument: str
    default: float  # the paper's value for these arguments, computed here in float64
    other: float  # a value that changes the play
    given: Any = ()  # further arguments, (name, value)
    horizon: int = HORIZON
    gap: float = 0.0  # the first arm's advantage over the others


EXPLORATION = {
    "ucb1": (4.0, 0.5), "kl_ucb": (1.0, 0.1), "lazy_ucb": (3.0, 0.1), "lazy_thompson": (3.0, 0.1),
    "cucb": (3.0, 0.1), "adap_ucb": (3.1, 0.1), "adap_klucb": (3.1, 0.1), "dp_klucb": (1.0, 0.1),
    "dp_imed": (1.0, 0.1), "dp_ucb_bound": (4.0, 0.1),
}  # fmt: skip
BY_CONFIDENCE = [
    *(Constant(name, "exploration", *values) for name, values in EXPLORATION.items()),
    Constant("dp_ucb", "exploration", 4.0, 0.1, (("epsilon", INF),)),
    Constant("dp_ucb_int", "exploration", 4.0, 0.1, (("epsilon", 100.0),)),
    Constant("successive_elimination", "exploration", 1.0, 0.5, (("failure", 0.99),), 1300),
    Constant("thompson", "prior", 1.0, 10.0),
]


def mixing(rounds):
    return min(1.0, np.sqrt(ARMS * np.log(ARMS) / ((np.e - 1) * rounds)))


def exp2_rates(epsilon):
    """(eta, gamma) for losses in [0, 1], minus 1/2."""
    scale = 1 / epsilon
    reach = ARMS * (0.5 + 2 * scale * np.log(HORIZON))
    price = ARMS * (0.25 + 2 * scale**2) + reach
    eta = np.sqrt(np.log(ARMS) / (HORIZON * price))
    gamma = min(0.5, eta * reach)
    return min(eta, gamma / reach), gamma


def printed_exp2_rates(epsilon):
    inflation = 1 + 2 / epsilon**2 * np.log(ARMS * HORIZON)
    eta = np.sqrt(np.log(ARMS) / (2 * ARMS * HORIZON * inflation))
    return eta, min(1.0, eta * ARMS * np.sqrt(inflation))


PRINT = {"calibration": "printed"}
FOUR, HUNDRED = (("epsilon", None), ("tau", 4.0)), (("epsilon", 100.0),)
PRINTED = (*HUNDRED, ("calibration", "printed"))
EXP2 = (("base", "exp2"),)
SAMPLED = [
    Constant("tsallis_inf", "rate", 2.0, 20.0),
    Constant("exp2", "rate", exp2_rates(100.0)[0], 5.0, HUNDRED),
    Constant("exp2", "mixing", exp2_rates(100.0)[1], 1.0, HUNDRED),
    Constant("exp2", "rate", printed_exp2_rates(100.0)[0], 5.0, PRINTED),
    Constant("exp2", "mixing", printed_exp2_rates(100.0)[1], 1.0, PRINTED),
    Constant("dp_exp3_lap", "mixing", mixing(HORIZON), 1.0),
    Constant("dp_exp3_lap", "threshold", np.log(HORIZON), 0.1),
    Constant("exp3_minibatch", "mixing", mixing(HORIZON // 4), 0.05, FOUR),
    Constant("batched_bandit", "tau", 4.0, 1.0, (("epsilon", 0.25),)),
    Constant("batched_bandit", "rate", 3.0**-0.5, 10.0),
    Constant("batched_bandit", "rate", exp2_rates(1.0)[0], 1.0, EXP2),
]


def flaxman():
    """(zeta, nu, eta) of the one-point learners on the simplex, for signed losses."""
    dim, lipschitz = ARMS - 1, DOMAIN.losses.norms[1]
    bound, r = lipschitz * DOMAIN.diameter, DOMAIN.inradius
    zeta = np.sqrt(DOMAIN.radius * dim * bound * r / (3 * (lipschitz * r + bound)))
    zeta = min(zeta / HORIZON**0.25, r / 2)
    nu = DOMAIN.radius / (bound * HORIZON**0.5)
    return zeta, nu, nu * zeta / dim


def scrible_rate(epsilon):
    """On the simplex, whose barrier has parameter K in K - 1 dimensions; losses in [0, 1]."""
    second_moment = 0.25 + 2 / epsilon**2
    return np.sqrt(ARMS * np.log(HORIZON) / (2 * (ARMS - 1) ** 2 * HORIZON * second_moment))


PLAIN, MANY = (("epsilon", INF),), (("epsilon", 1e4),)
ZETA, NU, ETA = flaxman()
OF_POINTS = [
    Constant("scrible", "rate", scrible_rate(100.0), 1.0, HUNDRED),
    Constant("one_point_gradient", "rate", NU, 10 * NU),
    Constant("one_point_gradient", "smoothing", ZETA, ZETA / 2),
    Constant("private_one_point", "rate", ETA, 10 * ETA, MANY),
    Constant("private_one_point", "smoothing", ZETA, ZETA / 2, MANY),
    Constant("online_gradient", "rate", DOMAIN.diameter / DOMAIN.losses.norms[1], 10.0, MANY),
]
OTHERS = [
    Constant("hedge", "rate", np.sqrt(8 * np.log(ARMS) / HORIZON), 10.0, PLAIN),
    Constant("linear_elimination", "ratio", (2 * HORIZON) ** (1 / np.log(HORIZON)), 1.5),
    Constant("linear_elimination", "failure", 1 / 1024, 0.999, PLAIN, horizon=1024, gap=0.6),
    Constant("linucb", "ridge", 1.0, 100.0, PLAIN),
    Constant("shrinking_dartboard", "restart", (8 * HORIZON) ** -0.5, 0.5, (("epsilon", 1.0),)),
    Constant("shrinking_dartboard", "restart", HORIZON**-0.5, 0.5, PRINTED),
]  # fmt: skip
CONSTANTS = [*BY_CONFIDENCE, *SAMPLED, *OF_POINTS, *OTHERS]
# Constants on which the privacy of the learner's draws, or its noise scale, depends.
SPENDING = {("hedge", "rate"), ("exp3_minibatch", "mixing"), ("shrinking_dartboard", "restart")}
POST_PROCESSING = [
    constant
    for constant in CONSTANTS
    if constant[:2] not in SPENDING and "calibration" not in dict(constant.given)
]
# The others are as quick, but numerous.
QUICK_REPLAYS = {"dp_klucb", "dp_exp3_lap"}
QUICK = {"ucb1", "dp_klucb", "adap_klucb", "successive_elimination", "exp2", "hedge",
         "one_point_gradient", "linear_elimination", "thompson"}  # fmt: skip


def name_of(constant):
    return "-".join([constant.learner, constant.argument, *dict(constant.given)])


def marked(constants, quick):
    """Cases of a test; only those of ``quick`` learners are not marked slow."""
    return pytest.mark.parametrize(
        "constant",
        [
            pytest.param(c, marks=() if c.learner in quick else pytest.mark.slow, id=name_of(c))
            for c in constants
        ],
    )


def learner_of(constant, **changes):
    given = {"horizon": constant.horizon, **dict(constant.given)}
    return conformance.make(constant.learner, **given, **changes)


def actions(constant, game, points):
    """(points, seeds, T, ...) of a sweep over float32 points, and the traced calls."""
    traced = []
    note = traced.append
    means = np.float32([0.5 - constant.gap / 2, *[0.5 + constant.gap / 2] * (ARMS - 1)])
    table = np.asarray(conformance.table(constant.horizon))
    losses = means + np.float32(1.0 - constant.gap) * (table - np.float32(0.5))

    def recorded(point):
        note(isinstance(point, jax.core.Tracer))
        return conformance.recorded(game(point), conformance.on_table(constant.learner, losses))

    _, played, _ = conformance.play(recorded, np.float32(points), SEEDS)
    return played, sum(traced)


@cache
def played_by_default(learner, *given):
    """Actions of the learner without passing it the constant."""
    constant = Constant(learner, "", 0.0, 0.0, *given)
    return actions(constant, lambda point: learner_of(constant), [0.0])[0][0]


@quickly
@marked(CONSTANTS, QUICK)
def test_the_default_is_the_papers_and_any_other_value_is_traced(constant):
    """One compiled sweep over three values: the default's play is equal, another's is not."""
    values = [constant.default, constant.other, 0.5 * (constant.default + constant.other)]

    def game(value):
        return learner_of(constant, **{constant.argument: value})

    played, traced = actions(constant, game, values)
    assert traced == 1
    usual = played_by_default(constant.learner, *constant[4:])
    np.testing.assert_allclose(played[0], usual, rtol=1e-4, atol=1e-5)
    # A difference beyond rounding, in some round of some seed.
    assert np.abs(played[1] - usual).max() > 1e-2


def audited(name, epsilon=1.0, **options):
    """A learner of the size used in audits."""
    return audits.build(name, audits.domains_of(name)[-1], audits.HORIZON, epsilon, **options)


def numbers(declared):
    return [float(x) for x in (declared.epsilon, declared.delta, declared.rho)]


@quickly
@marked(POST_PROCESSING, QUICK_REPLAYS)
def test_noise_on_losses_hides_them_whatever_the_constant(constant):
    """The declaration is that of the default, and a replay at another value spends no more."""
    # At epsilon = 1, DP-UCB-Int's interval is longer than the game.
    epsilon = 100.0 if constant.learner == "dp_ucb_int" else 1.0
    options = {key: value for key, value in constant.given if key != "epsilon"}
    usual = audited(constant.learner, epsilon, **options)
    other = audited(constant.learner, epsilon, **options, **{constant.argument: constant.other})
    np.testing.assert_array_equal(numbers(other.privacy), numbers(usual.privacy))
    if np.isfinite(float(other.privacy.epsilon)):
        assert audits.replays(other, audit.pairs_for(other, 8, audits.keys()[0])).failed == ()


@quickly
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
    assert numbers(greedy.privacy) == pytest.approx(numbers(asked.privacy))
    assert float(greedy.privacy.epsilon) <= 0.5 * (1 + 1e-6)
