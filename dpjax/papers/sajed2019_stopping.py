"""The stopping rule in DP-SE: its stopping times, and its cost on pairs of arms."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
import xarray
from jax import random as jr

from dpjax import learners
from dpjax.learners import stopping
from dpjax.maths import exact_sums
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

SEED = 2019
QUERIES = ("every_round", "powers_of_two")
MEANS = (0.5, 0.2, 0.1)
STOPPING_EPSILONS = (0.1, 1.0, np.inf)
PAIR_EPSILONS = (0.1, 0.25, 0.5, 1.0)
ARM_COUNTS = (2, 5, 10)


def play_stopping(
    limit: int, trials: int, *, epsilons: Sequence[float] = STOPPING_EPSILONS
) -> xarray.Dataset:
    """Read values of +-1 until their mean is known to a relative error of 1/2.

    Returns:
      A Dataset along mean_value, epsilon, queries and trial: ``rounds``, the number of values read,
      and ``wrong``, whether the estimate had a larger error. The rule has a query in each round, or
      only at powers of two.
    """
    keys = jr.split(jr.key(SEED, impl="threefry2x32"), trials)

    def rule(key, probability, epsilon, queries):
        return stopping.private_mean(
            key, stopping.two_valued(probability), limit,
            epsilon=epsilon, accuracy=0.5, failure=0.05, queries=queries,
        )  # fmt: skip

    rules = {item: jax.jit(jax.vmap(partial(rule, queries=item), (0, None, None)))
             for item in QUERIES}  # fmt: skip

    def read(mean, epsilon, queries):
        stopped = rules[queries](keys, np.float32((1.0 + mean) / 2.0), np.float32(epsilon))
        return stopped.rounds, np.abs(np.asarray(stopped.mean) - mean) > 0.5 * mean

    further = {"what": ["rounds", "wrong"], "trial": range(trials)}
    stops = shared.labelled(read, further, mean_value=MEANS, epsilon=epsilons, queries=QUERIES)
    return stops.to_dataset("what")


def rule_on_pairs(
    horizon: int, trials: int, counts: Sequence[int] = ARM_COUNTS, *, gap: float = 0.25
) -> xarray.DataArray:
    """Rounds (arms, epsilon, trial) until the rule knows which of two arms is better.

    One arm has mean loss 0.25, the other has ``gap`` more. With K arms there are K (K - 1) / 2
    pairs: each has epsilon / K, and together they fail with probability at most 1 / T. The rule
    has queries at powers of two and stops when the sign of the difference is known.
    """
    better, worse = stopping.two_valued(0.75, 0.0), stopping.two_valued(0.75 - gap, 0.0)

    def difference(key, start, count):
        one, other = jr.split(key)
        smaller = exact_sums.negative(worse(other, start, count))
        return exact_sums.add(better(one, start, count), smaller)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None, None))
    def pair(key, epsilon, failure):
        return stopping.private_mean(
            key, difference, horizon,
            epsilon=epsilon, accuracy=1.0, failure=failure, queries="powers_of_two",
        ).rounds  # fmt: skip

    def read(arms, epsilon):
        failure = 2.0 / (horizon * arms * (arms - 1))
        return pair(
            jr.split(jr.key(SEED, impl="threefry2x32"), trials),
            np.float32(epsilon / arms),
            np.float32(failure),
        )

    return shared.labelled(read, {"trial": range(trials)}, arms=counts, epsilon=PAIR_EPSILONS)


def play_pairs(
    horizon: int, trials: int, counts: Sequence[int] = ARM_COUNTS, *, gap: float = 0.25
) -> xarray.Dataset:
    """The number of pulls before a suboptimal arm is eliminated, by the rule on pairs and by DP-SE.

    DP-SE's pulls are its regret divided by the sum of the gaps. It too fails with probability at
    most 1 / T.
    """

    def one_better(arms):
        means = np.full(arms, 0.25 + gap, np.float32)
        means[0] = 0.25
        return shared.bernoulli(means)

    grid = {"horizon": horizon, "arms": list(counts), "epsilon": list(PAIR_EPSILONS)}
    study = Study(learners.successive_elimination, one_better, grid, trials, SEED, checkpoints=1)
    final = play(study).final_regret.squeeze(["learner", "environment"]).reset_coords(drop=True)
    sums = np.float32(gap) * (final.arms - 1).astype(np.float32)
    kinds = xarray.Variable("kind", ["pairwise", "epochs"])
    pulls = xarray.concat([rule_on_pairs(horizon, trials, counts, gap=gap), final / sums], kinds)
    return pulls.assign_coords(kind=kinds).to_dataset(name="pulls")


def stopping_table(data: xarray.Dataset) -> list[dict]:
    """Stopping times with both kinds of queries, and their ratio."""
    cells = _side_by_side(data.rounds, "queries")
    cells["wrong"] = data.wrong.mean(["queries", "trial"])
    return shared.table(
        cells, "mean_value epsilon",
        "mean epsilon every_round every_round_error powers_of_two powers_of_two_error ratio wrong "
        "trials",
        lambda row: {"ratio": row["powers_of_two"] / row["every_round"]}, mean="mean_value",
    )  # fmt: skip


def pairs_table(data: xarray.Dataset) -> list[dict]:
    """Pulls of a suboptimal arm by the rule on pairs and by DP-SE, and their ratio."""
    names = "arms epsilon pairwise pairwise_error epochs epochs_error ratio trials"
    return shared.table(_side_by_side(data.pulls, "kind"), "arms epsilon", names,
                        lambda row: {"ratio": row["pairwise"] / row["epochs"]})  # fmt: skip


def _side_by_side(array, axis) -> xarray.Dataset:
    """The mean and its standard error at each value of an axis, as variables of its name."""
    estimate = estimates.mean(array)
    errors = estimate.standard_error.to_dataset(axis)
    errors = errors.rename({name: f"{name}_error" for name in errors})
    return estimate["mean"].to_dataset(axis).assign(errors).assign_attrs(estimate.attrs)
