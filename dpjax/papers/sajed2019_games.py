"""Sajed & Sheffet 2019: the instances, learners and studies of the experiment."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray

from dpjax import environments, learners
from dpjax.papers._shared import log_checkpoints
from dpjax.papers.sweeps import play
from dpjax.study import Study

EPSILONS = (0.1, 0.25, 0.5, 1.0)
# The figure against epsilon adds two decades on each side of the paper's range.
MORE_EPSILONS = tuple(10.0 ** np.arange(-3.0, 2.01, 0.25))
MORE_ROUND_EPSILONS = (0.03, 3.0, 10.0, 30.0)
SEED = 2019
ARMS = 5
HORIZONS = tuple(10**k for k in range(4, 10))
HORIZON_EPSILONS = (0.1, 1.0)
HORIZON_INSTANCE = "C2"

# These are mean rewards, as later papers print them; a loss is 1 - reward.
REWARDS = {
    "C1": (0.75, 0.70, 0.70, 0.70, 0.70),
    "C2": (0.75, 0.625, 0.5, 0.375, 0.25),
    "C3": (0.75, 0.53125, 0.375, 0.28125, 0.25),
    "C4": (0.75, 0.71875, 0.625, 0.46875, 0.25),
}
BY_BATCHES: dict[str, Callable] = {
    "DP-SE": learners.successive_elimination,
    "AdaP-UCB": learners.adap_ucb,
    "AdaP-KLUCB": learners.adap_klucb,
    # DP-KLUCB weighs ln t by 1; AdaP-KLUCB by 3.1, because its analysis needs more than 3.
    "AdaP-KLUCB, constant 1": partial(learners.adap_klucb, exploration=1.0),
    "DP-KLUCB": learners.dp_klucb,
    "DP-IMED": learners.dp_imed,
}
QUICK_BATCHES = ("DP-SE", "AdaP-KLUCB", "DP-IMED")
BY_ROUNDS: dict[str, Callable] = {
    "DP-UCB": learners.dp_ucb,
    "DP-UCB, split": partial(learners.dp_ucb, split="paper"),
    "DP-UCB-Bound": learners.dp_ucb_bound,
    "DP-UCB-Int": learners.dp_ucb_int,
    "DP-UCB-Int, printed": partial(learners.dp_ucb_int, calibration="printed"),
    "Lazy-UCB": learners.lazy_ucb,
    "Lazy-DP-TS": learners.lazy_thompson,
}
NOT_PRIVATE: dict[str, Callable] = {
    "UCB1": learners.ucb1,
    "KL-UCB": learners.kl_ucb,
    "Thompson": learners.thompson,
}


def means(instance: str) -> np.ndarray:
    """Mean losses of the arms, (5,)."""
    return 1.0 - np.array(REWARDS[instance])


def study(learners: Mapping[str, Callable], horizon: int | Sequence[int], trials: int,
          checkpoints: int | Sequence[int], instances: Sequence[str] = tuple(REWARDS),
          **axes: Any) -> Study:  # fmt: skip
    """The study of learners on some of the instances."""
    losses = {name: means(name) for name in instances}
    grid = {"horizon": horizon, "arms": ARMS, "means": losses, **axes}
    environment = {"Bernoulli": lambda means: environments.bernoulli(means, regret="pseudo")}
    return Study(learners, environment, grid, trials, SEED, checkpoints)


def _play(study) -> xarray.Dataset:
    return play(study).squeeze("environment").rename(means="instance")


def by_batches(short: bool) -> dict:
    """The learners with batches of a run; three in a short run, because each is compiled."""
    return {name: BY_BATCHES[name] for name in BY_BATCHES if name in QUICK_BATCHES or not short}


def instances(short: bool) -> tuple:
    """The instances of a run; two in a short run."""
    return tuple(REWARDS)[: 2 if short else None]


def epsilons(short: bool) -> tuple:
    """The paper's epsilons in a run; two in a short run."""
    return EPSILONS[::3] if short else EPSILONS


def play_batches(horizon: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play learners with batches on instances, at all epsilons and without privacy."""
    more = () if short else MORE_EPSILONS
    grid = {"epsilon": [*sorted({*epsilons(short), *more}), np.inf]}
    shown = log_checkpoints(horizon, 80)
    return _play(study(by_batches(short), horizon, trials, shown, instances(short), **grid))


def rounds_study(horizon: int, trials: int, short: bool = False) -> Study:
    """All other learners round by round, at the paper's epsilons, and at a few more on C2."""
    on = partial(study, horizon=horizon, trials=trials, checkpoints=log_checkpoints(horizon, 80),
                   instances=instances(short))  # fmt: skip
    more = [*MORE_ROUND_EPSILONS, np.inf]
    private = on(BY_ROUNDS, epsilon=epsilons(short))
    private += on(BY_ROUNDS, instances=[HORIZON_INSTANCE], epsilon=more)
    return private + on(NOT_PRIVATE)


def play_rounds(horizon: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play the :func:`rounds_study`."""
    return _play(rounds_study(horizon, trials, short))


def play_horizons(longest: int, trials: int, short: bool = False) -> xarray.Dataset:
    """Play instance C2 at each power of ten up to the longest horizon.

    DP-SE is tuned to its horizon, so each horizon is a separate game. The others do not know the
    horizon, so one long game contains all shorter ones.
    """
    horizons = tuple(h for h in HORIZONS if h <= longest)
    where, epsilons = [HORIZON_INSTANCE], HORIZON_EPSILONS
    others = by_batches(short)
    tuned = {"DP-SE": others.pop("DP-SE")}
    separate = _play(study(tuned, horizons, trials, 1, where, epsilon=epsilons))
    once = _play(study(others, horizons[-1], trials, horizons, where, epsilon=epsilons))
    regrets = [
        separate.final_regret.drop_vars("takes_horizon"),
        once.regret.drop_vars("horizon").rename(round="horizon"),
    ]
    return xarray.concat(regrets, "learner").to_dataset(name="final_regret")
