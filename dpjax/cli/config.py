"""Studies from TOML files, for clusters; all names in them are checked."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from dpjax import domains, environments, learners, mechanisms
from dpjax.core import _check
from dpjax.learners.parts import gram
from dpjax.report import figures as plot
from dpjax.report.output import output_folder, versions, write_figure, write_json
from dpjax.report.tables import filled, note, write_csv
from dpjax.study import Study
from dpjax.study.labelled import layout

TABLES = ("learners", "environments", "grid", "study", "figure")
SETTINGS = ("trials", "key", "checkpoints")
FIGURE = ("x", "of", "color", "line", "panel", "share_y", "style", "caption")


def read_study(path):
    """The Study that a TOML file describes, and the arguments of its figure (None without one).

    The tables ``[learners]`` and ``[environments]`` have an entry for each name in the data. It is
    the name of a factory, or a table ``{factory = "bernoulli", means = [0.4, 0.5]}`` with
    arguments. ``[grid]`` has an entry for each axis. Values of ``domain``, ``mechanism`` and
    ``gram``, in the grid or as arguments, are also names of factories or such tables. ``[study]``
    holds trials, key and checkpoints, and ``[figure]`` the arguments of
    :func:`dpjax.report.figures.figure`.

    Raises:
      ValueError: the file does not describe a study. The message names the file and the entry.
      OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is not TOML: {error}") from None
    _check_names(path, "the file", given, TABLES)
    for name in TABLES:
        if not isinstance(given.setdefault(name, {}), dict):
            raise ValueError(f"{path}: {name} must be a table, [{name}]")
    _check_names(path, "[study]", given["study"], SETTINGS)
    _check_names(path, "[figure]", given["figure"], FIGURE)
    kinds = {"learners": learners, "environments": environments}
    makers = {
        kind: {name: _factory(path, kind, package, each) for name, each in given[kind].items()}
        for kind, package in kinds.items()
    }
    grid = {name: _values(path, name, entry) for name, entry in given["grid"].items()}
    try:
        _check.seed(key=given["study"].get("key", 0))
        study = Study(**makers, grid=grid, **given["study"])
        if given["figure"]:
            _check_figure(study, given["figure"])
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None
    return study, given["figure"] or None


def _check_names(path, where, given, known) -> None:
    unknown = [f"{name!r}{_check.nearest(name, known)}" for name in given if name not in known]
    if unknown:
        found, allowed = ", ".join(unknown), ", ".join(known)
        raise ValueError(f"{path}: {where} has {found}; allowed are {allowed}")


def _check_figure(study, figure) -> None:
    """Refuse a figure that does not fit the study, before the study is played."""
    made, over_time = layout(study), figure.get("x") == "round"
    sizes = dict(zip(made.axes, made.shape, strict=True)) | ({"round": 2} if over_time else {})
    roles = {role: figure.get(role) for role in ("x", "color", "line", "panel")}
    plot.check_axes(sizes, roles)
    _check.one_of(*plot.STYLES, style=figure.get("style", "neurips"))


def _factory(path, kind, package, entry) -> Any:
    """The factory that an entry names, with the arguments that the entry sets."""
    given = {"factory": entry} if isinstance(entry, str) else entry
    if not isinstance(given, dict) or not isinstance(given.get("factory"), str):
        raise ValueError(
            f'{path}: an entry of {kind} must be a name or {{factory = "name", ...}}, got {entry!r}'
        )
    name = given["factory"]
    if name not in package.__all__ or not callable(getattr(package, name)):
        meant = _check.nearest(name, package.__all__)
        raise ValueError(f"{path}: {kind} has no {name!r}{meant}; dpjax list shows the names")
    arguments = {
        word: _built(path, word, value) for word, value in given.items() if word != "factory"
    }
    factory = getattr(package, name)
    return partial(factory, **arguments) if arguments else factory


PACKAGES = {"domain": domains, "mechanism": mechanisms, "gram": gram}


def _built(path, name, entry) -> Any:
    """A value of an argument; objects of PACKAGES are built from their names."""
    if name not in PACKAGES:
        return entry
    factory = _factory(path, name, PACKAGES[name], entry)
    if name == "mechanism":  # learners build it themselves, for the horizon
        return factory
    try:
        return factory()
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {name}: {error}") from None


def _values(path, name, entry) -> Any:
    """The values of an axis."""
    if name not in PACKAGES:
        return entry
    if isinstance(entry, dict) and "factory" not in entry:
        return {label: _built(path, name, each) for label, each in entry.items()}
    if isinstance(entry, list):
        return {_label(each): _built(path, name, each) for each in entry}
    return _built(path, name, entry)


def _label(entry) -> str:
    """The name of a factory, with the arguments that the entry sets."""
    if not isinstance(entry, dict):
        return str(entry)
    rest = [f"{name}={value}" for name, value in entry.items() if name != "factory"]
    return " ".join([str(entry.get("factory")), *rest])


def run(path, out, *, store=None, mesh=None, progress=True) -> str:
    """Play the study of a file and write the results into the folder ``out``.

    The files are data.nc (the data, for ``xarray.open_dataset``), table.csv (means of the regret
    at the horizon, a row for each cell), study.toml (the file itself), parameters.json (versions),
    and figure.png and figure.pdf if the file has a figure.

    Args:
      path: the TOML file, as in :func:`read_study`.
      out: a folder.
      store, mesh, progress: as in :meth:`dpjax.Study.run`.

    Returns:
      The table, as text.
    """
    study, figure = read_study(path)
    with output_folder(out) as folder:
        data = study.run(store, mesh=mesh, progress=progress)
        table = data.dpjax.table()
        data.to_netcdf(folder / "data.nc")
        shown = filled(table, data.dims)
        write_csv(folder / "table.csv", shown.to_dict("records"))
        (folder / "study.toml").write_bytes(Path(path).read_bytes())
        write_json(folder / "parameters.json", {"versions": versions()})
    if figure is not None:
        write_figure(out, "figure", partial(data.dpjax.figure, **figure))
    notes = [table.attrs["notes"], note(table.to_dict("records"))]
    return "\n".join(filter(None, [shown.to_string(index=False), *notes]))
