"""Randomized response: the law of the number of ones afterwards, and its cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise
from dpjax.audit.records import record
from dpjax.audit.rules import RULES
from dpjax.noise.release import Site


def responses(value, count, epsilon, trials=20_000, seed=0):
    keys = jr.split(jr.key(seed), trials)
    draw = jax.jit(
        jax.vmap(lambda key: noise.randomized_response(key, value, 1.0 / epsilon, count))
    )
    return np.asarray(draw(keys))


def flipped_one_by_one(value, count, flip, trials=20_000):
    """Flips each bit separately, in NumPy."""
    bits = np.arange(count) < value
    flips = np.random.default_rng(0).random((trials, count)) < flip
    return (bits ^ flips).sum(axis=1)


def homogeneity(one, other):
    """The p-value that two samples of counts have one law, by chi-square; rare ones merged."""
    size = max(one.max(), other.max()) + 1
    table = np.stack([np.bincount(sample, minlength=size) for sample in (one, other)])
    frequent = table.sum(axis=0) >= 20
    table = np.column_stack([table[:, frequent], table[:, ~frequent].sum(axis=1)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize(("value", "count"), [(0, 12), (3, 12), (12, 12), (150, 400)])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomized_response_is_a_flip_of_each_bit(value, count, epsilon):
    """Another flip probability is rejected, unless half of the bits are 1 anyway."""
    flip = 1.0 / (1.0 + np.exp(epsilon))
    drawn = responses(value, count, epsilon)
    assert drawn.dtype == np.int32
    assert homogeneity(drawn, flipped_one_by_one(value, count, flip)) > 1e-3
    assert homogeneity(drawn, flipped_one_by_one(value, count, 1.2 * flip)) < 1e-6


def test_randomized_response_at_the_edges():
    """Nothing is flipped at epsilon = inf, half of the bits near 0; counts reach 2^31 - 1."""
    largest = 2**31 - 1
    for value, count in ((0, 0), (0, 5), (5, 5), (largest, largest), (1, largest)):
        assert (responses(value, count, np.inf, 50) == value).all()
    assert (responses(0, 0, 1.0, 50) == 0).all()
    half = responses(3, 11, 1e-9)
    assert homogeneity(half, np.random.default_rng(1).binomial(11, 0.5, 20_000)) > 1e-3
    # The law of the sum of this many bits is normal.
    flip = 1.0 / (1.0 + np.e)
    many = responses(largest, largest, 1.0, 2000).astype(np.float64)
    units = (many - largest * (1.0 - flip)) / np.sqrt(largest * flip * (1.0 - flip))
    assert (many <= largest).all() and (many >= 0).all()
    assert abs(units.mean()) < 4.0 / 2000**0.5 + 0.01 and units.std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_replay_charges_epsilon_for_a_bit_of_a_response(epsilon):
    """Nothing for no changed bit, epsilon for one; the law's likelihood ratio gives the same."""
    rule, site = RULES["flips"], Site("flips", None)

    def record_of(value, count=6):
        inputs = jr.key(0), jnp.int32(value), 1.0 / epsilon, jnp.int32(count)
        return record(rule, site, inputs, noise.randomized_response(*inputs))

    def pure(one, other):
        return float(rule.cost(site, record_of(one), record_of(other)).pure)

    assert pure(2, 2) == 0.0
    assert pure(2, 3) == pytest.approx(epsilon, rel=1e-6)
    assert pure(0, 6) == pytest.approx(6 * epsilon, rel=1e-6)
    # The likelihood ratio of an outcome for one changed bit.
    flip = 1.0 / (1.0 + np.exp(epsilon))
    assert np.log((1.0 - flip) / flip) == pytest.approx(epsilon)
    # The number of bits is public, and part of the law.
    assert record_of(2, 6).law != record_of(2, 7).law
