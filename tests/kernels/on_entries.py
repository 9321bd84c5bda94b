"""Play rounds on entries in plain Python, where every operation is rounded separately."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.kernels import played_by_kernel
from dpjax.kernels.targets import Target


class Rows:
    """Replaces a memory reference: rows that are read and written at an index."""

    def __init__(self, array):
        self.rows = [jnp.asarray(row) for row in array]

    def __getitem__(self, place):
        if np.shape(place):  # each trial reads its own place
            return jnp.stack(self.rows)[place]
        return self.rows[int(place)]

    def __setitem__(self, place, row):
        self.rows[int(place)] = row


class Python(Target):
    """A kernel that is called without compiling. Its loops are Python loops."""

    def __init__(self, trials):
        self.lanes = (trials,)

    def call(self, kernel, arrays, shapes, blocks, in_specs, out_specs):
        del blocks, in_specs, out_specs
        outputs = [Rows(jnp.zeros(shape.shape, shape.dtype)) for shape in shapes]
        with jax.disable_jit():
            kernel(*map(Rows, arrays), *outputs)
        return [jnp.stack(x.rows) if x.rows else jnp.zeros((0, *self.lanes)) for x in outputs]

    def shared(self, array):
        return array, None


def run(closed, flags, *arguments) -> list:
    """The results of a program for some trials, with its main loop run on entries."""
    trials = next(x.shape[-1] for x, flag in zip(arguments, flags, strict=True) if flag)
    return played_by_kernel(closed, flags, Python(trials))(*arguments)
