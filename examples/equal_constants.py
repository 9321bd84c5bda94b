"""Regret of DP-KLUCB, AdaP-KLUCB and DP-SE at equal exploration constants."""

import numpy as np

from dpjax import Study, environments, learners

MEANS = [0.25, 0.375, 0.5, 0.625, 0.75]


def main(horizon=10**6, trials=200):
    study = Study(
        learners={"DP-KLUCB": learners.dp_klucb, "AdaP-KLUCB": learners.adap_klucb,
                  "DP-SE": learners.successive_elimination},
        environments={"five arms": environments.bernoulli(MEANS, regret="pseudo")},
        grid={"exploration": [1.0, 2.0, 4.0], "epsilon": [0.1, 0.3, 1.0, 3.0, np.inf],
              "horizon": horizon, "arms": len(MEANS)},
        trials=trials,
    )  # fmt: skip
    data = study.run()
    print(data.dpjax.difference(learner="DP-KLUCB")[["mean", "low", "high"]].to_dataframe())
    return data.dpjax.figure("epsilon", color="learner", panel="exploration")


if __name__ == "__main__":
    main().savefig("equal_constants.pdf")
