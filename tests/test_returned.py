"""What ``init`` and ``step`` return is checked before a game is compiled, in one sentence."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import random as jr

import dpjax
from dpjax import Study, audit, combinators, domains, environments, feedback, learners
from dpjax.core import Arms, Batch, BatchLearner, Environment, Learner, Outcome, Privacy, _check
from tests import entries

ZERO, LOSSES, KEY, THREE = jnp.int32(0), jnp.ones(3), jr.key(0), Arms(3)
RIGHT = (), Outcome(LOSSES, LOSSES)
PAIR = audit.Pair(jnp.zeros((8, 3)), jnp.zeros((8, 3)).at[0].set(1.0))
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


USES = entries("wrong_returns.txt")


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
    "replay": lambda learner, _: audit.replay(learner, PAIR, KEY),
}


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize(("game", "sentence"), USES, ids=[game for game, _ in USES])
def test_what_returns_something_else_is_refused(game, sentence, play):
    """An action that does not exist is refused where its round is known, so not under jit."""
    if play == "replay" and not (sentence.startswith("learner: ") and game.endswith("COINS")):
        pytest.skip("an audit has no environment")
    if play not in ("jit", "replay") or "its action in round" not in sentence:
        named = "mine, own, horizon = 8: " if play == "study" else ""
        told = said(PLAYS[play], *eval(game))
        if "its action in round" in sentence:
            assert sentence.removesuffix("...") in told
        elif sentence.endswith("..."):
            assert told.startswith(named + sentence[:-3])
        else:
            assert told == named + sentence


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


def test_a_factory_that_took_a_function_is_checked():
    """A learner of the package on a domain of one's own may return points of another shape."""
    ball = domains.ball(2)
    wrong = ball.regularizer._replace(argmin=lambda *_: jnp.zeros(3))
    learner = learners.ftrl(8, ball._replace(regularizer=wrong), epsilon=1.0)
    assert _check.is_plain(learners.exp3(8, 3)) and not _check.is_plain(learner)
    with pytest.raises(TypeError, match=r"init must return a point of shape \(2,\)"):
        PLAYS["simulate"](learner, environments.linear_losses(ball, "iid"))
