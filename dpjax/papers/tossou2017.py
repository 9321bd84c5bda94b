"""Tossou & Dimitrakakis 2017, "Achieving privacy in the adversarial multi-armed bandit".

The paper's experiment plays EXP3, DP-EXP3-Lap and EXP3_tau against five adversaries, at the privacy
level of its corollary. This module also plays levels that the paper's figures leave out.

Formulas are masked in the text that we could read. Horizon, arms, trials, groups and constants
are reconstructed; they agree with each other and with everything that the text states.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import xarray

from dpjax import bounds, environments
from dpjax.combinators import count_switches
from dpjax.learners import dp_exp3_lap, exp3, exp3_minibatch
from dpjax.learners._exp3_minibatch import derived_tau, printed_epsilon, switching_cost_tau
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.report import arrays, estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 2**18, 2**14
TRIALS, QUICK_TRIALS = 720, 120
GROUPS = 24
ARMS = 4
EPSILONS = (10.0, 1.0, 0.1)
SEED = 2017

MEANS = (0.45, *(ARMS - 1) * (0.5,))
ADVERSARIES: dict[str, Callable] = {
    "deterministic": lambda: count_switches(environments.deterministic(ARMS)),
    "stochastic": lambda: count_switches(environments.bernoulli(MEANS)),
    "fully oblivious": lambda: count_switches(environments.fully_oblivious(ARMS)),
    "oblivious": lambda: count_switches(environments.oblivious(ARMS, 200)),
    "switching cost": lambda horizon: count_switches(environments.switching_cost(horizon, ARMS)),
}
QUICK_ADVERSARIES = ("deterministic", "switching cost")


class Levels(NamedTuple):
    """Privacy levels of the experiment."""

    paper: float  # the corollary's: 28 K ln K + sqrt(112 K ln K ln T), as reconstructed
    accounted: float  # our privacy accounting of the same EXP3_tau at delta = T^-2
    tau: int  # the corollary's batch, rounded up
    taus: tuple[int, ...]  # the batches of EPSILONS


@cache
def levels(horizon: int) -> Levels:
    """The paper's level, our accounting of its EXP3_tau, and the batches of our own levels."""
    delta = default_delta(horizon)
    exact = switching_cost_tau(horizon, ARMS)
    tau = int(np.ceil(exact))
    accounted = exp3_minibatch(horizon, ARMS, tau=tau).privacy.epsilon
    taus = tuple(int(np.ceil(derived_tau(horizon, epsilon, delta))) for epsilon in EPSILONS)
    return Levels(float(printed_epsilon(horizon, exact, delta)), float(accounted), tau, taus)


def play_levels(
    horizon: int = HORIZON, trials: int = TRIALS, adversaries: Sequence[str] = tuple(ADVERSARIES)
) -> xarray.Dataset:
    """Play all learners at all levels against some adversaries, with paired trials.

    Returns:
      The data of a study, with an axis epsilon of levels. EXP3_tau is at the level to which its
      batch length ``tau`` corresponds; EXP3 is at infinity.
    """
    shown, against = levels(horizon), {name: ADVERSARIES[name] for name in adversaries}
    taus = [1, shown.tau, *shown.taus]
    epsilons = [np.inf, shown.paper, shown.accounted, *EPSILONS]

    def study(learners, **axis):
        grid = {"horizon": horizon, "arms": ARMS, **axis}
        return Study(learners, against, grid, trials, SEED, checkpoints=100)

    # EXP3_tau with tau = 1 is EXP3: one program for both.
    central = play(study({"EXP3_tau": exp3_minibatch}, tau=np.unique(taus) * 1.0))
    local = play(study({"DP-EXP3-Lap": dp_exp3_lap}, epsilon=epsilons[1:]))
    central = central.sel(tau=np.array(taus, float)).rename(tau="epsilon").drop_vars("takes_tau")
    central = central.assign_coords(
        epsilon=[np.inf, *epsilons[2:]], tau=("epsilon", taus),
        level=("epsilon", ["", "paper", "", "", ""]),
    )  # fmt: skip
    local = local.sel(epsilon=epsilons[1:]).drop_vars("takes_epsilon")
    local = local.assign_coords(level=("epsilon", ["paper", "accounted", "", "", ""]))
    exp3 = central.isel(epsilon=[0]).assign_coords(learner=["EXP3"]).drop_vars("tau")
    parts = [exp3, local, central.isel(epsilon=slice(1, None))]
    data = xarray.concat(parts, "learner", join="outer", coords="different", compat="equals")
    return data.sel(epsilon=epsilons)


def play_memory(horizon: int = HORIZON, trials: int = QUICK_TRIALS) -> xarray.Dataset:
    """Play EXP3 and EXP3_tau against adversaries with memory m = 0, 1, 2, 4, ... < tau."""
    tau = levels(horizon).tau
    memories = [0.0, *(2.0**i for i in range(31) if 2**i < tau)]
    grid = {"horizon": horizon, "arms": ARMS, "tau": [1.0, float(tau)], "memory": memories}
    adversary = {"memory": lambda memory: environments.memory(list(MEANS), rounds=memory)}
    study = Study({"EXP3_tau": exp3_minibatch}, adversary, grid, trials, SEED, checkpoints=1)
    return play(study).squeeze(["learner", "environment"])


def gini(trials: np.ndarray) -> float:
    """Gini's mean difference: the mean of |x - x'| over all pairs of trials; 0 for a single one."""
    n = len(trials)
    weights = 2.0 * np.arange(1, n + 1) - n - 1
    return weights @ np.sort(trials) * 2.0 / (n * (n - 1)) if n > 1 else 0.0


def spread(array: xarray.DataArray) -> xarray.Dataset:
    """The median of means, with Gini's mean difference of the trials below it and above it.

    These are the error bars of the paper, no confidence intervals. A trial at the centre counts on
    both sides.
    """

    def sides(trials):
        # If some trials do not count, sizes of groups differ by one, and no group is empty.
        groups = min(GROUPS, len(trials))
        sizes = len(trials) // groups + (np.arange(groups) < len(trials) % groups)
        centre = np.median(np.add.reduceat(trials, np.cumsum(sizes) - sizes) / sizes)
        return centre, gini(trials[trials <= centre]), gini(trials[trials >= centre])

    def of_trials(array):
        centre, below, above = xarray.apply_ufunc(
            sides,
            arrays.bare(array),
            input_core_dims=[["trial"]],
            output_core_dims=[[], [], []],
            vectorize=True,
        )
        return xarray.Dataset({"centre": centre, "gini_below": below, "gini_above": above,
                               "low": centre - below, "high": centre + above})  # fmt: skip

    text = f"median of means over {GROUPS} groups, with Gini's mean differences below and above"
    estimate = arrays.by_trials(array, of_trials)
    return estimate.assign_attrs(estimate=text, trials=array.sizes["trial"])


def table(data: xarray.Dataset) -> list[dict]:
    """Final regret with its spread, switches and bounds, one row for each level of a learner."""
    mean = estimates.mean(data.final_regret)
    cells = spread(data.final_regret).assign(
        mean=mean["mean"], standard_error=mean.standard_error,
        switches=data.tally_switches.astype(float).mean("trial"),
    )  # fmt: skip

    def more(row):
        played = row["learner"], row["horizon"], row["epsilon"], row["batch"]
        bound, printed = _bounds(row["adversary"], *played)
        return {"printed_epsilon": _as_printed(*played), "bound": bound, "printed_bound": printed,
                "tau": int(row["batch"]) if row["learner"] == "EXP3_tau" else None}  # fmt: skip

    # The epsilon is the declared one.
    return shared.table(
        cells, "environment learner epsilon",
        "adversary learner level model epsilon delta printed_epsilon tau regret gini_below "
        "gini_above mean standard_error switches bound printed_bound trials",
        more, adversary="environment", model="privacy_model", delta="privacy_delta",
        epsilon="privacy_epsilon", regret="centre", batch="tau",
    )  # fmt: skip


def _as_printed(learner, horizon, epsilon, tau) -> float:
    """The epsilon that the paper's theorem declares for the same algorithm."""
    if learner == "DP-EXP3-Lap":
        return epsilon
    if learner == "EXP3":
        return float(exp3(horizon, ARMS, calibration="printed").privacy.paper_epsilon)
    return float(printed_epsilon(horizon, tau, default_delta(horizon)))


def _bounds(adversary, learner, horizon, epsilon, tau):
    """The paper's bound in its full form and as printed, if it covers the adversary."""
    if learner == "EXP3_tau":
        memory = 1 if adversary == "switching cost" else 0
        return float(bounds.exp3_minibatch(horizon, ARMS, tau, memory)), None
    if adversary == "switching cost":
        return None, None
    if learner == "EXP3":
        return float(bounds.exp3(horizon, ARMS)), None
    printed = float(bounds.dp_exp3_lap_printed(horizon, ARMS, epsilon))
    return float(bounds.dp_exp3_lap(horizon, ARMS, epsilon)), printed


def memory_table(data: xarray.Dataset) -> list[dict]:
    """Final policy regret and the bound of the mini-batch theorem, one row per memory."""

    def more(row):
        tau, memory = int(row["batch"]), int(row["m"])
        bound = float(bounds.exp3_minibatch(row["horizon"], ARMS, tau, memory))
        learner = "EXP3" if tau == 1 else "EXP3_tau"
        return {"learner": learner, "tau": tau, "memory": memory, "bound": bound}

    names = "learner tau memory mean standard_error bound trials"
    return shared.table(estimates.mean(data.final_regret), "tau memory", names, more,
                        batch="tau", m="memory")  # fmt: skip


def figure(data: xarray.Dataset):
    """Regret against the round, a panel for each adversary."""
    shown = levels(int(data.horizon))

    def drawn(array):
        # Only the paper's three curves have bands, so that all bands can be seen.
        estimate, banded = spread(array), (array.level == "paper") | (array.learner == "EXP3")
        return estimate.assign(low=estimate.low.where(banded), high=estimate.high.where(banded))

    return data.dpjax.figure(
        "round", color="epsilon", line="learner", panel="environment", estimate=drawn,
        share_y=False,
        note=f"At the paper's own level, epsilon = {shown.paper:.0f}, privacy looks free, but so "
        "large an epsilon means hardly any privacy. Composition by zCDP at delta = T^-2 shows that "
        f"the same EXP3_tau (tau = {shown.tau}) has epsilon = {shown.accounted:.1f}. The local "
        "model is stronger than the central one. With switching costs, regret is policy regret; "
        "EXP3_tau at epsilon = 1 and 0.1 has almost none. Only the paper's three curves have "
        "bands, so that all bands can be seen. Constants as reconstructed; calibrations as we read "
        "them.",
    )  # fmt: skip


def memory_figure(data: xarray.Dataset):
    """Policy regret against the adversary's memory, and the theorem's bound."""
    tau = int(data.tau[-1])
    bound = shared.labelled(partial(bounds.exp3_minibatch, int(data.horizon), ARMS, tau),
                            memory=data.memory.values)  # fmt: skip
    return shared.figure(
        data, "memory", [(bound, {"label": f"bound for tau = {tau}"})], log=False, color="tau",
        note="Policy regret: an arm pays off only after m rounds in a row on it. EXP3 is "
        "EXP3_tau with tau = 1.",
    )  # fmt: skip


@shared.published(HORIZON, TRIALS, SEED, multiple=GROUPS)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play all levels against five adversaries, and EXP3_tau against adversaries with memory.

    The table and the figure "" are for the five adversaries, "_memory" for adversaries with memory.
    A short run plays two of the five. The number of trials is a multiple of 24.
    """
    data = play_levels(horizon, trials, QUICK_ADVERSARIES if short else tuple(ADVERSARIES))
    constants = {"arms": ARMS, "groups": GROUPS, **levels(horizon)._asdict()}
    yield shared.Report({"": table(data)}, {"": partial(figure, data)}, constants)
    memory = play_memory(horizon, min(trials, QUICK_TRIALS))
    yield shared.Report({"_memory": memory_table(memory)},
                        {"_memory": partial(memory_figure, memory)})  # fmt: skip
