"""Whole quotients are exact in compiled programs, in which float32 quotients are not."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.learners.parts import dartboard, probing
from dpjax.maths import quotients

SIZES = np.arange(1, 1025)


def test_quotients_of_whole_numbers_are_exact_in_compiled_programs():
    for count in (41, 5248, 2**14 - 1, 10**6):
        below, above = jax.jit(quotients.whole)(np.float32(count), SIZES.astype(np.float32))
        np.testing.assert_array_equal(below, count // SIZES)
        np.testing.assert_array_equal(above, -(-count // SIZES))
    # The same in float32 fails: XLA multiplies all entries with the reciprocal of one number.
    multiples = 41.0 * SIZES.astype(np.float32)
    floors = jax.jit(lambda x, y: jnp.floor(x / y))(multiples, jnp.float32(41.0))
    assert (np.asarray(floors) != SIZES).any()


def test_counts_of_batches_are_exact_for_traced_horizons_and_batches():
    horizons = 41 * SIZES
    read = jax.jit(jax.vmap(dartboard.steps, (0, None)))(horizons, jnp.float32(41.0))
    np.testing.assert_array_equal(read, SIZES)
    # With 4 p = 1, the budget is the number of batches.
    budgets = jax.jit(jax.vmap(dartboard.switch_budget, (0, None, None)))(
        horizons, 0.25, jnp.float32(41.0)
    )
    np.testing.assert_array_equal(budgets, SIZES)
    # A budget of all batches limits nothing, so it is never spent.
    share = jnp.float32(0.1)
    setting = probing.Setting(share, share, jnp.int32(1), jnp.float32(41.0), share)
    spent = jax.jit(jax.vmap(
        lambda horizon, budget: probing.log_run_out(horizon, 3.0, setting._replace(budget=budget))
    ))(horizons.astype(np.float32), SIZES.astype(np.int32))  # fmt: skip
    assert np.isneginf(spent).all()
