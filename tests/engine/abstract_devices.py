"""Lowering for devices that are not here, with nothing but JAX."""

import jax
from jax._src.mesh import AbstractDevice, use_abstract_mesh
from jax.sharding import AbstractMesh

# Pallas asks which kind of TPU it is, and from jax 0.12 on which kind of GPU.
DEVICES = {
    "cuda": AbstractDevice(device_kind="NVIDIA H100", num_cores=132, platform="gpu"),
    "tpu": AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu"),
}
# What the text of a lowered program calls a kernel of Pallas.
KERNEL = {"cuda": "__gpu$xla.gpu.triton", "tpu": "tpu_custom_call"}


def lowered(function, arguments, platform) -> str:
    """The text of a function that is lowered for "cuda" or "tpu"."""
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=DEVICES[platform])):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
