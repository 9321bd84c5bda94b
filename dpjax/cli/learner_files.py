"""A user's learner or environment from a Python file, with errors that name the line."""

import functools
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpjax.core import Environment, _check


def find_factory(text) -> tuple[str, Callable]:
    """The factory of a file, ``mine.py`` or ``mine.py:name``. The file is run as a program.

    Without a name it is the only public function of the file that requires ``horizon``. If several
    do, it is the only one whose learner can be built with the standard sizes of comparisons.

    Returns:
      The path and the factory.

    Raises:
      FileNotFoundError, OSError, ValueError: there is no such file, it raises an error, it has no
        factory or several, or it lacks the name. The message names the file.
    """
    path, name, module = _opened(text)
    if name:
        found = getattr(module, name, None)
        if not callable(found):
            known = [each for each, value in _public(module).items() if callable(value)]
            raise ValueError(f"{path}: it has no function {name}{_check.nearest(name, known)}")
        return path, found
    return path, _only(path, module)


def find_environment(text) -> tuple[str, str, Any]:
    """The environment of a file, ``mine.py`` or ``mine.py:name``. The file is run as a program.

    It is an Environment, or a function that returns one and may take ``horizon``, ``arms`` and the
    other sizes of a theorem. Without a name it is the only Environment or public function that the
    file defines.

    Returns:
      The path, the name, and the Environment or function.

    Raises:
      FileNotFoundError, OSError, ValueError: as in :func:`find_factory`.
    """
    path, name, module = _opened(text)
    found = {
        each: value for each, value in _public(module).items()
        if isinstance(value, Environment) or (inspect.isfunction(value) and (
            name or value.__module__ == module.__name__))
    }  # fmt: skip
    if name and name not in found:
        meant = _check.nearest(name, found)
        raise ValueError(f"{path}: it has no function or Environment {name}{meant}")
    if not name and len(found) != 1:
        what = f"it has {' and '.join(found)}; choose one, as in {path}:" + (
            next(iter(found))) if found else "it has no Environment and no function"  # fmt: skip
        raise ValueError(f"{path}: {what}")
    name = name or next(iter(found))
    made = found[name]
    return path, name, made if isinstance(made, Environment) else _said_of(path, made)


def _said_of(path, make) -> Callable:
    """A user's function, with errors that name the file and the line."""

    @functools.wraps(make)
    def made(*args, **sizes):
        try:
            environment = make(*args, **sizes)
        except Exception as error:  # A user's code may raise anything.
            raise ValueError(f"{path}: {line_of(path, error)}{_said(error)}") from error
        if not isinstance(environment, Environment):
            kind = type(environment).__name__
            raise ValueError(
                f"{path}: {make.__name__} must return an Environment, and returned {kind}"
            )
        return environment

    return made


def _opened(text) -> tuple:
    """The path, the name (or nothing) and the module of ``mine.py`` or ``mine.py:name``."""
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier() or Path(text).exists():
        path, name = text, ""
    return path, name, _run(path)


def _public(module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _run(path):
    """Run a file as a module, with its folder first on the import path."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    name = f"dpjax_compare_{Path(path).stem}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__file__ = str(path)
    folder = str(Path(path).resolve().parent)
    sys.modules[name] = module  # Dataclasses look up their module.
    sys.path.insert(0, folder)
    try:
        source = Path(path).read_bytes()
        exec(compile(source, str(path), "exec"), vars(module))
    except OSError as error:
        if error.filename == str(path):
            raise OSError(f"{path}: cannot be read: {error.strerror}") from None
        raise ValueError(f"{path}: {line_of(path, error)}{_said(error)}") from error
    except SystemExit as error:
        raise ValueError(f"{path}: {line_of(path, error)}it ends the program") from error
    except Exception as error:  # A user's code may raise anything.
        raise ValueError(f"{path}: {line_of(path, error)}{_said(error)}") from error
    finally:
        sys.path.remove(folder)
    return module


def line_of(path, error) -> str:
    """The line of the file that raised an error, for a message; empty if there is none."""
    if error is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)
              if frame.filename == str(path)]  # fmt: skip
    return f"line {frames[-1].lineno}: " if frames else ""


def _said(error) -> str:
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    first = (message or "").strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _only(path, module) -> Callable:
    """The factory among the public functions that a file defines."""
    from dpjax.learners.entrants import prepared  # here, because it takes a while to import

    public = {
        name: value
        for name, value in _public(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    candidates = {name: make for name, make in public.items() if _requires_horizon(make)}
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if not candidates:
        raise ValueError(f"{path}: it defines no factory: no public function that requires horizon")
    found, reasons = {}, []
    for name, make in candidates.items():
        try:
            prepared(make, 16)
        except ValueError as error:
            reasons.append(str(error))
        else:
            found[name] = make
    if not found:
        raise ValueError(f"{path}: no function in it makes a learner ({'; '.join(reasons)})")
    if len(found) > 1:
        raise ValueError(
            f"{path}: {' and '.join(found)} all make learners; choose one, as in "
            f"{path}:{next(iter(found))}"
        )
    return next(iter(found.values()))


def _requires_horizon(make) -> bool:
    horizon = inspect.signature(make).parameters.get("horizon")
    return horizon is not None and horizon.default is horizon.empty
