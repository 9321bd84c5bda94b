"""Small runs of all papers: their sizes, engine programs and files."""

import csv
import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from dpjax.engine import programs


class Small(NamedTuple):
    """A small run of a paper. It needs this number of engine programs in a fresh process.

    A game compiled for each of its epsilons counts as many times.
    """

    programs: int
    horizon: int
    trials: int
    figures: tuple
    tables: tuple
    changes: Mapping = MappingProxyType({})  # of constants; of dicts, the names that are kept


SMALL = {
    "agarwal2017": Small(14, 2**9, 16, ("", "_horizon", "_map"), ("", "_free", "_slopes"), {
        "QUICK": ("experts", "sphere", "FTRL", "FTRL, Gaussian, buffered", "Hedge, sampled", "cube",
                  "FTRL, identical law", "shrinking dartboard"),
        "HORIZON_LEARNERS": ("FTRL",),
    }),
    "agarwal2017_bandits": Small(
        7, 512, 8, ("", "_horizon", "_size"), ("", "_slopes", "_adversaries"),
        {"QUICK": ("DP-EXP2", "Tsallis-INF", "SCRiBLE, scalar noise"),
         "FEW_EPSILONS": (1.0, 1000.0, np.inf)},
    ),
    "azize2023": Small(
        5, 10**6, 40, ("", "_errors"), ("", "_plain", "_onset", "_errors", "_budget"),
        {"QUICK": ("mu4", "DP-TT", "DP-SE", "TTUCB"), "RULES": ("AdaP-TT, released",)},
    ),
    "ene2021": Small(
        4, 2**8, 16, ("", "_epsilon", "_dim"), ("", "_slopes", "_baselines"),
        {"EPSILONS": (1.0, 10.0, 1000.0), "RATES": (1.0, 1 / 64),
         "BASELINES": ("PRIVATEBANDIT", "PRIVATEBANDIT, buffered")},
    ),
    "hanna2022": Small(
        7, 10**5, 32, ("", "_curves", "_horizon", "_rounds"),
        ("", "_horizon", "_exponents", "_nets", "_rounds"),
        {"BY_BATCHES": ("exact", "DP-SE"), "BY_ROUNDS": ("UCB1",), "ZETAS": (1.0,),
         "LENGTHS": (1.0, 0.1), "ROUNDS": 2000},
    ),
    "sajed2019": Small(
        10, 10**5, 128, ("", "_epsilon", "_horizon", "_laws", "_rounds"),
        ("", "_horizon", "_knee", "_pairwise", "_stopping"),
        {"BY_BATCHES": ("DP-SE", "AdaP-KLUCB"), "NOT_PRIVATE": ("UCB1",),
         "BY_ROUNDS": ("DP-UCB, split", "DP-UCB-Int, printed", "Lazy-UCB")},
    ),
    "shariff2018": Small(
        5, 2000, 4, ("", "_floor", "_scaling"), ("", "_floor", "_scaling", "_curves"),
        {"PUBLISHED_SCALING": ("bernoulli",)},
    ),
    "tossou2017": Small(5, 2**12, 48, ("", "_memory"), ("", "_memory")),
    "trust": Small(
        13, 100_000, 20, ("", "_linear", "_identification", "_contexts", "_points"),
        ("", "_linear", "_identification", "_onset", "_slopes"),
        {"LAWS": ("central, Laplace", "local, randomized response"), "EPSILONS": (1.0, np.inf)},
    ),
}  # fmt: skip


class Played(NamedTuple):
    tables: dict[str, list]  # the rows by the ending of a table's name
    printed: str
    parameters: dict


def number(text):
    try:
        return float(text)
    except ValueError:
        return text


def read_rows(path):
    """The rows of a table, numbers as floats."""
    with open(path, newline="") as file:
        return [SimpleNamespace(**{name: number(text) for name, text in row.items()})
                for row in csv.DictReader(file)]  # fmt: skip


@cache
def played(name) -> Played:
    """Play the small run of a paper, and compare its files, sizes and number of programs."""
    paper, small = import_module(f"dpjax.papers.{name}"), SMALL[name]
    needed, compiled = set(), programs.compiled

    def note(traced, size, mesh):
        needed.add(traced)
        return compiled(traced, size, mesh)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "compiled", note)
        for constant, changed in small.changes.items():
            whole = getattr(paper, constant)
            kept = {key: whole[key] for key in changed} if isinstance(whole, dict) else changed
            patch.setattr(paper, constant, kept)
        sizes, out = {"horizon": small.horizon, "trials": small.trials}, Path(folder, name)
        printed = paper.reproduce(out, **sizes, progress=False)
        expected = {f"{name}{end}.{kind}" for end in small.figures for kind in ("pdf", "png")}
        expected |= {f"{name}{end}.csv" for end in small.tables} | {"parameters.json"}
        assert {file.name for file in out.iterdir()} == expected
        parameters = json.loads((out / "parameters.json").read_text())
        assert sizes == {size: parameters[size] for size in sizes}
        assert len(needed) == small.programs, len(needed)
        rows = {end: read_rows(out / f"{name}{end}.csv") for end in small.tables}
        assert all(rows.values())
        return Played(rows, printed, parameters)
