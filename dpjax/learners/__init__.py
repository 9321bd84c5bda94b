"""One file per published algorithm. ``__all__`` is the registry: tests, audits and the
command line go by it."""

from dpjax.learners.dp_exp3_lap import dp_exp3_lap
from dpjax.learners.exp3 import exp3
from dpjax.learners.exp3_minibatch import exp3_minibatch

__all__ = ["dp_exp3_lap", "exp3", "exp3_minibatch"]
