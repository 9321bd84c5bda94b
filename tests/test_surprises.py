"""What docs/surprises.md says of dpjax, as far as no other test holds it."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import special, stats

from dpjax import audit, feedback, learners, noise, privacy, sweep
from dpjax.core import Arms, Environment, Learner, Outcome, Privacy
from tests import ROOT


def test_tests_on_the_page_exist():
    """Each row names a test of a file, or a file of tests."""
    page = (ROOT / "docs" / "surprises.md").read_text()
    names = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(names) >= 10
    for path, function in names:
        assert f"def {function}" in (ROOT / path).read_text()


def test_equal_scores_are_equally_likely_without_noise():
    keys = jr.split(jr.key(0), 3000)
    drawn = jax.vmap(lambda key: noise.least(key, jnp.zeros(3), 0.0))(keys)
    assert stats.chisquare(np.bincount(drawn, minlength=3)).pvalue > 1e-3


def test_a_perfect_attack_is_bounded_at_its_full_confidence():
    """100 of 100 against 0 of 100; with a third of the error it would be 3.02."""
    bound = audit.bound_from_counts(100, 0, 100, confidence=0.95)
    assert bound == pytest.approx(3.28, abs=5e-3)
    assert audit.bound_from_counts(100, 0, 100, confidence=1 - 0.05 / 3) == pytest.approx(
        3.02, abs=6e-3
    )


def test_sums_in_an_own_environment_do_not_depend_on_the_block():
    """The layout of trials sums each row in one order. For matrix products there is no promise."""

    def step(state, key, arm):
        loss = jnp.sum(jr.uniform(key, (2, 257)), axis=1) / 257.0
        return state, Outcome(loss, loss[arm] - loss)

    own = Environment(lambda key: (), step, lambda state, tally: jnp.max(tally), Arms(2))

    def game(point):
        return learners.exp3(8, 2), own

    points = {"epsilon": np.float32([1.0, 2.0])}
    small, large = (
        sweep(game, points, 64, jr.key(0), chunk=chunk, progress=False).regret for chunk in (4, 128)
    )
    np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize("folded", [0, 1])
def test_an_audit_finds_noise_that_is_drawn_twice_from_one_key(folded):
    """``split(key)[1]`` and ``fold_in(key, 1)`` are one key, so both arms have the same noise."""

    def step(state, key, loss):
        first = noise.laplace(jr.split(key)[1], loss[0], 4.0)
        second = noise.laplace(jr.fold_in(key, folded), loss[1], 4.0)
        return state, (second < first).astype(jnp.int32)

    zero = jnp.zeros((), jnp.int32)
    declared = Privacy(epsilon=1.0)
    learner = Learner(lambda key: (zero, zero), step, feedback.full, Arms(2), 3, declared)
    losses = jnp.zeros((1, 3, 2))
    found = audit.verdict(learner, audit.Pair(losses.at[0, 0, 0].set(1.0), losses), jr.key(0))
    assert ("fresh_keys" in found.failed) is (folded == 1)
    assert np.isinf(found.spent[0]) == (folded == 1)


def test_narrow_discrete_gaussian_noise_costs_more_or_less_than_continuous():
    """At delta = 1e-6, by the tail sums of the law; a scale of 1 already costs 8 % less."""
    integers = np.arange(-60, 61)
    for scale, discrete, continuous in [
        (0.2, 37.19, 35.57),
        (0.3, 16.67, 20.78),
        (1.0, 4.50, 4.89),
    ]:
        log_pmf = -0.5 * (integers / scale) ** 2
        log_pmf -= np.logaddexp.reduce(log_pmf)
        found = privacy.integer_epsilon(log_pmf, 1, 1e-6)
        assert found == pytest.approx(discrete, abs=0.01)
        assert privacy.gaussian_epsilon(1.0 / scale, 1e-6) == pytest.approx(continuous, abs=0.02)


def test_skellam_tails_are_those_of_bessel_functions():
    """At 200 with two Poisson means of 1: I_200(2) = 1 / 200! to 0.5 %."""
    exact = -2.0 - special.gammaln(201.0)
    assert noise.skellam.log_density(200, np.sqrt(2.0)) == pytest.approx(exact, abs=0.01)


def test_an_arm_of_weight_zero_is_never_drawn():
    """A hundred thousand arms, of which every second has no weight."""
    weights = jnp.tile(jnp.float32([0.0, 1.0]), 50_000)
    drawn = jax.vmap(lambda key: noise.choose(key, weights / 50_000.0))(jr.split(jr.key(0), 200))
    assert (np.asarray(drawn) % 2 == 1).all()
