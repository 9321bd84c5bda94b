"""Regret of a private semi-bandit that reads all shown losses, or only one with less noise."""

from functools import partial

import numpy as np

from dpjax import Study, domains, environments, learners

DIM = 16
SETS = {k: domains.capped_simplex(DIM, k) for k in (2, 4, 8)}


def learner(horizon, k, epsilon, read):
    return learners.cucb(horizon, SETS[k], epsilon=epsilon, read=read)


def choices(k):
    """Entries have losses 0 or 1. Their means are drawn once and spread widely."""
    return environments.linear_losses(
        SETS[k], "iid", loss_set=domains.box_losses(DIM, 0.0, 1.0), bias=1.0
    )


def main(horizon=2**13, trials=32, epsilons=(0.25, 1.0, 4.0, 16.0, 64.0, np.inf)):
    """Mean regret with either reading, and the paired difference."""
    study = Study(
        learners={read: partial(learner, read=read) for read in ("one", "all")},
        environments={"k of 16": choices},
        grid={"epsilon": list(epsilons), "k": list(SETS), "horizon": horizon},
        trials=trials,
    )
    data = study.run(progress=False)
    regret = data["regret"].isel(round=-1)
    excess = regret.sel(learner="all") - regret.sel(learner="one")
    table = excess.mean("trial").to_dataset(name="all minus one")
    table["standard error"] = excess.std("trial", ddof=1) / np.sqrt(trials)
    for read in ("one", "all"):
        table[read] = regret.sel(learner=read, drop=True).mean("trial")
    return data, table.reset_coords(drop=True).to_dataframe()


if __name__ == "__main__":
    data, table = main()
    print(table.round(1).to_string())
    data.dpjax.figure(x="epsilon", color="learner", panel="k").savefig("semi_bandits.png")
