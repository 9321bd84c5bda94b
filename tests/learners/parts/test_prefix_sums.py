"""Loss set, mechanism and epsilon together: the calibration, its reading, its errors."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, mechanisms, privacy
from dpjax.learners.ftrl import printed_scale
from dpjax.learners.parts.prefix_sums import calibrate, noise_length, prefix_sums

SETS = {
    "experts in [-1, 1]": lambda d: domains.box_losses(d),
    "experts in [0, 1]": lambda d: domains.box_losses(d, 0.0, 1.0),
    "sphere": lambda d: domains.ball_losses(d),
    "cube": lambda d: domains.l1_losses(d),
}
FACTORIES = [name for name in mechanisms.__all__ if name != "exact"]


def build(horizon, losses, *, epsilon=1.0, delta=None, mechanism=mechanisms.tree, **options):
    noise = "laplace" if delta is None else "gaussian"
    return prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise, **options
    )


def largest_change(losses, neighbours, unit, order):
    """By brute force over the extreme vectors of a set in two or three dimensions."""
    rng = np.random.default_rng(0)
    directions = np.concatenate([rng.normal(size=(500, losses.dim)), np.eye(losses.dim)])
    directions = np.concatenate([directions, -directions, np.sign(directions[:500])])
    points = np.asarray(jax.vmap(losses.maximizer)(jnp.asarray(directions, jnp.float32)))
    others = np.zeros((1, losses.dim)) if neighbours == "zero_out" else points
    if unit == "round":
        change = points[:, None] - others[None]
        return np.linalg.norm(change, order, axis=-1).max()
    values = points[:, 0]
    return np.abs(values).max() if neighbours == "zero_out" else np.ptp(values)


@pytest.mark.parametrize("neighbours", ["replace", "zero_out"])
@pytest.mark.parametrize("unit", ["round", "entry"])
@pytest.mark.parametrize("name", SETS)
def test_sensitivity_is_the_largest_change_of_a_loss_vector(name, unit, neighbours):
    """L1 and L2, attained and not exceeded."""
    losses = SETS[name](3)
    declared = domains.sensitivity(losses, neighbours, unit)
    for order, value in zip((1, 2), declared, strict=True):
        found = largest_change(losses, neighbours, unit, order)
        assert found <= value * (1 + 1e-5)
        assert found >= value * 0.99


@pytest.mark.parametrize("name", FACTORIES)
def test_scale_follows_from_the_two_sensitivities(name):
    """scale epsilon = |C|_1 Delta_1; Gaussian: |C|_2 Delta_2 / scale is mu(epsilon, delta)."""
    mechanism = getattr(mechanisms, name)
    for losses in (make(5) for make in SETS.values()):
        for neighbours in ("replace", "zero_out"):
            change = domains.sensitivity(losses, neighbours, "round")
            encoder = mechanism(100, noise="laplace").sensitivity[0]
            laplace = build(100, losses, epsilon=0.5, mechanism=mechanism, neighbours=neighbours)
            assert laplace.scale * 0.5 == pytest.approx(encoder * change[0], rel=1e-6)
            encoder = mechanism(100, noise="gaussian").sensitivity[1]
            gaussian = build(
                100, losses, epsilon=0.5, delta=1e-5, mechanism=mechanism, neighbours=neighbours
            )
            mu = encoder * change[1] / gaussian.scale
            assert privacy.gaussian_delta(mu, 0.5) == pytest.approx(1e-5, rel=1e-3)
            assert gaussian.privacy.rho == pytest.approx(float(mu) ** 2 / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("experts in [-1, 1]", 2 * 8 * 10),
        ("experts in [0, 1]", 8 * 10),
        ("sphere", 2 * 8**0.5 * 10),
        ("cube", 2 * 10),
    ],
)
def test_the_papers_instances_on_the_tree(name, scale):
    """Delta_1 ceil(log2 T) / epsilon: 10 levels for T = 1000 and 1024, 11 for 1025."""
    for horizon, levels in [(1000, 10), (1024, 10), (1025, 11), (2, 1), (1, 0)]:
        sums = build(horizon, SETS[name](8), epsilon=2.0)
        assert sums.scale == pytest.approx(scale / 10 * levels / 2.0, rel=1e-6)


def worst_log_ratio(scale, horizon, change):
    """The largest log-ratio of the densities of all releases of a Laplace tree, exactly.

    Round 1 changes. The releases at the powers of two determine each node with this round, and
    nothing else depends on it: independent Laplace coordinates, each shifted by ``change`` (d,).
    """
    nodes = (horizon - 1).bit_length()
    return nodes * np.abs(change).sum() / scale


def check_calibration(scale, horizon, change, epsilon):
    np.testing.assert_allclose(worst_log_ratio(float(scale), horizon, change), epsilon, rtol=1e-5)


def test_declared_epsilon_is_that_of_the_worst_pair_and_no_other_scale_passes():
    """Tight for replaced rounds; each common mistake is found: it declares less than it spends."""
    horizon, dim, epsilon = 1024, 4, 0.7
    worst = np.full(dim, 2.0)  # from -1 to 1 in each entry
    scale = build(horizon, domains.box_losses(dim), epsilon=epsilon).scale
    check_calibration(scale, horizon, worst, epsilon)
    slips = {
        "half the noise": scale / 2,
        "one level fewer": scale * 9 / 10,
        "radius for diameter": build(
            horizon, domains.box_losses(dim), epsilon=epsilon, neighbours="zero_out"
        ).scale,
        "natural logarithm": scale * np.log(horizon) / np.log2(horizon),
        "L2 for L1": scale / dim**0.5,
    }
    for wrong in slips.values():
        assert worst_log_ratio(float(wrong), horizon, worst) > 1.05 * epsilon
        with pytest.raises(AssertionError):
            check_calibration(wrong, horizon, worst, epsilon)


def test_the_reading_under_which_the_printed_scale_is_right():
    """Zeroed out rounds, or experts in [0, 1]; replaced rounds of symmetric sets: 2 epsilon."""
    horizon, dim, epsilon = 1024, 4, 0.7
    for losses, change, ratio in [
        (domains.box_losses(dim), np.full(dim, 1.0), 1.0),  # a vector against 0
        (domains.box_losses(dim, 0.0, 1.0), np.full(dim, 1.0), 1.0),  # 0 against 1
        (domains.box_losses(dim), np.full(dim, 2.0), 2.0),  # -1 against 1
    ]:
        scale = printed_scale(horizon, losses, epsilon)
        check_calibration(scale, horizon, change, ratio * epsilon)


def test_balanced_pairs_on_the_simplex_show_what_a_common_shift_hides():
    """A shift of all entries does not change softmax(-eta L); (+1, -1, ...) does."""
    argmin = domains.simplex(4).regularizer.argmin
    total = jnp.array([0.3, -0.2, 0.5, 0.1])
    np.testing.assert_allclose(argmin(total + 1.0), argmin(total), rtol=1e-6)
    balanced = jnp.array([1.0, -1.0, 1.0, -1.0])
    assert np.abs(argmin(total + balanced) - argmin(total)).max() > 0.1


def replay(sums, key):
    """A function from losses (T, d) to releases (T, d), the empty prefix first, and clip counts.

    It is one program for all sequences that a test compares.
    """

    @jax.jit
    def releases(losses):
        def one_round(state, round_and_loss):
            t, loss = round_and_loss
            inside, clipped = sums.clip(loss)
            state, release = sums.step(state, jr.fold_in(key, t), inside)
            return state, (release, clipped)

        state, first = sums.init(jr.fold_in(key, 0))
        rounds = jnp.arange(1, len(losses))
        _, (rest, clipped) = jax.lax.scan(one_round, state, (rounds, losses[:-1]))
        return jnp.concatenate([first[None], rest]), clipped.sum()

    return releases


@pytest.mark.parametrize("name", FACTORIES)
def test_a_changed_round_moves_later_releases_by_itself_and_earlier_ones_not(name):
    """Replay under one key: the difference is A e_t d, and C e_t d is within the calibration."""
    losses = domains.box_losses(2)
    sums = build(12, losses, epsilon=1.0, mechanism=getattr(mechanisms, name))
    sequence = np.asarray(jr.uniform(jr.key(1), (12, 2), minval=-1, maxval=1))
    _, encoder = getattr(mechanisms, name)(12, noise="laplace").matrices()
    releases = replay(sums, jr.key(2))
    before, _ = releases(sequence)
    shifts = []
    for t in (1, 4, 8, 11):
        changed = sequence.copy()
        changed[t - 1] = np.where(sequence[t - 1] > 0, -1.0, 1.0)
        difference = changed[t - 1] - sequence[t - 1]
        after, _ = releases(changed)
        expected = (np.arange(12) >= t)[:, None] * difference
        np.testing.assert_allclose(after - before, expected, atol=1e-4)
        shifts.append(np.abs(encoder[:, t - 1]).sum() * 4.0)  # the extreme change, of L1 norm 4
    assert max(shifts) <= float(sums.scale) * (1 + 1e-6)
    assert max(shifts) > float(sums.scale) / 2  # half the scale is too small


def test_losses_are_clipped_and_counted_and_those_on_the_border_are_not():
    sums = build(8, domains.ball_losses(3), epsilon=np.inf)
    directions = np.asarray(jr.normal(jr.key(0), (8, 3)))
    border = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    releases = replay(sums, jr.key(0))
    rows, clipped = releases(border.astype(np.float32))
    assert clipped == 0
    np.testing.assert_allclose(rows[1:], np.cumsum(border, axis=0)[:-1], atol=1e-5)
    rows, clipped = releases(3.0 * border.astype(np.float32))
    assert clipped == 7
    np.testing.assert_allclose(rows[1:], np.cumsum(border, axis=0)[:-1], atol=1e-5)


def test_the_exact_mechanism_declares_nothing():
    for delta in (None, 1e-6):
        sums = build(8, domains.box_losses(2), delta=delta, mechanism=mechanisms.exact)
        assert sums.privacy.epsilon == np.inf and sums.scale == 0.0


def shorter(horizon, **options):
    return mechanisms.tree(horizon - 1, **options)


def of_another_law(horizon, *, noise):
    return mechanisms.tree(horizon, noise="gaussian" if noise == "laplace" else "laplace")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": "gaussian"}, "delta must be given if noise is gaussian"),
        ({"delta": 1e-6}, "delta must be left out if noise is laplace"),
        ({"noise": "gaussian", "delta": 1.0}, "delta must be strictly between 0 and 1"),
        (
            {"noise": "cauchy"},
            "noise must be one of laplace, gaussian, discrete_laplace, discrete_gaussian, skellam, "
            "logistic; got 'c",
        ),
        ({"neighbours": "add"}, "neighbours must be one of replace, zero_out; got 'add'"),
        ({"unit": "user"}, "unit must be one of round, entry; got 'user'"),
        ({"mechanism": shorter}, "mechanism covers 7 rounds, fewer than the horizon, 8"),
        (
            {"mechanism": of_another_law},
            "mechanism has gaussian noise, but the learner needs laplace",
        ),
        ({"mechanism": mechanisms.kary, "printed_scale": 1.0}, "calibration: the printed scale"),
        ({"epsilon": 0.0}, "epsilon must be greater than 0"),
        ({"epsilon": float("nan")}, "epsilon must be greater than 0"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(changes, message):
    arguments = {"epsilon": 1.0, "delta": None, "mechanism": mechanisms.tree, "noise": "laplace"}
    with pytest.raises(ValueError, match=message):
        prefix_sums(8, domains.box_losses(2), **{**arguments, **changes})


def test_a_partial_of_the_tree_is_the_tree():
    tree = partial(mechanisms.tree, identical_law=True)
    sums = build(8, domains.box_losses(2), mechanism=tree, printed_scale=2.5)
    assert sums.scale == 2.5 and sums.privacy.calibration == "printed"


@pytest.mark.parametrize("noise, size, draw", [("laplace", 0, 2.0), ("gaussian", 1, 1.0)])
def test_deviations_are_the_rows_of_the_decoder_times_a_draw(noise, size, draw):
    """From the mechanism's matrices, at epsilon = 1 for a change of 1 in the mechanism's norm."""
    delta = 1e-6 if size else None
    found = calibrate(
        12, (), (1.0, 1.0), epsilon=1.0, delta=delta, mechanism=mechanisms.kary, noise=noise,
        value_range=(0.0, 1.0), loss_range=(0.0, 1.0),
    )  # fmt: skip
    decoder, encoder = found.mechanism.matrices()
    if size:
        scale = privacy.gaussian_scale(np.linalg.norm(encoder, axis=0).max(), 1.0, delta)
    else:
        scale = np.abs(encoder).sum(axis=0).max()
    exact = float(scale) * np.sqrt(draw) * np.linalg.norm(decoder, axis=1)
    np.testing.assert_allclose(found.deviation(), exact, rtol=1e-5)
    np.testing.assert_allclose(found.deviation(np.arange(3, 9)), exact[3:9], rtol=1e-5)
    assert not np.allclose(0.5 * found.deviation(), exact, rtol=0.1)


@pytest.mark.parametrize("law", ["laplace", "gaussian", "discrete_gaussian", "skellam"])
def test_the_length_of_the_noise_is_known_at_a_traced_epsilon(law):
    """As for a plain one: sweeps trace it, and rates depend on it."""

    def length(epsilon):
        delta = None if law == "laplace" else 1e-5
        sums = prefix_sums(
            8, domains.box_losses(2), epsilon=epsilon, delta=delta, mechanism=mechanisms.tree,
            noise=law,
        )  # fmt: skip
        return noise_length(8, 2, sums)

    assert float(jax.jit(length)(0.5)) == pytest.approx(float(length(0.5)), rel=1e-6)
    assert float(length(0.25)) > 1.5 * float(length(0.5))
