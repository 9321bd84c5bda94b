"""Environments, one module for each kind; ``__all__`` is the registry."""

from dpjax.core import _check
from dpjax.environments.advice import advice
from dpjax.environments.bernoulli import bernoulli
from dpjax.environments.classification import classification
from dpjax.environments.consensus import consensus
from dpjax.environments.contextual import contextual_table, fixed_actions, gap_arms
from dpjax.environments.convex_losses import convex_losses
from dpjax.environments.deterministic import deterministic
from dpjax.environments.dueling import dueling
from dpjax.environments.from_means import from_means
from dpjax.environments.gaussian import gaussian
from dpjax.environments.glm_arms import glm_arms
from dpjax.environments.heavy_tailed import heavy_tailed
from dpjax.environments.linear_losses import linear_losses
from dpjax.environments.memory import memory
from dpjax.environments.oblivious import fully_oblivious, oblivious
from dpjax.environments.piecewise import piecewise
from dpjax.environments.spiked_covariance import spiked_covariance
from dpjax.environments.switching_cost import switching_cost
from dpjax.environments.table import table

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
