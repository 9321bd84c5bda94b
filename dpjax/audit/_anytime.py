"""Tests of a declared epsilon that may stop at any time, for any function that returns a number."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import scipy
from jax import random as jr

from dpjax.audit.counts import best_event, check_delta
from dpjax.core import Array, Numbers, _check
from dpjax.engine.settings import in_float32

# The wealth is split among bets of these fractions, since the best one is not known beforehand.
FRACTIONS = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
# The grid of epsilons that is searched for the bound, refined to a thousandth of a step.
LEVELS = np.linspace(0.0, 20.0, 401)
# How many thresholds are tried on the earlier pairs of runs.
THRESHOLDS = 64


class Anytime(NamedTuple):
    """The result of a test that may stop at any time."""

    epsilon: float  # the lower bound at ``delta``, 0 if nothing was found
    delta: float
    confidence: float  # of the bounds at all times simultaneously
    refuted: bool  # whether the bound exceeds the declared epsilon
    runs: int  # runs on each sequence
    # Numbers of pairs of runs with the event in (both, the first only, the second only, neither).
    counts: tuple


def log_wealth(counts: Numbers, epsilon: Numbers, delta: float = 0.0) -> np.ndarray:
    """The logarithm of the wealth of a gambler who bets against (epsilon, delta)-privacy.

    Let X and Y indicate an event in a run on one sequence and in a run on the other. The
    declaration implies E X <= e^epsilon E Y + delta, so

        W = prod over pairs of runs of (1 + k (X - e^epsilon Y - delta) / (e^epsilon + delta))

    is a nonnegative supermartingale for each k in [0, 1). So is its mean over k in
    :data:`FRACTIONS`, whose logarithm is returned. The probability that the mean ever exceeds 1 / a
    is at most a (Ville 1939). The event of a pair may be chosen from the earlier pairs.

    Args:
      counts: (..., 4) pairs with (X, Y) = (1, 1), (1, 0), (0, 1) and (0, 0).
      epsilon: at least 0; broadcasts with the leading axes of ``counts``.
      delta: in [0, 1).

    Examples:
      >>> counts = [10, 60, 10, 20]  # the event in both, the first, the second, neither
      >>> [round(float(audit.log_wealth(counts, epsilon)), 1) for epsilon in (0.0, 1.0, 2.0)]
      [17.8, 0.0, -1.5]
    """
    counts, epsilon = np.asarray(counts, np.float64), np.asarray(epsilon, np.float64)
    odds = np.exp(epsilon)[..., None]
    x, y = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
    gain = (x - odds * y - delta) / (odds + delta)
    grown = np.log1p(FRACTIONS[:, None] * gain[..., None, :])
    return scipy.special.logsumexp(np.sum(counts[..., None, :] * grown, axis=-1), axis=-1) - np.log(
        len(FRACTIONS)
    )


def bound_from_pairs(counts: Numbers, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The least epsilon that the counts of pairs of runs do not refute; 0 if they refute none.

    With probability ``confidence`` the bounds after 1, 2, ... pairs hold simultaneously. So the
    largest of them is a bound too, and you can stop at any time.

    Args:
      counts: (4,), as for :func:`log_wealth`.
      delta: in [0, 1).
      confidence: in (0, 1).

    Examples:
      >>> [round(audit.bound_from_pairs([n, 6 * n, n, 2 * n]), 2) for n in (1, 10, 100)]
      [0.0, 0.64, 1.04]
    """
    enough = -np.log1p(-confidence)

    def first_kept(levels):
        """The index of the first level that is not refuted."""
        refuted = log_wealth(np.asarray(counts)[None], levels, delta) >= enough
        return int(np.argmin(refuted)) if not refuted.all() else len(levels) - 1

    place = first_kept(LEVELS)
    if place == 0:
        return 0.0
    finer = np.linspace(LEVELS[place - 1], LEVELS[place], 1001)
    return float(finer[max(first_kept(finer) - 1, 0)])


@in_float32
def anytime(
    scores: Callable,
    key: Array,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    first: int = 64,
    limit: int = 2**20,
) -> Anytime:
    """Run a function on two neighbouring inputs until an epsilon is refuted or a limit is reached.

    The number of runs is not fixed beforehand. Each block has a quarter as many runs as all blocks
    before it, and at least ``first``. The event of a block is that the score is at least a
    threshold. The threshold, and the input on which the event is likelier, are chosen on the runs
    before the block. The first block is used only for this choice.

    Args:
      scores: (side, keys (n,)) -> n numbers, one for each run on the input 0 or 1; n is always
        ``first``. It need not be written in JAX, and may ignore the keys and use its own random
        numbers. The runs on one input have to be independent and identically distributed.
      key: PRNG key.
      epsilon: the declared epsilon; inf to continue to the limit.
      delta: the declared delta, in [0, 1).
      confidence: in (0, 1), of the bounds at all times simultaneously.
      first: runs of each input in the first block.
      limit: largest number of runs of each input, rounded up to a multiple of ``first``.

    Returns:
      An :class:`Anytime`. If the declared epsilon is true, it is refuted with probability at most
      1 - confidence, for any scores.

    Raises:
      ValueError: a number is out of range, or the scores are not n numbers.

    Reference: Ville, "Etude critique de la notion de collectif", 1939; Waudby-Smith & Ramdas,
    "Estimating means of bounded random variables by betting", 2024, for averaged bets. The use for
    differential privacy is ours.

    Examples:
      >>> def scores(side, keys):
      ...     return jax.vmap(lambda key: noise.laplace(key, 1.0 * (1 - side), 0.25))(keys)
      >>> found = audit.anytime(scores, jax.random.key(0), epsilon=1.0)  # in truth 4
      >>> found.refuted
      True
    """
    _check.function("a function of a side and of keys", scores=scores)
    _check.epsilon(epsilon)
    _check.inside(0.0, 1.0, confidence=confidence)
    check_delta(delta)
    first, limit = _check.size(1, first=first), _check.size(1, limit=limit)
    past: list = [np.zeros(0), np.zeros(0)]
    counts, bound, block = np.zeros(4, np.int64), 0.0, 0
    # An event: the threshold, whether the score is above it, and whether the inputs are swapped.
    event = None
    while len(past[0]) < limit and not bound > epsilon:
        calls = range(block, block + max(len(past[0]) // (4 * first), 1))
        bounds = [
            np.concatenate([_numbers(scores, side, key, call, first) for call in calls])
            for side in (0, 1)
        ]
        if event is not None:
            counts = counts + count_pairs(bounds[0], bounds[1], event)
            bound = max(bound, bound_from_pairs(counts, delta=delta, confidence=confidence))
        past = [np.concatenate([old, new]) for old, new in zip(past, bounds, strict=True)]
        event = most_telling(past[0], past[1], delta)
        block = calls.stop
    refuted = bool(bound > epsilon)
    return Anytime(bound, delta, confidence, refuted, len(past[0]), tuple(map(int, counts)))


@partial(jax.jit, static_argnums=3)
def _keys(key, side, call, size):
    return jr.split(jr.fold_in(jr.fold_in(key, side), call), size)


def _numbers(scores, side, key, call, size):
    """The scores of one call as NumPy numbers, (n,). A NaN counts as the lowest score."""
    keys = _keys(key, side, call, size)
    values = np.asarray(jax.device_get(scores(side, keys)), np.float64)
    if values.shape != (size,):
        raise ValueError(f"scores must return {size} numbers for {size} keys, got {values.shape}")
    return np.where(np.isnan(values), -np.inf, values)


def count_pairs(ours: np.ndarray, theirs: np.ndarray, event: tuple):
    """The counts (4,) of an event in pairs of runs, for :func:`log_wealth`."""
    threshold, above, swapped = event
    x, y = (((side >= threshold) == above) for side in (ours, theirs))
    x, y = (y, x) if swapped else (x, y)
    return np.array([(x & y).sum(), (x & ~y).sum(), (~x & y).sum(), (~x & ~y).sum()])


def most_telling(ours: np.ndarray, theirs: np.ndarray, delta: float):
    """The event that best distinguishes the earlier runs: (threshold, above, swapped).

    It has the largest log-ratio of smoothed frequencies minus two standard errors, which favours
    events that are not too rare.
    """
    n = len(ours)
    both = np.concatenate([ours, theirs])
    finite = both[np.isfinite(both)]
    if not len(finite):
        return 0.0, True, False
    levels = np.unique(np.quantile(finite, np.linspace(0.0, 1.0, THRESHOLDS)))

    def growth(hits, misses):
        p, q = ((count + 0.5) / (n + 1.0) for count in (hits, misses))
        error = np.sqrt((1.0 - p) / (n * p) + (1.0 - q) / (n * q))
        return np.log(np.maximum(p - delta, 1e-12)) - np.log(q) - 2.0 * error

    return best_event(ours, theirs, levels, growth)
