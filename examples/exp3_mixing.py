"""Regret of EXP3 by its exploration (mixing), against five adversaries."""

import numpy as np

from dpjax import Study, environments, learners

ADVERSARIES = {
    "deterministic": environments.deterministic,
    "stochastic": lambda arms: environments.bernoulli([0.45] + [0.5] * (arms - 1)),
    "fully oblivious": environments.fully_oblivious,
    "oblivious": environments.oblivious,
    "switching cost": environments.switching_cost,
}


def main(horizon=2**14, trials=100, mixings=13):
    grid = {"mixing": np.geomspace(1e-3, 1.0, mixings), "horizon": horizon, "arms": 4}
    data = Study({"EXP3": learners.exp3}, ADVERSARIES, grid, trials).run()
    best = data.dpjax.tune("mixing")
    shown = best[["chosen_mixing", "mean", "low", "high"]]
    print(shown.reset_coords(drop=True).to_dataframe())
    return data.dpjax.figure("mixing", color="environment")


if __name__ == "__main__":
    main().savefig("exp3_mixing.pdf")
