"""Local randomizers: flipped bits, learners that are fed them, and the reduction with noise.

The reduction is that of Agarwal & Singh 2017.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, combinators, domains, environments, learners, noise, simulate
from dpjax.audit.records import record
from dpjax.audit.rules import RULES
from dpjax.core import Arms, Batch, BatchLearner, Learner, Privacy
from dpjax.feedback import bandit, clip_seen, full, linear, seen_inside, unclipped
from dpjax.maths import exact_sums
from dpjax.noise.release import Site


def flip_of(epsilon):
    return 1.0 / (1.0 + np.exp(epsilon))


def responses(value, count, epsilon, trials=20_000, seed=0):
    keys = jr.split(jr.key(seed), trials)
    draw = jax.jit(
        jax.vmap(lambda key: noise.randomized_response(key, value, 1.0 / epsilon, count))
    )
    return np.asarray(draw(keys))


def flipped_one_by_one(value, count, flip, trials=20_000):
    """Flips each bit separately, in NumPy."""
    bits = np.arange(count) < value
    flips = np.random.default_rng(0).random((trials, count)) < flip
    return (bits ^ flips).sum(axis=1)


def homogeneity(one, other):
    """The p-value that two samples of counts have one law, by chi-square; rare ones merged."""
    size = max(one.max(), other.max()) + 1
    table = np.stack([np.bincount(sample, minlength=size) for sample in (one, other)])
    frequent = table.sum(axis=0) >= 20
    table = np.column_stack([table[:, frequent], table[:, ~frequent].sum(axis=1)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize(("value", "count"), [(0, 12), (3, 12), (12, 12), (150, 400)])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_randomized_response_is_a_flip_of_each_bit(value, count, epsilon):
    """Another flip probability is rejected, unless half of the bits are 1 anyway."""
    drawn = responses(value, count, epsilon)
    assert drawn.dtype == np.int32
    assert homogeneity(drawn, flipped_one_by_one(value, count, flip_of(epsilon))) > 1e-3
    assert homogeneity(drawn, flipped_one_by_one(value, count, 1.2 * flip_of(epsilon))) < 1e-6


def test_randomized_response_at_the_edges():
    """Nothing is flipped at epsilon = inf, half of the bits near 0; counts reach 2^31 - 1."""
    largest = 2**31 - 1
    for value, count in ((0, 0), (0, 5), (5, 5), (largest, largest), (1, largest)):
        assert (responses(value, count, np.inf, 50) == value).all()
    assert (responses(0, 0, 1.0, 50) == 0).all()
    half = responses(3, 11, 1e-9)
    assert homogeneity(half, np.random.default_rng(1).binomial(11, 0.5, 20_000)) > 1e-3
    # The law of the sum of this many bits is normal.
    flip = flip_of(1.0)
    many = responses(largest, largest, 1.0, 2000).astype(np.float64)
    units = (many - largest * (1.0 - flip)) / np.sqrt(largest * flip * (1.0 - flip))
    assert (many <= largest).all() and (many >= 0).all()
    assert abs(units.mean()) < 4.0 / 2000**0.5 + 0.01 and units.std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_replay_charges_epsilon_for_a_bit_of_a_response(epsilon):
    """Nothing for no changed bit, epsilon for each changed one."""
    rule, site = RULES["flips"], Site("flips", None)

    def record_of(value, count=6):
        inputs = jr.key(0), jnp.int32(value), 1.0 / epsilon, jnp.int32(count)
        return record(rule, site, inputs, noise.randomized_response(*inputs))

    def pure(one, other):
        return float(rule.cost(site, record_of(one), record_of(other)).pure)

    assert pure(2, 2) == 0.0
    assert pure(2, 3) == pytest.approx(epsilon, rel=1e-6)
    assert pure(0, 6) == pytest.approx(6 * epsilon, rel=1e-6)
    # The number of bits is public, and part of the law.
    assert record_of(2, 6).law != record_of(2, 7).law


# Learners -------------------------------------------------------------------------------------

ZERO = jnp.zeros((), jnp.int32)


class Fed(NamedTuple):
    last: Any  # the last input


def keeping(action=ZERO, feedback=bandit, actions=Arms(2), start=0.0, **fields):  # noqa: B008
    """A learner that always plays one action and stores its inputs."""
    first = Fed(jnp.zeros(()) + start), action
    made = Learner(
        lambda key: first, lambda state, key, loss: (Fed(loss), action), feedback, actions, 8,
        Privacy(), lambda state: state.last,
    )  # fmt: skip
    return made._replace(**fields)


def fed(learner, losses, seed=0):
    """The state after the first round for each loss, with separate keys; and the clipped losses."""

    def one(key, loss):
        inside, clipped = clip_seen(learner, loss)
        return learner.report(learner.step(learner.init(key)[0], key, inside)[0]), clipped

    keys = jr.split(jr.key(seed), len(losses))
    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(keys, jnp.asarray(losses, jnp.float32))]


# Inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 10.0, 15.0, 40.0])
def test_a_float32_coin_tells_losses_apart_by_no_more_than_epsilon(monkeypatch, epsilon):
    """Its probabilities are multiples of 2^-23, like its draws, for losses at both ends.

    In between they are linear in the loss.
    """
    asked = []

    def record(key, probability):
        asked.append(np.float64(probability))
        return jnp.bool(True)

    monkeypatch.setattr(noise, "coin", record)
    learner = combinators.randomized_response(keeping(), epsilon=epsilon)
    state, _ = learner.init(jr.key(0))
    for loss in (0.0, 1.0, 0.999999, 1e-6, 0.3):
        learner.step(state, jr.key(1), jnp.float32(loss))
    low, high = asked[:2]
    assert (2.0**23 * low).is_integer() and high == 1.0 - low
    assert low <= min(asked) and max(asked) <= high
    assert asked[-1] == pytest.approx(low + (1.0 - 2.0 * low) * 0.3, rel=1e-6)
    assert np.log(high / low) <= epsilon
    assert np.log(high / low) >= (0.999 * epsilon - 2e-7 if epsilon <= 10.0 else 14.8)


def test_no_flips_at_infinite_epsilon_and_losses_are_clipped_and_counted():
    learner = combinators.randomized_response(keeping(), epsilon=np.inf)
    bits, clipped = fed(learner, [0.0, 1.0, -3.0, 7.0, np.inf, np.nan, -0.0])
    assert bits.tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert clipped.tolist() == [0, 0, 1, 1, 1, 1, 0]
    assert learner.horizon == 8 and learner.feedback is bandit


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_sums_of_bits_have_the_law_of_flips_one_by_one(epsilon):
    """12 rounds, 3 of them with loss 1: chi-square against loops; half the flips are rejected."""
    n, ones, batch = 20_000, 3, Batch(ZERO, jnp.int32(12))
    base = BatchLearner(
        lambda key: (ZERO, batch), lambda state, key, total: (total.whole, batch), bandit, Arms(2),
        16, Privacy(), lambda state: state,
    )  # fmt: skip
    learner = combinators.randomized_response(base, epsilon=epsilon)
    state, _ = learner.init(jr.key(0))
    step = jax.jit(jax.vmap(lambda key: learner.step(state, key, exact_sums.of(ones))[0]))
    drawn = np.asarray(learner.report(step(jr.split(jr.key(0), n))))
    assert drawn.dtype == np.int32
    for part, least, most in ((1.0, 1e-3, 1.0), (0.5, 0.0, 1e-6)):
        loops = flipped_one_by_one(ones, 12, part * flip_of(epsilon))
        assert least <= homogeneity(drawn, loops) <= most
    learner = combinators.every_round(learner)
    seen = [seen_inside(learner, jnp.array([loss, 0.2]), jnp.int32(0)) for loss in (0.7, np.nan)]
    assert [(float(bit), int(outside)) for bit, outside in seen] == [(1.0, 0), (0.0, 1)]


# Cost -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "make",
    [
        lambda epsilon: combinators.randomized_response(learners.kl_ucb(12, 3), epsilon=epsilon),
        lambda epsilon: combinators.randomized_response(
            combinators.minibatch(learners.kl_ucb(4, 3), 12, 3), epsilon=epsilon
        ),
        lambda epsilon: combinators.randomized_coordinate(
            learners.hedge(12, 3, epsilon=np.inf)._replace(privacy=Privacy()), epsilon=epsilon
        ),
    ],
    ids=["rounds", "batches", "coordinate"],
)
def test_a_changed_loss_touches_one_release_and_costs_epsilon(make):
    """A flip half as likely as it should be is found."""
    learner = make(1.0)
    pairs = audit.pairs_for(learner, 16, jr.key(0))
    found = audit.verdict(learner, pairs, jr.key(1))
    assert found.failed == () and found.touched == 1
    assert found.spent.max() == pytest.approx(1.0, rel=1e-5)
    halved = make(float(np.log(2.0 * (1.0 + np.e) - 1.0)))._replace(privacy=learner.privacy)
    found = audit.verdict(halved, pairs, jr.key(1))
    assert found.failed == ("epsilon",) and found.spent.max() == pytest.approx(1.862, rel=1e-3)


# Declarations ---------------------------------------------------------------------------------


def test_the_declaration_is_local():
    for base in (learners.kl_ucb(8, 2), learners.ttucb(8, 2)):
        declared = combinators.randomized_response(base, epsilon=0.3).privacy
        assert (declared.epsilon, declared.delta, declared.model) == (0.3, 0.0, "local")
        assert (declared.unit, declared.released) == ("round", "randomized losses 1..T")
    # Averages of losses that share one coin are central, and still private.
    batched = combinators.minibatch(
        combinators.randomized_response(learners.tsallis_inf(8, 2), epsilon=0.3), 8, 2
    )
    assert batched.privacy.model == "central"
    scaled = combinators.rescale_losses(
        combinators.randomized_response(learners.kl_ucb(8, 2), epsilon=0.3), -1.0, 1.0
    )
    assert scaled.privacy.loss_range == (-1.0, 1.0) and scaled.privacy.model == "local"


def test_a_traced_base_is_accepted_without_privacy_and_gives_nan_with_it():
    @jax.jit
    @jax.vmap
    def regret(epsilon):
        learner = combinators.randomized_response(
            learners.dp_imed(32, 2, epsilon=epsilon), epsilon=1.0
        )
        environment = environments.bernoulli([0.2, 0.8])
        return simulate(learner, environment, jr.key(0), checkpoints=1).regret

    found = regret(jnp.array([jnp.inf, 1.0]))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


# One loss of many -----------------------------------------------------------------------------


def test_one_loss_is_sent_and_half_stands_for_the_others():
    """Each position is equally likely, and has a bit from randomized response."""
    n, losses = 30_000, np.array([0.0, 0.4, 1.0], np.float32)
    base = keeping(feedback=full, actions=Arms(3), start=jnp.zeros(3))
    learner = combinators.randomized_coordinate(base, epsilon=1.0)
    vectors, clipped = fed(learner, np.tile(losses, (n, 1)))
    sent = vectors != 0.5
    assert (sent.sum(axis=1) == 1).all() and not clipped.any()
    assert stats.chisquare(sent.sum(axis=0)).pvalue > 1e-3
    for place, loss in enumerate(losses):
        bits = vectors[sent[:, place], place]
        expected = flip_of(1.0) + (1.0 - 2.0 * flip_of(1.0)) * float(loss)
        assert stats.binomtest(int(bits.sum()), len(bits), expected).pvalue > 1e-3
    assert fed(learner, [[2.0, 0.5, np.nan]])[1] == 2
    assert learner.privacy[0] == 1.0 and learner.privacy.model == "local"


# The reduction --------------------------------------------------------------------------------

POINT = (0.6, -0.3, 0.1)


def base_of(point=None):
    """A base that sees one number, which is linear in its point, or that of an arm."""
    if point is None:
        return keeping(feedback=linear, actions=Arms(1), clip=unclipped)
    point = jnp.asarray(point, jnp.float32)
    return keeping(point, linear, None, clip=unclipped)


def asked(monkeypatch, learner, loss=0.25):
    """The scale passed to the Laplace draw, and the point, if any, along which it is drawn."""
    passed = []
    with monkeypatch.context() as patch:
        for name in ("__call__", "along"):
            record = lambda law, key, value, *rest: passed.append(rest) or value  # noqa: E731
            patch.setattr(noise.Law, name, record)
        learner.step(learner.init(jr.key(0))[0], jr.key(1), jnp.float32(loss))
    ((scale, *points),) = passed
    return float(scale), points


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
            learner = combinators.private_reduction(
                base, epsilon=epsilon, calibration=calibration, **given
            )
            scale, points = asked(monkeypatch, learner)
            assert scale == pytest.approx(size / epsilon, rel=1e-6)
            np.testing.assert_array_equal(points, [np.float32(POINT)] * ("noise" in given))


def test_clips_before_noise_and_counts():
    """Values out of range are clipped and counted; an end of the range and its rounding are not."""
    losses = [-1.0, 1.0, 1.0 + 1e-7, -4.0, 3.0, np.inf, 0.5]
    for learner in (
        combinators.private_reduction(base_of(), epsilon=jnp.inf),
        combinators.private_reduction(
            base_of((1.0, 0.0)), epsilon=jnp.inf, noise="vector", norm=9.0
        ),
    ):
        value, count = fed(learner, losses)
        np.testing.assert_allclose(value, [-1, 1, 1, -1, 1, 1, 0.5], atol=2e-7)
        assert count.tolist() == [0, 0, 0, 1, 1, 1, 0]


def test_vector_noise_clips_to_what_the_point_allows():
    """No l of norm 1/2 has <l, x> above |x|_inf / 2, so noise need not hide larger values."""
    learner = combinators.private_reduction(
        base_of(POINT), epsilon=jnp.inf, noise="vector", norm=0.5
    )
    value, _ = fed(learner, [0.9, -0.9, 0.29])
    np.testing.assert_allclose(value, [0.3, -0.3, 0.29], rtol=1e-6)
    # If the point is 0, the round reveals nothing.
    value, _ = fed(
        combinators.private_reduction(base_of((0.0, 0.0)), epsilon=1.0, noise="vector", norm=0.5),
        [0.9],
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
    scale, _ = asked(monkeypatch, learners.scrible(64, domains.cube(3), **arguments))
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
    learner = combinators.private_reduction(
        base, epsilon=0.3, loss_range=(-2.0, 1.0), calibration="printed"
    )
    assert float(learner.privacy.epsilon) == pytest.approx(0.45)
    assert (learner.privacy.delta, learner.privacy.paper_epsilon) == (0.0, 0.3)
    derived = combinators.private_reduction(base, epsilon=0.3, loss_range=(-2.0, 1.0)).privacy
    assert derived[:2] == (0.3, 0.0) and np.isnan(derived.paper_epsilon)
    for low, signs in ((-1.0, 2.0), (0.0, 1.0)):
        vector = combinators.private_reduction(
            base_of(POINT), epsilon=0.3, loss_range=(low, 1.0), noise="vector", norm=2.5,
            calibration="printed",
        )  # fmt: skip
        assert float(vector.privacy.epsilon) == pytest.approx(0.3 * signs)
    assert learner.privacy.loss_range == (-2.0, 1.0)
    assert (learner.privacy.model, learner.privacy.calibration) == ("local", "printed")
    assert (learner.horizon, learner.feedback) == (base.horizon, base.feedback)
