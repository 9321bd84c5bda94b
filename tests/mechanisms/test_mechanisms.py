"""Mechanisms: theorems and exact matrices first, then laws by tests with proven power.

Everything in ``mechanisms.__all__`` is tested by all tests, as are the variants below. The only
exception is ``exact`` in tests of noise, which it does not have.
"""

import inspect
from collections import Counter
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax import random as jr
from scipy import stats
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from dpjax import mechanisms, noise
from dpjax.mechanisms.buffered_parameters import BUFFERED
from dpjax.mechanisms.kary import best_branching

ALL = {name: getattr(mechanisms, name) for name in mechanisms.__all__} | {
    "tree, one law": partial(mechanisms.tree, identical_law=True),
    "tree, one law, gaussian": partial(mechanisms.tree, identical_law=True, noise="gaussian"),
    "kary, k = 3": partial(mechanisms.kary, k=3),
    "kary, gaussian": partial(mechanisms.kary, noise="gaussian"),
    "hybrid, gaussian": partial(mechanisms.hybrid, noise="gaussian"),
    "hybrid, totals": partial(mechanisms.hybrid, totals="separate"),
    "hybrid, totals, gaussian": partial(mechanisms.hybrid, totals="separate", noise="gaussian"),
    "per_item, gaussian": partial(mechanisms.per_item, noise="gaussian"),
    "buffered, two": partial(mechanisms.buffered, parameters=((0.9, 0.5), (0.3, 0.4))),
    "square_root, normalized": partial(mechanisms.square_root, normalized=True),
    "buffered, normalized": partial(mechanisms.buffered, normalized=True),
}
NOISY = [name for name in ALL if name != "exact"]
every = pytest.mark.parametrize("name", ALL)
every_noisy = pytest.mark.parametrize("name", NOISY)

ULP = 2.0**-23


def law(name):
    """A variant's noise, as in its signature."""
    return inspect.signature(ALL[name]).parameters["noise"].default


def play(factory, horizon, key, scale, values):
    """Releases of the prefixes 0 .. n of values (n, ...), under the keys fold_in(key, t)."""
    stream = factory(horizon).stream(values.shape[1:], scale=scale)
    state, first = stream.init(jr.fold_in(key, 0))
    rounds = jnp.arange(1, len(values) + 1)
    _, rest = lax.scan(
        lambda state, at: stream.step(state, jr.fold_in(key, at[0]), at[1]), state, (rounds, values)
    )
    return jnp.concatenate([first[None], rest])


def product(left, right):
    """The matrix product without BLAS, whose threads stall if workers share the cores."""
    return np.einsum("ij,jk->ik", left, right)


# One compiled program per variant serves most tests, in many lanes.
HORIZON, SHAPE, LANES = 21, (2,), 2000
ZEROS = np.zeros((LANES, HORIZON, *SHAPE), np.float32)
traces = Counter()


@lru_cache
def lanes(name):
    """(keys, scales, values (T, *SHAPE)) per lane -> releases 0 .. T, one more than needed."""

    def lane(key, scale, values):
        traces[name] += 1
        return play(ALL[name], HORIZON, key, scale, values)

    return jax.jit(jax.vmap(lane))


def keys(seed):
    return jr.split(jr.key(seed), LANES)


def scales(scale):
    return jnp.full(LANES, scale, jnp.float32)


# --- the factorization ---


def check_factorization(mechanism, horizon):
    """A = B C, and the declared properties of B and C hold with equality."""
    decoder, encoder = mechanism.matrices()
    prefixes, count = np.tri(horizon, horizon - 1, -1), horizon - 1
    assert decoder.shape == (horizon, len(encoder)) and encoder.shape == (len(encoder), count)
    if count <= 64:
        np.testing.assert_allclose(product(decoder, encoder), prefixes, rtol=0, atol=1e-9)
    # Random projections differ with probability 1 if the products do.
    probes = np.random.default_rng(0).normal(size=(count, 2))
    found = product(decoder, product(encoder, probes))
    np.testing.assert_allclose(found, product(prefixes, probes), rtol=0, atol=1e-9)
    if np.isinf(mechanism.sensitivity[0]):
        # No noise: B z is 0 for B = A and z = 0, and C = I is hidden by nothing.
        assert mechanism.sensitivity == (np.inf, np.inf)
        np.testing.assert_array_equal(decoder, prefixes)
        np.testing.assert_array_equal(mechanism.variance(), np.zeros(horizon))
        return
    columns = np.abs(encoder).sum(0), np.sqrt((encoder**2).sum(0))
    norms = [column.max(initial=0.0) for column in columns]
    np.testing.assert_allclose(mechanism.sensitivity, norms, rtol=1e-12)
    assert mechanism.variance().shape == (horizon,)
    np.testing.assert_allclose(mechanism.variance(), (decoder**2).sum(1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in ALL if name != "tree, one law, gaussian"])
def test_the_factorization_of_every_size(name):
    """N = 0 .. 300, and around powers of 2 and of 10."""
    for count in [*range(301), 511, 512, 513, 1000, 1023, 1024, 1025]:
        mechanism = ALL[name](count + 1)
        assert mechanism.horizon == count + 1
        check_factorization(mechanism, count + 1)


def test_the_factorization_test_has_power():
    """It rejects a level too few, half the scale, or a wrong variance or matrix."""
    tree = mechanisms.tree(64)
    decoder, encoder = tree.matrices()
    fewer = mechanisms.tree(32).sensitivity
    longest = encoder.sum(1) < 32  # without the highest level
    wrong = [
        {"sensitivity": fewer},
        {"sensitivity": (tree.sensitivity[0] / 2, tree.sensitivity[1] / 2)},
        {"sensitivity": (tree.sensitivity[0], fewer[1])},
        {"sensitivity": (tree.sensitivity[0] + 1, tree.sensitivity[1])},  # safe, but not tight
        {"variance": lambda: mechanisms.honaker(64).variance()},
        {"matrices": lambda: (decoder[:, longest], encoder[longest])},
        {"matrices": lambda: (decoder[::-1], encoder)},
    ]
    check_factorization(tree, 64)
    for replaced in wrong:
        with pytest.raises(AssertionError):
            check_factorization(tree._replace(**replaced), 64)


@every_noisy
def test_the_sensitivity_is_the_privacy_loss_for_adaptive_values(name):
    """With a change of one value and shifted noise, releases agree, at the declared cost.

    The values and the change itself depend on the earlier releases.
    """
    horizon = 14
    mechanism = ALL[name](horizon)
    decoder, encoder = mechanism.matrices()
    rng = np.random.default_rng(1)

    def releases(draws, changed=None):
        total, seen = 0.0, []
        for t in range(horizon):
            seen.append(decoder[t] @ draws + total)
            total += np.cos(sum(seen)) + (change(seen) if t + 1 == changed else 0.0)
        return seen

    def change(seen):
        return 1.0 + np.sin(sum(seen)) / 2

    worst = np.zeros(2)
    for value in range(1, horizon):
        column = encoder[:, value - 1]
        # The shift that offsets a change affects no earlier release, so the change may depend on
        # them.
        np.testing.assert_allclose(decoder[:value] @ column, 0, atol=1e-12)
        draws = rng.laplace(size=len(encoder))
        before = releases(draws)
        shifted = draws - change(before[:value]) * column
        np.testing.assert_allclose(releases(shifted, value), before, atol=1e-9)
        # The log-ratio of Laplace densities is largest if all draws have the signs of the shift.
        loss = np.abs(draws + column).sum() - np.abs(draws).sum()
        assert loss <= mechanism.sensitivity[0] + 1e-9
        draws = np.abs(draws) * np.sign(column)
        loss = np.abs(draws + column).sum() - np.abs(draws).sum()
        worst = np.maximum(worst, [loss, np.sqrt((column**2).sum())])
    np.testing.assert_allclose(worst, mechanism.sensitivity, rtol=1e-9)


# --- both back ends, exactly ---


WIDTH = 384  # more than any of them draws; one for all, so that kernels are reused


def as_rows_of_draws(monkeypatch):
    """Every scalar draw becomes a new unit vector, so that the noise is its own matrix.

    No key may draw twice.
    """
    drawn, used = [0], set()

    def unit_vectors(law, key, value, scale):
        name = jr.key_data(key).tobytes()
        assert name not in used, "a key is used twice"
        used.add(name)
        rows = np.zeros((value.size // WIDTH, WIDTH), np.float32)
        rows[np.arange(len(rows)), drawn[0] + np.arange(len(rows))] = 1.0
        drawn[0] += len(rows)
        return value + scale * jnp.asarray(rows.reshape(value.shape))

    monkeypatch.setattr(noise.Law, "__call__", unit_vectors)


def check_rows(rows, decoder, one_by_one):
    """The noise matrix is B up to a rotation of the draws or, one by one, up to signs."""
    largest = max(1.0, (decoder**2).sum(1).max())
    rows = np.asarray(rows, np.float64)
    squares = product(rows, rows.T), product(decoder, decoder.T)
    np.testing.assert_allclose(*squares, rtol=0, atol=4 * ULP * largest)
    if one_by_one:
        found, expected = (signed_columns(matrix) for matrix in (rows, decoder))
        assert found.shape == expected.shape
        apart = cdist(found, expected, "chebyshev")
        assert apart[linear_sum_assignment(apart)].max(initial=0.0) < 4 * ULP * largest


def signed_columns(matrix):
    """The nonzero columns, with the first entry of each made positive."""
    columns = matrix.T[np.abs(matrix.T).max(axis=1, initial=0.0) > 1e-6]
    first = np.argmax(np.abs(columns) > 1e-6, axis=1)
    return columns * np.sign(columns[np.arange(len(columns)), first])[:, None]


@every_noisy
@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 41])
def test_noise_is_b_times_independent_draws(name, horizon, monkeypatch):
    """A stream makes each release from the draws in its row of B.

    Gaussian draws may be rotated. Laplace draws must match one by one.
    """
    decoder, _ = ALL[name](horizon).matrices()
    with jax.disable_jit():
        as_rows_of_draws(monkeypatch)
        values = jnp.zeros((horizon, WIDTH), jnp.float32)
        # One step more than is released: unused, but it has to run.
        rows = play(ALL[name], horizon, jr.key(0), 1.0, values)
        assert rows.shape == (horizon + 1, WIDTH) and np.isfinite(rows).all()
        check_rows(rows[:horizon], decoder, law(name) == "laplace")


def test_the_test_of_rows_has_power():
    """A missing draw, one draw used twice, a wrong sign, half the scale."""
    decoder, _ = mechanisms.kary(41, k=3).matrices()
    check_rows(-decoder[:, ::-1], decoder, True)
    alone, merged = np.eye(3)[:, :1], np.array([[1.0, 1.0, 0.0], [0, 0, 0], [0, 0, 0]])
    check_rows(np.sqrt(2) * alone, merged, False)
    fewer, negative = decoder.copy(), decoder.copy()
    fewer[40, np.argmax(decoder[40] != 0)] = 0
    # The sign of a whole column is that of its draw, and arbitrary.
    row, column = np.argwhere((decoder < 0) & ((decoder != 0).sum(0) > 1))[0]
    negative[row, column] *= -1
    wrong = [(np.sqrt(2) * alone, merged), (fewer, decoder), (negative, decoder)]
    for rows, expected in [*wrong, (decoder / 2, decoder), (np.roll(decoder, 1, 0), decoder)]:
        with pytest.raises(AssertionError):
            check_rows(rows, expected, True)


# --- the law of the noise, by sampling ---

SCALE = 0.7


@lru_cache
def samples(name):
    """Noise of 20 000 streams, (20000, T, 2)."""
    runs = [lanes(name)(keys(seed), scales(SCALE), ZEROS) for seed in range(10, 20)]
    return np.concatenate(runs).astype(np.float64)[:, :HORIZON]


def check_covariance(draws, expected):
    """Every second moment is within 5.5 of its standard errors; means are 0."""
    n = len(draws)
    draws = draws.reshape(n, -1)
    moments = product(draws.T, draws) / n
    error = np.sqrt((product((draws**2).T, draws**2) / n - moments**2) / n)
    assert (np.abs(moments - expected) <= 5.5 * error + 1e-12).all()
    assert (np.abs(draws.mean(0)) <= 5.5 * np.sqrt(np.diag(moments) / n) + 1e-12).all()


def covariance(name):
    """Covariance of the noise over prefixes and coordinates, in units of the scale."""
    decoder, _ = ALL[name](HORIZON).matrices()
    rows = decoder @ decoder.T if name != "exact" else np.zeros((HORIZON, HORIZON))
    return (2 if law(name) == "laplace" else 1) * np.kron(rows, np.eye(2))


@every
def test_covariance_of_the_noise(name):
    """scale^2 B B^T (Laplace: twice that), on 20 000 draws; a tenth off is rejected."""
    draws, expected = samples(name), SCALE**2 * covariance(name)
    check_covariance(draws, expected)
    if name != "exact":
        for factor in (0.5, 0.9, 1.1):
            with pytest.raises(AssertionError):
                check_covariance(factor * draws, expected)


@pytest.mark.parametrize(("name", "draws"), [("tree, one law", 5), ("smooth", 4)])
def test_one_law_for_all_prefixes(name, draws):
    """Kolmogorov-Smirnov on 40 000 numbers: 5 (for 8 bits: 4) Laplace draws, at t = 0 as later.

    One draw more, one draw fewer, and one wide draw instead of all are rejected.
    """
    by_time = samples(name).transpose(1, 0, 2).reshape(HORIZON, -1)
    fresh = SCALE * np.random.default_rng(2).laplace(size=(6, by_time.shape[1]))
    half = by_time.shape[1] // 2
    for t in (0, 1, 2, 15, 16, 20):
        assert stats.ks_2samp(by_time[t], fresh[:draws].sum(0)).pvalue > 1e-3
        # Prefixes of one stream share draws, so these come from different streams.
        assert stats.ks_2samp(by_time[t][:half], by_time[7][half:]).pvalue > 1e-3
    wrong = fresh[: draws - 1].sum(0), fresh[: draws + 1].sum(0), np.sqrt(draws) * fresh[0]
    for sums in wrong:
        assert stats.ks_2samp(by_time[0], sums).pvalue < 1e-6


def test_without_completion_laws_differ():
    """The plain tree has as many draws as set bits: one at t = 1 and four at t = 15."""
    by_time = samples("tree").transpose(1, 0, 2).reshape(HORIZON, -1)
    assert (by_time[0] == 0).all()
    assert stats.ks_2samp(by_time[1], by_time[15]).pvalue < 1e-6
    assert stats.ks_2samp(by_time[1], by_time[16]).pvalue > 1e-3
    bits = [t.bit_count() for t in range(HORIZON)]
    np.testing.assert_array_equal(mechanisms.tree(HORIZON).variance(), bits)


# --- size of the noise ---

# N, factory, its arguments, and the printed mean and largest variance over the prefixes 1 .. N:
# times the squared L2 sensitivity for Gaussian noise (2 rho = 1), or twice the squared L1
# sensitivity for Laplace noise (epsilon = 1).
GAUSSIAN = [
    (1023, "tree", {}, "50.05", "100"),
    (1023, "tree", {"identical_law": True}, "100", "100"),
    (1023, "honaker", {}, "29.0", "58.0"),
    (1023, "smooth", {}, "42", "42"),
    (1023, "kary", {"k": 3}, "32.2", "49"),
    (1023, "kary", {"k": 7}, "26.6", "48"),
    (1023, "kary", {"noise": "gaussian"}, "26.6", "48"),
    (1023, "per_item", {}, "512", "1023"),
    (1023, "square_root", {}, "9.67", "10.71"),
    (1023, "stationary", {}, "10.16", "10.16"),
    (1024, "buffered", {}, "9.673", "10.712"),
    (1023, "square_root", {"normalized": True}, "8.946", "9.489"),
    (1023, "buffered", {"normalized": True}, "8.949", "9.489"),
    (4096, "square_root", {}, "12.61", "13.79"),
    (4096, "buffered", {}, "12.62", "13.81"),
    (64, "tree", {}, "21.1", "42"),
    (64, "honaker", {}, "13.3", "26.6"),
    (64, "square_root", {}, "4.97", "5.71"),
]
LAPLACE = [
    (1023, "tree", {}, "1001", "2000"),
    (1023, "tree", {"identical_law": True}, "2000", "2000"),
    (1023, "honaker", {}, "581", "1161"),
    (1023, "smooth", {}, "504", "504"),
    (1023, "kary", {"k": 3}, "451", "686"),
    (1023, "kary", {"k": 7}, "213", "384"),
    (1023, "kary", {"k": 13}, "170.5", "324"),
    (1023, "kary", {}, "170.5", "324"),
    (1023, "per_item", {}, "1024", "2046"),
    (1023, "square_root", {}, "7696", "8522"),
]


@pytest.mark.parametrize("table", ["gaussian", "laplace"])
def test_variance_at_equal_privacy(table):
    """To the printed digits."""
    for count, name, arguments, mean, largest in GAUSSIAN if table == "gaussian" else LAPLACE:
        mechanism = getattr(mechanisms, name)(count + 1, **arguments)
        l1, l2 = mechanism.sensitivity
        variance = mechanism.variance()[1:] * (l2**2 if table == "gaussian" else 2 * l1**2)
        for value, printed in ((variance.mean(), mean), (variance.max(), largest)):
            assert f"{value:.{len(printed.partition('.')[2])}f}" == printed, (name, arguments)


def test_the_best_branching_is_the_best():
    """Against all odd k, N = 1 .. 60, both laws; the least of equal ones."""
    for count in range(1, 61):
        costs = {"laplace": {}, "gaussian": {}}
        for k in range(3, max(2 * count + 1, 3) + 1, 2):
            mechanism = mechanisms.kary(count + 1, k=k)
            for name, norm in zip(costs, mechanism.sensitivity, strict=True):
                costs[name][k] = round(mechanism.variance().sum() * round(norm**2))
        for name, cost in costs.items():
            assert best_branching(count, name) == min(cost, key=lambda k: (cost[k], k))


def test_the_best_branching_of_longer_streams():
    """Mean variance of Laplace noise at epsilon = 1, as printed."""
    best = {63: (13, 46), 127: (17, 64), 255: (23, 90), 511: (33, 128), 1023: (13, 170.5)}
    for count, (k, printed) in (best | {4095: (21, 270.9), 16383: (33, 431.7)}).items():
        assert best_branching(count, "laplace") == k
        mechanism = mechanisms.kary(count + 1)
        mean = 2 * mechanism.sensitivity[0] ** 2 * mechanism.variance()[1:].mean()
        assert round(mean, 1 if isinstance(printed, float) else None) == printed


@pytest.mark.parametrize("count", [1, 2, 30, 1000])
def test_the_widest_tree_is_noise_on_each_value(count):
    """k = 2N + 1: sensitivity 1, and prefix t has t draws."""
    mechanism = mechanisms.kary(count + 1, k=2 * count + 1)
    assert mechanism.sensitivity == (1.0, 1.0)
    np.testing.assert_array_equal(mechanism.variance(), np.arange(count + 1))
    assert mechanism.variance()[1:].mean() == (count + 1) / 2


def deviation(name, horizon, noise):
    """The root mean square error over prefixes 1 .. T - 1 at unit sensitivity and epsilon."""
    mechanism = getattr(mechanisms, name)(horizon, noise=noise)
    draw = 2.0 if noise == "laplace" else 1.0
    mean = mechanism.variance()[1:].mean()
    return mechanism.sensitivity[noise == "gaussian"] * np.sqrt(draw * mean)


def test_up_to_512_rounds_the_laplace_tree_is_worse_than_noise_on_each_item():
    """At a thousand rounds they are equal, and at 2048 the tree is better.

    The Gaussian tree is better from 32 rounds on.
    """
    for horizon in (3, 16, 64, 512):
        assert deviation("per_item", horizon, "laplace") < deviation("tree", horizon, "laplace")
    for law, first in (("laplace", 2048), ("gaussian", 32)):
        assert deviation("per_item", first, law) > deviation("tree", first, law)
    printed = {2048: (45.3, 36.5), 512: (22.6, 27.0)}
    for horizon, errors in printed.items():
        found = [round(deviation(name, horizon, "laplace"), 1) for name in ("per_item", "tree")]
        assert tuple(found) == errors


def test_the_sensitivity_of_the_square_root_grows_as_stated():
    """sqrt(ln T / pi + 1.07) for L2, to 3 in a thousand."""
    for horizon in (64, 1024, 2**20):
        stated = np.sqrt(np.log(horizon) / np.pi + 1.07)
        declared = mechanisms.square_root(horizon).sensitivity[1]
        assert declared == pytest.approx(stated, rel=3e-3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_hybrid_does_not_know_the_horizon(noise):
    """Sensitivity 1 of its own law for any horizon, and the same variance at the same t."""
    longest = mechanisms.hybrid(1000, noise=noise).variance()
    for horizon in (2, 3, 4, 5, 63, 64, 65, 999):
        mechanism = mechanisms.hybrid(horizon, noise=noise)
        assert mechanism.sensitivity[noise == "gaussian"] == pytest.approx(1.0, rel=1e-12)
        np.testing.assert_array_equal(mechanism.variance(), longest[:horizon])


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_buffers_for_an_unknown_horizon(noise):
    """Made for 2^20 prefixes: as printed at t = 1, 16, 64, 1024, for any horizon."""
    mechanism = mechanisms.buffered(2**14, noise=noise, made_for=2**20)
    error = mechanism.sensitivity[1] * np.sqrt(mechanism.variance())
    np.testing.assert_allclose(error[[1, 16, 64, 1024]], [2.33, 3.26, 3.72, 4.29], atol=0.005)
    for horizon in (1, 2, 100):
        short = mechanisms.buffered(horizon, noise=noise, made_for=2**20)
        assert short.sensitivity == mechanism.sensitivity
        np.testing.assert_allclose(short.variance(), mechanism.variance()[:horizon], rtol=1e-9)
    # No column of C is longer, and those of a long stream are nearly as long.
    _, encoder = mechanisms.buffered(1000, noise=noise, made_for=64).matrices()
    declared = mechanisms.buffered(1000, noise=noise, made_for=64).sensitivity
    norms = np.abs(encoder[:, 0]).sum(), np.linalg.norm(encoder[:, 0])
    assert all(0.98 * bound < norm <= bound for norm, bound in zip(norms, declared, strict=True))
    hybrid = mechanisms.hybrid(2**14, noise="gaussian")
    assert (error < hybrid.sensitivity[1] * np.sqrt(hybrid.variance()))[16:].all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"made_for": 0}, "made_for must be "),
        ({"made_for": 1.5}, "made_for must be "),
        ({"made_for": 2**20 + 1}, "made_for: parameters are stored for up to 1048576 prefixes"),
        ({"made_for": 64, "parameters": ((0.9,), (0.1,))}, "made_for must be None if parameters"),
    ],
)
def test_a_bad_made_for_is_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        mechanisms.buffered(8, **arguments)


NORMALIZED = [
    (mechanisms.square_root, 2**10, "2.991", "3.080"),
    (mechanisms.buffered, 2**10, "2.991", "3.080"),
    (mechanisms.buffered, 2**14, "3.872", "3.963"),
]


@pytest.mark.parametrize(("factory", "horizon", "mean", "largest"), NORMALIZED)
def test_normalized_columns_have_norm_1_and_less_noise(factory, horizon, mean, largest):
    """The root mean square and the largest deviation are as printed, and below the plain ones."""
    plain, normalized = factory(horizon), factory(horizon, normalized=True)
    assert normalized.sensitivity[1] == 1.0
    variance = normalized.variance()[1:]
    found = np.sqrt(variance.mean()), np.sqrt(variance.max())
    assert tuple(f"{deviation:.3f}" for deviation in found) == (mean, largest)
    before = plain.sensitivity[1] * np.sqrt(plain.variance()[1:])
    assert found[0] < 0.97 * np.sqrt(np.mean(before**2)) and found[1] < 0.96 * before.max()
    if horizon == 2**10:
        decoder, encoder = normalized.matrices()
        np.testing.assert_allclose(np.linalg.norm(encoder, axis=0), 1.0, rtol=1e-12)
        np.testing.assert_allclose(np.sum(decoder**2, axis=1)[1:], variance, rtol=1e-9)
        # Above the lower bound on all factorizations, by the factor that the paper states.
        assert np.log(horizon) / np.pi + 0.701 < found[1] < np.log(horizon) / np.pi + 0.88


def test_the_variances_of_long_normalized_streams():
    """N operations equal N^2 operations, and the largest deviation is below the plain one."""
    decays, scales = BUFFERED[1024]
    mechanism = mechanisms.buffered(700, normalized=True, parameters=(decays, scales))
    decoder, _ = mechanism.matrices()
    np.testing.assert_allclose(mechanism.variance(), np.sum(decoder**2, axis=1), rtol=1e-9)
    long = mechanisms.buffered(2**20, normalized=True).variance()
    plain = mechanisms.buffered(2**20)
    assert np.sqrt(long.max()) < 0.98 * plain.sensitivity[1] * np.sqrt(plain.variance().max())


@pytest.mark.parametrize("factory", [mechanisms.square_root, mechanisms.buffered])
def test_noise_without_the_weights_has_another_covariance(factory):
    """A copy without the weights, with the plain noise at the normalized scale, is found."""
    normalized = partial(factory, normalized=True)
    decoder, _ = normalized(HORIZON).matrices()
    expected = SCALE**2 * decoder @ decoder.T

    def drawn(make):
        keys = jr.split(jr.key(3), 20_000)
        zeros = jnp.zeros(HORIZON - 1)
        run = jax.jit(jax.vmap(lambda key: play(make, HORIZON, key, SCALE, zeros)))
        return np.asarray(run(keys), np.float64)

    check_covariance(drawn(normalized), expected)
    with pytest.raises(AssertionError):
        check_covariance(drawn(factory), expected)
    # The scale of the largest norm hides every value; the weights alone reduce the noise.
    longest = factory(HORIZON).sensitivity[1]
    with pytest.raises(AssertionError):
        check_covariance(longest * drawn(factory), expected)


def test_normalized_noise_stays_accurate():
    """Noise of 2^20 rounds in float32 is within 1e-3 of the plain noise weighted in float64."""
    horizon = 2**20
    zeros = jnp.zeros(horizon - 1)
    for factory in (mechanisms.square_root, mechanisms.buffered):
        weighted, plain = (
            np.asarray(jax.jit(lambda make=make: play(make, horizon, jr.key(0), 1.0, zeros))())
            for make in (partial(factory, normalized=True), factory)
        )
        plain = plain.astype(np.float64)
        if factory is mechanisms.square_root:
            column = np.cumprod(np.append(1.0, 1.0 - 0.5 / np.arange(1.0, horizon - 1)))
        else:
            decays, scales = BUFFERED[2**20]
            powers = np.arange(horizon - 2)
            rest = sum(w * r**powers for r, w in zip(decays, scales, strict=True))
            column = np.append(1.0, rest)
        norms = np.sqrt(np.cumsum(column**2))[::-1]
        exact = np.append(0.0, np.cumsum(norms * np.diff(plain)))
        assert np.abs(weighted - exact).max() < 1e-3


def test_normalized_needs_the_horizon():
    with pytest.raises(ValueError, match="^normalized must be False if made_for is given"):
        mechanisms.buffered(8, made_for=64, normalized=True)


@pytest.mark.parametrize("count", BUFFERED)
def test_the_kept_parameters_are_nearly_the_square_root(count):
    """Four buffers at equal L2 sensitivity, compared by the largest standard deviation.

    It is within 0.5 % of the square root's up to 2^16 prefixes, and within 1.6 % up to 2^20.
    """
    both = (make(count + 1) for make in (ALL["buffered"], ALL["square_root"]))
    buffered, root = (np.sqrt(m.variance().max()) * m.sensitivity[1] for m in both)
    assert 1.0 < buffered / root < (1.005 if count <= 2**16 else 1.016)


# --- structure ---


def test_prefix_sums_stay_accurate():
    """2^20 rounds of 0.1 in float32: always within 1e-6, while a plain sum is off by 1e-3."""
    rounds = 2**20
    tree = mechanisms.tree(rounds + 1).stream((), scale=0.0)

    def both(carry, t):
        state, plain = carry
        state, release = tree.step(state, jr.fold_in(jr.key(0), t), jnp.float32(0.1))
        return (state, plain + jnp.float32(0.1)), (release, plain + jnp.float32(0.1))

    state, _ = tree.init(jr.key(0))
    start = (state, jnp.zeros((), jnp.float32))
    _, (releases, plain) = jax.jit(lambda: lax.scan(both, start, jnp.arange(1, rounds + 1)))()
    exact = np.arange(1, rounds + 1) * np.float64(np.float32(0.1))
    assert np.abs(releases / exact - 1).max() < 1e-6
    assert np.abs(plain / exact - 1).max() > 1e-3


@pytest.mark.parametrize("horizon", [2, 3, 64, 1000])
def test_stationary_noise_is_stationary(horizon):
    """V = 1/2 + sum 1 / sin(pi k / 2T) / 2T over odd k; covariances depend on the distance only."""
    mechanism = mechanisms.stationary(horizon)
    odd = np.arange(1, 2 * horizon, 2)
    squared = 0.5 + np.sum(1.0 / np.sin(np.pi * odd / (2 * horizon))) / (2 * horizon)
    assert squared == pytest.approx(0.98 + np.log(horizon) / np.pi, abs=0.01)
    assert mechanism.sensitivity[1] ** 2 == pytest.approx(squared, rel=1e-12)
    np.testing.assert_allclose(mechanism.variance(), squared, rtol=1e-12)
    decoder, _ = mechanism.matrices()
    covariances = product(decoder[:64], decoder.T)
    for row in range(min(horizon, 64)):
        np.testing.assert_allclose(
            covariances[row, row:], covariances[0, : horizon - row], rtol=0, atol=1e-12
        )
    completed = mechanisms.tree(1024, noise="gaussian", identical_law=True)
    error = np.sqrt(completed.variance()[1]) * completed.sensitivity[1]
    short = mechanisms.stationary(1024)
    assert error > 3.1 * np.sqrt(short.variance()[1]) * short.sensitivity[1]


# --- batches of items ---

BATCHES = [(1, 1), (1, 3), (4, 4), (13, 3), (14, 3), (20, 1), (300, 17)]


@pytest.mark.parametrize(("horizon", "batch"), BATCHES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_batches_leave_out_what_waits_and_hide_each_item_once(horizon, batch, noise):
    """B C sums the complete batches, and a column of C has a single 1, or none at the end."""
    mechanism = mechanisms.per_item(horizon, noise=noise, batch=batch)
    decoder, encoder = mechanism.matrices()
    complete = np.arange(horizon) // batch * batch
    read = np.arange(1, horizon)[None] <= complete[:, None]
    np.testing.assert_array_equal(product(decoder, encoder), read)
    norms = [np.linalg.norm(encoder, order, axis=0).max(initial=0.0) for order in (1, 2)]
    assert mechanism.sensitivity == tuple(norms)
    np.testing.assert_array_equal(mechanism.variance(), (decoder**2).sum(1))
    traced = jax.vmap(mechanism.variance)(jnp.arange(horizon))
    np.testing.assert_array_equal(traced, mechanism.variance())
    models = {"laplace": "distributed", "gaussian": "shuffle"}
    assert mechanism.model == ("local" if batch == 1 else models[noise])


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_noise_of_batches_is_a_draw_for_each(noise):
    """Noise of 20 000 streams at 1, 7 and T - 1 has the variance of 0, 2 and 6 draws."""
    horizon, batch, trials = 21, 3, 20_000
    factory = partial(mechanisms.per_item, noise=noise, batch=batch)
    values = np.random.default_rng(0).normal(size=(horizon, 2)).astype(np.float32)
    run = jax.jit(jax.vmap(lambda key: play(factory, horizon, key, SCALE, values)))
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(values, axis=0, dtype=np.float64)])
    drawn = np.asarray(run(jr.split(jr.key(2), trials)), np.float64)[:, :horizon]
    drawn = drawn - sums[np.arange(horizon) // batch * batch]
    for t in range(horizon):  # the same draws in all rounds of a batch
        first = drawn[:, t // batch * batch]
        np.testing.assert_allclose(drawn[:, t], first, rtol=0, atol=1e-5)
    draw = SCALE**2 * (2 if noise == "laplace" else 1)
    for t in (1, 7, horizon - 1):
        check_covariance(drawn[:, t], draw * (t // batch) * np.eye(2))
    with pytest.raises(AssertionError):
        check_covariance(drawn[:, 7], 0.9 * draw * 2 * np.eye(2))


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, None])
def test_a_bad_batch_is_named(batch):
    with pytest.raises((ValueError, TypeError), match="^batch must be "):
        mechanisms.per_item(8, batch=batch)


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(3).normal(size=ZEROS.shape).astype(np.float32)


@every
def test_scale_0_adds_nothing(name, values):
    """Bit for bit the release of the exact mechanism, which equals the sums up to float32."""
    releases = lanes(name)(keys(3), scales(0.0), values)
    np.testing.assert_array_equal(releases, lanes("exact")(keys(4), scales(1.0), values))
    np.testing.assert_array_equal(releases[:, 0], 0)
    sums = np.cumsum(values, axis=1, dtype=np.float64)
    np.testing.assert_allclose(releases[:, 1:], sums, rtol=0, atol=ULP * np.abs(sums).max())


@every
def test_a_release_depends_on_earlier_values_only(name, values):
    """Changing value t under the same keys changes the releases from t on, each by the change."""
    changed, times = values.copy(), 1 + np.arange(LANES) % HORIZON
    change = np.random.default_rng(4).normal(size=(LANES, *SHAPE)).astype(np.float32)
    changed[np.arange(LANES), times - 1] += change
    before = lanes(name)(keys(5), scales(1.0), values)
    after = lanes(name)(keys(5), scales(1.0), changed)
    earlier = np.arange(HORIZON + 1) < times[:, None]
    np.testing.assert_array_equal(np.asarray(after)[earlier], np.asarray(before)[earlier])
    moved = np.where(earlier[..., None], 0, change[:, None])
    difference = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    np.testing.assert_allclose(difference, moved, rtol=0, atol=2 * ULP * np.abs(before).max())


@every
def test_a_grid_of_scales_is_one_program(name, values):
    """The scale may be traced; noise is proportional to it, exactly for powers of 2."""
    grid = 2.0 ** (np.arange(LANES) % 40 - 20)
    same = jnp.broadcast_to(jr.key(6), (LANES,))
    drawn = np.asarray(lanes(name)(same, jnp.asarray(grid, jnp.float32), ZEROS), np.float64)
    np.testing.assert_array_equal(drawn / grid[:, None, None], drawn[[20] * LANES])
    lanes(name)(keys(7), scales(3.0), values)
    assert traces[name] == 1


@every
def test_compiled_is_what_runs_step_by_step(name, values):
    """jit, vmap and scan release the values of plain calls in a loop, up to rounding."""
    compiled = lanes(name)(keys(8), scales(1.0), values)
    with jax.disable_jit():
        plain = play(ALL[name], HORIZON, keys(8)[5], 1.0, values[5, :9])
    largest = max(1.0, np.abs(plain).max())
    np.testing.assert_allclose(compiled[5, :10], plain, rtol=0, atol=8 * ULP * largest)


def test_a_horizon_of_one_round():
    """Only the empty prefix is released, with nothing to hide; step still has to run.

    One program for all.
    """

    def all_of_them(key):
        value = jnp.ones((1, *SHAPE))
        return {name: play(factory, 1, key, 1.0, value) for name, factory in ALL.items()}

    for name, releases in jax.jit(all_of_them)(jr.key(9)).items():
        assert releases.shape == (2, *SHAPE)
        assert (releases[0] == 0).all() and np.isfinite(releases).all(), name


@every
@pytest.mark.parametrize(
    ("horizon", "shape"), [(1, ()), (2, (3,)), (3, (2, 3)), (1, (2, 3)), (30, ()), (30, (0,))]
)
def test_shapes_and_types_are_kept(name, horizon, shape):
    """The state and the release returned by step are like those of init."""
    stream = ALL[name](horizon).stream(shape, scale=1.0)
    value = jax.ShapeDtypeStruct(shape, jnp.float32)
    first = jax.eval_shape(stream.init, jr.key(0))
    second = jax.eval_shape(stream.step, first[0], jr.key(0), value)
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        assert one.weak_type == other.weak_type
    assert (first[1].shape, first[1].dtype) == (shape, jnp.float32)


# --- bad arguments ---


@every
@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        *[("horizon", bad) for bad in (0, -1, 1.5, "8", True, None)],
        *[("shape", bad) for bad in (3, (2.5,), (-1,), "ab", None)],
        *[("scale", bad) for bad in (-1.0, np.nan, np.inf, "big")],
        *[("noise", bad) for bad in ("uniform", None)],
    ],
)
def test_a_bad_argument_is_named(name, argument, bad):
    """At the step that takes it: first the horizon and the law, then the shape and the scale."""
    first = {"horizon": 8} | ({argument: bad} if argument in ("horizon", "noise") else {})
    then = {"shape": (), "scale": 1.0} | ({} if argument in first else {argument: bad})
    with pytest.raises((ValueError, TypeError), match=f"^{argument} must be "):
        ALL[name](**first).stream(**then)


@pytest.mark.parametrize("k", [1, -3, 4, 2.0])
def test_a_bad_branching_is_named(k):
    with pytest.raises((ValueError, TypeError), match="^k must be "):
        mechanisms.kary(8, k=k)


@pytest.mark.parametrize(
    "parameters",
    [
        5,
        (),
        ((), ()),
        (0.9, 0.1),
        ((0.9,), (0.1,), (0.1,)),
        ((0.9, 0.5), (0.1,)),
        (((0.9,),), ((0.1,),)),
        (("a",), ("b",)),
        *[((decay,), (0.1,)) for decay in (0.0, 1.0, -0.5, np.nan)],
        *[((0.9,), (scale,)) for scale in (0.0, -0.1, np.nan, np.inf)],
    ],
)
def test_bad_parameters_are_named(parameters):
    with pytest.raises(ValueError, match="^parameters(: | must be )"):
        mechanisms.buffered(8, parameters=parameters)


def test_a_horizon_beyond_the_kept_parameters_is_named():
    """2^20 + 1 is the last; with parameters of your own there is no limit."""
    longest = max(BUFFERED) + 1
    assert mechanisms.buffered(longest).horizon == longest
    with pytest.raises(ValueError, match="^horizon: .* pass parameters$"):
        mechanisms.buffered(longest + 1)
    own = mechanisms.buffered(longest + 1, parameters=((0.9,), (0.1,)))
    assert own.horizon == longest + 1
