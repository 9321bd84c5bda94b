"""Figures of Agarwal & Singh 2017: regret against epsilon and the horizon, and a map of both."""

import numpy as np

from dpjax.report import plot, trends


def figure(data, free):
    """Regret against epsilon on the three instances.

    Args:
      data: of all learners, with ``centre`` and ``bound``.
      free: the rows of the table of free epsilons.
    """
    at = {(row["instance"], row["learner"]): _free(row["epsilon"]) for row in free}
    shown = [
        f"{at[name, 'FTRL']} and {at[name, 'FTRL, Gaussian, buffered']} ({name})"
        for name in data.instance.values
    ]
    data = data.squeeze(["horizon", "dim"])
    drawn = data.dpjax.figure(
        "epsilon", color="learner", panel="instance",
        note="Privacy is free (regret within 10 % of the same learner's without it) "
        f"for FTRL with the Laplace tree and with buffered Gaussian noise from epsilon = "
        f"{'; '.join(shown)}. Gaussian noise: delta = T^-2; Laplace noise: pure. Neighbours: one "
        "round's losses replaced. Calibrations as we read them: the printed scale is half ours "
        "under this reading, and right where a round is zeroed out or experts' losses lie in "
        "[0, 1].",
    )  # fmt: skip
    plain = data.final_regret.sel(learner="FTRL", epsilon=np.inf).mean("trial")
    finite = data.epsilon[np.isfinite(data.epsilon)]
    for axes, name in zip(drawn.axes, data.instance.values, strict=True):
        part = data.sel(instance=name)
        lines = [
            axes.axhline(1.1 * plain.sel(instance=name), color="0.3", linestyle=":", linewidth=1.0,
                         label="within 10 % of FTRL without privacy"),
            axes.axhline(part.centre, color="0.5", linestyle="-.", linewidth=1.0,
                         label="always the centre"),
            *axes.plot(finite, part.bound.sel(epsilon=finite), ":", color="tab:blue",
                       label="theorem's bound, our constants"),
        ]  # fmt: skip
        axes.set_yscale("log")
        axes.set_ylim(0.7 * part.final_regret.mean("trial").min(), 2 * part.centre)
    (learners,) = drawn.legends
    labels = [text.get_text() for text in learners.get_texts()]
    learners.remove()
    drawn.legend(
        [*learners.legend_handles, *lines], [*labels, *(line.get_label() for line in lines)],
        loc="outside right upper", frameon=False, fontsize=8, handlelength=3.0,
    )  # fmt: skip
    return drawn


def _free(epsilon) -> str:
    return "beyond 1000" if np.isinf(epsilon) else f"{epsilon:.3g}"


def horizon_figure(data):
    """Regret against T on the three instances."""
    shown = data.squeeze("dim").sel(epsilon=[1.0, 10.0, 100.0, np.inf])
    drawn = shown.dpjax.figure(
        "horizon", color="epsilon", line="learner", panel="instance",
        note="FTRL at epsilon = 100 lies under FTRL without privacy.",
    )  # fmt: skip
    for axes in drawn.axes:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    return drawn


def frontier(data, share=0.5):
    """The epsilon at which mean regret is ``share`` of the centre's; nan where it is out of range.

    Args:
      data: of one learner over horizons, with ``centre``.
      share: of the centre's mean regret.

    Returns:
      An array, one entry per horizon.
    """
    part = data.isel(epsilon=np.isfinite(data.epsilon.values))
    ratio = (part.final_regret.mean("trial") / part.centre).transpose("horizon", "epsilon")
    found = trends.first_within(np.log(part.epsilon.values), ratio.values, share)
    return np.where((found > 0) & np.isfinite(found), found, np.nan)


def map_figure(data):
    """A map of the (T, epsilon) where bounds on the cube are below T, with what was measured."""
    drawn, (axes,) = plot.panels(1, 1, size=(7.6, 5.2))
    dim, horizons = int(data.dim.item()), 2.0 ** np.arange(6, 41)
    nodes = np.log2(horizons)
    before = np.sqrt(dim / horizons)
    printed = dim * nodes**2 / (horizons - np.sqrt(dim * horizons))
    ours = 4 * np.sqrt(2) * dim * np.ceil(nodes) ** 1.5 / (horizons - np.sqrt(dim * horizons))
    axes.plot(horizons, before, "tab:red", label="earlier bound, $\\sqrt{NT}/\\epsilon = T$")
    axes.plot(horizons, printed, "tab:blue",
              label="paper's bound, $\\sqrt{NT} + N \\log_2^2 T/\\epsilon = T$")  # fmt: skip
    axes.plot(horizons, ours, ":", color="tab:blue", label="the same with our constants")
    cube = data.squeeze("dim").sel(instance="cube")
    for name, color in zip(cube.learner.values, ("tab:blue", "tab:red"), strict=False):
        axes.plot(cube.horizon, frontier(cube.sel(learner=name)), "o", color=color, markersize=4,
                  label=f"{name}: measured regret = half of the centre's")  # fmt: skip
    axes.fill_between(
        horizons, printed, before, where=before > printed, color="tab:blue", alpha=0.15
    )
    crossing = horizons[np.argmax(before > printed)]
    plot.label_axes(
        axes,
        f"Above its line a bound says something; cube, N = {dim}, constants 1\n"
        f"Shaded: only the paper's does, from $T = 2^{{{int(np.log2(crossing))}}}$ on",
        xlabel="horizon T", ylabel="epsilon",
    )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.legend(fontsize=8, frameon=False)
    return drawn
