"""The command line."""

from dpjax.cli.commands import main

__all__ = ["main"]
