"""Noise on sums in every trust model: widths, declarations, and learners that accept all of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import noise, privacy
from dpjax.learners.parts.sum_noise import LOCAL, sum_noise, zcdp_noise
from dpjax.maths import exact_sums

DELTA = 1e-6
LAWS = (*noise.LAWS, *LOCAL)
WITH_DELTA = [name for name, law in noise.LAWS.items() if not law.pure]


def noise_of(law, epsilon):
    return sum_noise(law, epsilon, DELTA if law in WITH_DELTA else None)


def tail(law, epsilon, count):
    """x -> P(noise of a sum of ``count`` bits >= x), exactly; None if it has no closed form."""
    found = noise_of(law, epsilon)
    if law == "laplace":
        return stats.laplace(scale=1.0 / epsilon).sf
    if law == "gaussian":
        return stats.norm(scale=float(privacy.gaussian_scale(1.0, epsilon, DELTA))).sf
    if law == "discrete_laplace":
        return lambda x: stats.dlaplace(epsilon).sf(np.ceil(x) - 1)
    if law == "binomial":
        coins = round(4.0 * float(found.variance))
        return lambda x: stats.binom(coins, 0.5).sf(np.ceil(x + 0.5 * coins) - 1)
    if law == "skellam":
        half = 0.5 * float(found.variance)
        return lambda x: stats.skellam(half, half).sf(np.ceil(x) - 1)
    if law == "discrete_gaussian":
        points = np.arange(-400, 401)
        weights = np.exp(-0.5 * points**2 / float(found.variance))
        weights /= weights.sum()
        return lambda x: weights[points >= x - 1e-9].sum()
    if law == "randomized_response":
        flip, stretch = 1.0 / (1.0 + np.exp(epsilon)), 1.0 / np.tanh(0.5 * epsilon)
        # All bits are 0; the estimate is half the count plus half the stretched excess.
        return lambda x: stats.binom(count, flip).sf(np.ceil(x / stretch + count * flip - 1e-9) - 1)
    return None


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_noise_is_within_its_radius(law, epsilon):
    """Exact tails are below e^-x, and above it at a third of the radius.

    Chernoff's bound covers the noise alone: equal losses have no error of their own.
    """
    count = 50
    above = tail(law, epsilon, count)
    if above is None:
        return
    found = noise_of(law, epsilon)
    if law != "randomized_response":
        found = found._replace(per_loss=0.0)
    for exponent in (1.0, 5.0, 12.0):
        radius = count * float(found.radius(float(count), exponent))
        assert above(radius) <= np.exp(-exponent)
    assert above(radius / 3.0) > np.exp(-exponent)


@pytest.mark.parametrize("law", LAWS)
def test_a_number_of_rounds_has_its_radius(law):
    """least_rounds inverts radius up to a percent, and both equal Hoeffding's without noise."""
    for epsilon in (0.01, 1.0, np.inf):
        found = noise_of(law, epsilon)
        for radius in (0.001, 0.1, 0.7):
            rounds = found.least_rounds(radius, 12.0)
            np.testing.assert_allclose(found.radius(rounds, 12.0), radius, rtol=0.01)
    np.testing.assert_allclose(found.radius(100.0, 12.0), np.sqrt(12.0 / 200.0), rtol=0.003)


@pytest.mark.parametrize("law", ["laplace", "local_laplace", "gaussian", "skellam"])
def test_errors_are_chernoff_s_bounds(law):
    """For two weighted releases, against a fine grid of tilts in NumPy: at most a percent above."""
    counts, weights, draws = np.array([300.0, 50.0]), np.array([0.02, -0.01]), np.array([1.0, 3.0])
    for epsilon in (0.05, 0.7, 8.0):
        found = noise_of(law, epsilon)
        for exponent in (0.1, 9.0, 40.0):
            shown = float(found.error(*map(jnp.asarray, (weights, counts, draws)), exponent))
            tilts = np.geomspace(1e-3, 1e5, 20_000)
            total = np.full(len(tilts), exponent)
            for n, w, k in zip(counts, np.abs(weights), draws, strict=True):
                k = n if found.on_losses else k
                with np.errstate(invalid="ignore", over="ignore"):
                    cumulant = np.asarray(found.cumulant(jnp.asarray(tilts * w, jnp.float32)))
                total = total + 0.5 * float(found.per_loss) * n * (tilts * w) ** 2 + k * cumulant
            least = np.nanmin(np.where(np.isfinite(total), total, np.nan) / tilts)
            assert 0.999 * least <= shown <= 1.01 * least


@pytest.mark.parametrize("law", LAWS)
def test_releases_are_unbiased_and_have_no_noise_at_infinity(law):
    """Means of 4000 releases of 700 ones among 1000 bits, within five standard errors."""
    total, count = exact_sums.of(700.0), jnp.int32(1000)

    def release(epsilon, key):
        return exact_sums.to_float(noise_of(law, epsilon).release(key, total, count))

    keys = jr.split(jr.key(3), 4000)
    drawn = np.asarray(jax.jit(jax.vmap(lambda key: release(0.5, key)))(keys), np.float64)
    assert abs(drawn.mean() - 700.0) < 5.0 * drawn.std() / np.sqrt(len(drawn))
    assert drawn.std() > 1.0
    assert float(release(np.inf, keys[0])) == 700.0


def test_declarations():
    """The trust model of each law, and whether it has a delta."""
    models = {law: noise_of(law, 0.5).privacy.model for law in LAWS}
    assert models == {
        "laplace": "central", "gaussian": "central", "discrete_gaussian": "central",
        "discrete_laplace": "distributed", "skellam": "distributed", "binomial": "shuffle",
        "logistic": "central", "local_laplace": "local", "randomized_response": "local",
    }  # fmt: skip
    for law in LAWS:
        declared = noise_of(law, 0.5).privacy
        assert (declared.epsilon, declared.delta) == (0.5, DELTA if law in WITH_DELTA else 0.0)
    scale = float(privacy.gaussian_scale(1.0, 0.5, DELTA))
    assert noise_of("gaussian", 0.5).privacy.rho == pytest.approx(0.5 / scale**2)
    for rho in (0.02, 3.0):
        found = zcdp_noise(100, rho, None)
        assert float(found.variance) == pytest.approx(0.5 / rho)
        assert float(found.privacy.rho) == pytest.approx(rho)


# --- audits ---


# --- learners ---
