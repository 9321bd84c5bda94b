"""Losses, features and labels from files: pandas reads CSV and Parquet, NumPy reads NPY and NPZ."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from dpjax.core import _arrays, _check, optional
from dpjax.environments._table import check_losses, check_shape

# Marks of a missing entry in a CSV file, beside those of pandas.
MARKS = [".", "?", "\\N", "NaT", "none", "NONE", "na", "Null"]
# A message lists the faults of this many columns of a file, and counts the others.
LISTED = 10
# The largest number of different words in a column of words, and of labels.
WORDS = 32
FINITE = np.finfo(np.float64).max


class Losses(NamedTuple):
    """A loss table with the names of its arms."""

    arms: tuple[str, ...]
    losses: np.ndarray  # (T, K) in [0, 1]


class Cases(NamedTuple):
    """Features of rounds, and either losses or labels."""

    names: tuple[str, ...]  # of the features, after words were encoded
    features: np.ndarray  # (n, p)
    arms: tuple[str, ...]  # in the order of the columns of losses, or of the sorted labels
    losses: np.ndarray  # (n, K) in [0, 1]; for labels, 1 if wrong and else 0
    labels: np.ndarray | None  # (n,) words or numbers, None if there are losses
    notes: tuple[str, ...]  # sentences on words that were encoded


class Table:
    """The columns of a file. Their faults are reported together, by :meth:`refuse`."""

    def __init__(self, path: Path):
        self.path, self.frame = path, _frame(path)
        self.names = [str(name).strip() for name in self.frame.columns]
        _arrays.refuse_repeats(str(path), self.names)
        self.frame.columns = self.names
        for name in self.names:
            if not is_numeric_dtype(self.frame[name]):
                words = self.frame[name].astype(object)
                self.frame[name] = words.map(lambda entry: str(entry).strip(), na_action="ignore")
        if self.frame.empty:
            raise ValueError(f"{path}: has no rows")
        self.faults: dict[str, str] = {}

    def fault(self, name: str, bad: np.ndarray, sentence: str) -> None:
        """Note the first of the bad rows of a column."""
        i, count = int(np.argmax(bad)), int(bad.sum())
        more = f" (and {count - 1} more in this column)" if count > 1 else ""
        place = f"row {self.frame.index[i]}, column {self.names.index(name) + 1} ({name})"
        self.faults[name] = f"{place} {sentence}{more}"

    def missing(self, name: str) -> np.ndarray:
        """(n,) whether an entry is missing, which is a fault."""
        bad = self.frame[name].isna().to_numpy()
        if bad.any():
            self.fault(name, bad, "is missing or marked as missing; fill it in, or remove the row")
        return bad

    def numbers(
        self, name: str, low: float = -FINITE, high: float = FINITE,
        allowed: str = "a number must be finite",
    ) -> np.ndarray:  # fmt: skip
        """(n,) numbers in [low, high]; other entries are faults."""
        values = pandas.to_numeric(self.frame[name], errors="coerce")
        values = values.to_numpy(np.float64, na_value=np.nan)
        bad = ~((values >= low) & (values <= high))
        if bad.any() and not self.missing(name).any():
            i = int(np.argmax(bad))
            number, text = values[i], str(self.frame[name].iloc[i])[:40]
            if np.isnan(number):
                self.fault(name, bad, f"is {text!r}, which is not a number")
            else:
                self.fault(name, bad, f"is {_arrays.digits(number, low, high)}; {allowed}")
        return values

    def losses(self, names: Sequence[str]) -> np.ndarray:
        """(n, K) losses in the columns of these names."""
        allowed = "losses must lie in [0, 1]"
        return np.stack([self.numbers(name, 0.0, 1.0, allowed) for name in names], 1)

    def labels(self, name: str) -> tuple[list[str], np.ndarray]:
        """The different entries, sorted, as words; and (n,) the place of each row's entry."""
        if self.missing(name).any():
            return [], np.zeros(len(self.frame), int)
        places, entries = pandas.factorize(self.frame[name], sort=True)
        if not 2 <= len(entries) <= WORDS:
            self.faults[name] = (f"column {self.names.index(name) + 1} ({name}) has {len(entries)} "
                                 f"different entries; it must have from 2 to {WORDS}")  # fmt: skip
            return [], np.zeros(len(self.frame), int)
        return [f"{x:g}" if isinstance(x, float) else str(x) for x in entries], places

    def feature(self, name: str) -> tuple[list[str], np.ndarray]:
        """The names and (n, c) values of the features that encode a column of numbers or words."""
        if pandas.to_numeric(self.frame[name], errors="coerce").notna().any():
            values = self.numbers(name)
            if len(values) > 2 and values[0] in (0, 1) and (np.diff(values) == 1).all():
                self.fault(name, np.isfinite(values), "begins an index of the rows; remove it")
            return [name], values[:, None]
        words, places = self.labels(name)
        return [f"{name}={word}" for word in words], np.eye(len(words) or 1)[places]

    def refuse(self) -> None:
        """Raise a ValueError if there are faults, with the first of each column."""
        listed, rest = list(self.faults.values())[:LISTED], len(self.faults) - LISTED
        if listed:
            others = [f"{rest} more columns have faults"] if rest > 0 else []
            raise ValueError(f"{self.path}: {'; '.join(listed + others)}")


def read_losses(path: str | os.PathLike) -> Losses:
    """Read a (T, K) table of losses in [0, 1], whose rows are rounds and whose columns are arms.

    The first row of a .csv file is a header if none of its entries is a number.

    Args:
      path: a .csv file, with or without a header of arm names; a .parquet file; a .npy file; or a
        .npz file with one array, or with one that is called losses.

    Returns:
      The table and the names of its arms, "arm 1", ... if the file has none.

    Raises:
      ValueError: the file does not hold a table of losses: an entry is missing, not a number or out
        of range; rows differ in length; there are no rows, or fewer than two arms; two arms have
        the same name; the first row counts the columns; or the file is damaged. The message names
        the file and, if possible, the row and column, counted from 1. Blank lines of a CSV file
        are not counted. The first fault of each column is listed, for at most 10 columns.
      OSError: the file cannot be read.
    """
    table = Table(Path(path))
    losses = table.losses(table.names)
    table.refuse()
    return Losses(tuple(table.names), check_losses(losses, str(path)))


def read_cases(
    path: str | os.PathLike, *, features: Sequence[str] | None = None, label: str | None = None
) -> Cases:
    """Read features of a file, with a column of losses for each arm or one of labels.

    A feature column without any number holds words. It is encoded as a 0-1 feature for each
    different word, and a note says so. Nothing else is changed or filled in.

    Args:
      path: as in :func:`read_losses`; the file names its columns.
      features: names of the feature columns; by default all but the label. Without a label all
        other columns are losses, one column per arm.
      label: the name of the label column. Each label is an arm.

    Raises:
      ValueError: a column does not exist, an entry is missing, a column of numbers contains a word,
        a loss is outside [0, 1], a column of words or labels has more than 32 different ones, a
        feature is an index of the rows, there are fewer than two arms, or as in
        :func:`read_losses`.
      OSError: the file cannot be read.
    """
    table = Table(Path(path))
    if features is None:
        features = [name for name in table.names if name != label]
    chosen = [*features, *([] if label is None else [label])]
    for name in chosen:
        if name not in table.names:
            meant = _check.nearest(name, table.names)
            raise ValueError(f"{path}: has no column {name!r}{meant}; its columns are "
                             f"{', '.join(table.names)}")  # fmt: skip
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"features: a column is named twice in {', '.join(chosen)}")
    if not features:
        raise ValueError(f"{path}: has no column of features")
    encoded = [table.feature(name) for name in features]
    if label is not None:
        arms, labels = table.labels(label)
        losses = 1.0 - np.eye(len(arms) or 1)[labels]
    else:
        arms, labels = [name for name in table.names if name not in features], None
        if len(arms) < 2:
            raise ValueError(f"{path}: has {len(arms)} columns of losses beside the features; it "
                             "needs one for each arm, at least 2")  # fmt: skip
        losses = table.losses(arms)
    table.refuse()
    words = [f"{name} ({len(codes)})" for name, (codes, _) in zip(features, encoded, strict=True)
             if codes != [name]]  # fmt: skip
    notes = () if not words else (
        "These columns hold words, and were encoded as one feature of 0 or 1 for each different "
        f"word: {', '.join(words)}.",
    )  # fmt: skip
    names = tuple(name for codes, _ in encoded for name in codes)
    values = np.concatenate([values for _, values in encoded], axis=1)
    return Cases(names, values, tuple(arms), losses, labels, notes)


def _frame(path: Path) -> pandas.DataFrame:
    """The columns of a file; the index has the numbers of its rows, counted from 1."""
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npy": _read_array,
               ".npz": _read_array}  # fmt: skip
    suffix = path.suffix.lower()
    if suffix not in readers:
        raise ValueError(f"{path}: must be a .csv, .parquet, .npy or .npz file")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return readers[suffix](path)
    except (MemoryError, ImportError):
        raise
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except Exception as error:  # Damaged bytes raise more than ten kinds of errors.
        said = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())[:200]
        raise ValueError(f"{path}: cannot be read as {suffix}: {said}") from None


def _read_csv(path: Path) -> pandas.DataFrame:
    first = pandas.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    if len(first) == 1 and any(mark in first[0] for mark in ";\t"):
        raise ValueError("its entries are separated by semicolons or tabs; separate them by commas")
    numbers = pandas.to_numeric(first, errors="coerce")
    for start in (0, 1):
        if len(first) > 1 and [*first.str.strip()] == [str(start + i) for i in range(len(first))]:
            raise ValueError("row 1 counts the columns; if it is a header, use names; if these are "
                             "losses, put a header above them")  # fmt: skip
    header = numbers.isna().all()
    frame = pandas.read_csv(path, header=0 if header else None, index_col=False, low_memory=False,
                            skipinitialspace=True, na_values=MARKS)  # fmt: skip
    if header:
        unnamed = [i + 1 for i, name in enumerate(first) if not name.strip()]
        if unnamed:
            raise ValueError(f"row 1 must name the columns, and column {unnamed[0]} has no name")
    frame.columns = [*first] if header else _default_names(len(first))
    frame.index += 2 if header else 1
    return frame


def _read_parquet(path: Path) -> pandas.DataFrame:
    optional("pyarrow", "parquet")
    frame = pandas.read_parquet(path)
    frame.index = range(1, len(frame) + 1)
    return frame


def _read_array(path: Path) -> pandas.DataFrame:
    array = np.load(path, allow_pickle=False)
    if path.suffix.lower() == ".npz":
        with array:
            names = array.files
            chosen = ["losses"] if "losses" in names else names
            if len(chosen) != 1:
                raise ValueError(f"it holds {', '.join(names) or 'nothing'}; exactly one array "
                                 "must be called losses")  # fmt: skip
            array = array[chosen[0]]
    if array.dtype.kind not in "fiub":
        raise ValueError(f"it holds {array.dtype}, not real numbers")
    check_shape(array.shape, "its array")
    with np.errstate(all="ignore"):  # Numbers beyond float64 become infinite and are refused.
        array = array.astype(np.float64)
    index = range(1, len(array) + 1)
    return pandas.DataFrame(array, index=index, columns=_default_names(array.shape[1]))


def _default_names(arms: int) -> list[str]:
    return [f"arm {i + 1}" for i in range(arms)]
