#!/usr/bin/env bash
# Guess: The noise of a private mean is centred, so the average of many private means of 0.99 is
# 0.99.
# Fact: It is 0.95 for 100 records, bounds (0, 1) and epsilon 0.1. The noisy mean is truncated to
# the bounds, so means near a bound are biased inwards.
# Versions: diffprivlib 0.6.6.
# Source: diffprivlib/tools/utils.py, mean, with mechanisms/laplace.py, LaplaceTruncated.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet diffprivlib==0.6.6 scikit-learn==1.6.1 numpy==2.4.6 scipy==1.17.1
env/bin/python - <<'END'
import sys

import diffprivlib
import numpy as np

print("diffprivlib", diffprivlib.__version__)
data = np.full(100, 0.99)
means = np.array([
    diffprivlib.tools.mean(data, epsilon=0.1, bounds=(0, 1), random_state=seed)
    for seed in range(4000)
])
error = means.std() / np.sqrt(len(means))
print(f"guess: an average of 0.99, within about {3 * error:.4f}")
print(f"seen: an average of {means.mean():.4f}, the largest of them {means.max()}")
sys.exit(not (means.mean() < 0.96 and means.max() == 1.0))
END
