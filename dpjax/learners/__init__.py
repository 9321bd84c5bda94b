"""One file per published algorithm. ``__all__`` is the registry: tests, audits and the
command line go by it."""

from dpjax.learners.dp_exp3_lap import dp_exp3_lap
from dpjax.learners.exp3 import exp3
from dpjax.learners.exp3_minibatch import exp3_minibatch
from dpjax.learners.ftpl import ftpl
from dpjax.learners.ftrl import ftrl
from dpjax.learners.hedge import hedge
from dpjax.learners.limited_updates import limited_updates
from dpjax.learners.online_gradient import online_gradient
from dpjax.learners.private_ftal import private_ftal
from dpjax.learners.private_giga import private_giga
from dpjax.learners.shrinking_dartboard import shrinking_dartboard

__all__ = [
    "dp_exp3_lap",
    "exp3",
    "exp3_minibatch",
    "ftpl",
    "ftrl",
    "hedge",
    "limited_updates",
    "online_gradient",
    "private_ftal",
    "private_giga",
    "shrinking_dartboard",
]
