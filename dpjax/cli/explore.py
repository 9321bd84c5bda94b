"""One interactive page of what a store or a table holds."""

from pathlib import Path

from dpjax.core import optional
from dpjax.report.output import output_folder


def run(path, out=None, *, overwrite=False) -> str:
    """Writes the page of a store or of a table of results into the file ``out``, and returns it.

    Raises:
      ImportError: plotly is not installed.
      ValueError, OSError: as of :func:`dpjax.report.explore_page.read`, or ``out`` cannot be
        written, or exists and is not to be overwritten.
    """
    out = default_out(path) if out is None else out
    if not out or Path(out).is_dir():
        raise ValueError(f"out: must name a file, got {out!r}")
    if Path(out).exists() and not overwrite:
        raise ValueError(f"out: {out} exists; say --overwrite to replace it, or name another file")
    optional("plotly", "explore")
    from dpjax.report import (
        explore_page as page,  # not above: other commands should not wait for plotly
    )

    text = page.html(page.read(path))
    with output_folder(Path(out).parent) as folder:
        (folder / Path(out).name).write_text(text, encoding="utf-8")
    return out


def default_out(path) -> str:
    """The page's place next to the input; in the working folder for a store behind a URL."""
    name = str(path).rstrip("/")
    if "://" in name:
        name = name.rpartition("/")[2]
    return f"{name.removesuffix('.csv')}.html"
