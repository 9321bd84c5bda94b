"""Studies on disk: the file ``study.json`` beside the stores of the programs, and ``open``.

``study.json`` describes how the stores of a folder form one Dataset: the labels of all axes, and
the labels that each program fills. The declared privacy is in the stores. The file is written
atomically and with a digest before the study is played, and written again if it is damaged. It is
unchanged if a store refuses the study.
"""

import json
import os
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import xarray

from dpjax.core import coordinate_name, leaf_axes
from dpjax.core._version import __version__
from dpjax.game.checkpoints import checkpoint_rounds
from dpjax.store.layout import ROOT, moved, places, point_values, read
from dpjax.store.objects import Damaged, Files, digest, warn
from dpjax.store.opening import existing
from dpjax.study.labelled import Arrangement, Cells, Played, as_labels, labelled, layout
from dpjax.study.programs import TEXTS, StudyProgram

if TYPE_CHECKING:
    from dpjax.study.study import Study

STUDY = "study.json"
_FORMAT = "dpjax study 1"


def located(programs: list[StudyProgram], url: str | os.PathLike) -> list[StudyProgram]:
    """The programs with the names of their stores in a folder or URL.

    If a value was added before the first one of an axis, a program continues the store that has its
    other points. If that store cannot be extended to its points, a warning names it.
    """
    files = Files(url)
    there = {key.partition("/")[0] for key in files.keys()}  # noqa: SIM118
    return [program._replace(store=_located(program, files, there)) for program in programs]


def _located(program, files, there) -> str:
    """The name of the store of a program; ``there`` are the names of all stores."""
    named = [name for name in program.folders() if name in there]
    if not named or named[0] == program.folder:
        return program.folder
    points = point_values(program.game(), program.points())
    for name in named:
        if (text := files.read(f"{name}/{ROOT}")) is None:
            return name  # A damaged store, which is refused.
        stored = read(text, files.path(name))
        if stored.shape[0] > 1 and _fitting(stored.points(), points) is not None:
            return name
    warn(
        f"store: {program} begins a new store in {files.url}, although {named[-1]} has some of its "
        "points; a store is extended only if it has at least two points and the grid has them all"
    )
    return program.folder


def keep(study: "Study", programs: list[StudyProgram], url: str | os.PathLike) -> None:
    """Write ``study.json`` into a folder or URL, unless it is there already.

    Raises:
      ValueError: the existing ``study.json`` does not belong to a study.
      OSError: it cannot be read or written.
    """
    arrangement, files = layout(study), Files(url)
    document = {
        "format": _FORMAT,
        "dpjax": __version__,
        "trials": study.trials,
        "axes": {name: labels.tolist() for name, labels in arrangement.axes.items()},
        "fixed": {name: np.asarray(label).item() for name, label in arrangement.fixed.items()},
        "programs": [
            {
                "folder": program.folder,
                "at": program.at,
                "swept": program.swept,
                "rounds": _rounds(program, study.checkpoints).tolist(),
                "points": point_values(program.game(), program.points()),
            }
            for program in programs
        ],
    }
    text = json.dumps(document | {"digest": _digest(document)}, indent=1).encode()
    there = files.read(STUDY)
    if there is not None and "format" not in _document(there, {"format": "damaged"}):
        raise ValueError(
            f"store: {files.path(STUDY)} does not belong to a study; choose another folder"
        )
    files.sweep_up()
    if there != text and jax.process_index() == 0:
        files.write(STUDY, text, durable=True)


def _rounds(program, checkpoints) -> np.ndarray:
    learner, environment = program.first()
    return checkpoint_rounds(learner, environment, checkpoints)


def _document(text, instead) -> dict:
    """The JSON object in a text; ``instead`` if there is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return instead
    return document if isinstance(document, dict) else {}


def _digest(document) -> str:
    """The digest of a document without its own ``digest``."""
    rest = {name: value for name, value in document.items() if name != "digest"}
    return digest(json.dumps(rest, sort_keys=True).encode())


def open(url: str | os.PathLike) -> xarray.Dataset:
    """Open a stored study or sweep as labelled data, without the Python code that played it.

    For a study it returns the Dataset of :meth:`dpjax.Study.run`, with its labels and declarations.
    For a sweep the dimensions are learner, the points, trial and round; each seed is a trial. If
    the points are distinct numbers, their axis has the name of the game's argument. Otherwise the
    axis is called ``point``, and the parameters are coordinates along it.

    An incomplete store can be opened, too: missing trials are NaN, and a warning counts them.

    Args:
      url: the folder or fsspec URL that was passed to ``Study.run(store=...)`` or
        ``sweep(store=...)``.

    Raises:
      ValueError: there is no store, or an object is damaged. The message names the object.
      OSError: an object cannot be read; the message names it.

    Examples:
      >>> made = dpjax.Study(
      ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
      ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
      >>> data = made.run("coins", progress=False)
      >>> dpjax.open("coins").identical(data)
      True
    """
    files = Files(url)
    if (text := files.read(STUDY)) is not None:
        return _study(files, text)
    stored = existing(url)
    if stored is not None:
        return _sweep(stored)
    raise ValueError(f"store: there is no store of a study or sweep in {files.url}")


def _study(files, text) -> xarray.Dataset:
    """The Dataset of a study, from the text of its ``study.json``."""
    document = _document(text, {})
    if document.get("digest") != _digest(document):
        raise Damaged(
            f"store: {files.path(STUDY)} is damaged; run the study again with this store to "
            "rewrite it"
        )
    if document["format"] != _FORMAT:
        raise ValueError(
            f"store: {files.url} was written by another version of dpjax: its format is "
            f"{document['format']!r}, and this version reads {_FORMAT!r}"
        )
    played = [_program(files.url, document["trials"], entry) for entry in document["programs"]]
    missing = [entry["folder"] for entry, result in zip(document["programs"], played, strict=True)
               if not result.about]  # fmt: skip
    if missing:
        warn(
            f"store: {len(missing)} of {len(played)} programs of {files.url} have not been started "
            f"and are NaN; the first is {missing[0]}"
        )
    axes = {name: as_labels(labels) for name, labels in document["axes"].items()}
    return labelled(Arrangement(axes, document["fixed"]), document["trials"], played)


def _program(url, trials, entry) -> Played:
    """A program of a study, as far as it has been played."""
    program, place = Cells(entry["at"], entry["swept"]), f"{url.rstrip('/')}/{entry['folder']}"
    size = len(next(iter(entry["points"].values())))
    rounds, stored = np.array(entry["rounds"], np.int32), existing(place)
    if stored is None:
        regret = np.full((size, trials, len(rounds)), np.nan, np.float32)
        return Played(program, rounds, {"regret": regret}, {})
    at = _fitting(stored.layout.points(), entry["points"])
    if at is None:
        raise ValueError(
            f"store: {place} holds other points than {url}/{STUDY}; it belongs to another study"
        )
    stored = stored._replace(points=size, seeds=trials)
    arrays = {name: leaf[at] for name, leaf in _arrays(stored).items()}
    return Played(program, stored.rounds, arrays, moved(_about(stored.layout.about(), size), at))


def _fitting(stored, points) -> np.ndarray | None:
    """The place of each point in a store that has these points; None if it has others."""
    at = places(stored, points)
    pairs = [zip(values, stored.get(name, [None]), strict=False)
             for name, values in moved(points, np.argsort(at)).items()]  # fmt: skip
    return None if any(one != other for pair in pairs for one, other in pair) else at


def _about(about, size) -> dict:
    """Declarations and best arms of the first ``size`` points, padded if a store has fewer."""
    missing = size - len(about["privacy"]["epsilon"])
    padded: dict[str, Any] = {"privacy": {
        name: [*values[:size], *["" if name in TEXTS else np.nan] * missing]
        for name, values in about["privacy"].items()
    }}  # fmt: skip
    if best := about.get("best_arms"):
        padded["best_arms"] = [*best[:size], *[[False] * len(best[0])] * missing]
    return padded


def _arrays(stored) -> dict[str, np.ndarray]:
    """The arrays of a store, with NaN in missing cells."""
    arrays, done = stored.cells()
    if done.all():
        return arrays
    stored.warn_of_missing(done)
    return {
        name: np.where(done.reshape(*done.shape, *[1] * (leaf.ndim - 2)), leaf, np.nan)
        for name, leaf in arrays.items()
    }


def _sweep(stored) -> xarray.Dataset:
    """The Dataset of a single sweep."""
    told = stored.layout.points()
    points = {name: np.array(values, np.float32) for name, values in told.items()}
    first, *others = points
    axis: str = "point"
    labels: list = list(range(stored.points))
    if not others and points[first].ndim == 1 and len(set(points[first].tolist())) == len(labels):
        # The shortest decimal that rounds to this float32: 0.1, not 0.10000000149.
        axis, labels = first, [float(str(value)) for value in points.pop(first)]
    arrays = _arrays(stored)
    axis = coordinate_name(axis, [*arrays, "trial"]) if axis != "point" else axis
    learner = [stored.layout.attributes["learner"]]
    arrangement = Arrangement({"learner": as_labels(learner), axis: as_labels(labels)}, {})
    cells = Cells({"learner": learner, axis: labels}, [axis])
    played = Played(cells, stored.rounds, arrays, _about(stored.layout.about(), stored.points))
    data = labelled(arrangement, stored.seeds, [played])
    coordinates = {}
    for name, values in points.items():
        label = coordinate_name(name, data.variables)
        coordinates[label] = (axis, *leaf_axes(label, values.shape[1:])), values
    return data.assign_coords(coordinates)
