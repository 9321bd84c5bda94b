"""Alanthink/banditpylib: sequential halving without privacy.

    python -m benchmarks.referees.halving --clone banditpylib

It needs pip install protobuf seaborn absl-py. Its messages were made for protobuf 3. Newer versions
read them only with the pure Python implementation, which is chosen here. In its last stage, the
number of pulls of each arm is random, and its mean is the number that dpjax plays. It keeps the
first of tied arms, and dpjax a random one, so the arms are in random order here.
"""

import os

import numpy as np

from benchmarks.referees import frame
from dpjax import learners

MEANS = np.array([0.3, 0.4, 0.4, 0.5, 0.5, 0.6, 0.6, 0.7])  # losses; rewards are 1 minus these


def rows(clone, trials=4000):
    """A row for each comparison."""
    del clone
    os.environ.setdefault("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    from banditpylib.data_pb2 import Context, Feedback
    from banditpylib.learners.mab_fbbai_learner import SH

    def errs(budget, trial):
        np.random.seed(trial)
        means = np.random.permutation(MEANS)
        learner = SH(arm_num=len(MEANS), budget=budget)
        learner.reset()
        while True:
            asked = learner.actions(Context()).arm_pulls
            if not asked:
                return learner.best_arm != means.argmin()
            feedback = Feedback()
            for pull in asked:
                rewards = np.random.random(pull.times) >= means[pull.arm.id]
                seen = feedback.arm_feedbacks.add()
                seen.arm.id = pull.arm.id
                seen.rewards.extend(rewards.astype(float))
            learner.update(feedback)

    made = []
    for budget in (240, 1200):
        learner = learners.sequential_halving(budget, len(MEANS), epsilon=float("inf"))
        report = frame.play(learner, MEANS, 20_000, batches=True)[1]
        mine = np.asarray(report.recommendation) != MEANS.argmin()
        theirs = [errs(budget, trial) for trial in range(trials)]
        made.append(frame.compare(f"sequential halving, T = {budget}, error", mine, theirs))
    return made


if __name__ == "__main__":
    frame.finish(rows(frame.arguments(__doc__, "https://github.com/Alanthink/banditpylib").clone))
