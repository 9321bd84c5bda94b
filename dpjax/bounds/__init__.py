"""The papers' bounds on regret and on stopping times, to compare with measurements.

Bounds are computed with NumPy on the host, in float64 whatever the types of the arguments. Numbers
broadcast, and a bound has their common shape. Regret is in units of one round's loss.

``horizon`` is T, in rounds. ``arms`` is K, and ``dim`` is the dimension of the actions. ``epsilon``
is the declared privacy; inf means no privacy. ``failure`` is a probability, and ``rate`` is a
learning rate. ``means`` are the mean losses of all arms, (K,) in [0, 1]; they do not broadcast.
"""

from dpjax.bounds._host import all_in_float64
from dpjax.bounds.adversarial import *
from dpjax.bounds.bandits import *
from dpjax.bounds.convex import *
from dpjax.bounds.experts import *
from dpjax.bounds.identification import *
from dpjax.bounds.linear import *
from dpjax.bounds.matrices import *
from dpjax.bounds.stochastic import *
from dpjax.bounds.stochastic_lower import *
from dpjax.core._exports import public

__all__ = public(globals())

all_in_float64(globals(), __all__)
