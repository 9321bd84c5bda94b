"""Combinators: learners made from learners, and environments made from environments."""

from types import FunctionType

from dpjax.combinators.batches import *
from dpjax.combinators.delays import *
from dpjax.combinators.duels import *
from dpjax.combinators.environments import *
from dpjax.combinators.epochs import *
from dpjax.combinators.features import *
from dpjax.combinators.learners import *
from dpjax.combinators.local import *
from dpjax.combinators.reduction import *
from dpjax.combinators.users import *
from dpjax.core import _check
from dpjax.core._exports import public

__all__ = public(globals(), FunctionType)

_check.all_sound(globals(), __all__)
