"""Finds the names that a package exports, so that no list is written by hand."""


def public(package: dict, kind: type = object) -> list[str]:
    """The public functions and classes that a package imports from its own public modules.

    A function whose name begins with an underscore is not public. A module whose name does holds
    one public function at most, of the same name without the underscore.

    Args:
      package: the package's dictionary, after ``from package.module import *`` for its modules.
      kind: ``types.FunctionType`` for the functions only.
    """
    prefix = package["__name__"] + "."

    def is_public(name, value):
        module = getattr(value, "__module__", None) or ""
        inner = module.removeprefix(prefix)
        if not isinstance(value, kind):
            return False
        return inner != module and name[0] != "_" and (inner[0] != "_" or inner == f"_{name}")

    return sorted(name for name, value in package.items() if is_public(name, value))
