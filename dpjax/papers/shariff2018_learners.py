"""Shariff & Sheffet 2018: the learners of the experiment, and the regret that Theorem 5 allows."""

from functools import cache, partial

import jax
import numpy as np

from dpjax import learners
from dpjax.analysis import bounds, plot
from dpjax.learners.parts import gram_noise
from dpjax.learners.parts.gram_calibration import Regularizer

CALIBRATED = 50_000_000  # rounds n
DIM, EPSILON, DELTA = 5, 1.0, 0.1


def regularizer(noise, *, floor=None, shifted=True, tight=False) -> Regularizer:
    """The regularizer of the experiment's calibration, in float64.

    With ``tight`` the noise is derived, and the norm bound is the tight one.
    """
    calibration = "derived" if tight else "code"
    given = {
        "epsilon": EPSILON, "delta": DELTA, "failure": 1.0 / CALIBRATED, "calibration": calibration,
        "shifted": shifted, "floor": floor,
    }  # fmt: skip
    with jax.enable_x64(True):
        largest = gram_noise.Bounds(1.0, 1.0, 1.0)
        if noise == "wishart":
            drawn = gram_noise.wishart(CALIBRATED, DIM, largest, **given)
        else:
            given["norm_bound"] = "tight" if tight else "paper"
            drawn = gram_noise.symmetric(CALIBRATED, DIM, largest, **given)
    return Regularizer(*map(float, drawn.regularizer))


def linucb(horizon, floor, **options):
    """LinUCB as it is calibrated for n rounds, of which it plays the first ``horizon``."""
    made = learners.linucb(CALIBRATED, DIM, delta=DELTA, floor=floor, **options)
    return made._replace(horizon=horizon)


_PRINTED = {"epsilon": EPSILON, "calibration": "code", "norm_bound": "paper"}
LEARNERS = {
    "plain": partial(linucb, epsilon=np.inf),
    "tight": partial(linucb, epsilon=EPSILON),
    "gaussian": partial(linucb, noise="gaussian", **_PRINTED),
    "wishart": partial(linucb, noise="wishart", **_PRINTED),
}


@cache
def compared() -> list[tuple[str, str, float]]:
    """The learners of the second experiment, each with its noise and its floor.

    The shift changes nothing but the floor: unshifted Wishart noise is Wishart noise with a floor
    of its own.
    """
    return [
        ("LinUCB", "plain", 1.0),
        ("Gaussian, tight", "tight", regularizer("gaussian", tight=True).smallest),
        ("Gaussian", "gaussian", regularizer("gaussian").smallest),
        ("Wishart", "wishart", regularizer("wishart").smallest),
        ("Wishart, unshifted", "wishart", regularizer("wishart", shifted=False).smallest),
    ]


def bounds_figure():
    """Theorem 5's upper bounds for the learners of the second experiment."""
    t = np.geomspace(100, CALIBRATED, 100)
    made = {
        "LinUCB": Regularizer(1.0, 1.0, 1.0, 0.0),
        "Gaussian, tight": regularizer("gaussian", tight=True),
        "Gaussian": regularizer("gaussian"),
        "Wishart": regularizer("wishart"),
        "Wishart, unshifted": regularizer("wishart", shifted=False),
    }
    curves = [
        (name, bounds.linucb(t, DIM, *each[1:], mean_bound=0.75, failure=1.0 / CALIBRATED))
        for name, each in made.items()
    ]
    curves.append(("1.5 t, the most there is", 1.5 * t))
    drawn = plot.regret_figure(
        [
            plot.Curve(name, t, values, None, None, {"color": color})
            for (name, values), color in zip(curves, plot.categorical(6), strict=True)
        ],
        "Theorem 5's upper bounds", ylabel="bound",
    )  # fmt: skip
    drawn.axes[0].loglog()
    return drawn
