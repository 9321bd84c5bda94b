"""dpjax: a simulator of differentially private online learning and bandits in JAX."""

from dpjax import (
    bounds,
    combinators,
    core,
    designs,
    divergences,
    domains,
    environments,
    generators,
    learners,
    losses,
    mechanisms,
    noise,
    noisy_oco,
    prefix_sums,
    privacy,
    statistics,
    stopping,
    store,
)
from dpjax.batches import every_round, simulate_batches
from dpjax.core import (
    Batch,
    BatchLearner,
    Environment,
    Learner,
    Mechanism,
    Outcome,
    Privacy,
    Result,
)
from dpjax.programs import clear_caches
from dpjax.simulate import simulate
from dpjax.sweep import sweep

__all__ = [
    "Batch",
    "BatchLearner",
    "Environment",
    "Learner",
    "Mechanism",
    "Outcome",
    "Privacy",
    "Result",
    "bounds",
    "clear_caches",
    "combinators",
    "core",
    "designs",
    "divergences",
    "domains",
    "environments",
    "every_round",
    "generators",
    "learners",
    "losses",
    "mechanisms",
    "noise",
    "noisy_oco",
    "prefix_sums",
    "privacy",
    "simulate",
    "simulate_batches",
    "statistics",
    "stopping",
    "store",
    "sweep",
]
__version__ = "0.1.0"
