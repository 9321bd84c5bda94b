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
# What is drawn: the calibration, and its colour.
COLORS = {"none": "black", "single_change": "tab:blue", "printed": "tab:green"}
BEST = {"color": "tab:orange", "linewidth": 13, "alpha": 0.35}


def routes(horizon, epsilon=1.0):
    """The mean flow around which a learner plays, in four windows, for each calibration.

    Returns:
      {calibration: flows (4, d)}, and the best route in hindsight (d,).
    """
    domain = domains.paths(grid_graph(SIDE), 0, SIDE * SIDE - 1)
    delays = losses(domain)
    names = tuple(COLORS)
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
    down, right = np.divmod(np.array(grid_graph(SIDE)).T, SIDE)  # (2, edges)
    nodes = np.arange(SIDE * SIDE)
    drawn, panels = plot.panels(len(flows), 4, size=(11.0, 8.2))
    cells = [(name, i, flow) for name, windows in flows.items() for i, flow in enumerate(windows)]
    for axes, (name, i, flow) in zip(panels, cells, strict=True):
        axes.plot(right[:, best > 0.5], -down[:, best > 0.5], **BEST)
        axes.plot(right, -down, color="0.85", linewidth=0.8)
        roads = axes.plot(right, -down, color=COLORS[name], alpha=0.8)
        for road, width in zip(roads, WIDTH * flow, strict=True):
            road.set_linewidth(width)
        axes.plot(nodes % SIDE, -(nodes // SIDE), "o", color="white", markersize=5,
                  markeredgecolor="0.3")  # fmt: skip
        axes.text(-0.25, 0, "from", fontsize=7, horizontalalignment="right")
        axes.text(SIDE - 0.75, 1 - SIDE, "to", fontsize=7)
        axes.set_aspect("equal")
        axes.axis("off")
        rounds = f"rounds {i * horizon // 4 + 1} to {(i + 1) * horizon // 4}"
        axes.set_title(f"{name}, {rounds}", fontsize=8)
    drawn.suptitle(
        "Mean flow, the share of each road in what is played around, in four windows of one trial\n"
        f"Gaussian noise at epsilon = {epsilon:g} or none, T = {horizon}, delta = T$^{{-2}}$; the "
        "vector of all roads' delays has length 1 in each round", fontsize=9,
    )  # fmt: skip
    for flow in (0.25, 0.5, 1.0):
        panels[0].plot([], [], color="0.3", linewidth=WIDTH * flow, label=f"flow {flow:g}")
    panels[0].plot([], [], **BEST, label="  best route in hindsight")
    drawn.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False, handlelength=3)
    return drawn
