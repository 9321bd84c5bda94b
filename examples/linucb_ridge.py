"""Regret of LinUCB by its ridge, with and without privacy."""

import numpy as np

from dpjax import Study, environments, gram, learners

UNSHIFTED = gram.gaussian(shifted=False)


def main(horizon=2**11, trials=32, ridges=13):
    study = Study(
        learners={
            "OFUL": lambda horizon, dim, ridge: learners.linucb(
                horizon, dim, epsilon=np.inf, delta=horizon**-1.5, ridge=ridge),
            "private": lambda horizon, dim, epsilon, ridge: learners.linucb(
                horizon, dim, epsilon=epsilon, delta=horizon**-1.5, gram=UNSHIFTED, ridge=ridge),
        },
        environments={"fresh arms": lambda dim: environments.gap_arms(dim, arms=10)},
        grid={"epsilon": [1.0, 10.0], "ridge": np.geomspace(1.0, 1e6, ridges),
              "horizon": horizon, "dim": 4},
        trials=trials,
    )  # fmt: skip
    data = study.run()
    best = data.dpjax.tune("ridge")[["chosen_ridge", "mean", "low", "high"]]
    print(best.reset_coords(drop=True).to_dataframe())
    return data.dpjax.figure("ridge", color="learner", line="epsilon")


if __name__ == "__main__":
    main().savefig("linucb_ridge.pdf")
