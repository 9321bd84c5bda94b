"""dpjax: a simulator of differentially private online learning and bandits in JAX."""

from typing import TYPE_CHECKING

from dpjax import (
    combinators,
    core,
    domains,
    environments,
    generators,
    learners,
    mechanisms,
    noise,
    privacy,
    stopping,
    store,
)
from dpjax._version import __version__ as __version__
from dpjax.analysis import bounds, statistics
from dpjax.combinators import every_round
from dpjax.core import (
    Batch,
    BatchLearner,
    Environment,
    Feedback,
    Learner,
    Mechanism,
    Outcome,
    Privacy,
    Result,
    Stream,
)
from dpjax.engine.programs import clear_caches
from dpjax.environments import loss_families
from dpjax.learners.parts import gram, prefix_sums
from dpjax.maths import designs, divergences
from dpjax.settings import keep_compiled
from dpjax.simulate import simulate, simulate_batches, trajectory
from dpjax.sweep import sweep

if TYPE_CHECKING:
    from dpjax.comparison import compare
    from dpjax.study import Study

__all__ = [
    "Batch",
    "BatchLearner",
    "Environment",
    "Feedback",
    "Learner",
    "Mechanism",
    "Outcome",
    "Privacy",
    "Result",
    "Stream",
    "Study",
    "bounds",
    "clear_caches",
    "combinators",
    "compare",
    "core",
    "designs",
    "divergences",
    "domains",
    "environments",
    "every_round",
    "generators",
    "gram",
    "keep_compiled",
    "learners",
    "loss_families",
    "mechanisms",
    "noise",
    "prefix_sums",
    "privacy",
    "simulate",
    "simulate_batches",
    "statistics",
    "stopping",
    "store",
    "sweep",
    "trajectory",
]


def __getattr__(name):
    """``dpjax.Study`` and ``compare``, whose libraries for labelled data take a second to load."""
    if name == "Study":
        from dpjax.study import Study

        return Study
    if name == "compare":
        from dpjax.comparison import compare

        return compare
    raise AttributeError(f"module 'dpjax' has no attribute {name!r}")
