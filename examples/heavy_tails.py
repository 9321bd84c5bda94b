"""DP-SE on losses clipped to [0, 1] against robust elimination, by tail index."""

from functools import partial

from dpjax import Study, environments, learners
from dpjax.environments._heavy_tailed import largest_moment

MEANS, SPREADS = (0.4, 0.6), (0.0, 1.0)  # Only the worse arm has a Pareto part.
TAILS = (2.5, 3.0, 6.0)


def robust(horizon, arms, *, epsilon, tail):
    moment = largest_moment(MEANS, 2.0, tail=tail, spread=SPREADS)
    return learners.robust_elimination(
        horizon, arms, epsilon=epsilon, moment=moment, order=2.0, largest_gap=0.4,
        failure=1e-3,
    )  # fmt: skip


def clipped(horizon, arms, *, epsilon):
    return learners.successive_elimination(horizon, arms, epsilon=epsilon, failure=1e-3)


def main(horizon=2**18, trials=8, epsilons=(1.0,)):
    """The regret of both learners, for each tail index."""
    for tail in TAILS:
        nature = partial(environments.heavy_tailed, MEANS, tail=tail, spread=SPREADS)
        study = Study(
            learners={"clipped": clipped, "robust": partial(robust, tail=tail)},
            environments={f"Pareto {tail}": lambda nature=nature: nature()},
            grid={"epsilon": list(epsilons), "horizon": horizon, "arms": len(MEANS)},
            trials=trials, checkpoints=1,
        )  # fmt: skip
        found = study.run(progress=False).dpjax.mean().to_dataframe()
        yield found[["mean", "standard_error"]]


if __name__ == "__main__":
    for row in main():
        print(row.to_string(), flush=True)
