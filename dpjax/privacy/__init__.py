"""Calibrations: from (epsilon, delta) to a noise scale, and back.

Continuous noise is calibrated in JAX and may be traced. Integer noise and amplification by
shuffling are accounted for on the host, in float64.
"""

from dpjax.core._exports import public
from dpjax.privacy.columns import *
from dpjax.privacy.continuous import *
from dpjax.privacy.gaussian import *
from dpjax.privacy.group import *
from dpjax.privacy.integer import *
from dpjax.privacy.renyi import *
from dpjax.privacy.shuffle import *

__all__ = public(globals())
