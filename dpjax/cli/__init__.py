"""The command line: a file for each command that computes. Whoever adds a command comes in."""

from dpjax.cli.commands import main

__all__ = ["main"]
