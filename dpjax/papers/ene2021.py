"""Ene, Nguyen & Vladu 2021: the regret of PRIVATEBANDIT, and the cost of its privacy.

The paper has no experiment. This module measures regret under three calibrations of the noise
against T, the dimension and epsilon, on a ball, a matroid base polytope and the paths of a graph.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import xarray

from dpjax import domains, environments, learners, mechanisms
from dpjax.core import Learner, Privacy
from dpjax.domains import Domain
from dpjax.feedback import value
from dpjax.learners._projection_free import printed_scale, smoothing_radius, step_size
from dpjax.learners.parts.one_point import directions
from dpjax.papers import _shared as shared
from dpjax.papers.sweeps import play
from dpjax.privacy import default_delta
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 2**14, 2**10
TRIALS, QUICK_TRIALS = 48, 8
EPSILONS = tuple(10.0 ** np.arange(-2.0, 3.01, 0.5))
DIMS = (2, 4, 8, 16, 32)
COST = "single_change less none"
SEED = 2021
BIAS = 2.0
RATES = (1.0, 1 / 64, 1 / 4096)  # times the default rate
CALIBRATIONS = ("single_change", "batch_norm", "printed")


def grid_graph(side: int) -> list[tuple[int, int]]:
    """Edges to the right and down of a square grid of nodes."""
    right = [(side * i + j, side * i + j + 1) for i in range(side) for j in range(side - 1)]
    down = [(side * i + j, side * i + j + side) for i in range(side - 1) for j in range(side)]
    return right + down


# Decision sets as functions of the dimension; losses are unit vectors in R^d, so L = 1.
INSTANCES: dict[str, Callable] = {
    "ball": lambda dim: domains.ball(5 if dim is None else dim),
    "matroid": lambda _: domains.capped_simplex(8, 3),
    "paths": lambda _: domains.paths(grid_graph(3), 0, 8),
}


def of_unit_losses(domain: Domain):
    """The domain, with losses of length at most 1."""
    return domain._replace(losses=domains.ball_losses(domain.dim))


def losses(domain: Domain):
    """I.i.d. unit vectors, biased towards a direction drawn for each trial."""
    return environments.linear_losses(of_unit_losses(domain), "iid", bias=BIAS)


def delta_of(horizon: int, noise: str):
    """T^-2 for Gaussian noise, None for Laplace noise."""
    return default_delta(horizon) if noise == "gaussian" else None


def _private(factory, horizon, domain, epsilon, noise="gaussian", **options) -> Learner:
    """A private learner for losses with L = 1."""
    return factory(horizon, of_unit_losses(domain), epsilon=epsilon, noise=noise,
                   delta=delta_of(horizon, noise), **options)  # fmt: skip


def _tree_with(stream) -> Callable:
    """The tree mechanism with the stream that a function (tree, shape, scale=) returns."""

    def mechanism(length, *, noise):
        tree = mechanisms.tree(length, noise=noise)
        return tree._replace(stream=partial(stream, tree))

    return mechanism


def noise_scale(
    domain: Domain, horizon: int, noise: str, calibration: str, epsilon: float
) -> float:
    """The scale of a node's noise on the tree."""
    if calibration == "none":
        return 0.0
    if calibration == "printed":
        dim, delta = directions(domain).dim, delta_of(horizon, noise)
        return float(printed_scale(horizon, dim, 1.0, epsilon, delta))
    asked = []

    def spy(tree, shape, *, scale):
        asked.append(float(scale))
        return tree.stream(shape, scale=scale)

    _private(learners.projection_free, horizon, domain, epsilon, noise,
             mechanism=_tree_with(spy), calibration=calibration)  # fmt: skip
    return asked[0]


def scaled(horizon: int, domain: Domain, noise: str, scale: float, rate: float) -> Learner:
    """PRIVATEBANDIT with noise of a given scale, so that one program plays all calibrations."""
    # The given scale replaces the one that the learner requests.
    mechanism = _tree_with(lambda tree, shape, **_: tree.stream(shape, scale=scale))
    return _private(learners.projection_free, horizon, domain, 1.0, noise, mechanism=mechanism,
                    rate=rate * default_rate(horizon, domain))  # fmt: skip


def default_rate(horizon: int, domain: Domain) -> float:
    """The learner's default rate for signed losses with L = 1."""
    n, batch = directions(domain).dim, int(horizon**0.5)
    zeta = smoothing_radius(horizon, domain.diameter, n)
    bound = domain.diameter + zeta
    return step_size(-(-horizon // batch), batch, domain.diameter, n, zeta, bound, 1.0)


def signal_to_noise(scale: float, horizon: int, noise: str, dim: int, gradient: float) -> float:
    """The ratio of the final norm of the summed gradients to that of their noise, by formula.

    Args:
      scale: noise scale of a node.
      horizon: T, rounds.
      noise: "laplace" or "gaussian".
      dim: n.
      gradient: mean length of the mean loss vector in the hull.
    """
    if scale == 0.0:
        return float("inf")
    nodes = np.log2(horizon) / 4  # half of the levels of sqrt T leaves, on average
    variance = (2.0 if noise == "laplace" else 1.0) * nodes * dim
    return float(horizon * gradient / (scale * np.sqrt(variance)))


def resting(horizon: int, domain: Domain) -> Learner:
    """A learner that always plays the centre, the best point without data."""
    centre, nothing = jnp.asarray(domain.centre, jnp.float32), jnp.zeros((), jnp.float32)
    return Learner(
        init=lambda key: (nothing, centre),
        step=lambda state, key, seen: (state, centre),
        feedback=value,
        action_set=domain,
        horizon=horizon,
        privacy=Privacy(),
    )


BASELINES: dict[str, Callable] = {
    "the centre": resting,
    "Flaxman et al., projected": lambda horizon, domain: learners.one_point_gradient(
        horizon, of_unit_losses(domain)
    ),
    "PRIVATEBANDIT": partial(_private, learners.projection_free),
    "PRIVATEBANDIT, buffered": partial(
        _private, learners.projection_free, mechanism=mechanisms.buffered
    ),
    "ST13-style, projected": partial(_private, learners.private_one_point),
}


def play_settings(kind: tuple[str, str], horizon: int, epsilons: Sequence[float],
                  rates: Sequence[float], trials: int,
                  dim: int | None = None) -> xarray.Dataset:  # fmt: skip
    """Play each calibration at all epsilons and rates, and no noise, against the same losses.

    Args:
      kind: an instance and a noise distribution.
      horizon, epsilons, trials: those of the games.
      rates: multiples of the default rate.
      dim: the dimension of the ball.

    Returns:
      A Dataset of final_regret (setting, trial) and scale (setting), the noise scale of a node. A
      setting is a calibration, an epsilon and a rate. The scalar coordinates are dim (n), centre
      (the mean regret of the best point without data), gradient (the mean length of the mean loss
      vector in the hull) and certified_distance (the largest distance of a base from its
      minimizer).
    """
    instance, noise = kind
    domain = INSTANCES[instance](dim)
    settings = [("none", np.inf, 1.0), *product(CALIBRATIONS, epsilons, rates)]
    scales = [noise_scale(domain, horizon, noise, name, e) for name, e, _ in settings]
    axis = {
        f"{name}, epsilon = {e:g}, rate = {rate:g}": np.array([scale, rate])
        for scale, (name, e, rate) in zip(scales, settings, strict=True)
    }

    def learner(horizon, setting):
        return scaled(horizon, domain, noise, setting[0], setting[1])

    study = Study({"PRIVATEBANDIT": learner}, {"iid": losses(domain)},
                  {"horizon": horizon, "setting": axis}, trials, SEED, checkpoints=1)  # fmt: skip
    data = play(study).squeeze(["learner", "environment"], drop=True)
    assert not data.clipped.any()
    total = data.tally_loss.values[0].astype(np.float64)
    best = np.asarray(jax.jit(jax.vmap(domain.minimizer))(total.astype(np.float32)), np.float64)
    hull = np.eye(domain.dim) if domain.tangent is None else domain.tangent
    index = pandas.MultiIndex.from_tuples(settings, names=["calibration", "epsilon", "rate"])
    result = data[["final_regret"]].reset_coords(drop=True).assign_coords(
        xarray.Coordinates.from_pandas_multiindex(index, "setting")
    )  # fmt: skip
    return result.assign(scale=("setting", scales)).assign_coords(
        horizon=horizon, instance=instance, noise=noise, dim=hull.shape[1],
        centre=np.sum(total * (domain.centre - best), axis=1).mean(),
        gradient=np.linalg.norm(total @ hull, axis=1).mean() / horizon,
        certified_distance=float(data.report_distance.max()),
    )  # fmt: skip


def joined(runs: Sequence[xarray.Dataset], axis: str) -> xarray.Dataset:
    """Runs along an axis, with the axes calibration, epsilon and rate instead of settings.

    The results without noise are repeated at every epsilon and rate. ``centre`` is a variable.
    """

    def unstacked(run):
        run = run.drop_vars(["scale", "gradient", "certified_distance"]).unstack("setting")
        plain = run.final_regret.sel(calibration="none", epsilon=np.inf, rate=1.0, drop=True)
        regret = run.final_regret.where(run.calibration != "none", plain).astype(np.float64)
        return run.assign(final_regret=regret).reset_coords("centre").expand_dims(axis)

    parts = [unstacked(run) for run in runs]
    result = xarray.concat(parts, axis, coords="different", compat="equals")
    return result.sel(calibration=["none", *CALIBRATIONS])


def rows_of(run: xarray.Dataset) -> list[dict]:
    """Final regrets, one row per setting."""
    plain = run.final_regret.values[0].astype(np.float64).mean()

    def more(row):
        places = ("scale", "horizon", "noise", "dim", "gradient")
        ratio = signal_to_noise(*(row[name] for name in places))
        return {"over_no_noise": row["regret"] / plain, "signal_to_noise": ratio}

    return shared.table(
        estimates.mean(run.final_regret).assign(scale=run.scale.variable), "setting",
        "instance noise calibration epsilon rate horizon dim scale regret standard_error centre "
        "over_no_noise signal_to_noise certified_distance trials",
        more, regret="mean",
    )  # fmt: skip


def slope_rows(data: xarray.Dataset, kind: tuple[str, str], variable: str, x: xarray.DataArray,
               paper: Mapping[str, float]) -> list[dict]:  # fmt: skip
    """Fitted exponents of regret and of the cost of noise, with those of the paper.

    A point counts if regret is below half of the centre's, because every algorithm that learns
    nothing has exponent 1. A cost must also be above 4 of its standard errors.

    Args:
      data: over calibrations and the axis of x.
      kind: its instance and noise distribution.
      variable, x: the name of the axis and its values.
      paper: calibration -> the paper's exponent; the key COST is for the cost of noise.
    """
    data = data.sel(rate=1.0)
    regret = data.final_regret.reset_coords(drop=True)
    learns = regret.mean("trial") < 0.5 * data.centre.reset_coords(drop=True)
    single = {"calibration": ["single_change"]}
    cost = regret.sel(single) - regret.sel(calibration="none", drop=True)
    estimate = estimates.mean(cost)
    clear = learns.sel(single) & (estimate["mean"] > 4 * estimate.standard_error)
    costs = shared.exponents(cost, x, clear).assign_coords(calibration=[COST])
    fits = xarray.concat([shared.exponents(regret, x, learns), costs], "calibration")

    def more(row):
        return {"instance": kind[0], "noise": kind[1], "variable": variable,
                "paper": paper[row["calibration"]]}  # fmt: skip

    names = "instance noise calibration variable slope low high paper points"
    return shared.table(fits.sel(calibration=list(paper)), "calibration", names, more)


def play_baselines(instances: Sequence[str], horizon: int, trials: int) -> list[dict]:
    """Play learners with and without projections, with and without privacy, at one horizon."""
    domains = {name: INSTANCES[name](None) for name in instances}

    def study(makers, epsilons):
        grid = {"horizon": horizon, "domain": domains, "epsilon": epsilons}
        return Study(makers, {"iid": losses}, grid, trials, SEED, checkpoints=1)

    others = dict(BASELINES)
    # Without noise all mechanisms are the same.
    buffered = {name: others.pop(name) for name in BASELINES if "buffered" in name}
    data = play(study(others, [1.0, np.inf]) + study(buffered, [1.0]))
    regret = data.final_regret.sel(learner=list(BASELINES))
    names = "instance learner epsilon horizon regret standard_error trials"
    return shared.table(estimates.mean(regret), "domain learner epsilon", names,
                        instance="domain", regret="mean")  # fmt: skip


def figure(data: xarray.Dataset, x: str, panel: str | None = None,
           ticks: Sequence[float] | None = None, note: str = "",
           lines: Iterable[tuple[xarray.DataArray, dict]] = ()):  # fmt: skip
    """Regret against x, with the regret of the centre."""
    centre = data.centre * xarray.ones_like(data[x], float)
    grey = {"linestyle": "-", "color": "0.6", "zorder": 0}
    return shared.figure(
        data.sel(rate=1.0), x, [(centre, grey), *lines], color="calibration", panel=panel,
        ticks=data[x].values.tolist() if ticks is None else ticks,
        note=f"PRIVATEBANDIT with Gaussian noise and delta = T^-2. Grey: always playing the "
        f"centre; a curve on the grey line has learned nothing. {note}",
    )  # fmt: skip


def horizon_figure(data: xarray.Dataset):
    """Regret against T, with the best rate in hindsight and a line of slope 3/4."""
    means = data.final_regret.mean("trial")
    last = means.sel(calibration="none", rate=1.0).isel(horizon=-1)
    lines = [(means.sel(calibration=name).min("rate"), {"linestyle": "--", "like": i})
             for i, name in enumerate(data.calibration.values)]  # fmt: skip
    lines += [(last * (data.horizon / data.horizon[-1]) ** 0.75, {})]
    note = "Dashed: the best of three learning rates, chosen in hindsight. Dotted: T^(3/4)."
    return figure(data, "horizon", "instance", note=note, lines=lines)


@shared.published(HORIZON, TRIALS, SEED)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play PRIVATEBANDIT over T, epsilon and the dimension, and other learners for comparison.

    The table "" has all final regrets, "_slopes" fitted exponents, "_baselines" other learners.
    Figures are against T (""), epsilon and the dimension.

    Horizons up to 16 T are played too; a short run plays only the ball, at three horizons up to
    4 T. At least 4 trials are needed. The figures against T and n have half as many, but at least
    4.
    """
    fewer = max(4, trials // 2)
    lengths = [2**i for i in range(8, 31, 2) if 2**i <= 16 * horizon]
    lengths = lengths[-4:-1] if short else lengths
    ball = ("ball", "gaussian")
    gaussian = [ball] if short else [(name, "gaussian") for name in INSTANCES]
    kinds = gaussian if short else [*gaussian, ("ball", "laplace")]
    at_one: dict[str, Any] = {"epsilons": (1.0,), "rates": RATES, "trials": fewer}
    runs = {kind: [play_settings(kind, length, **at_one) for length in lengths] for kind in kinds}
    by_horizon = {kind: joined(item, "horizon").sel(epsilon=1.0) for kind, item in runs.items()}
    over_time = xarray.concat([by_horizon[kind] for kind in gaussian], "instance",
                              coords="different", compat="equals")  # fmt: skip
    yield shared.Report(
        {"": [row for item in runs.values() for run in item for row in rows_of(run)]},
        {"": partial(horizon_figure, over_time)},
        {"epsilons": EPSILONS, "rates": RATES, "delta": "T^-2 for Gaussian noise"},
    )
    by_epsilon = [play_settings(kind, horizon, EPSILONS, (1.0,), trials) for kind in gaussian]
    by_dim = [play_settings(ball, horizon, dim=dim, **at_one)
              for dim in (DIMS[:1] if short else DIMS)]  # fmt: skip
    # Projections onto paths are too slow for the learners that project.
    baselines = play_baselines(("ball",) if short else ("ball", "matroid"), horizon, trials)
    levels, dims = joined(by_epsilon, "instance"), joined(by_dim, "dim").sel(epsilon=1.0)
    levels = levels.isel(epsilon=np.isfinite(levels.epsilon.values))
    strong = levels.isel(epsilon=levels.epsilon.values <= 10.0)
    slopes = []
    for kind, data in by_horizon.items():
        paper = {"none": 0.75, **dict.fromkeys(CALIBRATIONS, 0.75), COST: 0.5}
        slopes += slope_rows(data, kind, "T", data.horizon, paper)
    slopes += slope_rows(dims, ball, "n", dims.dim, {"none": 0.5, "single_change": 0.5})
    for kind in gaussian:
        item = strong.sel(instance=kind[0])
        slopes += slope_rows(item, kind, "1/epsilon", 1 / item.epsilon, {COST: 1.0})
    yield shared.Report(
        {"": [row for run in (*by_epsilon, *by_dim) for row in rows_of(run)], "_slopes": slopes,
         "_baselines": baselines},
        {"_epsilon": partial(figure, levels, "epsilon", "instance",
                             [0.01, 0.1, 1, 10, 100, 1000]),
         "_dim": partial(figure, dims, "dim")},
    )  # fmt: skip
