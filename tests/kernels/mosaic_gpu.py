"""A target for NVIDIA GPUs through Mosaic instead of Triton, as far as jax 0.10 supports it.

It lowers EXP3. docs/accelerators.md lists what is missing.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from dpjax.kernels.targets import Mosaic, Triton


def _floor(eqn, x):
    """For numbers that fit an int32, as those of a game do."""
    del eqn
    whole = x.astype(jnp.int32).astype(x.dtype)
    return jnp.where(whole > x, whole - 1, whole)


class MosaicGPU(Mosaic):
    """Four warps with one trial per thread; other numbers of lanes have no layout."""

    name = "cuda"
    lanes = (128,)
    # Mosaic lacks some thirty elementwise operations that Triton has. EXP3 needs these.
    replaced = {  # noqa: RUF012
        **Triton.replaced,
        "floor": _floor,
        "sqrt": lambda eqn, x: jnp.where(x > 0, x * lax.rsqrt(x), x),
    }

    def within(self, zeros):
        return MosaicGPU(zeros)

    def options(self):
        return {"compiler_params": mosaic_gpu.CompilerParams()}

    def shared(self, array):
        size = -(-max(len(array), 1) // 4) * 4  # memory is read in units of 16 bytes
        space = pl.BlockSpec((size,), lambda i: (0,), memory_space=mosaic_gpu.GMEM)
        return jnp.pad(array, (0, size - len(array))), space
