"""Learners and environments with different actions are refused, in one sentence."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import combinators, domains, environments, learners, simulate, sweep
from dpjax.combinators import as_learner
from dpjax.core import Arms, Policies
from dpjax.domains.action_sets import fits
from dpjax.game.rounds import one_round, start
from tests.environments.test_environments import EXAMPLES
from tests.test_conformance import ARGUMENTS, ARMS, every_learner, make

SETS = {
    "arms": Arms(3),
    "policies": Policies(3),
    "ball": domains.ball(3),
    "larger ball": domains.ball(3, 1.001),
    "cube": domains.cube(3),
    "simplex": domains.simplex(3),
    "larger simplex": domains.simplex(4),
    "l1 ball": domains.l1_ball(3, 0.9),
}
INSIDE = {
    ("simplex", "ball"), ("simplex", "cube"), ("l1 ball", "ball"), ("l1 ball", "cube"),
    ("ball", "cube"),
}  # fmt: skip
INSIDE |= {(name, "larger ball") for name in ("simplex", "l1 ball", "ball")}


def test_one_domain_within_another():
    """By support functions, also inside a traced game."""
    found = {(x, y) for x in SETS for y in SETS if x != y and fits(SETS[x], SETS[y])}
    # A few directions do not tell the larger ball from the cube around the ball.
    assert found - {("larger ball", "cube")} == INSIDE and fits(domains.ball(3), domains.ball(3))
    assert jax.jit(lambda x: jnp.where(fits(domains.ball(3), domains.cube(3)), x, 0))(1)


def test_vectors_that_a_traced_game_is_given_are_compared_with_its_domain():
    """The corners of a square are inside it, but not inside the ball."""
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], np.float32)

    def game(domain):
        return lambda epsilon: (
            learners.exp2(4, corners, epsilon=epsilon), environments.linear_losses(domain, "iid")
        )  # fmt: skip

    found = sweep(game(domains.cube(2)), np.ones(1), 2, jr.key(0), progress=False)
    assert np.isfinite(found.regret).all()
    with pytest.raises(ValueError, match="its domain reaches beyond the environment's domain"):
        sweep(game(domains.ball(2)), np.ones(1), 2, jr.key(0), progress=False)


TRIANGLE = [(0, 1), (1, 2), (0, 2)]
MADE = {
    "box": lambda: domains.box(np.zeros(3), np.ones(3)),
    "capped simplex": lambda: domains.capped_simplex(3, 2),
    "spanning trees": lambda: domains.spanning_trees(TRIANGLE, 3),
    "paths": lambda: domains.paths(TRIANGLE, 0, 2),
    "shrunk": lambda: domains.shrunk(domains.cube(3), 0.5),
}


@pytest.mark.parametrize("name", MADE)
def test_sets_that_a_traced_game_makes_are_compared(name):
    """They are within a large ball, and not within a small one."""
    large, small = domains.ball(3, 9.0), domains.ball(3, 0.1)
    found = []

    def game(x):
        found.extend(fits(MADE[name](), other) for other in (large, small))
        return x

    jax.eval_shape(game, 1.0)
    assert found == [True, False]


def test_combinators_between_arms_and_points():
    simplex = domains.simplex(3)
    sampled = combinators.sample_arms(learners.ftrl(8, simplex, epsilon=1.0))
    by_arms = combinators.arms_as_points(environments.linear_losses(simplex, "iid"), 3)
    assert sampled.action_set == by_arms.action_set == Arms(3)


# Arguments for every environment of the package. Dimensions and rows match, and so do arms, except
# for the pairs of experts in consensus.
ENVIRONMENTS = {
    **{name: lambda domain, name=name: next(iter(EXAMPLES[name].values()))() for name in EXAMPLES},
    "advice": lambda domain: environments.advice(np.full(ARMS, 0.5), ARMS),
    "bernoulli, pseudo": lambda domain: environments.bernoulli(np.full(ARMS, 0.5), regret="pseudo"),
    "classification": lambda domain: environments.classification([[0.0], [1.0]], [0, 1]),
    "consensus": lambda domain: environments.consensus(8),
    "contextual_table": lambda domain: environments.contextual_table(
        np.broadcast_to(np.eye(ARMS), (8, ARMS, ARMS)), np.zeros((8, ARMS))
    ),
    "convex_losses": lambda domain: environments.convex_losses(
        domain, lambda p, x: jnp.sum(p * x) ** 2, parameters=np.eye(ARMS, dtype=np.float32)
    ),
    "dueling": lambda domain: environments.dueling(np.full(ARMS, 0.5)),
    "fixed_actions": lambda domain: environments.fixed_actions(np.eye(ARMS), np.zeros(ARMS)),
    "gap_arms": lambda domain: environments.gap_arms(ARMS),
    "glm_arms": lambda domain: environments.glm_arms(ARMS),
    "linear_losses": lambda domain: environments.linear_losses(domain, "iid"),
    "logged": lambda domain: environments.logged(np.arange(9) % ARMS, np.full(9, 0.5)),
    "logged, contexts": lambda domain: environments.logged(
        np.arange(9) % ARMS, np.full(9, 0.5), contexts=np.ones((9, 1))
    ),
    "spiked_covariance": lambda domain: environments.spiked_covariance(2),
}


def test_every_environment_is_here():
    assert {name.split(",")[0] for name in ENVIRONMENTS} == set(environments.__all__)


def first_round(learner, environment, key):
    """The learner's state and action before and after a round."""
    keys, before = start(learner, environment, key)
    after, _ = one_round(learner, environment, keys, jnp.int32(1), before)
    return before[:2], after[:2]


@every_learner
def test_every_pair_plays_or_is_refused_in_one_sentence(name):
    """For every environment of the package: no error inside JAX, and no accidental match."""
    learner = make(name, 8)
    kinds = set()
    for environment in (make_one(ARGUMENTS["domain"]) for make_one in ENVIRONMENTS.values()):
        kind = type(learner.action_set), type(environment.action_set)
        other = kind[0] is Arms and environment.action_set != Arms(ARMS)
        # One environment's points are matrices (2, 2), and those of the others are in R^3.
        other |= getattr(environment.action_set, "dim", ARMS) != ARMS
        if kind[0] is not kind[1] or other:
            with pytest.raises(ValueError, match="learner: plays .*; environment: has "):
                simulate(learner, environment, jr.key(0))
            continue
        kinds.add(kind)
        play = partial(first_round, as_learner(learner), environment)
        try:
            before, after = jax.eval_shape(play, jr.key(0))
        except TypeError as error:
            assert str(error).endswith("but this environment's losses are functions")
        else:
            assert jax.tree.leaves(before) == jax.tree.leaves(after)
    assert len(kinds) == 1
