"""Lowering for devices that are not here, with nothing but JAX."""

from dataclasses import fields

import jax
from jax._src.mesh import AbstractDevice, use_abstract_mesh
from jax.sharding import AbstractMesh


def device(**told):
    """One that does not know its platform is of jax 0.10.0."""
    known = {field.name for field in fields(AbstractDevice)}
    return AbstractDevice(**{name: value for name, value in told.items() if name in known})


# Pallas asks which kind of TPU it is, and from jax 0.12 on which kind of GPU.
DEVICES = {
    "cuda": device(device_kind="NVIDIA H100", num_cores=132, platform="gpu"),
    "tpu": device(device_kind="TPU v5 lite", num_cores=1, platform="tpu"),
}
# What the text of a lowered program calls a kernel of Pallas.
KERNEL = {"cuda": "__gpu$xla.gpu.triton", "tpu": "tpu_custom_call"}


def lowered(function, arguments, platform) -> str:
    """The text of a function that is lowered for "cuda" or "tpu"."""
    with use_abstract_mesh(AbstractMesh((), (), abstract_device=DEVICES[platform])):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
