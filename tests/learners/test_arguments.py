"""Every bad argument of a learner over arms is refused in a sentence that begins with its name."""

import inspect

import numpy as np
import pytest

from dpjax import learners

NAN, INF = float("nan"), float("inf")
# For every learner below that takes them.
COMMON = {"horizon": (0, -1, 2.5), "arms": (1, 0, 2.5), "epsilon": (0.0, -1.0, NAN, np.nan)}
OWN = {
    "adac_ucb": {"exploration": (0.0, -1.0, NAN), "rho": (0.0, -1.0, NAN), "delta": (0.0, 1.0)},
    "adap_klucb": {"exploration": (0.0, -1.0, NAN)},
    "adap_tt": {
        "failure": (0.0, 1.0, -0.1, NAN),
        "rule": ("transport", ""),
        "ratio": (1.0, 0.5, NAN),
    },
    "adap_ucb": {"exploration": (0.0, -1.0, NAN)},
    "batched_bandit": {"base": ("exp3",)},
    "ctb_tt": {"failure": (0.0, 1.0, -0.1, NAN)},
    "dp_imed": {"ratio": (1.0, 0.5, NAN)},
    "dp_klucb": {"ratio": (1.0, 0.5, NAN)},
    "dp_ts_ucb": {
        "delta": (0.0, 1.0, NAN),
        "exponent": (-0.1, 1.1, NAN),
        "draws": (0, -1, 2.5),
    },
    "dp_tt": {"failure": (0.0, 1.0, -0.1, NAN), "ratio": (1.0, 0.5, NAN)},
    "dp_ucb": {"failure": (0.0, 1.0, NAN), "split": ("serial",)},
    "dp_ucb_bound": {},
    "dp_ucb_int": {
        "delta": (0.0, 1.0, NAN),
        "exponent": (1.0, 0.5, 1.6, NAN),
        "calibration": ("tight",),
    },
    "exp3": {"mixing": (0.0, -0.1, 1.1, NAN, INF), "calibration": ("tight", None)},
    "explore_then_commit": {"rounds": (0.0, 0.5, NAN), "gap": (0.0, -0.1, 1.1, NAN)},
    "gaussian_thompson": {
        "delta": (0.0, 1.0, NAN),
        "pulls": (-1, 0.5),
        "variance": (0.0, -1.0, NAN, INF),
    },
    "hedge": {
        "delta": (0.0, 1.0, -1.0, NAN),
        "share": (-0.1, 0.6, NAN),
        "calibration": ("tight", None),
    },
    "kl_ucb": {},
    "lazy_thompson": {"log_base": (1.0, 0.5, NAN)},
    "lazy_ucb": {"log_base": (1.0, 0.5, NAN)},
    "limited_updates": {"selector": ("gumbel", None), "calibration": ("printed", "tight", None)},
    "lucb": {"failure": (0.0, 1.0, -0.1, NAN)},
    "sequential_halving": {},
    "shrinking_dartboard": {
        "delta": (0.0, 1.0, -1.0, NAN),
        "rate": (0.0, 0.6, NAN),
        "calibration": ("tight", None),
        "batch": (0, -1, 2.5, 65),
        "shifts": (-1, NAN, INF),
    },
    "sparse_vector_experts": {
        "threshold": (0.0, -1.0, NAN, INF),
        "draws": (0, -1, 2.5),
    },
    "successive_elimination": {"failure": (0.0, 1.0, -0.1, NAN)},
    "thompson": {},
    "track_and_stop": {"failure": (0.0, 1.0, -0.1, NAN)},
    "ttucb": {"failure": (0.0, 1.0, -0.1, NAN)},
    "ucb1": {},
}


@pytest.mark.parametrize("name", OWN)
def test_bad_arguments_are_named(name):
    make = getattr(learners, name)
    private = "epsilon" in inspect.signature(make).parameters
    good = {"horizon": 64, "arms": 3} | ({"epsilon": 1.0} if private else {})
    good |= {"rho": 0.5} if "rho" in OWN[name] else {}
    make(**good)
    for argument, values in {**COMMON, **OWN[name]}.items():
        if argument == "epsilon" and not private:
            continue
        for value in values:
            with pytest.raises((ValueError, TypeError), match=rf"^{argument} must be"):
                make(**{**good, argument: value})
