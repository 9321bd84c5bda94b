"""Rates of private bandits: fitted exponents of T, N and 1 / epsilon, and where batches win.

This is a part of the reproduction of Agarwal & Singh 2017, section 4.
"""

from functools import partial
from itertools import product

import numpy as np

from dpjax.papers._shared import exponent
from dpjax.report import arrays, trends

# Exponents of T, N and 1 / epsilon, without logarithms: Table 2's, and the newer ones for batches.
RATES = {
    "arms": {"T": 0.5, "N": 0.5, "1/epsilon": 1.0},
    "batches": {"T": 0.5, "N": 0.5, "1/epsilon": 0.5},
    "ball": {"T": 0.5, "N": 1.5, "1/epsilon": 1.0},
}


def worst(regret, trials=slice(None)):
    """The largest mean regret over the difficulties, (..., difficulties, n) -> (...)."""
    return regret[..., trials].mean(axis=-1).max(axis=-1)


def slope(x, regrets, ceilings):
    """Slope of the log of the worst mean regret over log x with its 95 % interval.

    A point is used where its regret is below half of what doing nothing loses in the worst case.
    With fewer than two such points the slope is nan. The last value is the number of points.

    Args:
      x: (n,).
      regrets: (n, difficulties, trials).
      ceilings: (n,), the largest regret of doing nothing.
    """
    usable = worst(regrets) < 0.5 * ceilings
    return *exponent(x, partial(worst, regrets), usable, regrets.shape[-1]), int(usable.sum())


def slope_table(whole, lengths, sizes) -> list[dict]:
    """Fitted exponents beside those of Table 2, from data of all epsilons, horizons and sizes."""
    found = []

    def add(instance, name, epsilon, variable, x, part):
        regrets = part.final_regret.dropna("difficulty", how="all").values
        value, low, high, count = slope(x, regrets, part.nothing.max("difficulty").values)
        rate = RATES["batches" if name.startswith("batches") else instance][variable]
        found.append({"instance": instance, "learner": name, "epsilon": epsilon,
                      "variable": variable, "slope": value, "low": low, "high": high,
                      "rate": rate, "points": count})  # fmt: skip

    whole = whole.squeeze(["horizon", "size"])
    lines = ("T", "horizon", lengths.squeeze("size")), ("N", "size", sizes.squeeze("horizon"))
    for instance, name in product(whole.environment.values, whole.learner.values):
        at = {"environment": instance, "learner": name}
        mine = whole.sel(at)
        if mine.final_regret.isnull().all():
            continue
        for epsilon in lengths.epsilon.values if mine.takes_epsilon else [np.inf]:
            for variable, axis, group in lines:
                part = group.sel(at | {"epsilon": epsilon})
                add(instance, name, epsilon, variable, part[axis].values, part)
        # Noise counts as costly where regret is above 1.5 times that without privacy.
        regret = mine.final_regret.mean("trial").max("difficulty")
        costly = mine.isel(epsilon=np.flatnonzero(regret > 1.5 * regret[-1]))
        if costly.sizes["epsilon"]:
            costly["nothing"] = costly.nothing.broadcast_like(costly.epsilon)
            add(instance, name, None, "1/epsilon", 1.0 / costly.epsilon.values, costly)
    return found


def crossing(epsilons, batched, local):
    """The largest epsilon below which noisy batches have less regret than noise on each loss.

    The worst mean regrets (P,) are interpolated on the logarithm of epsilon, where their ratio
    crosses 1. The result is inf where batches have less regret at the largest epsilon, and 0 where
    they never have.
    """
    ratio = np.log(np.asarray(local) / np.asarray(batched))
    return float(trends.first_within(np.log(epsilons), ratio, 0.0))


def crossing_table(whole) -> list[dict]:
    """The epsilon below which batches have less regret than local noise, for pairs of learners."""
    data = whole.final_regret.sel(environment="arms", epsilon=np.isfinite(whole.epsilon))
    data, found = data.squeeze(["horizon", "size"]).dropna("difficulty", how="all"), []
    for name in ("batches, HTINF", "batches, EXP2"):
        for other in ("DP-EXP2", "DP-EXP3-Lap"):
            pair = [data.sel(learner=each).values for each in (name, other)]

            def cross(trials, pair=pair):
                return crossing(data.epsilon.values, *(worst(each, trials) for each in pair))

            value, low, high = arrays.resampled(data.sizes["trial"], cross)
            found.append({"batched (central)": name, "local": other, "epsilon": value,
                          "low": low, "high": high, "trials": data.sizes["trial"]})  # fmt: skip
    return found
