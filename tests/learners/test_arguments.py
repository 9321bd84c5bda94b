"""Bad arguments of every learner are refused in one sentence that begins with their name.

tests/test_conformance.py refuses bad sizes, and -1 and NaN for every number.
"""

from functools import partial

import numpy as np
import pytest

from dpjax import combinators, domains, learners, mechanisms
from tests.test_conformance import given_number, parameters

INF = np.inf
# For every learner that takes the argument, or for one learner.
BAD = {
    "batch": (0, 0.5),
    "deviation": (0.0, INF),
    "draws": (0, 2.5),
    "exploration": (0.0, INF),
    "failure": (0.0, 1.0),
    "feature_bound": (0.0, INF),
    "growth": (0.0, INF),
    "largest_gap": (0.0, INF),
    "log_base": (1.0, 0.5),
    "loss_bound": (0.0, INF),
    "mixing": (0.0, 1.1, INF),
    "moment": (0.0, INF),
    "order": (1.0,),
    "parameter_bound": (0.0, INF),
    "prior": (0.0, INF),
    "pulls": (-1, 0.5),
    "ratio": (1.0, 0.5),
    "rate": (0.0, INF),
    "restart": (0.0, 0.6, INF),
    "ridge": (0.0, INF),
    "rounds": (0.0, 0.5),
    "share": (0.6,),
    "shifts": (INF,),
    "silos": (0,),
    "smoothing": (0.0, INF),
    "strength": (0.0, INF),
    "strong_convexity": (0.0, INF),
    "tau": (0.0, 0.5),
    "threshold": (0.0, INF),
    "variance": (0.0, INF),
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


BALL, SIMPLEX = domains.ball(3), domains.simplex(3)
exp2 = partial(learners.exp2, 10, epsilon=1.0)
etau = partial(learners.exp3_minibatch, 64, 3)
ftpl, ftrl = partial(learners.ftpl, 8, BALL, epsilon=1.0), partial(learners.ftrl, 8, epsilon=1.0)
glm = partial(learners.glm_sgd, 64, 3, epsilon=1.0)
dartboard = partial(learners.shrinking_dartboard, 64, 3, epsilon=1.0, calibration="printed")
on_ball = partial(ftrl, BALL)
sparring = partial(combinators.sparring, horizon=16, arms=3, epsilon=1.0)
USES = [
    (lambda: exp2(np.zeros((3, 2))), "arms"),
    (lambda: exp2(np.ones((1, 2))), "arms"),
    (lambda: exp2(np.full((3, 2), np.nan)), "arms"),
    (lambda: exp2(3, loss_range=(1.0, 0.0)), "loss_range"),
    (lambda: exp2(np.eye(3), calibration="printed"), "calibration"),
    (lambda: etau(), "either epsilon or tau"),
    (lambda: etau(epsilon=1.0, tau=5), "either epsilon or tau"),
    (lambda: ftpl(), "delta"),
    (lambda: ftpl(delta=1e-6, mechanism=mechanisms.kary, calibration="printed"), "calibration"),
    (lambda: glm(delta=1e-6), "delta must be left out if model is 'local'"),
    (lambda: glm(batch=4), "batch must be left out if model is 'local'"),
    (lambda: dartboard(batch=2), "batch must be 1"),
    (lambda: dartboard(shifts=2), "shifts must be"),
    (lambda: ftrl(SIMPLEX._replace(losses=domains.box_losses(4))), "losses must have the dim.*got"),
    (lambda: ftrl(SIMPLEX._replace(losses="box")), "losses must be a LossSet"),
    (lambda: on_ball(rate="loud"), "rate must be one of"),
    (lambda: on_ball(rate="noisy", noise="discrete_laplace"), "noisy is for laplace and gaussian"),
    (lambda: on_ball(calibration="printed", noise="gaussian", delta=1e-6), "calibration"),
    (lambda: on_ball(calibration="printed", mechanism=mechanisms.kary), "calibration"),
    (lambda: combinators.on_gradients(None), "learner must be a Learner"),
    (lambda: combinators.on_gradients(on_ball(unit="entry")), "all of a gradient can change"),
    (lambda: sparring(3), "make must be"),
    (lambda: sparring(lambda T, K, epsilon: 3), "make"),
    (lambda: sparring(lambda T, K, epsilon: learners.exp3(T + 1, K)), "horizon"),
    (lambda: sparring(lambda T, K, epsilon: learners.exp3(T, K + 1)), "make must .* of 3 arms"),
    (lambda: sparring(lambda T, K, epsilon: learners.hedge(T, K, epsilon=1.0)), "bandit feedback"),
    (lambda: sparring(lambda T, K, epsilon: combinators.rescale_losses(
        learners.exp3(T, K), -1.0, 1.0)), "losse"),
]  # fmt: skip


@pytest.mark.parametrize(("use", "message"), USES, ids=range(len(USES)))
def test_uses_that_do_not_fit_together_are_refused(use, message):
    with pytest.raises((ValueError, TypeError), match=message):
        use()
