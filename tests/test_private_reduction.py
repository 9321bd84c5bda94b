"""The reduction of Agarwal & Singh: its base's inputs, and how much the noise hides."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, learners, noise
from dpjax.combinators import private_reduction
from dpjax.core import Arms
from dpjax.feedback import linear, unclipped
from tests.test_randomized_learners import fed, keeping

POINT = (0.6, -0.3, 0.1)


def base_of(point=None):
    """A base that sees one number, which is linear in its point, or that of an arm."""
    if point is None:
        return keeping(feedback=linear, actions=Arms(1), clip=unclipped)
    point = jnp.asarray(point, jnp.float32)
    return keeping(point, linear, None, clip=unclipped)


def asked(monkeypatch, learner, loss=0.25):
    """The scale passed to the Laplace draw."""
    scales = []
    with monkeypatch.context() as patch:
        for name in ("__call__", "along"):
            record = lambda law, key, value, scale, *_: scales.append(scale) or value  # noqa: E731
            patch.setattr(noise.Law, name, record)
        learner.step(learner.init(jr.key(0))[0], jr.key(1), jnp.float32(loss))
    (scale,) = scales
    return float(scale)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
def test_scales(monkeypatch, epsilon):
    """Derived: the change of a loss over epsilon. Printed: its size over epsilon."""
    vector = {"noise": "vector", "norm": 2.5}
    for base, given, *sizes in (
        (keeping(), {"loss_range": (-1.0, 1.0)}, 2.0, 1.0),
        (keeping(), {"loss_range": (0.0, 1.0)}, 1.0, 1.0),
        (keeping(), {"loss_range": (-3.0, 1.0)}, 4.0, 3.0),
        (base_of(POINT), vector, 5.0, 2.5),
    ):
        for calibration, size in zip(("derived", "printed"), sizes, strict=True):
            learner = private_reduction(base, epsilon=epsilon, calibration=calibration, **given)
            assert asked(monkeypatch, learner) == pytest.approx(size / epsilon, rel=1e-6)


def test_the_law_of_what_is_fed():
    """The loss plus one Laplace draw (KS), or plus <Z, x> (variance); half the noise fails."""
    n, epsilon = 40_000, 0.8
    value, _ = fed(private_reduction(base_of(), epsilon=epsilon), np.full(n, 0.3), seed=1)
    assert stats.kstest(value, stats.laplace(0.3, 2 / epsilon).cdf).pvalue > 1e-3
    assert stats.kstest(value, stats.laplace(0.3, 1 / epsilon).cdf).pvalue < 1e-6

    learner = private_reduction(base_of(POINT), epsilon=epsilon, noise="vector", norm=1.0)
    value, _ = fed(learner, np.full(n, 0.3), seed=2)
    variance = 2 * (2 / epsilon) ** 2 * np.sum(np.square(POINT))
    error = value.astype(np.float64) - 0.3
    assert abs(error.mean()) < 4 * np.sqrt(variance / n)
    z = ((error**2).mean() - variance) / ((error**2).std() / n**0.5)
    assert abs(z) < 4
    assert ((error**2).mean() - variance / 4) / ((error**2).std() / n**0.5) > 20


def test_clips_before_noise_and_counts():
    """Values out of range are clipped and counted; an end of the range and its rounding are not."""
    losses = [-1.0, 1.0, 1.0 + 1e-7, -4.0, 3.0, np.inf, 0.5]
    for learner in (
        private_reduction(base_of(), epsilon=jnp.inf),
        private_reduction(base_of((1.0, 0.0)), epsilon=jnp.inf, noise="vector", norm=9.0),
    ):
        value, count = fed(learner, losses)
        np.testing.assert_allclose(value, [-1, 1, 1, -1, 1, 1, 0.5], atol=2e-7)
        assert count.tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_vector_noise_clips_to_what_the_point_allows():
    """No l of norm 1/2 has <l, x> above |x|_inf / 2, so noise need not hide larger values."""
    learner = private_reduction(base_of(POINT), epsilon=jnp.inf, noise="vector", norm=0.5)
    value, _ = fed(learner, [0.9, -0.9, 0.29])
    np.testing.assert_allclose(value, [0.3, -0.3, 0.29], rtol=1e-6)
    # If the point is 0, the round reveals nothing.
    value, _ = fed(
        private_reduction(base_of((0.0, 0.0)), epsilon=1.0, noise="vector", norm=0.5), [0.9]
    )
    assert value.tolist() == [0.0]


def log_density(value, point, scale):
    """ln of the density of <Z, x> for independent Laplace Z, with distinct nonzero |x_i|.

    A mixture of Laplace laws of scales b_i = scale |x_i| with weights prod_(j != i) b_i^2 / (b_i^2
    - b_j^2), by partial fractions of the characteristic function.
    """
    b = scale * np.abs(np.asarray(point))
    weights = [np.prod([b[i] ** 2 / (b[i] ** 2 - c**2) for c in np.delete(b, i)]) for i in range(3)]
    # Scaled by the slowest exponential, so that far tails do not underflow.
    slow = b.max()
    size = np.abs(value)[..., None]
    terms = weights / (2 * b) * np.exp(-size * (1 / b - 1 / slow))
    return np.log(terms.sum(axis=-1)) - size[..., 0] / slow


@pytest.mark.parametrize(("calibration", "factor"), [("derived", 1.0), ("printed", 2.0)])
def test_exact_epsilon_of_vector_noise(monkeypatch, calibration, factor):
    """At SCRiBLE's own scale: epsilon (printed: twice that) far in the tail, less in the middle.

    The worst pair at x is l = +-|Y|_1 at the largest entry of x.
    """
    epsilon = 1.0
    arguments = {"epsilon": epsilon, "noise": "vector", "calibration": calibration}
    scale = asked(monkeypatch, learners.scrible(64, domains.cube(3), **arguments))
    shift = max(np.abs(POINT))
    grid = np.linspace(-60, 60, 2401)
    ratio = log_density(grid - shift, POINT, scale) - log_density(grid + shift, POINT, scale)
    assert ratio.max() == pytest.approx(factor * epsilon, rel=1e-3)
    assert np.abs(ratio).max() <= factor * epsilon * (1 + 1e-9)
    # Within one shift of the middle, neither exceeds epsilon by much: the printed scale looks
    # right.
    assert ratio[np.abs(grid) <= shift / 4].max() < epsilon
    # The density is the law of the samples.
    draws = np.random.default_rng(0).laplace(scale=scale, size=(200_000, 3)) @ np.asarray(POINT)
    inside = np.abs(draws) < 1.0
    mass = np.mean(np.exp(log_density(np.linspace(-1, 1, 2001), POINT, scale))) * 2
    assert abs(inside.mean() - mass) < 4 * 0.5 / 200_000**0.5 + 1e-3


def test_declaration():
    """Pure, local, for the given range; horizon and feedback are the base's.

    The printed scale, 2 / 0.3, has epsilon 0.3 * 3 / 2, since losses may change by 3.
    """
    base = base_of()
    learner = private_reduction(base, epsilon=0.3, loss_range=(-2.0, 1.0), calibration="printed")
    assert float(learner.privacy.epsilon) == pytest.approx(0.45)
    assert (learner.privacy.delta, learner.privacy.paper_epsilon) == (0.0, 0.3)
    derived = private_reduction(base, epsilon=0.3, loss_range=(-2.0, 1.0)).privacy
    assert derived[:2] == (0.3, 0.0) and np.isnan(derived.paper_epsilon)
    for low, signs in ((-1.0, 2.0), (0.0, 1.0)):
        vector = private_reduction(
            base_of(POINT), epsilon=0.3, loss_range=(low, 1.0), noise="vector", norm=2.5,
            calibration="printed",
        )  # fmt: skip
        assert float(vector.privacy.epsilon) == pytest.approx(0.3 * signs)
    assert learner.privacy.loss_range == (-2.0, 1.0)
    assert (learner.privacy.model, learner.privacy.calibration) == ("local", "printed")
    assert (learner.horizon, learner.feedback) == (base.horizon, base.feedback)
