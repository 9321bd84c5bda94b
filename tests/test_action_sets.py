"""Learners and environments with different actions are refused, in one sentence."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import combinators, domains, environments, learners, simulate, simulate_batches, sweep
from dpjax.combinators import as_learner
from dpjax.core import Arms, Policies
from dpjax.domains.action_sets import fits
from dpjax.game.rounds import one_round, start
from tests.test_conformance import ARGUMENTS, ARMS, every_learner, make

BALL = domains.ball(ARMS)


def refused(learner, environment, message):
    """By rounds, by batches and in a sweep."""
    with pytest.raises(ValueError, match=message):
        simulate(learner, environment, jr.key(0))
    with pytest.raises(ValueError, match=message):
        sweep(lambda _: (learner, environment), np.ones(1), 2, jr.key(0), progress=False)


MISFITS = {
    "4 arms against 3": (
        lambda: learners.exp3(32, 4),
        lambda: environments.bernoulli([0.1, 0.5, 0.9]),
        "learner: plays 4 arms; environment: has 3 arms",
    ),
    "points against arms": (
        lambda: learners.ftrl(32, domains.ball(3), epsilon=1.0),
        lambda: environments.bernoulli([0.1, 0.5, 0.9]),
        "learner: plays points in R\\^3; environment: has 3 arms",
    ),
    "arms against points": (
        lambda: learners.exp3(32, 3),
        lambda: environments.linear_losses(domains.simplex(3), "iid"),
        "plays 3 arms; environment: has points in R\\^3 .combinators.arms_as_points",
    ),
    "two arms": (
        lambda: learners.exp3(32, 2),
        lambda: environments.deterministic(4),
        "plays 2 arms; environment: has 4 arms",
    ),
    "a table of 5 columns": (
        lambda: learners.hedge(32, 4, epsilon=1.0),
        lambda: environments.table(np.zeros((32, 5))),
        "plays 4 arms; environment: has 5 arms",
    ),
    "horizon and arms swapped": (
        lambda: learners.exp3(4, 32),
        lambda: environments.bernoulli(np.full(4, 0.5)),
        "plays 32 arms; environment: has 4 arms",
    ),
    "another dimension": (
        lambda: learners.ftrl(32, domains.ball(4), epsilon=1.0),
        lambda: environments.linear_losses(domains.ball(3), "iid"),
        "plays points in R\\^4; environment: has points in R\\^3",
    ),
    "a larger domain": (
        lambda: learners.ftrl(32, domains.ball(3, 2.0), epsilon=1.0),
        lambda: environments.linear_losses(domains.ball(3), "iid"),
        "learner: its domain reaches beyond the environment's domain",
    ),
    "vectors beyond the domain": (
        lambda: learners.exp2(32, np.array([[1.0, 1.0], [0.0, 0.5]]), epsilon=1.0),
        lambda: environments.linear_losses(domains.ball(2), "iid"),
        "learner: its domain reaches beyond the environment's domain",
    ),
    "policies of another dimension": (
        lambda: learners.linucb(32, 3, epsilon=1.0, delta=0.1),
        lambda: environments.gap_arms(4),
        "plays policies over features in R\\^3; environment: has policies over features in R\\^4",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_pairs_that_do_not_fit_are_refused(name):
    learner, environment, message = MISFITS[name]
    refused(learner(), environment(), message)


def test_six_arms_against_three_by_batches():
    learner = learners.successive_elimination(1000, 6, epsilon=1.0)
    environment = environments.bernoulli([0.1, 0.5, 0.9], regret="pseudo")
    with pytest.raises(ValueError, match="plays 6 arms; environment: has 3 arms"):
        simulate_batches(learner, environment, jr.key(0))


def test_what_says_nothing_of_its_actions_is_refused():
    learner = learners.exp3(32, 3)
    environment = environments.bernoulli([0.1, 0.5, 0.9])
    for pair, side in (
        ((learner._replace(action_set=None), environment), "learner"),
        ((learner, environment._replace(action_set=3)), "environment"),
    ):
        with pytest.raises(TypeError, match=f"{side}: action_set must be Arms, Policies or a Dom"):
            simulate(*pair, jr.key(0))


def test_one_domain_within_another():
    """By support functions, also if two domains are built separately."""
    assert fits(domains.ball(3), domains.ball(3))
    assert fits(domains.ball(3), domains.cube(3))
    assert not fits(domains.cube(3), domains.ball(3))
    assert fits(domains.simplex(3), domains.ball(3))
    assert fits(domains.lp_ball(3, 1.5), domains.ball(3))
    assert not fits(domains.ball(3), domains.lp_ball(3, 1.5))
    assert not fits(domains.ball(3, 1.001), domains.ball(3))
    assert not fits(domains.simplex(3), domains.simplex(4))
    assert not fits(Arms(3), domains.simplex(3))
    assert not fits(Arms(3), Policies(3))
    # Also inside a traced game.
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
    "coverage": lambda: domains.base_polytope(3, domains.coverage([[1, 1], [1, 0], [0, 1]])),
    "forests": lambda: domains.forests(TRIANGLE, 3),
    "paths": lambda: domains.paths(TRIANGLE, 0, 2),
    "permutahedron": lambda: domains.permutahedron([0.0, 0.5, 1.0]),
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
    assert sampled.action_set == Arms(3)
    by_arms = combinators.arms_as_points(environments.linear_losses(simplex, "iid"), 3)
    assert by_arms.action_set == Arms(3)
    with pytest.raises(ValueError, match="learner must play points of a simplex"):
        combinators.sample_arms(learners.ftrl(8, BALL, epsilon=1.0))
    with pytest.raises(ValueError, match="learner must play points of a simplex"):
        combinators.sample_arms(learners.exp3(8, 3))
    with pytest.raises(ValueError, match="environment must have a domain that holds the simplex"):
        combinators.arms_as_points(environments.linear_losses(simplex, "iid"), 4)
    with pytest.raises(ValueError, match="environment must have a domain that holds the simplex"):
        combinators.arms_as_points(environments.bernoulli([0.1, 0.5, 0.9]), 3)


# Arguments for every environment of the package. Dimensions and rows match, and so do arms, except
# for the pairs of experts in consensus.
ENVIRONMENTS = {
    "advice": lambda domain: environments.advice(np.full(ARMS, 0.5), ARMS),
    "bernoulli": lambda domain: environments.bernoulli(np.full(ARMS, 0.5)),
    "bernoulli, pseudo": lambda domain: environments.bernoulli(np.full(ARMS, 0.5), regret="pseudo"),
    "classification": lambda domain: environments.classification([[0.0], [1.0]], [0, 1]),
    "consensus": lambda domain: environments.consensus(8),
    "contextual_table": lambda domain: environments.contextual_table(
        np.broadcast_to(np.eye(ARMS), (8, ARMS, ARMS)), np.zeros((8, ARMS))
    ),
    "convex_losses": lambda domain: environments.convex_losses(
        domain, lambda p, x: jnp.sum(p * x) ** 2, parameters=np.eye(ARMS, dtype=np.float32)
    ),
    "deterministic": lambda domain: environments.deterministic(ARMS),
    "dueling": lambda domain: environments.dueling(np.full(ARMS, 0.5)),
    "fixed_actions": lambda domain: environments.fixed_actions(np.eye(ARMS), np.zeros(ARMS)),
    "from_means": lambda domain: environments.from_means(lambda t: jnp.full(ARMS, 0.5)),
    "fully_oblivious": lambda domain: environments.fully_oblivious(ARMS),
    "gap_arms": lambda domain: environments.gap_arms(ARMS),
    "glm_arms": lambda domain: environments.glm_arms(ARMS),
    "gaussian": lambda domain: environments.gaussian(np.full(ARMS, 0.5), deviation=0.1),
    "linear_losses": lambda domain: environments.linear_losses(domain, "iid"),
    "memory": lambda domain: environments.memory(np.full(ARMS, 0.5), rounds=1),
    "oblivious": lambda domain: environments.oblivious(ARMS),
    "heavy_tailed": lambda domain: environments.heavy_tailed(np.full(ARMS, 0.5)),
    "piecewise": lambda domain: environments.piecewise(np.full((2, ARMS), 0.5), np.array([4, 8])),
    "spiked_covariance": lambda domain: environments.spiked_covariance(2),
    "switching_cost": lambda domain: environments.switching_cost(8, ARMS),
    "table": lambda domain: environments.table(np.zeros((8, ARMS))),
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
