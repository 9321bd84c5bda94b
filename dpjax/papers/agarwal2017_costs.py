"""What privacy costs in Agarwal & Singh 2017: where it is free, and fitted exponents."""

import numpy as np

from dpjax.papers._shared import exponent
from dpjax.report import arrays, statistics


def each(data):
    """(instance, learner, its data) for each learner that was played on an instance."""
    for instance in data.instance.values:
        for learner in data.learner.values:
            part = data.sel(instance=instance, learner=learner)
            if part.final_regret.notnull().any():
                yield instance, learner, part


def free_table(data) -> list[dict]:
    """The epsilon from which on privacy is free, one row per learner and instance."""
    found, trials = [], data.sizes["trial"]
    for instance, learner, part in each(data.squeeze(["horizon", "dim"])):
        regret, epsilons = part.final_regret.values, part.epsilon.values.astype(np.float32)

        def free(seeds, regret=regret, epsilons=epsilons):
            return statistics.free_epsilon(epsilons, regret[:, seeds])

        point, low, high = arrays.resampled(trials, free)
        found.append({"instance": instance, "learner": learner,
                      "delta": part.privacy_delta.values[0], "without_privacy": regret[-1].mean(),
                      "epsilon": point, "low": low, "high": high, "trials": trials})  # fmt: skip
    return found


def _usable(cost, nothing):
    """Where the mean cost is above 4 standard errors and below a third of the centre's regret."""
    mean = cost.mean(axis=1)
    return (mean > 4 * statistics.standard_error(cost, axis=1)) & (mean < nothing / 3)


def readable(costs, nothing) -> int:
    """The index of the epsilon at which the costs of all learners are usable at most sizes.

    Of several such epsilons the first is taken.

    Args:
      costs: (learners, sizes, P, trials).
      nothing: (sizes,), the centre's regret.
    """
    counts = np.array([[_usable(cost[:, p], nothing).sum() for p in range(cost.shape[1])]
                       for cost in costs])  # fmt: skip
    return max(range(counts.shape[1]), key=lambda p: (counts[:, p].min(), counts[:, p].sum()))


def slopes(data, lengths, sizes) -> list[dict]:
    """Fitted exponents of what privacy costs, beside Table 1 of the paper.

    In 1 / epsilon each learner has its own range, where its cost can be read; in T and N all
    learners of an instance are compared at one epsilon.
    """
    printed = {"1/epsilon": "1", "N": "1 (experts: and ln N)", "T": "0 (and log^2 T)"}
    found = []

    def add(instance, learner, variable, x, cost, nothing, epsilon=None):
        usable = _usable(cost, nothing)

        def means(trials):
            return np.maximum(cost[:, trials].mean(axis=1), 1e-12)

        point, low, high = exponent(x, means, usable, cost.shape[1])
        shown = np.asarray(x, float)[usable]
        found.append({
            "instance": instance, "learner": learner, "variable": variable,
            "slope": point, "low": low, "high": high, "points": int(usable.sum()),
            "from": np.min(shown, initial=np.inf), "to": np.max(shown, initial=-np.inf),
            "printed": printed[variable] if learner.startswith("FTRL") else "",
            "epsilon": epsilon,
        })  # fmt: skip

    inverse = 1 / data.epsilon.values[:-1].astype(np.float32)
    for instance, learner, part in each(data.squeeze(["horizon", "dim"])):
        add(instance, learner, "1/epsilon", inverse, part.cost.values[:-1], part.centre.values)
    lines = ("T", "horizon", lengths.squeeze("dim")), ("N", "dim", sizes.squeeze("horizon"))
    for variable, axis, group in lines:
        for instance in group.instance.values:
            part = group.sel(instance=instance)
            costs = part.cost.transpose("learner", axis, "epsilon", "trial").values[:, :, :-1]
            nothing = part.centre.values
            best = readable(costs, nothing)
            for learner, cost in zip(part.learner.values, costs, strict=True):
                add(instance, learner, variable, part[axis].values, cost[:, best], nothing,
                    part.epsilon.values[best])  # fmt: skip
    return found
