"""Writing results: everything or nothing."""

import csv
import json
import math
import os
import platform
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np

from dpjax import __version__
from dpjax.store.objects import is_left_behind, process_mark

_SCRATCH = ".unfinished-"


def refuse_to_overwrite(out) -> None:
    """Raises ValueError where the folder has files, but for what an unfinished run left there."""
    out = Path(out)
    if out.is_dir() and any(not file.name.startswith(_SCRATCH) for file in out.iterdir()):
        raise ValueError(
            f"out: {out} is not empty; say --overwrite to replace results that are in it, or name "
            "another folder"
        )


@contextmanager
def output_folder(out):
    """A scratch folder whose files appear in ``out`` together, once the block has succeeded.

    Created at once, so that a folder that cannot be written to is refused before the work. After
    an error nothing is left behind, and files that were there before are as they were. What a
    process of this machine left behind that was killed is removed.

    Raises:
      OSError: the folder cannot be created or written to; the message names it.
    """
    out = Path(out)
    missing = [folder for folder in [out, *out.parents] if not folder.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        for left in out.glob(f"{_SCRATCH}*"):
            if is_left_behind(left.name.removeprefix(_SCRATCH).rpartition("-")[0]):
                shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{process_mark()}-", dir=out))
    except OSError as error:
        raise OSError(f"out: cannot write to the folder {out}: {error.strerror}") from None
    try:
        yield scratch
        for file in sorted(scratch.iterdir()):
            os.replace(file, out / file.name)
        missing = []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in missing:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()


def versions() -> dict:
    """Of what computes, for parameters.json."""
    return {
        "dpjax": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def write_csv(path, rows) -> None:
    """A list of dicts with the same keys, as CSV with a header."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _text(value) for key, value in row.items()} for row in rows)


def write_json(path, value) -> None:
    """Parameters, indented. JSON has no infinity and no NaN: they become "inf" and null."""
    with open(path, "w", encoding="utf-8") as file:
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


def format_table(rows) -> str:
    """The same rows for a terminal, columns aligned."""
    header = list(rows[0])
    cells = [header, *([_text(row[name], digits=4) for name in header] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def _text(value, digits=6) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
