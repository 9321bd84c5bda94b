#!/usr/bin/env bash
# Guess: A standard normal draw on (6, 7) has mean 6.157, or in float32 at worst stays at 6.
# Fact: All float32 draws are the upper end, 6.9999995. On (5, 6) there are ten different values.
# Versions: jax 0.10.2, scipy 1.17.1.
# Source: jax/_src/random/core.py, truncated_normal. The error function rounds to 1 at both ends,
# its inverse is infinite, and the result is clipped to the largest float below the upper end.
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
for low in (5.0, 6.0):
    draws = np.asarray(jax.random.truncated_normal(jax.random.key(0), low, low + 1, (100_000,)))
    true = stats.truncnorm(low, low + 1).mean()
    print(f"guess: a mean of {true:.3f} on ({low}, {low + 1})")
    print(f"seen: a mean of {draws.mean():.3f}, {len(np.unique(draws))} different values")
sys.exit(not (draws > 6.999).all())
END
