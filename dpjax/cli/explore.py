"""An interactive page of a store, or of the data that a command has written."""

import json
import os
from pathlib import Path

import xarray

from dpjax.core import optional
from dpjax.report.output import output_folder
from dpjax.study import kept


def read(path: str | os.PathLike) -> tuple[xarray.Dataset, dict]:
    """The data of a store, a folder of results or a file data.nc, and their parameters.

    Raises:
      ValueError, OSError: there are no data; the message names the path.
    """
    path = str(path)
    folder = Path(path).parent if path.endswith(".nc") else Path(path)
    file = folder / "data.nc" if folder == Path(path) else Path(path)
    if "://" not in path and not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not file.is_file():
        if Path(path).is_file():
            raise ValueError(
                f"{path}: pass a store, a file data.nc, or a folder of results that contains it; "
                "other tables have no trials"
            )
        return kept.open(path), {}
    try:
        with xarray.open_dataset(file) as opened:
            data = opened.load()
    except (ValueError, OSError, TypeError) as error:
        raise ValueError(f"{file}: cannot be read as data of a study: {error}") from None
    if "final_regret" not in data or "learner" not in data.dims:
        raise ValueError(f"{file}: holds no data of a study")
    parameters = folder / "parameters.json"
    return data, json.loads(parameters.read_text("utf-8")) if parameters.is_file() else {}


def run(path: str | os.PathLike, out: str | None = None, *, overwrite: bool = False) -> str:
    """Write the page of :func:`read`'s data into the file ``out``, and return its name.

    Raises:
      ImportError: plotly is not installed.
      ValueError, OSError: as in :func:`read`; or ``out`` cannot be written, or exists without
        ``overwrite``.
    """
    out = default_out(path) if out is None else out
    if not out or Path(out).is_dir():
        raise ValueError(f"out: must name a file, got {out!r}")
    if Path(out).exists() and not overwrite:
        raise ValueError(f"out: {out} exists; pass --overwrite to replace it, or name another file")
    optional("plotly", "explore")
    from dpjax.report import explore_page as page  # here, because plotly takes long to load

    text = page.html(*read(path), title_of(path))
    with output_folder(Path(out).parent) as folder:
        (folder / Path(out).name).write_text(text, encoding="utf-8")
    return out


def title_of(path: str | os.PathLike) -> str:
    """The page's title: the name of the input, without folders and file endings."""
    *folders, name = str(path).rstrip("/").split("/")
    if name == "data.nc" and folders:
        name = folders[-1]
    return name.removesuffix(".nc").removesuffix(".zarr")


def default_out(path: str | os.PathLike) -> str:
    """The default file: next to the input, or in the working folder if the store is a URL."""
    name = str(path).rstrip("/")
    if "://" in name:
        name = name.rpartition("/")[2]
    return f"{name.removesuffix('.nc')}.html"
