"""Threefry with fewer rounds: JAX's own function except for the number of rounds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr

from dpjax import environments, learners, noise, simulate, sweep
from dpjax.core._versions import enable_x64
from dpjax.core.generators import threefry, threefry2x32, threefry13
from dpjax.maths import laws
from tests.engine.beside_vmap import check

# With 20 rounds, the same functions must equal JAX's.
TWENTY = threefry.threefry(20, "threefry2x32_20", "fry20").impl


def words(key):
    return np.asarray(jr.key_data(key))


def drawn(key):
    """All draws and derived keys, as arrays."""
    odd, even = jr.split(jr.fold_in(key, 5))
    return (
        jr.bits(key, (3, 2)),
        jr.bits(odd, (5,), jnp.uint8),
        jr.bits(even, (), jnp.uint16),
        jr.uniform(odd, (4,)),
        jr.key_data(jr.split(even, (2, 3))),
        jr.key_data(jr.fold_in(even, jnp.uint32(2**32 - 1))),
        jr.normal(even, ()),
        laws.normal(odd, (3,)),
        noise.laplace(even, jnp.zeros(2), 1.0),
        environments.arms.uniform_at(odd, 2, 4),
    )


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31 - 1])
def test_with_20_rounds_it_is_the_generator_of_jax(seed):
    np.testing.assert_array_equal(words(jr.key(seed, impl=TWENTY)), words(jr.key(seed)))
    ours, theirs = drawn(jr.key(seed, impl=TWENTY)), drawn(jr.key(seed))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    fewer = drawn(jr.key(seed, impl=threefry13))
    for x, y in zip(fewer, theirs, strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype and (x != y).any()
    with enable_x64(True):  # both words
        ours, theirs = (
            jr.bits(jr.key(seed, impl=impl), (4,), jnp.uint64) for impl in (TWENTY, None)
        )
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match=r"fewer than 2\^32 entries"):
        jax.jit(lambda key: jr.bits(key, (2**16, 2**16))).lower(jr.key(0, impl=threefry13))


def test_blocks_of_13_rounds():
    """Known answers from the reference implementation, Random123 (13 rounds, kat_vectors)."""
    cases = [
        ([0, 0], [0, 0], [0x9D1C5EC6, 0x8BD50731]),
        ([0xFFFFFFFF] * 2, [0xFFFFFFFF] * 2, [0xFD36D048, 0x2D17272C]),
        ([0x13198A2E, 0x03707344], [0x243F6A88, 0x85A308D3], [0xBA3E4725, 0xF27D669E]),
    ]
    for key, counter, expected in cases:
        arrays = [np.array([word], np.uint32) for word in (*key, *counter)]
        np.testing.assert_array_equal(np.ravel(threefry2x32(*arrays, 13)), expected)


def test_keys_are_mapped_to_the_same_bits():
    def function(key, number):
        inner = jr.fold_in(key, number)
        folded = lax.fori_loop(0, 3, lambda i, key: jr.fold_in(key, i), inner)
        return drawn(key), inner, jr.split(inner, 2), folded

    check(function, jr.split(jr.key(1, impl=threefry13), 7), jnp.arange(7))


HORIZON = 64


def game(epsilon):
    learner = learners.dp_exp3_lap(HORIZON, 3, epsilon=epsilon)
    return learner, environments.bernoulli((0.2, 0.5, 0.6))


def test_a_sweep_under_such_a_key():
    """The same law as under JAX's: mean regret of 2000 seeds, z-test at four standard errors."""
    points, key = np.array([1.0, 10.0]), jr.key(0, impl=threefry13)
    result = sweep(game, points, 2000, key, checkpoints=2, progress=False)
    cell = jax.jit(lambda key: simulate(*game(1.0), key, checkpoints=2))(jr.fold_in(key, 7))
    np.testing.assert_allclose(result.regret[0, 7], cell.regret, rtol=1e-6)
    usual = sweep(game, points, 2000, jr.key(0), checkpoints=2, progress=False)
    for ours, theirs in zip(result.regret[..., -1], usual.regret[..., -1], strict=True):
        error = np.sqrt((ours.var() + theirs.var()) / 2000)
        assert 0 < abs(ours.mean() - theirs.mean()) < 4 * error
        # A tenth more regret would be found.
        assert 0.1 * theirs.mean() > 4 * error
