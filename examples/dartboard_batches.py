"""Regret of the shrinking dartboard by batch size and epsilon, and the size of least bound."""

import jax
import numpy as np

from dpjax import Study, environments, learners


def main(horizon=2**14, trials=50, batches=(1, 2, 4, 8, 16, 32, 64, 128)):
    epsilons = [0.1, 0.3, 1.0, 3.0, 10.0, np.inf]
    study = Study(
        learners={"dartboard": learners.shrinking_dartboard},
        environments={"drawn": environments.bernoulli([0.2] + [0.5] * 9),
                      "repeated": environments.oblivious(10, 64, half_width=0.2)},
        grid={"batch": list(batches), "epsilon": epsilons, "horizon": horizon, "arms": 10},
        trials=trials, checkpoints=1,
    )  # fmt: skip
    data = study.run()
    best = data.dpjax.tune("batch")[["chosen_batch", "mean", "low", "high"]]
    print(best.reset_coords(drop=True).to_dataframe())
    for epsilon in epsilons:
        best = learners.shrinking_dartboard(horizon, 10, epsilon=epsilon, batch=None)
        print(f"epsilon {epsilon}: least bound at batch {best.init(jax.random.key(0))[1].rounds}")
    return data.dpjax.figure("batch", color="epsilon", panel="environment")


if __name__ == "__main__":
    main().savefig("dartboard_batches.pdf")
