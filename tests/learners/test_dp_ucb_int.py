"""DP-UCB-Int: its zCDP accounting against direct sums, its bounds by hand, its releases."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import special, stats

from dpjax import privacy
from dpjax.learners import dp_ucb_int
from dpjax.learners.dp_ucb_int import interval_rho
from tests.learners.given_noise import (
    laplace_draws,
    losses_of_games,
    many_games,
    perturbed_values,
    play,
)
from tests.zcdp import least_epsilon

ARMS = 3


def rho_by_hand(horizon, interval, exponent):
    """Each release n = f, 2f, ... <= T is n^(-v / 2)-DP, hence n^-v / 2 zCDP."""
    n = np.arange(interval, horizon + 1, interval, dtype=np.float64)
    return (0.5 * n**-exponent).sum()


@pytest.mark.parametrize("exponent", [1.05, 1.1, 1.3, 1.5])
def test_rho_against_a_direct_sum(exponent):
    """In float64, for intervals up to and beyond the horizon."""
    for horizon in (1, 10, 999, 10**5):
        for interval in (1, 3, 10, 333, 2000):
            value = float(interval_rho(horizon, interval, exponent))
            # Near v = 1 zeta is a difference of large numbers in float32.
            exact = rho_by_hand(horizon, interval, exponent)
            assert value == pytest.approx(exact, rel=2e-5, abs=1e-6)


def test_rho_and_epsilon_of_the_papers_setting():
    """v = 1.1, f = 1: 5.29 in the limit, 3.71 at n = 1e5, and epsilon 15.7 at delta 1e-5.

    At f = 10, where epsilon = 0.1 was asked for, 3.7 in the limit.
    """
    limit = 0.5 * special.zeta(1.1)
    assert limit == pytest.approx(5.29, abs=0.005)
    rho = float(interval_rho(10**5, 1, 1.1))
    assert rho == pytest.approx(3.71, abs=0.005)
    assert least_epsilon(rho, 1e-5) == pytest.approx(15.7, abs=0.05)
    learner = dp_ucb_int(10**5, 10, epsilon=1.0, delta=1e-5, calibration="printed")
    assert float(learner.privacy.rho) == pytest.approx(3.71, abs=0.005)
    assert float(learner.privacy.epsilon) == pytest.approx(15.7, abs=0.05)
    tenth = limit * 10**-1.1
    assert tenth == pytest.approx(0.42, abs=0.005)
    assert float(interval_rho(1e9, 10, 1.1)) < tenth


def interval_of(**arguments):
    """f, the losses in the first mean of the first arm; the horizon where none is released."""
    horizon = arguments.pop("horizon", 2000)
    learner = dp_ucb_int(horizon, 2, **arguments)
    _, states = play(learner, jnp.full((horizon, 2), 0.5), jr.key(0))
    samples = np.asarray(states.samples[:, 0])
    return int(samples[samples > 0][0]) if samples.any() else horizon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("exponent", [1.1, 1.5])
def test_the_derived_interval_is_the_smallest(epsilon, exponent):
    """For any number of releases: rho = f^-v zeta(v) / 2 has the epsilon, that of f - 1 not."""
    delta = 1e-5
    interval = interval_of(epsilon=epsilon, delta=delta, exponent=exponent)

    def limit(f):
        return least_epsilon(0.5 * f**-exponent * special.zeta(exponent), delta)

    assert limit(interval) <= epsilon * (1 + 1e-6)
    if interval > 1:
        assert limit(interval - 1) > epsilon
    declared = dp_ucb_int(2000, 2, epsilon=epsilon, delta=delta, exponent=exponent).privacy
    exact = rho_by_hand(1999, interval, exponent)
    assert float(declared.rho) == pytest.approx(exact, rel=1e-4)
    assert float(declared.epsilon) == pytest.approx(least_epsilon(exact, delta), rel=1e-4)
    assert float(declared.epsilon) <= epsilon


@pytest.mark.parametrize(("epsilon", "interval"), [(1.0, 1), (0.3, 4), (0.1, 10), (7.0, 1)])
def test_the_printed_interval(epsilon, interval):
    """ceil(1 / epsilon), and a declaration of what it is worth: more than what was asked for."""
    assert interval_of(epsilon=epsilon, calibration="printed") == interval
    declared = dp_ucb_int(2000, 2, epsilon=epsilon, calibration="printed").privacy
    exact = rho_by_hand(1999, interval, 1.1)
    delta = 2000.0**-2
    assert declared.calibration == "printed" and declared.delta == delta
    assert float(declared.epsilon) == pytest.approx(least_epsilon(exact, delta), rel=1e-4)
    assert float(declared.epsilon) > epsilon


def test_extreme_epsilons():
    """No release within the horizon at 1e-9, f = 1 and no declaration at infinity."""
    none = dp_ucb_int(100, 2, epsilon=1e-9)
    assert float(none.privacy.epsilon) == pytest.approx(0.0, abs=1e-6)
    assert interval_of(epsilon=1e-9, horizon=100) == 100
    plain = dp_ucb_int(100, 2, epsilon=np.inf)
    assert np.isinf(plain.privacy.epsilon) and np.isinf(plain.privacy.rho)
    assert interval_of(epsilon=np.inf) == 1


HORIZON, GAMES = 300, 12


@pytest.mark.parametrize(("epsilon", "exponent"), [(0.21, 1.1), (1.0, 1.5), (np.inf, 1.1)])
def test_games_by_hand(epsilon, exponent):
    """Means with n^-(1 - v / 2) draws at multiples of f, kept to the next; sqrt(2 ln t / n) moves.

    The draw is that of the round; the smallest bound plays.
    """
    interval = 1 if np.isinf(epsilon) else int(np.ceil(1 / epsilon))
    losses = losses_of_games(1, GAMES, HORIZON, [0.2, 0.5, 0.8])
    draws = laplace_draws(2, GAMES, HORIZON)

    def make():
        return dp_ucb_int(HORIZON, ARMS, epsilon=epsilon, exponent=exponent, calibration="printed")

    all_arms, states = many_games(make, 3, losses, draws)
    for game in range(GAMES):
        pulls, sums = np.zeros(ARMS, int), np.zeros(ARMS)
        means, samples = np.zeros(ARMS), np.zeros(ARMS, int)
        for t, arm in enumerate(all_arms[game], start=1):
            if t <= ARMS * interval:
                assert arm == (t - 1) % ARMS
            else:
                bounds = means - np.sqrt(2 * np.log(t - 1) / samples)
                assert bounds[arm] <= bounds.min() + 1e-5
            pulls[arm] += 1
            sums[arm] += float(losses[game, t - 1, arm])
            n = pulls[arm]
            if n % interval == 0:
                scale = 0.0 if np.isinf(epsilon) else n ** -(1 - exponent / 2)
                noise = scale * float(draws[game, t - 1])
                means[arm], samples[arm] = sums[arm] / n + noise, n
            inner = states.inner
            np.testing.assert_allclose(inner.means[game, t - 1], means, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(inner.samples[game, t - 1], samples)
    assert len(np.unique(all_arms)) == ARMS


def test_a_loss_is_in_every_later_release_of_its_arm_and_rho_is_their_sum():
    """Each round's loss is replaced in turn, releases being fixed.

    The sum of release n moves by 1 at noise of scale n^(v / 2): epsilons of n^(-v / 2), whose
    squares over two add up to at most the declared rho. The first loss of an arm that plays to the
    end of the game attains it.
    """
    horizon, exponent, interval = 60, 1.2, 3
    losses = losses_of_games(4, 1, horizon, [0.2, 0.5, 0.9])[0]
    # Arm 1 is the best from its first release on, whatever comes.
    released = jnp.where(jnp.arange(horizon) < 3, 9.0, -50.0)

    def make():
        return dp_ucb_int(horizon, 2, epsilon=0.35, exponent=exponent, calibration="printed")

    losses = losses[:, :2]
    (arms, base), (all_arms, others) = perturbed_values(make, losses, released, jr.key(5))
    np.testing.assert_array_equal(np.broadcast_to(arms, all_arms.shape), all_arms)
    pulls = base.inner.sums.pulls[np.arange(horizon), arms]
    # The release of the last round has no action after it.
    made = (pulls % interval == 0) & (np.arange(horizon) < horizon - 1)
    change = np.abs(others.log.value - base.log.value)[:, made]
    n = pulls[made]
    np.testing.assert_array_equal(change, np.where(change > 0, 1.0, 0.0))
    np.testing.assert_allclose(base.log.scale[made], n ** (exponent / 2), rtol=1e-5)
    spent = 0.5 * ((change / base.log.scale[made]) ** 2).sum(axis=1)
    declared = float(make().privacy.rho)
    assert declared == pytest.approx(rho_by_hand(horizon - 1, interval, exponent), rel=1e-5)
    assert spent.max() <= declared * (1 + 1e-5)
    # 57 rounds of arm 1, 3 of arm 0: all but what the other arm's rounds could have held.
    assert spent.max() == pytest.approx(
        rho_by_hand(np.bincount(arms[:-1]).max(), interval, exponent), rel=1e-3
    )
    # With noise of half the scale it would be four times as much.
    assert 4 * spent.max() > declared


def test_ties_are_broken_evenly():
    """Among three arms with the same mean of one loss; the fourth has a worse one."""
    learner = dp_ucb_int(50, 4, epsilon=np.inf)
    state, _ = learner.init(jr.key(0))
    state = state._replace(
        round=jnp.int32(20), means=jnp.full(4, 0.25), samples=jnp.ones(4, jnp.int32)
    )
    step = jax.jit(jax.vmap(lambda key: learner.step(state, key, jnp.float32(1.0))[1]))
    counts = np.bincount(np.asarray(step(jr.split(jr.key(7), 6000))), minlength=4)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > 1e-3


def test_a_traced_epsilon_gives_the_same_declaration():
    """Under vmap, over both calibrations."""
    epsilons = jnp.array([1e-3, 0.1, 1.0, 10.0, np.inf], jnp.float32)
    for calibration in ("derived", "printed"):

        def declared(epsilon, calibration=calibration):
            made = dp_ucb_int(10**4, 2, epsilon=epsilon, calibration=calibration)
            return made.privacy.epsilon

        traced = jax.jit(jax.vmap(declared))(epsilons)
        plain = [float(declared(float(epsilon))) for epsilon in epsilons]
        np.testing.assert_allclose(traced, plain, rtol=1e-5)
        if calibration == "derived":
            assert (np.asarray(traced) <= np.asarray(epsilons) * (1 + 1e-6)).all()
    assert privacy.zcdp_epsilon(0.0, 0.5) == 0.0
