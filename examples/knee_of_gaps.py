"""Regret of limited updates at fixed gaps, by horizon, gap and selector."""

from functools import partial

import numpy as np

from dpjax import Study, environments, learners

SELECTORS = ("exponential", "permute_and_flip", "laplace")


def gapped(arms, gap):
    return environments.bernoulli([0.5 - gap / 2] + [0.5 + gap / 2] * (arms - 1), regret="pseudo")


def play(gaps, **grid):
    study = Study({name: partial(learners.limited_updates, selector=name) for name in SELECTORS},
                  {"gapped": gapped}, {"arms": 8, "gap": list(gaps), **grid}, checkpoints=1,
                  trials=1000)  # fmt: skip
    return study.run()


def main(horizons=(2**10, 2**12, 2**14, 2**16), gaps=(0.02, 0.05, 0.1, 0.2, 0.4, 0.8)):
    growing = play([0.1, 0.4], epsilon=[0.1, 1.0], horizon=list(horizons))
    print(growing.dpjax.mean()["mean"].to_series().unstack("horizon").round().to_string())
    longest = play(gaps, epsilon=[0.05, 0.1, 0.2, np.inf], horizon=horizons[-1])
    table = longest.dpjax.mean()
    print(table["mean"].to_series().unstack("gap").round().to_string())
    error = (table["high"] - table["low"]) / table["mean"] / 3.92
    print(f"standard errors: at most {100 * float(error.max()):.1f} % of a mean")
    return longest.dpjax.figure("gap", color="epsilon", panel="learner")


if __name__ == "__main__":
    main().savefig("knee_of_gaps.pdf")
