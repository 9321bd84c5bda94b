"""Environments, one module for each kind; ``__all__`` is the registry."""

from dpjax.core import _check
from dpjax.core._exports import public
from dpjax.environments import families as families
from dpjax.environments._advice import advice as advice
from dpjax.environments._bernoulli import bernoulli as bernoulli
from dpjax.environments._classification import classification as classification
from dpjax.environments._consensus import consensus as consensus
from dpjax.environments._convex_losses import convex_losses as convex_losses
from dpjax.environments._deterministic import deterministic as deterministic
from dpjax.environments._dueling import dueling as dueling
from dpjax.environments._from_means import from_means as from_means
from dpjax.environments._gaussian import gaussian as gaussian
from dpjax.environments._glm_arms import glm_arms as glm_arms
from dpjax.environments._heavy_tailed import heavy_tailed as heavy_tailed
from dpjax.environments._linear_losses import linear_losses as linear_losses
from dpjax.environments._memory import memory as memory
from dpjax.environments._piecewise import piecewise as piecewise
from dpjax.environments._spiked_covariance import spiked_covariance as spiked_covariance
from dpjax.environments._switching_cost import switching_cost as switching_cost
from dpjax.environments._table import table as table
from dpjax.environments.contextual import contextual_table as contextual_table
from dpjax.environments.contextual import fixed_actions as fixed_actions
from dpjax.environments.contextual import gap_arms as gap_arms
from dpjax.environments.logs import logged as logged
from dpjax.environments.redrawn import fully_oblivious as fully_oblivious
from dpjax.environments.redrawn import oblivious as oblivious

__all__ = public(globals())

_check.all_sound(globals(), __all__, tested=True)
