"""AdaP-UCB, AdaP-KLUCB and AdaC-UCB: doubling episodes, indices by hand, ties, and regret."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import bounds, environments, simulate_batches, sweep
from dpjax.learners import adac_ucb, adap_klucb, adap_ucb
from dpjax.maths.laws import smallest
from tests.learners.batches import check_even_ties, check_games_by_hand
from tests.maths.test_divergences import lower_by_hand

ALPHA = 2.0


def indices(name, epsilon):
    """The indices from means of the latest episodes; rho is epsilon^2 / 2."""

    def of(means, pulls, log_t):
        n = np.maximum(pulls // 2, 1)
        if name == "adac":
            return means - np.sqrt(ALPHA * log_t * (1 / (2 * n) + 2 / (epsilon * n) ** 2))
        bonus = ALPHA * log_t / (epsilon * n)
        if name == "ucb":
            return means - np.sqrt(ALPHA * log_t / (2 * n)) - bonus
        return np.vectorize(lower_by_hand)(np.clip(means - bonus, 0, 1), ALPHA * log_t / n, np.inf)

    return of


@pytest.mark.parametrize("name", ["ucb", "klucb", "adac"])
@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.slow), 20.0, np.inf])
def test_games_by_hand(name, epsilon):
    """Each episode plays an arm of smallest index, and its mean is from that episode alone."""

    def make():
        if name == "adac":
            return adac_ucb(600, 3, rho=0.5 * epsilon**2, exploration=ALPHA)
        factory = {"ucb": adap_ucb, "klucb": adap_klucb}[name]
        return factory(600, 3, epsilon=epsilon, exploration=ALPHA)

    check_games_by_hand(
        make, ratio=2.0, scale=1 / epsilon, index=indices(name, epsilon),
        gather=lambda before, total, rounds: total / rounds,
    )  # fmt: skip


def test_ties_are_broken_evenly():
    check_even_ties(adap_klucb(1000, 4, epsilon=np.inf))


def test_smallest_is_uniform_among_the_ties():
    """For 2 to 6 ties among 6, by chi-square; never another index, even among infinities."""
    inf = jnp.inf
    cases = jnp.array([
        [1.0, 0.0, 0.0, 2.0, 3.0, 0.5], [-inf, 0.0, -inf, 2.0, -inf, 0.5],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [inf] * 6, [5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
    ])  # fmt: skip
    keys = jr.split(jr.key(9), 20_000)
    drawn = jax.jit(jax.vmap(lambda row: jax.vmap(lambda key: smallest(key, row))(keys)))(cases)
    for row, arms in zip(np.asarray(cases), np.asarray(drawn), strict=True):
        tied = np.flatnonzero(row == row.min())
        counts = np.bincount(arms, minlength=6)
        assert counts[tied].sum() == 20_000
        assert len(tied) == 1 or stats.chisquare(counts[tied]).pvalue > 1e-3


@pytest.mark.slow
def test_regret_is_within_its_bound_and_in_the_order_of_the_papers():
    """On C2 with T = 1e5: more privacy costs more, and AdaP-KLUCB is below AdaP-UCB.

    With rho = epsilon^2 / 2, AdaC-UCB is below AdaP-UCB at small epsilon.
    """
    means, epsilons = np.array([0.25, 0.375, 0.5, 0.625, 0.75]), [0.05, 1.0, np.inf]
    environment = environments.bernoulli(means, regret="pseudo")

    def regret(learner):
        found = sweep(
            lambda epsilon: (learner(epsilon), environment), np.float32(epsilons), 100, jr.key(3),
            play=simulate_batches, checkpoints=1, progress=False,
        )  # fmt: skip
        return found.regret[:, :, 0].astype(np.float64)

    ucb, klucb = (
        regret(lambda e, make=make: make(10**5, 5, epsilon=e)) for make in (adap_ucb, adap_klucb)
    )
    adac = regret(lambda e: adac_ucb(10**5, 5, rho=0.5 * e * e))
    pure = np.array([bounds.adap_ucb(10**5, means, epsilon) for epsilon in epsilons])
    concentrated = [bounds.adac_ucb(10**5, means, 0.5 * epsilon**2) for epsilon in epsilons]
    for values, bound in ((ucb, pure), (klucb, pure), (adac, np.array(concentrated))):
        assert (values.mean(axis=1) < bound).all()
        assert (np.diff(values.mean(axis=1)) < 0).all()
    for better, points in ((klucb, slice(1, None)), (adac, slice(1))):
        error = np.hypot(ucb.std(axis=1), better.std(axis=1)) / 10
        assert (ucb.mean(axis=1) - better.mean(axis=1) > 4 * error)[points].all()
