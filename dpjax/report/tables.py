"""Tables of results: rows as dictionaries, formatted for files, terminals and pages.

The module does not load pandas and xarray, which take a second and which audits do not need.
"""

import csv
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpjax.report.output import writing

if TYPE_CHECKING:
    import pandas
    import xarray


def filled(frame: "pandas.DataFrame", axes: Iterable[Hashable]) -> "pandas.DataFrame":
    """A table for print: NaN in the columns of ``axes`` is empty."""
    shown = {str(name): frame[name].astype(object) for name in axes if name in frame}
    return frame.assign(
        **{name: values.where(values.notnull(), "") for name, values in shown.items()}
    )


def rows(data: "xarray.Dataset", order: Sequence[str], **names: str) -> list[dict]:
    """The cells of labelled data as rows of a table, without cells that were not played.

    Args:
      data: a Dataset; a cell was not played if its first variable is NaN.
      order: its dimensions; the last one varies fastest.
      **names: new names of columns, as in ``adversary="environment"``.
    """
    frame = data.to_dataframe(dim_order=list(order))
    frame = frame.dropna(subset=[next(iter(data.data_vars))]).reset_index()
    # A column that clashes with a new name is dropped, unless it has a new name itself.
    hidden = frame.columns.intersection(list(names)).difference(list(names.values()))
    frame = frame.drop(columns=hidden).rename(columns={old: new for new, old in names.items()})
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def columns(table: Sequence[dict], names: str) -> list[dict]:
    """The columns of a table that ``names`` lists, in that order."""
    return [{name: row[name] for name in names.split()} for row in table]


def format_table(table: Sequence[dict]) -> str:
    """The table for a terminal: aligned columns, and four digits."""
    header = list(table[0])
    cells = [header, *([entry(row[name], digits=4) for name in header] for row in table)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def format_markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of strings in Markdown."""
    every = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every) + "\n"


def write_csv(path: Path, table: Any) -> None:
    """Write rows or a DataFrame as CSV with a header and six digits; None is an empty entry.

    Raises:
      OSError: the file cannot be written.
    """
    lines = table if isinstance(table, list | tuple) else table.to_dict("records")
    header = dict.fromkeys(name for line in lines for name in line)
    with writing(path.name), open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: entry(value) for name, value in line.items()} for line in lines)


def read_rows(path: Path) -> list[dict]:
    """The rows of a CSV file, with None for empty entries."""
    import pandas

    frame = pandas.read_csv(path).astype(object)
    return frame.where(frame.notnull(), None).to_dict("records")  # type: ignore[return-value]


def entry(value: object, digits: int = 6) -> str:
    """The text of a table entry: floats with ``digits`` digits, None as empty."""
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
