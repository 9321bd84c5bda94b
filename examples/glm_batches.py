"""How long should the batches of private logistic bandits be, and when does privacy cost nothing?"""

import numpy as np

from dpjax import Study, environments, learners, privacy

DIM, DELTA, SCALE = 4, 1e-6, 2.0


def learner(horizon, epsilon, batch):
    return learners.glm_sgd(
        horizon, DIM, epsilon=epsilon, delta=DELTA, model="joint", batch=batch,
        parameter_bound=SCALE,
    )  # fmt: skip


def main(horizon=2**15, trials=32, batches=tuple(2.0 ** np.arange(2, 13))):
    """Regret by the length of a batch, with the length 4 d sigma^2 marked."""
    study = Study(
        learners={"glm_sgd": learner},
        environments={"fresh arms": environments.glm_arms(DIM, 10, scale=SCALE)},
        grid={"epsilon": [0.3, 1.0, 3.0, np.inf], "batch": list(batches), "horizon": horizon},
        trials=trials,
    )
    data = study.run(progress=False)
    figure = data.dpjax.figure("batch", color="epsilon")
    regret = data["regret"].isel(round=-1, learner=0, environment=0, drop=True)
    table = regret.mean("trial").to_series().unstack("epsilon").round(0)
    print("mean regret\n", table.to_string())
    print("standard error\n", (regret.std("trial") / trials**0.5).to_series().unstack("epsilon").round(1).to_string())
    for epsilon in (0.3, 1.0, 3.0):
        sigma = float(privacy.gaussian_scale(1.0, epsilon, DELTA))
        print(epsilon, sigma, 4*DIM*sigma**2)
    return figure


if __name__ == "__main__":
    main().savefig("glm_batches.png")
