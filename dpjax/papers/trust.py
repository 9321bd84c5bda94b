"""The cost of not trusting the server: the same games under every trust model.

Arms, linear arms and identification are each played by one learner with seven noise distributions.
Its confidence widths come from the same formula for all of them. Contexts and points of a ball are
played by LinUCB and FTRL, with a mechanism for each model. Within a game all models declare the
same epsilon, and the same delta if they need one.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray

from dpjax.papers import _shared as shared
from dpjax.papers import trust_games as games
from dpjax.papers.sweeps import play
from dpjax.report import estimates

HORIZON, QUICK_HORIZON = 10**7, 10**5
TRIALS, QUICK_TRIALS = 1000, 40
# The theorems' exponents of T for the games that are played round by round.
KNOWN = {"joint, tree": 1 / 2, "shuffle, batches": 3 / 5, "local, each user": 3 / 4,
         "central, tree of degree k": 1 / 2, "local, each message": 1 / 2}  # fmt: skip


def at_worst(data, axis) -> xarray.Dataset:
    """Each cell at the instance (a value of ``axis``) with the largest mean regret."""
    worst = data.final_regret.mean("trial").argmax(axis)
    return data[["final_regret"]].isel({axis: worst}).rename({axis: f"worst_{axis}"})


def with_factors(array) -> xarray.Dataset:
    """The mean, its standard error, and its ratio to no privacy with a paired interval."""
    found = estimates.mean(array)[["mean", "standard_error"]]
    factor = estimates.of_means(array, lambda means: means / means.sel(epsilon=np.inf))
    return found.assign(factor.rename(statistic="factor", low="factor_low", high="factor_high"))


FACTORS = "mean standard_error factor factor_low factor_high trials"


def cost_rows(data, of) -> list[dict]:
    """Mean, ratio to no privacy, and declared privacy, by learner and epsilon."""
    return shared.table(
        with_factors(data[of]), "learner epsilon", f"learner model epsilon delta {FACTORS}",
        model="privacy_model", delta="privacy_delta",
    )  # fmt: skip


def onset_rows(studies) -> list[dict]:
    """The epsilon from which a mean is at most twice that without privacy, in each game."""
    made = []
    for game, (data, of) in studies.items():
        found = data.dpjax.crossing(2.0, at=np.inf, of=of)
        made += shared.table(found, "learner", "game learner crossing low high",
                             lambda row, game=game: {"game": game})  # fmt: skip
    return made


def slope_rows(studies) -> list[dict]:
    """The fitted exponents of regret in the horizon, with those of the theorems.

    The mean and its ratio to no privacy are at the largest horizon.
    """
    made = []
    for game, data in studies.items():
        last = with_factors(data.final_regret.isel(horizon=-1)).reset_coords(drop=True)
        made += shared.table(
            data.dpjax.slope().reset_coords(drop=True).assign(last), "learner epsilon",
            f"game learner epsilon known slope low high {FACTORS}",
            lambda row, game=game: {"game": game, "known": KNOWN[row["learner"]]},
        )  # fmt: skip
    return made


def cost_figure(data, of, label, note):
    """A mean against epsilon, a curve for each noise distribution."""
    drawn = shared.figure(data, "epsilon", of=of, color="learner", note=note)
    drawn.axes[0].set_ylabel(label)
    return drawn


@shared.published(HORIZON, TRIALS, games.SEED, horizons=(10_000, 2**31 - 1), fewest=8)
def reproduce(horizon: int, trials: int, short: bool) -> Iterator[shared.Report]:
    """Play arms, linear arms, identification, contexts and points under every trust model.

    The table "" is for successive elimination on five arms, "_linear" for linear elimination, and
    "_identification" for mean stopping times. "_onset" has the epsilon from which these are at most
    twice their values without privacy. "_slopes" has the exponents of LinUCB and FTRL in the
    horizon.

    The horizon is at least 10 000, and at least 8 trials are needed. LinUCB and FTRL play up to a
    fortieth of the horizon, in at most 64 trials. Linear arms have a fifth of the trials, but at
    least 8. A short run plays three noise distributions, one gap, and two lengths of the games
    by rounds.
    """
    regret, time = "final_regret", "report_stopping_time"
    bits = ("Bernoulli losses. Confidence widths use the same bound for all noise distributions. "
            "delta = 1e-6, or 0 for pure noise. ")  # fmt: skip
    arms = play(games.arms_study(horizon, trials, short))
    yield shared.Report(
        {"": cost_rows(arms, regret)},
        {"": partial(cost_figure, arms, regret, "regret",
                     bits + "Successive elimination of five arms.")},
        {"delta": games.DELTA, "epsilons": games.EPSILONS, "laws": games.laws(short),
         "means": games.MEANS},
    )  # fmt: skip
    linear = play(games.linear_study(horizon, trials, short))
    stopped = play(games.identification_study(10 * horizon, trials, short))
    yield shared.Report(
        {"_linear": cost_rows(linear, regret), "_identification": cost_rows(stopped, time),
         "_onset": onset_rows({"arms": (arms, regret), "linear arms": (linear, regret),
                               "three arms": (stopped, time)})},
        {"_linear": partial(cost_figure, linear, regret, "regret",
                            bits + "Linear elimination of 20 vectors in five dimensions."),
         "_identification": partial(cost_figure, stopped, time, "mean stopping time",
                                    bits + "AdaP-TT on three arms with failure probability 0.01. "
                                    "Trials are censored at the horizon.")},
        {"three": games.THREE, "failure": games.FAILURE},
    )  # fmt: skip
    contexts = at_worst(play(games.contexts_study(horizon, trials, short)), "environment")
    points = at_worst(play(games.points_study(horizon, trials, short)), "bias")
    over_time = partial(shared.figure, x="horizon", ticks=games.lengths(horizon, short),
                        color="learner", line="epsilon")  # fmt: skip
    yield shared.Report(
        {"_slopes": slope_rows({"contexts": contexts, "points": points})},
        {"_contexts": partial(over_time, contexts, note="LinUCB with 25 arms in five dimensions "
                              "and delta = 1e-6, at the worst of the gaps. The noise of a "
                              "shuffled batch is the Gaussian limit of binomial noise."),
         "_points": partial(over_time, points, note="FTRL on the unit ball in five dimensions, "
                            "against the worst of six drifts of the losses. In the local model, "
                            "FTRL uses the learning rate of its own bound.")},
        {"contexts_epsilon": games.CONTEXTS, "points_epsilon": games.POINTS,
         "gaps": games.gaps(short), "biases": games.BIASES},
    )  # fmt: skip
