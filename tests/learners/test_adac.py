"""AdaC-UCB: its noise and indices by hand, the cost of one loss, and its bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, environments, learners, privacy, simulate_batches, sweep
from dpjax.learners import adac_ucb
from dpjax.maths import exact_sums, laws
from tests.learners.test_long_sums import LONGEST, given_totals, longest_batch, neighbours

ARMS, RHO = 3, 0.02


def test_sums_and_indices_by_hand():
    """Sums have noise of variance 1 / (2 rho); the smallest index plays 1, 1, 2, 4, ... rounds."""
    learner = adac_ucb(1000, ARMS, rho=RHO, exploration=2.0)
    totals = np.random.default_rng(0).uniform(size=60)
    step = jax.jit(lambda state, key, share, rounds: learner.step(
        state, key, exact_sums.of(share * rounds.astype(jnp.float32))
    ))  # fmt: skip
    state, batch = learner.init(jr.key(0))
    pulls, latest, means, t = np.zeros(ARMS, int), np.ones(ARMS), np.zeros(ARMS), 0
    for i, share in enumerate(totals):
        arm, rounds = int(batch.action), int(batch.rounds)
        assert rounds == max(pulls[arm], 1)
        if pulls.all():
            log_t = np.log(t + 1)
            widths = 2 * log_t * (1 / (2 * latest) + 1 / (RHO * latest**2))
            index = means - np.sqrt(widths)
            assert index[arm] <= index.min() + 1e-4
        state, batch = step(state, jr.key(i), share, jnp.int32(rounds))
        noise_key, _ = jr.split(jr.key(i))
        drawn = float(laws.normal(noise_key)) / np.sqrt(2 * RHO)
        pulls[arm], latest[arm], t = pulls[arm] + rounds, rounds, t + rounds
        means[arm] = share + drawn / rounds
        np.testing.assert_allclose(state.means, means, rtol=1e-4, atol=1e-4)
        if t > 10**6:
            break
    assert pulls.min() > 8


@pytest.mark.usefixtures("quick_compilation")
def test_one_loss_among_a_billion_costs_rho():
    """In each batch in turn, short or long; with half the noise, four times as much."""
    batches = 62
    learner = given_totals(adac_ucb(LONGEST, 2, rho=RHO), batches)
    pairs = neighbours(batches)
    assert longest_batch(learner, pairs) > 2**27
    one = jax.tree.map(lambda leaf: leaf[0], pairs.losses)
    for player, factor in [(learner, 1.0), (audit.mutants(learner, one)["noise halved"], 4.0)]:
        replayed = jax.jit(
            jax.vmap(lambda pair, player=player: audit.replay(player, pair, jr.key(0)))
        )(pairs)
        assert not audit.explain(replayed)
        np.testing.assert_allclose(replayed.rho, factor * RHO, rtol=1e-5)
        np.testing.assert_array_equal(replayed.gaussian, replayed.rho)


def test_declared_numbers():
    """rho, and the epsilon of sqrt(2 rho)-GDP; none without noise."""
    declared = adac_ucb(1000, ARMS, rho=0.5, delta=1e-6).privacy
    assert (float(declared.rho), declared.delta) == (0.5, 1e-6)
    assert float(declared.epsilon) == pytest.approx(float(privacy.gaussian_epsilon(1.0, 1e-6)))
    assert float(privacy.gaussian_delta(1.0, declared.epsilon)) == pytest.approx(1e-6, rel=1e-3)
    declared = adac_ucb(1000, ARMS, rho=np.inf).privacy
    assert (float(declared.rho), float(declared.epsilon)) == (np.inf, np.inf)


@pytest.mark.slow
def test_regret_is_within_its_bound_and_privacy_costs_less_than_pure_privacy():
    """At T = 10^5 on C2; with rho = epsilon^2 / 2 it is below AdaP-UCB at small epsilon."""
    means = np.array([0.25, 0.375, 0.5, 0.625, 0.75])
    environment, epsilons = environments.bernoulli(means, regret="pseudo"), [0.05, 1.0, np.inf]

    def regret(learner):
        result = sweep(
            lambda epsilon: (learner(epsilon), environment), np.float32(epsilons), 100, jr.key(3),
            play=simulate_batches, checkpoints=1, progress=False,
        )  # fmt: skip
        return result.regret[:, :, 0].astype(np.float64)

    concentrated = regret(lambda e: adac_ucb(10**5, 5, rho=0.5 * e * e))
    pure = regret(lambda e: learners.adap_ucb(10**5, 5, epsilon=e))
    for epsilon, values in zip(epsilons, concentrated, strict=True):
        assert values.mean() < bounds.adac_ucb(10**5, means, 0.5 * epsilon**2)
    assert (np.diff(concentrated.mean(axis=1)) < 0).all()
    error = np.hypot(concentrated[0].std(), pure[0].std()) / 10
    assert pure[0].mean() - concentrated[0].mean() > 4 * error
