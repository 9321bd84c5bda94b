#!/usr/bin/env bash
# Guess: The private median of 100 equal records of value 0.5 is close to 0.5 at epsilon 1.
# Fact: It is uniform on the bounds: its standard deviation is 0.29 on (0, 1), for 100 and for
# 1000 records. Intervals between equal records have length 0 and are never chosen. If they differ
# by 2e-6, the median is right.
# Versions: diffprivlib 0.6.6.
# Source: diffprivlib/tools/quantiles.py: an exponential mechanism over the intervals between
# sorted records.
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
print("guess: medians close to 0.5")

def spread(data):
    return np.std([
        diffprivlib.tools.median(data, epsilon=1.0, bounds=(0, 1), random_state=seed)
        for seed in range(1000)
    ])

close = 0.5 + 1e-4 * np.linspace(-1, 1, 100)
seen = {count: round(float(spread(np.full(count, 0.5))), 3) for count in (100, 1000)}
print("seen: standard deviations by number of equal records:", seen)
print(f"seen: {spread(close):.3f} for 100 different records within 1e-4 of 0.5")
sys.exit(not all(0.25 < value < 0.33 for value in seen.values()))
END
