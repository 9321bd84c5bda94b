"""Environments made from environments: arms instead of points, counts, or tracking regret."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpjax import domains
from dpjax.core import Arms, Array, Environment, Numbers, Outcome, PyTree, _arrays, _check
from dpjax.domains.action_sets import fits, words
from dpjax.feedback import full, values
from dpjax.maths.places import at


def arms_as_points(environment: Environment, arms: int) -> Environment:
    """Let arms play an environment over points of the simplex: arm i is the i-th unit vector.

    Examples:
      >>> points = environments.linear_losses(domains.simplex(2), "iid")
      >>> points.action_set.dim, combinators.arms_as_points(points, 2).action_set
      (2, Arms(count=2))
    """
    arms = _check.arms(arms)
    if not fits(domains.simplex(arms), environment.action_set):
        raise ValueError(f"environment must have a domain that holds the simplex of {arms} arms")

    def step(state, key, arm):
        return environment.step(state, key, jax.nn.one_hot(arm, arms, dtype=jnp.float32))

    return environment._replace(step=step, action_set=Arms(arms), batch=None)


def on_grid(environment: Environment, points: Numbers) -> Environment:
    """Let arms play an environment over points of a domain: each arm is a point of a grid.

    It is for nonconvex losses in one or two dimensions. With m points on each axis of [-1, 1]^d and
    a G-Lipschitz loss, the best point of the grid loses at most G sqrt(d) / m more a round than the
    best of all points. But N is m^d.

    Args:
      environment: over points, such as ``convex_losses`` with your own function, which need not be
        convex here. Losses outside the range of a learner are clipped; see :func:`rescale_losses`.
      points: (N, d) points of its domain, N at least 2.

    Returns:
      An Environment over N arms, whose losses (N,) are those at all points. Regret is against the
      best point of the grid.

    Raises:
      ValueError: the environment is not over points, or points have another shape, are not finite
        or are outside of the domain.

    Examples:
      >>> segment, rows = domains.cube(1), jnp.array([[0.5], [-0.5]])
      >>> wells = environments.convex_losses(segment, lambda p, x: jnp.minimum(
      ...     jnp.sum((x - p) ** 2), 0.25), parameters=rows)
      >>> grid = combinators.on_grid(wells, np.linspace(-1, 1, 5)[:, None])
      >>> state, outcome = grid.step(grid.init(jax.random.key(0)), jax.random.key(1), 4)
      >>> grid.action_set, outcome.loss.tolist()  # a well at 0.5
      (Arms(count=5), [0.25, 0.25, 0.25, 0.0, 0.25])
    """
    domain = environment.action_set
    if not isinstance(domain, domains.Domain):
        raise ValueError("environment must be over points of a domain")
    points = _arrays.entries(-1e30, 1e30, points=points)
    with jax.ensure_compile_time_eval():
        grid = jnp.asarray(points, jnp.float32)
    if grid.ndim != 2 or len(grid) < 2 or grid.shape[1] != domain.dim:
        raise ValueError(
            f"points must have shape (N, {domain.dim}) with N at least 2, got {grid.shape}"
        )
    with jax.core.eval_context():
        away = np.asarray(jnp.max(jnp.abs(jax.vmap(domain.project)(grid) - grid), axis=1))
    if away.max() > 1e-4:
        raise ValueError(f"points: row {away.argmax() + 1} is outside of the domain")

    def step(state, key, arm):
        state, outcome = environment.step(state, key, grid[arm])
        losses = values(outcome.loss, grid)
        return state, Outcome(losses, losses[arm] - losses)

    def regret(state, tally):
        return jnp.max(tally)

    arms = Arms(len(grid))
    return environment._replace(step=step, regret=regret, action_set=arms, batch=None)


class SwitchesState(NamedTuple):
    """The state of :func:`count_switches`."""

    environment: PyTree
    previous: Array  # () int32, the arm of the last round, -1 before the first


class SwitchesTally(NamedTuple):
    """The tally of one round of :func:`count_switches`.

    Examples:
      >>> environment = combinators.count_switches(environments.table([[0.5, 0.0]] * 2))
      >>> state, outcome = environment.step(environment.init(None), None, jnp.int32(1))
      >>> print(outcome.tally.tally, outcome.tally.switches)
      [-0.5  0. ] 0.0
    """

    tally: PyTree  # that of the environment
    switches: Array  # () float32, 1 if the arm differs from that of the round before


def count_switches(environment: Environment) -> Environment:
    """Count how often the arm changes, in the tally of an environment over arms.

    ``Result.tally.switches`` is the number of switches. The game is the same, draw for draw.

    Examples:
      >>> environment = combinators.count_switches(environments.table([[0.5, 0.0]] * 3))
      >>> state = environment.init(None)
      >>> for arm in (1, 1, 0):
      ...     state, outcome = environment.step(state, None, jnp.int32(arm))
      ...     print(float(outcome.tally.switches))
      0.0
      0.0
      1.0
    """

    def init(key):
        return SwitchesState(environment.init(key), jnp.full((), -1, jnp.int32))

    def step(state, key, arm):
        inner, outcome = environment.step(state.environment, key, arm)
        switched = (state.previous >= 0) & (state.previous != arm)
        tally = SwitchesTally(outcome.tally, switched.astype(jnp.float32))
        return SwitchesState(inner, arm), outcome._replace(tally=tally)

    def regret(state, tally):
        return environment.regret(state.environment, tally.tally)

    return environment._replace(init=init, step=step, regret=regret, batch=None)


class TrackingState(NamedTuple):
    """The state of :func:`tracking`.

    Examples:
      >>> environment = combinators.tracking(environments.table([[1.0, 0.0], [0.0, 1.0]]), shifts=1)
      >>> state, outcome = environment.step(environment.init(None), None, 0)
      >>> print(state.behind)  # of arms 0 and 1, with no shift and with at most one
      [[ 0. -1.]
       [ 0. -1.]]
    """

    environment: PyTree
    # (S + 1, K): least loss of a sequence of arms with at most j shifts that ends in arm i, minus
    # the learner's loss
    behind: Array


def tracking(environment: Environment, shifts: int) -> Environment:
    """Measure tracking regret: against the best sequence of arms with at most S shifts.

    The best sequence has the least loss among those that change their arm at most S times. It is
    found by dynamic programming. Let D (S + 1, K) be the least losses of sequences with at most j
    shifts that end in arm i, minus the suffered loss. After a round with losses l and action a

        D[j, i] <- min(D[j, i], min_k D[j - 1, k]) + l_i - l_a,

    and regret is -min_i D[S, i]. So numbers stay as small as the regret. A round takes S K
    operations and needs the losses of all arms, even if the learner sees one. With S = 0 it is the
    regret against the best fixed arm.

    This is also the shifting oracle of Tossou & Dimitrakakis 2017, for losses instead of gains. The
    comparator suffers the revealed losses, not those that other actions would have caused.

    Args:
      environment: over arms.
      shifts: S, at least 0. With S at least the number of rounds minus 1, the comparator plays each
        round's best arm.

    Returns:
      An Environment with the tally of the given one. The game is the same, draw for draw.

    Reference: Herbster & Warmuth, "Tracking the best expert", 1998, for this regret.

    Examples:
      >>> environment = combinators.tracking(environments.table([[1.0, 0.0], [0.0, 1.0]]), shifts=1)
      >>> state = environment.init(None)
      >>> for _ in range(2):
      ...     state, outcome = environment.step(state, None, 0)
      >>> float(environment.regret(state, outcome.tally))  # arm 1, then arm 0, would lose nothing
      1.0
    """
    shifts = _check.size(0, shifts=shifts)
    if not isinstance(environment.action_set, Arms):
        raise ValueError("environment must be over arms")
    arms = environment.action_set.count

    def init(key):
        return TrackingState(environment.init(key), jnp.zeros((shifts + 1, arms), jnp.float32))

    def step(state, key, arm):
        inner, outcome = environment.step(state.environment, key, arm)
        losses = full(outcome.loss, arm)
        least = jnp.min(state.behind[:-1], axis=1, keepdims=True)
        moved = jnp.minimum(state.behind[1:], least)
        behind = jnp.concatenate([state.behind[:1], moved]) + (losses - at(losses, arm))[None]
        return TrackingState(inner, behind), outcome

    def regret(state, tally):
        return -jnp.min(state.behind[-1])

    return environment._replace(init=init, step=step, regret=regret, batch=None)


class PlaysTally(NamedTuple):
    """The tally of one round of :func:`count_plays`.

    Examples:
      >>> environment = combinators.count_plays(environments.table([[0.5, 0.0], [1.0, 0.0]]))
      >>> state, outcome = environment.step(environment.init(None), None, 1)
      >>> print(outcome.tally.tally, outcome.tally.plays)
      [-0.5  0. ] [0. 1.]
    """

    tally: PyTree  # that of the environment
    plays: Array  # (K,) float32, 1 at the arm that was played


def count_plays(environment: Environment) -> Environment:
    """Count how often each arm is played, in the tally of an environment over arms.

    ``Result.tally.plays`` has these counts, (K,). The game is the same, draw for draw.

    Examples:
      >>> environment = combinators.count_plays(environments.table([[0.5, 0.0], [1.0, 0.0]]))
      >>> state, outcome = environment.step(environment.init(None), None, 1)
      >>> print(outcome.tally.plays)
      [0. 1.]
    """
    actions = environment.action_set
    if not isinstance(actions, Arms):
        raise ValueError(f"environment must be over arms to count plays; it has {words(actions)}")

    def counted(tally, arm):
        return PlaysTally(tally, (jnp.arange(actions.count) == arm).astype(jnp.float32))

    def step(state, key, arm):
        state, outcome = environment.step(state, key, arm)
        return state, outcome._replace(tally=counted(outcome.tally, arm))

    def batch(state, key, arm, rounds, feedback):
        state, total, tally = environment.batch(state, key, arm, rounds, feedback)
        return state, total, counted(tally, arm)

    def regret(state, tally):
        return environment.regret(state, tally.tally)

    by_batches = None if environment.batch is None else batch
    return environment._replace(step=step, regret=regret, batch=by_batches)
