"""Azize & Basu 2022, a figure without public code: regret of AdaP-KLUCB by epsilon.

    python -m benchmarks.referees.adap_index

The paper plays gains (0.8, 0.1, 0.1, 0.1, 0.1) to T = 10^7. In its figure, as recalled, regret does
not depend on epsilon from about 0.3 on. Here the printed index is compared with the same index
without privacy.
"""

import jax
import numpy as np

from benchmarks.referees import frame
from dpjax import environments, learners, simulate_batches, sweep

GAINS = np.array([0.8, 0.1, 0.1, 0.1, 0.1])
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def rows(trials=1000):
    """A row for each epsilon: regret with privacy and without."""
    environment = environments.bernoulli(1.0 - GAINS, regret="pseudo")

    def game(epsilon):
        return learners.adap_klucb(10**7, len(GAINS), epsilon=epsilon), environment

    *private, free = sweep(
        game, np.array([*EPSILONS, np.inf]), trials, jax.random.key(0),
        play=simulate_batches, checkpoints=1, progress=False,
    ).regret[..., -1]  # fmt: skip
    return [
        frame.compare(f"AdaP-KLUCB, epsilon = {epsilon:g}, regret", regrets, free, "differ")
        for epsilon, regrets in zip(EPSILONS, private, strict=True)
    ]


if __name__ == "__main__":
    frame.arguments(__doc__)
    frame.finish(rows(), ("with it", "without privacy"))
