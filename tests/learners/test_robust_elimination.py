"""Robust elimination: its radius against the exact bias, coverage, sensitivity, heavy tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments
from dpjax.environments._heavy_tailed import largest_moment
from dpjax.maths.clipped_means import clipped_mean


def by_hand(level, rounds, exponent, moment, order, epsilon, model):
    """The radius of the docstring in float64."""
    v = order - 1.0
    bias = v**v / (1 + v) ** (1 + v) * moment * level**-v
    sampling = np.sqrt(2 * moment * level ** (1 - v) * exponent / rounds)
    sampling += 2 * level * exponent / (3 * rounds)
    share = exponent / rounds
    tail = 2 * np.sqrt(share) + share if model == "local" else share
    return bias + sampling + 2 * level / epsilon * tail


@pytest.mark.parametrize("model", ["central", "local"])
@pytest.mark.parametrize("order", [1.3, 1.7, 2.0])
def test_the_rounds_give_the_radius_and_no_level_needs_fewer(order, model):
    """At R the radius is attained to rounding; over a fine grid of levels R is least to 2 %."""
    for epsilon in (0.1, 1.0, np.inf):
        at = (0.2, 9.0, 1.5, order, epsilon, model)
        level, rounds = (float(x) for x in clipped_mean(*at))
        assert by_hand(level, rounds, *at[1:]) == pytest.approx(0.2, rel=1e-4)
        grid = level * np.geomspace(1e-3, 1e3, 4001)
        assert by_hand(grid, 0.98 * rounds, *at[1:]).min() > 0.2
        assert by_hand(level, 0.9 * rounds, *at[1:]) > 0.2 * 1.001


def test_moments():
    """Against closed forms."""
    found = largest_moment([0.5, 0.0], 2.0, tail=2.1)
    assert found == pytest.approx(0.25 + 2.1 / (1.1**2 * 0.1), rel=1e-6)
    assert largest_moment([0.0, 0.0], 2.0, family="student", tail=3.0) == pytest.approx(3.0)
    with pytest.raises(ValueError, match="order"):
        largest_moment([0.0, 0.0], 2.0, tail=2.0)


@pytest.mark.parametrize("family", ["pareto", "student"])
def test_the_law_of_losses(family):
    """Kolmogorov-Smirnov against SciPy; a tail index of 1.9 instead of 1.6 fails."""
    nature = environments.heavy_tailed([0.0, 2.0], family=family, tail=1.6, spread=[1.0, 0.5])
    keys = jr.split(jr.key(1), 40000)
    loss = jax.vmap(lambda key: nature.step((), key, jnp.int32(0))[1].loss)(keys)
    draws = np.concatenate([loss[:, 0], (loss[:, 1] - 2.0) / 0.5]).astype(float)

    def law(a):
        return stats.t(a) if family == "student" else stats.pareto(a, loc=-1.6 / 0.6)

    assert stats.kstest(draws, law(1.6).cdf).pvalue > 1e-3
    assert stats.kstest(draws, law(1.9).cdf).pvalue < 1e-3
