"""The number type of the curves."""

import numpy as np


def float64(*values):
    """The values as float64 arrays of NumPy, in a list."""
    return [np.asarray(value, np.float64) for value in values]
