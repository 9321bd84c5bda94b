"""Agarwal & Singh 2017, sections 1-3: when privacy is free with full information.

The paper has no experiment. This module asks for which epsilon privacy is free. On experts, the
sphere and the cube it plays the paper's learners, with the paper's calibration and ours, its
baselines, and later learners.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import xarray

from dpjax import bounds, domains, environments, learners, mechanisms
from dpjax.combinators import arms_as_points
from dpjax.core import Feedback
from dpjax.learners._hedge import plain_rate
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.report import arrays, estimates, trends
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 120, 24
DIM = 10
DIMS = (4, 8, 16, 32, 64)
HORIZONS = tuple(2**i for i in range(8, 31, 2))
# The paper's algorithm and the one that it improves are played at several horizons.
HORIZON_LEARNERS = ("FTRL", "private FTAL")
# The instances and learners of a short run.
QUICK = ("experts", "sphere", "FTRL", "FTRL, Gaussian, buffered", "Hedge, sampled")
# In float32, as they are played.
EPSILONS = (*(10.0 ** np.arange(-1.0, 3.01, 0.25)).astype(np.float32).tolist(), np.inf)
BIAS = 0.2
SEED = 2017


class Instance(NamedTuple):
    """A decision set with its losses, paired as in the paper."""

    domain: str  # name in dpjax.bounds
    make: Callable  # dim -> Domain, the same object for learners and environments


def _instance(name, domain, losses) -> Instance:
    return Instance(name, cache(lambda dim: domain(dim)._replace(losses=losses(dim))))


INSTANCES = {
    "experts": _instance("simplex", domains.simplex, domains.box_losses),
    "sphere": _instance("ball", domains.ball, domains.ball_losses),
    "cube": _instance("cube", domains.cube, domains.l1_losses),
}


def _learner(factory, with_delta=False, **options) -> Callable:
    def make(horizon, dim, instance, epsilon):
        delta = {"delta": default_delta(horizon)} if with_delta else {}
        return factory(horizon, instance.make(dim), epsilon=epsilon, **delta, **options)

    return make


IDENTICAL_LAW = partial(mechanisms.tree, identical_law=True)
LEARNERS: dict[str, Callable] = {
    "FTRL": _learner(learners.ftrl),
    "FTRL, identical law": _learner(learners.ftrl, mechanism=IDENTICAL_LAW),
    "FTRL, identical law, printed": _learner(
        learners.ftrl, mechanism=IDENTICAL_LAW, calibration="printed"
    ),
    "FTPL, Gaussian": _learner(learners.ftpl, with_delta=True),
    "FTRL, Gaussian, buffered": _learner(
        learners.ftrl, with_delta=True, noise="gaussian", mechanism=mechanisms.buffered
    ),
    "private FTAL": _learner(learners.private_ftal),
    "noisy output gradient, Gaussian": _learner(learners.private_giga, with_delta=True),
}


def _arm_learner(factory, options=lambda horizon, dim: {}) -> Callable:
    """Shift losses from [-1, 1] into [0, 1], the range of the learner's calibration."""

    def make(horizon, dim, epsilon):
        arguments = options(horizon, dim) | {"epsilon": epsilon, "delta": default_delta(horizon)}
        moved = Feedback("moved", lambda loss, action: (loss + 1.0) / 2.0)
        return factory(horizon, dim, **arguments)._replace(feedback=moved)

    return make


# These play arms, so only the instance of experts has them. The dartboard has the rate that gives
# it Hedge's distribution: (1 - eta)^L = exp(-eta' L).
ARM_LEARNERS: dict[str, Callable] = {
    "Hedge, sampled": _arm_learner(learners.hedge),
    "shrinking dartboard": _arm_learner(
        learners.shrinking_dartboard, lambda t, n: {"rate": -jnp.expm1(-plain_rate(t, n))}
    ),
}


def losses(instance: Instance, dim: int):
    """I.i.d. losses of an instance."""
    return environments.linear_losses(instance.make(dim), "iid", bias=BIAS)


def play_on_all(makers: Mapping[str, Any], instances: Mapping[str, Any], horizons: Sequence[int],
                dims: Sequence[int], epsilons: Sequence[float], trials: int,
                arm_learners: Mapping[str, Any] | None = None) -> xarray.Dataset:  # fmt: skip
    """Play learners on instances, and learners of arms on the experts.

    Returns:
      The data, with the cost of privacy in each trial, ``cost``, and two values to compare it with:
      ``centre``, the mean regret of always playing the centre against the same losses, and
      ``bound``, the theorem's bound for FTRL with the tree and ``identical_law``.
    """
    sizes = {"horizon": horizons, "dim": dims, "epsilon": epsilons}

    def study(makers, instances, environment=losses):
        return Study(makers, {"iid": environment}, {"instance": instances, **sizes}, trials, SEED,
                     checkpoints=1)  # fmt: skip

    def losses_of_arms(instance, dim):
        return arms_as_points(losses(instance, dim), dim)

    played = study(makers, instances)
    if arm_learners is not None:
        played += study(arm_learners, {"experts": INSTANCES["experts"]}, losses_of_arms)
    data = play(played).squeeze("environment")
    regret = data.final_regret.astype(np.float64)
    axes = {name: data[name].values.tolist() for name in ("instance", "horizon", "dim", "epsilon")}

    def bound(instance, horizon, dim, epsilon):
        return bounds.ftrl(horizon, dim, epsilon, domain=INSTANCES[instance].domain)

    def lost(instance, horizon, dim):
        domain = INSTANCES[instance].make(dim)
        at = {"instance": instance, "horizon": horizon, "dim": dim}
        total = data.tally_loss.isel(learner=0, epsilon=0).sel(at)
        minimizers = jax.jit(jax.vmap(domain.minimizer))
        sums = total.values[:, :dim].astype(np.float64)
        best = np.asarray(minimizers(sums.astype(np.float32)), np.float64)
        return np.mean(sums @ domain.centre - (sums * best).sum(-1))

    data["bound"] = shared.labelled(bound, **axes)
    del axes["epsilon"]
    cost = regret - regret.sel(epsilon=np.inf, drop=True)
    return data.assign(final_regret=regret, cost=cost, centre=shared.labelled(lost, **axes))


def table(data: xarray.Dataset) -> list[dict]:
    """Final regret and the cost of privacy, with a normal interval; one row per privacy level."""
    estimate, cost = (estimates.mean(data[name]) for name in ("final_regret", "cost"))
    width = scipy.special.ndtri(0.975) * cost.standard_error
    estimate = estimate.assign(cost=cost["mean"], cost_low=cost["mean"] - width,
                         cost_high=cost["mean"] + width, centre=data.centre)  # fmt: skip
    estimate["known"] = data.bound.where(data.learner == "FTRL, identical law")
    return shared.table(
        estimate, "instance learner horizon dim epsilon",
        "instance learner horizon dim epsilon delta calibration regret standard_error cost "
        "cost_low cost_high centre bound trials",
        lambda row: {"bound": None if np.isnan(row["known"]) else row["known"]},
        delta="privacy_delta", calibration="privacy_calibration", regret="mean",
    )  # fmt: skip


def free_table(data: xarray.Dataset) -> list[dict]:
    """The epsilon from which privacy is free, one row per learner and instance."""
    estimate = data.dpjax.crossing(1.1)
    estimate["without_privacy"] = data.final_regret.sel(epsilon=np.inf).mean("trial")
    estimate["delta"] = data.privacy_delta.isel(epsilon=0)
    names = "instance learner delta without_privacy epsilon low high trials"
    estimate = estimate.reset_coords(drop=True).squeeze(["horizon", "dim"])
    return shared.table(estimate, "instance learner", names, epsilon="crossing")


def usable(data: xarray.Dataset) -> xarray.DataArray:
    """Whether the mean cost is above 4 standard errors and below a third of the centre's regret."""
    cost = estimates.mean(data.cost)
    return (cost["mean"] > 4 * cost.standard_error) & (cost["mean"] < data.centre / 3)


def readable(data: xarray.Dataset, axis: str) -> xarray.DataArray:
    """The epsilon of each instance with the most sizes at which all learners have usable costs.

    If several epsilons tie, it is the first.
    """
    counts = usable(data).sum(axis)
    points = data.sizes[axis] * data.sizes["learner"] + 1
    return (counts.min("learner") * points + counts.sum("learner")).idxmax("epsilon")


def slopes(data: xarray.Dataset, lengths: xarray.Dataset, sizes: xarray.Dataset) -> list[dict]:
    """Fitted exponents of the cost of privacy, with those of Table 1 of the paper.

    For 1 / epsilon, each learner is fitted over its own usable range. For T and N, all learners of
    an instance are fitted at one epsilon.
    """
    printed = {"1/epsilon": "1", "N": "1 (experts: and ln N)", "T": "0 (and log^2 T)"}

    def fitted(data, variable, x):
        fits = shared.exponents(data.cost, x, usable(data)).reset_coords(drop=True)
        if "at" in data:
            fits["at"] = data["at"]
        return shared.table(
            fits, "instance learner",
            "instance learner variable slope low high points from to printed epsilon",
            lambda row: {
                "variable": variable, "epsilon": row.get("at"),
                "printed": printed[variable] if row["learner"].startswith("FTRL") else "",
            },
        )  # fmt: skip

    finite = data.squeeze(["horizon", "dim"]).isel(epsilon=slice(-1))
    fits = fitted(finite, "1/epsilon", 1 / finite.epsilon)
    for variable, axis, group in (("T", "horizon", lengths), ("N", "dim", sizes)):
        group = group.squeeze("dim" if axis == "horizon" else "horizon")
        best = readable(group.isel(epsilon=slice(-1)), axis)
        fits += fitted(group.sel(epsilon=best).assign(at=best), variable, group[axis])
    return fits


def figure(data: xarray.Dataset, free: list[dict]):
    """Regret against epsilon on three instances, with the level of free privacy and the bound."""
    at = {(row["instance"], row["learner"]): row["epsilon"] for row in free}
    at = {key: "beyond 1000" if np.isinf(e) else f"{e:.3g}" for key, e in at.items()}
    shown = [f"{at[name, 'FTRL']} and {at[name, 'FTRL, Gaussian, buffered']} ({name})"
             for name in data.instance.values]  # fmt: skip
    data = data.squeeze(["horizon", "dim"])
    finite = data.isel(epsilon=slice(-1))
    plain = data.final_regret.sel(learner="FTRL", epsilon=np.inf).mean("trial")
    same = xarray.ones_like(finite.epsilon)
    lines = [
        (1.1 * plain * same, {"label": "within 10 % of FTRL without privacy"}),
        (data.centre * same, {"label": "always the centre", "linestyle": "-."}),
        (finite.bound, {"label": "theorem's bound, our constants", "linestyle": "--"}),
    ]
    drawn = shared.figure(
        data, "epsilon", lines, color="learner", panel="instance",
        note="Privacy is called free if regret is within 10 % of the same learner's regret "
        "without privacy. FTRL reaches this with the Laplace tree and with buffered Gaussian noise "
        f"at epsilon = {'; '.join(shown)}. Laplace noise is pure; Gaussian noise has delta = T^-2. "
        "Neighbouring sequences differ in one round's losses. Calibrations as we read them: for "
        "these neighbours our noise scale is twice the printed one, which is correct if the losses "
        "of a round can only become zero, or if experts' losses lie in [0, 1].",
    )  # fmt: skip
    for axes, name in zip(drawn.axes, data.instance.values, strict=True):
        part = data.sel(instance=name)
        axes.set_ylim(0.7 * part.final_regret.mean("trial").min(), 2 * part.centre)
    return drawn


def frontier(data: xarray.Dataset, share: float = 0.5) -> xarray.DataArray:
    """The epsilon at which mean regret is ``share`` of the centre's; nan if it is out of range."""
    part = data.isel(epsilon=np.isfinite(data.epsilon.values))
    ratio = part.final_regret.mean("trial") / part.centre
    first = partial(trends.first_within, np.log(part.epsilon.values), level=share)
    estimate = xarray.apply_ufunc(first, ratio, input_core_dims=[["epsilon"]])
    return estimate.where((estimate > 0) & np.isfinite(estimate))


def map_figure(data: xarray.Dataset):
    """A map of the (T, epsilon) at which bounds on the cube are below T, with measured points."""
    dim, horizons = int(data.dim.item()), 2.0 ** np.arange(6, 41)
    nodes, rest = np.log2(horizons), horizons - np.sqrt(dim * horizons)
    before, printed = np.sqrt(dim / horizons), dim * nodes**2 / rest
    names = {
        "earlier bound, $\\sqrt{NT}/\\epsilon = T$": before,
        "paper's bound, $\\sqrt{NT} + N \\log_2^2 T/\\epsilon = T$": printed,
        "the same with our constants": 4 * np.sqrt(2) * dim * np.ceil(nodes) ** 1.5 / rest,
    }
    lines = xarray.DataArray([*names.values()], {"bound": [*names], "horizon": horizons})
    start = int(np.log2(horizons[np.argmax(before > printed)]))
    drawn = shared.lines_figure(
        lines, "horizon", "bound", ylabel="epsilon",
        note=f"Above its line, a bound on regret is below T. Cube, N = {dim}, constants 1.\n"
        f"Shaded, from $T = 2^{{{start}}}$ on: only the paper's bound is below T.\n"
        "Marks: measured regret is half of that of always playing the centre.",
    )  # fmt: skip
    (axes,) = drawn.axes
    axes.fill_between(horizons, printed, before, where=before > printed, alpha=0.15)
    for name, mark in zip(data.learner.values, "os", strict=False):
        measured = frontier(data.squeeze("dim").sel(instance="cube", learner=name))
        axes.plot(measured.horizon, measured, mark, color="0.2", markersize=4, label=name)
    shared.name_lines(drawn)
    return shared.logarithmic(drawn, base=2)


@shared.published(HORIZON, TRIALS, SEED)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play experts, the sphere and the cube over epsilon, over T and over N.

    The table "" has all final regrets, "_free" the epsilon from which privacy is free, "_slopes"
    fitted exponents. Figures show regret against epsilon ("") and T ("_horizon"), and "_map".

    A short run plays FTRL with two mechanisms on experts and the sphere, and Hedge on experts. At
    least 4 trials are needed. The games over T and over N have half as many, but at least 4.
    """
    instances, makers, arm_makers = (
        shared.chosen(every, QUICK, short) for every in (INSTANCES, LEARNERS, ARM_LEARNERS)
    )
    epsilons = (*EPSILONS[:-1:4], np.inf) if short else EPSILONS
    data = play_on_all(makers, instances, [horizon], [DIM], epsilons, trials, arm_makers)
    free = free_table(data)
    yield shared.Report(
        {"": table(data), "_free": free},
        {"": partial(figure, data, free)},
        {"dim": DIM, "epsilons": epsilons, "delta": default_delta(horizon),
         "bias": BIAS, "resamples": arrays.DRAWS, "neighbours": "replace"},
    )  # fmt: skip
    # A short run has the same number of trials everywhere, so that compiled programs are reused.
    fewer, dims = (trials, DIMS[:1]) if short else (max(4, trials // 2), DIMS)
    horizons = [horizon] if short else [item for item in HORIZONS if item <= 4 * horizon]
    two = {name: LEARNERS[name] for name in HORIZON_LEARNERS}
    lengths = play_on_all(two, INSTANCES, horizons, [DIM], epsilons, fewer)
    one = {"FTRL": two["FTRL"]}
    sizes = play_on_all(one, INSTANCES, [horizon], dims, epsilons, fewer)
    yield shared.Report(
        {"": table(lengths) + table(sizes), "_slopes": slopes(data, lengths, sizes)},
        {
            "_horizon": partial(
                shared.figure, lengths.squeeze("dim").sel(epsilon=[1.0, 10.0, 100.0, np.inf]),
                "horizon", base=2, color="epsilon", line="learner", panel="instance",
                note="FTRL at epsilon = 100 and FTRL without privacy coincide.",
            ),
            "_map": partial(map_figure, lengths),
        },
    )  # fmt: skip
