#!/usr/bin/env bash
# Guess: With means 1 and 0 and temperature 1, softmax plays the better arm with probability e /
# (e + 1) = 0.731.
# Fact: It plays it with probability 0.761. MABWiser draws a Dirichlet vector with the softmax
# probabilities as parameters and plays its largest entry. The largest entry is more often the
# likeliest arm.
# Versions: mabwiser 2.7.4.
# Source: mabwiser/softmax.py, predict_expectations and predict.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet mabwiser==2.7.4 numpy==2.4.6 pandas==3.1.1 scikit-learn==1.9.1 \
  scipy==1.17.1
env/bin/python - <<'END'
import math
import sys
from importlib.metadata import version

from mabwiser.mab import MAB, LearningPolicy

print("mabwiser", version("mabwiser"))
bandit = MAB(["a", "b"], LearningPolicy.Softmax(tau=1.0), seed=3)
bandit.fit(["a", "b"], [1, 0])
rounds = 40_000
share = sum(bandit.predict() == "a" for _ in range(rounds)) / rounds
law = math.e / (math.e + 1.0)
error = math.sqrt(law * (1.0 - law) / rounds)
print(f"guess: a share of {law:.4f}, with a standard error of {error:.4f}")
print(f"seen: {share:.4f}, {(share - law) / error:.0f} standard errors above")
sys.exit(not share > law + 6 * error)
END
