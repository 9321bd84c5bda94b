"""Ene, Nguyen & Vladu 2021: private routes on a small graph, over time."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import domains
from dpjax.papers.ene2021_learners import grid_graph, losses, noise_scale, scaled
from dpjax.report import plot
from dpjax.study.simulate import one_round, start

SEED = 2021
SIDE = 4
WIDTH = 8  # of the line of a flow of 1, in points
# What is drawn: the calibration, its name and its colour.
LABELS = {
    "none": "no noise",
    "single_change": "single change (ours)",
    "printed": "as printed",
}
COLORS = {"none": "black", "single_change": "tab:blue", "printed": "tab:green"}


def routes(horizon, epsilon=1.0):
    """The mean flow around which a learner plays, in four windows, for each calibration.

    Returns:
      {calibration: flows (4, d)}, and the best route in hindsight (d,).
    """
    domain = domains.paths(grid_graph(SIDE), 0, SIDE * SIDE - 1)
    delays = losses(domain)
    names = tuple(LABELS)
    scales = jnp.array([noise_scale(domain, horizon, "gaussian", n, epsilon) for n in names])
    window = horizon // 4

    @jax.jit
    @jax.vmap
    def run(scale):
        learner = scaled(horizon, domain, "gaussian", scale, 1.0)
        keys, states = start(learner, delays, jr.key(SEED))

        def summed(t, carry):
            states, flow, loss = carry
            flow = flow + states[0].base
            states, played = one_round(learner, delays, keys, t, states)
            return states, flow, loss + played.outcome.loss

        def one_window(carry, first):
            states, loss = carry
            carry = (states, jnp.zeros(domain.dim), loss)
            states, flow, loss = lax.fori_loop(first, first + window, summed, carry)
            return (states, loss), flow / window

        carry = (states, jnp.zeros(domain.dim))
        (_, loss), flows = lax.scan(one_window, carry, 1 + window * jnp.arange(4))
        return flows, domain.minimizer(loss)

    flows, best = jax.device_get(run(scales))
    return dict(zip(names, flows, strict=True)), best[0]


def routes_figure(horizon, epsilon=1.0):
    """Draws the graph for each calibration and window, and marks the best route in hindsight."""
    flows, best = routes(horizon, epsilon)
    edges = np.array(grid_graph(SIDE))
    drawn, panels = plot.panels(len(flows), 4, size=(11.0, 8.2))
    for row, (name, windows) in enumerate(flows.items()):
        for column in range(4):
            axes = panels[4 * row + column]
            for e, (a, b) in enumerate(edges):
                x, y = [a % SIDE, b % SIDE], [-(a // SIDE), -(b // SIDE)]
                if best[e] > 0.5:
                    axes.plot(x, y, color="tab:orange", linewidth=13, alpha=0.35, zorder=0)
                axes.plot(x, y, color="0.85", linewidth=0.8, zorder=1)
                width = float(windows[column][e])
                axes.plot(x, y, color=COLORS[name], linewidth=WIDTH * width, alpha=0.8, zorder=2)
            nodes = np.arange(SIDE * SIDE)
            axes.plot(nodes % SIDE, -(nodes // SIDE), "o", color="white", markersize=5, zorder=3,
                      markeredgecolor="0.3")  # fmt: skip
            axes.set_aspect("equal")
            axes.axis("off")
            part = f"rounds {column * horizon // 4 + 1} to {(column + 1) * horizon // 4}"
            level = LABELS[name] + ("" if name == "none" else f", $\\epsilon$ = {epsilon:g}")
            axes.set_title(f"{level}\n{part}", fontsize=8)
            for word, corner, shift in (("from", 0, 9), ("to", SIDE - 1, -15)):
                axes.annotate(
                    word, (corner, -corner), xytext=(0, shift), textcoords="offset points",
                    fontsize=7, horizontalalignment="center",
                )  # fmt: skip
    drawn.suptitle(
        "Mean flow, the share of each road in what is played around, in four windows of one trial\n"
        f"Gaussian noise, T = {horizon}, delta = T$^{{-2}}$; the vector of all roads' delays has "
        "length 1 in each round", fontsize=9,
    )  # fmt: skip
    for flow in (0.25, 0.5, 1.0):
        panels[0].plot([], [], color="0.3", linewidth=WIDTH * flow, label=f"flow {flow:g}")
    best_style = {"color": "tab:orange", "linewidth": 13, "alpha": 0.35}
    panels[0].plot([], [], **best_style, label="  best route in hindsight")
    drawn.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8,
        frameon=False, handlelength=3,
    )  # fmt: skip
    return drawn
