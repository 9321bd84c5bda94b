"""Complete audits of any learner: suitable pairs, a replay of each, an attack, and mutants.

The command line and comparisons use this module.
"""

import warnings
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.audit._epsilon import epsilon, most_visible
from dpjax.audit._mutants import mistakes, rewritten, with_scale_times
from dpjax.audit._pairs import Pair, changed_rounds, differing, pairs
from dpjax.audit._replay import Replay, replay
from dpjax.audit._revealed import attacked, filters_for, is_discrete
from dpjax.audit.causes import draws_unseen, with_least
from dpjax.audit.counts import Bound
from dpjax.audit.filters import Unknown
from dpjax.audit.reasons import CHECKS, Verdict, described
from dpjax.audit.spending import spent
from dpjax.core import Array, BatchLearner, Learner, Mechanism, Policies, Privacy, PyTree, _check
from dpjax.domains import Domain, box_losses
from dpjax.engine.settings import FIRST_LEVEL, LOWEST_LEVEL

# A calibration that is exact in real numbers may be off by the rounding of float32: by this part
# of epsilon, and of delta.
ROUNDING = 1e-4
# How many runs of each pair are replayed.
PATHS = 8
# Rounds up to which a replay takes longer to compile than to run.
_SHORT = 256
# Arms per round in contextual pairs.
ARMS = 3
# Longer games are attacked with a trained statistic only.
LONGEST = 64
# Every WILDth pair is out of range, FAR times as far from the centre. Pairs repeat their cases with
# periods that are powers of 2, so that each case occurs both in and out of range.
WILD, FAR = 5, 100.0


def pairs_for(
    learner: Learner | BatchLearner,
    count: int,
    key: Array,
    *,
    changed: int = 1,
    far: float = FAR,
) -> Pair:
    """Pairs of neighbouring losses that fit a learner, at the extremes of its declared range.

    In every fifth pair all losses are a hundred times as far from the centre of their range. So a
    learner that does not clip them spends a hundred times as much.

    Args:
      learner: a Learner or BatchLearner that plays arms, points or policies.
      count: number of pairs.
      key: PRNG key.
      changed: how many rounds differ; all rounds of a user if that is more. :func:`verdict` leaves
        out pairs with more differing rounds in one release than the learner declares.
      far: how many times as far from the centre the losses of every fifth pair are; 1 if all losses
        are to be in range.

    Returns:
      A Pair with leading axes (count, T), as :func:`pairs` or :func:`contextual_pairs` makes it.

    Examples:
      >>> key, learner = jax.random.key(0), learners.exp3(8, 2)
      >>> shapes = jax.eval_shape(lambda key: audit.pairs_for(learner, 3, key), key)
      >>> shapes.losses.shape  # pairs, rounds, arms
      (3, 8, 2)
    """
    declared, actions = learner.privacy, learner.action_set
    changed = max(declared.rounds_per_user, changed)
    if isinstance(actions, Policies):
        sequences = contextual_pairs(
            key, learner.horizon, actions.dim, count, unit=declared.unit,
            changed=changed, spacing=declared.spacing, arms=actions.arms,
        )  # fmt: skip
        (features, losses), (others, other_losses) = sequences
        losses, other_losses = _wild(losses, far), _wild(other_losses, far)
        if declared.unit != "entry":  # else features are public
            features, others = _wild(features, far), _wild(others, far)
        return Pair((features, losses), (others, other_losses))
    if isinstance(actions, Domain):
        losses = actions.losses
    else:
        losses = box_losses(actions.count, *declared.loss_range)
    # The last round differs only if the report, which depends on it, is released.
    seen = learner.horizon + bool(declared.reported)
    sequences = pairs(
        key, seen, losses, count, neighbours=declared.neighbours, unit=declared.unit,
        changed=changed, spacing=declared.spacing,
    )  # fmt: skip
    sequences = jax.tree.map(lambda leaf: leaf[:, : learner.horizon], sequences)
    if learner.feedback.kind in ("value", "values", "difference", "gradient", "whole"):
        # The vectors of the set need not reach the declared range of values or the declared length
        # of gradients. So they are made a hundred times as long, and the learner clips.
        middle = jnp.asarray(losses.centre, jnp.float32)[None, None]
        return jax.tree.map(lambda leaf: far * (leaf - middle), sequences)
    ours, theirs = (_wild(side, far, losses.centre) for side in sequences)
    if declared.neighbours == "zero_out":
        # A zeroed vector or entry stays 0.
        differs = sequences.losses != sequences.others
        if declared.unit != "entry":
            differs = jnp.any(differs, axis=-1, keepdims=True)
        theirs = jnp.where(differs, sequences.others, theirs)
    return Pair(ours, theirs)


def _wild(leaf, far, centre=0.0):
    """The leaf (count, T, ...), with every WILDth row ``far`` times as far from centre (...)."""
    centre = jnp.broadcast_to(jnp.asarray(centre, jnp.float32), leaf.shape)
    places = jnp.arange(len(leaf)).reshape(-1, *[1] * (leaf.ndim - 1)) % WILD == WILD - 1
    return jnp.where(places, centre + far * (leaf - centre), leaf)


def contextual_pairs(
    key: Array,
    horizon: int,
    dim: int,
    count: int,
    *,
    unit: str = "round",
    changed: int = 1,
    spacing: int | None = None,
    arms: int | None = None,
) -> Pair:
    """Pairs of sequences of unit features (3, dim) and losses -1 or 1, (3,), for three arms.

    In every second pair only the losses of the differing rounds change, in sign. In the other pairs
    the features change too.

    Args:
      key: PRNG key.
      horizon: T.
      dim: d, entries of the features of an arm.
      count: number of pairs.
      unit: as in Privacy. With "entry" features are public, and only losses change in all pairs.
      changed: how many rounds differ.
      spacing: distance between these rounds if it is fixed.
      arms: K, if features are to be the advice (K, dim) of experts; its columns add up to 1.

    Returns:
      A Pair with leading axes (count, T).

    Examples:
      >>> key = jax.random.key(0)
      >>> shapes = jax.eval_shape(lambda key: audit.contextual_pairs(key, 5, 2, count=3), key)
      >>> [leaf.shape for leaf in shapes.losses]  # features, losses
      [(3, 5, 3, 2), (3, 5, 3)]
    """
    keys = jr.split(key, 4)

    def draw(side_key):
        shape = count, horizon, ARMS if arms is None else arms
        features = jr.normal(side_key, (*shape, dim))
        features = features / jnp.linalg.norm(features, axis=-1, keepdims=True)
        if arms is not None:
            features = jax.nn.softmax(4.0 * features, axis=-2)
        return features, jr.rademacher(jr.fold_in(side_key, 1), shape, jnp.float32)

    (features, losses), (others, other_losses) = draw(keys[0]), draw(keys[1])
    signs = ((jnp.arange(count) % 2 == 0) | (unit == "entry"))[:, None, None]
    others = jnp.where(signs[..., None], features, others)
    other_losses = jnp.where(signs, -losses, other_losses)
    first = jnp.where(jnp.arange(count) % 4 < 2, 0, jr.randint(keys[2], (count,), 0, horizon - 1))
    user_keys, spread = jr.split(keys[3], count), jnp.arange(count) // 4 % 2 == 1
    of_pairs = jax.vmap(changed_rounds, (0, 0, 0, None, None, None))
    changed_at = of_pairs(user_keys, first, spread, horizon, changed, spacing)[..., None]
    return Pair(
        (features, losses),
        (
            jnp.where(changed_at[..., None], others, features),
            jnp.where(changed_at, other_losses, losses),
        ),
    )


def verdict(
    learner: Learner | BatchLearner,
    pairs: Pair,
    key: Array,
    *,
    mechanism: Mechanism | None = None,
    paths: int = PATHS,
) -> Verdict:
    """Replay a learner on every pair, and compare the spent epsilon with the declared one.

    A replay follows one path of actions. Under bandit feedback a path may not see the loss that
    differs, and then spends nothing. So several runs of each pair are replayed.

    To allow for rounding, epsilon and delta may be larger than declared by a factor of 1.0001.

    Args:
      learner: a Learner or BatchLearner.
      pairs: a Pair with leading axes (count, T), as :func:`pairs_for` makes it.
      key: PRNG key of the runs.
      mechanism: as for :func:`replay`.
      paths: how many runs of each pair are replayed, each with its own key.

    Returns:
      A Verdict.

    Examples:
      >>> private = dpjax.Privacy(epsilon=0.5)
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0, privacy=private)
      >>> pairs = audit.Pair(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
      >>> found = audit.verdict(learner, pairs, jax.random.key(0))
      >>> found.spent.tolist(), found.failed, found.status
      ([1.0], ('epsilon',), 1)
      >>> found.reasons[0]
      'a replay spent 1, but 0.5 is declared (2 times as much): the noise is too small'
    """
    replays = replayer(learner, mechanism=mechanism, paths=paths)
    judgement = replays(pairs, key)
    return described(judgement, causes(learner, pairs, key, judgement, replays), learner.privacy)


def replayer(
    learner: Learner | BatchLearner,
    *,
    mechanism: Mechanism | None = None,
    paths: int = PATHS,
    of_factor: Callable | None = None,
) -> Callable[..., Verdict]:
    """A function of pairs and a key, compiled once for all pairs of a shape.

    It is :func:`verdict`, but the reasons are those of the failed checks, not of their causes.

    Args:
      learner, mechanism, paths: as for :func:`verdict`.
      of_factor: a number, () float32 -> the learner that is replayed instead. The number is then a
        third argument of the function, which is compiled once for all numbers.
    """
    paths = _check.size(1, paths=paths)

    def one(pair, key, factor):
        replayed = learner if of_factor is None else of_factor(factor)
        return replay(replayed, pair, key, mechanism=mechanism)

    level = LOWEST_LEVEL if learner.horizon <= _SHORT else FIRST_LEVEL
    run = jax.jit(jax.vmap(one, (0, 0, None)), compiler_options=level)
    most = learner.privacy.rounds_per_release
    rounds = None if most is None else jax.jit(jax.vmap(partial(_rounds_in_a_release, learner)))

    def replayed(pairs, key, factor=1.0):
        count, factor = len(jax.tree.leaves(pairs.losses)[0]), np.float32(factor)
        results, covered = [], []
        for keys in jr.split(key, (paths, count)):
            results.append(jax.tree.map(np.asarray, run(pairs, keys, factor)))
            every = np.ones(count, bool) if rounds is None else rounds(pairs, keys) <= most
            covered.append(every)
        result = jax.tree.map(lambda *leaves: np.concatenate(leaves), *results)
        judgement = judged(result, learner.privacy, np.concatenate(covered))
        return judgement._replace(
            spent=judgement.spent.reshape(paths, count).max(axis=0), paths=paths
        )

    return replayed


def causes(
    learner: Learner | BatchLearner, pairs: Pair, key: Array, judgement: Verdict, replays: Callable
) -> list[str]:
    """The failures of a replay, by the name of their cause if it is known.

    Args:
      learner: the learner that was replayed.
      pairs: its pairs.
      key: PRNG key of the replays.
      judgement: their Verdict.
      replays: the :func:`replayer` that returned it.
    """
    failed, unseen = set(judgement.failed), {"noise_seen", "same_actions"}
    if not np.isfinite(float(learner.privacy.epsilon)):
        return list(judgement.failed)
    if failed & unseen:
        # The sums are incomplete, so the spent epsilon is infinite.
        rest = [
            check for check in judgement.failed if check not in ("epsilon", "rho", "no release")
        ]
        # Releases that no change reaches hide none.
        idle = "noise_seen" not in failed and not judgement.touched
        if idle or draws_unseen(learner, pairs):
            # A violation needs no noise that a replay does not see.
            return [check for check in rest if check not in unseen] or ["not replayed"]
        return rest
    if failed and failed <= {"epsilon", "rho"}:
        private = with_least(learner, pairs, key)
        if private is not None and not replayer(private)(pairs, key).failed:
            return ["more released"]
    if failed and failed != {"no release"}:
        near = _in_range(learner, pairs, key)
        if near is not None and not replays(near, key).failed:
            return [*judgement.failed, "clip"]
    return list(judgement.failed)


def _in_range(learner, pairs, key) -> Pair | None:
    """Other pairs in the declared range; None if the given pairs are in range too."""
    if learner.action_set is None:
        return None
    near = pairs_for(learner, len(jax.tree.leaves(pairs.losses)[0]), key, far=1.0)
    sizes = [max(np.abs(leaf).max() for leaf in jax.tree.leaves(side)) for side in (pairs, near)]
    return near if sizes[0] > sizes[1] else None


def judged(result: Replay, declared: Privacy, covered: np.ndarray | None = None) -> Verdict:
    """Compare replays with a declaration.

    Args:
      result: a Replay in NumPy with a leading axis of pairs.
      declared: a Privacy that is not traced.
      covered: (pairs,) bool, the pairs that the declaration covers; None for all.
    """
    covered = np.ones(len(result.pure), bool) if covered is None else covered
    delta, most = float(declared.delta), float(declared.epsilon) * (1.0 + ROUNDING)

    def spent_at(delta):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The verdict names the checks that failed.
            return np.where(covered, np.asarray(spent(result, delta), np.float64), 0.0)

    total = spent_at(delta)
    failed = [check for check in CHECKS if not getattr(result, check).all()]
    if np.isfinite(most):
        # NaN fails these comparisons. If epsilon is far below delta, rounding of rho changes
        # epsilon at delta by more than ROUNDING, but hardly changes delta at epsilon. So it is
        # enough that epsilon suffices for a slightly larger delta.
        if not (
            total.max() <= most or spent_at(delta + ROUNDING * delta * (1.0 - delta)).max() <= most
        ):
            failed.append("epsilon")
        rho = float(declared.rho)
        if not (np.isnan(rho) or result.rho[covered].max(initial=0.0) <= rho * (1.0 + ROUNDING)):
            failed.append("rho")
        if not result.touched[covered].any():
            failed.append("no release")
    return described(Verdict(total, int(result.touched.max()), tuple(failed)), failed, declared)


def _rounds_in_a_release(learner, pair, key):
    """The largest number of the pair's differing rounds on which one release depends, ().

    A release depends on a round if a pair that differs only in this round reaches it.
    """
    differs = differing(pair)

    def alone(index):
        at = differs & (jnp.cumsum(differs) == index)
        others = jax.tree.map(
            lambda ours, theirs: jnp.where(at.reshape(-1, *[1] * (ours.ndim - 1)), theirs, ours),
            *pair,
        )
        return replay(learner, Pair(pair.losses, others), key).reached

    reached = jax.vmap(alone)(1 + jnp.arange(learner.privacy.rounds_per_user))
    return jnp.max(jnp.sum(reached, axis=0))


def attack(
    learner: Learner | BatchLearner,
    pairs: Pair,
    key: Array,
    choice: Array,
    *,
    runs: int,
    particles: int = 32,
) -> Bound:
    """A lower bound on epsilon, at the declared delta, from the most visible of several pairs.

    If actions are discrete, all releases have known densities and there are at most 64 rounds, it
    is :func:`likelihood_attack` on the pair that reveals most, with the trained statistic as a
    rival. Filters are slow, so they get fewer runs: 2^22 / (particles T), at least 2^10. Otherwise
    it is :func:`epsilon`.

    Args:
      learner: a Learner or BatchLearner.
      pairs: a Pair with leading axes (count, T).
      key: PRNG key of the attack.
      choice: another PRNG key, with which :func:`most_visible` or :func:`most_revealing` chooses
        the pair.
      runs: counted runs of each sequence, for a trained statistic.
      particles: of each filter that estimates a likelihood ratio.

    Examples:
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0)
      >>> pairs = audit.Pair(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
      >>> keys = jax.random.split(jax.random.key(0))
      >>> audit.attack(learner, pairs, *keys, runs=10_000).epsilon < 1.0  # it spends 1
      True
    """
    delta = float(learner.privacy.delta)
    if is_discrete(learner) and learner.horizon <= LONGEST:
        try:
            filters = filters_for(learner, pairs, particles)
            count, most = len(jax.tree.leaves(pairs.losses)[0]), filters.affordable()
            place = filters.most_revealing(pairs, choice, min(max(most // (2 * count), 8), 64))
            pair = jax.tree.map(lambda leaf: leaf[place], pairs)
            return attacked(filters, pair, key, runs, delta, 0.95, rival=True, most=most)
        except Unknown:
            pass
    place = most_visible(learner, pairs, choice)
    pair = jax.tree.map(lambda leaf: leaf[place], pairs)
    return epsilon(learner, pair, key, runs=runs, delta=delta, progress=False)


def replayed_mutants(
    learner: Learner | BatchLearner, pairs: Pair, key: Array
) -> dict[str, Verdict]:
    """The :func:`verdict` of each of a learner's :func:`mutants`, by the name of the mistake.

    A mutant was not caught if ``failed`` is empty in its verdict. The causes of failures are not
    searched for.

    Examples:
      >>> declared = dpjax.Privacy(epsilon=1.0)
      >>> learner = audit.releases(mechanisms.tree(2), (), scale=1.0, privacy=declared)
      >>> pairs = audit.Pair(jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)))
      >>> found = audit.replayed_mutants(learner, pairs, jax.random.key(0))
      >>> sorted(found), found["noise halved"].failed
      (['noise halved', 'noise reused', 'scale from data'], ('epsilon',))
    """
    losses: PyTree = jax.tree.map(lambda leaf: leaf[0], pairs.losses)
    factors, others = mistakes(learner, losses)
    # One program for all mistakes that multiply the scale by a number.
    scaled = replayer(
        learner,
        of_factor=lambda factor: rewritten(learner, partial(with_scale_times, factor)),
    )
    verdicts = {mistake: scaled(pairs, key, factor) for mistake, factor in factors.items()}
    return verdicts | {
        mistake: replayer(rewritten(learner, rewrite))(pairs, key)
        for mistake, rewrite in others.items()
    }
