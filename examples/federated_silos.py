"""Regret per silo by number of silos and trust model, with and without a secure sum."""

import numpy as np

from dpjax import Study, environments, learners

DIM, DELTA = 4, 1e-6


def learner(users, silos, epsilon, model):
    return learners.federated_linucb(
        users * silos, DIM, epsilon=epsilon, delta=DELTA, silos=silos, model=model
    )


def main(users=2**10, trials=8, silos=(1, 4, 16, 64), epsilons=(0.1, 1.0, 10.0, np.inf)):
    """Regret of each silo, with ``users`` users per silo, and its standard error."""
    study = Study(
        learners={"federated LinUCB": learner},
        environments={"fresh arms": environments.gap_arms(DIM, arms=10)},
        grid={"silos": list(silos), "model": ["silo", "distributed"], "epsilon": list(epsilons),
              "users": users},
        trials=trials, checkpoints=1,
    )  # fmt: skip
    data = study.run(progress=False)
    data["regret_of_a_silo"] = data["final_regret"] / data["silos"]
    regret = data["regret_of_a_silo"].squeeze().reset_coords(drop=True)
    parts = regret.mean("trial"), regret.std("trial", ddof=1) / trials**0.5
    mean, error = (part.to_series().unstack("silos") for part in parts)
    return data, mean.join(error.add_suffix(", s.e."))


if __name__ == "__main__":
    data, table = main()
    print(table.round(1).to_string())
    drawn = data.dpjax.figure("silos", of="regret_of_a_silo", color="epsilon", line="model")
    drawn.savefig("federated_silos.png")
