"""No combination of options spends more than it declares: a few here, all as a campaign."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import combinators, learners, noise
from dpjax.core import Arms, Learner, Number, Privacy
from dpjax.feedback import full
from tests import combinations
from tests.combinations import (
    LEFT_OUT,
    WRAPS,
    Refused,
    bases,
    covered,
    table,
    tried,
    tried_within,
    violations,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

# A configuration takes seconds to compile, so a default run tries only a few.
FEW = {"hedge": 1, "sequential_halving": 1, "exp2": 1}
FEW_WITHIN = [("lazy_ucb", ("minibatch", "every_round")), ("hedge", ("doubling", "user_level"))]


# The table -------------------------------------------------------------------------------------


def test_words_are_read_from_what_the_factories_refuse():
    found = table("sequential_halving")["noise"]
    assert found[0] is LEFT_OUT and "laplace" not in found  # the default
    assert {"gaussian", "binomial", "randomized_response"} <= set(found)
    assert {"kary(k=3)", "tree(identical_law=True)"} <= set(table("ftrl")["mechanism"])


@pytest.mark.parametrize(
    "name",
    ["hedge", *(pytest.param(n, marks=pytest.mark.slow) for n in ("sequential_halving", "exp2"))],
)
def test_every_pair_of_values_is_in_a_configuration_or_refused(name):
    found, values = covered(name), table(name)
    seen = set().union(*map(combinations.pairs_of, found.configurations))
    for one, other in itertools.combinations(sorted(values), 2):
        for first, second in itertools.product(values[one], values[other]):
            pair = (one, first), (other, second)
            assert (pair in seen) != (pair in found.refused), pair
    assert len(found.configurations) < found.pairs


# Violations ------------------------------------------------------------------------------------


def careless(
    horizon: int, arms: int, *, epsilon: Number, rate: Number | None = None, shrink: bool = False
) -> Learner:
    """A learner whose noise is halved for a single pair of its options."""
    scale = (0.5 if shrink and rate is not None else 1.0) / epsilon

    def step(state, key, loss):
        release = noise.laplace(key, jnp.clip(loss, 0.0, 1.0)[0], scale)
        return state, (release > 0.5).astype(jnp.int32)

    start = (), jnp.zeros((), jnp.int32)
    declared = Privacy(epsilon=epsilon)
    return Learner(lambda key: start, step, full, Arms(arms), horizon, declared)


@pytest.mark.slow
def test_a_fault_of_one_pair_of_options_is_found(monkeypatch):
    monkeypatch.setattr(learners, "careless", careless, raising=False)
    found = [one for chosen in covered("careless").configurations
             for one in tried("careless", chosen)]  # fmt: skip
    wrong = violations(found)
    assert wrong and all(one.failed == ("epsilon",) for one in wrong)
    for one in found:
        assert (one in wrong) == ("rate=" in one.name and "shrink=True" in one.name)
        assert one.spent == pytest.approx((2.0 if one in wrong else 1.0) * one.declared, rel=1e-4)


@pytest.mark.slow
def test_a_combinator_that_keeps_a_wrong_declaration_is_found(monkeypatch):
    """A user's two rounds are declared at the cost of one."""

    def as_one_round(make):
        def made(horizon):
            learner = combinators.user_level(make(horizon), rounds_per_user=2)
            declared = learner.privacy
            return learner._replace(privacy=declared._replace(epsilon=0.5 * declared.epsilon))

        return made

    monkeypatch.setitem(WRAPS, "as_one_round", as_one_round)
    chosen = next(bases("lazy_ucb"))
    assert violations([tried_within("lazy_ucb", chosen, ("as_one_round",))])
    assert not violations([tried_within("lazy_ucb", chosen, ("user_level",))])


# The search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FEW)
def test_some_configurations_spend_at_most_what_they_declare(name):
    for chosen in covered(name).configurations[: FEW[name]]:
        assert violations([next(tried(name, chosen))]) == []


@pytest.mark.parametrize(("name", "wraps"), FEW_WITHIN)
def test_some_learners_within_combinators_spend_at_most_what_they_declare(name, wraps):
    found = tried_within(name, next(bases(name)), wraps)
    assert violations([found]) == [] and np.isfinite(found.declared)


@pytest.mark.search
@pytest.mark.parametrize("name", learners.__all__)
def test_all_pairs_of_options_spend_at_most_what_is_declared(name):
    found = [one for chosen in covered(name).configurations for one in tried(name, chosen)]
    assert violations(found) == []


def accepted(wraps, most=None):
    """Replays every learner that these combinators accept, in the first of its ``bases``."""
    for name in learners.__all__:
        for chosen in itertools.islice(bases(name), most):
            try:
                yield tried_within(name, chosen, wraps)
            except Refused:
                continue


@pytest.mark.search
@pytest.mark.parametrize("wrap", WRAPS)
def test_every_combinator_over_every_learner(wrap):
    assert violations(accepted((wrap,))) == []


@pytest.mark.search
@pytest.mark.parametrize("wraps", list(itertools.product(WRAPS, repeat=2)))
def test_every_two_combinators_over_every_learner(wraps):
    """Each in its default configuration."""
    assert violations(accepted(wraps, most=1)) == []
