"""Optimised parameters of buffered linear Toeplitz matrices: four buffers for N prefixes.

A row of buffered.csv has N, four decays theta and four scales w. They minimise the largest error at
equal L2 sensitivity, as computed by jax_privacy 2.0.0 (buffered_toeplitz.optimize with
error="max"). The table is written by ``python benchmarks/buffered.py``; do not edit it by hand.
"""

from importlib import resources

import numpy as np

_TABLE = resources.files("dpjax.mechanisms").joinpath("buffered.csv").read_text().splitlines()
# N: (decays theta, scales w)
BUFFERED = {int(n): (row[:4], row[4:]) for n, *row in np.loadtxt(_TABLE, delimiter=",").tolist()}
