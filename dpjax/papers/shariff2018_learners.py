"""Shariff & Sheffet 2018: the learners of the experiment, and the regret that Theorem 5 allows."""

from collections.abc import Callable
from functools import cache, partial

import jax
import numpy as np
import xarray

from dpjax import bounds, learners
from dpjax.learners.parts import gram
from dpjax.learners.parts.gram_calibration import Regularizer
from dpjax.papers import _shared as shared

CALIBRATED = 50_000_000  # rounds n
DIM, EPSILON, DELTA = 5, 1.0, 0.1


# Derived with the tight norm bound; the others as the authors' program calibrates them.
LAWS: dict[str, Callable] = {
    "tight": gram.gaussian,
    "gaussian": partial(gram.gaussian, calibration="code", norm_bound="paper"),
    "wishart": partial(gram.wishart, calibration="code"),
}


def regularizer(law, *, floor=None, shifted=True) -> Regularizer:
    """The regularizer of a law of LAWS, in float64."""
    with jax.enable_x64(True):
        drawn = LAWS[law](shifted=shifted, floor=floor).noise(
            CALIBRATED, DIM, gram.Bounds(1.0, 1.0, 1.0), epsilon=EPSILON, delta=DELTA,
            failure=1.0 / CALIBRATED,
        )  # fmt: skip
    return Regularizer(*map(float, drawn.regularizer))


def linucb(horizon, floor, *, epsilon=EPSILON, law=gram.gaussian):
    """LinUCB as it is calibrated for n rounds, of which it plays the first ``horizon``."""
    made = learners.linucb(CALIBRATED, DIM, epsilon=epsilon, delta=DELTA, gram=law(floor=floor))
    return made._replace(horizon=horizon)


LEARNERS = {
    "plain": partial(linucb, epsilon=np.inf),
    **{name: partial(linucb, law=law) for name, law in LAWS.items()},
}


@cache
def compared() -> dict[str, tuple[str, Regularizer]]:
    """The learners of the second experiment, each with its noise and its regularizer.

    The shift changes nothing but the floor, the smallest eigenvalue: unshifted Wishart noise is
    Wishart noise with a floor of its own.
    """
    return {
        "LinUCB": ("plain", Regularizer(1.0, 1.0, 1.0, 0.0)),
        "Gaussian, tight": ("tight", regularizer("tight")),
        "Gaussian": ("gaussian", regularizer("gaussian")),
        "Wishart": ("wishart", regularizer("wishart")),
        "Wishart, unshifted": ("wishart", regularizer("wishart", shifted=False)),
    }


def bounds_figure():
    """Theorem 5's upper bounds for the learners of the second experiment."""
    t = np.geomspace(100, CALIBRATED, 100)
    curves = {
        name: bounds.linucb(t, DIM, *each[1:], mean_bound=0.75, failure=1.0 / CALIBRATED)
        for name, (_, each) in compared().items()
    }
    curves["1.5 t, the most there is"] = 1.5 * t
    lines = xarray.DataArray([*curves.values()], {"learner": [*curves], "round": t})
    return shared.lines_figure(lines, "round", "learner", ylabel="bound",
                               note="Theorem 5's upper bounds.")  # fmt: skip
