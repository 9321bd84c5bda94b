"""Private sums: calibrations of prefix sums, and noise on sums in every trust model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import domains, gram, learners, mechanisms, noise, privacy
from dpjax.cli import audits
from dpjax.learners import factories
from dpjax.learners.parts.prefix_sums import noise_length, prefix_sums
from dpjax.learners.parts.sum_noise import LOCAL, sum_noise, zcdp_noise
from dpjax.maths import exact_sums

FACTORIES = [name for name in mechanisms.__all__ if name != "exact"]


def build(horizon, losses, *, epsilon=1.0, delta=None, mechanism=mechanisms.tree, **options):
    noise = "laplace" if delta is None else "gaussian"
    return prefix_sums(
        horizon, losses, epsilon=epsilon, delta=delta, mechanism=mechanism, noise=noise, **options
    )


@pytest.mark.parametrize("name", FACTORIES)
def test_scale_follows_from_the_two_sensitivities(name):
    """scale epsilon = |C|_1 Delta_1; Gaussian: |C|_2 Delta_2 / scale is mu(epsilon, delta)."""
    mechanism = getattr(mechanisms, name)
    losses = domains.ball_losses(5)
    for neighbours in ("replace", "zero_out"):
        change = domains.sensitivity(losses, neighbours, "round")
        given = {"epsilon": 0.5, "mechanism": mechanism, "neighbours": neighbours}
        if name != "unbounded":  # refuses Laplace noise
            encoder = mechanism(100, noise="laplace").sensitivity[0]
            laplace = build(100, losses, **given)
            assert laplace.scale * 0.5 == pytest.approx(encoder * change[0], rel=1e-6)
        encoder = mechanism(100, noise="gaussian").sensitivity[1]
        gaussian = build(100, losses, delta=1e-5, **given)
        mu = encoder * change[1] / gaussian.scale
        assert privacy.gaussian_delta(mu, 0.5) == pytest.approx(1e-5, rel=1e-3)
        assert gaussian.privacy.rho == pytest.approx(float(mu) ** 2 / 2, rel=1e-5)


def test_losses_are_clipped_and_counted_and_those_on_the_border_are_not():
    sums = build(8, domains.ball_losses(3), epsilon=np.inf)
    directions = np.asarray(jr.normal(jr.key(0), (8, 3)))
    border = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    for size, outside in ((1.0, 0), (3.0, 8)):
        rows, clipped = jax.vmap(sums.clip)(jnp.asarray(size * border, jnp.float32))
        assert clipped.sum() == outside
        np.testing.assert_allclose(rows, border, atol=1e-6)


def test_the_exact_mechanism_declares_nothing():
    for delta in (None, 1e-6):
        sums = build(8, domains.box_losses(2), delta=delta, mechanism=mechanisms.exact)
        assert sums.privacy.epsilon == np.inf and sums.scale == 0.0


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


# Learners on ``mechanisms.per_item``: each message, or each batch, is private by itself


def on_items(name, batch, noise="gaussian"):
    """The declaration of a learner on noisy items, with the size used in audits."""
    law = {"noise": noise} if name not in ("ftpl", "linucb") else {}
    law |= {"delta": audits.DELTA if noise == "gaussian" else None}
    mechanism = partial(mechanisms.per_item, batch=batch)
    law |= {"mechanism": mechanism, "gram": gram.gaussian(mechanism=mechanism)}
    return audits.build(name, audits.domains_of(name)[-1], audits.HORIZON, 1.0, **law).privacy


# They take a mechanism, and sum one value per round.
SUMMING = ["linucb", *(x for x in learners.__all__ if factories.takes(x, "mechanism"))]
SUMMING.remove("projection_free")


@pytest.mark.parametrize("name", SUMMING)
def test_learners_on_items_declare_their_model(name):
    """The model follows from the mechanism, and epsilon is the requested one."""
    local, shuffled = (on_items(name, batch) for batch in (1, 3))
    assert (local.model, local.released) == ("local", "messages 1..T")
    assert shuffled.model == "shuffle" and "shuffled messages" in shuffled.released
    assert local.accountant == "Gaussian mechanism on each item"
    assert "idealises" in shuffled.accountant and float(shuffled.delta) > 0.0
    for declared in (local, shuffled):
        assert (float(declared.epsilon), declared.unit) == (1.0, "round")
        rho = 0.5 / float(privacy.gaussian_inverse_mu(1.0, audits.DELTA)) ** 2
        assert float(declared.rho) == pytest.approx(rho, rel=1e-5)
    if name == "ftrl":
        assert on_items("ftrl", 1, "laplace").model == "local"
        assert on_items("ftrl", 3, "laplace").model == "distributed"
        # A batch's sum that is noised as one item is central.
        assert on_items("projection_free", 1).model == "central"


SMALL_DELTA = 1e-6
LAWS = (*noise.LAWS, *LOCAL)
WITH_DELTA = [name for name, law in noise.LAWS.items() if not law.pure]


def noise_of(law, epsilon):
    return sum_noise(law, epsilon, SMALL_DELTA if law in WITH_DELTA else None)


def tail(law, epsilon, count):
    """x -> P(noise of a sum of ``count`` bits >= x), exactly; None if it has no closed form."""
    found = noise_of(law, epsilon)
    if law == "laplace":
        return stats.laplace(scale=1.0 / epsilon).sf
    if law == "gaussian":
        return stats.norm(scale=float(privacy.gaussian_scale(1.0, epsilon, SMALL_DELTA))).sf
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


def test_declarations_of_sum_noise():
    """The trust model of each law, and whether it has a delta."""
    models = {law: noise_of(law, 0.5).privacy.model for law in LAWS}
    assert models == {
        "laplace": "central", "gaussian": "central", "discrete_gaussian": "central",
        "discrete_laplace": "distributed", "skellam": "distributed", "binomial": "shuffle",
        "logistic": "central", "local_laplace": "local", "randomized_response": "local",
    }  # fmt: skip
    for law in LAWS:
        declared = noise_of(law, 0.5).privacy
        assert (declared.epsilon, declared.delta) == (
            0.5,
            SMALL_DELTA if law in WITH_DELTA else 0.0,
        )
    scale = float(privacy.gaussian_scale(1.0, 0.5, SMALL_DELTA))
    assert noise_of("gaussian", 0.5).privacy.rho == pytest.approx(0.5 / scale**2)
    for rho in (0.02, 3.0):
        found = zcdp_noise(100, rho, None)
        assert float(found.variance) == pytest.approx(0.5 / rho)
        assert float(found.privacy.rho) == pytest.approx(rho)


# --- audits ---


# --- learners ---
