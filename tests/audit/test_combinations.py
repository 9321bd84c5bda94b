"""No combination of options spends more than it declares: some here, and all as a campaign."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import combinators, learners, noise
from dpjax.core import Learner, Privacy
from dpjax.feedback import full
from tests import combinations
from tests.combinations import LEFT_OUT, Refused, covered, table, tried, tried_within, violations

pytestmark = pytest.mark.usefixtures("quick_compilation")


# The table -------------------------------------------------------------------------------------


def test_words_are_read_from_what_the_factories_refuse():
    found = table("sequential_halving")["noise"]
    assert found[0] is LEFT_OUT and "laplace" not in found  # which is the default
    assert {"gaussian", "binomial", "randomized_response"} <= set(found)
    assert "kary(k=3)" in table("ftrl")["mechanism"]
    assert "hybrid(totals='recomputed')" in combinations.mechanism_names() or any(
        name.startswith("hybrid(totals=") for name in combinations.mechanism_names()
    )


@pytest.mark.parametrize("name", ["hedge", "sequential_halving", "shrinking_dartboard"])
def test_every_pair_of_values_is_in_a_configuration_or_refused(name):
    found, values = covered(name), table(name)
    seen = set().union(*map(combinations.pairs_of, found.configurations))
    for one, other in itertools.combinations(sorted(values), 2):
        for pair in itertools.product(values[one], values[other]):
            pair = ((one, pair[0]), (other, pair[1]))
            assert (pair in seen) != (pair in found.refused), pair
    assert len(found.configurations) < found.pairs


@pytest.mark.attack
def test_every_learner_has_a_table_of_all_its_parameters():
    for name in learners.__all__:
        assert covered(name).configurations, name


# What it finds ---------------------------------------------------------------------------------


def careless(horizon, arms, *, epsilon, scale=1.0, offset=None, flag=False, noise_of="laplace"):
    """A learner that is wrong for one pair of its options alone."""
    combinations.learners  # noqa: B018
    if noise_of not in ("laplace", "gaussian"):
        raise ValueError(f"noise_of must be one of laplace, gaussian; got {noise_of!r}")
    wrong = flag and offset is not None
    deviation = (0.5 if wrong else 1.0) * scale / epsilon

    def step(state, key, loss):
        value = jnp.clip(loss, 0.0, 1.0)[0] * scale
        return state, (noise.laplace(key, value, deviation) > 0.5).astype(jnp.int32)

    zero = jnp.zeros((), jnp.int32)
    return Learner(lambda key: ((), zero), step, full, combinators.as_learner and _arms(arms),
                   horizon, Privacy(epsilon=epsilon))  # fmt: skip


def _arms(count):
    return learners.exp3(4, count).action_set
