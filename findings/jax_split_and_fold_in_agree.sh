#!/usr/bin/env bash
# Guess: `split` and `fold_in` are two different derivations, so the keys that they derive from
# one key differ.
# Fact: For threefry keys, `split(key, n)[i]` is exactly `fold_in(key, i)`. A program that splits
# a key and also folds integers into it uses the same random numbers twice. JAX's check of key
# reuse does not report it.
# Versions: jax 0.10.2.
# Source: jax/_src/random/threefry2x32.py, and pull request 13341 of jax-ml/jax, which made it so
# on purpose. It is the default since version 0.5.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu env/bin/python - <<'END'
import sys

import jax

print("jax", jax.__version__)
print("guess: all keys differ")
key = jax.random.key(0)
split = jax.random.key_data(jax.random.split(key, 4)).tolist()
folded = [jax.random.key_data(jax.random.fold_in(key, i)).tolist() for i in range(4)]
equal = [one == other for one, other in zip(split, folded)]
print("seen: split(key, 4)[i] == fold_in(key, i):", equal)
with jax.debug_key_reuse(True):
    child, other = jax.random.split(key)[1], jax.random.fold_in(key, 1)
    draws = float(jax.random.normal(child)), float(jax.random.normal(other))
print("seen: the check of key reuse is silent, and two normal draws are", draws)
sys.exit(not all(equal) or draws[0] != draws[1])
END
