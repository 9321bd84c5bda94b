"""Growth of regret with T for one-point and two-point feedback, with and without privacy."""

import numpy as np

from dpjax import Study, domains, environments, learners, loss_families

BALL = domains.ball(3)


def one(horizon, epsilon):
    return learners.private_one_point(horizon, BALL, epsilon=epsilon, loss_range="nonnegative")


def two(horizon, epsilon):
    return learners.two_point_gradient(horizon, BALL, epsilon=epsilon)


def distances():
    return environments.convex_losses(BALL, loss_families.distance(BALL), steps=200)


def main(horizons=(2**10, 2**12, 2**14, 2**16), trials=50, epsilons=(1.0, np.inf)):
    study = Study(
        learners={"one point": one, "two points": two},
        environments={"distances": distances},
        grid={"epsilon": list(epsilons), "horizon": list(horizons)},
        trials=trials,
    )
    data = study.run(progress=False)
    mean = data.dpjax.mean()[["mean", "low", "high"]].reset_coords(drop=True)
    print(mean.to_dataframe().round(0).to_string())
    print(data.dpjax.slope("horizon").to_dataframe().round(2).to_string())
    return data


if __name__ == "__main__":
    figure = main().dpjax.figure("horizon", color="learner", line="epsilon")
    figure.savefig("two_points.png")
