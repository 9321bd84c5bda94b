"""The command line, with a file for each command that computes. Whoever adds one comes in."""

from dpjax.cli.commands import main

__all__ = ["main"]
