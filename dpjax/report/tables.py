"""Tables of results: rows from labelled data, and their forms for files, terminals and pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xarray

from dpjax.report.output import writing


def rows(data: xarray.Dataset, order: Sequence[str], **names: str) -> list[dict]:
    """The cells of labelled data as rows of a table, without the cells that were not played.

    Args:
      data: a Dataset; a cell was not played if its first variable is NaN.
      order: its dimensions; the last one varies fastest.
      **names: new names of columns, as in ``adversary="environment"``.
    """
    frame = data.to_dataframe(dim_order=list(order))
    frame = frame.dropna(subset=[next(iter(data.data_vars))]).reset_index()
    found = frame.rename(columns={old: new for new, old in names.items()}).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]


def columns(table: Sequence[dict], names: str) -> list[dict]:
    """The columns of a table that a text names, in its order."""
    return [{name: row[name] for name in names.split()} for row in table]


def format_table(table: Sequence[dict]) -> str:
    """The table for a terminal, in aligned columns, with four digits."""
    header = list(table[0])
    cells = [header, *([_entry(row[name], digits=4) for name in header] for row in table)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def format_markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of words in Markdown."""
    every = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every) + "\n"


def write_csv(path: Path, table: Any) -> None:
    """Writes rows, or a DataFrame, as CSV with a header and six digits. None is an empty entry.

    Raises:
      OSError: the file cannot be written.
    """
    import pandas  # not above: `import dpjax` and a refused command should not wait for it

    # As objects, so that a column may mix integers, floats, words and None.
    frame = pandas.DataFrame(table, dtype=object).map(_entry)
    with writing(path.name):
        frame.to_csv(path, index=False, lineterminator="\n")


def _entry(value, digits=6) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
