"""Estimates of labelled arrays, and the tables, figures, pages and files that show them."""

from importlib import import_module

__all__ = ["accessor", "arrays", "choice", "estimates", "latex", "trends"]


def __getattr__(name):
    """Import a public module on first use, because its libraries take a second to load."""
    if name in __all__:
        return import_module(f"dpjax.report.{name}")
    raise AttributeError(f"module 'dpjax.report' has no attribute {name!r}")


def __dir__():
    return {*(name for name in globals() if name.startswith("__")), *__all__}
