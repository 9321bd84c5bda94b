"""Shared by the referees: rows with two numbers and a verdict, and their table."""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import dpjax

LIMIT = 4.0  # two means differ if their difference exceeds this many standard errors


class Row(NamedTuple):
    setting: str
    ours: str
    theirs: str
    z: str  # difference over its standard error; or the largest relative difference
    verdict: str  # "agree" or "differ"
    expected: str = "agree"


def mean_of(values) -> tuple[float, float, int]:
    """Mean, its standard error, and the number of trials."""
    values = np.asarray(values, np.float64)
    error = values.std(ddof=1) / len(values) ** 0.5
    rounding = 1e-6 * abs(values.mean())
    return values.mean(), error if error > rounding else 0.0, len(values)


def compare(setting, ours, theirs, expected="agree") -> Row:
    """Compares the means of two samples, each with a value for each trial."""
    first, second = mean_of(ours), mean_of(theirs)
    spread = np.hypot(first[1], second[1])
    if spread == 0.0:
        return equal(setting, first[0], second[0], 1e-9, expected)
    z = (first[0] - second[0]) / spread
    verdict = "agree" if abs(z) <= LIMIT else "differ"
    shown = [
        f"{mean:.5g} ± {float(f'{error:.2g}'):g} ({count})"
        for mean, error, count in (first, second)
    ]
    return Row(setting, *shown, f"{z:.1f}", verdict, expected)


def equal(setting, ours, theirs, tolerance, expected="agree") -> Row:
    """Compares numbers without randomness, by their largest relative difference."""
    ours, theirs = np.atleast_1d(np.asarray(ours)), np.atleast_1d(np.asarray(theirs))
    apart = float(np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-300)))
    shown = [_digits(x) for x in (ours, theirs)]
    verdict = "agree" if apart <= tolerance else "differ"
    return Row(setting, *shown, f"relative {apart:.1e}", verdict, expected)


def between(setting, ours, bounds, tolerance=1e-4) -> Row:
    """Checks that a number is between their lower and upper bound."""
    low, high = bounds
    inside = low * (1.0 - tolerance) <= ours <= high * (1.0 + tolerance)
    shown = f"{low:.6g} to {high:.6g}"
    return Row(setting, f"{ours:.6g}", shown, "bounds", "agree" if inside else "differ")


def _digits(numbers) -> str:
    """Formats up to three numbers, or the least and the largest of more."""
    if len(numbers) > 3:
        return f"{np.min(numbers):.6g} to {np.max(numbers):.6g}"
    return ", ".join(f"{x:.6g}" for x in numbers)


def table(rows, heads=("dpjax", "theirs")) -> str:
    """A table in Markdown; ``heads`` are the headings of the two numbers."""
    lines = [f"| setting | {' | '.join(heads)} | z | verdict |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row[:5])} |" for row in rows)])


def arguments(doc, clone=None, options=None):
    """Parses the command line. If ``clone`` names a repository, a clone of it must be given."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if clone is not None:
        parser.add_argument("--clone", required=True, help=f"folder of a clone of {clone}")
    found = parser.parse_args(options)
    if clone is not None:
        if not Path(found.clone).is_dir():
            parser.error(f"--clone: there is no folder {found.clone}")
        sys.path.insert(0, str(Path(found.clone).resolve()))
    return found


def needs(module, package, extra):
    """Says what to install, and exits."""
    sys.exit(f"this referee needs {package}, but {module} is missing: pip install '{extra}'")


def finish(rows, heads=("dpjax", "theirs")):
    """Prints the table, and fails if a verdict is not the expected one."""
    print(table(rows, heads))
    wrong = [row.setting for row in rows if row.verdict != row.expected]
    if wrong:
        sys.exit("not as expected: " + "; ".join(wrong))


def play(learner, means, trials, seed=0, batches=False):
    """Pseudo-regrets (trials,) and reports of a learner on Bernoulli losses with these means."""
    environment = dpjax.environments.bernoulli(means, regret="pseudo")
    result = dpjax.sweep(
        lambda point: (learner, environment),
        np.ones(1),
        trials,
        jax.random.key(seed),
        play=dpjax.simulate_batches if batches else dpjax.simulate,
        checkpoints=1,
        progress=False,
    )
    report = jax.tree.map(lambda leaf: leaf[0], result.report)
    return np.asarray(result.regret[0, :, -1], np.float64), report
