"""The public names of studies."""

from . import compare as compare
from . import in_python as in_python
from . import sweep as sweep
from . import theorems as theorems
from . import worst_case as worst_case
from .cost import Cost as Cost
from .study import Study as Study
