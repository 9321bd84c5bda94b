#!/usr/bin/env bash
# Guess: An infinite attribute of a dataset is refused, or written in a form that JSON has, such
# as the string "Infinity" that Zarr uses for fill values.
# Fact: The bare word Infinity is written, so zarr.json is no valid JSON. Python reads it back;
# strict readers refuse the whole group.
# Versions: zarr 3.1.6, xarray 2026.9.0.
# Source: zarr/core/group.py, which allows NaN in json.dumps. The Zarr version 3 specification
# asks for JSON.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet zarr==3.1.6 xarray==2026.9.0 numpy==2.4.6
env/bin/python - <<'END'
import json
import sys

import numpy as np
import xarray as xr
import zarr

print("zarr", zarr.__version__, "xarray", xr.__version__)
data = xr.Dataset({"regret": ("trial", np.zeros(2))}, attrs={"epsilon": np.inf})
data.to_zarr("store.zarr", zarr_format=3, consolidated=False)
text = open("store.zarr/zarr.json").read()

def refuse(word):
    raise ValueError(f"{word} is no JSON")

print("guess: valid JSON, or an error above")
try:
    json.loads(text, parse_constant=refuse)
except ValueError as error:
    print("seen:", error)
    sys.exit(xr.open_zarr("store.zarr", consolidated=False).attrs["epsilon"] != np.inf)
print("seen: valid JSON")
sys.exit(1)
END
