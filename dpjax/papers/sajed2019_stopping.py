"""The stopping rule that DP-SE is made of: how long it reads, and its cost on pairs of arms."""

from functools import partial

import jax
import numpy as np
import xarray
from jax import random as jr

from dpjax import environments, learners
from dpjax.learners import stopping
from dpjax.maths import exact_sums
from dpjax.papers._shared import logarithmic
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.report.plot import ticks_at
from dpjax.report.tables import columns, rows
from dpjax.study import Study

SEED = 2019
QUERIES = ("every_round", "powers_of_two")
MEANS = (0.5, 0.2, 0.1)
STOPPING_EPSILONS = (0.1, 1.0, np.inf)
PAIR_EPSILONS = (0.1, 0.25, 0.5, 1.0)
ARM_COUNTS, QUICK_ARM_COUNTS = (2, 5, 10), (2, 5)


def play_stopping(limit, trials, *, epsilons=STOPPING_EPSILONS) -> xarray.Dataset:
    """Reads values of +-1 until their mean is known to a relative error of 1/2.

    Returns:
      A Dataset along mean_value, epsilon, queries and trial: ``rounds`` that were read, and
      ``wrong``, whether the estimate had a larger error. The rule has a query each round, or
      queries at powers of two only.
    """
    axes = {"mean_value": list(MEANS), "epsilon": list(epsilons), "queries": list(QUERIES)}
    sizes = tuple(map(len, axes.values()))
    read, wrong = np.zeros((*sizes, trials)), np.zeros((*sizes, trials), bool)
    keys = jr.split(jr.key(SEED), trials)

    def rule(key, probability, epsilon, queries):
        return stopping.private_mean(
            key, stopping.two_valued(probability), limit,
            epsilon=epsilon, accuracy=0.5, failure=0.05, queries=queries,
        )  # fmt: skip

    for k, queries in enumerate(QUERIES):
        each = jax.jit(jax.vmap(partial(rule, queries=queries), (0, None, None)))
        for i, j in np.ndindex(sizes[:2]):
            stopped = each(keys, np.float32((1.0 + MEANS[i]) / 2.0), np.float32(epsilons[j]))
            read[i, j, k] = stopped.rounds
            wrong[i, j, k] = np.abs(np.asarray(stopped.mean) - MEANS[i]) > 0.5 * MEANS[i]
    dims = [*axes, "trial"]
    return xarray.Dataset({"rounds": (dims, read), "wrong": (dims, wrong)}, axes)


def rule_on_pairs(horizon, trials, counts=ARM_COUNTS, *, gap=0.25) -> xarray.DataArray:
    """Rounds (arms, epsilon, trial) until the rule knows which of two arms is better.

    One arm has mean loss 0.25, the other has ``gap`` more. With K arms there are K (K - 1) / 2
    pairs: each has epsilon / K, and together they fail with probability at most 1 / T. The rule
    looks at powers of two, and stops when the sign of the difference is known.
    """
    better, worse = stopping.two_valued(0.75, 0.0), stopping.two_valued(0.75 - gap, 0.0)

    def difference(key, start, count):
        one, other = jr.split(key)
        smaller = exact_sums.negative(worse(other, start, count))
        return exact_sums.add(better(one, start, count), smaller)

    def pair(key, epsilon, failure):
        return stopping.private_mean(
            key, difference, horizon,
            epsilon=epsilon, accuracy=1.0, failure=failure, queries="powers_of_two",
        ).rounds  # fmt: skip

    cases = [(arms, epsilon) for arms in counts for epsilon in PAIR_EPSILONS]
    epsilons = np.array([epsilon / arms for arms, epsilon in cases], np.float32)
    failures = np.array([2.0 / (horizon * k * (k - 1)) for k, _ in cases], np.float32)
    each = jax.jit(jax.vmap(jax.vmap(pair, (0, None, None)), (None, 0, 0)))
    rounds = np.asarray(each(jr.split(jr.key(SEED), trials), epsilons, failures))
    axes = {"arms": list(counts), "epsilon": list(PAIR_EPSILONS), "trial": np.arange(trials)}
    shape = len(counts), len(PAIR_EPSILONS), trials
    return xarray.DataArray(rounds.reshape(shape), axes)


def play_pairs(horizon, trials, counts=ARM_COUNTS, *, gap=0.25, progress=True) -> xarray.Dataset:
    """How often a suboptimal arm is pulled until it is given up: by the rule on pairs, by DP-SE.

    DP-SE's pulls are its regret over the sum of the gaps. It too fails with probability at most
    1 / T.
    """

    def one_better(arms):
        means = np.full(arms, 0.25 + gap, np.float32)
        means[0] = 0.25
        return environments.bernoulli(means, regret="pseudo")

    grid = {"horizon": horizon, "arms": list(counts), "epsilon": list(PAIR_EPSILONS)}
    study = Study(learners.successive_elimination, one_better, grid, trials, SEED, checkpoints=1)
    final = play(study, progress).final_regret.squeeze(["learner", "environment"], drop=True)
    sums = xarray.DataArray(np.float32(gap * (np.array(counts) - 1)), dims="arms")
    kinds = xarray.Variable("kind", ["pairwise", "epochs"])
    pulls = [rule_on_pairs(horizon, trials, counts, gap=gap), final.reset_coords(drop=True) / sums]
    return xarray.concat(pulls, kinds).assign_coords(kind=kinds).to_dataset(name="pulls")


def stopping_table(data) -> list[dict]:
    """Stopping times with both kinds of queries, and their ratio."""
    cells = _side_by_side(data.rounds, "queries")
    cells["ratio"] = cells.powers_of_two / cells.every_round
    cells["wrong"] = data.wrong.mean(["queries", "trial"])
    found = [
        row | {"trials": data.sizes["trial"]}
        for row in rows(cells, ("mean_value", "epsilon"), mean="mean_value")
    ]
    return columns(
        found, "mean epsilon every_round every_round_error powers_of_two powers_of_two_error "
        "ratio wrong trials",
    )  # fmt: skip


def pairs_table(data) -> list[dict]:
    """Pulls of a suboptimal arm by the rule on pairs and by DP-SE, and their ratio."""
    cells = _side_by_side(data.pulls, "kind")
    cells["ratio"] = cells.pairwise / cells.epochs
    found = [row | {"trials": data.sizes["trial"]} for row in rows(cells, ("arms", "epsilon"))]
    return columns(found, "arms epsilon pairwise pairwise_error epochs epochs_error ratio trials")


def _side_by_side(array, axis) -> xarray.Dataset:
    """The mean and its standard error at each value of an axis, as variables of its name."""
    found, cells = estimates.mean(array), xarray.Dataset()
    for name in array[axis].values.tolist():
        one = found.sel({axis: name}, drop=True)
        cells[name], cells[f"{name}_error"] = one["mean"], one.standard_error
    return cells


def stopping_figure(data):
    """Stopping times against the mean, by kind of query."""
    drawn = data.sortby("mean_value").dpjax.figure(
        "mean_value", color="epsilon", line="queries", y="rounds",
        note="DP-NAS, stopped at a relative error of 1/2.",
    )  # fmt: skip
    logarithmic(drawn)
    ticks_at(drawn.axes[0].xaxis, data.mean_value.values)
    return drawn


def pairs_figure(data):
    """Pulls until an arm is given up, by the rule on every pair or by epochs."""
    drawn = data.dpjax.figure(
        "epsilon", color="arms", line="kind", y="pulls",
        note="Pulls until an arm of gap 1/4 is given up: by the rule on every pair, and by the "
        "epochs of DP-SE.",
    )  # fmt: skip
    logarithmic(drawn)
    ticks_at(drawn.axes[0].xaxis, data.epsilon.values)
    return drawn
