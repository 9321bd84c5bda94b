"""Empirical lower bounds on epsilon, from an observer who sees the actions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr
from tqdm import tqdm

from dpjax.audit._pairs import Pair, check_fits, check_neighbours
from dpjax.audit.counts import Bound, best_event, bound_from_counts, check_delta, counted
from dpjax.audit.limits import in_threads
from dpjax.audit.reports import reported
from dpjax.combinators import _returned, as_learner
from dpjax.core import Array, BatchLearner, Learner, PyTree, _check
from dpjax.engine.compile import compile_trials
from dpjax.engine.settings import FIRST_LEVEL, LOWEST_LEVEL, in_float32
from dpjax.game.rounds import step_arguments

# How many runs of each sequence train the statistic, and how many choose the event.
TRAINING, SELECTION = 2**14, 2**16
THRESHOLDS = 512
# At least this many runs are played to check that actions are in the action set.
TRIED = 16
# How many runs are computed in parallel.
CHUNK = 2**13


@in_float32
def play(learner: Learner | BatchLearner, losses: PyTree, key: Array) -> Any:
    """The actions of rounds 1 .. T on a sequence of losses: a pytree with a leading axis T.

    If the learner releases fields of its report (``Privacy.reported``), the result is the pair of
    the actions and the list of these fields.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=0.0)
      >>> audit.play(learner, jnp.array([0.75, 0.25]), jax.random.key(0)).tolist()
      [0.0, 0.75]
    """
    learner = as_learner(learner)

    def one_round(carry, inputs):
        t, loss = inputs
        arguments, _ = step_arguments(learner, key, t, carry, loss)
        return learner.step(*arguments), carry[1]

    # No action depends on the last loss, but the report does.
    shown = bool(learner.privacy.reported)
    steps = jax.tree.leaves(losses)[0].shape[0] - (not shown)
    inputs = jnp.arange(1, steps + 1), jax.tree.map(lambda leaf: leaf[:steps], losses)
    (end, last), actions = lax.scan(one_round, learner.init(jr.fold_in(key, 0)), inputs)
    if shown:
        return actions, reported(learner, end)
    return jax.tree.map(
        lambda leaf, end: jnp.concatenate([leaf, jnp.asarray(end)[None]]), actions, last
    )


def check_actions(learner: Learner | BatchLearner, pairs: Pair, key: Array) -> None:
    """Check that a learner plays actions of its action set, on the first sequence of each pair.

    As in ``simulate``, learners of tested factories are not played, and traced ones not checked.

    Args:
      learner: a Learner or BatchLearner.
      pairs: a Pair with leading axes (count, T).
      key: PRNG key.

    Raises:
      ValueError: an action is not in the action set, or the losses do not fit the learner.
    """
    actions = learner.action_set
    if actions is None or _check.is_tested(learner) or _check.is_traced((pairs, key)):
        return
    one = as_learner(learner)
    check_fits(one, jax.tree.map(lambda leaf: leaf[0], pairs.losses))

    @partial(jax.jit, compiler_options=LOWEST_LEVEL)
    @jax.vmap
    def checked(losses, key):
        played = play(one, losses, key)
        played = played[0] if one.privacy.reported else played
        return jax.vmap(partial(_returned.within, actions))(played, losses)

    count = len(jax.tree.leaves(pairs.losses)[0])
    rows = np.arange(max(count, TRIED)) % count
    losses = jax.tree.map(lambda leaf: leaf[rows], pairs.losses)
    checks = checked(losses, jr.split(key, len(rows)))
    if not _check.is_traced(checks):
        _returned.check_within(actions, *checks)


@in_float32
def most_visible(
    learner: Learner | BatchLearner, pairs: Pair, key: Array, *, runs: int = 1024
) -> int:
    """The index of the pair whose two sequences differ most in the mean actions.

    It maximizes the sum of squared z-scores over all observed values of a run. Use it to choose the
    pair to attack, with a key other than the attack's.

    Args:
      learner: a Learner or BatchLearner.
      pairs: a :class:`dpjax.audit.Pair` with leading axes (count, T).
      key: PRNG key.
      runs: runs of each sequence.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0)
      >>> losses = jnp.array([[0.1, 0.0], [9.0, 0.0]])
      >>> pairs = audit.Pair(losses, jnp.zeros((2, 2)))
      >>> audit.most_visible(learner, pairs, jax.random.key(0), runs=64)
      1
    """
    learner = as_learner(learner)
    check_fits(learner, jax.tree.map(lambda leaf: leaf[0], pairs.losses))
    keys = jr.split(key, runs)

    def moments(losses):
        columns = jax.vmap(lambda key: _columns(play(learner, losses, key)))(keys)
        return jnp.mean(columns, axis=0), jnp.var(columns, axis=0)

    @jax.jit
    @jax.vmap
    def distance(pair):
        (ours, our_variance), (theirs, their_variance) = map(moments, pair)
        variance = our_variance + their_variance
        return jnp.sum(jnp.where(variance > 0.0, jnp.square(ours - theirs) / variance, 0.0))

    return int(np.argmax(distance(pairs)))


def _columns(actions):
    """All observed values of a run as one vector, with an arm as its index and its square."""
    columns = []
    for leaf in _seen(actions):
        columns.append(leaf.astype(jnp.float32).reshape(-1))
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            columns.append(jnp.square(columns[-1]))
    return jnp.concatenate(columns)


def _seen(actions) -> list:
    """The arrays of a run's actions, without the keys of randomized policies."""
    leaves = jax.tree.leaves(actions)
    return [leaf for leaf in leaves if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]


def _vector(actions, sizes):
    """A run's actions as one vector, with integers as one-hot vectors.

    ``sizes`` has the number of values of each integer array, and 0 for real numbers.
    """
    columns = []
    for leaf, size in zip(_seen(actions), sizes, strict=True):
        values = jax.nn.one_hot(leaf, size) if size else leaf.astype(jnp.float32)
        columns.append(values.reshape(-1))
    return jnp.concatenate(columns)


def _hinges(x):
    """Piecewise linear features of x (d,) in standard units, (4 d,)."""
    return jnp.concatenate([x, *(jnp.maximum(x - knot, 0.0) for knot in (-1.0, 0.0, 1.0))])


@jax.jit
def _logistic(x, y):
    """Weights of a ridge logistic regression, by Newton's method; x (n, d), y (n,) in {0, 1}."""
    n, d = x.shape

    def newton(_, w):
        p = jax.nn.sigmoid(x @ w)
        gradient = x.T @ (p - y) / n + 1e-4 * w
        curvature = (x * (p * (1.0 - p))[:, None]).T @ x / n + 1e-4 * jnp.eye(d)
        return w - jnp.linalg.solve(curvature, gradient)

    return lax.fori_loop(0, 25, newton, jnp.zeros(d))


@in_float32
def epsilon(
    learner: Learner | BatchLearner,
    pair: Pair,
    key: Array,
    *,
    runs: int = 2**20,
    delta: float = 0.0,
    confidence: float = 0.95,
    statistic: Callable | None = None,
    progress: bool = True,
) -> Bound:
    """An empirical lower bound on the epsilon of a learner's actions on one pair of sequences.

    The runs on both sequences have three parts. The first part trains a statistic, a logistic
    regression on the actions. The second chooses the event (the statistic is at least a threshold,
    or is below it), and the sequence on which it is likelier. The bound comes from the third part,
    by Clopper-Pearson bounds on its counts.

    The bound is for this pair, this statistic and this event, so a small bound shows nothing. Much
    of the privacy loss of a tree of height h occurs only in events of probability 2^-h, which need
    many more than 2^h runs. Draws are float32: their tails end at 22 scales of Laplace noise and at
    6.3 standard deviations of Gaussian noise.

    Args:
      learner: a Learner or BatchLearner.
      pair: a :class:`dpjax.audit.Pair` with the learner's horizon.
      key: PRNG key.
      runs: counted runs of each sequence.
      delta: the delta at which epsilon is bounded.
      confidence: the confidence of the bound.
      statistic: (result of :func:`play`) -> (), large if the run looks like one on ``pair.losses``;
        None to train one.
      progress: whether to show a progress bar.

    Returns:
      A Bound.

    Raises:
      ValueError: the sequences are not neighbours, are not finite or do not fit the learner; a
        number is out of range; or delta is not 0 although the learner declares pure privacy.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0)
      >>> pair = audit.Pair(jnp.array([1.0, 0.0]), jnp.zeros(2))
      >>> found = audit.epsilon(
      ...     learner, pair, jax.random.key(0), runs=10_000, progress=False,
      ...     statistic=lambda actions: actions[1])
      >>> 0.5 < found.epsilon < 1.0  # it spends 1
      True
    """
    learner = as_learner(learner)
    check_neighbours(pair, learner.privacy.rounds_per_user)
    check_fits(learner, pair.losses)
    # Both sequences get the same dtypes, and so share one compiled program.
    dtypes = jax.tree.map(jnp.result_type, *pair)
    pair = type(pair)(*[jax.tree.map(jnp.asarray, side, dtypes) for side in pair])
    check_delta(delta)
    if delta > 0.0 and float(learner.privacy.delta) == 0.0:
        raise ValueError("delta must be 0: the learner declares pure differential privacy")
    _check.inside(0.0, 1.0, confidence=confidence)
    train_key, select_key, count_key = jr.split(key, 3)

    runs = _check.size(1, runs=runs)
    scored = trained(learner, pair, train_key, CHUNK) if statistic is None else statistic
    # It is compiled once for both sequences.
    scores = compile_trials(
        lambda losses, key: scored(play(learner, losses, key)),
        (pair.losses, jr.split(count_key, CHUNK)), (False, True),
    )  # fmt: skip

    def sides(part_key, runs, progress):
        return [
            _collect(scores, side, jr.fold_in(part_key, i), runs, CHUNK, progress)
            for i, side in enumerate(pair)
        ]

    event = choose_event(sides(select_key, SELECTION, False), delta, confidence, runs)
    return counted("statistic", event, sides(count_key, runs, progress), delta, confidence)


def choose_event(sides: Sequence[np.ndarray], delta: float, confidence: float, runs: int) -> tuple:
    """(threshold, above, swapped): the event, and whether it is likelier on the second sequence."""
    ours, theirs = sides
    both = np.concatenate([ours, theirs])
    quantiles = np.quantile(both, np.linspace(0.0, 1.0, THRESHOLDS))
    # Rounding spreads an atom of the statistic over a few float32 numbers. These can distinguish
    # the sequences although an ideal mechanism would not. So no threshold goes through an atom.
    margin = 1e-3 * both.std()
    levels = np.unique(np.concatenate([quantiles - margin, quantiles + margin]))
    scale = runs / len(ours)

    def bound(hits, misses):
        bounds = bound_from_counts(
            hits * scale, misses * scale, runs, delta=delta, confidence=confidence
        )
        # The estimate for a rare event is too optimistic.
        return np.where(hits >= 50, bounds, -1.0)

    return best_event(ours, theirs, levels, bound)


def trained(learner: Learner | BatchLearner, pair: Pair, key: Array, chunk: int):
    """Train a statistic: the log-odds of a logistic regression on the observed values."""

    @partial(jax.jit, compiler_options=FIRST_LEVEL)
    def run(losses, keys):
        return jax.vmap(lambda key: play(learner, losses, key))(keys)

    sides = [
        _collect(run, side, jr.fold_in(key, i), TRAINING, chunk) for i, side in enumerate(pair)
    ]
    both = zip(*map(_seen, sides), strict=True)
    sizes = [
        1 + max(int(leaf.max()) for leaf in leaves)
        if jnp.issubdtype(leaves[0].dtype, jnp.integer)
        else 0
        for leaves in both
    ]
    x = np.concatenate([jax.vmap(lambda run: _vector(run, sizes))(side) for side in sides])
    mean, spread = x.mean(axis=0), x.std(axis=0)
    # A constant column carries no information, and gets weight 0.
    spread = np.where(spread > 1e-6 * (1.0 + np.abs(mean)), spread, np.inf).astype(np.float32)

    def inputs(actions):
        units = (_vector(actions, sizes) - mean) / spread
        return jnp.append(units if any(sizes) else _hinges(units), 1.0)

    rows = jnp.concatenate([jax.vmap(inputs)(side) for side in sides])
    weights = _logistic(rows, jnp.repeat(jnp.array([1.0, 0.0], jnp.float32), TRAINING))
    return lambda actions: jnp.sum(inputs(actions) * weights)


def _collect(program, losses, key, runs, chunk, progress=False):
    """program(losses, keys) of blocks of runs, joined in NumPy, with one thread per core."""

    def block(i):
        keys = jr.split(jr.fold_in(key, i), chunk)
        return jax.tree.map(np.asarray, program(losses, keys))

    count = -(-runs // chunk)
    blocks = in_threads(block, range(count))
    parts = [*tqdm(blocks, total=count, unit="chunk", disable=not progress)]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:runs], *parts)
