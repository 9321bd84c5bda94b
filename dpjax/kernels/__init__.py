"""Plays a game's rounds as one kernel of an accelerator. Imported only on accelerators.

The kernels are written in Pallas, for NVIDIA GPUs through Triton or Mosaic, and for TPUs through
Mosaic. A GPU uses Triton if the installed version of JAX has it and it supports the game.
``docs/engine.md`` explains how they are made.
"""

from functools import partial
from importlib.util import find_spec

import jax
from jax.extend.core import ClosedJaxpr

from dpjax.engine.compile import ACCELERATOR, PLATFORMS, over_trials
from dpjax.kernels.play import played_by_kernel
from dpjax.kernels.targets import TARGETS

__all__ = ["TARGETS", "one_kernel", "played_by_kernel"]


def one_kernel(program: ClosedJaxpr, size: tuple[int, int], platform, target):
    """The function of a block whose rounds are one kernel of an accelerator.

    Args:
      program, size, platform: as for the other layouts (:mod:`dpjax.engine.compile`).
      target: a name in :data:`TARGETS`.

    Raises:
      Unfit: the program has no loop, or a kernel does not support an equation. It is raised when
        the function is traced.
    """
    points, _ = size

    def play(point, seeds, common):
        common = jax.tree.leaves(common)
        flags = [points > 1] * len(point) + [True] + [False] * len(common)
        return played_by_kernel(program, flags, TARGETS[target])(*point, seeds, *common)

    return over_trials(play)


def _layouts(*targets):
    kernels = [partial(one_kernel, target=target) for target in targets]
    return ACCELERATOR._replace(layouts=(*kernels, *ACCELERATOR.layouts))


_backends = ("triton", "mosaic_gpu") if jax.__version_info__ >= (0, 10) else ("triton",)
_gpu = [name for name in _backends if find_spec(f"jax.experimental.pallas.{name}")]
PLATFORMS.update(cuda=_layouts(*_gpu), tpu=_layouts("tpu"))
