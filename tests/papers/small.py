"""What the tests of several papers share: reading tables, and leaving learners out of a run."""

import csv


def read_rows(path):
    """The rows of a table as dicts of strings."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def keep_only(patch, paper, **names):
    """Leaves only the given names in dicts of a paper, such as BY_BATCHES=("DP-SE",)."""
    for table, kept in names.items():
        everything = getattr(paper, table)
        patch.setattr(paper, table, {name: everything[name] for name in kept})
