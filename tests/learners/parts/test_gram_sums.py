"""Private Gram matrices: their constants, their noise, and its bounds."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import mechanisms, noise, privacy
from dpjax.core._versions import enable_x64
from dpjax.learners.parts import gram, gram_calibration
from dpjax.maths import ellipsoids, laws

# The experiment of Shariff & Sheffet 2018: losses -1 and 1 and unit features, so L~^2 = 2.
HORIZON, DIM, EPSILON, DELTA = 50_000_000, 5, 1.0, 0.1
ROW = 2.0**0.5


def test_constants_of_the_authors_experiment():
    """rho_min as their notebook prints it: 92208.7, 2.22336e5 and 1.28101e7; and more digits."""
    with enable_x64(True):
        levels = gram_calibration.levels_of(HORIZON, "code")
        p = gram_calibration.per_round_failure(HORIZON, 1.0 / HORIZON, "code")
        s = gram_calibration.printed_gaussian_scale(ROW, levels, EPSILON, DELTA)
        k = gram_calibration.wishart_freedom(DIM + 1, levels, EPSILON, DELTA, "code")
        n = float(levels * k)
        made = {
            "Gaussian": gram_calibration.gaussian_regularizer(
                s * np.sqrt(levels), DIM, p, norm_bound="paper"
            ),
            "Wishart": gram_calibration.wishart_regularizer(2.0, n, DIM, p),
            "Wishart, unshifted": gram_calibration.wishart_regularizer(
                2.0, n, DIM, p, shifted=False
            ),
        }
        made = {name: tuple(map(float, each)) for name, each in made.items()}
        s, k = float(s), float(k)
    assert (levels, k) == (27, 239278)
    assert s == pytest.approx(153.34384, rel=1e-7)
    expected = {
        "Gaussian": (92208.71682, 276626.1505, 28.26914),
        "Wishart": (222336.3657, 444672.7314, 115.64746),
        "Wishart, unshifted": (12810082.93, 13032419.30, 15.23580),
    }
    for name, numbers in expected.items():
        assert made[name][1:] == pytest.approx(numbers, rel=3e-7), name
    # c of the paper: the mean of the noise minus the remaining offset.
    assert 2.0 * n - made["Wishart"][0] == pytest.approx(12587746.565, abs=1e-3)


@pytest.mark.parametrize("kind, horizon, epsilon, k", [
    ("printed", 10**5, 1.0, 87848), ("code", 10**5, 1.0, 140340),
    ("printed", HORIZON, 0.1, 13910905), ("code", HORIZON, 0.1, 23927303),
])  # fmt: skip
def test_degrees_of_freedom(kind, horizon, epsilon, k):
    with enable_x64(True):
        levels = gram_calibration.levels_of(horizon, kind)
        assert gram_calibration.wishart_freedom(6, levels, epsilon, DELTA, kind) == k


# Sums


BOUNDS = gram.Bounds(1.0, 1.0, 1.0)


def make(horizon, dim, law=gram.gaussian, *, bounds=BOUNDS, epsilon=1.0, **options):
    given = {"epsilon": epsilon, "delta": DELTA, "failure": 0.1}
    return law(**options).noise(horizon, dim, bounds, **given)


def noise_alone(sums, horizon, dim, trials):
    """Releases of zero rows less the offset, (trials, T, packed), and the regularizers (T,)."""

    def one(key):
        state, first = sums.init(jr.fold_in(key, 0))

        def step(state, t):
            after, release = sums.step(state, jr.fold_in(key, t), jnp.zeros(dim), jnp.float32(0))
            return after, (release, sums.now(after))

        _, (rest, found) = jax.lax.scan(step, state, jnp.arange(1, horizon))
        begin = jax.tree.map(jnp.append, sums.now(state), found)
        return jnp.concatenate([first[None], rest]), begin

    made, found = jax.jit(jax.vmap(one))(jr.split(jr.key(3), trials))
    found = jax.tree.map(lambda x: np.asarray(x, np.float64)[0], found)
    rows, columns = ellipsoids.indices(dim + 1)
    return np.asarray(made, np.float64) - np.where(rows == columns, found.offset[:, None], 0), found


def test_wishart_noise_on_the_tree_has_exactly_m_nodes_in_every_release():
    """Variances m k and 2 m k with scale L~^2 = 2, equal in each release, with means 0."""
    horizon, dim, trials = 5, 2, 4000
    sums = make(horizon, dim, gram.wishart, calibration="printed")
    levels = 4
    n = levels * float(gram_calibration.wishart_freedom(3, levels, 1.0, DELTA, "printed"))
    made, _ = noise_alone(sums, horizon, dim, trials)
    # Centred by the mean of the noise, which the offset omits.
    rows, columns = ellipsoids.indices(dim + 1)
    variance = 4.0 * n * np.where(rows == columns, 2.0, 1.0)
    ratio = made.var(axis=0) / variance[None]
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    assert np.abs(made.mean(axis=0) / np.sqrt(variance / trials)).max() < 4.5


@pytest.mark.parametrize("batch", [1, 4])
def test_regularizers_grow_with_the_noise(batch):
    """Upsilon = s sqrt(messages) (2 sqrt d + 2 sqrt(ln(8 T / alpha))) bounds the noise's norm.

    Each bound is for one round, and fails with probability alpha / (2 T). Most matrices exceed a
    third of the norm bound.
    """
    horizon, dim, trials, alpha = 21, 2, 4000, 0.1
    sums = make(horizon, dim, mechanism=partial(mechanisms.per_item, batch=batch))
    centred, found = noise_alone(sums, horizon, dim, trials)
    sent = np.arange(horizon) // batch
    s = 2.0 * float(privacy.gaussian_scale(1.0, 1.0, DELTA))
    norm = s * np.sqrt(sent) * 2.0 * (np.sqrt(dim) + np.sqrt(np.log(8.0 * horizon / alpha)))
    smallest = np.maximum(norm, 1.0)
    np.testing.assert_allclose(found.smallest, smallest, rtol=1e-5)
    np.testing.assert_allclose(found.offset, smallest + norm, rtol=1e-5)
    np.testing.assert_allclose(found.largest, smallest + 2.0 * norm, rtol=1e-5)
    length = np.sqrt(dim) + np.sqrt(2.0 * np.log(4.0 * horizon / alpha))
    tilt = s * np.sqrt(sent) * length / np.sqrt(smallest)
    np.testing.assert_allclose(found.tilt, tilt, rtol=1e-5)
    rows, columns = ellipsoids.indices(dim + 1)
    deviations = s * np.sqrt(sent)[:, None] * np.where(rows == columns, 2.0**0.5, 1.0)
    np.testing.assert_array_equal(centred[:, sent == 0], 0.0)
    ratio = centred[:, sent > 0].var(axis=0) / deviations[sent > 0] ** 2
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    last = np.moveaxis(np.asarray(ellipsoids.unpack(jnp.asarray(centred[:, -1].T), dim + 1)), -1, 0)
    values = np.linalg.eigvalsh(last[:, :dim, :dim])
    values += found.offset[-1]
    assert ((values < smallest[-1]) | (values > found.largest[-1])).mean() < 0.01
    room = norm[-1] / 3.0
    assert (np.abs(values - found.offset[-1]).max(axis=1) > room).mean() > 0.2


# Wishart draws


@cache
def wishart(freedom, size, key, trials=20_000):
    """Centred draws of scale 1 (trials, size, size)."""
    return np.asarray(_wishart(jnp.float32(freedom), jr.split(jr.key(key), trials), size), float)


@partial(jax.jit, static_argnames="size")
def _wishart(freedom, keys, size):
    return jax.vmap(lambda key: noise.wishart(key, jnp.zeros((size, size)), 1.0, freedom))(keys)


@jax.jit
def _chi(freedom, keys):
    return jax.vmap(lambda key: laws.centred_chi(key, freedom, 3))(keys)


@pytest.mark.parametrize("freedom", [7.0, 300.0, 2.4e7, 1e13])
def test_wishart_mean_and_variance(freedom):
    """Var W_ij = k off the diagonal and 2k on it; half the degrees of freedom fail."""
    trials, size = 20_000, 3
    made = wishart(freedom, size, 0)
    np.testing.assert_array_equal(made, np.swapaxes(made, 1, 2))
    variance = freedom * (1.0 + np.eye(size))
    # For small k, fourth moments are larger than those of the normal law.
    error = (2.0 + 12.0 / freedom) ** 0.5 / trials**0.5
    assert np.abs(made.mean(axis=0) / np.sqrt(variance / trials)).max() < 4.5
    np.testing.assert_allclose(made.var(axis=0) / variance, 1.0, atol=5.0 * error)
    assert np.abs(made.var(axis=0) / (0.5 * variance) - 1.0).min() > 20.0 * error


@pytest.mark.parametrize("freedom", [6.0, 40.0, 3e6])
def test_chi_draws_follow_their_law(freedom):
    """Kolmogorov-Smirnov against scipy; neighbouring degrees of freedom fail if they differ."""
    draws = _chi(jnp.float32(freedom), jr.split(jr.key(1), 20_000))
    made = np.asarray(draws, np.float64) + np.sqrt(freedom)
    for i in range(3):
        assert stats.kstest(made[:, i] ** 2, stats.chi2(freedom - i).cdf).pvalue > 1e-3
    if freedom < 100:
        assert stats.kstest(made[:, 0] ** 2, stats.chi2(freedom - 1).cdf).pvalue < 1e-6


# Accuracy


@pytest.mark.parametrize("norm_bound", ["tight", "paper"])
def test_norm_of_gaussian_noise_is_below_its_bound(norm_bound):
    """Except for p = 0.05 of 20 000 draws; half the tight bound fails, a fifth of the paper's."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(20_000, DIM, DIM))
    norm = np.linalg.norm((z + np.swapaxes(z, 1, 2)) / ROW, ord=2, axis=(1, 2))
    bound = float(gram_calibration.gaussian_norm(DIM, 0.05, norm_bound))
    assert (norm > bound).mean() <= 0.05
    assert (norm > bound * (0.5 if norm_bound == "tight" else 0.2)).mean() > 0.1
    length = np.linalg.norm(rng.normal(size=(20_000, DIM)), axis=1)
    assert (length > float(gram_calibration.normal_length(DIM, 0.05))).mean() <= 0.05
    assert (length > 0.5 * float(gram_calibration.normal_length(DIM, 0.05))).mean() > 0.1
    # The regularizer combines them.
    made = gram_calibration.gaussian_regularizer(2.0, DIM, 0.1, norm_bound="tight", floor=0.7)
    assert float(made.offset) == pytest.approx(0.7 + 2.0 * float(
        gram_calibration.gaussian_norm(DIM, 0.05, "tight")), rel=1e-5)  # fmt: skip
    assert float(made.largest) == pytest.approx(2.0 * float(made.offset) - 0.7, rel=1e-5)


@pytest.mark.parametrize("kind", ["shifted", "unshifted", "lower floor"])
def test_wishart_regularizers_are_accurate_but_for_the_stated_probability(kind):
    """In 20 000 draws with p = 0.1; half of gamma fails if nothing was rounded up for it."""
    freedom, p = 4000.0, 0.1
    made = 2.0 * wishart(freedom, 6, 2)
    r = gram_calibration.wishart_regularizer(
        2.0, freedom, DIM, p, shifted=kind != "unshifted",
        floor=300.0 if kind == "lower floor" else None,
    )  # fmt: skip
    r = gram_calibration.Regularizer(*map(float, r))
    h, tail = made[:, :DIM, :DIM] + r.offset * np.eye(DIM), made[:, :DIM, DIM]
    eigenvalues = np.linalg.eigvalsh(h)
    low, high = eigenvalues[:, 0], eigenvalues[:, -1]
    tilt = np.sqrt(np.einsum("ni,nij,nj->n", tail, np.linalg.inv(h), tail))
    assert ((low < r.smallest) | (high > r.largest)).mean() <= p
    assert (tilt > r.tilt).mean() <= p
    # A quarter of the eigenvalues' margin is not enough.
    room = 0.375 * (r.largest - r.smallest)
    assert ((low < r.smallest + room) | (high > r.largest - room)).mean() > 2 * p
    if kind != "lower floor":
        assert (tilt > 0.5 * r.tilt).mean() > 2 * p


def test_every_regularizer_is_the_ridge_without_privacy():
    for kind, changed in [
        (gram.gaussian, {}),
        (gram.gaussian, {"shifted": False}),
        (gram.gaussian, {"calibration": "printed"}),
        (gram.gaussian, {"mechanism": mechanisms.exact}),
        (gram.wishart, {}),
        (gram.wishart, {"shifted": False}),
        (gram.losses_only, {}),
    ]:
        epsilon = 1.0 if "mechanism" in changed else np.inf
        drawn = kind(**changed).noise(100, 3, BOUNDS, epsilon=epsilon, delta=DELTA, failure=0.1)
        assert tuple(map(float, drawn.regularizer)) == (1.0, 1.0, 1.0, 0.0), changed
        assert np.isinf(drawn.privacy.epsilon)
