"""The number of patients that a private trial needs, on the outcomes of an earlier trial.

Patients are drawn with replacement from the outcomes of each treatment. So a treatment is a
Bernoulli arm, and learners stop when they can recommend the best one. The file has the columns
treatment and outcome, which is 1 for a success and 0 for a failure.
"""

from functools import partial

import numpy as np
import pandas

from dpjax import Study, bounds, environments, learners

FILE = "tests/data/streptomycin.csv"
# The learners that identify the best treatment, by trust model. In the local model, patients
# randomize their own outcomes.
LEARNERS = {
    "central": {"DP-TT": learners.dp_tt, "AdaP-TT": learners.adap_tt,
                "DP-SE": learners.successive_elimination},
    "local": {"CTB-TT": learners.ctb_tt},
}  # fmt: skip
PLAIN = {"TTUCB": learners.ttucb, "Track-and-Stop": learners.track_and_stop, "LUCB": learners.lucb}
COLUMNS = ["learner", "epsilon", "time", "time_low", "time_high", "lower_bound", "error", "stopped"]


def main(file=FILE, model="central", delta=0.01, epsilons=(0.5, 1.0, 10.0), trials=1000):
    outcomes = pandas.read_csv(file).groupby("treatment")["outcome"]
    print(outcomes.agg(patients="count", successes="mean").to_string())
    means = 1.0 - outcomes.mean().to_numpy()  # mean losses
    arms = {"outcomes": partial(environments.bernoulli, means, regret="pseudo")}
    grid = {"horizon": 10**8, "arms": len(means), "failure": delta}
    private = Study(LEARNERS[model], arms, grid | {"epsilon": list(epsilons)}, trials)
    data = (private + Study(PLAIN, arms, grid, trials)).run()

    lower = bounds.stopping_time_lower_local if model == "local" else bounds.stopping_time_lower
    table = data.dpjax.identification().to_dataframe().reset_index()
    plain = table["learner"].isin(list(PLAIN))
    table["epsilon"] = table["epsilon"].mask(plain, np.inf)
    table = table.drop_duplicates(["learner", "epsilon"])
    table["lower_bound"] = [float(lower(means, epsilon, delta)) for epsilon in table["epsilon"]]
    print(table[COLUMNS].to_string(index=False, float_format="{:.4g}".format))
    return data, table


def figure(data):
    """Excess failures over the best treatment, until all trials of all learners have stopped."""
    last = float(data["report_stopping_time"].max())
    end = int(np.searchsorted(data["round"].values, last)) + 1
    drawn = data.isel(round=slice(end)).dpjax.figure("round", color="learner", panel="epsilon")
    for axes in drawn.axes:
        axes.set(yscale="linear", xlabel="patients")
    drawn.axes[0].set_ylabel("failures beyond the best treatment's")
    return drawn


if __name__ == "__main__":
    figure(main()[0]).savefig("patients.pdf")
