"""Plays a game's rounds as one kernel of an accelerator. Imported only on accelerators.

The kernels are written in Pallas, for NVIDIA GPUs through Triton and for TPUs through Mosaic.
``docs/engine.md`` explains how they are made.
"""

from functools import partial

import jax

from dpjax.engine.compile import ACCELERATOR, PLATFORMS, over_trials
from dpjax.kernels.play import played_by_kernel
from dpjax.kernels.targets import TARGETS

__all__ = ["TARGETS", "one_kernel", "played_by_kernel"]


def one_kernel(program, size, platform, target):
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


PLATFORMS.update(
    (name, ACCELERATOR._replace(layouts=(partial(one_kernel, target=name), *ACCELERATOR.layouts)))
    for name in ("cuda", "tpu")
)
