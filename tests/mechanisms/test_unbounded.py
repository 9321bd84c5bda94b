"""The unbounded mechanism: its series, its infinite columns, its noise, the paper's constants."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import integrate

from dpjax import audit, domains, learners, mechanisms


def series(function, count):
    """The first ``count`` coefficients of a power series, from its values on a circle."""
    length = 8 * count
    log_radius = np.log(1e-15) / length  # coefficients at the distance ``length`` overlap
    points = np.exp(log_radius - 2j * np.pi * np.arange(length // 2 + 1) / length)
    overlapped = np.fft.irfft(function(points), length)[:count]
    return overlapped * np.exp(-log_radius * np.arange(count))


def factors(scale_of_log, count):
    """The first columns of B and C, from their definitions."""

    def logarithm(z):
        return 1.0 - np.log1p(-z) / scale_of_log

    return (
        series(lambda z: (1.0 - z) ** -0.5 * logarithm(z), count),
        series(lambda z: (1.0 - z) ** -0.5 / logarithm(z), count),
    )


def noise(mechanism):
    """Variances at mu = 1 and unit L2 sensitivity."""
    return mechanism.sensitivity[1] ** 2 * mechanism.variance()


@pytest.mark.parametrize("made_for", [4, 2**10, 2**20])
def test_columns_are_the_series(made_for):
    decoder, encoder = factors(np.log(made_for) / np.sqrt(3.0), 400)
    np.testing.assert_allclose(np.convolve(decoder, encoder)[:400], 1.0, rtol=0, atol=1e-11)
    mechanism = mechanisms.unbounded(401, made_for=made_for)
    released, first = mechanism.matrices()
    np.testing.assert_allclose(released[1:, 0], decoder, rtol=0, atol=1e-11)
    np.testing.assert_allclose(first[:, 0], encoder, rtol=0, atol=1e-11)
    np.testing.assert_allclose(mechanism.variance()[1:], np.cumsum(decoder**2), rtol=1e-10)


@pytest.mark.parametrize("made_for", [4, 16, 2**10, 2**20, 2**30])
def test_the_declared_norm_is_that_of_an_infinite_column(made_for):
    """Entries to 2^16, and the tail of their expansion: within 0.1 %, and never above."""
    k, count = np.log(made_for) / np.sqrt(3.0), 2**16
    _, encoder = factors(k, count)
    found = np.sum(encoder**2)
    # Entry j is (pi j)^(-1/2) g(ln j + c), where c = -psi(1/2), minus a quarter of pi^2 g''.
    after = k + np.log(count) + np.euler_gamma + 2.0 * np.log(2.0)
    tail = k**2 / np.pi * (1.0 / after - np.pi**2 / 3.0 / after**3)
    declared = mechanisms.unbounded(8, made_for=made_for).sensitivity[1] ** 2
    assert found < declared == pytest.approx(found + tail, rel=1e-3)


def test_one_noise_scale_for_every_horizon():
    longest = mechanisms.unbounded(5000)
    for horizon in (2, 3, 64, 1000):
        mechanism = mechanisms.unbounded(horizon)
        assert mechanism.sensitivity == longest.sensitivity == (np.inf, pytest.approx(1.7342, 1e-4))
        np.testing.assert_array_equal(mechanism.variance(), longest.variance()[:horizon])


def test_noise_beside_other_mechanisms():
    """Less than ``hybrid`` from prefix 8 on; 2.08 to 2.27 times that of a known horizon."""
    horizon = 2**14 + 1
    found, hybrid = (
        noise(make(horizon, noise="gaussian")) for make in (mechanisms.unbounded, mechanisms.hybrid)
    )
    assert (found < hybrid)[8:].all()
    buffered = noise(mechanisms.buffered(horizon, made_for=2**20))
    np.testing.assert_array_equal(found[1:] < buffered[1:], np.arange(1, horizon) <= 170)
    rounds = 2 ** np.arange(4, 15)
    known = np.array([noise(mechanisms.square_root(t + 1))[t] for t in rounds.tolist()])
    assert 2.08 < (found[rounds] / known).min() < (found[rounds] / known).max() < 2.27


def test_the_papers_constants(power=0.51):
    """(1 - z)^(-1/2) (l(z) / z)^(-0.51): the squared norm is 16.6, and 1.47 without a long tail.

    The tail begins at entry 2^16. With it the variance of prefix 2^16 is 23.1 times that of
    ``square_root`` made for 2^16 prefixes. The paper states a factor below 1.5 up to 2^24.
    """

    def logarithm(z):
        return -np.log1p(-z) / z

    count = 2**16
    decoder, encoder = (
        series(lambda z, sign=sign: (1.0 - z) ** -0.5 * logarithm(z) ** (sign * power), count)
        for sign in (1, -1)
    )
    assert np.sum(encoder**2) == pytest.approx(1.473, abs=1e-3)

    def density(s):  # of the squared norm, times pi, at theta = exp(-s)
        chord = 2.0 * np.sin(np.exp(-s) / 2.0)
        angle = (np.pi - np.exp(-s)) / 2.0
        return np.exp(-s) / chord * (np.log(chord) ** 2 + angle**2) ** -power

    head = sum(integrate.quad(density, *pair)[0] for pair in [(-np.log(np.pi), 2.0), (2.0, 40.0)])

    def rest(start):  # of the integral of (s^2 + pi^2 / 4)^-power, between its bounds
        return start ** (1.0 - 2.0 * power) / (2.0 * power - 1.0)

    low, high = ((head + rest(start)) / np.pi for start in (41.0, 40.0))
    assert 16.57 < low < high < 16.60
    known = noise(mechanisms.square_root(count + 1))[count]
    assert 23.0 < low * np.sum(decoder**2) / known < high * np.sum(decoder**2) / known < 23.1


def test_laplace_noise_is_refused():
    message = "^noise must be scaled by the L2 sensitivity.* got laplace; hybrid allows laplace"
    with pytest.raises(ValueError, match=message):
        mechanisms.unbounded(8, noise="laplace")
    with pytest.raises(ValueError, match="^noise must be scaled"):
        learners.ftrl(8, domains.ball(2), epsilon=1.0, mechanism=mechanisms.unbounded)


@pytest.mark.parametrize("bad", [3, 0, 2.5, True, None])
def test_a_bad_length_is_named(bad):
    with pytest.raises((ValueError, TypeError), match="^made_for must be an integer of at least 4"):
        mechanisms.unbounded(8, made_for=bad)


def test_a_learner_spends_at_most_the_declared_epsilon():
    """FTRL on a ball: opposite losses in one round spend all of it, and twice as much if halved."""
    learner = learners.ftrl(
        16, domains.ball(2), epsilon=1.0, delta=1e-6, noise="gaussian",
        mechanism=mechanisms.unbounded,
    )  # fmt: skip
    losses = jnp.zeros((16, 2)).at[:, 0].set(0.5)
    pair = audit.Pair(losses.at[3].set(jnp.array([1.0, 0.0])), losses.at[3].set(-losses[3] * 2.0))
    halved = audit.mutants(learner, pair.losses)["noise halved"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replayed = [audit.replay(player, pair, jr.key(0)) for player in (learner, halved)]
        declared, twice = (float(audit.spent(one, 1e-6)) for one in replayed)
    assert declared == pytest.approx(1.0, rel=1e-4) and twice > 1.8
