"""sayakrc/Differentially-Private-Bandits, the code of Chowdhury & Zhou: noise shares and DP-SE.

    python -m benchmarks.referees.distributed_bandits --clone Differentially-Private-Bandits

Each user of a batch adds a share of the noise, and only the sum is revealed. For a precision g, the
shares of the first kind are differences of Polya draws with r = 1 / n and b = exp(-epsilon / g).
Their sum should be discrete Laplace noise of scale g / epsilon.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.referees import frame
from dpjax import learners, noise

MEANS = np.array([0.25, 0.375, 0.5, 0.625, 0.75])  # losses; rewards are 1 minus these
USERS, EPSILON, HORIZON = 256, 1.0, 30_000


class Setting:
    """The two numbers that their learners read from an environment."""

    def __init__(self, epsilon):
        self.K, self.epsilon = len(MEANS), epsilon


def games(make, trials):
    """Pseudo-regrets of a learner, one per trial.

    It sees the sum of a batch in one update. The arms are in random order, as in dpjax.
    """
    regrets = np.zeros(trials)
    for trial in range(trials):
        random = np.random.default_rng(trial)
        means = random.permutation(MEANS)
        gaps = means - means.min()
        learner, played = make(), 0
        while played < HORIZON:
            size, arms = learner.BatchSize, learner.ActiveSet
            rounds = np.diff(np.minimum(played + size * np.arange(len(arms) + 1), HORIZON))
            regrets[trial] += rounds @ gaps[arms]
            played += size * len(arms)
            if played <= HORIZON:
                learner.rewards = random.binomial(size, 1.0 - means[arms]).astype(float)
                learner.RoundCount = size * len(arms) - 1
                learner.update(played - 1, arms[-1], 0.0)
    return regrets


def rows(clone, trials=100):
    """A row for each comparison."""
    del clone
    import MABPrivate as theirs

    theirs.rng = np.random.default_rng(0)
    failure = {"crs": 1, "delta": 1.0 / HORIZON, "dc": 2}

    def shares(kind, **options):
        """Squares of the sum of all shares of a batch, in units of the precision."""
        learner = kind(Setting(EPSILON), HORIZON, failure | options)
        learner.BatchSize = USERS
        learner.local_rand(0.0)
        sums = [sum(learner.gen_rand() for _ in range(USERS)) for _ in range(10 * trials)]
        return (np.array(sums, np.float64) / learner.precision) ** 2

    precision = np.ceil(EPSILON * USERS**0.5)
    zeros = jnp.zeros(50_000)
    keys = jax.random.split(jax.random.key(0), 3)
    laplace = noise.discrete_laplace(keys[0], zeros, precision / EPSILON) / precision
    skellam = noise.skellam(keys[1], zeros, 10.0 * precision / EPSILON) / precision / 10.0
    polya = theirs.polya
    made = [
        frame.compare(
            "256 Polya shares, square of the sum", jnp.square(laplace),
            shares(theirs.BatchSEDistDP), "differ",
        )
    ]  # fmt: skip
    # The law of their sum has ratio 1 - b instead of b. One reward changes it by g.
    ratio = -np.expm1(-EPSILON / precision)
    scale = -1.0 / np.log(ratio)
    made.append(
        frame.equal(
            "epsilon of this law",
            precision / noise.discrete_laplace.single(EPSILON / precision, None).scale,
            precision / scale, 0.01, "differ",
        )
    )  # fmt: skip
    theirs.polya = lambda r, p: polya(r, 1.0 - p)
    made.append(
        frame.compare(
            "the same shares with b / (1 - b)", jnp.square(laplace), shares(theirs.BatchSEDistDP)
        )
    )
    theirs.polya = polya
    made.append(
        frame.compare(
            "256 Skellam shares, square of the sum", jnp.square(skellam),
            shares(theirs.BatchSEDistRDP, scale=10),
        )
    )  # fmt: skip

    class Apart(theirs.DPSE):
        """Their DP-SE with a separate draw for each arm."""

        def central_rand(self):
            return self.rewards + theirs.rng.laplace(0, 1 / self.eps, len(self.rewards))

    def difference(kind):
        """Squares of the difference between the noise of two arms at epsilon = 1."""
        learner, found = kind(Setting(EPSILON), HORIZON, failure), []
        for _ in range(50 * trials):
            learner.rewards = np.zeros(2)
            first, second = learner.central_rand()
            found.append((first - second) ** 2)
        return found

    draws = noise.laplace(keys[2], jnp.zeros((50_000, 2)), 1.0 / EPSILON)
    apart = jnp.square(draws[:, 0] - draws[:, 1])
    title = "DP-SE, square of the difference of two arms' noise"
    made.append(frame.compare(f"{title}, as it is", apart, difference(theirs.DPSE), "differ"))
    made.append(frame.compare(f"{title}, a draw for each", apart, difference(Apart)))
    for epsilon in (0.1, 1.0):
        learner = learners.successive_elimination(HORIZON, len(MEANS), epsilon=epsilon)
        mine = frame.play(learner, MEANS, 4096, batches=True)[0]
        for by, kind in (("as it is", theirs.DPSE), ("a draw for each arm", Apart)):
            pulls = games(lambda: kind(Setting(epsilon), HORIZON, failure), 20 * trials)  # noqa: B023
            title = f"DP-SE, T = {HORIZON}, epsilon = {epsilon}, regret, {by}"
            made.append(frame.compare(title, mine, pulls))
    return made


if __name__ == "__main__":
    options = frame.arguments(__doc__, "https://github.com/sayakrc/Differentially-Private-Bandits")
    frame.finish(rows(options.clone))
