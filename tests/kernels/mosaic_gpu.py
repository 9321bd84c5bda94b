"""A target for NVIDIA GPUs through Mosaic instead of Triton, as far as jax 0.10 goes.

It lowers EXP3. docs/accelerators.md says what it still lacks.
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

from dpjax.kernels.targets import Mosaic, Triton


def _floor(eqn, x):
    """Of numbers that fit an int32, which those of a game do."""
    del eqn
    whole = x.astype(jnp.int32).astype(x.dtype)
    return jnp.where(whole > x, whole - 1, whole)


class MosaicGPU(Mosaic):
    """Four warps with a trial for each of their threads; other numbers of lanes have no layout."""

    name = "cuda"
    lanes = (128,)
    # Mosaic has code for some thirty elementwise operations fewer than Triton. EXP3 needs these.
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
        size = -(-max(len(array), 1) // 4) * 4  # memory is read by 16 bytes
        space = pl.BlockSpec((size,), lambda i: (0,), memory_space=mosaic_gpu.GMEM)
        return jnp.pad(array, (0, size - len(array))), space
