"""Theorems on regret as data: learner, environments, paper and bound.

A theorem names its learner, the environments that it speaks of, its paper, and its bound as a
function of the grid. :func:`dpjax.study.theorems.measure` plays the learner against all of these
environments and compares the worst of them with the bound. To add a theorem, add its bound to
:mod:`dpjax.bounds` and an entry in ``arms``, ``points`` or ``vectors``. A learner without a theorem
is named in ``catalogue``, with the reason.
"""

from dpjax.bounds.theorems.catalogue import PAPERS_WITHOUT, THEOREMS, WITHOUT, find, named
from dpjax.bounds.theorems.statement import Theorem

__all__ = ["PAPERS_WITHOUT", "THEOREMS", "WITHOUT", "Theorem", "find", "named"]
