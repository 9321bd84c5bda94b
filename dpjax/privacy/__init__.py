"""From a declared (epsilon, delta) to a noise scale, and back. Calibrations of learners come in.

Continuous noise is calibrated in JAX and may be traced. Integer noise and amplification by
shuffling are accounted for on the host, in float64.
"""

from dpjax.privacy.columns import UserSensitivity, user_sensitivity
from dpjax.privacy.continuous import (
    advanced_composition,
    bounded_range_rho,
    default_delta,
    gaussian_rho,
    laplace_scale,
    noise_ratio,
    pure_mu,
    pure_rho,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_inverse_root,
    zcdp_mu,
    zcdp_rho,
)
from dpjax.privacy.discrete import (
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_scale,
    discrete_laplace_delta,
    discrete_laplace_scale,
    discrete_laplace_variance,
    skellam_delta,
    skellam_epsilon,
    skellam_variance,
)
from dpjax.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_inverse_mu,
    gaussian_mu,
    gaussian_scale,
)
from dpjax.privacy.group import group_privacy, individual_privacy
from dpjax.privacy.integer import (
    binomial_coins,
    binomial_delta,
    binomial_epsilon,
    integer_delta,
    integer_epsilon,
)
from dpjax.privacy.integer_tables import INTEGER_LAWS, integer_noise
from dpjax.privacy.shuffle import shuffle_delta, shuffle_epsilon, shuffle_local_epsilon
from dpjax.privacy.skellam import skellam_renyi, skellam_vector_epsilon, skellam_vector_scale

__all__ = [
    "INTEGER_LAWS",
    "UserSensitivity",
    "advanced_composition",
    "binomial_coins",
    "binomial_delta",
    "binomial_epsilon",
    "bounded_range_rho",
    "default_delta",
    "discrete_gaussian_delta",
    "discrete_gaussian_epsilon",
    "discrete_gaussian_scale",
    "discrete_laplace_delta",
    "discrete_laplace_scale",
    "discrete_laplace_variance",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_inverse_mu",
    "gaussian_mu",
    "gaussian_rho",
    "gaussian_scale",
    "group_privacy",
    "individual_privacy",
    "integer_delta",
    "integer_epsilon",
    "integer_noise",
    "laplace_scale",
    "noise_ratio",
    "pure_mu",
    "pure_rho",
    "shuffle_delta",
    "shuffle_epsilon",
    "shuffle_local_epsilon",
    "skellam_delta",
    "skellam_epsilon",
    "skellam_renyi",
    "skellam_variance",
    "skellam_vector_epsilon",
    "skellam_vector_scale",
    "user_sensitivity",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_inverse_root",
    "zcdp_mu",
    "zcdp_rho",
]
