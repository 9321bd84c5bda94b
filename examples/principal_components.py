"""Regret of online PCA, private or not, by FTPL (n^(1/4)) or matrix exponentials (sqrt(ln n))."""

from functools import cache

import numpy as np

from dpjax import Study, bounds, domains, environments, learners, mechanisms

GAUSSIAN = {"mechanism": mechanisms.stationary, "noise": "gaussian"}
points = cache(domains.fantope)


def perturbed(horizon, size, epsilon):
    """Follow the perturbed leader, with the perturbation from its regret bound for Gram losses."""
    return learners.ftpl(
        horizon, points(size, 1), epsilon=epsilon, delta=horizon**-2.0,
        mechanism=mechanisms.stationary,
        perturbation=float(bounds.ftpl_gram_perturbation(horizon, size, 1)),
    )  # fmt: skip


def exponential(horizon, size, epsilon):
    """FTRL with the von Neumann entropy, at the rate from its regret bound without noise."""
    return learners.ftrl(
        horizon, points(size, 1)._replace(regularizer=domains.von_neumann_entropy(size)),
        epsilon=epsilon, delta=horizon**-2.0, rate=(8 * np.log(size) / horizon) ** 0.5, **GAUSSIAN,
    )  # fmt: skip


def play(size, horizon, trials, epsilons):
    """Mean regrets, and their paired difference with its standard error."""
    study = Study(
        learners={"FTPL": perturbed, "FTRL": exponential},
        environments={"spiked": environments.spiked_covariance},
        grid={"epsilon": list(epsilons), "size": size, "horizon": horizon},
        trials=trials,
    )
    regret = study.run(progress=False)["regret"].isel(round=-1)
    excess = regret.sel(learner="FTPL") - regret.sel(learner="FTRL")
    table = excess.mean("trial").to_dataset(name="FTPL minus FTRL")
    table["standard error"] = excess.std("trial", ddof=1) / np.sqrt(trials)
    for name in ("FTPL", "FTRL"):
        table[name] = regret.sel(learner=name, drop=True).mean("trial")
    return table.reset_coords(drop=True).to_dataframe()


def main(horizon=2**10, trials=24, sizes=(2, 8, 10), epsilons=(1.0, np.inf)):
    """Runs one study per size in sequence; most of their time is spent on eigendecompositions."""
    return {size: play(size, horizon, trials, epsilons) for size in sizes}


if __name__ == "__main__":
    for size, table in main().items():
        print(f"n = {size}")
        print(table.round(1).to_string())
