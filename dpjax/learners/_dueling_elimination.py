"""Elimination of arms by private counts of lost duels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import noise, privacy
from dpjax.core import Array, BatchLearner, Compare, Number, Pairs
from dpjax.learners.parts.arm_sums import check_failure, one_release
from dpjax.learners.parts.elimination import EliminationReport, Stage, by_stages
from dpjax.maths import exact_sums
from dpjax.maths.exact_sums import ExactSum


def as_float(count: Number):
    return jnp.asarray(count, jnp.float32)


class Duels(NamedTuple):
    lost: ExactSum  # lost duels in this phase, of each arm (K,) or of row players by pair (K^2,)
    scores: Array  # (K,) mean losses against the other active arms in the previous phase


def exponent(phase: Number, active: Number, failure: Number, exploration: Number = 1.0):
    """x = alpha ln(5 s e^2 / beta) for s active arms.

    For alpha = 1, the sum of 3 s e^-x over all phases is below beta.
    """
    return exploration * jnp.log(5.0 * active * jnp.square(phase) / failure)


def radius(rounds: Number, x: Array, scale: Number):
    """w = sqrt(x / (2n)) + h x / n, for a mean of n bits with Lap(h) on their sum.

    The error of the mean exceeds w with probability at most 3 e^-x.
    """
    return jnp.sqrt(x / (2.0 * rounds)) + scale * x / rounds


def least_rounds(width: Number, x: Array, scale: Number):
    """The n, not rounded up, at which :func:`radius` is ``width``."""
    root = jnp.sqrt(0.5) + jnp.sqrt(0.5 + 4.0 * scale * width)
    return x * jnp.square(root / (2.0 * width))


def duels_of_a_pair(
    phase: Number, active: Number, x: Array, scale: Number, compare: str = "scores"
):
    """m, the number of duels of each pair of s active arms in phase e = 1, 2, ..., not rounded up.

    Arms with P_bi - 1/2 >= D / 2, D = 2^-e, are eliminated after the phase. If P_bi - 1/2 = D / 2,
    the scores of i and b differ by (D / 2) s / (s - 1) under the linear link, and w may be up to a
    quarter of this. The share of duels that i loses to b is 1/2 + D / 2, and w for pairs may be up
    to D / 4.
    """
    gap = 0.5 * jnp.exp2(-phase)
    if compare == "pairs":
        return least_rounds(0.5 * gap, x, scale)
    others = jnp.maximum(active - 1.0, 1.0)
    return least_rounds(0.25 * gap * active / others, x, scale) / others


def dueling_elimination(
    horizon: int,
    arms: int,
    *,
    epsilon: Number,
    failure: Number | None = None,
    exploration: Number = 1.0,
    compare: Compare = "scores",
) -> BatchLearner:
    """Dueling elimination: eliminate arms by private counts of the duels that they lost.

    A phase is a round robin: in phase e = 1, 2, ... each pair of the s active arms has m duels, and
    each arm has n = (s - 1) m. With D = 2^-e and x = alpha ln(5 s e^2 / beta), m is the smallest
    number with

        w = sqrt(x / (2 n)) + 2 x / (epsilon n) <= (D / 8) s / (s - 1).

    Then the number of duels that each arm lost is released with noise Lap(2 / epsilon). An arm's
    score is this count over n. The arm is eliminated if its score exceeds the smallest by more than
    2 w. The next phase begins with new counts. Pairs meet in random order. If the remaining rounds
    are too few for a phase, they are divided equally among the pairs, and no arm is eliminated. A
    single remaining arm plays against itself.

    Args:
      horizon: T, rounds.
      arms: K, at least 2.
      epsilon: privacy parameter; inf adds no noise.
      failure: beta in (0, 1), the probability that some score has an error above w; default 1 / T
        (1/2 if T is 1).
      exploration: alpha, positive. Below 1 the probability of failure may exceed beta.
      compare: "scores", as above, or "pairs". With "pairs" the count of each pair is released, with
        Lap(1 / epsilon) and w = sqrt(x / (2 m)) + x / (epsilon m) <= D / 4. An arm is eliminated if
        it lost more than m (1/2 + w) of its duels against an active arm, unless this would
        eliminate all arms.

    Returns:
      A BatchLearner with bandit feedback on pairs (:class:`dpjax.core.Pairs`). The loss of a pair
      is the row player's loss of the duel, in [0, 1]. Its report contains the fields of an
      IdentificationReport, and also epochs and active.

    Privacy: epsilon-DP for replacement of one round. Released values: actions 1..T. A duel enters
    two counts of one phase, each by at most 1, or with "pairs" one count. The schedule follows from
    earlier releases, so the phases compose in parallel. For the local model use
    ``randomized_response(dueling_elimination(T, K, epsilon=inf), epsilon=epsilon)``. A flip changes
    the result for both players, so all gaps shrink by the same factor.

    Regret: for alpha = 1, with probability 1 - beta an arm with gap Delta = P_bi - 1/2 is
    eliminated by the end of phase max(1, ceil(log2(1 / (2 Delta)))). Under the linear link of
    :func:`dpjax.environments.dueling` this gives O(sum ln T / Delta + K ln T / epsilon)
    (:func:`dpjax.bounds.dueling_elimination`).
    Under strong stochastic transitivity the best arm b also stays active, and gaps in scores are at
    least 2 Delta / (s - 1). Without transitivity a Condorcet winner may have a larger score than
    other arms, and is then eliminated. The option "pairs" keeps it, and needs up to about K / 4
    times as many duels.

    Reference: in the style of Saha & Asi, "DP-Dueling: learning from preference feedback without
    compromising user privacy", 2024 (only the abstract was read), and of
    :func:`successive_elimination`. Schedule and constants are ours.

    Examples:
      >>> learner = learners.dueling_elimination(1000, 4, epsilon=0.5)
      >>> state, batch = learner.init(jax.random.key(0))
      >>> first, second = divmod(int(batch.action), 4)
      >>> first < second, learner.privacy.accountant
      (True, 'Laplace mechanism on counts of lost duels, in parallel')
    """
    failure = check_failure(failure, 1.0 / max(horizon, 2))
    by_pairs = compare == "pairs"
    scale = privacy.laplace_scale(1.0 if by_pairs else 2.0, epsilon)
    row, column = np.divmod(np.arange(arms * arms), arms)
    no_duels = exact_sums.nothing(((arms * arms if by_pairs else arms),))

    def players(pairs):
        """The active arms, (K,) bool, and their number."""
        alone = jnp.diagonal(pairs.reshape(arms, arms))
        return alone, jnp.sum(alone, dtype=jnp.int32)

    def begin(key, phase, pairs, scores, left):
        del key
        count = players(pairs)[1]
        meet = pairs & jnp.where(count > 1, row < column, row == column)
        number, s, e = jnp.sum(meet, dtype=jnp.int32), as_float(count), as_float(phase)
        x = exponent(e, s, failure, exploration)
        wanted = jnp.ceil(duels_of_a_pair(e, s, x, scale, compare))
        cut = (count == 1) | (wanted > (left // number).astype(jnp.float32))
        duels = jnp.where(cut, -(-left // number), jnp.minimum(wanted, horizon).astype(jnp.int32))
        kept = Duels(no_duels, scores)
        return Stage(jnp.where(meet, duels, 0), meet, jnp.zeros_like(left), cut, kept)

    def record(key, state, total, duels):
        del key
        lost, pair = state.stage.kept.lost, state.arm
        if by_pairs:
            lost = exact_sums.add_at(lost, pair, total)
        else:
            won = exact_sums.add(exact_sums.repeated(1.0, duels), exact_sums.negative(total))
            lost = exact_sums.add_at(lost, pair // arms, total)
            lost = exact_sums.add_at(lost, pair % arms, won)
        return state.stage.kept._replace(lost=lost)

    def evaluate(key, state):
        stage, (active, count) = state.stage, players(state.active)
        complete = ~jnp.any(stage.waiting) & ~stage.last
        counts = jax.tree.map(lambda leaf: jnp.where(complete, leaf, 0), stage.kept.lost)
        released = noise.laplace.total(key, counts, scale)
        duels = as_float(jnp.maximum(jnp.max(stage.pulls), 1))
        others = as_float(jnp.maximum(count - 1, 1))
        x = exponent(as_float(state.number), as_float(count), failure, exploration)
        if by_pairs:
            upper = exact_sums.mean(released, duels).reshape(arms, arms)
            lost = jnp.where((row < column).reshape(arms, arms), upper, 1.0 - upper.T)
            meet = active[:, None] & active[None, :] & (row != column).reshape(arms, arms)
            scores = jnp.sum(jnp.where(meet, lost, 0.0), axis=1) / others
            worst = jnp.max(jnp.where(meet, lost, 0.0), axis=1)
            stays = worst - 0.5 <= radius(duels, x, scale)
            stays = stays | ~jnp.any(stays & active)  # in a cycle no arm is eliminated
        else:
            scores = exact_sums.mean(released, others * duels)
            best = jnp.min(jnp.where(active, scores, jnp.inf))
            stays = scores - best <= 2.0 * radius(others * duels, x, scale)
        return scores, stays[row] & stays[column]

    def report(state):
        active, count = players(state.active)
        best = jnp.argmin(jnp.where(active, state.stage.kept.scores, jnp.inf)).astype(jnp.int32)
        ended = jnp.where(count == 1, horizon - state.left, horizon)
        return EliminationReport(state.number - 1, count, count == 1, ended, best)

    declared = one_release(epsilon, "Laplace mechanism on counts of lost duels, in parallel")
    declared = declared._replace(reported=EliminationReport._fields)
    none = jnp.full(arms, jnp.inf)  # scores before the first phase
    pairs = arms * arms
    learner = by_stages(horizon, pairs, begin, record, evaluate, none, declared, report)
    return learner._replace(action_set=Pairs(pairs))
