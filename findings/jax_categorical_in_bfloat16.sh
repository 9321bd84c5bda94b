#!/usr/bin/env bash
# Guess: With 1000 equal logits, half of the draws have an index below 500, in every dtype.
# Fact: With bfloat16 logits 98 % have one. Gumbel noise then has so few values that many indices
# tie for the largest, and the first of them wins. With 10 equal logits all shares are within
# 0.005 of 0.1.
# Versions: jax 0.10.2.
# Source: jax/_src/random/core.py, gumbel and uniform: eight random bits for a bfloat16. The
# documentation of categorical states a bias in float32 only, from probability 1e-7 down.
# `mode="high"` removes most of the bias.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu env/bin/python - <<'END'
import sys

import jax
import jax.numpy as jnp
import numpy as np

print("jax", jax.__version__)
print("guess: a share of 0.5 below index 500")
share = {}
for dtype in ("float32", "float16", "bfloat16"):
    logits = jnp.zeros(1000, dtype)
    draws = np.asarray(jax.random.categorical(jax.random.key(0), logits, shape=(4000,)))
    share[dtype] = float((draws < 500).mean())
print("seen:", share)
sys.exit(not (abs(share["float32"] - 0.5) < 0.05 and share["bfloat16"] > 0.95))
END
