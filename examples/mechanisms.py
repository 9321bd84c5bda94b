"""Regret of FTRL with each mechanism for noisy prefix sums, by epsilon and horizon."""

import numpy as np

from dpjax import Study, domains, environments, learners, mechanisms

MECHANISMS = [mechanisms.tree, mechanisms.honaker, mechanisms.hybrid, mechanisms.square_root]


def main(horizons=(2**8, 2**10, 2**12), trials=200):
    study = Study(
        learners={"FTRL": learners.ftrl},
        environments={"drawn": lambda domain: environments.linear_losses(domain, "iid")},
        grid={"mechanism": MECHANISMS, "epsilon": [0.1, 1.0, 10.0, np.inf],
              "horizon": list(horizons), "domain": domains.simplex(10)},
        trials=trials,
    )  # fmt: skip
    data = study.run()
    print(data.dpjax.difference(mechanism="tree")[["mean", "low", "high"]].to_dataframe())
    return data.dpjax.figure("epsilon", color="mechanism", panel="horizon")


if __name__ == "__main__":
    main().savefig("mechanisms.pdf")
