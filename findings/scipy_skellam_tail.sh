#!/usr/bin/env bash
# Guess: The log-probability of 200 under a Skellam law of rates 1 and 1 is about -865, as a
# log-probability should not underflow.
# Fact: It is minus infinity, since it is the logarithm of a probability that underflows. The
# survival function at 20 is 0, and 2.9e-21 in truth.
# Versions: scipy 1.17.1.
# Source: scipy/stats/_discrete_distns.py, skellam: its probabilities are those of a noncentral
# chi-squared law.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet scipy==1.17.1 numpy==2.4.6
env/bin/python - <<'END'
import math
import sys

import numpy as np
import scipy
from scipy import stats

def log_pmf(k):
    """By the series of the Bessel function."""
    terms = [-math.lgamma(m + 1) - math.lgamma(m + k + 1) for m in range(50)]
    return -2.0 + np.logaddexp.reduce(terms)

print("scipy", scipy.__version__)
true, tail = log_pmf(200), math.exp(np.logaddexp.reduce([log_pmf(k) for k in range(21, 60)]))
print(f"guess: logpmf(200) = {true:.1f}, sf(20) = {tail:.2g}")
seen, survival = stats.skellam.logpmf(200, 1, 1), stats.skellam.sf(20, 1, 1)
print(f"seen: logpmf(200) = {seen}, sf(20) = {survival}")
sys.exit(not (seen == -math.inf and survival == 0.0))
END
