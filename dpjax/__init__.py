"""dpjax: a simulator of differentially private online learning and bandits in JAX."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from dpjax.study import Study
    from dpjax.study.compare import compare
    from dpjax.study.in_python import from_python
    from dpjax.study.kept import open as open
    from dpjax.study.simulate import simulate, simulate_batches, trajectory
    from dpjax.study.sweep import sweep
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
    "from_python",
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


# Names that are neither subpackages nor names of ``dpjax.core``.
_PLACES = {
    "Study": "study:Study",
    "__version__": "core._version:__version__",
    "clear_caches": "engine.programs:clear_caches",
    "compare": "study.compare:compare",
    "designs": "maths.designs",
    "divergences": "maths.divergences",
    "every_round": "combinators:every_round",
    "families": "environments.families",
    "from_python": "study.in_python:from_python",
    "generators": "core.generators",
    "gram": "learners.parts.gram",
    "keep_compiled": "engine.settings:keep_compiled",
    "loss_families": "environments.loss_families",
    "open": "study.kept:open",
    "prefix_sums": "learners.parts.prefix_sums",
    "simulate": "study.simulate:simulate",
    "simulate_batches": "study.simulate:simulate_batches",
    "stopping": "learners.stopping",
    "sweep": "study.sweep:sweep",
    "trajectory": "study.simulate:trajectory",
    "worst_case": "study.worst_case:worst_case",
}


def __getattr__(name):
    """Import a public name when it is first used, so that ``dpjax --help`` loads no library."""
    if name not in __all__ and name not in _PLACES:
        raise AttributeError(f"module 'dpjax' has no attribute {name!r}")
    place = _PLACES.get(name, f"core:{name}" if name[0].isupper() else name)
    module, _, member = place.partition(":")
    found = import_module(f"dpjax.{module}")
    return getattr(found, member) if member else found


def __dir__():
    return [*globals(), *__all__]
