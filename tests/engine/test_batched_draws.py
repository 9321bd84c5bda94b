"""Keys and draws of batched programs equal those of jax.random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import noise
from dpjax.engine.batch_last import batch_last
from dpjax.maths import laws
from tests.engine.beside_vmap import INDEX, KEYS, B, both, check


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [jnp.uint8, jnp.uint16, jnp.uint32])
def test_random_bits(shape, dtype):
    check(lambda key: jr.bits(key, shape, dtype), KEYS)


def test_words_are_kept_whatever_numbers_they_look_like():
    """The two words of a key pass between kernels as one complex number."""
    keys = jr.split(jr.key(1), 2048)
    words = jr.key_data(jax.vmap(lambda key: jr.fold_in(key, 1))(keys))
    floats = np.asarray(words).view(np.float32)
    tiny = np.abs(floats) < np.finfo(np.float32).tiny
    # Signalling and quiet NaN, infinity, and numbers that would be flushed to 0.
    quiet = (np.asarray(words) >> 22 & 1).astype(bool)
    assert (np.isnan(floats) & quiet).any() and (np.isnan(floats) & ~quiet).any() and tiny.any()

    def function(key):
        folded = jr.fold_in(key, 1)
        return folded, jr.split(folded, 3), jr.bits(folded, (2,)), laws.normal(folded, (5,))

    check(function, keys)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (5,), (2, 3)])
def test_noise(shape):
    """For 64 members, since LLVM contracts vmap's few short rows in some places only."""
    keys = jr.split(jr.key(0), 64)
    scale = np.arange(64, dtype=np.float32)

    def function(key, scale):
        zero = jnp.zeros(shape, jnp.float32)
        return (
            laws.normal(key, shape),
            noise.laplace(key, zero, scale),
            noise.gaussian(jr.fold_in(key, 3), zero, 1.0),
            noise.laplace.along(key, jnp.float32(0.0), scale, jnp.ones(3)),
        )

    check(function, keys, scale)


def test_draws():
    def function(key, i):
        a, b, c = jr.split(key, 3)
        grid = jr.split(jr.fold_in(b, 7), (2, 2))
        return (
            jr.uniform(a, (4,)), jr.normal(b), jr.laplace(c, (2,)), jr.gumbel(a),
            jr.bernoulli(b, 0.3), jr.randint(c, (3,), 0, 9), jr.permutation(a, 4), jr.choice(b, 4),
            grid, jr.uniform(grid[1, 0]), grid.T.ravel(), jr.fold_in(a, i),
            jr.fold_in(a, jnp.uint8(3)), jr.key_data(a), jr.wrap_key_data(jr.key_data(b)),
            jnp.where(i > 0, a, b), jr.clone(a), jr.key(i),
        )  # fmt: skip

    check(function, KEYS, INDEX)


def test_draws_by_rejection_agree_to_rounding():
    expected, found = both(lambda key: (jr.gamma(key, 0.3), jr.poisson(key, 2.0)), (True,), KEYS)
    np.testing.assert_allclose(expected[0], found[0], rtol=1e-6)
    np.testing.assert_array_equal(expected[1], found[1])


def test_keys_in_shared_and_batched_company():
    check(
        lambda key, i: jr.uniform(jr.fold_in(key, i), (2,)), jr.key(1), INDEX, batched=(False, True)
    )
    check(lambda key, i: jr.fold_in(key, i), KEYS, np.int32(3), batched=(True, False))
    check(lambda keys, i: jnp.stack([*jnp.where(i > 0, keys, jr.key(5))]), KEYS[None], INDEX)


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_other_generators_are_left_to_vmap(implementation):
    keys = jr.split(jr.key(0, impl=implementation), B)
    check(lambda key: (jr.fold_in(key, 3), jr.split(key), jr.key_data(key)), keys)


def test_threefry_without_partitioning_is_left_to_vmap():
    with jax.threefry_partitionable(False):
        check(lambda key: (jr.uniform(key, (3,)), jr.split(key), jr.fold_in(key, 2)), KEYS)


def test_draws_are_written_out():
    """No block function is left in a loop."""
    program = jax.make_jaxpr(batch_last(lambda key: jr.uniform(jr.fold_in(key, 1)), (True,)))(KEYS)
    assert "threefry2x32" not in str(program) and "random_bits" not in str(program)
