"""dpjax: a simulator of differentially private online learning and bandits in JAX."""

from importlib import import_module
from typing import TYPE_CHECKING

from dpjax import (
    bounds,
    combinators,
    core,
    domains,
    environments,
    learners,
    mechanisms,
    noise,
    privacy,
    store,
)
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
    generators,
)
from dpjax.core._version import __version__ as __version__
from dpjax.engine.programs import clear_caches
from dpjax.engine.settings import keep_compiled
from dpjax.environments import families, loss_families
from dpjax.learners import stopping
from dpjax.learners.parts import gram, prefix_sums
from dpjax.maths import designs, divergences
from dpjax.study.simulate import simulate, simulate_batches, trajectory
from dpjax.study.sweep import sweep

if TYPE_CHECKING:
    from dpjax.study import Study
    from dpjax.study.compare import compare
    from dpjax.study.kept import open as open
    from dpjax.study.worst_case import worst_case

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
    "families",
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
    "stopping",
    "store",
    "sweep",
    "trajectory",
    "worst_case",
]


def __getattr__(name):
    """Names whose libraries for labelled data take a second to load."""
    places = {"Study": "study", "compare": "compare", "open": "kept", "worst_case": "worst_case"}
    if name in places:
        return getattr(import_module(f"dpjax.study.{places[name]}"), name)
    raise AttributeError(f"module 'dpjax' has no attribute {name!r}")
