"""All private releases of the package: values with added noise, and random choices.

A law of noise is a callable record: ``noise.laplace(key, value, scale)`` adds noise to a value, and
``noise.laplace.total`` adds noise to an exact sum. The record also has functions for calibrating
the scale and for the privacy loss of a release (:class:`Law`). Each function consumes its key. If
the scale is 0, the value itself is returned. Draws are float32 idealisations of the continuous
laws. For example, the Laplace draw never exceeds 22.2 scales.

Every release is an equation with the primitive ``release``. So :mod:`dpjax.audit` finds all
releases of a learner, also in branches, in scans and under ``jax.vmap``. To add a law, write a file
for it and add it to LAWS.
"""

from dpjax.noise.binomial import binomial
from dpjax.noise.choices import (
    categorical,
    choose,
    coin,
    exceeds,
    least,
    randomized_response,
)
from dpjax.noise.discrete_gaussian import discrete_gaussian
from dpjax.noise.discrete_laplace import discrete_laplace
from dpjax.noise.gaussian import gaussian
from dpjax.noise.laplace import laplace
from dpjax.noise.law import Calibration, Cost, Law
from dpjax.noise.logistic import logistic
from dpjax.noise.skellam import skellam
from dpjax.noise.wishart import wishart

LAWS = {
    law.name: law
    for law in (
        laplace,
        gaussian,
        discrete_laplace,
        discrete_gaussian,
        skellam,
        binomial,
        logistic,
    )
}

__all__ = [
    "LAWS",
    "Calibration",
    "Cost",
    "Law",
    "binomial",
    "categorical",
    "choose",
    "coin",
    "discrete_gaussian",
    "discrete_laplace",
    "exceeds",
    "gaussian",
    "laplace",
    "least",
    "logistic",
    "randomized_response",
    "skellam",
    "wishart",
]
