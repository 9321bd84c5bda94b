"""Shared by learners that stop and recommend an arm: phases of pulls, and the game's end.

The losses of each arm are a separate stream, cut into phases whose lengths do not depend on losses.
The sum of a phase is released when the phase is complete. So the k-th release of an arm is a fixed
random variable, independent of why the arm was played.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Array, Batch, BatchLearner, Number, Privacy, PyTree, _check
from dpjax.feedback import bandit
from dpjax.maths import exact_sums, transport
from dpjax.maths.exact_sums import ExactSum
from dpjax.maths.laws import smallest

# A batch is at most this share of the pulls of the two compared arms.
CHUNK = 0.125


class IdentificationReport(NamedTuple):
    stopped: Array  # () bool, False if the horizon came first
    stopping_time: Array  # () int32, rounds until the learner stopped; the horizon if it did not
    recommendation: Array  # () int32, an arm


class Phases(NamedTuple):
    """The pulls of each arm and its releases. n counts losses, k phases."""

    pulls: Array  # (K,) int32, N: rounds in which the arm was played
    waiting: Array  # (K,) int32, those of the incomplete phase
    losses: ExactSum  # (K,) their losses
    complete: Array  # (K,) int32, k: complete phases
    samples: Array  # (K,) int32, n: losses in the released sum
    released: ExactSum  # (K,) private sum of the losses

    @property
    def means(self):
        """Private mean losses, (K,) float32, which noise may move outside [0, 1]."""
        return exact_sums.mean(self.released, jnp.maximum(self.samples, 1))

    @property
    def rounds(self):
        """t, the rounds of complete phases, () float32."""
        return jnp.sum(self.pulls - self.waiting, dtype=jnp.int32).astype(jnp.float32)


class Grid(NamedTuple):
    """The phases of an arm's stream: one that begins after N pulls has ceil((r - 1) N) rounds."""

    ratio: float  # r, above 1
    forget: bool  # whether a release is the sum of its own phase only, or of all phases so far

    def length(self, pulls):
        """The rounds of a phase that begins after so many pulls, () or (K,) int32."""
        rounds = jnp.ceil((self.ratio - 1.0) * pulls.astype(jnp.float32))
        # A phase longer than any horizon never ends.
        return jnp.clip(rounds, 1.0, 2.0**30).astype(jnp.int32)

    def room(self, phases, arm):
        """The remaining rounds of the arm's phase, () int32."""
        waiting = phases.waiting[arm]
        return self.length(phases.pulls[arm] - waiting) - waiting

    def batch(self, phases, arm, pulls) -> Batch:
        """A batch of an eighth of these pulls, at most to the end of the arm's phase."""
        rounds = jnp.maximum(jnp.ceil(CHUNK * pulls.astype(jnp.float32)), 1.0).astype(jnp.int32)
        return Batch(arm, jnp.minimum(rounds, self.room(phases, arm)))


# The grid of learners without noise: phases grow by a tenth, and nothing is forgotten.
KEPT = Grid(1.1, forget=False)


class StoppingRule(NamedTuple):
    """A stopping rule that is evaluated whenever a phase is complete."""

    least: PyTree  # () int32, k_0: phases of each arm before its first evaluation
    verdict: Callable  # (key, phases) -> (whether to stop () bool, recommended arm () int32)


class IdentificationState(NamedTuple):
    phases: Phases
    memory: PyTree  # of the sampling rule
    batch: Batch  # the current batch
    played: Array  # () int32, rounds of complete batches
    report: IdentificationReport


def check_grid(ratio: float, forget: bool, kept_to: int = 0) -> Grid:
    """The grid from a learner's arguments.

    If nothing is forgotten, it raises if an arm may have more than 48 phases in ``kept_to`` rounds.
    """
    _check.inside(1.0, jnp.inf, ratio=ratio)
    _check.untraced("ratio and forget", (ratio, forget))
    pulls, phases = 0, 0
    while pulls < kept_to:
        pulls, phases = pulls + max(1, math.ceil((ratio - 1.0) * pulls)), phases + 1
    if not forget and phases > transport.MOST_DRAWS:
        raise ValueError(
            f"ratio: an arm may have {phases} phases, but at most {transport.MOST_DRAWS} can be "
            f"kept; pass a ratio above {ratio:g}, or forget=True"
        )
    return Grid(float(ratio), bool(forget))


def best_arm(key: Array, phases: Phases):
    """The arm with the smallest private mean, () int32. Ties are broken at random."""
    return smallest(key, jnp.where(phases.complete > 0, phases.means, jnp.inf))


def optimistic_arm(key: Array, phases: Phases, bounds: Callable):
    """The arm with the smallest bound (means, n, ln t) -> (K,) on its mean loss, () int32.

    Ties are broken at random, and arms without a mean come first.
    """
    samples = jnp.maximum(phases.samples, 1).astype(jnp.float32)
    log_t = jnp.log(jnp.maximum(phases.rounds, 1.0))
    least = bounds(phases.means, samples, log_t)
    return smallest(key, jnp.where(phases.complete > 0, least, -jnp.inf))


def laplace_bounds(epsilon: Number) -> Callable:
    """(means, n, ln t) -> mean_a - sqrt(ln t / (2 n_a)) - ln t / (epsilon n_a), (K,)."""

    def bounds(means, samples, log_t):
        return means - jnp.sqrt(log_t / (2.0 * samples)) - log_t / epsilon / samples

    return bounds


def all_pairs(least, passes: Callable) -> StoppingRule:
    """The rule that stops when the best arm passes a test against every other arm.

    Args:
      least: as in :class:`StoppingRule`.
      passes: (phases, best) -> (K,) bool. Its value for the best arm itself is ignored.
    """

    def verdict(key, phases):
        best = best_arm(key, phases)
        itself = jnp.arange(phases.pulls.shape[0]) == best
        return jnp.all(itself | passes(phases, best)), best

    return StoppingRule(least, verdict)


def without_noise(key: Array, losses: PyTree, count: PyTree) -> ExactSum:
    """The release of a learner without privacy: the exact sum of a phase."""
    del key, count
    return losses


def identification_learner(
    horizon: int,
    arms: int,
    *,
    grid: Grid,
    choose: Callable,
    rule: StoppingRule,
    privacy: Privacy,
    release: Callable = without_noise,
    memory: PyTree = (),
) -> BatchLearner:
    """A learner that plays until a rule stops it, and then plays its recommendation.

    All arms first complete the rule's minimum number of phases; the arm with the fewest complete
    ones goes first. Then ``choose`` decides after each batch, and the rule is evaluated whenever a
    phase is complete. Choices and rules depend only on releases and pull counts, so they cost no
    privacy. All rounds after the stop are one batch.

    Args:
      horizon: the round at which a run is censored.
      arms: K.
      grid: how the losses of an arm are cut into phases.
      release: (key, ExactSum (), count () int32) -> ExactSum (), the private sum of a phase.
      choose: (key, phases, memory) -> (the next Batch, which ends no later than its arm's phase,
        the new memory).
      memory: for the first choice.
      rule: the stopping rule.
      privacy: the declaration.
    """

    def init(key):
        none, zero = exact_sums.nothing((arms,)), jnp.zeros(arms, jnp.int32)
        first = smallest(key, jnp.zeros(arms))
        state = IdentificationState(
            phases=Phases(zero, zero, none, zero, zero, none),
            memory=memory,
            batch=Batch(first, jnp.ones((), jnp.int32)),
            played=jnp.zeros((), jnp.int32),
            report=IdentificationReport(jnp.zeros((), bool), jnp.int32(horizon), first),
        )
        return state, state.batch

    def gather(key, phases, batch, total):
        """The phases after a batch, and whether it has completed one."""
        arm, rounds = batch
        begun = phases.pulls[arm] - phases.waiting[arm]
        waiting = phases.waiting[arm] + rounds
        losses = exact_sums.add(jax.tree.map(lambda leaf: leaf[arm], phases.losses), total)
        complete = waiting >= grid.length(begun)
        released, samples = release(key, losses, waiting), waiting
        before, count = jax.tree.map(lambda leaf: leaf[arm], (phases.released, phases.samples))
        if not grid.forget:
            released, samples = exact_sums.add(released, before), samples + count
        phases = Phases(
            pulls=phases.pulls.at[arm].add(rounds),
            waiting=phases.waiting.at[arm].set(jnp.where(complete, 0, waiting)),
            losses=_put(phases.losses, arm, _where(complete, exact_sums.nothing(), losses)),
            complete=phases.complete.at[arm].add(complete.astype(jnp.int32)),
            samples=phases.samples.at[arm].set(jnp.where(complete, samples, count)),
            released=_put(phases.released, arm, _where(complete, released, before)),
        )
        return phases, complete

    def step(state, key, total):
        # One draw breaks all ties of a round, since they need not be independent.
        release_key, tie_key = jax.random.split(key)
        phases, complete = gather(release_key, state.phases, state.batch, total)
        played = state.played + state.batch.rounds
        stops, recommendation = rule.verdict(tie_key, phases)
        begin = jnp.any(phases.complete < rule.least)
        stopped = complete & ~begin & stops
        chosen, memory = choose(tie_key, phases, state.memory)
        behind = smallest(tie_key, phases.complete)
        batch = _where(begin, Batch(behind, grid.room(phases, behind)), chosen)
        rest = jnp.maximum(horizon - played, 1)
        batch = _where(stopped, Batch(recommendation, rest), batch)
        stopping_time = jnp.where(stopped, played, horizon)
        new = IdentificationState(
            phases=phases,
            memory=_where(begin, state.memory, memory),
            batch=batch,
            played=played,
            report=IdentificationReport(stopped, stopping_time, recommendation),
        )
        # If the batch after the stop ends at the horizon, it is passed to this step, and changes
        # nothing.
        state = _where(state.report.stopped, state, new)
        return state, state.batch

    declared = privacy._replace(reported=IdentificationReport._fields)
    return BatchLearner(
        init, step, bandit, Arms(arms), horizon, declared, lambda state: state.report
    )


def _where(condition, one, other):
    """One tree or another."""
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)


def _put(sums, arm, value) -> ExactSum:
    """The sums (K,) with a new one at ``arm``."""
    return jax.tree.map(lambda leaf, new: leaf.at[arm].set(new), sums, value)
