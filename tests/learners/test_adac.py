"""The learners for zero-concentrated privacy: the cost of one loss among a billion."""

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit
from dpjax.learners import adac_gope, adac_ucb
from tests.learners.test_long_sums import LONGEST, TWO, given_totals, longest_batch, neighbours

RHO = 0.02


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("make", "batches"),
    [
        (lambda rho: adac_ucb(LONGEST, 2, rho=rho), 62),
        (lambda rho: adac_gope(LONGEST, TWO, rho=rho), 39),
    ],
)
def test_one_loss_among_a_billion_costs_rho(make, batches):
    """In each batch in turn, short or long; with half the noise, that of 4 rho, four times rho."""
    pairs = neighbours(batches)
    assert longest_batch(given_totals(make(RHO), batches), pairs) > 2**27

    @jax.jit
    def replay(rho):
        learner = given_totals(make(rho), batches)
        return jax.vmap(lambda pair: audit.replay(learner, pair, jr.key(0)))(pairs)

    for factor in (1.0, 4.0):
        replayed = replay(factor * RHO)
        assert not audit.explain(replayed)
        np.testing.assert_allclose(replayed.rho, factor * RHO, rtol=1e-5)
        np.testing.assert_array_equal(replayed.gaussian, replayed.rho)
