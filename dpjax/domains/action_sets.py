"""Checks that an environment has the actions that a learner plays. Every game is checked."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Arms, BatchLearner, Environment, Learner, Pairs, Policies, PyTree
from dpjax.domains import Domain, support_function

# Two convex sets are compared in this many directions and their opposites.
_DIRECTIONS = 8


def check_fit(learner: Learner | BatchLearner, environment: Environment) -> None:
    """Check that the environment has all actions of the learner.

    The learner may play on a part of the environment's domain. Regret still compares with the best
    point of the whole domain.

    Raises:
      ValueError: the action sets differ; the message names both.
      TypeError: one of the two action sets is not valid.
    """
    sides = {"learner": learner.action_set, "environment": environment.action_set}
    for side, actions in sides.items():
        if not isinstance(actions, Arms | Policies | Domain):
            raise TypeError(
                f"{side}: action_set must be Arms, Policies or a Domain, got {actions!r}"
            )
    played, present = sides.values()
    if fits(played, present):
        return
    if isinstance(played, Domain) and isinstance(present, Domain) and played.dim == present.dim:
        raise ValueError("learner: its domain reaches beyond the environment's domain")
    raise ValueError(
        f"learner: plays {words(played)}; environment: has {words(present)}"
        + _way_out(played, present)
    )


def example_loss(actions):
    """Losses of one round for actions of this set, all 0."""
    if isinstance(actions, Arms):
        return jnp.zeros(actions.count, jnp.float32)
    if isinstance(actions, Policies):
        arms = actions.arms or 1
        return jnp.zeros((arms, actions.dim), jnp.float32), jnp.zeros(arms, jnp.float32)
    return jnp.zeros(actions.dim, jnp.float32)


def fits(played: PyTree, present: PyTree) -> bool:
    """Whether every action of the first set is in the second.

    For two domains this compares their support functions in a few fixed directions.
    """
    if not (isinstance(played, Domain) and isinstance(present, Domain)):
        return type(played) is type(present) and played == present
    same = played.minimizer is present.minimizer
    return same or (played.dim == present.dim and _within(played, present))


def _within(inner, outer) -> bool:
    drawn = np.random.default_rng(0).normal(size=(_DIRECTIONS, inner.dim))
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    with jax.core.eval_context():  # The game may be traced, but its sets are not.
        directions = jnp.asarray(np.concatenate([unit, -unit]), jnp.float32)
        reach = [
            np.asarray(jax.vmap(lambda g, domain=domain: support_function(domain, g))(directions))
            for domain in (inner, outer)
        ]
    return bool((reach[0] <= reach[1] + 1e-4 * outer.diameter).all())


def words(actions) -> str:
    """An action set in words."""
    if isinstance(actions, Pairs):
        return f"pairs of {actions.players} arms"
    if isinstance(actions, Arms):
        return f"{actions.count} arms"
    if isinstance(actions, Policies) and actions.arms:
        return f"policies over the advice of {actions.dim} experts on {actions.arms} arms"
    of = "points" if isinstance(actions, Domain) else "policies over features"
    return f"{of} in R^{actions.dim}"


def _way_out(played, present) -> str:
    """A hint at the combinator that makes the two action sets fit; empty if there is none."""
    if isinstance(present, Pairs) and played == Arms(present.players):
        return " (combinators.sparring makes a learner of pairs of two learners)"
    if isinstance(played, Domain) and present == Arms(played.dim):
        return " (combinators.sample_arms draws an arm from a point of the simplex)"
    if isinstance(present, Domain) and played == Arms(present.dim):
        return " (combinators.arms_as_points plays arms as the corners of the simplex)"
    return ""
