"""Regret of a private kernel bandit by its number of random features.

Each round offers eight contexts x in [0, 1]. Their mean losses are a smooth function of x, a sum of
bumps of width 0.2. ``linucb`` plays on m random Fourier features of x. If m is small, no linear
function of them fits the losses. If m is large, privacy adds noise to m (m + 1) / 2 numbers.

    python examples/kernel_bandit.py        (writes kernel_bandit.png)
"""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import combinators, learners, sweep
from dpjax.core import Environment, Outcome, Policies
from dpjax.report import plot

CENTRES, WEIGHTS = np.array([0.05, 0.3, 0.5, 0.7, 0.9]), np.array([0.5, -0.5, 0.5, -0.25, 0.25])
WIDTH = 0.2
EPSILONS = (1.0, 10.0, 100.0, np.inf)


def offers(arms=8):
    """Contexts uniform on [0, 1], and losses -1 or 1 whose means are the sum of bumps."""

    def step(state, key, policy):
        context_key, loss_key = jax.random.split(key)
        x = jax.random.uniform(context_key, (arms, 1))
        bumps = jnp.exp(-((x - jnp.asarray(CENTRES[None], jnp.float32)) ** 2) / (2 * WIDTH**2))
        means = bumps @ jnp.asarray(WEIGHTS, jnp.float32)
        draws = jax.random.uniform(loss_key, (arms,))
        losses = jnp.where(draws < 0.5 * (1.0 + means), 1.0, -1.0)
        return state, Outcome((x, losses), means[policy(x)] - jnp.min(means))

    return Environment(lambda key: (), step, lambda state, tally: tally, Policies(1))


def play(horizon, trials, counts, epsilons=EPSILONS):
    """Regret at T, (number of features, epsilon, trial)."""

    def game(epsilon, count):
        kernel = combinators.fourier_features(offers(), count, scale=WIDTH, key=jax.random.key(1))
        learner = learners.linucb(horizon, count, epsilon=epsilon, delta=1e-5, parameter_bound=4.0)
        return learner, kernel

    return np.stack([
        np.asarray(sweep(
            lambda epsilon, count=count: game(epsilon, count), np.array(epsilons), trials,
            jax.random.key(0), checkpoints=1,
        ).regret[..., -1])
        for count in counts
    ])  # fmt: skip


def main(horizon=16384, trials=8, counts=(2, 4, 8, 16)):
    """Prints and draws a table."""
    regret = play(horizon, trials, counts)
    means, errors = regret.mean(axis=-1), regret.std(axis=-1, ddof=1) / trials**0.5
    for count, row, width in zip(counts, means, errors, strict=True):
        cells = (f"{m:.0f} ({e:.0f})" for m, e in zip(row, width, strict=True))
        print(f"| {count} |", " | ".join(cells), "|")
    figure, (panel,) = plot.panels(1, 1, size=(4.5, 3.2))
    for epsilon, mean, error in zip(EPSILONS, means.T, errors.T, strict=True):
        panel.errorbar(counts, mean, 2 * error, marker="o", label=f"epsilon = {epsilon:g}")
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.legend(frameon=False)
    plot.label_axes(panel, "", xlabel="number of random features m", ylabel="regret at T")
    return figure


if __name__ == "__main__":
    main().savefig("kernel_bandit.png", dpi=150)
