"""Theorems on regret as data, and whether a measurement holds with them.

A theorem names its learner, the environments that it speaks of, its paper, and its bound as a
function of the grid. :func:`measure` plays the learner against all of these environments and
compares the worst of them with the bound. To add a theorem, add its bound to
:mod:`dpjax.analysis.bounds` and an entry in ``arms``, ``points`` or ``vectors``. A learner without
a theorem is named in ``catalogue``, with the reason.
"""

from dpjax.study.theorems.catalogue import PAPERS_WITHOUT, THEOREMS, WITHOUT, find, named
from dpjax.study.theorems.measured import (
    EPSILONS,
    Measured,
    first_horizon,
    judge,
    measure,
    play,
    verdict,
)
from dpjax.study.theorems.statement import Theorem

__all__ = [
    "EPSILONS",
    "PAPERS_WITHOUT",
    "THEOREMS",
    "WITHOUT",
    "Measured",
    "Theorem",
    "find",
    "first_horizon",
    "judge",
    "measure",
    "named",
    "play",
    "verdict",
]
