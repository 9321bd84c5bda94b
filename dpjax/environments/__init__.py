"""Environments, one module for each kind; ``__all__`` is the registry."""

from dpjax.core import _check
from dpjax.environments import families as families
from dpjax.environments._advice import advice
from dpjax.environments._bernoulli import bernoulli
from dpjax.environments._classification import classification
from dpjax.environments._consensus import consensus
from dpjax.environments._convex_losses import convex_losses
from dpjax.environments._deterministic import deterministic
from dpjax.environments._dueling import dueling
from dpjax.environments._from_means import from_means
from dpjax.environments._gaussian import gaussian
from dpjax.environments._glm_arms import glm_arms
from dpjax.environments._heavy_tailed import heavy_tailed
from dpjax.environments._linear_losses import linear_losses
from dpjax.environments._memory import memory
from dpjax.environments._oblivious import fully_oblivious, oblivious
from dpjax.environments._piecewise import piecewise
from dpjax.environments._spiked_covariance import spiked_covariance
from dpjax.environments._switching_cost import switching_cost
from dpjax.environments._table import table
from dpjax.environments.contextual import contextual_table, fixed_actions, gap_arms

__all__ = [
    "advice",
    "bernoulli",
    "classification",
    "consensus",
    "contextual_table",
    "convex_losses",
    "deterministic",
    "dueling",
    "fixed_actions",
    "from_means",
    "fully_oblivious",
    "gap_arms",
    "gaussian",
    "glm_arms",
    "heavy_tailed",
    "linear_losses",
    "memory",
    "oblivious",
    "piecewise",
    "spiked_covariance",
    "switching_cost",
    "table",
]

_check.all_sound(globals(), __all__)
