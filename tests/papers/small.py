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


def files(name, figures, tables):
    """The names of the files of a paper."""
    drawn = [f"{name}{ending}.{kind}" for ending in figures for kind in ("pdf", "png")]
    return {*drawn, *(f"{name}{ending}.csv" for ending in tables), "parameters.json"}


def names(folder):
    """The names of the files in a folder."""
    return {file.name for file in folder.iterdir()}


def counted(reproduce, count):
    """``reproduce``, which must need this number of engine programs.

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
        assert len(needed) == count
        return returned

    return run
