"""The reduction of Agarwal & Singh: its base's inputs, and how much the noise hides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import combinators, domains, environments, every_round, learners, noise, simulate
from dpjax.combinators import minibatch, private_reduction
from dpjax.core import Arms, Learner, Privacy
from dpjax.feedback import bandit, clip_seen, linear, unclipped

POINT = (0.6, -0.3, 0.1)


def keeping(point=None, feedback=linear):
    """A base that stores its inputs and always plays the same action."""
    action = jnp.zeros((), jnp.int32) if point is None else jnp.asarray(point, jnp.float32)

    def step(state, key, loss):
        del state, key
        return loss, action

    actions = Arms(1) if point is None else None
    return Learner(lambda key: (jnp.zeros(()), action), step, feedback, actions, 8, Privacy(),
                   clip=unclipped)  # fmt: skip


def fed(learner, losses, seed=0):
    """The base's input in one round, for each loss with its own key; and the count."""

    def one(key, loss):
        inside, clipped = clip_seen(learner, loss)
        state, _ = learner.step(learner.init(key)[0], key, inside)
        return state.base, clipped

    keys = jr.split(jr.key(seed), len(losses))
    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(keys, jnp.asarray(losses, jnp.float32))]


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
    cases = [((-1.0, 1.0), 2.0, 1.0), ((0.0, 1.0), 1.0, 1.0), ((-3.0, 1.0), 4.0, 3.0)]
    for loss_range, derived, printed in cases:
        for calibration, size in (("derived", derived), ("printed", printed)):
            learner = private_reduction(
                keeping(feedback=bandit),
                epsilon=epsilon,
                loss_range=loss_range,
                calibration=calibration,
            )
            assert asked(monkeypatch, learner) == pytest.approx(size / epsilon, rel=1e-6)
    for calibration, size in (("derived", 5.0), ("printed", 2.5)):
        learner = private_reduction(
            keeping(POINT), epsilon=epsilon, noise="vector", norm=2.5, calibration=calibration
        )
        assert asked(monkeypatch, learner) == pytest.approx(size / epsilon, rel=1e-6)


def test_the_law_of_what_is_fed():
    """The loss plus one Laplace draw (KS), or plus <Z, x> (variance); half the noise fails."""
    n, epsilon = 40_000, 0.8
    value, _ = fed(private_reduction(keeping(), epsilon=epsilon), np.full(n, 0.3), seed=1)
    assert stats.kstest(value, stats.laplace(0.3, 2 / epsilon).cdf).pvalue > 1e-3
    assert stats.kstest(value, stats.laplace(0.3, 1 / epsilon).cdf).pvalue < 1e-6

    learner = private_reduction(keeping(POINT), epsilon=epsilon, noise="vector", norm=1.0)
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
        private_reduction(keeping(), epsilon=jnp.inf),
        private_reduction(keeping((1.0, 0.0)), epsilon=jnp.inf, noise="vector", norm=9.0),
    ):
        value, count = fed(learner, losses)
        np.testing.assert_allclose(value, [-1, 1, 1, -1, 1, 1, 0.5], atol=2e-7)
        assert count.tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_vector_noise_clips_to_what_the_point_allows():
    """No l of norm 1/2 has <l, x> above |x|_inf / 2, so noise need not hide larger values."""
    learner = private_reduction(keeping(POINT), epsilon=jnp.inf, noise="vector", norm=0.5)
    value, _ = fed(learner, [0.9, -0.9, 0.29])
    np.testing.assert_allclose(value, [0.3, -0.3, 0.29], rtol=1e-6)
    # If the point is 0, the round reveals nothing.
    value, _ = fed(
        private_reduction(keeping((0.0, 0.0)), epsilon=1.0, noise="vector", norm=0.5), [0.9]
    )
    assert value.tolist() == [0.0]


@pytest.mark.parametrize(("calibration", "factor"), [("derived", 1.0), ("printed", 2.0)])
def test_sampled_epsilon_on_the_worst_pair(calibration, factor):
    """EXP2 on losses -1 and 1: odds of an input above 1 differ by epsilon, or 2 epsilon.

    The step of the exponents reveals the input; 4 standard errors of the log-ratio.
    """
    n, epsilon = 200_000, 1.0
    learner = learners.exp2(4, 2, epsilon=epsilon, loss_range=(-1.0, 1.0), calibration=calibration)
    start, _ = learner.init(jr.key(0))
    arm = int(np.argmax(start.base.scores))

    def exponents(key, loss):
        return learner.step(start, key, loss)[0].base.exponents

    steps = jax.jit(jax.vmap(exponents, (0, None)))
    rows = [
        np.asarray(steps(jr.split(jr.key(seed), n), jnp.float32(loss)), np.float64)
        for seed, loss in ((3, 1.0), (4, -1.0))
    ]
    move = [row[:, arm] - row[:, 1 - arm] for row in rows]
    # In half of the rounds the noise is positive, which marks the loss 1.
    edge = np.median(move[0])
    hits = [np.sum(m <= edge) for m in move]
    ratio = np.log(hits[0] / hits[1])
    error = np.sqrt(1 / hits[0] + 1 / hits[1])
    assert abs(ratio - factor * epsilon) < 4 * error
    assert error < 0.02


def log_density(value, point, scale):
    """ln of the density of <Z, x> for independent Laplace Z, with distinct nonzero |x_i|.

    A mixture of Laplace laws of scales b_i = scale |x_i| with weights prod_(j != i) b_i^2 / (b_i^2
    - b_j^2), by partial fractions of the characteristic function.
    """
    b = scale * np.abs(np.asarray(point))
    weights = [np.prod([b[i] ** 2 / (b[i] ** 2 - c**2) for c in np.delete(b, i)]) for i in range(3)]
    # Scaled by the slowest exponential, so that far tails do not underflow.
    slow = b.max()
    terms = [
        w / (2 * c) * np.exp(-abs(value) * (1 / c - 1 / slow))
        for w, c in zip(weights, b, strict=True)
    ]
    return np.log(sum(terms)) - abs(value) / slow


@pytest.mark.parametrize(("calibration", "factor"), [("derived", 1.0), ("printed", 2.0)])
def test_exact_epsilon_of_vector_noise(monkeypatch, calibration, factor):
    """At SCRiBLE's own scale: epsilon (printed: twice that) far in the tail, less in the middle.

    The worst pair at x is l = +-|Y|_1 at the largest entry of x.
    """
    epsilon = 1.0
    learner = learners.scrible(
        64, domains.cube(3), epsilon=epsilon, noise="vector", calibration=calibration
    )
    scale = asked(monkeypatch, learner)
    shift = max(np.abs(POINT))
    grid = np.linspace(-60, 60, 2401)
    ratio = np.array(
        [log_density(v - shift, POINT, scale) - log_density(v + shift, POINT, scale) for v in grid]
    )
    assert ratio.max() == pytest.approx(factor * epsilon, rel=1e-3)
    assert np.abs(ratio).max() <= factor * epsilon * (1 + 1e-9)
    # Within one shift of the middle, neither exceeds epsilon by much: the printed scale looks
    # right.
    assert ratio[np.abs(grid) <= shift / 4].max() < epsilon
    # The density is the law of the samples.
    draws = np.random.default_rng(0).laplace(scale=scale, size=(200_000, 3)) @ np.asarray(POINT)
    inside = np.abs(draws) < 1.0
    middle = np.linspace(-1, 1, 2001)
    mass = np.mean([np.exp(log_density(v, POINT, scale)) for v in middle]) * 2
    assert abs(inside.mean() - mass) < 4 * 0.5 / 200_000**0.5 + 1e-3


def test_no_noise_at_infinite_epsilon():
    """The base under the second half of the key, bit for bit."""
    learner = learners.tsallis_inf(16, 3)
    reduced = private_reduction(learner, epsilon=jnp.inf, loss_range=(0.0, 1.0))
    state, other = learner.init(jr.key(0))[0], reduced.init(jr.key(0))[0]
    for t in range(1, 5):
        key = jr.fold_in(jr.key(1), t)
        state, arm = learner.step(state, jr.split(key)[1], jnp.float32(0.1 * t))
        other, same = reduced.step(other, key, jnp.float32(0.1 * t))
        assert arm == same
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other.base), strict=True):
            np.testing.assert_array_equal(a, b)


def test_declaration():
    """Pure, local, for the given range; horizon and feedback are the base's.

    The printed scale, 2 / 0.3, has epsilon 0.3 * 3 / 2, since losses may change by 3.
    """
    base = keeping()
    learner = private_reduction(base, epsilon=0.3, loss_range=(-2.0, 1.0), calibration="printed")
    assert float(learner.privacy.epsilon) == pytest.approx(0.45)
    assert (learner.privacy.delta, learner.privacy.paper_epsilon) == (0.0, 0.3)
    derived = private_reduction(base, epsilon=0.3, loss_range=(-2.0, 1.0)).privacy
    assert derived[:2] == (0.3, 0.0) and np.isnan(derived.paper_epsilon)
    for low, signs in ((-1.0, 2.0), (0.0, 1.0)):
        vector = private_reduction(
            keeping(POINT), epsilon=0.3, loss_range=(low, 1.0), noise="vector", norm=2.5,
            calibration="printed",
        )  # fmt: skip
        assert float(vector.privacy.epsilon) == pytest.approx(0.3 * signs)
    assert learner.privacy.loss_range == (-2.0, 1.0)
    assert (learner.privacy.model, learner.privacy.calibration) == ("local", "printed")
    assert (learner.horizon, learner.feedback) == (base.horizon, base.feedback)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *[("epsilon", {"epsilon": value}) for value in (0.0, -1.0, float("nan"))],
        *[("loss_range", {"loss_range": value}) for value in ((1.0, 1.0), (2.0, 0.0), 3.0)],
        ("loss_range", {"loss_range": (0.0, float("inf"))}),
        ("noise", {"noise": "gaussian"}),
        ("norm", {"noise": "vector"}),
        ("norm", {"noise": "vector", "norm": 0.0}),
        ("calibration", {"calibration": "tight"}),
    ],
)
def test_bad_arguments_are_named(name, arguments):
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b"):
        private_reduction(keeping(POINT), **{"epsilon": 1.0, **arguments})


def test_what_it_does_not_take():
    """Vector noise over arms, which equals scalar noise, and learners that read sums."""
    with pytest.raises(ValueError, match="over arms vector noise equals scalar noise"):
        private_reduction(keeping(feedback=bandit), epsilon=1.0, noise="vector", norm=1.0)
    batches = minibatch(learners.tsallis_inf(8, 2), 8, 2)
    with pytest.raises(TypeError, match="learner must be a Learner"):
        private_reduction(batches, epsilon=1.0)


def test_any_bandit_learner_plays_behind_it():
    """A batch learner too, once it is played round by round."""
    for base in (learners.tsallis_inf(32, 3), every_round(minibatch(learners.exp3(32, 3), 32, 4))):
        learner = private_reduction(base, epsilon=1.0, loss_range=(0.0, 1.0))
        result = simulate(learner, environments.bernoulli([0.2, 0.5, 0.8]), jr.key(0))
        assert np.isfinite(result.regret).all()


def test_learners_that_see_more_than_a_number_are_refused():
    """The noise is for one number; a vector would need more."""
    for base in (
        learners.ftrl(8, domains.simplex(3), epsilon=1.0),
        learners.hedge(8, 3, epsilon=1.0),
    ):
        for wrap in (
            lambda base: private_reduction(base, epsilon=1.0),
            lambda base: combinators.laplace_feedback(
                base, epsilon=1.0, threshold=1.0, null_loss=0.5
            ),
        ):
            with pytest.raises(ValueError, match="must see one number a round"):
                wrap(base)
