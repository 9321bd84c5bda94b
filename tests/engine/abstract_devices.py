"""Lowering for absent devices, with JAX alone."""

from dataclasses import fields

import jax
from jax._src.mesh import AbstractDevice, use_abstract_mesh
from jax.sharding import AbstractMesh


def device(**told):
    """A device description; one without a platform is of jax 0.10.0."""
    known = {field.name for field in fields(AbstractDevice)}
    return AbstractDevice(**{name: value for name, value in told.items() if name in known})


# Pallas asks for the kind of TPU and, from jax 0.12 on, for the kind of GPU.
DEVICES = {
    "cuda": device(device_kind="NVIDIA H100", num_cores=132, platform="gpu"),
    "tpu": device(device_kind="TPU v5 lite", num_cores=1, platform="tpu"),
}
# The name of a Pallas kernel in the text of a lowered program, and the kind of device, by target.
KERNEL = {
    "triton": "__gpu$xla.gpu.triton",
    "mosaic_gpu": "@mosaic_gpu_v",
    "tpu": "@tpu_custom_call",
}
if jax.__version_info__ < (0, 10):
    del KERNEL["mosaic_gpu"]
KIND = {"triton": "cuda", "mosaic_gpu": "cuda", "tpu": "tpu"}


def mesh(platform, shape=(), names=()):
    """A mesh of absent devices. The mesh of ``shard_map`` also names the kind of device."""
    return AbstractMesh(shape, names, abstract_device=DEVICES[platform])


def lowered(function, arguments, platform) -> str:
    """The text of a function lowered for "cuda" or "tpu"."""
    with use_abstract_mesh(mesh(platform)):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
