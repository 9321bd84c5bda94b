"""What ``init`` and ``step`` return is checked before a game is compiled, in one sentence."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import random as jr

import dpjax
from dpjax import (
    Batch,
    BatchLearner,
    Environment,
    Learner,
    Outcome,
    Privacy,
    Study,
    audit,
    combinators,
    domains,
    environments,
    feedback,
    learners,
)
from dpjax.core import Arms, Policies, _check

ZERO, LOSSES, KEY, THREE = jnp.int32(0), jnp.ones(3), jr.key(0), Arms(3)
RIGHT = (), Outcome(LOSSES, LOSSES)
COINS = environments.bernoulli([0.1, 0.5, 0.9], regret="pseudo")


def own(init=((), ZERO), step=((), ZERO), kind=Learner, actions=THREE, see=feedback.bandit):
    """A learner; a function or its constant result."""
    init, step = (f if callable(f) else lambda *_, f=f: f for f in (init, step))
    return kind(init, step, see, actions, 8, Privacy())


def environment(step=RIGHT, regret=lambda state, tally: tally[0], actions=THREE, **rest):
    """An environment whose step returns a constant."""
    return Environment(lambda key: (), lambda *_: step, regret, actions, **rest)


class Constant(NamedTuple):
    """A policy that plays one arm."""

    arm: jax.Array

    def __call__(self, features):
        return self.arm


def branches(state, key, loss):
    return state, ZERO + 1 if loss > 0.5 else ZERO


def masks(state, key, loss):
    return state[state > loss], ZERO


def cycle(state, key, loss):
    return state % 3 + 1, state % 3 + 1


OF_LEARNERS = {
    "three": (own(step=((), ZERO, ZERO)), "learner: step must return a pair (state, action), but "
              "it returned a tuple of 3"),
    "no pair": (own(init=LOSSES), "learner: init must return a pair (state, action), but it "
                "returned an array of shape (3,)"),
    "nothing": (own(step=lambda *_: None), "learner: step must return a pair (state, action), but "
                "it returned nothing"),
    "a real arm": (own(init=((), jnp.float32(0))), "learner: init must return an arm, which is a "
                   "whole number, but it returned a float32"),
    "a vector": (own(step=((), LOSSES)), "learner: step must return an arm, which is a whole "
                 "number, but it returned an array of shape (3,)"),
    "a word": (own(init=({"name": "mine"}, ZERO)), "learner: init must return arrays and numbers, "
               "but state['name'] is 'mine'"),
    "a shape": (own((LOSSES, ZERO), (LOSSES[:2], ZERO)), "learner: step must keep the shape and "
                "dtype of the state, but state changed from float32 of shape (3,) to float32 of "
                "shape (2,)"),
    "a dtype": (own(([ZERO], ZERO), ([jnp.float32(1)], ZERO)), "learner: step must keep the shape "
                "and dtype of the state, but state[0] changed from int32 of shape () to float32 of "
                "shape ()"),
    "an action": (own(step=((), jnp.uint8(0))), "learner: step must keep the shape and dtype of "
                  "the action, but action changed from int32 of shape () to uint8 of shape ()"),
    "a structure": (own(((ZERO,), ZERO), ((), ZERO)), "learner: step must keep the structure of "
                    "the state, but it changed from PyTreeDef((*,)) to PyTreeDef(())"),
    "an if": (own(step=branches), "learner: step must not branch on a traced value, as line "),
    "a mask": (own((LOSSES, ZERO), masks), "learner: step must not branch on a traced value, as "),
    "a batch": (own(kind=BatchLearner), "learner: init must return a pair (state, Batch), but it "
                "returned an int32 for the Batch"),
    "three of a batch": (own(((), ZERO, ZERO), kind=BatchLearner), "learner: init must return a "
                         "pair (state, Batch), but it returned a tuple of 3"),
    "a real batch": (own(((), Batch(ZERO, 2.0)), kind=BatchLearner), "learner: init must return a "
                     "whole number of rounds, but it returned 2.0"),
    "a dtype of a batch": (own((1, Batch(ZERO, 2)), (1.5, Batch(ZERO, 2)), BatchLearner),
                           "learner: step must keep the shape and dtype of the state, but state "),
}  # fmt: skip

OF_ENVIRONMENTS = {
    "no pair": (environment(Outcome(LOSSES, LOSSES)), "environment: step must return a pair "
                "(state, Outcome), but it returned an Outcome"),
    "no outcome": (environment(((), LOSSES)), "environment: step must return a pair (state, "
                   "Outcome), but it returned an array of shape (3,) for the Outcome"),
    "a state": (environment((1, Outcome(LOSSES, LOSSES))), "environment: step must keep the "
                "structure of the state, but it changed from PyTreeDef(()) to PyTreeDef(*)"),
    "two losses": (environment(((), Outcome(LOSSES[:2], LOSSES))), "environment: step must return "
                   "losses of shape (3,), but their shapes are (2,)"),
    "a regret": (environment(regret=lambda state, tally: tally), "environment: regret must return "
                 "one number, but it returned an array of shape (3,)"),
    "no regret": (environment(regret=lambda state, tally: None), "environment: regret must return "
                  "one number, but it returned None"),
}  # fmt: skip

RANGE = "learner: its action in round {} is not in its action set: "
OF_ACTIONS = {
    "arm 7": (own(((), ZERO + 7)), COINS, 1, "it is arm 7, but the arms are numbered from 0 to 2"),
    "from 1": (own((ZERO + 1, ZERO + 1), cycle), COINS, 3, "it is arm 3, but the arms are "),
    "below 0": (own(step=((), ZERO - 1)), COINS, 2, "it is arm -1, but the arms are numbered "),
    "a batch": (own(((), Batch(ZERO, 4)), ((), Batch(ZERO + 5, 4)), BatchLearner), COINS, 5,
                "it is arm 5, but the arms are numbered from 0 to 2"),
    "a policy": (own(((), Constant(ZERO)), ((), Constant(ZERO + 4)), Learner, Policies(2),
                     feedback.contextual),
                 environments.fixed_actions(jnp.eye(2), jnp.zeros(2)), 2, "it is arm 4, but the "
                 "arms are numbered from 0 to 1"),
    "a point": (own(((), jnp.ones(2)), ((), jnp.ones(2)), Learner, domains.ball(2), feedback.full),
                environment(((), Outcome(LOSSES[:2], LOSSES)), actions=domains.ball(2)), 1,
                "the point [1.0, 1.0] is outside of its domain; project it on the domain"),
}  # fmt: skip


def in_a_study(learner, environment):
    made = Study({"mine": lambda horizon: learner}, {"own": environment}, {"horizon": 8}, trials=2)
    made.run(progress=False)


def said(play, *arguments):
    with pytest.raises((TypeError, ValueError)) as error:
        play(*arguments)
    return str(error.value)


PLAYS = {
    "simulate": lambda *game: dpjax.simulate(*game, KEY),
    "jit": lambda *game: jax.jit(partial(dpjax.simulate, *game))(KEY),
    "trajectory": lambda *game: dpjax.trajectory(*game, KEY, record=lambda played: played.t),
    "study": in_a_study,
}


GAMES = {name: (learner, COINS, sentence) for name, (learner, sentence) in OF_LEARNERS.items()}
GAMES |= {f"{name}, of an environment": (own(), given, sentence)
          for name, (given, sentence) in OF_ENVIRONMENTS.items()}  # fmt: skip


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("name", GAMES)
def test_what_returns_something_else_is_refused(name, play):
    *game, sentence = GAMES[name]
    named = "mine, own, horizon = 8: " if play == "study" else ""
    assert said(PLAYS[play], *game).startswith(named + sentence)


@pytest.mark.parametrize("play", [play for play in PLAYS if play != "jit"])
@pytest.mark.parametrize("name", OF_ACTIONS)
def test_an_action_that_does_not_exist_is_refused(name, play):
    learner, given, t, sentence = OF_ACTIONS[name]
    assert RANGE.format(t) + sentence in said(PLAYS[play], learner, given)


def test_a_batch_has_rounds_and_that_of_an_environment_is_a_triple():
    learner = own(((), Batch(ZERO, 0)), ((), Batch(ZERO, 0)), BatchLearner)
    sentence = "learner: a batch must have at least 1 round, got 0"
    assert said(PLAYS["simulate"], learner, COINS) == sentence
    assert said(dpjax.simulate_batches, learner, COINS, KEY) == sentence
    learner = own(((), Batch(ZERO, 4)), ((), Batch(ZERO, 4)), BatchLearner)
    given = environment(batch=lambda *_: ((), LOSSES))
    assert said(dpjax.simulate_batches, learner, given, KEY) == (
        "environment: batch must return a triple (state, total, tally), but it returned a tuple "
        "of 2"
    )


@pytest.mark.parametrize("name", ["three", "a dtype", "an if", "a batch"])
def test_an_audit_names_the_fault_of_the_learner(name):
    learner, sentence = OF_LEARNERS[name]
    losses = jnp.zeros((8, 3))
    pair = audit.Pair(losses, losses.at[0].set(1.0))
    assert said(audit.replay, learner, pair, KEY).startswith(sentence)


def test_numbers_of_python_and_other_integers_are_accepted():
    """JAX gives a number of Python the dtype that it has after a round."""
    learner = own((0, 1), (ZERO.astype(jnp.float32), jnp.uint8(1)))
    with jax.numpy_dtype_promotion("standard"):
        assert PLAYS["simulate"](learner, COINS).regret.shape == (8,)


def test_each_program_of_own_learners_is_checked_once(monkeypatch):
    played, within = [], combinators._returned.within
    counting = lambda *arguments: played.append(arguments) or within(*arguments)  # noqa: E731
    monkeypatch.setattr(combinators._returned, "within", counting)
    learner = own()
    made = Study({"mine": lambda horizon: learner}, {"own": COINS}, {"horizon": 8}, trials=2)
    for _ in range(2):
        made._plan(made.programs[0])
    assert len(played) == 1


def test_learners_of_the_package_are_not_checked_again():
    tested = learners.exp3(8, 3)
    for learner, known in ((tested, True), (own(), False), (tested._replace(step=cycle), False)):
        assert _check.is_tested(learner) == known
        assert _check.is_tested(combinators.minibatch(learner, 32, tau=4)) == known
