#!/usr/bin/env bash
# Guess: -0.0 equals 0.0, and of equal elements `top_k` returns the lower index first, as its
# documentation says and as `argmax` does.
# Fact: `top_k` ranks 0.0 above -0.0, so for [-0.0, 0.0] it returns index 1. `argmax` and
# `argsort` treat both as equal.
# Versions: jax 0.10.2 on a CPU.
# Source: The documentation of jax.lax.top_k, and of the total order of floats in XLA's
# comparison.
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

print("jax", jax.__version__)
values = jnp.array([-0.0, 0.0])
print("guess: index 0 from all three, since", values[0], "==", values[1])
top = int(jax.lax.top_k(values, 1)[1][0])
first, order = int(jnp.argmax(values)), jnp.argsort(values).tolist()
print(f"seen: top_k {top}, argmax {first}, argsort {order}")
sys.exit(not (top == 1 and first == 0 and order == [0, 1]))
END
