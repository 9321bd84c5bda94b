"""Two texts of 2026 on private experts: a random prefix, and a random walk in the local model."""

from functools import partial

import numpy as np

from dpjax import Study, combinators, domains, environments, learners, mechanisms

CENTRAL = {
    "whole batches": learners.limited_updates,
    "random prefixes": partial(learners.limited_updates, prefix="random"),
    "whole, permute-and-flip": partial(learners.limited_updates, selector="permute_and_flip"),
}


def gapped(arms, gap):
    return environments.bernoulli([0.5 - gap] + [0.5] * (arms - 1), regret="pseudo")


def random_walk(horizon, arms, epsilon):
    """The leader of losses to which each user has added Gaussian noise, at delta = T^-2."""
    made = learners.ftpl(horizon, domains.simplex(arms), epsilon=epsilon, delta=horizon**-2.0,
                         mechanism=mechanisms.per_item, perturbation=0.0)  # fmt: skip
    return combinators.sample_arms(made)


def ftrl(horizon, arms, epsilon):
    """FTRL on losses to which each user has added Laplace noise."""
    made = learners.ftrl(
        horizon, domains.simplex(arms), epsilon=epsilon, mechanism=mechanisms.per_item
    )
    return combinators.sample_arms(made)


def on_bits(horizon, arms, epsilon):
    """Follow the leader of the previous batch, on one randomized bit from each user."""
    leader = combinators.as_learner(learners.limited_updates(horizon, arms, epsilon=np.inf))
    return combinators.randomized_coordinate(leader, epsilon=epsilon)


LOCAL = {"random walk": random_walk, "FTRL, Laplace": ftrl, "randomized bits": on_bits}


def play(factories, horizon, trials, **grid):
    study = Study(factories, {"gapped": gapped}, {"horizon": horizon, **grid}, trials=trials,
                  checkpoints=[horizon // 4, horizon])  # fmt: skip
    regret = study.run()["regret"].squeeze(drop=True)
    mean, error = regret.mean("trial"), regret.std("trial", ddof=1) / np.sqrt(trials)
    for rounds in regret["round"].values:
        print(f"T = {rounds}, {trials} trials; mean pseudo-regret (standard errors)")
        table, errors = (
            array.sel(round=rounds, drop=True).to_series().unstack(["gap", "epsilon"])
            for array in (mean, error)
        )
        print((table.map("{:.1f}".format) + errors.map(" ({:.1f})".format)).to_string())


def main(horizon=2**14, local=2**12, arms=(4, 16, 64), trials=400):
    gaps = [0.05, 0.2]
    print("A trusted server")
    play(CENTRAL, horizon, trials, arms=list(arms), gap=gaps, epsilon=[0.1, 1.0, np.inf])
    print("No one trusted")
    play(LOCAL, local, trials, arms=[4, 10], gap=gaps, epsilon=[0.1, 1.0, 10.0])


if __name__ == "__main__":
    main()
