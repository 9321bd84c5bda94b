"""Bad arguments of every learner are refused in one sentence that begins with their name.

tests/test_conformance.py refuses bad sizes, and -1 and NaN for every number.
"""

import numpy as np
import pytest

from dpjax import learners
from tests.test_conformance import given_number, parameters

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
