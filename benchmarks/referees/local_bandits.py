"""WenboRen/Multi-armed-Bandits-with-Local-Differential-Privacy: UCB1 and LDP-UCB-B.

    python -m benchmarks.referees.local_bandits --clone Multi-armed-Bandits-with-Local-...

Its learners begin as if each arm had been pulled once with a reward of 0. Without these pulls,
LDP-UCB-B is dpjax's UCB1 in the local model with randomized response.

It draws arrays of one number and stores them as scalars, which NumPy 2 rejects. Here its draws are
scalars.
"""

from types import SimpleNamespace

import numpy as np

from benchmarks.referees import frame
from dpjax import combinators, learners

GAINS = np.array([0.9, 0.8, 0.6, 0.5])  # the first is the best, as their code assumes
HORIZON = 3000


def games(kind, epsilon, name, trials, phantom):
    """Pseudo-regrets of their learner, one per trial; ``phantom`` keeps the invented pulls."""
    regrets = np.zeros(trials)
    gaps = GAINS[0] - GAINS
    for trial in range(trials):
        np.random.seed(trial)
        learner = kind(len(GAINS), HORIZON, GAINS, epsilon, name)
        pull = learner.pull_CTB if name else learner.pull
        if phantom:
            for _ in range(HORIZON):
                pull()
            regrets[trial] = gaps @ (learner.k_n - 1.0)
            continue
        kept = 1.0 / (1.0 + np.exp(-epsilon)) if name else 1.0
        learner.k_reward = np.random.binomial(1, kept * GAINS + (1.0 - kept) * (1.0 - GAINS)) * 1.0
        learner.n = len(GAINS)
        for _ in range(HORIZON - len(GAINS)):
            pull()
        regrets[trial] = gaps @ learner.k_n
    return regrets


def rows(clone, trials=300):
    """A row for each comparison."""
    del clone
    import DPclass

    used = ("argmax", "array", "exp", "log", "ones", "sqrt", "zeros")
    draws = SimpleNamespace(binomial=lambda count, p, size: np.random.binomial(count, p))
    DPclass.np = SimpleNamespace(random=draws, **{name: getattr(np, name) for name in used})
    ucb_bandit = DPclass.ucb_bandit

    made = []
    for title, epsilon, name in (
        ("UCB1", 1.0, None),
        ("LDP-UCB-B, epsilon = 1", 1.0, "Bernoulli"),
        ("LDP-UCB-B, epsilon = 3", 3.0, "Bernoulli"),
    ):
        learner = learners.ucb1(HORIZON, len(GAINS))
        if name:
            learner = combinators.randomized_response(learner, epsilon=epsilon)
        mine = frame.play(learner, 1.0 - GAINS, 4096)[0]
        theirs = games(ucb_bandit, epsilon, name, trials, phantom=False)
        made.append(frame.compare(f"{title}, all pulls played", mine, theirs))
        if epsilon > 1.0 or name is None:
            theirs = games(ucb_bandit, epsilon, name, trials, phantom=True)
            made.append(frame.compare(f"{title}, as it is", mine, theirs, "differ"))
    return made


if __name__ == "__main__":
    repository = "https://github.com/WenboRen/Multi-armed-Bandits-with-Local-Differential-Privacy"
    frame.finish(rows(frame.arguments(__doc__, repository).clone))
