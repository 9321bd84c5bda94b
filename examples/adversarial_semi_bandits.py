"""Regret by k of an adversarial semi-bandit that reads all k shown losses, or only one of them."""

from functools import partial

import numpy as np

from dpjax import Study, bounds, domains, environments, learners

DIM, DELTA = 32, 1e-6
LEARNERS = {
    "one entry, Laplace": {"read": "one"},
    "all entries, Laplace": {"read": "all"},
    "all entries, Gaussian": {"read": "all", "delta": DELTA},
}


def learner(horizon, k, epsilon, **options):
    sets = domains.capped_simplex(DIM, k)
    return learners.semi_bandit_ftrl(horizon, sets, epsilon=epsilon, model="central", **options)


def choices(k):
    """Entries have losses 0 or 1. Their means are drawn once and spread widely."""
    return environments.linear_losses(
        domains.capped_simplex(DIM, k), "iid", loss_set=domains.box_losses(DIM, 0.0, 1.0), bias=1.0
    )


def main(horizon=2**13, trials=32, sizes=(2, 4, 8, 16), epsilon=1.0):
    """Regret of each learner, with standard errors, and the bound for reading one entry."""
    study = Study(
        learners={name: partial(learner, **options) for name, options in LEARNERS.items()},
        environments={"k of 32": choices},
        grid={"epsilon": epsilon, "k": list(sizes), "horizon": horizon},
        trials=trials,
    )
    data = study.run(progress=False)
    regret = data["regret"].isel(round=-1)
    table = regret.mean("trial").reset_coords(drop=True).squeeze().to_pandas().T
    error = (regret.std("trial", ddof=1) / np.sqrt(trials)).reset_coords(drop=True).squeeze()
    table = table.join(error.to_pandas().T.add_suffix(", s.e."))
    table["bound of one"] = bounds.semi_bandit_ftrl(
        horizon, DIM, np.array(sizes), epsilon, model="central"
    )
    return data, table


if __name__ == "__main__":
    data, table = main()
    print(table.round(1).to_string())
    data.dpjax.figure(x="k", color="learner").savefig("adversarial_semi_bandits.png")
