"""Regret by the number S of shifts of the best arm, with and without privacy."""

import numpy as np

from dpjax import Study, combinators, environments, learners


def sharing(horizon, arms, *, epsilon, shifts):
    return learners.hedge(horizon, arms, epsilon=epsilon, share=shifts / (horizon - 1))


def segments(horizon, arms, shifts):
    means = np.where(np.arange(arms) == np.arange(shifts + 1)[:, None] % arms, 0.1, 0.5)
    ends = np.linspace(0, horizon, shifts + 2).astype(int)[1:]
    return combinators.tracking(environments.piecewise(means, ends), shifts)


def main(horizon=2**14, trials=30, shifts=(1, 2, 4, 8, 16, 32)):
    study = Study([learners.shrinking_dartboard, sharing], {"segments": segments},
                  {"epsilon": [1.0, 10.0, np.inf], "shifts": list(shifts), "horizon": horizon,
                   "arms": 10}, trials=trials, checkpoints=1)  # fmt: skip
    data = study.run()
    print(data.dpjax.mean()["mean"].to_series(), data.dpjax.slope("shifts").to_dataframe())
    return data.dpjax.figure("shifts", color="epsilon", panel="learner")


if __name__ == "__main__":
    main().savefig("price_of_shifts.pdf")
