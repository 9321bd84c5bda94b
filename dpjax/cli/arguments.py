"""Types of the options, and checks that several commands share."""

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jax.sharding import Mesh

# This module loads no library of numbers, so that help appears at once.
EPSILONS = (0.1, 1.0, 10.0, math.inf)
# The largest number for --devices. Each CPU device has its own threads.
DEVICES = 1024


class List(click.ParamType):
    """Values of one type, separated by commas."""

    def __init__(self, of: Callable[[str], Any], name: str):
        self.of, self.name = of, name

    def convert(self, value, param, ctx):
        if not isinstance(value, str):
            return value
        try:
            return tuple(self.of(word.strip()) for word in value.split(","))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Part(click.ParamType):
    """A part of a study: "3/16" is (3, 16)."""

    name = "I/N"

    def convert(self, value, param, ctx):
        i, slash, n = value.partition("/")
        if slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n):
            return int(i), int(n)
        self.fail(f"must be like 3/16, the 3rd of 16 parts, got {value[:80]!r}", param, ctx)


def number(text: str) -> float:
    """A number. Infinity must be written as inf."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"must be numbers separated by commas, got {text[:80]!r}") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise ValueError(f"{text[:80]} is too large for a float; write inf for no noise")
    return value


NAMES = List(str, "NAME,...")
COLUMNS = List(str, "COLUMN,...")
LEVELS = List(number, "E,E,...")


def results_folder(out: str, overwrite: bool) -> str:
    """The folder for results.

    Raises:
      ValueError: it holds results, and ``overwrite`` is false.
    """
    if not out:
        raise ValueError("out: must name a folder, got ''")
    if not overwrite:
        from dpjax.report.output import refuse_to_overwrite

        refuse_to_overwrite(out)
    return out


def prepare(
    store: str | None, resume: bool, devices: int | None, part: tuple[int, int] | None = None
) -> "Mesh | None":
    """Make the devices and check the store; call it before JAX's first computation.

    Returns:
      A mesh of the requested devices; None if none were requested.

    Raises:
      ValueError: there are fewer devices, or the store cannot be used as requested.
    """
    import jax
    import numpy as np

    from dpjax.core import _check
    from dpjax.store.objects import check_url

    mesh = None
    if devices is not None:
        _check.between(1, DEVICES, devices=devices)
        jax.config.update("jax_num_cpu_devices", devices)
        if jax.device_count() < devices:
            raise ValueError(
                f"devices: {devices} were requested, but there are {jax.device_count()}"
            )
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("devices",))
    if store is None:
        for name, value in (("resume", resume), ("part", part)):
            if value:
                raise ValueError(f"{name}: it needs a store; pass --store PATH")
        return mesh
    check_url(store)
    if os.path.exists(store) and not os.path.isdir(store):
        raise ValueError(f"store: {store} is not a folder")
    if not (resume or part or _is_empty(store)):
        raise ValueError(
            f"store: {store} is not empty; pass --resume to continue it, or name another"
        )
    return mesh


def _is_empty(url) -> bool:
    """Whether a store is empty.

    Raises:
      ValueError: the URL cannot be opened. The message quotes the library that tried.
    """
    from dpjax import store

    try:
        return store.is_empty(url)
    except (ValueError, OSError, ImportError) as error:
        raise ValueError(f"store: {url} cannot be opened: {error}") from None
