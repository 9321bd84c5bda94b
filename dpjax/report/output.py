"""Files of results: tables are written all together or not at all, then the figures.

The papers and the command line use it.
"""

import json
import math
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dpjax.core._version import __version__

_SCRATCH = ".unfinished-"


class FigureWarning(UserWarning):
    """A figure could not be drawn or written. The tables were written."""


def shown(text: object) -> str:
    """A text as one line, with characters escaped if they are not printable or not UTF-8.

    File names may contain line ends and bytes that are not UTF-8.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def refuse_to_overwrite(out: str | os.PathLike) -> None:
    """Raise ValueError if the folder has files other than those of an unfinished run."""
    out = Path(out)
    with writing(f"to the folder {out}"):
        left = list(out.iterdir()) if out.is_dir() else []
    if any(not file.name.startswith(_SCRATCH) for file in left):
        raise ValueError(
            f"out: {out} is not empty; pass --overwrite to replace the results in it, or name "
            "another folder with --out"
        )


@contextmanager
def writing(what: str):
    """Turn an OSError into one that names the target and the reason."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        if isinstance(error, FileExistsError):
            reason = "there is a file of that name"
        raise OSError(f"out: cannot write {what}: {reason}") from None


@contextmanager
def output_folder(out: str | os.PathLike):
    """A scratch folder whose files move to ``out`` together when the block succeeds.

    It is created before the work, so an unwritable ``out`` fails early. After an error nothing is
    left behind, and existing files are unchanged.

    Raises:
      OSError: the folder cannot be created or written to; the message names it.
    """
    out = Path(out)
    with writing(f"to the folder {out}"):
        missing = [folder for folder in [out, *out.parents] if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=out))
    try:
        yield scratch
        files = sorted(scratch.iterdir())
        for file in files:
            # os.replace replaces any existing file, but not a folder.
            if (out / file.name).is_dir():
                raise OSError(f"out: {out / file.name} is a folder; nothing was replaced")
        with writing(f"to the folder {out}"):
            for file in files:
                os.replace(file, out / file.name)
        missing = []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in missing:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()


def write_figure(out: str | os.PathLike, name: str, make: Callable, *arguments: Any) -> None:
    """Draw ``make(*arguments)`` into name.png and name.pdf of the folder ``out``.

    Figures are drawn after the tables. If one fails, the tables stay, a FigureWarning gives the
    reason, and the figure of an earlier run is removed, because it does not match the new tables.
    """
    from dpjax.report import plot  # here, because it loads matplotlib

    try:
        with output_folder(out) as folder:
            plot.save(make(*arguments), folder, name)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the tables are in {out}, without the figure {name}") from None
    except Exception as error:
        for suffix in ("png", "pdf"):
            with suppress(OSError):
                (Path(out) / f"{name}.{suffix}").unlink()
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        sentence = f"the figure {name} could not be drawn ({reason}); the tables are in {out}"
        warnings.warn(sentence, FigureWarning, stacklevel=2)


def versions() -> dict:
    """The versions of the software, for parameters.json."""
    return {
        "dpjax": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def write_json(path: Path, value: object) -> None:
    """Write parameters as indented JSON; infinity becomes "inf" and NaN becomes null."""
    with writing(path.name), open(path, "w", encoding="utf-8") as file:
        json.dump(_json_numbers(value), file, indent=2, allow_nan=False)
        file.write("\n")


def _json_numbers(value):
    if isinstance(value, dict):
        return {name: _json_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_numbers(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
