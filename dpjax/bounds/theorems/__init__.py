"""Theorems on regret as data: learner, environments, paper and bound.

A theorem names its learner, the environments to which it applies, its paper, and its bound as a
function of the grid. :func:`dpjax.study.theorems.measure` runs the learner against all of these
environments and compares the worst regret with the bound. To add a theorem, add its bound to
:mod:`dpjax.bounds` and an entry in ``arms``, ``points`` or ``vectors``. A learner without a theorem
is listed in ``catalogue``, with the reason.
"""

from dpjax.bounds.theorems.catalogue import PAPERS_WITHOUT, THEOREMS, WITHOUT, find, named
from dpjax.bounds.theorems.statement import Theorem

__all__ = ["PAPERS_WITHOUT", "THEOREMS", "WITHOUT", "Theorem", "find", "named"]
