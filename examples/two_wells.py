"""Losses with two wells, one of them wide and one deep: FTRL on gradients, or arms on a grid?"""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import combinators, domains, environments, learners, trajectory
from dpjax.report import plot

SEGMENT, GRID, DEPTHS = domains.cube(1), np.linspace(-1, 1, 41)[:, None], np.array([0.0, 0.4])


def loss(depth, x):
    wide, deep = 1 - jnp.abs(x[0] + 0.4) / 0.7, 1 - jnp.abs(x[0] - 0.6) / 0.35
    return 0.5 - jnp.maximum(0, jnp.maximum(depth * wide, 0.35 * deep))


def play(horizon, epsilon, name, trials):
    """Regret against the point 0.6, and the number of moves of the played point: (2, trials)."""
    game = environments.convex_losses(SEGMENT, loss, parameters=DEPTHS)
    private = {"epsilon": epsilon, "delta": 1e-6}
    linear = learners.ftrl(horizon, SEGMENT, noise="gaussian", rate="noisy", **private)
    learner = combinators.on_gradients(linear)
    if name == "dartboard":
        game = combinators.on_grid(game, GRID)
        learner = learners.shrinking_dartboard(horizon, len(GRID), **private)
    run = jax.vmap(lambda key: trajectory(learner, game, key, record=lambda seen: seen.action))
    x = np.asarray(jax.jit(run)(jax.random.split(jax.random.key(0), trials)))
    x = GRID[x] if x.ndim == 2 else x
    means = jnp.mean(jax.vmap(loss, (0, None))(DEPTHS, np.moveaxis(x, -1, 0)), axis=0)
    return np.sum(means - 0.15, axis=1), np.sum(x[:, 1:] != x[:, :-1], axis=(1, 2))


def main(horizons=(2**10, 2**12, 2**14, 2**16), trials=32, epsilons=(0.3, 1.0, np.inf)):
    figure, panels = plot.panels(1, 2, size=(8.0, 3.2))
    for name, style in (("FTRL", "--"), ("dartboard", "-")):
        for epsilon in epsilons:
            found = np.array([play(T, epsilon, name, trials) for T in horizons])
            mean, error = found.mean(axis=-1).T, found.std(axis=-1, ddof=1).T / trials**0.5
            for panel, what, m, e in zip(panels, ("regret", "moves"), mean, error, strict=True):
                print(name, what, f"at epsilon = {epsilon:g}: mean", m.round(), "s.e.", e.round())
                panel.errorbar(horizons, m, 2 * e, label=f"{name}, epsilon = {epsilon:g}",
                               ls=style, marker=".", color=plot.epsilon_color(epsilon))  # fmt: skip
                panel.set(xscale="log", yscale="log", xlabel="T", ylabel=what)
    panels[1].legend(fontsize=7, frameon=False, handlelength=4)
    return figure


if __name__ == "__main__":
    main().savefig("two_wells.png", dpi=150)
