"""Regret of FTRL and LinUCB if the horizon T is known, and four ways to play if it is not."""

from functools import partial

import numpy as np

from dpjax import Study, combinators, domains, environments, gram, learners, mechanisms
from dpjax.report import plot

BALL, DIM, PRIVATE = domains.ball(10), 3, {"epsilon": 1.0, "delta": 1e-6}
BUFFERED = partial(mechanisms.buffered, made_for=2**20)


def ftrl(mechanism, rate=None):
    """Horizon -> FTRL on a ball."""
    return lambda horizon: learners.ftrl(
        horizon, BALL, noise="gaussian", mechanism=mechanism, rate=rate, **PRIVATE
    )


def linucb(mechanism):
    """Horizon -> LinUCB, whose confidence radius depends on the horizon."""
    return lambda horizon: learners.linucb(
        horizon, DIM, gram=gram.gaussian(mechanism=mechanism), **PRIVATE
    )


def restarted(make):
    """Horizon -> the learner restarted in epochs of 64, 128, 256, ... rounds."""
    return lambda horizon: combinators.doubling(make, horizon)


# {game: (environment, {mechanism: (what depends on T, horizon -> learner)})}
GAMES = {
    "FTRL": (environments.linear_losses(BALL, "iid"), {
        "square_root": ("noise and rate", ftrl(mechanisms.square_root)),
        "tree": ("noise and rate", ftrl(mechanisms.tree)),
        "square_root, anytime rate": ("noise", ftrl(mechanisms.square_root, "anytime")),
        "buffered(made_for=2**20)": ("nothing", ftrl(BUFFERED, "anytime")),
        "unbounded": ("nothing", ftrl(mechanisms.unbounded, "anytime")),
        "hybrid": ("nothing", ftrl(mechanisms.hybrid, "anytime")),
        "doubling, square_root": ("nothing", restarted(ftrl(mechanisms.square_root))),
    }),
    "LinUCB": (environments.gap_arms(DIM, arms=10), {
        "square_root": ("noise and radius", linucb(mechanisms.square_root)),
        "tree": ("noise and radius", linucb(mechanisms.tree)),
        "buffered(made_for=2**20)": ("radius", linucb(BUFFERED)),
        "unbounded": ("radius", linucb(mechanisms.unbounded)),
        "hybrid": ("radius", linucb(mechanisms.hybrid)),
        "doubling, square_root": ("nothing", restarted(linucb(mechanisms.square_root))),
    }),
}  # fmt: skip


def play(environment, rows, horizons, trials):
    """{mechanism: regret (trials, horizons)}. Learners that do not depend on T play only once."""
    anytime = {name: make for name, (depends, make) in rows.items() if depends == "nothing"}
    known = {name: make for name, (_, make) in rows.items() if name not in anytime}
    regret = {}
    for makes, ends in ((anytime, [horizons]), (known, [[horizon] for horizon in horizons])):
        parts = []
        for checkpoints in ends:
            made = {name: make(checkpoints[-1]) for name, make in makes.items()}
            study = Study(made, {"game": environment}, trials=trials, checkpoints=checkpoints)
            parts.append(study.run(progress=False)["regret"])
        for name in makes:
            columns = [part.sel(learner=name).values.reshape(trials, -1) for part in parts]
            regret[name] = np.concatenate(columns, axis=1)
    return regret


def main(horizons=(2**8, 2**10, 2**12), trials=64):
    figure, panels = plot.panels(1, 2, size=(8.5, 3.6))
    colors = dict(zip(GAMES["FTRL"][1], plot.categorical(7), strict=True))
    for (game, (environment, rows)), panel in zip(GAMES.items(), panels, strict=True):
        regret = play(environment, rows, list(horizons), trials)
        for name, (depends, _) in rows.items():
            mean, error = regret[name].mean(0), regret[name].std(0, ddof=1) / trials**0.5
            cells = [f"{m:.0f} ({e:.0f})" for m, e in zip(mean, error, strict=True)]
            print("|", " | ".join([game, name, depends, *cells]), "|")
            style = "-" if "noise" in depends else "--"
            panel.errorbar(horizons, mean, 2 * error, label=name, color=colors[name],
                           marker=".", ls=style)  # fmt: skip
        plot.label_axes(panel, game, "horizon T", "regret at T")
        panel.set(xscale="log", yscale="log")
        plot.ticks_at(panel.xaxis, horizons)
    panels[0].legend(fontsize=7, frameon=False)
    return figure


if __name__ == "__main__":
    main().savefig("cost_of_unknown_horizon.png", dpi=120)
