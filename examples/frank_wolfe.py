"""Frank-Wolfe with a recursive gradient against FTRL with projections, on i.i.d. quadratics."""

from functools import partial

import numpy as np

from dpjax import Study, domains, environments, learners, loss_families
from dpjax.combinators import on_gradients

DIM = 10
SETS = {"ball": domains.ball(DIM), "simplex": domains.simplex(DIM)}


def constants(body):
    """The Lipschitz constant and the smoothness of |x - z|^2 / 2, for all z in the set."""
    return loss_families.quadratic(SETS[body]).lipschitz(0.0), 1.0


def with_losses(body, longest):
    """The set, with losses whose gradients have norm at most ``longest``."""
    return SETS[body]._replace(losses=domains.ball_losses(DIM, longest))


def frank_wolfe(horizon, body, epsilon):
    lipschitz, smoothness = constants(body)
    return learners.online_frank_wolfe(
        horizon, with_losses(body, lipschitz), epsilon=epsilon, delta=horizon**-2.0,
        noise="gaussian", smoothness=smoothness,
    )  # fmt: skip


def leader(horizon, body, epsilon, rate):
    """FTRL with the squared norm as regularizer, on the gradients at its points."""
    domain = with_losses(body, constants(body)[0])
    squared = domains.squared_norm(domain.project, domain.centre, domain.radius)
    return on_gradients(learners.ftrl(
        horizon, domain._replace(regularizer=squared), epsilon=epsilon, delta=horizon**-2.0,
        noise="gaussian", rate=rate,
    ))  # fmt: skip


def quadratics(body):
    family = loss_families.quadratic(SETS[body])
    return environments.convex_losses(SETS[body], family, steps=400)


def play(body, horizon, epsilons, trials):
    study = Study(
        learners={"Frank-Wolfe": partial(frank_wolfe, body=body),
                  "FTRL": partial(leader, body=body, rate=None),
                  "FTRL, noisy rate": partial(leader, body=body, rate="noisy")},
        environments={"quadratics": partial(quadratics, body)},
        grid={"epsilon": list(epsilons), "horizon": horizon},
        trials=trials,
    )  # fmt: skip
    regret = study.run(progress=False)["regret"].isel(round=-1)
    table = regret.mean("trial").to_dataset(name="regret")
    table["standard error"] = regret.std("trial", ddof=1) / np.sqrt(trials)
    return table.reset_coords(drop=True).to_dataframe()


def main(horizon=2**14, trials=50, epsilons=(0.3, 1.0, 3.0, 10.0, np.inf)):
    return {body: play(body, horizon, epsilons, trials) for body in SETS}


if __name__ == "__main__":
    for body, table in main().items():
        print(body)
        print(table.round(1).to_string())
