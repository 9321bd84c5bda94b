"""Rates and other constants: their defaults, traced values, bad values, and what they declare."""

from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from dpjax.learners.successive_elimination import epoch_length, epoch_radius
from tests import test_conformance as conformance

NAN, INF = float("nan"), float("inf")
HORIZON, ARMS, SEEDS = 32, conformance.ARMS, 5
quickly = pytest.mark.usefixtures("quick_compilation")


class Constant(NamedTuple):
    learner: str
    argument: str
    default: float  # the paper's value for these arguments, computed here in float64
    other: float  # a value with which the play is another
    bad: tuple = (INF,)  # refused, in addition to 0, -1 and NaN
    given: Any = ()  # further arguments, (name, value)
    horizon: int = HORIZON


BY_CONFIDENCE = [
    Constant("ucb1", "exploration", 4.0, 0.5),
    Constant("kl_ucb", "exploration", 1.0, 0.1),
    Constant("lazy_ucb", "exploration", 3.0, 0.1),
    Constant("lazy_thompson", "exploration", 3.0, 0.1),
    Constant("adap_ucb", "exploration", 3.1, 0.1),
    Constant("adap_klucb", "exploration", 3.1, 0.1),
    Constant("dp_klucb", "exploration", 1.0, 0.1),
    Constant("dp_imed", "exploration", 1.0, 0.1),
    Constant("dp_ucb", "exploration", 4.0, 0.1, given=(("epsilon", INF),)),
    Constant("dp_ucb_bound", "exploration", 4.0, 0.1),
    Constant("dp_ucb_int", "exploration", 4.0, 0.1, given=(("epsilon", 100.0),)),
    Constant(
        "successive_elimination", "exploration", 1.0, 0.5, given=(("failure", 0.99),), horizon=1300
    ),
    Constant("thompson", "prior", 1.0, 10.0),
]


def mixing(rounds):
    return min(1.0, np.sqrt(ARMS * np.log(ARMS) / ((np.e - 1) * rounds)))


def exp2_rates(epsilon):
    """(eta, gamma) for losses in [0, 1], of which 1/2 is subtracted."""
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


FOUR, HUNDRED = (("epsilon", None), ("tau", 4.0)), (("epsilon", 100.0),)
PRINTED = (*HUNDRED, ("calibration", "printed"))
EXP2 = (("base", "exp2"),)
SAMPLED = [
    Constant("tsallis_inf", "rate", 2.0, 20.0),
    Constant("exp2", "rate", exp2_rates(100.0)[0], 5.0, given=HUNDRED),
    Constant("exp2", "mixing", exp2_rates(100.0)[1], 1.0, bad=(1.1, INF), given=HUNDRED),
    Constant("exp2", "rate", printed_exp2_rates(100.0)[0], 5.0, given=PRINTED),
    Constant("exp2", "mixing", printed_exp2_rates(100.0)[1], 1.0, bad=(1.1, INF), given=PRINTED),
    Constant("dp_exp3_lap", "mixing", mixing(HORIZON), 1.0, bad=(1.1, INF)),
    Constant("dp_exp3_lap", "threshold", np.log(HORIZON), 0.1),
    Constant("exp3_minibatch", "mixing", mixing(HORIZON // 4), 0.05, bad=(1.1, INF), given=FOUR),
    Constant("batched_bandit", "tau", 4.0, 1.0, bad=(0.9,), given=(("epsilon", 0.25),)),
    Constant("batched_bandit", "rate", 3.0**-0.5, 10.0),
    Constant("batched_bandit", "rate", exp2_rates(1.0)[0], 1.0, given=EXP2),
]
CONSTANTS = [*BY_CONFIDENCE, *SAMPLED]
every_constant = pytest.mark.parametrize(
    "constant", CONSTANTS, ids=lambda c: "-".join([c.learner, c.argument, *dict(c.given)])
)


def sizes(constant):
    return {"horizon": constant.horizon, **dict(constant.given)}


def learner_of(constant, **changes):
    return conformance.make(constant.learner, **sizes(constant), **changes)


def actions(constant, game, points):
    """(points, seeds, T, ...) of a sweep over float32 points, and the calls that were traced."""
    traced = []
    note = traced.append

    def recorded(point):
        note(isinstance(point, jax.core.Tracer))
        environment = conformance.on_table(constant.learner, conformance.table(constant.horizon))
        return conformance.recorded(game(point), environment)

    _, played, _ = conformance.play(recorded, np.float32(points), SEEDS)
    return played, sum(traced)


@cache
def played_by_default(learner, given, horizon):
    """Without the constant, of which the learner is then not told."""
    constant = Constant(learner, "", 0.0, 0.0, given=given, horizon=horizon)
    return actions(constant, lambda point: learner_of(constant), [0.0])[0][0]


@quickly
@every_constant
def test_the_default_is_the_papers_and_any_other_value_is_traced(constant):
    """One compiled sweep over three values: the default's play is the same, another's is not."""
    values = [constant.default, constant.other, 0.5 * (constant.default + constant.other)]

    def game(value):
        return learner_of(constant, **{constant.argument: value})

    played, traced = actions(constant, game, values)
    assert traced == 1
    usual = played_by_default(constant.learner, constant.given, constant.horizon)
    np.testing.assert_allclose(played[0], usual, rtol=1e-4, atol=1e-5)
    # A difference that is not rounding, in some round of some seed.
    assert np.abs(played[1] - usual).max() > 1e-2


@every_constant
def test_bad_values_are_refused_by_name(constant):
    """In one sentence, as plain numbers, in the calls that a sweep makes before it traces."""
    for value in (0.0, -1.0, NAN, *constant.bad):
        with pytest.raises(ValueError, match=rf"^{constant.argument} must be") as refused:
            learner_of(constant, **{constant.argument: value})
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.1])
def test_a_mean_may_be_off_by_as_much_in_every_epoch_as_a_confidence_bound_says(alpha):
    """sqrt(alpha L / (2 n)) + alpha L / (epsilon n), as with the constant of AdaP-UCB."""
    epoch, active, epsilon, failure = 2, 4, 0.5, 1e-4
    first, second = (alpha * np.log(c * active * epoch**2 / failure) for c in (8, 4))
    length = max(32 * first * 4.0**epoch, 8 * second * 2.0**epoch / epsilon) + 1
    radius = np.sqrt(first / (2 * length)) + second / (epsilon * length)
    given = (epoch, active, epsilon, failure, alpha)
    assert float(epoch_length(*given)) == pytest.approx(length, rel=1e-5)
    assert float(epoch_radius(*given)) == pytest.approx(radius, rel=1e-5)
    assert radius <= 2.0**-epoch / 4
