"""All private releases of the package: values with added noise, and random choices.

A law of noise is a callable record: ``noise.laplace(key, value, scale)`` adds noise to a value, and
``noise.laplace.total`` adds noise to an exact sum. The record also has functions for calibrating
the scale and for the privacy loss of a release (:class:`Law`). Each function consumes its key. If
the scale is 0, the value itself is returned. Draws are float32 idealisations of the continuous
laws. For example, the Laplace draw never exceeds 22.2 scales.

Every release is an equation with the primitive ``release``. So :mod:`dpjax.audit` finds all
releases of a learner, also in branches, in scans and under ``jax.vmap``. A law of your own is
accepted wherever a name in LAWS is.
"""

from dpjax.noise._binomial import binomial
from dpjax.noise._discrete_gaussian import discrete_gaussian
from dpjax.noise._discrete_laplace import discrete_laplace
from dpjax.noise._gaussian import gaussian
from dpjax.noise._laplace import laplace
from dpjax.noise._logistic import logistic
from dpjax.noise._skellam import skellam
from dpjax.noise._wishart import wishart
from dpjax.noise.choices import (
    categorical,
    choose,
    coin,
    exceeds,
    least,
    randomized_response,
)
from dpjax.noise.law import Calibration, Cost, Law
from dpjax.noise.registry import LAWS, LawName, name_of

__all__ = [
    "LAWS",
    "Calibration",
    "Cost",
    "Law",
    "LawName",
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
    "name_of",
    "randomized_response",
    "skellam",
    "wishart",
]
