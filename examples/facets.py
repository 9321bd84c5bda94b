"""Regret of SCRiBLE by number of facets m of its polytope; its regret bound grows as sqrt(m)."""

from functools import cache

import numpy as np

from dpjax import Study, domains, environments, learners


@cache
def body(facets):
    """A polytope around the unit ball in R^3; its facets touch the ball in a Fibonacci lattice."""
    height, angle = 1 - (2 * np.arange(facets) + 1) / facets, np.pi * (1 + 5**0.5)
    unit = np.exp(1j * angle * np.arange(facets)) * np.sqrt(1 - height**2)
    return domains.polytope(np.stack([unit.real, unit.imag, height], axis=1), np.ones(facets))


def main(horizon=2**12, trials=24, facets=(6, 12, 24, 48, 96)):
    study = Study(
        learners={"on the polytope": lambda horizon, facets, epsilon: learners.scrible(
                      horizon, body(facets), epsilon=epsilon),
                  "on the ball within": lambda horizon, facets, epsilon: learners.scrible(
                      horizon, domains.ball(3), epsilon=epsilon)},
        environments={"drawn": lambda facets: environments.linear_losses(body(facets), "iid")},
        grid={"epsilon": [1.0, np.inf], "facets": list(facets), "horizon": horizon},
        trials=trials,
    )  # fmt: skip
    data = study.run()
    print(data.dpjax.mean()[["mean", "low", "high"]].to_dataframe())
    print(data.dpjax.slope("facets").to_dataframe())
    return data.dpjax.figure("facets", color="learner", line="epsilon")


if __name__ == "__main__":
    main().savefig("facets.pdf")
