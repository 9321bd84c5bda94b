"""Numbers as the curves compute with them."""

import numpy as np


def float64(*values):
    return [np.asarray(value, np.float64) for value in values]
