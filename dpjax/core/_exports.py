"""Finds the names that a package exports, so that no list is written by hand."""


def public(package: dict) -> list[str]:
    """The public functions and classes that a package imports from its own public modules.

    A module or a function whose name begins with an underscore is not public.

    Args:
      package: the package's dictionary, after ``from package.module import *`` for its modules.
    """
    own = package["__name__"] + "."

    def is_public(name, value):
        module = getattr(value, "__module__", None) or ""
        return module.startswith(own) and "_" not in (name[0], module[len(own)])

    return sorted(name for name, value in package.items() if is_public(name, value))
