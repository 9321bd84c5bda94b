"""Losses, features and labels from files, or a sentence about the first fault of each column."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from dpjax.cli.formats import LOGGED, counts_rows, format_of, numbers_in, read_frame
from dpjax.core import _arrays, _check
from dpjax.environments._table import check_losses

# Marks of a missing entry. Those of pandas are in the first two lines.
MARKS = frozenset((
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
    ".", "?", "\\N", "NaT", "none", "NONE", "na", "Null",
))  # fmt: skip
# A message lists the faults of this many columns of a file, and counts the others.
LISTED = 10
# The largest number of different words in a column of features, and of different labels.
WORDS, LABELS = 32, 1000
FINITE = np.finfo(np.float64).max
# Names of columns of logged bandit feedback.
ACTIONS = {"action", "action_id", "arm", "arm_id", "article", "article_id", "item", "item_id"}
REWARDS = {"reward", "rewards", "click", "clicked", "clicks", "cost", "payoff", "loss"}
PROPENSITIES = {"propensity", "propensity_score", "pscore", "probability", "prob", "action_prob"}


class Losses(NamedTuple):
    """A loss table with the names of its arms."""

    arms: tuple[str, ...]
    losses: np.ndarray  # (T, K) in [0, 1]
    reading: tuple[str, ...]  # sentences on the format of the file


class Cases(NamedTuple):
    """Features of rounds, and either losses or labels."""

    names: tuple[str, ...]  # of the features, after words were encoded
    features: np.ndarray  # (n, p)
    arms: tuple[str, ...]  # in the order of the columns of losses, or of the sorted labels
    losses: np.ndarray | None  # (n, K) in [0, 1], None if there are labels
    labels: np.ndarray | None  # (n,) places in arms, None if there are losses
    notes: tuple[str, ...]  # sentences on words that were encoded
    reading: tuple[str, ...]  # sentences on the format of the file


class Table:
    """The columns of a file. Their faults are reported together, by :meth:`refuse`.

    Args:
      path: the file.
      missing: words that mean a missing entry, beside MARKS.
      keep: words of MARKS that are words.
    """

    def __init__(self, path: Path, missing: Sequence[str] = (), keep: Sequence[str] = ()):
        self.path, self.reading = path, list[str]()
        marks = (MARKS | {*missing}) - {*keep}
        self.frame = read_frame(path, [*marks], self.reading)
        self.names = [str(name).strip() for name in self.frame.columns]
        _arrays.refuse_repeats(str(path), self.names)
        self.frame.columns = self.names
        if self.frame.empty:
            raise ValueError(f"{path}: has no rows")
        numbers = numbers_in([*missing])
        for name in self.names:
            column = self.frame[name]
            if not is_numeric_dtype(column):  # Each different entry is changed once.
                try:
                    places, entries = pandas.factorize(column)
                except TypeError:
                    raise ValueError(f"{path}: column {name} holds lists or other objects; make "
                                     "each part a column") from None  # fmt: skip
                words: list[object] = [str(entry).strip() for entry in entries]
                words = [np.nan if word in marks else word for word in words]
                chosen = np.array([*words, np.nan], object)[places]
                self.frame[name] = pandas.Series(chosen, self.frame.index, object)
            elif np.isfinite(numbers).any():
                self.frame[name] = column.mask(column.isin(numbers))
        self.faults: dict[str, str] = {}

    def refuse_log(self, label: str | None) -> None:
        """Refuse logged bandit feedback, which its columns show."""
        named = {name.lower(): name for name in reversed(self.names)}
        kinds = [[named[word] for word in named if word in kind]
                 for kind in (ACTIONS, REWARDS, PROPENSITIES)]  # fmt: skip
        if all(kinds[:2]) and (kinds[2] or label is None):
            columns = ", ".join(kind[0] for kind in kinds if kind)
            raise ValueError(f"{self.path}: its columns {columns} show {LOGGED}; otherwise rename "
                             "them")  # fmt: skip

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
        values = numbers_in(self.frame[name])
        bad = ~((values >= low) & (values <= high))
        if bad.any() and not self.missing(name).any():
            i = int(np.argmax(bad))
            number, text = values[i], str(self.frame[name].iloc[i])[:40]
            if np.isnan(number):
                advice = ""
                if _has_comma(text):
                    advice = "; write a decimal point, and no comma"
                elif len(values) > 1 and np.isnan(values).all():
                    advice = "; if the column holds labels, name it as the label"
                self.fault(name, bad, f"is {text!r}, which is not a number{advice}")
            else:
                self.fault(name, bad, f"is {_arrays.digits(number, low, high)}; {allowed}")
        return values

    def losses(self, names: Sequence[str]) -> np.ndarray:
        """(n, K) losses in the columns of these names."""
        allowed = "losses must lie in [0, 1]"
        return np.stack([self.numbers(name, 0.0, 1.0, allowed) for name in names], 1)

    def labels(self, name: str, most: int = LABELS) -> tuple[list[str], np.ndarray]:
        """The different entries, sorted, as words; and (n,) the place of each row's entry."""
        if self.missing(name).any():
            return [], np.zeros(len(self.frame), int)
        places, entries = pandas.factorize(self.frame[name], sort=True)
        if not 2 <= len(entries) <= most:
            self.faults[name] = (f"column {self.names.index(name) + 1} ({name}) has {len(entries)} "
                                 f"different entries; it must have from 2 to {most}")  # fmt: skip
            return [], np.zeros(len(self.frame), int)
        return [str(entry).removesuffix(".0") for entry in entries], places

    def feature(self, name: str) -> tuple[list[str], np.ndarray]:
        """The names of the features of a column, and (n,) its numbers or places of its words."""
        column = self.frame[name]
        words = [] if is_numeric_dtype(column) else column.dropna().unique()
        if len(words) == 0 or not np.isnan(numbers_in(words)).all() or any(map(_has_comma, words)):
            values = self.numbers(name)
            if len(values) > 2 and counts_rows(values):
                self.fault(name, np.isfinite(values), "begins an index of the rows; remove it")
            # Integers take less memory than values.
            return [name], column.to_numpy() if column.dtype.kind in "iu" else values
        words, places = self.labels(name, WORDS)
        return [f"{name}={word}" for word in words], places

    def refuse(self) -> None:
        """Raise a ValueError if there are faults, with the first of each column."""
        listed, rest = list(self.faults.values())[:LISTED], len(self.faults) - LISTED
        if listed:
            others = [f"{rest} more columns have faults"] if rest > 0 else []
            raise ValueError(f"{self.path}: {'; '.join(listed + others)}")


def read_losses(
    path: str | os.PathLike, *, missing: Sequence[str] = (), keep: Sequence[str] = ()
) -> Losses:
    """Read a (T, K) table of losses in [0, 1], whose rows are rounds and whose columns are arms.

    The first row of a text file is a header if none of its entries is a number.

    Args:
      path: text with commas, tabs, semicolons or spaces between its entries, with or without a
        header of arm names; a .parquet or .feather file; a .npy file; or a .npz file with one
        array, or with one that is called losses.
      missing: words that mean a missing entry, beside MARKS.
      keep: words of MARKS that are words.

    Returns:
      The table and the names of its arms, "arm 1", ... if the file has none.

    Raises:
      ValueError: the file does not hold a table of losses: an entry is missing, not a number or out
        of range; rows differ in length; there are no rows, or fewer than two arms; two arms have
        the same name; the first row counts the columns; the rows are logged bandit feedback; or the
        file is damaged. The message names the file and, if possible, the row and column, counted
        from 1. Blank lines are not counted. The first fault of each column is listed, for at most
        10 columns.
      OSError: the file cannot be read.
    """
    table = Table(Path(path), missing, keep)
    table.refuse_log(None)
    losses = table.losses(table.names)
    table.refuse()
    return Losses(tuple(table.names), check_losses(losses, str(path)), tuple(table.reading))


def read_cases(
    path: str | os.PathLike, *, features: Sequence[str] | None = None, label: str | None = None,
    missing: Sequence[str] = (), keep: Sequence[str] = (),
) -> Cases:  # fmt: skip
    """Read features of a file, with a column of losses for each arm or one of labels.

    A feature column without any number holds words. It is encoded as a 0-1 feature for each
    different word, and a note says so. Nothing else is changed or filled in.

    Args:
      path: as in :func:`read_losses`, an ARFF file, or a file with labels (:func:`own_label`); the
        file names its columns.
      features: names of the feature columns; by default all but the label. Without a label all
        other columns are losses, one column per arm.
      label: the name of the label column. Each label is an arm.
      missing, keep: as in :func:`read_losses`.

    Raises:
      ValueError: a column does not exist, an entry is missing, a column of numbers contains a word,
        a loss is outside [0, 1], a column has more than 32 different words or 1000 different
        labels, a feature is an index of the rows, there are fewer than two arms, or as in
        :func:`read_losses`.
      OSError: the file cannot be read.
    """
    table = Table(Path(path), missing, keep)
    table.refuse_log(label)
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
        words, labels = table.labels(label)
        arms, losses = tuple(words), None
    else:
        arms, labels = tuple(name for name in table.names if name not in features), None
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
    values, first = np.empty((len(table.frame), len(names))), 0
    for codes, column in encoded:
        last = first + len(codes)
        if len(codes) > 1:  # words
            values[:, first:last] = column[:, None] == np.arange(len(codes))
        else:
            values[:, first] = column
        first = last
    return Cases(names, values, arms, losses, labels, notes, tuple(table.reading))


def own_label(path: str | os.PathLike) -> str | None:
    """The name of the label column of a LibSVM or VW file; None for other files."""
    return "label" if format_of(Path(path)) in (".svm", ".vw") else None


def _has_comma(word: str) -> bool:
    """Whether a word has digits, points and commas, as a decimal comma or thousands make it."""
    return re.fullmatch(r"[-+]?\d[\d.]*,[\d.,]*", word) is not None
