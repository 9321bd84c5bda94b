"""Tables of features with a loss for each arm, or a label, from the columns of a .csv file."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpjax.cli.loss_files import (
    VALUES,
    Faults,
    add_width,
    csv_rows,
    is_missing,
    is_number,
    missing,
    refuse_counts,
    refuse_separators,
    regular,
)
from dpjax.core import _arrays, _check


class Cases(NamedTuple):
    """Features of rounds, and either losses or labels."""

    names: tuple[str, ...]  # of the features, after words were encoded
    features: np.ndarray  # (n, p)
    arms: tuple[str, ...]  # in the order of the columns of losses, or of the sorted labels
    losses: np.ndarray  # (n, K) in [0, 1]; for labels, 1 if wrong and else 0
    labels: np.ndarray | None  # (n,) words, None if there are losses
    notes: tuple[str, ...]  # sentences on words that were encoded


def read_cases(path, *, features=None, label=None) -> Cases:
    """Read the features of a .csv file, with a column of losses for each arm or one of labels.

    A feature column without any number holds words. It is encoded as a 0-1 feature for each
    distinct word, and a note says so. Nothing else is changed or filled in.

    Args:
      path: a .csv file whose first row names its columns.
      features: names of the feature columns; by default all but the label. Without a label all
        other columns are losses, one column per arm.
      label: the name of the label column. Each label is an arm.

    Raises:
      ValueError: a column does not exist, an entry is missing, a column of numbers contains a word,
        a loss is outside [0, 1], a column of words or labels has more than 32 distinct ones, two
        labels are the same number (1 and 1.0), there are fewer than two arms, or as in
        :func:`dpjax.cli.loss_files.read_losses`. The message names the file and, if possible, the
        row and column.
        The first fault of each column is listed, for at most 10 columns.
      OSError: the file cannot be read, or is not a regular file.
    """
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise ValueError(
            f"{path}: features and labels are named columns, so it must be a .csv file"
        )
    columns, faults = read_columns(path)
    header = list(columns)
    asked = (*(features or ()), *([] if label is None else [label]))
    unknown = [f"{name!r}{_check.nearest(name, header)}" for name in asked if name not in header]
    if unknown:
        raise ValueError(f"{path}: has no column {' and no column '.join(unknown)}; its columns "
                         f"are {', '.join(header)}")  # fmt: skip
    if features is None:
        features = [name for name in header if name != label]
    if label in features or len(set(features)) < len(features):
        raise ValueError(
            f"features: a column is named twice in {', '.join([*features, label])}"
            if label
            else f"features: one is named twice in {', '.join(features)}"
        )
    if not features:
        raise ValueError(f"{path}: has no column of features")
    encoded = [columns[name].feature() for name in features]
    arms = tuple(name for name in header if name not in features)
    if label is not None:
        arms, labels = columns[label].labels()
    elif len(arms) < 2:
        raise ValueError(f"{path}: has {len(arms)} columns of losses beside the features; it needs "
                         "one for each arm, at least 2")  # fmt: skip
    else:
        losses = np.stack([columns[name].losses() for name in arms], 1)
    faults.refuse()
    names = tuple(name for own, _ in encoded for name in own)
    words = [f"{name} ({len(own)})" for name, (own, _) in zip(features, encoded, strict=True)
             if own != [name]]  # fmt: skip
    notes = () if not words else (
        "These columns hold words, and were encoded as one feature of 0 or 1 for each different "
        f"word: {', '.join(words)}.",
    )  # fmt: skip
    read = names, np.concatenate([own for _, own in encoded], axis=1)
    if label is None:
        return Cases(*read, arms, losses, None, notes)
    wrong = (labels[:, None] != np.array(arms)).astype(np.float64)
    return Cases(*read, arms, wrong, labels, notes)


def read_columns(path) -> tuple[dict, Faults]:
    """The columns of a .csv file by name, in order, and its faults. Its first row names them.

    Methods of columns add faults. Refuse them before you use the columns.

    Raises:
      ValueError, OSError: as in :func:`read_cases`.
    """
    path = Path(path)
    first, *rows = regular(path, lambda path: list(csv_rows(path))) or [(1, [])]
    header = _header(path, *first)
    if not rows:
        raise ValueError(f"{path}: has no rows below the header")
    faults = Faults(path)
    for number, row in rows:
        if len(row) != len(header):
            add_width(faults, number, row, len(header), "the header")
    rows = [(number, row) for number, row in rows if len(row) == len(header)]
    if not rows:
        faults.refuse()
    numbers = [number for number, _ in rows]
    return {
        name: Column(faults, j + 1, name, numbers, [row[j].strip() for _, row in rows])
        for j, name in enumerate(header)
    }, faults


def _header(path, number, row) -> list[str]:
    refuse_separators(path, row)
    header, faults = [cell.strip() for cell in row], Faults(path)
    for column, name in enumerate(header, 1):
        if not name or is_number(name):
            what = f"is named {name}; a name must be a word" if name else "has no name"
            sentence = f"row {number} must name the columns, and column {column} {what}"
            faults.add(number, column, sentence)
    faults.refuse()
    _arrays.refuse_repeats(path, header)
    return header


class Column(NamedTuple):
    """A column of a file. Its methods add the faults of its entries."""

    faults: Faults
    place: int  # counted from 1
    name: str
    numbers: list[int]  # of the rows, counted as lines of the file
    cells: list[str]

    def add(self, i, what) -> None:
        """Add the fault of entry i."""
        where = f"row {self.numbers[i]}, column {self.place} ({self.name})"
        self.faults.add(self.numbers[i], self.place, f"{where} {what}")

    def present(self) -> list[int]:
        """The places of entries that are not missing."""
        for i, cell in enumerate(self.cells):
            if is_missing(cell):
                advice = "remove the row, or use another word" if cell else "or remove the row"
                self.add(i, f"{missing(cell)}; fill it in, {advice}")
        return [i for i, cell in enumerate(self.cells) if not is_missing(cell)]

    def values(self) -> np.ndarray:
        """(n,) finite numbers; NaN for a fault."""
        values = np.full(len(self.cells), np.nan)
        others = ", as other entries of this column are" if any(map(is_number, self.cells)) else ""
        for i in self.present():
            cell = self.cells[i]
            if not is_number(cell):
                self.add(i, f"is {cell[:40]!r}, and not a number{others}")
            elif np.isfinite(float(cell)):
                values[i] = float(cell)
            else:
                self.add(i, f"is {float(cell):g}; a number must be finite")
        return values

    def losses(self) -> np.ndarray:
        """(n,) numbers in [0, 1]; others are faults."""
        values = self.values()
        if len(values) > 1 and not any(map(is_number, self.cells)):
            self.faults.advise(self.place, self.name, set(self.cells))
        for i in np.flatnonzero((values < 0.0) | (values > 1.0)).tolist():
            shown = _arrays.digits(values[i], 0.0, 1.0)
            self.add(i, f"is {shown}; losses must lie in [0, 1]")
        return values

    def feature(self) -> tuple[list[str], np.ndarray]:
        """The names and values, (n, c), of the features that encode the column."""
        if any(is_number(cell) and not is_missing(cell) for cell in self.cells):
            values = self.values()[:, None]
            refuse_counts(self.faults.path, values, self.place)
            return [self.name], values
        words, which = self.labels()
        if not words:
            self.faults.advise(self.place, "", ())
        equal = which[:, None] == np.array(words)
        return [f"{self.name}={word}" for word in words], equal.astype(np.float64)

    def words(self) -> list[str]:
        """The distinct words, sorted. Words that are the same number, 1 and 1.0, are faults."""
        first: dict = {}  # word or number -> the row that has it first
        for i in self.present():
            cell = self.cells[i]
            same = first.setdefault(float(cell) if is_number(cell) else cell, i)
            if cell != self.cells[same]:
                self.add(i, f"is {cell!r}, the same number as {self.cells[same]!r} in row "
                            f"{self.numbers[same]}; write them alike")  # fmt: skip
        return sorted(self.cells[i] for i in first.values())

    def labels(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The distinct words, sorted, and the column itself; there are no words if too many."""
        words = self.words()
        few = len(words) < 2 and not self.faults.columns  # else words may be missing
        if few or len(words) > VALUES:
            self.faults.add(
                0, self.place, f"column {self.place} ({self.name}) has {len(words)} different "
                f"{'word' if len(words) == 1 else 'words'}; it must have from 2 to {VALUES}",
            )  # fmt: skip
            words = []
        return tuple(words), np.array(self.cells)
