"""A simulator of differentially private online learning and bandits in JAX.

- ``Study`` plays learners and environments on a grid, ``simulate`` plays one game, and ``sweep``
  plays a game at many points. ``open`` reads a stored study or sweep.
- ``learners``, ``environments``, ``domains``, ``mechanisms`` and ``combinators`` make the parts of
  a game. ``Learner`` and ``Environment`` are the types of your own parts.
- ``privacy``, ``noise`` and ``audit`` calibrate, release and test. ``bounds`` has regret bounds.

``dir(dpjax)`` lists all names, and ``help(dpjax.Study)`` describes one of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpjax import audit as audit
    from dpjax import bounds as bounds
    from dpjax import combinators as combinators
    from dpjax import core as core
    from dpjax import domains as domains
    from dpjax import environments as environments
    from dpjax import feedback as feedback
    from dpjax import learners as learners
    from dpjax import mechanisms as mechanisms
    from dpjax import noise as noise
    from dpjax import papers as papers
    from dpjax import privacy as privacy
    from dpjax import report as report
    from dpjax import store as store
    from dpjax import study as study
    from dpjax.combinators import every_round as every_round
    from dpjax.core import Batch as Batch
    from dpjax.core import BatchLearner as BatchLearner
    from dpjax.core import Environment as Environment
    from dpjax.core import Feedback as Feedback
    from dpjax.core import Learner as Learner
    from dpjax.core import Mechanism as Mechanism
    from dpjax.core import Outcome as Outcome
    from dpjax.core import Privacy as Privacy
    from dpjax.core import Result as Result
    from dpjax.core import Stream as Stream
    from dpjax.core import generators as generators
    from dpjax.core._version import __version__ as __version__
    from dpjax.engine.programs import clear_caches as clear_caches
    from dpjax.engine.settings import keep_compiled as keep_compiled
    from dpjax.environments import families as families
    from dpjax.environments import loss_families as loss_families
    from dpjax.game.batches import simulate_batches as simulate_batches
    from dpjax.game.play import simulate as simulate
    from dpjax.game.play import trajectory as trajectory
    from dpjax.learners import stopping as stopping
    from dpjax.learners.parts import gram as gram
    from dpjax.learners.parts import prefix_sums as prefix_sums
    from dpjax.maths import designs as designs
    from dpjax.maths import divergences as divergences
    from dpjax.study import Study as Study
    from dpjax.study.compare import compare as compare
    from dpjax.study.in_python import from_python as from_python
    from dpjax.study.kept import open as open
    from dpjax.study.sweep import sweep as sweep
    from dpjax.study.worst_case import worst_case as worst_case

_TYPES = (
    "Batch", "BatchLearner", "Environment", "Feedback", "Learner", "Mechanism", "Outcome",
    "Privacy", "Result", "Stream",
)  # fmt: skip
_MODULES = (
    "audit", "bounds", "combinators", "core", "domains", "environments", "feedback", "learners",
    "mechanisms", "noise", "papers", "privacy", "report", "store", "study",
)  # fmt: skip
# The module that a public name is or, before a colon, the module whose member it is.
_PLACES = {
    **{name: f"core:{name}" for name in _TYPES},
    **{name: name for name in _MODULES},
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
    "simulate": "game.play:simulate",
    "simulate_batches": "game.batches:simulate_batches",
    "stopping": "learners.stopping",
    "sweep": "study.sweep:sweep",
    "trajectory": "game.play:trajectory",
    "worst_case": "study.worst_case:worst_case",
}


def __getattr__(name):
    """Import a public name when it is first used, so that ``dpjax --help`` loads no library."""
    if name not in _PLACES:
        raise AttributeError(f"module 'dpjax' has no attribute {name!r}")
    module, _, member = _PLACES[name].partition(":")
    found = import_module(f"dpjax.{module}")
    return getattr(found, member) if member else found


def __dir__():
    return {*(name for name in globals() if name.startswith("__")), *_PLACES}
