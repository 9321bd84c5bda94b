"""The types of dpjax, the checks of arguments, and the generators of random numbers.

Everything else stands on this room, which stands on none.
"""

from dpjax.core.types import (
    Arms,
    Batch,
    BatchLearner,
    Clip,
    Environment,
    Feedback,
    Init,
    Learner,
    Mechanism,
    Outcome,
    Policies,
    Privacy,
    Report,
    Result,
    See,
    Step,
    Stream,
    Sums,
    coordinate_name,
    described,
    empty_report,
    leaf_axes,
    leaf_names,
    optional,
)
from dpjax.core.types import (
    Array as Array,
)
from dpjax.core.types import (
    Number as Number,
)
from dpjax.core.types import (
    Numbers as Numbers,
)

__all__ = [
    "Arms",
    "Batch",
    "BatchLearner",
    "Clip",
    "Environment",
    "Feedback",
    "Init",
    "Learner",
    "Mechanism",
    "Outcome",
    "Policies",
    "Privacy",
    "Report",
    "Result",
    "See",
    "Step",
    "Stream",
    "Sums",
    "coordinate_name",
    "described",
    "empty_report",
    "leaf_axes",
    "leaf_names",
    "optional",
]
