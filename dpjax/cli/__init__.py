"""The command line: one module for each command that computes."""

from dpjax.cli.commands import main

__all__ = ["main"]
