"""achraf-azize/DP-BAI, the code of Azize et al. 2023: AdaP-TT, TTUCB and DP-SE.

    python -m benchmarks.referees.dp_bai --clone DP-BAI

Their bandit is wrapped to count each pull. Their code returns the sum of its own counts.
"""

import contextlib
import tempfile

import numpy as np

from benchmarks.referees import frame
from dpjax import learners

# Mean gains of the authors' instances.
MU3 = np.linspace(0.0, 1.0, 5)
MU4 = np.array([0.75, 0.625, 0.5, 0.375, 0.25])
HORIZON = 10**7
OURS = 2000


class Counted:
    """A Bernoulli bandit that counts its pulls."""

    def __init__(self, means):
        self.means, self.pulls = means, 0

    def pull(self, arm):
        """A reward of 0 or 1."""
        self.pulls += 1
        return int(np.random.random() < self.means[arm])


def games(make, means, epsilon, trials):
    """For each trial: all pulls, the count that their code returns, and whether it erred."""
    found = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it writes a log
        for trial in range(trials):
            np.random.seed(trial)
            bandit = Counted(means)
            settings = {"K": len(means), "eps": epsilon, "delta": 0.01, "beta": 0.5}
            returned, best = make(settings).run(bandit)
            found.append((bandit.pulls, returned, best != means.argmax()))
    return np.array(found, np.float64).T


def ours(name, means, epsilon, **options):
    """Stopping times of dpjax."""
    if name != "ttucb":
        options["epsilon"] = epsilon
    learner = getattr(learners, name)(HORIZON, len(means), failure=0.01, **options)
    report = frame.play(learner, 1.0 - means, OURS, batches=True)[1]
    assert np.all(report.stopped)
    return report.stopping_time


def rows(clone, trials=200):
    """A row for each comparison."""
    del clone
    from algorithms.adapTT import AdaPTopTwo
    from algorithms.dp_se import DPSE

    class Forgets(DPSE):
        """Their DP-SE with counts that are reset, like the values, at the start of an epoch."""

        def reset_values(self):
            super().reset_values()
            self.counts[:] = 0

    made = []
    for name, means, epsilon in (("mu3", MU3, 1.0), ("mu3", MU3, 0.1), ("mu4", MU4, 1.0)):
        mine = ours("adap_tt", means, epsilon, rule="released")
        pulls, returned, _ = games(AdaPTopTwo, means, epsilon, trials // 2)
        title = f"AdaP-TT, {name}, epsilon = {epsilon}"
        made.append(frame.compare(f"{title}: all pulls", mine, pulls))
        made.append(frame.compare(f"{title}: as it counts", mine, returned, "differ"))
        left_out = 1.0 - returned / pulls
        made.append(frame.compare(f"{title}: share left out", 0 * mine, left_out, "differ"))
    # On mu3 all runs are equally long. Their code plays an arm int(R_e) rounds, ours ceil(R_e).
    mine = ours("successive_elimination", MU3, 1.0)
    pulls = games(DPSE, MU3, 1.0, 10)[0]
    title = "DP-SE, mu3, epsilon = 1.0, least and largest"
    made.append(frame.equal(title, [min(mine), max(mine)], [min(pulls), max(pulls)], 2e-3))
    for epsilon, expected in ((1.0, "agree"), (0.1, "differ")):
        mine = ours("successive_elimination", MU4, epsilon)
        for by, make, wanted in (
            ("as it is", DPSE, expected),
            ("counts reset", Forgets, "agree"),
        ):
            pulls = games(make, MU4, epsilon, trials)[0]
            made.append(
                frame.compare(f"DP-SE, mu4, epsilon = {epsilon}, {by}", mine, pulls, wanted)
            )
    return made


if __name__ == "__main__":
    frame.finish(rows(frame.arguments(__doc__, "https://github.com/achraf-azize/DP-BAI").clone))
