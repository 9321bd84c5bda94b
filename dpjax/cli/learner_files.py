"""A user's learner, environment or study from a Python file, with errors that name the line."""

import functools
import hashlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpjax.core import Environment, _check

if TYPE_CHECKING:
    from dpjax.study import Study


def find_factory(text: str) -> tuple[str, Callable]:
    """The factory of a file, ``mine.py`` or ``mine.py:name``. The file is run as a program.

    Without a name it is the only public function of the file that requires ``horizon``.

    Returns:
      The path and the factory.

    Raises:
      FileNotFoundError, OSError, ValueError: there is no such file, it raises an error, it has no
        factory or several, or it lacks the name. The message names the file.
    """
    path, name, module = _opened(text)
    functions = {public: value for public, value in _public(module).items() if callable(value)}
    if not name:
        functions = {public: value for public, value in functions.items()
                     if _is_defined(module, value) and _requires_horizon(value)}  # fmt: skip
    return path, _chosen(path, name, functions, "public function that requires horizon")[1]


def find_environment(text: str) -> tuple[str, str, Any]:
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
    environments = {
        public: value for public, value in _public(module).items()
        if isinstance(value, Environment)
        or (inspect.isfunction(value) and (name or _is_defined(module, value)))
    }  # fmt: skip
    name, make = _chosen(path, name, environments, "Environment or function")
    if isinstance(make, Environment):
        return path, name, make

    @functools.wraps(make)
    def checked(*args, **sizes):
        with errors_of(path):
            environment = make(*args, **sizes)
        if not isinstance(environment, Environment):
            kind = type(environment).__name__
            raise ValueError(f"{path}: {name} must return an Environment, and returned {kind}")
        return environment

    return path, name, checked


def find_study(text: str) -> "tuple[str, Study]":
    """The study of a file, ``mine.py`` or ``mine.py:name``. The file is run as a program.

    Without a name it is the only Study that a public name of the file refers to.

    Returns:
      The path and the Study.

    Raises:
      FileNotFoundError, OSError, ValueError: as in :func:`find_factory`.
    """
    from dpjax.study import Study  # here, because it loads pandas and xarray

    path, name, module = _opened(text)
    studies = {public: value for public, value in _public(module).items()
               if isinstance(value, Study)}  # fmt: skip
    return path, _chosen(path, name, studies, "Study")[1]


def digest(path: str | os.PathLike) -> str:
    """The digest of a file, as sha256sum prints it."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _chosen(path, name, known, kind) -> tuple[str, Any]:
    """The name and the object of that name, or of the only name."""
    if name and name not in known:
        raise ValueError(f"{path}: it has no {kind} {name}{_check.nearest(name, known)}")
    if not known:
        raise ValueError(f"{path}: it has no {kind}")
    if not name and len(known) > 1:
        raise ValueError(f"{path}: it has {' and '.join(known)}; choose one, as in "
                         f"{path}:{next(iter(known))}")  # fmt: skip
    name = name or next(iter(known))
    return name, known[name]


def _opened(text) -> tuple[str, str, ModuleType]:
    """The path, the name (or nothing) and the module of ``mine.py`` or ``mine.py:name``."""
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier() or Path(text).exists():
        path, name = text, ""
    return path, name, _run(path)


def _run(path) -> ModuleType:
    """Run a file as a module, with its folder first on the import path."""
    try:
        source = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except OSError as error:
        raise OSError(f"{path}: cannot be read: {error.strerror}") from None
    name = f"dpjax_file_{Path(path).stem}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__file__ = str(path)
    folder = str(Path(path).resolve().parent)
    sys.modules[name] = module  # Dataclasses look up their module.
    sys.path.insert(0, folder)
    try:
        with errors_of(path):
            exec(compile(source, str(path), "exec"), vars(module))
    finally:
        sys.path.remove(folder)
    return module


@contextmanager
def errors_of(path: str) -> Iterator[None]:
    """Turn an exception of a user's file into a ValueError that names the file and the line."""
    try:
        yield
    except SystemExit as error:
        raise ValueError(f"{path}: {line_of(path, error)}it ends the program") from error
    except Exception as error:  # A user's code may raise anything.
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        first = (message or "").strip().partition("\n")[0]
        said = f"{type(error).__name__}: {first}" if first else type(error).__name__
        raise ValueError(f"{path}: {line_of(path, error)}{said}") from error


def line_of(path: str, error: BaseException | None) -> str:
    """The line of the file that raised an error, for a message; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: "
    frames = [] if error is None else [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
    ]  # fmt: skip
    return f"line {frames[-1].lineno}: " if frames else ""


def _public(module) -> dict[str, Any]:
    """The objects of public names; an object with several names has the first of them."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if not name.startswith("_"):
            names.setdefault(id(value), name)
    return {name: getattr(module, name) for name in names.values()}


def _is_defined(module, value) -> bool:
    """Whether a file defines a function, and does not only import it."""
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _requires_horizon(make) -> bool:
    horizon = inspect.signature(make).parameters.get("horizon")
    return horizon is not None and horizon.default is horizon.empty
