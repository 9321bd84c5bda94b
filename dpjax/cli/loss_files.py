"""Loss tables from .csv, .npy and .npz files, which need not be trusted.

Before a file is read, its declared size is compared with its number of bytes. So a file takes no
more memory than a table of its size.
"""

import csv
import io
import stat
import warnings
import zipfile
from array import array
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy

from dpjax.core import _arrays
from dpjax.environments._table import check_losses, check_shape

# The longest line of a CSV file in characters, which holds some million losses.
LONGEST_LINE = 2**24
# A compressed table is refused if in float64 it takes more than UNPACKED bytes and more than
# UNPACKED_RATIO times the bytes of its file. Random losses of 0 and 1 take 27 times the bytes of
# their file, and zeros take 1000 times.
UNPACKED = 2**28
UNPACKED_RATIO = 32
# Entries that mark a missing value, in upper or lower case: those of pandas, R, SQL and Stata.
_MISSING = {
    "", ".", "?", "\\n", "#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind",
    "1.#qnan", "<na>", "n/a", "na", "nan", "nat", "none", "null",
}  # fmt: skip
# NumPy reads no header above 10,000 bytes.
_HEADER = 2**14
# A message lists the faults of this many columns of a file, and counts the others.
LISTED = 10
# The largest number of distinct words in a column of words, and of labels.
VALUES = 32


class Faults:
    """The faults of a file, reported together in one message: the first of each column."""

    def __init__(self, path):
        self.path = path
        self.columns: dict[int, tuple[int, str, int]] = {}  # -> first row, sentence, number of rows
        self.advice: dict[int, str] = {}  # column -> advice for a column without any number

    def add(self, row, column, sentence, count=1) -> None:
        """Add the first of some faults at a row and column, counted from 1, or 0 if it has none."""
        *first, known = self.columns.get(column, (row, sentence, 0))
        self.columns[column] = (*min((row, sentence), tuple(first)), known + count)

    def advise(self, column, name, words) -> None:
        """Advise to remove a column of words, or to name it as a feature if that is possible."""
        feature = 2 <= len(words) <= VALUES and name and not any(map(is_missing, words))
        rest = f", or name it with --features {name}" if feature else ""
        self.advice[column] = f"; remove this column{rest}"

    def refuse(self) -> None:
        """Raise a ValueError if there are faults."""
        listed = sorted((row, column) for column, (row, *_) in self.columns.items())[:LISTED]
        clauses = []
        for _, column in listed:
            _, sentence, count = self.columns[column]
            more = f" (and {count - 1} more{' in this column' if column else ''})"
            clauses.append(sentence + more * (count > 1) + self.advice.get(column, ""))
        if len(clauses) == 1:
            raise ValueError(f"{self.path}: {clauses[0]}")
        if clauses:
            total = sum(count for *_, count in self.columns.values())
            shown = "; ".join(f"({i}) {clause}" for i, clause in enumerate(clauses, 1))
            rest = len(self.columns) - len(clauses)
            raise ValueError(f"{self.path}: has {total} faults: {shown}"
                             + (f"; columns not listed: {rest}" if rest else ""))  # fmt: skip


class Losses(NamedTuple):
    """A loss table with the names of its arms."""

    arms: tuple[str, ...]
    losses: np.ndarray  # (T, K) in [0, 1]


def read_losses(path) -> Losses:
    """Read a (T, K) table of losses in [0, 1], whose rows are rounds and whose columns are arms.

    The first row of a .csv file is a header if none of its entries is a number. A first row that
    counts the columns (0, 1, ... or 1, 2, ...), as pandas writes it, is refused. With two arms it
    could be a row of losses; to pass such a row, put a header above it or write 0.0,1.0. A header
    of other numbers in [0, 1] is read as losses.

    Args:
      path: a .csv file, with or without a header of arm names; a .npy file; or a .npz file with
        one array, or with one that is called losses.

    Returns:
      The table and the names of its arms, "arm 1", ... if the file has none.

    Raises:
      ValueError: the file does not hold a table of losses: an entry is missing, not a number,
        infinite or out of range; rows differ in length; there are no rows, or fewer than two arms;
        two arms have the same name; separators are not commas; a column counts the rows, or a row
        counts the columns; or the file is damaged, encrypted, not of the type of its name, or
        compresses a table above 256 MiB to less than a 32nd. The message names the file and, if
        possible, the row and column, counted from 1 (in a CSV file, the line).
        The first fault of each column is listed, for at most 10 columns.
      OSError: the file cannot be read, or is not a regular file.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npy": _read_npy, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: a loss table must be a .csv, .npy or .npz file")
    return regular(path, readers[path.suffix.lower()])


def regular(path, read):
    """The result of ``read`` for a regular file. System errors name the file."""
    try:
        _refuse_what_is_no_file(path, path.stat().st_mode)
        return read(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except OSError as error:
        if error.errno is None:  # It was raised by this module.
            raise
        raise OSError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_what_is_no_file(path, mode) -> None:
    kinds = {
        stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a named pipe", stat.S_ISSOCK: "a socket",
        stat.S_ISCHR: "a device", stat.S_ISBLK: "a device",
    }  # fmt: skip
    for is_kind, kind in kinds.items():
        if is_kind(mode):
            raise OSError(f"{path}: is {kind}, and not a regular file")


def _read_csv(path) -> Losses:
    values, numbers, names, width = array("d"), array("q"), None, None
    faults = Faults(path)
    words: defaultdict[int, set[str]] = defaultdict(set)  # column -> up to VALUES + 1 of its words
    for number, row in csv_rows(path):
        if width is None:
            width, first = len(row), row
            if not any(map(is_number, row)):
                names = tuple(cell.strip() for cell in row)
                if all(map(is_missing, names)):
                    _add_cells(faults, number, row, None, words)
                else:
                    _arrays.refuse_repeats(path, names)
                continue
            _refuse_column_numbers(path, number, row)
        if len(row) != width:
            like = "the header" if names else f"row {numbers[0]}"
            add_width(faults, number, row, width, like)
            continue
        if not all(map(is_number, row)):
            _add_cells(faults, number, row, names, words)
            row = [cell if is_number(cell) else 0.0 for cell in row]
        values.extend(map(float, row))
        numbers.append(number)
    if not numbers:
        refuse_separators(path, first if width else [])
        faults.refuse()
        raise ValueError(f"{path}: has no rows of losses")
    losses = np.frombuffer(values).reshape(len(numbers), -1)
    for column, (*_, count) in faults.columns.items():
        if column in words and count == len(numbers) > 1:
            faults.advise(column, names and names[column - 1], words[column])
    return Losses(names or _default_names(width), _checked(faults, losses, numbers, names))


def csv_rows(path):
    """(line number, entries) of each row of a CSV file that is not blank."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(_lines(path, file), strict=True)
            for row in reader:
                if len(row) > 1 or "".join(row).strip():
                    yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{path}: row {reader.line_num} is not CSV ({error})") from None


def add_width(faults, number, row, width, like) -> None:
    """Add the fault of a row that is longer or shorter than the others."""
    refuse_separators(faults.path, row)
    sentence = f"row {number} has {len(row)} entries, but {like} has {width}"
    faults.add(number, 0, sentence)


def _lines(path, file):
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{path}: row {number} is longer than {LONGEST_LINE} characters")
        yield line


def is_missing(cell) -> bool:
    """Whether an entry of a CSV file, without spaces around it, marks a missing value."""
    return cell.lower() in _MISSING


def missing(cell) -> str:
    """A missing entry of a CSV file in words, for a message."""
    return f"is {cell!r}, which marks a missing entry" if cell else "is missing"


def is_number(cell) -> bool:
    """Whether an entry of a CSV file is a number."""
    # Python would also read 1_0 as 10, and digits of other scripts.
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _add_cells(faults, number, row, names, words) -> None:
    """Add the faults of the entries of a row that are not numbers, and these entries to words."""
    refuse_separators(faults.path, row)
    for column, cell in enumerate(map(str.strip, row)):
        if is_number(cell):
            continue
        name = f" ({names[column]})" if names else ""
        what = f"{cell[:40]!r} is not a number"
        if is_missing(cell):
            what = f"{missing(cell)}; fill it in, or remove the row"
        faults.add(number, column + 1, f"row {number}, column {column + 1}{name}: {what}")
        if len(words[column + 1]) <= VALUES:
            words[column + 1].add(cell)


def refuse_separators(path, row) -> None:
    """Raise a ValueError if another separator would split entries further than commas do."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if any(len([part for part in cell.split(separator) if part.strip()]) > 1 for cell in row):
            raise ValueError(
                f"{path}: its entries are separated by {name}; separate them by commas, and write "
                "decimal fractions with points"
            )


def _refuse_column_numbers(path, number, row) -> None:
    """Raise a ValueError for a first row 0, 1, 2, ... or 1, 2, 3, ..., a header of numbers."""
    cells = [cell.strip() for cell in row]
    for start in (0, 1):
        if len(cells) > 1 and cells == [str(start + column) for column in range(len(cells))]:
            raise ValueError(
                f"{path}: row {number} counts the columns, {cells[0]} to {cells[-1]}; if it is a "
                "header, use names; if these are losses, put a header above them"
            )


def refuse_counts(path, losses, place=1) -> None:
    """Raise a ValueError for a column 0, 1, 2, ... or 1, 2, 3, ..., which is an index of rows.

    ``place`` is the place of the first column in the file.
    """
    if not losses.size:
        return
    first, last = losses[0], losses[-1]
    counts = np.isin(first, (0, 1)) & (last > 1) & (last == first + (len(losses) - 1))
    for column in np.flatnonzero(counts):
        if (np.diff(losses[:, column]) == 1).all():
            raise ValueError(
                f"{path}: column {column + place} counts the rows, {first[column]:g} to "
                f"{last[column]:g}; an index is neither an arm nor a feature, so remove it"
            )


def _read_npy(path) -> Losses:
    with open(path, "rb") as file:
        _entries(path, file, path.stat().st_size)
        file.seek(0)
        return _table(path, _array(path, file))


def _read_npz(path) -> Losses:
    with open(path, "rb") as file:
        with _one_sentence(f"{path}: is damaged, or not an .npz file"):
            archive = zipfile.ZipFile(file)
        member = _member(path, archive.infolist())
        where = f"{path}: the array {member.filename.removesuffix('.npy')}"
        if member.flag_bits & 1:
            raise ValueError(f"{where} is encrypted")
        with _one_sentence(f"{where} is damaged"):
            stream = archive.open(member)
        entries = _entries(path, stream, member.file_size)
        allowed = max(UNPACKED, UNPACKED_RATIO * path.stat().st_size)
        if 8 * entries > allowed:
            raise ValueError(
                f"{where} is compressed so strongly that its {entries} losses would take "
                f"{8 * entries / path.stat().st_size:.0f} times the memory of the file; save it "
                "with numpy.save or numpy.savez, which do not compress"
            )
        stream = archive.open(member)
        return _table(path, _array(path, stream))


def _member(path, members):
    """The only member of an archive, or the member called losses if there are several."""
    tables = [member for member in members if member.filename == "losses.npy"] or members
    if len(tables) == 1 and tables[0].filename.endswith(".npy"):
        return tables[0]
    names = ", ".join(member.filename.removesuffix(".npy") for member in members[:10])
    more = ", ..." if len(members) > 10 else ""
    raise ValueError(
        f"{path}: holds {names or 'nothing'}{more}; exactly one array must be called losses"
    )


def _entries(path, stream, size) -> int:
    """The number of losses in an array of ``size`` bytes, by its header.

    Raises:
      ValueError: it cannot be a table of losses, or its size differs from its header.
    """
    with _one_sentence(f"{path}: is damaged"):
        start = io.BytesIO(stream.read(_HEADER))
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with _one_sentence(f"{path}: is not an array of NumPy, or its header is damaged", reason=False):
        shape, _, dtype = readers[npy.read_magic(start)](start)
    if dtype.hasobject:
        raise ValueError(f"{path}: holds objects that need pickle, not real numbers")
    if dtype.kind not in "fiub":
        raise ValueError(f"{path}: holds {str(dtype)[:80]}, not real numbers")
    check_shape(shape, path)
    entries = shape[0] * shape[1]
    declared = start.tell() + entries * dtype.itemsize
    if declared != size:
        raise ValueError(
            f"{path}: its header declares {declared} bytes ({shape[0]} rows of {shape[1]} arms), "
            f"but there are {size}"
        )
    return entries


def _array(path, stream) -> np.ndarray:
    with _one_sentence(f"{path}: is damaged"):
        return npy.read_array(stream, allow_pickle=False)


@contextmanager
def _one_sentence(sentence, reason=True):
    """Turn any exception of a library within the block into a ValueError of one sentence.

    For damaged bytes, libraries raise more than ten kinds of errors, from tokenize.TokenError to
    NotImplementedError.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except MemoryError:
        raise
    except Exception as error:
        said = f" ({' '.join(str(error).split())[:120]})" if reason else ""
        raise ValueError(f"{sentence}{said}") from None


def _table(path, values) -> Losses:
    with np.errstate(all="ignore"):  # Numbers beyond float64 become infinite and are refused.
        losses = values.astype(np.float64, copy=False)
    return Losses(_default_names(losses.shape[1]), _checked(Faults(path), losses))


def _checked(faults, losses, numbers=None, names=None) -> np.ndarray:
    """The losses, after the refusal of all faults; arguments as in :func:`check_losses`."""
    refuse_counts(faults.path, losses)
    bad = ~((losses >= 0.0) & (losses <= 1.0))
    for column in np.flatnonzero(bad.any(axis=0)).tolist():
        i = int(np.argmax(bad[:, column]))
        row, name = numbers[i] if numbers else i + 1, f" ({names[column]})" if names else ""
        value = losses[i, column]
        found = "is missing" if np.isnan(value) else f"is {_arrays.digits(value, 0.0, 1.0)}"
        sentence = f"row {row}, column {column + 1}{name} {found}; losses must lie in [0, 1]"
        faults.add(row, column + 1, sentence, int(bad[:, column].sum()))
    faults.refuse()
    return check_losses(losses, str(faults.path))


def _default_names(arms) -> tuple[str, ...]:
    return tuple(f"arm {i + 1}" for i in range(arms))
