"""Derivatives of games: through trajectory in both modes, through simulate in forward mode."""

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, simulate, trajectory

LOSSES = np.tile([0.5, -0.3], (16, 1)).astype(np.float32)


def learner(rate):
    return learners.ftrl(16, domains.ball(2), epsilon=1.0, rate=rate)


def played(rate):
    """The sum of all points of a game."""
    environment = environments.linear_losses(domains.ball(2), LOSSES)
    points = trajectory(learner(rate), environment, jr.key(0), record=lambda each: each.action)
    return points.sum()


def regret(rate):
    environment = environments.linear_losses(domains.ball(2), LOSSES)
    return simulate(learner(rate), environment, jr.key(0), checkpoints=3).regret[-1]


def by_differences(function, at):
    return (function(at + 2e-3) - function(at - 2e-3)) / 4e-3


def test_a_trajectory_is_differentiated_in_both_modes():
    """Also in round 1, where the released sum is 0 and a norm has no gradient."""
    expected = by_differences(jax.jit(played), 0.3)
    assert abs(expected) > 0.5
    for mode in (jax.grad, jax.jacfwd):
        assert jax.jit(mode(played))(0.3) == pytest.approx(float(expected), rel=1e-2)


def test_a_simulation_is_differentiated_in_forward_mode():
    expected = by_differences(jax.jit(regret), 0.3)
    assert jax.jit(jax.jacfwd(regret))(0.3) == pytest.approx(float(expected), rel=2e-2)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_a_gradient_of_a_simulation_is_refused_in_a_sentence(wrap):
    with pytest.raises(
        TypeError, match="simulate cannot be .* records of dpjax.trajectory"
    ) as error:
        wrap(jax.grad(regret))(0.3)
    assert "while" not in str(error.value)
