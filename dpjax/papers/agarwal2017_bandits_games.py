"""Agarwal & Singh 2017, section 4: the learners over arms and over the ball, and their games."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import xarray

from dpjax import domains, environments, learners
from dpjax.game.play import simulate
from dpjax.papers.sweeps import play
from dpjax.study import Study

EPSILONS = (*(10.0 ** np.arange(-3.0, 2.01, 0.5)), np.inf)
# The epsilons of the curves against T and N.
FEW_EPSILONS = (0.1, 1.0, 10.0, np.inf)
SIZE = 8  # K arms, or N dimensions
# The advantage of the best arm (gap) or direction (bias). The theorems bound the worst case, which
# depends on T, N and epsilon: the worst of these values is shown.
GAPS = (0.02, 0.05, 0.1, 0.2, 0.4)
BIASES = (0.1, 0.3, 1.0, 3.0)
SEED = 2017

ball = cache(domains.ball)


def _over_arms(factory, **options) -> Callable:
    return lambda horizon, size, epsilon: factory(horizon, size, epsilon=epsilon, **options)


def _over_ball(**options) -> Callable:
    return lambda horizon, size, epsilon: learners.scrible(
        horizon, ball(size), epsilon=epsilon, **options
    )


CONTENDERS: dict[str, dict[str, Callable]] = {
    "arms": {
        "DP-EXP2": _over_arms(learners.exp2),
        "DP-EXP2, printed": _over_arms(learners.exp2, calibration="printed"),
        "DP-EXP3-Lap": _over_arms(learners.dp_exp3_lap),
        "batches, HTINF": _over_arms(learners.batched_bandit),
        "batches, EXP2": _over_arms(learners.batched_bandit, base="exp2"),
        "Tsallis-INF": lambda horizon, size: learners.tsallis_inf(horizon, size),
    },
    "ball": {
        "SCRiBLE, scalar noise": _over_ball(),
        "SCRiBLE, vector noise": _over_ball(noise="vector"),
        "SCRiBLE, vector noise, printed": _over_ball(noise="vector", calibration="printed"),
    },
}


def _arms(size, difficulty):
    means = 0.5 + difficulty * np.where(np.arange(size) == 0, -0.5, 0.5).astype(np.float32)
    return environments.bernoulli(means, regret="pseudo")


def _ball(size, difficulty):
    return environments.linear_losses(ball(size), "iid", bias=difficulty)


def contest(contenders: Mapping[str, Mapping[str, Callable]], epsilons: Sequence[float],
            horizons: Sequence[int], sizes: Sequence[int], trials: int) -> Study:  # fmt: skip
    """Learners at all difficulties; the environment is "arms" or "ball"."""

    def study(name, environment, difficulties):
        grid = {"horizon": horizons, "size": sizes, "epsilon": epsilons, "difficulty": difficulties}
        return Study(contenders[name], {name: environment}, grid, trials, SEED, 1, simulate)

    return study("arms", _arms, GAPS) + study("ball", _ball, BIASES)


def play_contest(contenders: Mapping[str, Mapping[str, Callable]], epsilons: Sequence[float],
                 horizon: int, trials: int) -> xarray.Dataset:  # fmt: skip
    """Play learners over epsilon, with SIZE.

    Returns:
      The data, with ``nothing``, the mean regret of playing arms uniformly or the centre of the
      ball.
    """
    return _with_nothing(play(contest(contenders, epsilons, [horizon], [SIZE], trials)))


def play_few(contenders: Mapping[str, Mapping[str, Callable]], horizon: int,
             horizons: Sequence[int], sizes: Sequence[int],
             trials: int) -> xarray.Dataset:  # fmt: skip
    """Play learners at a few epsilons over horizons with SIZE, and over sizes at one horizon.

    Returns:
      As :func:`play_contest`.
    """
    others = [size for size in sizes if size != SIZE]
    few = contest(contenders, FEW_EPSILONS, horizons, [SIZE], trials)
    return _with_nothing(play(few + contest(contenders, FEW_EPSILONS, [horizon], others, trials)))


def _with_nothing(data) -> xarray.Dataset:
    """The data in float64, with ``nothing``, the mean regret if nothing is learned."""
    regret = data.final_regret.astype(np.float64)
    uniform = data.horizon * data.difficulty * (1.0 - 1.0 / data["size"])
    # The centre of the ball has loss 0, so its regret is the norm of the summed losses.
    centre = lengths(data).isel(epsilon=0).mean("trial")
    nothing = xarray.where(data.environment == "arms", uniform, centre)
    played = regret.isel(epsilon=0, trial=0, drop=True).notnull()
    return data.assign(final_regret=regret, nothing=nothing.where(played))


def lengths(data: xarray.Dataset):
    """The norm of the summed losses of each trial."""
    return np.sqrt((data.tally_loss.astype(np.float64) ** 2).sum("tally_loss_0"))


def play_adversaries(
    scribles: Mapping[str, Callable], kinds: Sequence[str], horizon: int, trials: int
) -> xarray.Dataset:
    """Play SCRiBLE against losses whose best point moves, or that react to its actions."""

    def against(kind):
        return lambda horizon, size: environments.linear_losses(
            ball(size), kind, bias=1.0, period=max(horizon // 8, 1)
        )

    grid = {"horizon": horizon, "size": SIZE, "epsilon": (1.0, 10.0, np.inf)}
    adversaries = {kind: against(kind) for kind in kinds}
    return play(Study(scribles, adversaries, grid, trials, SEED, checkpoints=1))
