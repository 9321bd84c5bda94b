"""Adaptive and oblivious losses: a learner plays an adversary, and then the recorded losses.

The experts of ``environments.consensus`` form pairs. If an expert is played, the adversary sets the
losses of its pair to 1. A learner plays against this adversary, and the losses are recorded. Then a
fresh copy of the learner plays on the recording, which does not depend on its actions. The first
panel shows the regret of both games. The second shows regret by the dartboard's number of switches.
The table has the epsilon of each budget of switches.

    python examples/own_recording.py        (T = 1024: a few minutes on two cores)
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from matplotlib.figure import Figure

from dpjax import environments, learners, simulate, trajectory

GAMES = ("against the adversary", "on its own recording")
AMPLE = 1e6  # an epsilon so large that the dartboard does not lower its rate


def recorded(make, points, adversary, trials):
    """Regret (points, 2, trials) of make(point) per round in both games, and switches per round."""

    def one(learner, key):
        table, arms = trajectory(
            learner, adversary, key, record=lambda played: (played.outcome.loss, played.action)
        )
        suffered = jnp.sum(jnp.take_along_axis(table, arms[:, None], axis=1))
        live = suffered - jnp.min(jnp.sum(table, axis=0))
        again = simulate(learner, environments.table(table), jr.fold_in(key, 1), checkpoints=1)
        regret = jnp.stack([live, again.regret[-1]]) / learner.horizon
        return regret, jnp.mean(arms[1:] != arms[:-1])

    keys = jr.split(jr.key(0), trials)
    run = jax.jit(lambda points: lax.map(lambda p: lax.map(partial(one, make(p)), keys), points))
    regret, switches = run(jnp.asarray(points, jnp.float32))
    return np.asarray(regret).swapaxes(1, 2), np.asarray(switches).mean(axis=1)


def summary(regret):
    """Formats means over trials with their standard errors."""
    means, errors = regret.mean(axis=1), regret.std(axis=1, ddof=1) / regret.shape[1] ** 0.5
    return "  ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(means, errors, strict=True))


def compare(horizon, adversary, trials):
    """Mean regret per round of Hedge and the dartboard, with and without privacy, by name."""
    means = {}
    for name in ("hedge", "shrinking_dartboard"):
        make = partial(getattr(learners, name), horizon, adversary.action_set.count)
        regret, _ = recorded(
            lambda eps, make=make: make(epsilon=eps), [np.inf, 1], adversary, trials
        )
        for kind, found in zip(("plain", "epsilon 1"), regret, strict=True):
            label = f"{name.split('_')[-1]}, {kind}"
            means[label] = found.mean(axis=1)
            print(f"{label:32} {summary(found)}")
    return means


def budgets(horizon, adversary, trials, shares):
    """Switches (n,) and regret (n, 2) per round of the dartboard with p = eta = share."""
    make = partial(learners.shrinking_dartboard, horizon, adversary.action_set.count, epsilon=AMPLE)
    regret, switches = recorded(lambda p: make(rate=p, restart=p), shares, adversary, trials)
    print(" p = eta budget switches  epsilon at T^-2 mean regret / T")
    for share, found, often in zip(shares, regret, switches, strict=True):
        costs = [float(make(rate=share, restart=share, delta=delta).privacy.epsilon)
                 for delta in (None, horizon**-2.0)]  # fmt: skip
        counts = f"{min(int(4 * horizon * share), horizon):6} {often * horizon:8.0f}"
        print(f"{share:8.4f} {counts} {costs[0]:8.1f} {costs[1]:7.1f} {summary(found)}")
    return switches, regret.mean(axis=2)


def main(horizon=1024, trials=20, shares=8):
    adversary = environments.consensus(horizon)
    figure = Figure((9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    means = compare(horizon, adversary, trials)
    for game, label in enumerate(GAMES):
        left.plot([mean[game] for mean in means.values()], "os"[game], ms=9 - 4 * game, label=label)
    left.set_xticks(range(len(means)), [name.replace(", ", ",\n") for name in means], fontsize=8)
    switches, found = budgets(horizon, adversary, trials, np.geomspace(1 / 256, 0.5, shares))
    for game, label in enumerate(GAMES):
        right.plot(switches, found[:, game], "os"[game] + "-", label=label)
    right.plot([0.0, 1.0], [1.0, 0.0], color="0.6", lw=1, label="1 - switches per round")
    right.set_xlabel("switches of the dartboard per round")
    for panel in (left, right):
        panel.legend(frameon=False)
        panel.set(ylim=(-0.03, 1.08), ylabel="regret / T")
    return figure


if __name__ == "__main__":
    main().savefig("own_recording.png", dpi=120)
