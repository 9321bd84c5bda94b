"""The parser of the command line, and arguments that several commands share."""

import argparse
import math
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax.sharding import Mesh

# Defaults of several commands. This module loads no library, so that help appears at once.
PRIVATE_EPSILONS = (0.1, 1.0, 10.0)
EPSILONS = (*PRIVATE_EPSILONS, math.inf)
RUNS = 2**17  # of each sequence in an attack
MINUTES = 20.0  # the time limit of an attack
# The largest number for --devices. Each CPU device has its own threads.
DEVICES = 1024


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence that suggests the closest known name."""

    @property
    def version(self) -> str:
        """The text of ``--version``."""
        from dpjax.core._version import __version__

        return f"dpjax {__version__}"

    def error(self, message):
        from dpjax.report.output import shown

        self.exit(2, f"{self.prog}: {shown(message)} ({self.prog} --help shows the usage)\n")

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            known = ", ".join(action.choices)
            from dpjax.core import _check

            meant = _check.nearest(value, action.choices)
            raise argparse.ArgumentError(action, f"there is no {value!r}{meant}; known are {known}")


def add_output(command, default, merged="") -> None:
    """Add the folder of results; ``merged`` names the results that --merge replaces."""
    command.add_argument("--out", metavar="DIR", help=f"default {default}")
    command.add_argument(
        "--overwrite", action="store_true", help="replace the results of an earlier run in DIR"
    )
    command.set_defaults(merge=False, merged=merged)
    if merged:
        command.add_argument(
            "--merge", action="store_true",
            help=f"replace only results of the same {merged}, and keep all others in DIR",
        )  # fmt: skip


def add_scale(command, stored) -> None:
    """Add --store, --resume and --devices; ``stored`` is the help of --store."""
    command.add_argument("--store", metavar="PATH", help=stored)
    command.add_argument("--resume", action="store_true", help="continue from the store in PATH")
    command.add_argument(
        "--devices", type=int, metavar="N", help="share the work among N devices (or CPU cores)"
    )


def add_epsilon(command, default=None) -> None:
    """Add a list of privacy levels; without a default these are 0.1, 1, 10 and inf."""
    levels = ",".join(f"{epsilon:g}" for epsilon in default or EPSILONS)
    command.add_argument(
        "--epsilon", type=epsilon_list, metavar="E,E,...", default=default,
        help=f"privacy levels, inf for no privacy (default {levels})",
    )  # fmt: skip


def add_number(command, name, default, metavar, words="") -> None:
    """Add a number of the type of its default."""
    text = f"{words} (default {default:.10g})" if words else f"default {default:.10g}"
    command.add_argument(
        f"--{name}", type=type(default), default=default, metavar=metavar, help=text
    )


def results_folder(options, default) -> str:
    """The folder for results.

    Raises:
      ValueError: it holds results, and neither --overwrite nor --merge was passed.
    """
    out = default if options.out is None else options.out
    if not out:
        raise ValueError("out: must name a folder, got ''")
    if not (options.overwrite or options.merge):
        from dpjax.report.output import refuse_to_overwrite

        refuse_to_overwrite(out, options.merged)
    return out


def prepare(options) -> "Mesh | None":
    """Make the devices and check the store; call it before JAX's first computation.

    Returns:
      A mesh of the requested devices; None if none were requested.

    Raises:
      ValueError: there are fewer devices, or the store cannot be used as requested.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh

    from dpjax.core import _check
    from dpjax.store.objects import check_url

    mesh = None
    if options.devices is not None:
        _check.between(1, DEVICES, devices=options.devices)
        jax.config.update("jax_num_cpu_devices", options.devices)
        if jax.device_count() < options.devices:
            raise ValueError(
                f"devices: {options.devices} were requested, but there are {jax.device_count()}"
            )
        mesh = Mesh(np.array(jax.devices()[: options.devices]), ("devices",))
    if options.store is None:
        if options.resume:
            raise ValueError("resume: there is no store to continue from; pass --store PATH")
        return mesh
    check_url(options.store)
    if os.path.exists(options.store) and not os.path.isdir(options.store):
        raise ValueError(f"store: {options.store} is not a folder")
    if not (options.resume or getattr(options, "part", None) or _is_empty(options.store)):
        raise ValueError(
            f"store: {options.store} is not empty; pass --resume to continue it, or name another"
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


def part_of(text) -> tuple[int, int]:
    """Parse "3/16" as (3, 16)."""
    i, slash, n = text.partition("/")
    if slash and i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n):
        return int(i), int(n)
    raise argparse.ArgumentTypeError(f"must be like 3/16, the 3rd of 16 parts, got {text[:80]!r}")


def name_list(text) -> list[str]:
    """The names in a comma-separated text."""
    return [word.strip() for word in text.split(",")]


def epsilon_list(text) -> tuple[float, ...]:
    """The privacy levels in a comma-separated text."""
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be numbers separated by commas, got {text[:80]!r}"
        ) from None
    if math.inf in found and "inf" not in text.lower():
        raise argparse.ArgumentTypeError(
            f"has a number that is too large for a float; write inf for no noise, got {text[:80]!r}"
        )
    return found
