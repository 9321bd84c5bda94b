"""All private releases of the package: values with noise added, and random choices.

Each function takes a key, which it consumes, and returns the noisy release. Scales are arguments:
:mod:`dpjax.privacy` computes a scale from epsilon. With a scale of 0 the value itself is returned.
Draws are float32 idealisations of the continuous laws; the Laplace draw, for instance, never
exceeds 22.2 scales.

Releases are marked. The functions named in SITES appear by name in the jaxpr of a learner's step,
where :mod:`dpjax.audit` finds what went in and what came out. Compilers inline these functions.
"""

from dpjax.noise.choices import (
    categorical,
    choose,
    coin,
    exceeds,
    least,
    randomized_response,
)
from dpjax.noise.marks import (
    discrete_gaussian_prefix,
    discrete_laplace_prefix,
    gaussian_prefix,
    laplace_prefix,
    skellam_prefix,
)
from dpjax.noise.totals import (
    binomial_total,
    binomial_words,
    discrete_gaussian_total,
    discrete_gaussian_words,
    discrete_laplace_total,
    discrete_laplace_words,
    gaussian_total,
    gaussian_words,
    laplace_sum,
    laplace_sum_words,
    laplace_total,
    laplace_words,
    skellam_total,
    skellam_words,
)
from dpjax.noise.values import (
    discrete_gaussian,
    discrete_laplace,
    gaussian,
    laplace,
    laplace_along,
    skellam,
    wishart,
)

SITES = (
    "laplace",
    "laplace_words",
    "laplace_sum_words",
    "gaussian_words",
    "discrete_laplace_words",
    "discrete_gaussian_words",
    "skellam_words",
    "binomial_words",
    "randomized_response",
    "laplace_along",
    "gaussian",
    "discrete_laplace",
    "discrete_gaussian",
    "skellam",
    "choose",
    "categorical",
    "least",
    "exceeds",
    "coin",
    "laplace_prefix",
    "gaussian_prefix",
    "discrete_laplace_prefix",
    "discrete_gaussian_prefix",
    "skellam_prefix",
)

__all__ = [
    "SITES",
    "binomial_total",
    "binomial_words",
    "categorical",
    "choose",
    "coin",
    "discrete_gaussian",
    "discrete_gaussian_prefix",
    "discrete_gaussian_total",
    "discrete_gaussian_words",
    "discrete_laplace",
    "discrete_laplace_prefix",
    "discrete_laplace_total",
    "discrete_laplace_words",
    "exceeds",
    "gaussian",
    "gaussian_prefix",
    "gaussian_total",
    "gaussian_words",
    "laplace",
    "laplace_along",
    "laplace_prefix",
    "laplace_sum",
    "laplace_sum_words",
    "laplace_total",
    "laplace_words",
    "least",
    "randomized_response",
    "skellam",
    "skellam_prefix",
    "skellam_total",
    "skellam_words",
    "wishart",
]
