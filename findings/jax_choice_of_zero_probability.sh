#!/usr/bin/env bash
# Guess: `choice(key, n, p=p)` never returns an item of probability 0.
# Fact: It does, 83 times in a million draws from 50,000 equal weights with a zero before each.
# The float32 cumulative sum of these weights decreases in 713 places, so that zero weights have
# intervals.
# Versions: jax 0.10.2 on a CPU.
# Source: jax/_src/random/core.py, choice: a search in the cumulative sum of p. XLA adds blocks in
# parallel, and so a cumulative sum of non-negative numbers can decrease.
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
print("guess: no drop of the cumulative sum, no item of probability 0")
count = 100_000
weights = jnp.where(jnp.arange(count) % 2 == 0, 0.0, 2.0 / count)
drops = int((np.diff(np.asarray(jnp.cumsum(weights))) < 0).sum())
items = jax.random.choice(jax.random.key(0), count, (1_000_000,), p=weights)
impossible = int((weights[items] == 0).sum())
print(f"seen: {drops} drops, {impossible} items of probability 0 in a million draws")
sys.exit(not (drops > 0 and impossible > 0))
END
