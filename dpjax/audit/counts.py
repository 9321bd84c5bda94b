"""Lower bounds on epsilon from the counts of an event on two neighbouring sequences."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dpjax.core import Numbers
from dpjax.maths.intervals import clopper_pearson


class Bound(NamedTuple):
    """An empirical lower bound on epsilon. The true epsilon may be larger."""

    epsilon: float  # the bound at ``delta``; 0 if nothing was found
    delta: float
    confidence: float  # of the bound, for this pair and this statistic
    runs: int  # counted runs of each sequence
    hits: int  # runs with the event, on the sequence where it is more likely
    misses: int  # runs with the event, on the other sequence
    event: str  # the event in words


def check_delta(delta: float) -> None:
    """Raise ValueError if delta is not in [0, 1)."""
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {delta}")


def bound_from_counts(
    hits: Numbers, misses: Numbers, runs: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """A lower bound on epsilon at delta from the counts of an event on both sequences.

    (epsilon, delta)-privacy implies P(event) <= e^epsilon P'(event) + delta. Let p be the
    Clopper-Pearson lower bound on P(event) and p' the upper bound on P'(event), each with error
    probability (1 - confidence) / 2. With probability ``confidence``, ln((p - delta) / p') is at
    most epsilon. If it is negative, the bound is 0.

    Args:
      hits: runs with the event, on the sequence where it is more likely.
      misses: runs with the event, on the other sequence.
      runs: runs of each sequence.
      delta: in [0, 1).
      confidence: in (0, 1), for an event that was chosen beforehand.

    Examples:
      >>> [round(float(audit.bound_from_counts(hits, 100, 1000)), 2) for hits in (110, 300, 900)]
      [0.0, 0.81, 1.99]
    """
    error = (1.0 - confidence) / 2.0
    low, _ = clopper_pearson(hits, runs, error)
    _, high = clopper_pearson(misses, runs, error)
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return np.maximum(ratio, 0.0)


def counts(event: tuple, sides: Sequence[np.ndarray]) -> tuple[int, int, int]:
    """(hits, misses, runs of each sequence) of an event, as :class:`Bound` has them."""
    threshold, above, swapped = event
    hits, misses = (int(((side >= threshold) == above).sum()) for side in sides)
    return (misses, hits, len(sides[0])) if swapped else (hits, misses, len(sides[0]))


def counted(
    name: str, event: tuple, sides: Sequence[np.ndarray], delta: float, confidence: float
) -> Bound:
    """The Bound from the counts of an event.

    Args:
      name: of the statistic.
      event: as :func:`best_event` returns it.
      sides: scores of equally many runs on both sequences.
      delta, confidence: as for :func:`bound_from_counts`.
    """
    threshold, above, swapped = event
    hits, misses, runs = counts(event, sides)
    bound = bound_from_counts(hits, misses, runs, delta=delta, confidence=confidence)
    words = (f"{name} {'at least' if above else 'below'} {threshold:.6g}, likelier on "
             f"{'others' if swapped else 'losses'}")  # fmt: skip
    return Bound(float(bound), delta, confidence, runs, hits, misses, words)


def best_event(
    ours: np.ndarray, theirs: np.ndarray, levels: np.ndarray, merit: Callable
) -> tuple[float, bool, bool]:
    """The event of the largest merit, (threshold, above, swapped).

    The event is that a score is at least the threshold (``above``), or below it. It should be
    likelier on the first sequence, or on the second if ``swapped``.

    Args:
      ours, theirs: scores of equally many runs on both sequences.
      levels: (n,) thresholds.
      merit: (counts on the likelier sequence (n,), counts on the other (n,)) -> (n,).
    """
    below = [np.searchsorted(np.sort(side), levels, side="left") for side in (ours, theirs)]
    best = (-np.inf, float(levels[0]), True, False)
    for above in (True, False):
        counts = [len(ours) - low if above else low for low in below]
        for swapped in (False, True):
            values = merit(*(counts[::-1] if swapped else counts))
            place = int(np.argmax(values))
            if values[place] > best[0]:
                best = (float(values[place]), float(levels[place]), above, swapped)
    return best[1:]
