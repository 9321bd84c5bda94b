#!/usr/bin/env bash
# Guess: Clipping to global norm 1 turns the gradient (1e20, 0) into (1, 0).
# Fact: The result is (0, 0), and so is the projection onto the unit L2 ball. The squared norm
# overflows to infinity in float32.
# Versions: optax 0.2.8, jax 0.10.2.
# Source: optax/transforms/_clipping.py and optax/projections/_projections.py: both compute the
# squared norm first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet optax==0.2.8 jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu env/bin/python - <<'END'
import sys

import jax.numpy as jnp
import optax

print("optax", optax.__version__)
print("guess: [1.0, 0.0] from both")
gradient = jnp.array([1e20, 0.0])
clip = optax.clip_by_global_norm(1.0)
clipped = clip.update(gradient, clip.init(gradient))[0].tolist()
projected = optax.projections.projection_l2_ball(gradient, 1.0).tolist()
print(f"seen: clipped {clipped}, projected {projected}")
sys.exit(not (clipped == [0.0, 0.0] and projected == [0.0, 0.0]))
END
