"""The cost of comparisons: regret of private learners on duels and on losses of the same arms."""

import jax
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas

from dpjax import combinators, environments, learners, simulate, simulate_batches, sweep

matplotlib.use("Agg")
MEANS = np.linspace(0.2, 0.9, 8)  # losses m; i beats j with probability (1 + m_j - m_i) / 2
ARMS = len(MEANS)


def duels():
    return environments.dueling(MEANS, regret="utility")


def losses():
    return environments.bernoulli(MEANS, regret="pseudo")


def games(horizon):
    """{name: (epsilon -> (learner, environment), the function that plays them)}"""

    def eliminate(epsilon):
        return learners.dueling_elimination(horizon, ARMS, epsilon=epsilon), duels()

    def by_pairs(epsilon):
        made = learners.dueling_elimination(horizon, ARMS, epsilon=epsilon, compare="pairs")
        return made, duels()

    def spar(epsilon):
        made = combinators.sparring(learners.batched_bandit, horizon, ARMS, epsilon=epsilon)
        return made, duels()

    def see_losses(epsilon):
        made = learners.successive_elimination(horizon, ARMS, epsilon=epsilon, radius="chernoff")
        return made, losses()

    return {
        "duels, elimination by scores": (eliminate, simulate_batches),
        "duels, elimination by pairs": (by_pairs, simulate_batches),
        "duels, sparring": (spar, simulate),
        "losses, DP-SE": (see_losses, simulate_batches),
    }


def main(horizon=2**18, trials=8, epsilons=(0.01, 0.03, 0.1, 0.3, 1.0, np.inf)):
    """Mean regret of each learner at each epsilon, with its standard error."""
    rows = []
    for name, (game, play) in games(horizon).items():
        points = np.array(epsilons, np.float32)
        played = sweep(
            game, points, trials, jax.random.key(0), play=play, checkpoints=1, progress=False
        )
        final = played.regret[..., -1]
        for epsilon, regret in zip(epsilons, final, strict=True):
            error = regret.std(ddof=1) / np.sqrt(trials)
            rows.append((name, epsilon, regret.mean(), error))
    return pandas.DataFrame(rows, columns=["learner", "epsilon", "regret", "standard error"])


def figure(table):
    """Regret by epsilon, one line per learner, with epsilon = inf at the right end."""
    drawn, panel = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    finite = sorted(set(table["epsilon"]) - {np.inf})
    ticks = [*finite, 4 * finite[-1]]
    for name, rows in table.groupby("learner", sort=False):
        places = np.where(np.isinf(rows["epsilon"]), ticks[-1], rows["epsilon"])
        errors = 2 * rows["standard error"]
        panel.errorbar(places, rows["regret"], errors, marker="o", capsize=2, label=name)
    panel.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="regret, in mean losses")
    panel.set_xticks(ticks, [f"{epsilon:g}" for epsilon in [*finite, np.inf]])
    panel.legend(frameon=False)
    return drawn


if __name__ == "__main__":
    found = main()
    shown = found.assign(regret=found["regret"].round(), error=found["standard error"].round())
    print(shown.pivot(index="learner", columns="epsilon", values=["regret", "error"]).T.to_string())
    figure(found).savefig("dueling.png")
