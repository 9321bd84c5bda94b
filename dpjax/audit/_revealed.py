"""Privacy loss of a learner's discrete actions: likelihood ratios, attacks and privacy curves."""

import itertools
import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import random as jr

from dpjax.audit._epsilon import choose_event, trained
from dpjax.audit._pairs import Pair, check_fits, check_neighbours
from dpjax.audit.counts import Bound, bound_from_counts, check_delta, counted, counts
from dpjax.audit.filters import Filter
from dpjax.audit.limits import in_threads
from dpjax.combinators import as_learner
from dpjax.core import Arms, Array, BatchLearner, Learner, Numbers, PyTree, _check
from dpjax.engine.settings import FIRST_LEVEL, in_float32
from dpjax.maths.intervals import clopper_pearson, mean_interval

# A game with at most this many histories is enumerated.
MOST_HISTORIES = 2**13
# How many particles, of all histories together, and how many histories are computed in parallel.
PARTICLES, CHUNK = 2**15, 2**12
# How many runs of each sequence choose the threshold of a likelihood attack.
SELECTION = 2**14
# In a complete audit, each step of an attack filters at most this many rounds of particles on each
# sequence, which takes 2 to 5 seconds; but at least 2^10 runs.
FILTERED, FEWEST = 2**22, 2**10
# How many filters are averaged to choose among the histories that looked worst to one filter.
LOOKS = 16
# Pairs are compared by this quantile of |ln P'/P|.
QUANTILE = 0.98
# Larger log-ratios are indistinguishable in counts of runs. Without noise they are infinite.
LARGEST_RATIO = 1e3


class Revealed(NamedTuple):
    """The privacy curve of the actions on one pair of sequences, the larger of both directions.

    If ``exact``, ``below`` and ``above`` are equal. Otherwise each of their numbers fails to bound
    delta with probability at most (1 - confidence) / 2.
    """

    epsilons: np.ndarray  # (n,)
    below: np.ndarray  # (n,) delta is at least this
    above: np.ndarray  # (n,) delta is at most this
    exact: bool  # whether all histories were enumerated
    # The largest |ln P'(a) / P(a)|, the pure epsilon of the actions; nan if not exact. With hidden
    # noise it is an estimate that tends to be too large.
    epsilon: float
    chances: tuple[float, float]  # sums of P and P' over all histories, 1 up to noise; else nan


class WorstHistory(NamedTuple):
    """A history of actions and its likelihood ratio on the pair."""

    history: PyTree  # as audit.play returns it
    log_ratio: float  # ln P'(a) / P(a)
    epsilon: tuple[float, float]  # an interval of its size, from independent filters
    confidence: float  # of the interval, if the mean over filters is normally distributed


@in_float32
def log_ratio(
    learner: Learner | BatchLearner,
    pair: Pair,
    actions: PyTree,
    key: Array,
    *,
    particles: int = 256,
) -> Array:
    """An estimate of ln P'(a) / P(a) for the actions a of one run, by a particle filter.

    P is the law of the actions on ``pair.losses``, and P' the law on ``pair.others``. The filter
    runs the learner's traced program with the releases of :mod:`dpjax.noise` in it. One particle is
    exact if the actions determine all draws, as those of :func:`dpjax.learners.exp3` do. The
    estimate depends on the run only through the actions. So it can be the statistic of an attack,
    even if it is inaccurate.

    Args:
      learner: a Learner or BatchLearner with discrete actions.
      pair: a :class:`Pair` of sequences.
      actions: as :func:`play` returns them, with the released fields of the report if any.
      key: PRNG key of the filter. It must not be the key of the run.
      particles: how many.

    Returns:
      (). It is 0 if no particle played the actions, and NaN if the noise of a mechanism's sums
      cannot be moved because they contain no new draw that an audit sees.

    Raises:
      ValueError: the density of a release is not known, or the actions are not discrete.

    Examples:
      >>> learner = learners.hedge(2, 2, epsilon=1.0)
      >>> pair = audit.Pair(jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.zeros((2, 2)))
      >>> key, actions = jax.random.key(0), jnp.array([0, 0])
      >>> float(audit.log_ratio(learner, pair, actions, key, particles=1)) > 0.0
      True
    """
    filtered = _filter(learner, pair)(pair, actions, key, _check.size(1, particles=particles))
    return jnp.where(filtered.moved, filtered.log_ratio, jnp.nan)


def is_discrete(learner: Learner | BatchLearner) -> bool:
    """Whether two runs have the same actions with positive probability.

    Examples:
      >>> audit.is_discrete(learners.exp3(8, 2))
      True
    """
    return isinstance(learner.action_set, Arms) or learner.feedback.kind == "semi_bandit"


def _filter(learner, pair) -> Filter:
    learner = as_learner(learner)
    check_neighbours(pair, learner.privacy.rounds_per_user)
    check_fits(learner, pair.losses)
    if not is_discrete(learner):
        raise ValueError(
            "learner: the privacy loss of its actions cannot be computed: they are points, each of "
            "which has probability 0"
        )
    return Filter(learner, jax.tree.map(lambda leaf: leaf[0], pair.losses))


# Many runs and many histories -------------------------------------------------------------------


class Filters:
    """Compiled runs and filters of a learner, for any pair of its losses.

    Args:
      learner: with discrete actions.
      pair: any pair of its losses.
      particles: of each filter.
    """

    def __init__(self, learner, pair, particles):
        self.one = one = _filter(learner, pair)
        self.particles = particles = _check.size(1, particles=particles)

        def ratio(count, pair, history, key):
            return one(pair, history, key, count)

        def kept(pair, key):
            run_key, key, coin = jr.split(key, 3)
            played = one.play(pair, run_key, jr.bernoulli(coin))
            return one(pair, played.history, key, particles, played)

        def play(losses, key):
            return one.play(Pair(losses, losses), key).history

        compiled = partial(jax.jit, compiler_options=FIRST_LEVEL)
        self._plays = compiled(jax.vmap(play))
        self._ratios = {n: compiled(jax.vmap(partial(ratio, n))) for n in (1, particles)}
        self._kept = compiled(jax.vmap(kept, (None, 0)))

    def plays(self, losses, key, runs):
        """The histories of independent runs on a sequence."""
        return self._played(_repeated(losses, runs), jr.split(key, runs))

    def _played(self, losses, keys):
        return _chunked(lambda rows: self._plays(*rows), (losses, keys), CHUNK)

    def both(self, pair, keys, runs):
        """The histories of independent runs on each sequence, with one key for each."""
        return [self.plays(side, key, runs) for side, key in zip(pair, keys, strict=True)]

    def ratios(self, pair, histories, key):
        """A Filtered of each history."""
        keys = jr.split(key, len(jax.tree.leaves(histories)[0]))
        return self._filtered(_repeated(pair, len(keys)), histories, keys)

    def _filtered(self, pairs, histories, keys):
        rows = pairs, histories, keys
        if not self.one.bare:
            return _moved(self._of(rows, self.particles))
        # All particles are equal if the history determines all draws, so one is exact.
        filtered = self._of(rows, 1)
        hidden = np.flatnonzero(~filtered.known)
        if len(hidden):
            rest = self._of(jax.tree.map(lambda leaf: leaf[hidden], rows), self.particles)
            for leaf, other in zip(*map(jax.tree.leaves, (filtered, rest)), strict=True):
                leaf[hidden] = other
        return _moved(filtered)

    def _of(self, rows, particles):
        run = self._ratios[particles]
        return _chunked(lambda rows: run(*rows), rows, PARTICLES // particles)

    def affordable(self) -> int:
        """How many runs of a sequence can be filtered in a few seconds, see FILTERED."""
        particles = 1 if self.one.bare else self.particles
        return max(FILTERED // (particles * self.one.learner.horizon), FEWEST)

    def most_revealing(self, pairs, key, runs) -> int:
        """The index of the pair with the largest upper quantile of |ln P'/P| over runs.

        The best pairs of a first round are compared again with four times as many runs.
        """
        places = np.arange(len(jax.tree.leaves(pairs.losses)[0]))
        for most, count, round_key in zip((8, 1), (runs, 4 * runs), jr.split(key), strict=True):
            repeated = np.repeat(places, count)
            rows = jax.tree.map(lambda leaf, places=repeated: np.asarray(leaf)[places], pairs)
            keys, more = jr.split(round_key, (2, len(repeated)))
            filtered = self._filtered(rows, self._played(rows.losses, keys), more)
            sizes = np.abs(_bounded(filtered.log_ratio)).reshape(len(places), count)
            places = places[np.argsort(-np.quantile(sizes, QUANTILE, axis=1))[:most]]
        return int(places[0])

    def kept(self, pair, key, runs):
        """A Filtered of runs on a random sequence, each a particle of its own filter."""
        keys, chunk = jr.split(key, runs), PARTICLES // self.particles
        return _moved(_chunked(lambda keys: self._kept(pair, keys), keys, chunk))

    def scores(self, pair, key, histories):
        """-ln P'/P of runs. It is a function of the history, which also determines the key."""
        some, place, marks = _distinct(histories)
        keys = jax.vmap(jr.fold_in, (None, 0))(key, marks)
        return -_bounded(self._filtered(_repeated(pair, len(marks)), some, keys).log_ratio)[place]


def _distinct(histories):
    """Distinct histories, the index of each history among them, and a hash of each."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(histories)]
    columns = [leaf.reshape(len(leaf), -1).astype(np.float64) for leaf in leaves]
    rows, first, place = np.unique(
        np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True
    )
    marks = np.array([zlib.crc32(row.tobytes()) for row in rows], np.uint32)
    return jax.tree.map(lambda leaf: leaf[first], histories), place.reshape(-1), marks


def _bounded(log_ratios):
    """Log-ratios of at most LARGEST_RATIO in size, since quantiles interpolate between them."""
    return np.clip(log_ratios, -LARGEST_RATIO, LARGEST_RATIO)


def _repeated(tree, count):
    """Identical rows, without a copy in memory."""
    leaves = jax.tree.map(np.asarray, tree)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *leaf.shape)), leaves)


def _chunked(function, rows, chunk):
    """Apply a compiled function to rows in chunks, in parallel threads, with a NumPy result."""
    count = len(jax.tree.leaves(rows)[0])
    chunk = min(max(chunk, 1), CHUNK)

    @in_float32  # a thread has its own settings of JAX
    def part(start):
        places = np.minimum(np.arange(start, start + chunk), count - 1)
        return jax.tree.map(np.asarray, function(jax.tree.map(lambda leaf: leaf[places], rows)))

    parts = list(in_threads(part, range(0, count, chunk)))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *parts)


def _moved(filtered):
    if not filtered.moved.all():
        raise ValueError(
            "learner: the privacy loss of its actions cannot be computed: in some round its prefix "
            "sums contain no new noise that an audit sees"
        )
    return filtered._replace(
        log_ratio=np.asarray(filtered.log_ratio, np.float64),
        log_chances=tuple(np.asarray(log, np.float64) for log in filtered.log_chances),
    )


# Attack, curve and worst history ------------------------------------------------------------------


@in_float32
def likelihood_attack(
    learner: Learner | BatchLearner,
    pair: Pair,
    key: Array,
    *,
    runs: int = 2**17,
    particles: int = 64,
    delta: float = 0.0,
    confidence: float = 0.95,
    rival: bool = False,
) -> Bound:
    """A lower bound on epsilon from the estimated likelihood ratio of the actions.

    It is :func:`epsilon` with the statistic -ln P'/P of :func:`log_ratio`, for discrete actions.
    The statistic does not use a run's hidden noise. So an inaccurate estimate only reduces power.

    Args:
      learner: a Learner or BatchLearner with discrete actions.
      pair: a :class:`Pair` of sequences.
      key: PRNG key.
      runs: counted runs of each sequence; up to 2^14 others choose the event.
      particles: of each filter.
      delta: of the bound, in [0, 1).
      confidence: of the bound, for this pair.
      rival: whether the trained statistic of :func:`epsilon` is also tried. The statistic with the
        better event on the selection runs is counted.

    Returns:
      A Bound.

    Raises:
      ValueError: as :func:`log_ratio`; or a number is out of range.

    Examples:
      >>> learner = learners.hedge(2, 2, epsilon=1.0)
      >>> pair = audit.Pair(jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.zeros((2, 2)))
      >>> bound = audit.likelihood_attack(learner, pair, jax.random.key(0), runs=2**14, particles=1)
      >>> 0.2 < bound.epsilon < 1.0
      True
    """
    runs = _check.size(1, runs=runs)
    return attacked(Filters(learner, pair, particles), pair, key, runs, delta, confidence, rival)


def filters_for(learner: Learner | BatchLearner, pairs: Pair, particles: int) -> Filters:
    """Filters of a learner for pairs with leading axes (count, T)."""
    return Filters(learner, jax.tree.map(lambda leaf: leaf[0], pairs), particles)


@in_float32
def most_revealing(
    learner: Learner | BatchLearner,
    pairs: Pair,
    key: Array,
    *,
    runs: int = 64,
    particles: int = 64,
) -> int:
    """The index of the pair whose losses the actions reveal most.

    This pair has the largest 98 % quantile of |ln P'/P| over runs on the first sequence, as
    :func:`log_ratio` estimates it. Use it to choose the pair to attack, with a key other than the
    attack's.

    Args:
      learner: a Learner or BatchLearner with discrete actions.
      pairs: a :class:`Pair` with leading axes (count, T), for example from :func:`worst_rounds`.
      key: PRNG key.
      runs: of each pair; the best pairs get more.
      particles: of each filter.

    Examples:
      >>> learner, key = learners.hedge(4, 2, epsilon=1.0), jax.random.key(0)
      >>> pairs = audit.worst_rounds(learner)
      >>> place = audit.most_revealing(learner, pairs, key, runs=16, particles=1)
      >>> rounds = (pairs.losses[place] != pairs.others[place]).any(axis=1)
      >>> int(jnp.argmax(rounds))  # the first round moves all later draws
      0
    """
    runs = _check.size(1, runs=runs)
    return filters_for(as_learner(learner), pairs, particles).most_revealing(pairs, key, runs)


def worst_rounds(learner: Learner | BatchLearner) -> Pair:
    """Pairs of neighbouring losses of arms, to search for the round that reveals most.

    There are 24 pairs for each round t < T. They differ only in round t, in one of four ways: in
    all arms, in arm 0, in arm 0 against arm 1, or in arm 0 against all others. The shared losses
    are of six kinds: all best, all worst, all in the middle, only arm 0 bad, only arm 0 good, or
    arms 0 and 1 bad in turn, so that they are tied in every second round.

    Args:
      learner: a Learner or BatchLearner over arms.

    Returns:
      A Pair with leading axes (24 (T - 1), T), in float32.

    Examples:
      >>> audit.worst_rounds(learners.exp3(8, 2)).losses.shape  # pairs, rounds, arms
      (168, 8, 2)
    """
    count, horizon = learner.action_set.count, learner.horizon
    low, high = learner.privacy.loss_range
    first, second = np.eye(count)[0], np.eye(count)[min(1, count - 1)]
    zeros, ones = np.zeros(count), np.ones(count)
    turns = np.where(np.arange(horizon)[:, None] % 2 == 0, first, second)
    bases = [zeros, ones, 0.5 * ones, first, ones - first, turns]
    changes = [(ones, zeros), (first, zeros), (first, second), (first, ones - first)]
    sides: tuple[list, list] = ([], [])
    for base, change, at in itertools.product(bases, changes, range(horizon - 1)):
        for side, loss in zip(sides, change, strict=True):
            rows = np.broadcast_to(base, (horizon, count)).copy()
            rows[at] = loss
            side.append(low + (high - low) * rows)
    losses, others = (jnp.asarray(np.stack(side), jnp.float32) for side in sides)
    if learner.privacy.neighbours == "zero_out":
        others = jnp.where(jnp.any(losses != others, axis=2, keepdims=True), 0.0, others)
    return Pair(losses, others)


def attacked(
    filters: Filters,
    pair: Pair,
    key: Array,
    runs: int,
    delta: float,
    confidence: float,
    rival: bool,
    most: int | None = None,
) -> Bound:
    """As :func:`likelihood_attack`, with Filters.

    Of each sequence at most ``most`` runs are filtered, by default ``runs``. The trained statistic
    costs little, so it is counted on all runs. The statistic is chosen whose bound on its number of
    runs is larger, if the frequencies are those of the selection runs.
    """
    check_delta(delta)
    _check.inside(0.0, 1.0, confidence=confidence)
    play_key, train_key, score_key = jr.split(key, 3)
    filtered, learner = min(runs, most or runs), filters.one.learner
    # The counted runs of each statistic.
    statistics: dict[str, tuple[Callable, int]] = {
        "likelihood ratio": (partial(filters.scores, pair, score_key), filtered)
    }
    if rival:
        of_run = jax.jit(jax.vmap(trained(learner, pair, train_key, 2**12)))
        statistics["trained statistic"] = (lambda played: _chunked(of_run, played, CHUNK)), runs
    keys = jr.split(play_key, (2, 2))
    selection = filters.both(pair, keys[0], min(filtered, SELECTION))
    events = {}
    for name, (statistic, count) in statistics.items():
        sides = [statistic(played) for played in selection]
        event = choose_event(sides, delta, confidence, count)
        hits, misses, of = counts(event, sides)
        scale = count / of
        merit = bound_from_counts(
            scale * hits, scale * misses, count, delta=delta, confidence=confidence
        )
        events[name] = merit, event
    # On the counted runs only the better statistic is computed.
    name = max(events, key=lambda name: events[name][0])
    statistic, count = statistics[name]
    sides = [statistic(played) for played in filters.both(pair, keys[1], count)]
    return counted(name, events[name][1], sides, delta, confidence)


@in_float32
def revealed(
    learner: Learner | BatchLearner,
    pair: Pair,
    key: Array,
    epsilons: Numbers,
    *,
    runs: int = 2**12,
    particles: int = 256,
    confidence: float = 0.95,
) -> Revealed:
    """The privacy curve delta(epsilon) of a learner's actions on one pair, exact or with bounds.

    delta(epsilon) is the largest of P(S) - e^epsilon P'(S) and P'(S) - e^epsilon P(S) over sets S
    of histories. If there are few histories, all are filtered and the curve is exact. Otherwise

    - ``below`` comes from the frequencies of the set on which :func:`log_ratio` exceeds epsilon,
      with Clopper-Pearson bounds.
    - ``above`` is the mean of 2 (1 - e^epsilon R)_+ / (1 + R) over runs on either sequence. R is
      the ratio of a filter with the run among its particles (conditional SMC). This is an upper
      bound for any number of particles. One particle gives the curve of all releases, and many
      approach that of the actions. The interval holds for any law
      (:func:`dpjax.maths.intervals.mean_interval`).

    Args:
      learner: a Learner or BatchLearner with discrete actions.
      pair: a :class:`Pair` of sequences.
      key: PRNG key.
      epsilons: (n,), at least 0.
      runs: of each bound and of each direction.
      particles: of each filter.
      confidence: of each pair of numbers in ``below`` and ``above`` together.

    Returns:
      A Revealed.

    Raises:
      ValueError: as :func:`log_ratio`; or a number is out of range.

    Examples:
      >>> learner = learners.hedge(2, 2, epsilon=1.0)
      >>> pair = audit.Pair(jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.zeros((2, 2)))
      >>> found = audit.revealed(learner, pair, jax.random.key(0), [0.0, 2.0], particles=1)
      >>> found.exact, float(found.above[1])
      (True, 0.0)
    """
    _check.inside(0.0, 1.0, confidence=confidence)
    return curve(
        Filters(learner, pair, particles), pair, key, np.asarray(epsilons, np.float64),
        _check.size(2, runs=runs), confidence,
    )  # fmt: skip


def curve(
    filters: Filters, pair: Pair, key: Array, epsilons: np.ndarray, runs: int, confidence: float
) -> Revealed:
    """As :func:`revealed`, with Filters."""
    learner = filters.one.learner
    nan = float("nan")
    if is_enumerable(learner):
        p, q = enumerated(filters, pair, key, 1)
        above = exact_curve(p, q, epsilons)
        with np.errstate(divide="ignore"):
            logs = np.log(p[p + q > 0.0]), np.log(q[p + q > 0.0])
        pure = float(np.abs(logs[1] - logs[0]).max())
        return Revealed(epsilons, above, above, True, pure, (float(p.sum()), float(q.sum())))
    error = (1.0 - confidence) / 4.0  # for each bound and each direction
    keys = jr.split(key, 2)
    runs_kept = filters.kept(pair, keys[0], 2 * runs)
    below, above = [], []
    for sign in (1.0, -1.0):
        losses = privacy_losses(sign * runs_kept.log_ratio, epsilons) / 2.0
        above.append([min(2.0 * mean_interval(row, error)[1], 1.0) for row in losses])
        below.append([2.0 * mean_interval(row * runs_kept.known, error / 2.0)[0] for row in losses])
    # If the actions determine all draws, each ratio is the exact ratio of the actions.
    if not filters.one.bare or not np.all(runs_kept.known):
        filter_key, *both = jr.split(keys[1], 3)
        scores = [
            filters.scores(pair, filter_key, sequence)
            for sequence in filters.both(pair, both, runs)
        ]
        below = []
        for ours, theirs in (scores, [-side for side in scores[::-1]]):
            hits, misses = ((side > epsilons[:, None]).sum(1) for side in (ours, theirs))
            low, _ = clopper_pearson(hits, runs, error / 4.0)
            _, high = clopper_pearson(misses, runs, error / 4.0)
            below.append(np.maximum(low - np.exp(epsilons) * high, 0.0))
    return Revealed(epsilons, np.max(below, axis=0), np.max(above, axis=0), False, nan, (nan, nan))


def privacy_losses(log_ratios: np.ndarray, epsilons: np.ndarray):
    """(n, runs), at most 2; their mean over runs on a random sequence is at least delta."""
    other = scipy.special.expit(log_ratios)  # P' / (P + P')
    return 2.0 * np.maximum(1.0 - (1.0 + np.exp(epsilons))[:, None] * other, 0.0)


def is_enumerable(learner: Learner | BatchLearner) -> bool:
    arms = isinstance(learner.action_set, Arms) and not learner.privacy.reported
    return arms and learner.horizon * math.log(learner.action_set.count) <= math.log(MOST_HISTORIES)


def laws(filters: Filters, pair: Pair, histories: PyTree, key: Array, count: int):
    """P(a) and P'(a) of histories from ``count`` filters, each (count, histories)."""
    again = jax.tree.map(lambda leaf: np.concatenate([leaf] * count), histories)
    ratios = filters.ratios(pair, again, key)
    return [np.exp(log).reshape(count, -1) for log in ratios.log_chances]


def enumerated(filters: Filters, pair: Pair, key: Array, count: int):
    """P(a) and P'(a) of all histories, each the mean of ``count`` filters."""
    histories = all_histories(filters.one.learner)
    return [law.mean(axis=0) for law in laws(filters, pair, histories, key, count)]


def exact_curve(p: np.ndarray, q: np.ndarray, epsilons: np.ndarray):
    """delta of each epsilon for the laws of all histories, in the worse direction."""
    rates = np.exp(epsilons)[:, None]
    return np.maximum(*(np.maximum(x - rates * y, 0.0).sum(1) for x, y in ((p, q), (q, p))))


def all_histories(learner: Learner | BatchLearner):
    arms = range(learner.action_set.count)
    return np.array(list(itertools.product(arms, repeat=learner.horizon)), np.int32)


@in_float32
def worst_history(
    learner: Learner | BatchLearner,
    pair: Pair,
    key: Array,
    *,
    runs: int = 2**12,
    particles: int = 256,
    filters: int = 32,
    confidence: float = 0.95,
) -> WorstHistory:
    """The history with the largest likelihood ratio that is found, and its ratio.

    Its |ln P'/P| bounds the pure epsilon of the actions from below, even if the history is too rare
    to occur in runs. The search is over all histories if they are few, and otherwise over those
    that occur in runs. Filters with other keys then estimate its ratio, since the largest of many
    estimates is biased upwards.

    Args:
      learner: a Learner or BatchLearner with discrete actions.
      pair: a :class:`Pair` of sequences.
      key: PRNG key.
      runs: on each sequence, if histories are not enumerated.
      particles: of each filter.
      filters: how many filters estimate the ratio; at least 2.
      confidence: of the interval, which is Student's for the mean over filters.

    Returns:
      A WorstHistory.

    Raises:
      ValueError: as :func:`log_ratio`; or a number is out of range.

    Examples:
      >>> learner = learners.hedge(2, 2, epsilon=1.0)
      >>> pair = audit.Pair(jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.zeros((2, 2)))
      >>> found = audit.worst_history(learner, pair, jax.random.key(0), particles=1)
      >>> found.history[1].item(), found.log_ratio > 0.0  # arm 0, which is bad on the losses alone
      (0, True)
    """
    _check.inside(0.0, 1.0, confidence=confidence)
    runs, filters = _check.size(1, runs=runs), _check.size(2, filters=filters)
    return worst(Filters(learner, pair, particles), pair, key, runs, filters, confidence)


def worst(
    filters: Filters, pair: Pair, key: Array, runs: int, count: int, confidence: float
) -> WorstHistory:
    """As :func:`worst_history`, with Filters."""
    play_key, *keys = jr.split(key, 4)
    if is_enumerable(filters.one.learner):
        histories = all_histories(filters.one.learner)
    else:
        played = filters.both(pair, jr.split(play_key), runs)
        histories, _, _ = _distinct(jax.tree.map(lambda *sides: np.concatenate(sides), *played))
    # The best of a first round are estimated again, to avoid selecting by chance.
    ratio = error = np.zeros(1)
    for look_key, looks, most in zip(keys, (1, LOOKS, count), (count, 1, 1), strict=True):
        p, q = laws(filters, pair, histories, look_key, looks)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(q.mean(axis=0)) - np.log(p.mean(axis=0))
            parts = q / q.mean(axis=0) - p / p.mean(axis=0)
        error = np.nan_to_num(parts.std(axis=0, ddof=min(looks - 1, 1)) / math.sqrt(looks))
        sizes = np.where(np.isnan(ratio), -np.inf, np.abs(ratio) - error)
        best = np.argsort(-sizes)[:most]
        histories = jax.tree.map(lambda leaf, best=best: leaf[best], histories)
    spread = error[0] * scipy.special.stdtrit(count - 1, 0.5 + confidence / 2.0)
    low, high = ratio[0] - spread, ratio[0] + spread
    ends = sorted((abs(low), abs(high)))
    interval = (0.0 if low < 0.0 < high else float(ends[0]), float(ends[1]))
    history = jax.tree.map(lambda leaf: leaf[0], histories)
    return WorstHistory(history, float(ratio[0]), interval, confidence)
