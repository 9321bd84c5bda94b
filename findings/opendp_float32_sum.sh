#!/usr/bin/env bash
# Guess: One more record changes a float32 sum of values in [0, 1] by 1, and OpenDP adds a
# rounding term below one percent.
# Fact: OpenDP's sensitivity is 6.00001 for data of unknown size: the rounding term is five times
# the value. For a million records of known size, a replaced record counts 5.75. In float64 both
# are 1.00000001.
# Versions: opendp 0.16.0.
# Source: rust/src/transformations/sum/float in OpenDP's repository: bounds of rounding errors
# grow with the size limit, which is 2^20 if the size is unknown. Its documentation cites
# Casacuberta et al. 2022.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet opendp==0.16.0
env/bin/python - <<'END'
import sys
from importlib.metadata import version

import opendp.prelude as dp

dp.enable_features("contrib")
print("opendp", version("opendp"))
print("guess: 1, with a rounding term below 0.01")

def sensitivity(dtype, size, distance):
    atoms = dp.atom_domain(bounds=(0.0, 1.0), T=dtype, nan=False)
    domain = dp.vector_domain(atoms, size=size) if size else dp.vector_domain(atoms)
    return dp.t.make_sum(domain, dp.symmetric_distance()).map(distance)

added = {dtype: sensitivity(dtype, None, 1) for dtype in ("f32", "f64")}
replaced = {dtype: sensitivity(dtype, 1_000_000, 2) for dtype in ("f32", "f64")}
print("seen: one record more, size unknown:", added)
print("seen: one record replaced of a million:", replaced)
sys.exit(not (added["f32"] > 5 and replaced["f32"] > 5 and added["f64"] < 1.001))
END
