#!/usr/bin/env bash
# Guess: After rewards 1, 0, 0 the UCB learner's mean of an arm is 1/3.
# Fact: It is 0: the second reward of each arm replaces the first. The weight of a new reward is
# one over the number of earlier rewards. The same holds for the variance.
# Versions: coba 8.1.0.
# Source: coba/learners/bandit.py, BanditUCBLearner.learn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet coba==8.1.0
env/bin/python - <<'END'
import sys
from importlib.metadata import version

from coba.learners import BanditUCBLearner

print("coba", version("coba"))
print("guess: arm b is played, its rewards 0.9, 0.9 are better than 0, 1 of arm a")
learner = BanditUCBLearner()
for arm, rewards in {"a": (0.0, 1.0), "b": (0.9, 0.9)}.items():
    for reward in rewards:
        learner.learn(None, arm, reward, 1.0)
shares = {arm: learner.score(None, ["a", "b"], arm) for arm in ("a", "b")}
means = {arm: float(mean) for arm, mean in learner._m.items()}
print(f"seen: means {means}, probabilities {shares}")
sys.exit(not (shares["a"] == 1 and means["a"] == 1.0))
END
