"""Private Gram matrices: their constants, their noise, and its bounds."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import optimize, stats

from dpjax import bounds, mechanisms, noise, privacy
from dpjax.core._versions import enable_x64
from dpjax.learners.parts import gram, gram_calibration
from dpjax.maths import ellipsoids, laws

# The experiment of Shariff & Sheffet 2018: losses -1 and 1 and unit features, so L~^2 = 2.
HORIZON, DIM, EPSILON, DELTA = 50_000_000, 5, 1.0, 0.1
ROW = 2.0**0.5


@cache
def constants():
    """The regularizers of the authors' program, in float64."""
    with enable_x64(True):
        levels = gram_calibration.levels_of(HORIZON, "code")
        p = gram_calibration.per_round_failure(HORIZON, 1.0 / HORIZON, "code")
        s = gram_calibration.printed_gaussian_scale(ROW, levels, EPSILON, DELTA)
        k = gram_calibration.wishart_freedom(DIM + 1, levels, EPSILON, DELTA, "code")
        deviation = s * np.sqrt(levels)

        def gaussian(**kw):
            return gram_calibration.gaussian_regularizer(
                deviation, DIM, p, norm_bound="paper", **kw
            )

        def wishart(**kw):
            return gram_calibration.wishart_regularizer(2.0, levels * k, DIM, p, **kw)

        made = {
            "Gaussian": gaussian(),
            "Wishart": wishart(),
            "Wishart, unshifted": wishart(shifted=False),
        }
        made = {name: gram_calibration.Regularizer(*map(float, made[name])) for name in made}
        return made, gaussian, wishart, float(s), float(k), levels


def test_constants_of_the_authors_experiment():
    """rho_min as their notebook prints it: 92208.7, 2.22336e5 and 1.28101e7; and more digits."""
    made, _, _, s, k, levels = constants()
    assert (levels, k) == (27, 239278)
    assert s == pytest.approx(153.34384, rel=1e-7)
    assert f"{made['Gaussian'].smallest:.6g}" == "92208.7"
    assert f"{made['Wishart'].smallest:.6g}" == "222336"
    assert f"{made['Wishart, unshifted'].smallest:.6g}" == "1.28101e+07"
    expected = {
        "Gaussian": (92208.71682, 276626.1505, 28.26914),
        "Wishart": (222336.3657, 444672.7314, 115.64746),
        "Wishart, unshifted": (12810082.93, 13032419.30, 15.23580),
    }
    for name, numbers in expected.items():
        assert made[name][1:] == pytest.approx(numbers, rel=3e-7), name
    # c of the paper: the mean of the noise minus the remaining offset.
    assert 2.0 * 27 * k - made["Wishart"].offset == pytest.approx(12587746.565, abs=1e-3)


@pytest.mark.parametrize("kind, printed, digits", [
    ("gaussian", "71629.3", 71629.338), ("wishart", "207393", 207392.908),
])  # fmt: skip
def test_floors_that_minimize_the_planned_regret(kind, printed, digits):
    """The "Opt" variants of the notebook, 71629.3 and 2.07393e5, whose alpha is not padded."""
    with enable_x64(True):
        levels, p = 27, jnp.asarray(0.5 / HORIZON**2)
        s = gram_calibration.printed_gaussian_scale(ROW, levels, EPSILON, DELTA)
        k = gram_calibration.wishart_freedom(DIM + 1, levels, EPSILON, DELTA, "code")

        def planned(log_floor):
            floor = np.exp(log_floor)
            if kind == "gaussian":
                made = gram_calibration.gaussian_regularizer(
                    s * np.sqrt(levels), DIM, p, norm_bound="paper", floor=floor
                )
            else:
                made = gram_calibration.wishart_regularizer(2.0, levels * k, DIM, p, floor=floor)
            return float(
                bounds.linucb_planned(HORIZON, DIM, *map(float, made[1:]), failure=0.5 / HORIZON)
            )

        found = optimize.minimize_scalar(planned, bounds=(8.0, 18.0), method="bounded",
                                         options={"xatol": 1e-9})  # fmt: skip
    assert np.exp(found.x) == pytest.approx(digits, rel=1e-6)
    assert f"{np.exp(found.x):.6g}" == printed


def test_planned_regret_at_the_default_floors():
    """The program's planning bound, B = 0.75, gap 0: 4.085e7, 5.185e7, 9.253e7."""
    made = constants()[0]
    for name, value in [
        ("Gaussian", 4.085e7), ("Wishart", 5.185e7), ("Wishart, unshifted", 9.253e7),
    ]:  # fmt: skip
        planned = bounds.linucb_planned(
            HORIZON, DIM, *made[name][1:], mean_bound=0.75, failure=0.5 / HORIZON
        )
        assert planned == pytest.approx(value, rel=2e-3), name
        proved = bounds.linucb(HORIZON, DIM, *made[name][1:], mean_bound=0.75)
        assert 0.9 * planned < proved < 1.1 * planned


@pytest.mark.parametrize("kind, horizon, epsilon, k", [
    ("printed", 10**5, 1.0, 87848), ("code", 10**5, 1.0, 140340),
    ("printed", HORIZON, 1.0, 139115), ("code", HORIZON, 1.0, 239278),
    ("printed", HORIZON, 0.1, 13910905), ("code", HORIZON, 0.1, 23927303),
])  # fmt: skip
def test_degrees_of_freedom(kind, horizon, epsilon, k):
    with enable_x64(True):
        levels = gram_calibration.levels_of(horizon, kind)
        assert gram_calibration.wishart_freedom(6, levels, epsilon, DELTA, kind) == k


@pytest.mark.parametrize("levels, epsilon, delta, printed, zcdp, exact", [
    (18, 0.1, 1e-1, 626.02, 17.17, 12.08), (18, 1.0, 1e-1, 62.60, 5.79, 4.61),
    (18, 1.0, 1e-5, 218.91, 17.16, 15.83), (18, 8.0, 1e-5, 27.36, 2.71, 2.55),
    (27, 1.0, 1e-1, 76.67, 7.09, 5.64), (27, 1.0, 1e-5, 268.11, 21.02, 19.38),
])  # fmt: skip
def test_the_printed_scale_is_six_to_fifty_times_what_is_needed(
    levels, epsilon, delta, printed, zcdp, exact
):
    root = levels**0.5
    scale = gram_calibration.printed_gaussian_scale(1.0, levels, epsilon, delta)
    assert float(scale) == pytest.approx(printed, abs=6e-3)
    assert (levels / 2.0) ** 0.5 * float(
        privacy.zcdp_inverse_root(epsilon, delta)
    ) == pytest.approx(zcdp, abs=6e-3)
    assert float(privacy.gaussian_scale(root, epsilon, delta)) == pytest.approx(exact, abs=6e-3)


def test_shift_of_the_tight_and_exact_variants():
    """Upsilon is 92209 as printed, 13275 with the tight norm, 977 with exact noise too."""
    with enable_x64(True):
        # The tight bound splits its failure between two events; these numbers give all to one.
        p = 2.0 * gram_calibration.per_round_failure(HORIZON, 1.0 / HORIZON, "code")
        printed = gram_calibration.printed_gaussian_scale(ROW, 27, EPSILON, DELTA)
        exact = privacy.gaussian_scale(2.0 * 27**0.5, EPSILON, DELTA)
        for scale, value in [(printed, 13275.0), (exact, 977.0)]:
            made = gram_calibration.gaussian_regularizer(
                scale * 27**0.5, DIM, p, norm_bound="tight"
            )
            assert float(made.smallest) == pytest.approx(value, abs=0.6)


# Sensitivity


def changes(count=4000, seed=0):
    """Changes of v v' for v replaced by w, |v|, |w| <= 1, (count, d + 1, d + 1)."""
    rng = np.random.default_rng(seed)
    v, w = rng.normal(size=(2, count, DIM + 1))
    v, w = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (v, w))
    # Among them two orthogonal pairs: along the axes, and at 45 degrees to them.
    v[0], w[0] = np.eye(DIM + 1)[0], np.eye(DIM + 1)[1]
    v[1], w[1] = (v[0] + w[0]) / ROW, (v[0] - w[0]) / ROW
    return v[:, :, None] * v[:, None, :] - w[:, :, None] * w[:, None, :]


def test_sensitivity_of_the_gram_matrix_and_the_noise_that_it_needs():
    """sqrt(2) in Frobenius norm, but 1 if the diagonal has twice the variance, as it has here."""
    d = changes()
    frobenius = np.sqrt(np.sum(d**2, axis=(1, 2)))
    assert frobenius.max() == pytest.approx(2.0**0.5, rel=1e-12)

    def weighed(diagonal):
        rows, columns = ellipsoids.indices(DIM + 1)
        variance = np.where(rows == columns, diagonal, 1.0)
        return np.sqrt(np.sum(d[:, rows, columns] ** 2 / variance, axis=1)).max()

    assert weighed(2.0) == pytest.approx(1.0, rel=1e-12)
    assert weighed(1.0) == pytest.approx(2.0**0.5, rel=1e-12)  # the footnote's noise is too small


BOUNDS = gram.Bounds(1.0, 1.0, 1.0)


def make(horizon, dim, law=gram.gaussian, *, bounds=BOUNDS, epsilon=1.0, **options):
    given = {"epsilon": epsilon, "delta": DELTA, "failure": 0.1}
    return law(**options).noise(horizon, dim, bounds, **given)


def releases(sums, horizon, dim, trials):
    """Noise alone: releases of zero rows minus the offset, (trials, horizon, packed)."""

    def one(key):
        state, first = sums.init(jr.fold_in(key, 0))

        def step(state, t):
            return sums.step(state, jr.fold_in(key, t), jnp.zeros(dim), jnp.float32(0))

        return jnp.concatenate([first[None], jax.lax.scan(step, state, jnp.arange(1, horizon))[1]])

    made = jax.jit(jax.vmap(one))(jr.split(jr.key(3), trials))
    centre = ellipsoids.add_to_diagonal(jnp.zeros(made.shape[-1]), dim + 1, sums.regularizer.offset)
    return np.asarray(made, np.float64) - np.asarray(centre, np.float64)


def shared_levels(horizon, levels):
    t = np.arange(horizon)
    same = [(t[:, None] >> j) == (t[None] >> j) for j in range(levels)]
    return np.sum(same, axis=0)


def shared_nodes(horizon, levels):
    """The nodes that two prefixes share in the plain binary tree."""
    nodes = [{(j, t >> j) for j in range(levels) if t >> j & 1} for t in range(horizon)]
    return np.array([[len(a & b) for b in nodes] for a in nodes])


@pytest.mark.parametrize("calibration", ["derived", "printed"])
def test_covariance_of_symmetric_gaussian_noise_on_the_tree(calibration):
    """Between prefixes and between entries; half the scale is 30 standard errors off."""
    horizon, dim, trials = 6, 2, 4000
    sums = make(horizon, dim, calibration=calibration)
    made = releases(sums, horizon, dim, trials)
    if calibration == "derived":
        levels, shared = 3, shared_nodes(horizon, 3)
        s = float(privacy.gaussian_scale(2.0 * np.sqrt(3.0), 1.0, DELTA))
    else:
        levels, shared = 4, shared_levels(horizon, 4)
        s = float(gram_calibration.printed_gaussian_scale(ROW, 4, 1.0, DELTA))
    rows, columns = ellipsoids.indices(dim + 1)
    weights = np.diag(np.where(rows == columns, 2.0, 1.0))
    flat = made.reshape(trials, -1) / s
    covariance = flat.T @ flat / trials
    expected = np.kron(shared, weights)
    np.testing.assert_allclose(covariance, expected, atol=5.0 * 2.0 * levels * 1.5 / trials**0.5)
    off = [covariance[i, i] / expected[i, i] for i in range(len(expected)) if expected[i, i]]
    # The mean of 20 to 36 correlated ratios, each with a relative standard error of 2 %.
    assert np.mean(off) == pytest.approx(1.0, abs=0.04)


def test_wishart_noise_on_the_tree_has_exactly_m_nodes_in_every_release():
    """Variances m k and 2 m k with scale L~^2 = 2, equal in each release, with means 0."""
    horizon, dim, trials = 5, 2, 4000
    sums = make(horizon, dim, gram.wishart, calibration="printed")
    levels = 4
    n = levels * float(gram_calibration.wishart_freedom(3, levels, 1.0, DELTA, "printed"))
    made = releases(sums, horizon, dim, trials)
    # Centred by the mean of the noise, which the offset omits.
    rows, columns = ellipsoids.indices(dim + 1)
    variance = 4.0 * n * np.where(rows == columns, 2.0, 1.0)
    ratio = made.var(axis=0) / variance[None]
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    assert np.abs(made.mean(axis=0) / np.sqrt(variance / trials)).max() < 4.5


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


@pytest.mark.parametrize("name", ["honaker", "kary", "smooth", "square_root", "buffered", "hybrid"])
def test_other_mechanisms_serve_gaussian_noise(name):
    """Their noise is calibrated to their own encoder; most of them need less noise."""
    mechanism = getattr(mechanisms, name)
    tree, other = make(64, 2), make(64, 2, mechanism=mechanism)
    state, first = other.init(jr.key(0))
    _, second = other.step(state, jr.key(1), jnp.ones(2) / 2.0, jnp.float32(0.5))
    assert np.isfinite(first).all() and np.isfinite(second).all()
    if name in ("square_root", "buffered"):
        assert float(other.regularizer.smallest) < 0.8 * float(tree.regularizer.smallest)


def test_sums_do_not_stop_at_2_to_the_24():
    """Rows of length 64 and more of length 1: a plain float32 sum loses the latter."""
    sums = make(20_000, 1, bounds=gram.Bounds(64.0, 1.0, 1.0), epsilon=np.inf)

    def add(length):
        return lambda t, state: sums.step(state, jr.key(0), length[None], jnp.float32(1.0))[0]

    state = sums.init(jr.key(0))[0]
    state = jax.lax.fori_loop(0, 10_000, add(jnp.float32(64.0)), state)
    state = jax.lax.fori_loop(0, 5_000, add(jnp.float32(0.5)), state)
    total = float(sums.step(state, jr.key(0), jnp.zeros(1), jnp.float32(0))[1][0]) - 1.0
    exact = 10_000 * 4096.0 + 1250.0
    assert total == pytest.approx(exact, abs=8.0)
    assert np.float32(40_960_000.0) + np.float32(0.25) == np.float32(40_960_000.0)
