"""The cost of not trusting the server: the same games under every trust model.

Arms, linear arms and identification are each played by one learner with seven noise distributions.
Its confidence widths come from the same formula for all of them. Contexts and points of a ball are
played by LinUCB and FTRL, with a mechanism for each model. Within a game all models declare the
same epsilon, and the same delta if they need one.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray

from dpjax import bounds, domains, environments, learners, mechanisms, noise
from dpjax.learners.parts import gram
from dpjax.learners.parts.sum_noise import LOCAL
from dpjax.papers import _shared as shared
from dpjax.papers.hanna2022 import on_sphere
from dpjax.papers.sweeps import play
from dpjax.report import estimates
from dpjax.study import Study

HORIZON, QUICK_HORIZON = 10**7, 10**5
TRIALS, QUICK_TRIALS = 1000, 40
# The theorems' exponents of T for the games that are played round by round.
KNOWN = {"joint, tree": 1 / 2, "shuffle, batches": 3 / 5, "local, each user": 3 / 4,
         "central, tree of degree k": 1 / 2, "local, each message": 1 / 2}  # fmt: skip
FEW = 64  # trials of the games that are played round by round
FEWER = 5  # linear arms have a fifth of the trials, because their phases take longer to compute
DELTA = 1e-6
SEED = 2026
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf)

LAWS = {
    "central, Laplace": "laplace",
    "central, Gaussian": "gaussian",
    "distributed, discrete Laplace": "discrete_laplace",
    "distributed, Skellam": "skellam",
    "shuffle, binomial": "binomial",
    "local, randomized response": "randomized_response",
    "local, Laplace": "local_laplace",
}
# A short run plays three noise distributions, one gap, and two lengths of the games by rounds,
# because each is compiled separately.
QUICK_LAWS = ("central, Laplace", "shuffle, binomial", "local, randomized response")
MEANS = (0.25, 0.375, 0.5, 0.625, 0.75)  # the second instance of Sajed & Sheffet 2019
THREE, FAILURE = (0.3, 0.5, 0.7), 0.01
VECTORS = on_sphere(20, 5, 1)
DIM = 5
# Epsilon of the games that are played round by round, and their lengths as parts of the horizon.
CONTEXTS, POINTS, PARTS = 10.0, 1.0, (1 / 640, 1 / 160, 1 / 40)
# Gaps of the contexts, and weights of the common direction of the losses on the ball.
GAPS = (0.025, 0.05, 0.1, 0.2, 0.4)
BIASES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)


def delta_of(law: str) -> float | None:
    """The delta that this noise distribution declares."""
    return None if law in LOCAL or noise.LAWS[law].pure else DELTA


def gaps(short: bool) -> tuple[float, ...]:
    """The gaps of the contexts in a run."""
    return GAPS[2:3] if short else GAPS


def in_every_model(factory: Callable, short: bool = False, **options: Any) -> dict:
    """A factory of a learner with batches, for each noise distribution."""
    return {name: partial(factory, noise=law, delta=delta_of(law), **options)
            for name, law in shared.chosen(LAWS, QUICK_LAWS, short).items()}  # fmt: skip


def linear_elimination(horizon: int, *, epsilon: float, **options: Any):
    """Linear elimination of the 20 vectors."""
    return learners.linear_elimination(horizon, VECTORS.actions, epsilon=epsilon, **options)


def _on_arms(makers, name, means, horizon, trials, **axes) -> Study:
    """Learners with batches on Bernoulli arms, at all epsilons."""
    game = {name: shared.bernoulli(means)}
    grid = {"horizon": horizon, **axes, "epsilon": list(EPSILONS)}
    return Study(makers, game, grid, trials, SEED, checkpoints=1)


def arms_study(horizon: int, trials: int, short: bool = False) -> Study:
    """Successive elimination, whose regret grows until one arm is left."""
    makers = in_every_model(learners.successive_elimination, short, radius="chernoff")
    return _on_arms(makers, "arms", MEANS, horizon, trials, arms=len(MEANS))


def linear_study(horizon: int, trials: int, short: bool = False) -> Study:
    """Linear elimination of 20 vectors, with theta of length 0.8."""
    makers = in_every_model(linear_elimination, short, radius="joint")
    return _on_arms(makers, "linear arms", VECTORS.means(0.8), horizon, max(8, trials // FEWER))


def identification_study(horizon: int, trials: int, short: bool = False) -> Study:
    """AdaP-TT with a stopping rule for each noise distribution."""
    makers = in_every_model(learners.adap_tt, short, rule="chernoff", failure=FAILURE)
    return _on_arms(makers, "three arms", THREE, horizon, trials, arms=len(THREE))


def contexts_study(horizon: int, trials: int, short: bool = False) -> Study:
    """LinUCB with a tree, with fixed batches of T^(3/5) users, and with noise for each user."""

    def learner(mechanism, horizon, epsilon):
        law = gram.gaussian(mechanism=mechanism)
        return learners.linucb(horizon, DIM, epsilon=epsilon, delta=DELTA, gram=law)

    def shuffled(horizon, epsilon):
        batch = max(1, round(horizon**0.6))
        return learner(partial(mechanisms.per_item, batch=batch), horizon, epsilon)

    makers = {"joint, tree": partial(learner, mechanisms.tree), "shuffle, batches": shuffled,
              "local, each user": partial(learner, mechanisms.per_item)}  # fmt: skip
    games = {f"gap {gap}": partial(environments.gap_arms, DIM, gap=gap) for gap in gaps(short)}
    grid = {"horizon": lengths(horizon, short), "epsilon": [CONTEXTS, np.inf]}
    return Study(makers, games, grid, min(trials, FEW), SEED, checkpoints=1)


def points_study(horizon: int, trials: int, short: bool = False) -> Study:
    """FTRL on the unit ball, with a tree and with noise per message, at the rate of its bound."""
    ball = domains.ball(DIM)

    def central(horizon, epsilon):
        return learners.ftrl(horizon, ball, epsilon=epsilon, mechanism=mechanisms.kary)

    def local(horizon, epsilon):
        rates = [float(bounds.ftrl_local_rate(horizon, DIM, item, domain="ball"))
                 for item in (POINTS, np.inf)]  # fmt: skip
        return learners.ftrl(
            horizon, ball, epsilon=epsilon, mechanism=mechanisms.per_item,
            rate=jnp.where(jnp.isinf(epsilon), rates[1], rates[0]),
        )  # fmt: skip

    game = {"points": partial(environments.linear_losses, ball, "iid")}
    grid = {"horizon": lengths(horizon, short), "epsilon": [POINTS, np.inf], "bias": list(BIASES)}
    makers = {"central, tree of degree k": central, "local, each message": local}
    return Study(makers, game, grid, min(trials, FEW), SEED, checkpoints=1)


def lengths(horizon: int, short: bool = False) -> list[int]:
    """Horizons of the games that are played round by round."""
    return [round(part * horizon) for part in (PARTS[::2] if short else PARTS)]


def at_worst(data: xarray.Dataset, axis: str) -> xarray.Dataset:
    """Each cell at the instance (a value of ``axis``) with the largest mean regret."""
    worst = data.final_regret.mean("trial").argmax(axis)
    return data[["final_regret"]].isel({axis: worst}).rename({axis: f"worst_{axis}"})


def with_factors(array: xarray.DataArray) -> xarray.Dataset:
    """The mean, its standard error, and its ratio to no privacy with a paired interval."""
    estimate = estimates.mean(array)[["mean", "standard_error"]]
    factor = estimates.of_means(array, lambda means: means / means.sel(epsilon=np.inf))
    return estimate.assign(factor.rename(statistic="factor", low="factor_low", high="factor_high"))


FACTORS = "mean standard_error factor factor_low factor_high trials"


def cost_rows(data: xarray.Dataset, of: str) -> list[dict]:
    """Mean, ratio to no privacy, and declared privacy, by learner and epsilon."""
    return shared.table(
        with_factors(data[of]), "learner epsilon", f"learner model epsilon delta {FACTORS}",
        model="privacy_model", delta="privacy_delta",
    )  # fmt: skip


def onset_rows(studies: Mapping[str, tuple[xarray.Dataset, str]]) -> list[dict]:
    """The epsilon from which a mean is at most twice that without privacy, in each game."""
    rows = []
    for game, (data, of) in studies.items():
        estimate = data.dpjax.crossing(2.0, at=np.inf, of=of)
        rows += shared.table(estimate, "learner", "game learner crossing low high",
                             lambda row, game=game: {"game": game})  # fmt: skip
    return rows


def slope_rows(studies: Mapping[str, xarray.Dataset]) -> list[dict]:
    """The fitted exponents of regret in the horizon, with those of the theorems.

    The mean and its ratio to no privacy are at the largest horizon.
    """
    rows = []
    for game, data in studies.items():
        last = with_factors(data.final_regret.isel(horizon=-1)).reset_coords(drop=True)
        rows += shared.table(
            data.dpjax.slope().reset_coords(drop=True).assign(last), "learner epsilon",
            f"game learner epsilon known slope low high {FACTORS}",
            lambda row, game=game: {"game": game, "known": KNOWN[row["learner"]]},
        )  # fmt: skip
    return rows


def cost_figure(data: xarray.Dataset, of: str, label: str, note: str):
    """A mean against epsilon, a curve for each noise distribution."""
    drawn = shared.figure(data, "epsilon", of=of, color="learner", note=note)
    drawn.axes[0].set_ylabel(label)
    return drawn


@shared.published(HORIZON, TRIALS, SEED, horizons=(10_000, 2**31 - 1), fewest=8)
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
    arms = play(arms_study(horizon, trials, short))
    yield shared.Report(
        {"": cost_rows(arms, regret)},
        {"": partial(cost_figure, arms, regret, "regret",
                     bits + "Successive elimination of five arms.")},
        {"delta": DELTA, "epsilons": EPSILONS, "laws": shared.chosen(LAWS, QUICK_LAWS, short),
         "means": MEANS},
    )  # fmt: skip
    linear = play(linear_study(horizon, trials, short))
    stopped = play(identification_study(10 * horizon, trials, short))
    yield shared.Report(
        {"_linear": cost_rows(linear, regret), "_identification": cost_rows(stopped, time),
         "_onset": onset_rows({"arms": (arms, regret), "linear arms": (linear, regret),
                               "three arms": (stopped, time)})},
        {"_linear": partial(cost_figure, linear, regret, "regret",
                            bits + "Linear elimination of 20 vectors in five dimensions."),
         "_identification": partial(cost_figure, stopped, time, "mean stopping time",
                                    bits + "AdaP-TT on three arms with failure probability 0.01. "
                                    "Trials are censored at the horizon.")},
        {"three": THREE, "failure": FAILURE},
    )  # fmt: skip
    contexts = at_worst(play(contexts_study(horizon, trials, short)), "environment")
    points = at_worst(play(points_study(horizon, trials, short)), "bias")
    over_time = partial(shared.figure, x="horizon", ticks=lengths(horizon, short),
                        color="learner", line="epsilon")  # fmt: skip
    yield shared.Report(
        {"_slopes": slope_rows({"contexts": contexts, "points": points})},
        {"_contexts": partial(over_time, contexts, note="LinUCB with 25 arms in five dimensions "
                              "and delta = 1e-6, at the worst of the gaps. The noise of a "
                              "shuffled batch is the Gaussian limit of binomial noise."),
         "_points": partial(over_time, points, note="FTRL on the unit ball in five dimensions, "
                            "against the worst of six drifts of the losses. In the local model, "
                            "FTRL uses the learning rate of its own bound.")},
        {"contexts_epsilon": CONTEXTS, "points_epsilon": POINTS,
         "gaps": gaps(short), "biases": BIASES},
    )  # fmt: skip
