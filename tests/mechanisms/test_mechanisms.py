"""Mechanisms: theorems and exact matrices first, then laws by tests with proven power; integers.

Everything in ``mechanisms.__all__`` is tested by all tests of the first kinds, as are the variants
below. The only exception is ``exact`` in tests of noise, which it does not have.
"""

import inspect
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
from dpjax.audit import Pair, mutants, replay, spent
from dpjax.domains import box_losses, simplex
from dpjax.learners import ftrl
from dpjax.learners.parts.prefix_sums import of_rounded
from dpjax.mechanisms._kary import best_branching
from dpjax.mechanisms.buffered_parameters import BUFFERED

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
    "square_root, bands": partial(mechanisms.square_root, bands=3),
    "buffered, normalized": partial(mechanisms.buffered, normalized=True),
}
NOISY = [name for name in ALL if name != "exact"]
BATCHED = {
    f"batches, {noise}": partial(mechanisms.per_item, batch=3, noise=noise)
    for noise in ("laplace", "gaussian")
}
every = pytest.mark.parametrize("name", ALL)

ULP = 2.0**-23


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


HORIZON, LANES = 21, 16
VALUES = np.random.default_rng(3).normal(size=(LANES, HORIZON, 2)).astype(np.float32)


@lru_cache
def released(name, scale, seed):
    """Releases 0 .. T of all lanes, one more than needed; compiled, with a traced scale."""
    keys = jr.split(jr.key(seed), LANES)
    return compiled(name)(keys, jnp.float32(scale), VALUES)


@lru_cache
def compiled(name):
    run = jax.vmap(partial(play, ALL[name], HORIZON), (0, None, 0))
    return jax.jit(run)


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
    if mechanism.sensitivity == (np.inf, np.inf):
        # No noise: B z is 0 for B = A and z = 0, and C = I is hidden by nothing.
        np.testing.assert_array_equal(decoder, prefixes)
        np.testing.assert_array_equal(mechanism.variance(), np.zeros(horizon))
        return
    columns = np.abs(encoder).sum(0), np.sqrt((encoder**2).sum(0))
    norms = [column.max(initial=0.0) for column in columns]
    if mechanism.sensitivity[0] == np.inf:  # of columns that the horizon does not cut off
        assert 1.0 <= norms[1] < mechanism.sensitivity[1]
    else:
        np.testing.assert_allclose(mechanism.sensitivity, norms, rtol=1e-12)
    assert mechanism.variance().shape == (horizon,)
    np.testing.assert_allclose(mechanism.variance(), (decoder**2).sum(1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([*range(18), 33], id="few"),
        pytest.param(
            [*range(301), 511, 512, 513, 1000, 1023, 1024, 1025], id="many", marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize("name", [name for name in ALL if name != "tree, one law, gaussian"])
def test_the_factorization_of_every_size(name, counts):
    """Also around powers of 2 and of 10. It holds for values that depend on earlier releases."""
    for count in counts:
        mechanism = ALL[name](count + 1)
        assert mechanism.horizon == count + 1
        check_factorization(mechanism, count + 1)


def test_the_factorization_test_has_power():
    """It rejects a level too few, half the scale, or a wrong variance or matrix."""
    tree = mechanisms.tree(64)
    decoder, encoder = tree.matrices()
    (l1, l2), fewer = tree.sensitivity, mechanisms.tree(32).sensitivity
    longest = encoder.sum(1) < 32  # without the highest level
    wrong = [
        # The last one is safe, but not tight.
        *(
            {"sensitivity": each}
            for each in (fewer, (l1 / 2, l2 / 2), (l1, fewer[1]), (l1 + 1, l2))
        ),
        {"variance": lambda: mechanisms.honaker(64).variance()},
        {"matrices": lambda: (decoder[:, longest], encoder[longest])},
        {"matrices": lambda: (decoder[::-1], encoder)},
    ]
    check_factorization(tree, 64)
    for replaced in wrong:
        with pytest.raises(AssertionError):
            check_factorization(tree._replace(**replaced), 64)


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


@pytest.mark.parametrize("name", [*NOISY, *BATCHED])
@pytest.mark.parametrize("horizon", [1, 2, 3, 17, 41])
def test_noise_is_b_times_independent_draws(name, horizon, monkeypatch):
    """A stream makes each release from the draws in its row of B, at its declared scale.

    Gaussian draws may be rotated. Laplace draws must match one by one.
    """
    factory = (ALL | BATCHED)[name]
    decoder, _ = factory(horizon).matrices()
    with jax.disable_jit():
        as_rows_of_draws(monkeypatch)
        values = jnp.zeros((horizon, WIDTH), jnp.float32)
        # One step more than is released: unused, but it has to run.
        rows = play(factory, horizon, jr.key(0), 0.5, values)
        assert rows.shape == (horizon + 1, WIDTH) and np.isfinite(rows).all()
        gaussian = inspect.signature(factory).parameters["noise"].default == "gaussian"
        check_rows(2.0 * rows[:horizon], decoder, not gaussian)


# --- size of the noise ---

GAUSSIAN = [
    (1023, "tree", {}, "50.05", "100"), (1023, "tree", {"identical_law": True}, "100", "100"),
    (1023, "honaker", {}, "29.0", "58.0"), (1023, "smooth", {}, "42", "42"),
    (1023, "kary", {"k": 3}, "32.2", "49"), (1023, "kary", {"k": 7}, "26.6", "48"),
    (1023, "kary", {"noise": "gaussian"}, "26.6", "48"), (1023, "per_item", {}, "512", "1023"),
    (1023, "square_root", {}, "9.67", "10.71"), (1023, "stationary", {}, "10.16", "10.16"),
    (1024, "buffered", {}, "9.673", "10.712"),
    (1023, "square_root", {"normalized": True}, "8.946", "9.489"),
    (1023, "buffered", {"normalized": True}, "8.949", "9.489"),
    (4096, "square_root", {}, "12.61", "13.79"), (4096, "buffered", {}, "12.62", "13.81"),
    (2**14 - 1, "buffered", {"normalized": True}, "14.99", "15.70"),
    (64, "tree", {}, "21.1", "42"), (64, "honaker", {}, "13.3", "26.6"),
    (64, "square_root", {}, "4.97", "5.71"),
]  # fmt: skip
LAPLACE = [
    (1023, "tree", {}, "1001", "2000"), (1023, "tree", {"identical_law": True}, "2000", "2000"),
    (1023, "honaker", {}, "581", "1161"), (1023, "smooth", {}, "504", "504"),
    (1023, "kary", {"k": 3}, "451", "686"), (1023, "kary", {"k": 7}, "213", "384"),
    (1023, "kary", {"k": 13}, "170.5", "324"), (1023, "kary", {}, "170.5", "324"),
    (1023, "per_item", {}, "1024", "2046"), (1023, "square_root", {}, "7696", "8522"),
    # Up to 512 rounds the tree is worse than noise on each item.
    (511, "per_item", {}, "512", "1022"), (511, "tree", {}, "730", "1458"),
    (2047, "per_item", {}, "2048", "4094"), (2047, "tree", {}, "1332", "2662"),
]  # fmt: skip


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
        costs = {1: {}, 2: {}}
        for k in range(3, max(2 * count + 1, 3) + 1, 2):
            mechanism = mechanisms.kary(count + 1, k=k)
            for norm, size in zip(costs, mechanism.sensitivity, strict=True):
                costs[norm][k] = round(mechanism.variance().sum() * round(size**2))
        for norm, cost in costs.items():
            assert best_branching(count, norm) == min(cost, key=lambda k: (cost[k], k))


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


@pytest.mark.parametrize("count", BUFFERED)
def test_the_kept_parameters_are_nearly_the_square_root(count):
    """Four buffers at equal L2 sensitivity, compared by the largest standard deviation.

    It is within 0.5 % of the square root's up to 2^16 prefixes, and within 1.6 % up to 2^20.
    """
    both = (make(count + 1) for make in (ALL["buffered"], ALL["square_root"]))
    buffered, root = (np.sqrt(m.variance().max()) * m.sensitivity[1] for m in both)
    assert 1.0 < buffered / root < (1.005 if count <= 2**16 else 1.016)


# --- structure ---


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


@every
def test_compiled_streams(name):
    """At scale 0 the releases of the exact mechanism, bit for bit; else those step by step."""
    releases = released(name, 0.0, 3)
    np.testing.assert_array_equal(releases, released("exact", 1.0, 4))
    np.testing.assert_array_equal(releases[:, 0], 0)
    sums = np.cumsum(VALUES, axis=1, dtype=np.float64)
    np.testing.assert_allclose(releases[:, 1:], sums, rtol=0, atol=ULP * np.abs(sums).max())
    with jax.disable_jit():
        plain = play(ALL[name], HORIZON, jr.split(jr.key(8), LANES)[5], 1.0, VALUES[5, :9])
    largest = max(1.0, np.abs(plain).max())
    found = released(name, 1.0, 8)[5, :10]
    np.testing.assert_allclose(found, plain, rtol=0, atol=8 * ULP * largest)


# --- bad arguments ---


PREFIXES = 12
INTEGER_FACTORIES = {
    "tree": mechanisms.tree,
    "identical": partial(mechanisms.tree, identical_law=True),
    "kary": mechanisms.kary,
    "per_item": mechanisms.per_item,
}


def released_by(factory, law, scale, values, keys):
    """Releases of all prefixes, (keys, PREFIXES)."""
    factory = partial(factory, noise=law)
    run = jax.vmap(lambda key: play(factory, PREFIXES, key, scale, values))
    return np.asarray(jax.jit(run)(keys), np.float64)


@pytest.mark.parametrize("name", INTEGER_FACTORIES)
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
def test_noise_of_prefixes_is_of_integers_and_has_its_variance(name, law):
    """Each prefix has the variance of its draws; jointly, 10 % more is rejected."""
    scale, values = 3.0, jnp.arange(PREFIXES - 1, dtype=jnp.float32) % 2
    found = released_by(INTEGER_FACTORIES[name], law, scale, values, jr.split(jr.key(0), 8000))
    assert (found == np.round(found)).all()
    exact = np.append(0.0, np.cumsum(np.asarray(values)))
    noise = found - exact
    one = stats.dlaplace(1.0 / scale).var() if law == "discrete_laplace" else scale**2
    draws = np.asarray(INTEGER_FACTORIES[name](PREFIXES, noise=law).variance())
    ratio = np.mean(noise[:, 1:] ** 2, axis=0) / (one * draws[1:])
    error = np.sqrt(np.var(noise[:, 1:] ** 2, axis=0) / 8000) / (one * draws[1:])
    assert (np.abs(ratio - 1.0) < 5.0 * error).all()
    assert abs(np.mean(ratio) - 1.0) < 0.05


def test_values_are_rounded_without_a_bias_and_not_at_all_without_noise():
    """A value of 0.3 is 1 in 30 % of runs, by a binomial test; 0.33 is rejected."""
    values = jnp.full(PREFIXES - 1, 0.3)
    found = released_by(
        mechanisms.per_item, "discrete_laplace", 1e-9, values, jr.split(jr.key(1), 3000)
    )
    ones, count = int(found[:, -1].sum()), 3000 * (PREFIXES - 1)
    assert stats.binomtest(ones, count, 0.3).pvalue > 1e-3
    assert stats.binomtest(ones, count, 0.33).pvalue < 1e-6
    exact = released_by(mechanisms.tree, "discrete_gaussian", 0.0, values, jr.split(jr.key(1), 3))
    np.testing.assert_allclose(exact[:, -1], 0.3 * (PREFIXES - 1), rtol=1e-6)


def test_the_change_of_a_rounded_value():
    """Integer boxes keep theirs; others grow by 1 per entry, within the integers around them."""
    assert of_rounded((4.0, 2.0), (4,), (0.0, 1.0), "round") == (4.0, 2.0)
    assert of_rounded((1.0, 1.0), (4,), (0.0, 1.0), "entry") == (1.0, 1.0)
    assert of_rounded((2.0 * 3**0.5, 2.0), (3,), (-1.0, 1.0), "round") == (6.0, 3**0.5 * 2.0)
    assert of_rounded((0.5, 0.5), (9,), (0.0, 0.5), "round") == (9.0, 3.0)
    assert of_rounded((2.0, 2.0), (9,), (-5.0, 5.0), "round") == (11.0, 5.0)


def game(law, mechanism):
    delta = None if law == "discrete_laplace" else 1e-3
    return ftrl(
        8, simplex(2)._replace(losses=box_losses(2, 0.0, 1.0)), epsilon=1.0, delta=delta,
        noise=law, mechanism=mechanism,
    )  # fmt: skip


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("law", "mechanism"),
    [
        ("discrete_laplace", mechanisms.tree),
        ("discrete_gaussian", mechanisms.per_item),
        ("skellam", mechanisms.tree),
        ("skellam", mechanisms.per_item),
    ],
)
def test_a_replay_spends_what_is_declared(law, mechanism):
    """At losses that go from one corner to another; half the scale is found."""
    learner = game(law, mechanism)
    losses = jnp.zeros((8, 2)).at[4].set(1.0)
    others = losses.at[2].set(1.0)
    found = replay(learner, Pair(losses, others), jr.key(0))
    delta = float(learner.privacy.delta)
    assert spent(found, delta) == pytest.approx(float(learner.privacy.epsilon), rel=1e-4)
    assert found.touched == 1 or mechanism is mechanisms.tree
    halved = mutants(learner, losses)["noise halved"]
    assert spent(replay(halved, Pair(losses, others), jr.key(0)), delta) > 1.9
    # Non-integer losses are rounded equally in both worlds, or differ by one.
    between = losses.at[2].set(0.4)
    rounded = spent(replay(learner, Pair(losses, between), jr.key(0)), delta)
    assert rounded <= float(learner.privacy.epsilon) * (1.0 + 1e-4)


def test_declarations_of_integer_mechanisms():
    batches = partial(mechanisms.per_item, batch=2)
    for law, mechanism, model, accountant in (
        ("discrete_laplace", mechanisms.per_item, "local",
         "Discrete Laplace mechanism on each item"),
        ("discrete_laplace", batches, "distributed", None),
        ("skellam", batches, "distributed", "Skellam mechanism on the sum of each batch"),
        ("discrete_gaussian", batches, "central", None),
    ):  # fmt: skip
        declared = game(law, mechanism).privacy
        assert declared.model == model and accountant in (None, declared.accountant)
        assert np.isnan(declared.rho) or law != "skellam"
