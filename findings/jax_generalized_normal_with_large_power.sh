#!/usr/bin/env bash
# Guess: For p = 100 the density exp(-|x|^p) is nearly uniform on (-1, 1), and no draw is 0.
# Fact: 42 % of the draws are exactly 0, and 91 % for p = 1000. Uniform draws from an Lp ball have
# the same zeros.
# Versions: jax 0.10.2.
# Source: jax/_src/random/core.py, generalized_normal and ball. They raise a gamma draw of shape
# 1/p to the power 1/p, and that draw is below the smallest float32. The documentation states p >
# 0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu env/bin/python - <<'END'
import sys

import jax
import numpy as np

print("jax", jax.__version__)
print("guess: no zeros")
key, zeros = jax.random.key(0), {}
for power in (2.0, 20.0, 100.0, 1000.0):
    draws = np.asarray(jax.random.generalized_normal(key, power, (20_000,)))
    points = np.asarray(jax.random.ball(key, 2, power, (20_000,)))
    zeros[power] = round(float((draws == 0).mean()), 3), round(float((points == 0).mean()), 3)
print("seen: shares of zeros by p, in draws and in coordinates of a ball:", zeros)
sys.exit(not (zeros[2.0] == (0.0, 0.0) and min(zeros[100.0]) > 0.3))
END
