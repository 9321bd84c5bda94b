"""The declared epsilon of printed calibrations of private experts, and their regret."""

from functools import partial

import numpy as np

from dpjax import Study, environments, learners

DELTA = 1e-6
FACTORIES = {
    "hedge": partial(learners.hedge, delta=DELTA),
    "dartboard, pure": learners.shrinking_dartboard,
    "dartboard": partial(learners.shrinking_dartboard, delta=DELTA),
    "dartboard, batches": partial(learners.shrinking_dartboard, delta=DELTA, batch=None),
}


def main(horizon=2**14, trials=50, epsilons=(0.1, 0.3, 1.0)):
    study = Study({f"{name}, {calibration}": partial(factory, calibration=calibration)
                   for name, factory in FACTORIES.items()
                   for calibration in ("derived", "printed")},
                  {"drawn": environments.bernoulli([0.2] + [0.5] * 9)},
                  {"epsilon": list(epsilons), "horizon": horizon, "arms": 10},
                  trials=trials, checkpoints=1)  # fmt: skip
    data = study.run()
    table = data.dpjax.mean().isel(environment=0, drop=True)
    error = (table["high"] - table["low"]) / 3.92
    for name in data["learner"].values:
        for epsilon in epsilons:
            here = {"learner": name, "epsilon": epsilon}
            has, states = (float(np.ravel(data[f"privacy_{word}"].sel(here))[0])
                           for word in ("epsilon", "paper_epsilon"))  # fmt: skip
            mean, spread = float(table["mean"].sel(here)), float(error.sel(here))
            print(f"{name:27} epsilon {epsilon}: paper {states:.3g}, declared {has:.3g}, "
                  f"regret {mean:.0f} ({spread:.0f})")  # fmt: skip
    return data.dpjax.figure("epsilon", color="learner")


if __name__ == "__main__":
    main().savefig("printed_experts.pdf")
