"""Bad arguments of every learner are refused in one sentence that begins with their name.

tests/test_conformance.py refuses bad sizes, and -1 and NaN for every number.
"""

import numpy as np
import pytest

from dpjax import learners
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
