"""Regret of private FTRL by its learning rate. The paper's rate ignores epsilon."""

import numpy as np

from dpjax import Study, domains, environments, learners


def main(horizon=2**13, trials=100, rates=15):
    study = Study(
        learners={"FTRL": learners.ftrl},
        environments={"drawn": lambda domain: environments.linear_losses(domain, "iid"),
                      "drifting": lambda domain: environments.linear_losses(domain, "drifting")},
        grid={"epsilon": [0.1, 1.0, 10.0, np.inf], "rate": np.geomspace(1e-4, 1.0, rates),
              "horizon": horizon, "domain": domains.simplex(10)},
        trials=trials,
    )  # fmt: skip
    data = study.run()
    best = data.dpjax.tune("rate")[["chosen_rate", "mean", "low", "high"]]
    print(best.reset_coords(drop=True).to_dataframe())
    return data.dpjax.figure("rate", color="epsilon", panel="environment")


if __name__ == "__main__":
    main().savefig("ftrl_rate.pdf")
