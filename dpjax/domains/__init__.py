"""Decision sets, sets of losses, and regularizers.

A learner plays points x of a :class:`Domain` in R^d. The loss vectors l are in a :class:`LossSet`,
and the learner suffers <l, x>. A set is described by the operations that algorithms need:
minimization of a linear function, projection, and minimization of a regularized linear function.
"""

from dpjax.core._exports import public
from dpjax.domains._from_minimizer import *
from dpjax.domains._paths import *
from dpjax.domains.base import *
from dpjax.domains.loss_sets import *
from dpjax.domains.matrices import *
from dpjax.domains.matroids import *
from dpjax.domains.polytopes import *
from dpjax.domains.regularizers import *
from dpjax.domains.standard import *

__all__ = public(globals())
