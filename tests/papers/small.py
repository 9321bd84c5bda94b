"""Shared by tests of papers: reading tables, leaving out learners, counting programs."""

import csv

import pytest

from dpjax.engine import programs


def read_rows(path):
    """The rows of a table as dicts of strings."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def keep_only(patch, paper, **names):
    """Keeps only the given names in dicts of a paper, such as BY_BATCHES=("DP-SE",)."""
    for table, kept in names.items():
        everything = getattr(paper, table)
        patch.setattr(paper, table, {name: everything[name] for name in kept})


PROGRAMS: dict[str, int] = {}  # number of programs of each paper in the small run of its tests


def counted(reproduce):
    """``reproduce``, with a record of how many engine programs it needs.

    Programs compiled by earlier tests count too, so the number is that of a fresh process. A game
    compiled for each of its epsilons counts as many times.
    """

    def run(*arguments, **options):
        needed, compiled = set(), programs.compiled
        with pytest.MonkeyPatch.context() as patch:

            def note(traced, size, mesh):
                needed.add(traced)
                return compiled(traced, size, mesh)

            patch.setattr(programs, "compiled", note)
            returned = reproduce(*arguments, **options)
        PROGRAMS[reproduce.__module__.rpartition(".")[2]] = len(needed)
        return returned

    return run
