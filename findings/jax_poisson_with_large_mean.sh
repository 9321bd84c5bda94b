#!/usr/bin/env bash
# Guess: Poisson draws of mean 1e8 have variance 1e8, and float32 rounding to multiples of 8 is
# negligible beside it.
# Fact: Their variance is 1.46e8. The log-probability of the mean is 0 in float32, and -10.1 in
# truth. At mean 1e6 the variance is 2 to 3 percent too large, and at 1e4 it is right.
# Versions: jax 0.10.2, scipy 1.17.1.
# Source: jax/_src/random/core.py, the rejection sampler for Poisson laws. Its acceptance test
# subtracts float32 numbers of size 1e9, where rounding exceeds the result.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2 scipy==1.17.1
JAX_PLATFORMS=cpu env/bin/python - <<'END'
import sys

import jax
import numpy as np
from scipy import stats

print("jax", jax.__version__)
print("guess: variance / mean = 1")
ratio = {}
for mean in (1e4, 1e6, 1e8):
    draws = np.asarray(jax.random.poisson(jax.random.key(0), mean, (100_000,)), np.float64)
    ratio[mean] = round(float(draws.var() / mean), 3)
print("seen: variance / mean by mean:", ratio)
theirs, true = float(jax.scipy.stats.poisson.logpmf(1e8, 1e8)), stats.poisson.logpmf(1e8, 1e8)
print(f"seen: log-probability of 1e8 at mean 1e8: {theirs:.3f}, in truth {true:.3f}")
sys.exit(not (abs(ratio[1e4] - 1) < 0.03 and ratio[1e8] > 1.3 and theirs > -5))
END
