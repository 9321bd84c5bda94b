"""Shariff & Sheffet 2018: the learners of the experiment, and the laws of their noise."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np

from dpjax import learners
from dpjax.core._versions import enable_x64
from dpjax.learners.parts import gram
from dpjax.learners.parts.gram_calibration import Regularizer

CALIBRATED = 50_000_000  # rounds n
DIM, EPSILON, DELTA = 5, 1.0, 0.1


# "tight" is derived, with the tight norm bound; the others are those of the authors' program.
LAWS: dict[str, Callable] = {
    "tight": gram.gaussian,
    "gaussian": partial(gram.gaussian, calibration="code", norm_bound="paper"),
    "wishart": partial(gram.wishart, calibration="code"),
}


def regularizer(law, *, floor=None, shifted=True) -> Regularizer:
    """The regularizer of a law of LAWS, in float64."""
    with enable_x64(True):
        drawn = LAWS[law](shifted=shifted, floor=floor).noise(
            CALIBRATED, DIM, gram.Bounds(1.0, 1.0, 1.0), epsilon=EPSILON, delta=DELTA,
            failure=1.0 / CALIBRATED,
        )  # fmt: skip
    return Regularizer(*map(float, drawn.regularizer))


def linucb(horizon, floor, *, epsilon=EPSILON, law=gram.gaussian):
    """LinUCB calibrated for n rounds; it plays the first ``horizon`` of them."""
    made = learners.linucb(CALIBRATED, DIM, epsilon=epsilon, delta=DELTA, gram=law(floor=floor))
    return made._replace(horizon=horizon)


LEARNERS = {
    "plain": partial(linucb, epsilon=np.inf),
    **{name: partial(linucb, law=law) for name, law in LAWS.items()},
}


@cache
def compared() -> dict[str, tuple[str, float]]:
    """The learners of the second experiment, each with its noise and its floor.

    The floor is the smallest eigenvalue of the regularizer. The shift changes only the floor:
    unshifted Wishart noise is Wishart noise with another floor.
    """
    return {
        "LinUCB": ("plain", 1.0),
        "Gaussian, tight": ("tight", regularizer("tight").smallest),
        "Gaussian": ("gaussian", regularizer("gaussian").smallest),
        "Wishart": ("wishart", regularizer("wishart").smallest),
        "Wishart, unshifted": ("wishart", regularizer("wishart", shifted=False).smallest),
    }
