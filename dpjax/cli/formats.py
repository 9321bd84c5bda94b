"""Columns of files, as pandas and NumPy read them; own code reads LibSVM and Vowpal Wabbit."""

import io
import re
import warnings
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from pandas.api.types import is_numeric_dtype

from dpjax.core import optional
from dpjax.environments._table import check_shape

# The suffixes of text, which is recognized by its first line if it is no table.
TEXT = (".csv", ".tsv", ".txt", ".dat", ".data", "")
SYNONYMS = {".libsvm": ".svm", ".svmlight": ".svm"}
FIRST_LINES = {".arff": r"(?i)\s*@relation\b", ".vw": r"[^|]* \|",
               ".svm": r"[^\s,]+( \d+:\S+)+\s*(#.*)?$"}  # fmt: skip
ATTRIBUTE = r"""(?im)^\s*@attribute\s+(?:'([^']*)'|"([^"]*)"|(\S+))"""
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas", r"\s+": "spaces"}
ENTRIES = 2**18  # of a piece of a text file
SPARSE_ENTRIES = 2**27  # of a file of sparse features, after zeros are filled in: 1 GiB
LOGGED = ("logged bandit feedback, which has the loss of the played arm only; in Python, "
          "dpjax.environments.logged plays a uniform log")  # fmt: skip


def format_of(path: Path) -> str:
    """The format of a file, as a suffix. Text is recognized by its first line."""
    suffix = SYNONYMS.get(path.suffix.lower(), path.suffix.lower())
    if suffix not in (*READERS, *TEXT):
        known = ", ".join(dict.fromkeys([*TEXT[:-1], *READERS, *SYNONYMS]))
        raise ValueError(f"{path}: must end in one of {known}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
    if suffix not in TEXT:
        return suffix
    if suffix in (".csv", ".tsv"):
        return ".csv"
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        first = next((line for line in file if line.strip() and line[0] not in "#%"), "")
    found = [kind for kind, pattern in FIRST_LINES.items() if re.match(pattern, first)]
    return found[0] if found else ".csv"


def read_frame(path: Path, marks: list[str], reading: list[str]) -> pandas.DataFrame:
    """The columns of a file; the index has the numbers of its rows, counted from 1."""
    kind = format_of(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return READERS[kind](path, marks, reading)
    except (MemoryError, ImportError):
        raise
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except Exception as error:  # Damaged bytes raise more than ten kinds of errors.
        said = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())[:200]
        raise ValueError(f"{path}: cannot be read as {kind}: {said}") from None


def _read_text(path, marks, reading) -> pandas.DataFrame:
    with open(path, encoding="utf-8-sig") as file:
        lines = [*islice(file, 64)]
    skip = len([*takewhile(lambda line: line[0] == "#" or not line.strip(), lines)])
    comments = [line[1:] for line in lines[:skip] if line.strip()]
    lines = [line for line in lines[skip:] if line.strip()]
    separator = _separator(lines)
    read = partial(pandas.read_csv, sep=separator, skipinitialspace=True, keep_default_na=False)
    fields = [[entry.strip() for entry in read(io.StringIO(line), header=None, dtype=str).iloc[0]]
              for line in lines[:2]]  # fmt: skip
    names = fields[0] if fields else []
    counts = [[str(start + i) for i in range(len(names))] for start in (0, 1)]
    if names in counts and len(names) > 1:
        raise ValueError("row 1 counts the columns; if it is a header, use names; if these are "
                         "losses, put a header above them")  # fmt: skip
    # pandas writes numbered columns beside an index without a name.
    values = not np.isnan(numbers_in(names)).all() or {*map(str.lower, names)} <= {"true", "false"}
    header = not names or not values or names == ["", *counts[0][:-1]]
    # Pieces of the file take less memory than the whole at once.
    read = partial(read, path, skiprows=skip, header=0 if header else None, na_values=marks,
                   chunksize=1 + ENTRIES // (1 + len(names)))  # fmt: skip
    pieces = [*map(_smaller, read())]
    mixed = [place for place, column in enumerate(pieces[0].columns)
             if len({is_numeric_dtype(piece[column]) for piece in pieces}) > 1]  # fmt: skip
    if mixed:  # Words among the numbers of one piece make words of all pieces.
        words = dict.fromkeys(pieces[0].columns[mixed], str)
        pieces = [*map(_smaller, read(dtype=words))]
    frame = pandas.concat(pieces)
    if header and len(fields) > 1 and len(fields[1]) == len(names) + 1:  # as R writes it
        frame, names = frame.reset_index(), ["", *names]
    if not header:
        named = re.split(separator, comments[-1].strip()) if comments else []
        fits = len(named) == len(names) and np.isnan(numbers_in(named)).all()
        names = named if fits else _default_names(len(names))
    frame.columns = names
    first = 1 + len(comments) + (1 if header else 0)
    frame.index = range(first, first + len(frame))
    if separator != {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower()):
        reading.append(f"The entries of the file are separated by {SEPARATORS[separator]}.")
    if names[0] in ("", "Unnamed: 0") and counts_rows(numbers_in(frame.iloc[:, 0])):
        reading.append("The first column has no name and counts the rows. It was left out.")
        frame = frame.iloc[:, 1:]
    unnamed = [i + 1 for i, name in enumerate(frame.columns) if not name]
    if unnamed:
        raise ValueError(
            f"row 1 must name the columns, and column {unnamed[0]} has no name; name or remove it"
        )
    return frame


def _smaller(piece: pandas.DataFrame) -> pandas.DataFrame:
    """A piece of a file, with the smallest integers that hold its columns of integers."""
    for name in piece.select_dtypes("integer").columns:
        piece[name] = pandas.to_numeric(piece[name], downcast="integer")
    return piece


def _separator(lines: list[str]) -> str:
    """The separator of lines: the first that is equally frequent in all but the first of them."""
    lines = [re.sub(r'"[^"]*"', "word", line).strip(" \r\n") for line in lines] or [""]
    for mark in SEPARATORS:
        first, *rest = (len(re.findall(mark, line)) for line in lines)
        rest = rest or [first]
        if rest[0] and len({*rest}) == 1 and rest[0] - first in (0, 1):
            return mark
    return next((mark for mark in (",", "\t", ";", r"\s+") if re.search(mark, lines[0])), ",")


def _read_columns(path, marks, reading) -> pandas.DataFrame:
    optional("pyarrow", "parquet")
    kinds = {".parquet": pandas.read_parquet, ".feather": pandas.read_feather}
    frame = kinds[path.suffix.lower()](path)
    frame.index = range(1, len(frame) + 1)
    return frame


def _read_arff(path, marks, reading) -> pandas.DataFrame:
    # scipy.io.arff reads no attributes of strings, and no names in double quotes.
    head, *rest = re.split(r"(?im)^\s*@data.*\n", path.read_text("utf-8-sig"), maxsplit=1)
    body = re.sub(r"(?m)^\s*%.*\n?", "", "".join(rest))
    if body.lstrip().startswith("{"):
        raise ValueError("its rows are sparse; write all values of a row")
    names = [" ".join(name).strip() for name in re.findall(ATTRIBUTE, head)]
    frame = pandas.read_csv(
        io.StringIO(body), header=None, quotechar=max("\"'", key=body.count), escapechar="\\",
        skipinitialspace=True, keep_default_na=False, na_values=marks, low_memory=False,
    )  # fmt: skip
    if frame.shape[1] != len(names):
        raise ValueError(f"it has {len(names)} attributes, and row 1 has {frame.shape[1]} entries")
    frame.columns, frame.index = names, range(1, len(frame) + 1)
    return frame


def _read_sparse(path, marks, reading) -> pandas.DataFrame:
    """The labels and features of a LibSVM or VW file; a feature that a row does not name is 0."""
    libsvm = format_of(path) == ".svm"
    labels, rows, places, values, names = [], [], [], [], dict[str, int]()
    with open(path, encoding="utf-8-sig") as file:
        lines = (line.strip() for line in file)
        for row, line in enumerate(line for line in lines if line and line[0] != "#"):
            try:
                label, features = (_libsvm if libsvm else _vw)(line)
                for name, value in features:
                    rows.append(row)
                    places.append(names.setdefault(name, len(names)))
                    values.append(value)
            except ValueError as error:
                raise ValueError(f"row {row + 1}: {error}") from None
            labels.append(label)
    if len(labels) * len(names) > SPARSE_ENTRIES:
        raise ValueError(f"it has {len(labels)} rows and {len(names)} features; at most "
                         f"{SPARSE_ENTRIES} entries are read, so keep fewer features")  # fmt: skip
    table = np.zeros((len(labels), len(names)))
    np.add.at(table, (rows, places), values)
    frame = pandas.DataFrame(table, index=range(1, len(labels) + 1), columns=[*names])
    if libsvm:
        frame = frame[sorted(names, key=int)]
    numbers = numbers_in(labels)
    frame.insert(0, "label", labels if np.isnan(numbers).any() else numbers)
    reading.append("A feature that a row does not name is 0.")
    return frame


def _libsvm(line: str) -> tuple[str, list[tuple]]:
    """The label of a line, and the names and values of its features."""
    label, *pairs = line.partition("#")[0].split()
    pairs = [pair for pair in pairs if not pair.startswith("qid:")]
    for pair in pairs:
        if not re.fullmatch(r"[0-9]+:.*", pair):
            raise ValueError(f"{pair!r} must be the number of a feature, a colon and its value")
    split = [pair.partition(":") for pair in pairs]
    return label, [(str(int(name)), _value(value, name)) for name, _, value in split]


def _value(text: str, feature: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"the value {text!r} of feature {feature} is not a number") from None


def _vw(line: str) -> tuple[str, list[tuple]]:
    """The label of a line of Vowpal Wabbit, and the names and values of its features."""
    head, *spaces = line.split("|")
    words = [word for word in head.split() if word[0] != "'"]
    if len(words) > 1 and not head[-1].isspace():  # a tag, which touches the bar
        words.pop()
    if words[:1] == ["shared"] or any(word.count(":") == 2 for word in words):
        raise ValueError(f"action:cost:probability is {LOGGED}")
    if (len(words) != 1 and words[1:] != ["1"] and words[1:] != ["1.0"]) or ":" in words[0]:
        raise ValueError(f"{head.strip()!r} must be one label, without weights or costs")
    pairs = []
    for space in spaces:
        features = space.split()
        name = features.pop(0) if features and not space[0].isspace() else ""
        name, _, weight = name.partition(":")
        for feature in features:
            word, _, value = feature.rpartition(":") if ":" in feature else (feature, "", "1")
            number = _value(value, word) * _value(weight or "1", name)
            pairs.append((f"{name}^{word}" if name else word, number))
    return words[0], pairs


def _read_array(path, marks, reading) -> pandas.DataFrame:
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


def numbers_in(words) -> np.ndarray:
    """Words as numbers in float64, NaN if one is not a number."""
    series = words if isinstance(words, pandas.Series) else pandas.Series(words, dtype=object)
    if series.dtype == np.float64:
        return series.to_numpy()  # not copied
    return pandas.to_numeric(series, errors="coerce").to_numpy(np.float64, na_value=np.nan)


def counts_rows(values: np.ndarray) -> bool:
    """Whether values are 0, 1, ... or 1, 2, ..."""
    return values[:1].tolist() in ([0], [1]) and bool((np.diff(values) == 1).all())


READERS: dict[str, Any] = {
    ".csv": _read_text, ".parquet": _read_columns, ".feather": _read_columns, ".npy": _read_array,
    ".npz": _read_array, ".arff": _read_arff, ".svm": _read_sparse, ".vw": _read_sparse,
}  # fmt: skip
