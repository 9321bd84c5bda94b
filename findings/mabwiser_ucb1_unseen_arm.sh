#!/usr/bin/env bash
# Guess: UCB1 plays an arm without data first, since its bound is infinite.
# Fact: In MABWiser its index is 0. With rewards in (0, 1] the arm is never played: 0 times in 200
# rounds.
# Versions: mabwiser 2.7.4.
# Source: mabwiser/ucb.py: expectations start at 0 and are computed only for arms with data.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet mabwiser==2.7.4 numpy==2.4.6 pandas==3.1.1 scikit-learn==1.9.1 \
  scipy==1.17.1
env/bin/python - <<'END'
import sys
from collections import Counter
from importlib.metadata import version

from mabwiser.mab import MAB, LearningPolicy

print("mabwiser", version("mabwiser"))
print("guess: arm c, which has no data, is played first")
bandit = MAB(["a", "b", "c"], LearningPolicy.UCB1(alpha=1.0))
bandit.fit(["a", "b"], [0.5, 0.5])
print("seen: indices", {arm: float(x) for arm, x in bandit.predict_expectations().items()})
plays = Counter()
for _ in range(200):
    arm = bandit.predict()
    plays[arm] += 1
    bandit.partial_fit([arm], [0.5])
print("seen: plays in 200 rounds", dict(plays))
sys.exit(plays["c"] != 0)
END
