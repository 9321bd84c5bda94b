"""Regret of private logistic bandits by batch length, beside two rules for the length."""

import numpy as np

from dpjax import Study, environments, learners, privacy
from dpjax.maths.logistic import gradient_ball

DIM, SCALE, DELTA, RADIUS = 4, 2.0, 1e-6, float(gradient_ball(2.0)[1])
EPSILONS, LENGTHS = [0.3, 1.0, 3.0, np.inf], 2.0 ** np.arange(3, 13)


def batched(horizon, epsilon, batch):
    return learners.glm_sgd(horizon, DIM, epsilon=epsilon, delta=DELTA, model="joint",
                            batch=batch, parameter_bound=SCALE)  # fmt: skip


def main(horizon=2**15, trials=32, batches=LENGTHS):
    arms = {"fresh arms": environments.glm_arms(DIM, 10, scale=SCALE)}
    grid = {"epsilon": EPSILONS, "batch": list(batches), "horizon": horizon}
    data = Study({"glm_sgd": batched}, arms, grid=grid, trials=trials).run(progress=False)
    regret = data["final_regret"].squeeze(drop=True)
    errors = regret.std("trial", ddof=1) / np.sqrt(trials)
    for name, table in {"mean regret": regret.mean("trial"), "standard error": errors}.items():
        print(name, table.to_series().unstack("epsilon").round(1).to_string(), sep="\n")
    figure = data.dpjax.figure("batch", color="epsilon")
    for line, epsilon in zip(figure.axes[0].get_lines(), EPSILONS[:3], strict=False):
        sigma = float(privacy.gaussian_scale(1.0, epsilon, DELTA))
        default = 4.0 * sigma * horizon**0.25 * (DIM * RADIUS / SCALE) ** 0.5
        for rule, style in ((default, "--"), (4.0 * DIM * sigma**2, ":")):
            figure.axes[0].axvline(rule, color=line.get_color(), linestyle=style)
    return figure


if __name__ == "__main__":
    main().savefig("glm_batches.png")
