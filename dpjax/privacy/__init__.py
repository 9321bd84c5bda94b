"""Calibrations: from (epsilon, delta) to a noise scale, and back.

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
    pure_rho,
    zcdp_epsilon,
    zcdp_inverse_root,
    zcdp_mu,
    zcdp_rho,
)
from dpjax.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_inverse_mu,
    gaussian_scale,
)
from dpjax.privacy.group import group_privacy, individual_privacy
from dpjax.privacy.integer import integer_delta, integer_epsilon
from dpjax.privacy.renyi import renyi_divergences, renyi_epsilon, zcdp_divergences
from dpjax.privacy.shuffle import shuffle_delta, shuffle_epsilon, shuffle_local_epsilon

__all__ = [
    "UserSensitivity",
    "advanced_composition",
    "bounded_range_rho",
    "default_delta",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_inverse_mu",
    "gaussian_rho",
    "gaussian_scale",
    "group_privacy",
    "individual_privacy",
    "integer_delta",
    "integer_epsilon",
    "laplace_scale",
    "noise_ratio",
    "pure_rho",
    "renyi_divergences",
    "renyi_epsilon",
    "shuffle_delta",
    "shuffle_epsilon",
    "shuffle_local_epsilon",
    "user_sensitivity",
    "zcdp_divergences",
    "zcdp_epsilon",
    "zcdp_inverse_root",
    "zcdp_mu",
    "zcdp_rho",
]
