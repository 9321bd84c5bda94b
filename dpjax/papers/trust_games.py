"""The games of the trust study: learners, environments, noise and horizons."""

from functools import partial

import jax.numpy as jnp
import numpy as np

from dpjax import bounds, domains, environments, learners, mechanisms, noise
from dpjax.learners.parts import gram
from dpjax.learners.parts.sum_noise import LOCAL
from dpjax.papers.hanna2022_games import on_sphere
from dpjax.study import Study

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


def delta_of(law) -> float | None:
    """The delta that this noise distribution declares."""
    return None if law in LOCAL or noise.LAWS[law].pure else DELTA


def laws(short) -> dict:
    """The noise distributions of a run."""
    return {name: law for name, law in LAWS.items() if name in QUICK_LAWS or not short}


def gaps(short) -> tuple[float, ...]:
    """The gaps of the contexts in a run."""
    return GAPS[2:3] if short else GAPS


def in_every_model(factory, short=False, **options) -> dict:
    """A factory of a learner with batches, for each noise distribution."""
    return {name: partial(factory, noise=law, delta=delta_of(law), **options)
            for name, law in laws(short).items()}  # fmt: skip


def linear_elimination(horizon, *, epsilon, **options):
    """Linear elimination of the 20 vectors."""
    return learners.linear_elimination(horizon, VECTORS.actions, epsilon=epsilon, **options)


def _on_arms(makers, name, means, horizon, trials, **axes) -> Study:
    """Learners with batches on Bernoulli arms, at all epsilons."""
    game = {name: lambda: environments.bernoulli(means, regret="pseudo")}
    grid = {"horizon": horizon, **axes, "epsilon": list(EPSILONS)}
    return Study(makers, game, grid, trials, SEED, checkpoints=1)


def arms_study(horizon, trials, short=False) -> Study:
    """Successive elimination, whose regret grows until one arm is left."""
    makers = in_every_model(learners.successive_elimination, short, radius="chernoff")
    return _on_arms(makers, "arms", MEANS, horizon, trials, arms=len(MEANS))


def linear_study(horizon, trials, short=False) -> Study:
    """Linear elimination of 20 vectors, with theta of length 0.8."""
    makers = in_every_model(linear_elimination, short, radius="joint")
    return _on_arms(makers, "linear arms", VECTORS.means(0.8), horizon, max(8, trials // FEWER))


def identification_study(horizon, trials, short=False) -> Study:
    """AdaP-TT with a stopping rule for each noise distribution."""
    makers = in_every_model(learners.adap_tt, short, rule="chernoff", failure=FAILURE)
    return _on_arms(makers, "three arms", THREE, horizon, trials, arms=len(THREE))


def contexts_study(horizon, trials, short=False) -> Study:
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


def points_study(horizon, trials, short=False) -> Study:
    """FTRL on the unit ball, with a tree and with noise per message, at the rate of its bound."""
    ball = domains.ball(DIM)

    def central(horizon, epsilon):
        return learners.ftrl(horizon, ball, epsilon=epsilon, mechanism=mechanisms.kary)

    def local(horizon, epsilon):
        rates = [float(bounds.ftrl_local_rate(horizon, DIM, each, domain="ball"))
                 for each in (POINTS, np.inf)]  # fmt: skip
        return learners.ftrl(
            horizon, ball, epsilon=epsilon, mechanism=mechanisms.per_item,
            rate=jnp.where(jnp.isinf(epsilon), rates[1], rates[0]),
        )  # fmt: skip

    game = {"points": partial(environments.linear_losses, ball, "iid")}
    grid = {"horizon": lengths(horizon, short), "epsilon": [POINTS, np.inf], "bias": list(BIASES)}
    makers = {"central, tree of degree k": central, "local, each message": local}
    return Study(makers, game, grid, min(trials, FEW), SEED, checkpoints=1)


def lengths(horizon, short=False) -> list[int]:
    """Horizons of the games that are played round by round."""
    return [round(part * horizon) for part in (PARTS[::2] if short else PARTS)]
