"""keirp/private-bandits: counters, DP-UCB-Bound, DP-SE and Private UCB.

    python -m benchmarks.referees.private_bandits_code --clone private-bandits

Its Private UCB adds noise for epsilon to each arm's tree but a bonus for epsilon / K, and its trees
count the pulls of their arm. It equals dpjax's if noise and bonus use the same budget and all trees
count the rounds of the game.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.referees import frame
from dpjax import learners, mechanisms

MEANS = np.array([0.1, 0.5, 0.7, 0.9])  # losses; rewards are 1 minus these
FIVE = np.array([0.25, 0.375, 0.5, 0.625, 0.75])
PREFIXES, LONG = 100, 50_000


def games(make, horizon, trials, means=MEANS):
    """Pseudo-regrets of a solver, one for each trial."""
    regrets = np.zeros(trials)
    for trial in range(trials):
        np.random.seed(trial)
        solver, reward, arm = make(), None, None
        for _ in range(horizon):
            arm = solver.step(reward, arm)
            reward = int(np.random.random() >= means[arm])
            regrets[trial] += means[arm] - means.min()
    return regrets


def squares(make, scale, trials):
    """Squares of the noise on the last prefix, one per trial."""
    found = np.zeros(trials)
    for trial in range(trials):
        np.random.seed(trial)
        counter = make()
        for _ in range(PREFIXES):
            release = counter.step(0.0)
        found[trial] = (release / scale) ** 2
    return found


def our_squares(mechanism, scale):
    """Squares of the noise on the last prefix, for a mechanism of dpjax at epsilon = 1."""
    stream = mechanism.stream((), scale=mechanism.sensitivity[0])

    def last_noise(key):
        def step(carry, key):
            return stream.step(carry[0], key, jnp.float32(0.0)), None

        keys = jax.random.split(key, PREFIXES + 1)
        return jax.lax.scan(step, stream.init(keys[0]), keys[1:])[0][1]

    keys = jax.random.split(jax.random.key(1), 20_000)
    return jnp.square(jax.lax.map(last_noise, keys, batch_size=1000) / scale)


def rows(clone, trials=200):
    """A row for each comparison."""
    del clone
    from private_bandits.privacy.mechanisms.binary import BinaryMechanism
    from private_bandits.privacy.mechanisms.hybrid import HybridMechanism
    from private_bandits.solvers.counting import EquitablePrivateMechanismCountingSolver
    from private_bandits.solvers.private.dp_successive_elimination import (
        DPSuccessiveEliminationSolver,
    )
    from private_bandits.solvers.private.dp_ucb_bound import DPUCBBoundSolver
    from private_bandits.solvers.private.private_ucb import PrivateUCBSolver

    def ours(name, horizon, means=MEANS, **options):
        batches = name == "successive_elimination"
        learner = getattr(learners, name)(horizon, len(means), **options)
        return frame.play(learner, means, 4096, batches=batches)[0]

    tree = mechanisms.tree(PREFIXES + 1)
    hybrid = mechanisms.hybrid(PREFIXES + 1, totals="separate")
    made = [
        frame.compare(
            "tree, 100 prefixes, square of the last noise", our_squares(tree, 7.0),
            squares(lambda: BinaryMechanism(PREFIXES, 1.0), 7.0, 40 * trials),
        ),
        frame.compare(
            "hybrid, the same", our_squares(hybrid, 7.0),
            squares(lambda: HybridMechanism(None, 1.0), 7.0, 40 * trials),
        ),
        frame.compare(
            "DP-UCB-Bound, T = 2000, epsilon = 1, regret",
            ours("dp_ucb_bound", 2000, epsilon=1.0),
            games(lambda: DPUCBBoundSolver(len(MEANS), 1.0), 2000, trials),
        ),
        frame.compare(
            "DP-UCB-Bound, T = 2000, epsilon = 20, regret",
            ours("dp_ucb_bound", 2000, epsilon=20.0),
            games(lambda: DPUCBBoundSolver(len(MEANS), 20.0), 2000, trials),
        ),
    ]  # fmt: skip
    for epsilon in (0.1, 1.0):
        made.append(
            frame.compare(
                f"DP-SE on five arms, T = {LONG}, epsilon = {epsilon}, regret",
                ours("successive_elimination", LONG, FIVE, epsilon=epsilon),
                games(
                    lambda epsilon=epsilon: DPSuccessiveEliminationSolver(
                        len(FIVE), epsilon, 1.0 / LONG
                    ),
                    LONG, trials // 4, FIVE,
                ),
            )
        )  # fmt: skip

    horizon, epsilon = 1000, 200.0

    def equal_budgets():
        solver = PrivateUCBSolver(len(MEANS), epsilon, horizon, 0.1)
        solver.summers = [BinaryMechanism(horizon, epsilon / len(MEANS)) for _ in MEANS]
        return solver

    title = f"Private UCB, T = {horizon}, epsilon = {epsilon:g}, regret"
    mine = ours("dp_ucb", horizon, epsilon=epsilon, split="paper")
    made.append(
        frame.compare(
            f"{title}, as it is", mine,
            games(lambda: PrivateUCBSolver(len(MEANS), epsilon, horizon, 0.1), horizon, trials),
            "differ",
        )
    )  # fmt: skip
    own_clock = PrivateUCBSolver.__bases__
    PrivateUCBSolver.__bases__ = (EquitablePrivateMechanismCountingSolver,)
    made.append(
        frame.compare(
            f"{title}, one clock and one budget", mine, games(equal_budgets, horizon, trials)
        )
    )
    PrivateUCBSolver.__bases__ = own_clock
    return made


if __name__ == "__main__":
    options = frame.arguments(__doc__, "https://github.com/keirp/private-bandits")
    frame.finish(rows(options.clone))
