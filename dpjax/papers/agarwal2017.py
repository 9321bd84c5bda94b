"""Agarwal & Singh 2017, sections 1-3: when privacy is free with full information.

The paper has no experiment. This file asks what the title asks: for which epsilon is privacy free?
It plays experts, the sphere and the cube with the paper's calibration and ours, beside the paper's
baselines and later learners.
"""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners, mechanisms
from dpjax.combinators import arms_as_points
from dpjax.core import Feedback
from dpjax.learners.hedge import plain_rate
from dpjax.papers import agarwal2017_costs as costs
from dpjax.papers import agarwal2017_figures as figures
from dpjax.papers import agarwal2017_mechanisms as of_mechanisms
from dpjax.papers._shared import Report, publish
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.report import estimates, statistics
from dpjax.report.tables import columns, format_table, rows
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 120, 24
DIM = 10
DIMS, QUICK_DIMS = (4, 8, 16, 32, 64), (4, DIM)
# In float32, as they are played.
EPSILONS = (*(10.0 ** np.arange(-1.0, 3.01, 0.25)).astype(np.float32).tolist(), np.inf)
BIAS = 0.2
SEED = 2017


class Instance(NamedTuple):
    """A decision set and its losses, as the paper pairs them."""

    domain: str  # name in dpjax.bounds
    make: Callable  # dim -> (Domain, LossSet), the same objects for learners and environments


INSTANCES = {
    "experts": Instance("simplex", cache(lambda d: (domains.simplex(d), domains.box_losses(d)))),
    "sphere": Instance("ball", cache(lambda d: (domains.ball(d), domains.ball_losses(d)))),
    "cube": Instance("cube", cache(lambda d: (domains.cube(d), domains.l1_losses(d)))),
}


def _pure(factory, **options) -> Callable:
    def make(horizon, dim, instance, epsilon):
        domain, losses = instance.make(dim)
        return factory(horizon, domain._replace(losses=losses), epsilon=epsilon, **options)

    return make


def _with_delta(factory, **options) -> Callable:
    def make(horizon, dim, instance, epsilon):
        make_pure = _pure(factory, delta=default_delta(horizon), **options)
        return make_pure(horizon, dim, instance, epsilon)

    return make


IDENTICAL_LAW = partial(mechanisms.tree, identical_law=True)
LEARNERS: dict[str, Callable] = {
    "FTRL": _pure(learners.ftrl),
    "FTRL, identical law": _pure(learners.ftrl, mechanism=IDENTICAL_LAW),
    "FTRL, identical law, printed": _pure(
        learners.ftrl, mechanism=IDENTICAL_LAW, calibration="printed"
    ),
    "FTPL, Gaussian": _with_delta(learners.ftpl),
    "FTRL, Gaussian, buffered": _with_delta(
        learners.ftrl, noise="gaussian", mechanism=mechanisms.buffered
    ),
    "private FTAL": _pure(learners.private_ftal),
    "noisy output gradient, Gaussian": _with_delta(learners.private_giga),
}


def _on_unit_losses(learner):
    """Shows the learner losses moved from [-1, 1] into [0, 1], where its calibration holds."""
    return learner._replace(feedback=Feedback("moved", lambda loss, action: (loss + 1.0) / 2.0))


def _hedge(horizon, dim, epsilon):
    delta = default_delta(horizon)
    return _on_unit_losses(learners.hedge(horizon, dim, epsilon=epsilon, delta=delta))


def _dartboard(horizon, dim, epsilon):
    """The shrinking dartboard at the rate that gives it Hedge's law: (1 - eta)^L = exp(-eta' L)."""
    delta, rate = default_delta(horizon), -jnp.expm1(-plain_rate(horizon, dim))
    return _on_unit_losses(
        learners.shrinking_dartboard(horizon, dim, epsilon=epsilon, delta=delta, rate=rate)
    )


# These play arms, so only the experts have them.
ARM_LEARNERS: dict[str, Callable] = {"Hedge, sampled": _hedge, "shrinking dartboard": _dartboard}
# The paper's algorithm and the one that it improves on are played at several horizons.
HORIZON_LEARNERS = ("FTRL", "private FTAL")


def losses(instance, dim):
    """I.i.d. losses of an instance."""
    domain, loss_set = instance.make(dim)
    return environments.linear_losses(domain, "iid", loss_set=loss_set, bias=BIAS)


def horizons(horizon) -> list[int]:
    """The horizons at which regret is followed: 2^8, 2^10, ... up to 4 T, in short runs to T."""
    longest = 4 * horizon if horizon >= HORIZON else horizon
    return [2**i for i in range(8, 31, 2) if 2**i <= longest]


def study(names, horizons, dims, trials) -> Study:
    """Some of LEARNERS on all instances."""
    grid = {"instance": INSTANCES, "horizon": horizons, "dim": dims, "epsilon": EPSILONS}
    makers = {name: LEARNERS[name] for name in names}
    return Study(makers, {"iid": losses}, grid, trials, SEED, checkpoints=1)


def arm_study(horizon, trials) -> Study:
    """ARM_LEARNERS on the experts."""
    grid = {"instance": {"experts": INSTANCES["experts"]}, "horizon": [horizon], "dim": [DIM],
            "epsilon": EPSILONS}  # fmt: skip
    arms = {"iid": lambda instance, dim: arms_as_points(losses(instance, dim), dim)}
    return Study(ARM_LEARNERS, arms, grid, trials, SEED, checkpoints=1)


def with_costs(data) -> xarray.Dataset:
    """The data with what privacy costs in each trial, and what costs are compared with.

    These are the mean regret of always playing the centre, against the same losses, as ``centre``,
    and the theorem's ``bound`` for FTRL with the tree of the identical law.
    """
    data = data.squeeze("environment")
    regret = data.final_regret.astype(np.float64)
    total = data.tally_loss.isel(learner=0, epsilon=0).astype(np.float64)
    centre = regret.isel(learner=0, epsilon=0).copy()
    for name, dim in ((name, dim) for name in data.instance.values for dim in data.dim.values):
        domain, at = INSTANCES[name].make(int(dim))[0], {"instance": name, "dim": dim}
        sums = total.sel(at).values[..., :dim]
        best = jax.vmap(domain.minimizer)(sums.reshape(-1, dim).astype(np.float32))
        best = np.asarray(best, np.float64).reshape(sums.shape)
        centre.loc[at] = sums @ domain.centre - (sums * best).sum(-1)
    ftrl_bounds = [
        xarray.apply_ufunc(partial(bounds.ftrl, domain=INSTANCES[name].domain),
                           data.horizon, data.dim, data.epsilon)
        for name in data.instance.values
    ]  # fmt: skip
    return data.assign(
        final_regret=regret, cost=regret - regret.sel(epsilon=np.inf, drop=True),
        centre=centre.mean("trial"), bound=xarray.concat(ftrl_bounds, data.instance),
    )  # fmt: skip


def table(data) -> list[dict]:
    """Final regret and what privacy costs, one row per privacy level."""
    found = estimates.mean(data.final_regret)[["mean", "standard_error"]].rename(mean="regret")
    band = statistics.mean_band(data.cost.values, axis=data.cost.get_axis_num("trial"))
    for name, values in zip(("cost", "cost_low", "cost_high"), band, strict=True):
        found[name] = found.regret.copy(data=values)
    names = {"delta": "privacy_delta", "calibration": "privacy_calibration"}
    order = ("instance", "learner", "horizon", "dim", "epsilon")
    cells = rows(found.assign(centre=data.centre, bound=data.bound), order, **names)
    for row in cells:
        row["bound"] = row["bound"] if row["learner"] == "FTRL, identical law" else None
        row["trials"] = data.sizes["trial"]
    return columns(cells, "instance learner horizon dim epsilon delta calibration regret "
                   "standard_error cost cost_low cost_high centre bound trials")  # fmt: skip


def reproduce(
    out: str | os.PathLike = "results/agarwal2017",
    *,
    horizon: int = HORIZON,
    trials: int = TRIALS,
    progress: bool = True,
) -> str:
    """Plays everything, writes the files of a :class:`Report`, and returns the printed summary.

    The table "" has all final regrets, "_free" the epsilon from which on privacy is free, "_slopes"
    fitted exponents, "_mechanisms" errors and regret of each mechanism. Figures are of regret
    against epsilon ("") and T ("_horizon"), "_map", "_mechanisms" and their "_errors".

    Arguments and errors are as :mod:`dpjax.papers` says; trials are at least 4.
    """
    if trials < 4:
        raise ValueError(f"trials must be at least 4, got {trials}")
    # A short run has as many trials everywhere, so that some programs serve twice.
    fewer, dims = (max(4, trials // 2), DIMS) if horizon >= HORIZON else (trials, QUICK_DIMS)

    def experiment():
        everyone = study(LEARNERS, [horizon], [DIM], trials) + arm_study(horizon, trials)
        data = with_costs(play(everyone, progress))
        lengths = study(HORIZON_LEARNERS, horizons(horizon), [DIM], fewer)
        lengths = with_costs(play(lengths, progress))
        sizes = with_costs(play(study(["FTRL"], [horizon], dims, fewer), progress))
        sphere = {"sphere": INSTANCES["sphere"]}
        noisy = of_mechanisms.study(horizon, DIM, sphere, losses, fewer, SEED)
        noisy = play(noisy, progress, chunk=128).sel(mechanism=of_mechanisms.names())
        free = costs.free_table(data)
        tables = {
            "": [row for group in (data, lengths, sizes) for row in table(group)],
            "_free": free,
            "_slopes": costs.slopes(data, lengths, sizes),
            "_mechanisms": of_mechanisms.table(noisy, domains.ball_losses(DIM)),
        }
        return Report(
            tables=tables,
            figures={
                "": partial(figures.figure, data, free),
                "_horizon": partial(figures.horizon_figure, lengths),
                "_map": partial(figures.map_figure, lengths),
                "_mechanisms": partial(of_mechanisms.figure, noisy),
                "_errors": partial(of_mechanisms.error_figure, horizon),
            },
            parameters={"dim": DIM, "epsilons": EPSILONS, "delta": default_delta(horizon),
                        "bias": BIAS, "resamples": 400, "neighbours": "replace"},
            text="\n\n".join(format_table(found) for name, found in tables.items() if name),
        )  # fmt: skip

    return publish(out, "agarwal2017", experiment, horizon=horizon, trials=trials, seed=SEED)
