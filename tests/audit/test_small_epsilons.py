"""Declared epsilons far below delta, and pure epsilons down to 1e-12: scales, and their audits.

Far below delta, epsilon at delta is badly conditioned: the last bits of a noise scale change it by
a large part. So a scale is tested by its delta at epsilon, in float64.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dpjax import Privacy, audit, noise
from dpjax.audit.records import Record
from dpjax.audit.rules import RULES
from dpjax.audit.verdicts import judged
from dpjax.cli import audits
from dpjax.noise.integers import LARGEST_DEVIATION, WIDER
from dpjax.noise.release import Site
from tests.audit.test_declarations import halved, spends_what_it_declares

EPSILONS, DELTAS = (1e-6, 1e-4, 0.01), (1e-3, 1e-12)
TINY = (1e-6, 1e-9, 1e-12)
PURE = [name for name, law in noise.LAWS.items() if law.pure]
APPROXIMATE = [name for name, law in noise.LAWS.items() if not law.pure]


def gaussian_delta(mu, epsilon):
    """Delta at epsilon of Gaussian noise of deviation 1 / mu (Balle & Wang 2018, Theorem 8)."""
    level = epsilon / mu - 0.5 * mu
    return stats.norm.sf(level) - np.exp(epsilon) * stats.norm.sf(level + mu)


def delta_at(law, scale, epsilon):
    """Delta at epsilon of a change by 1, or for wide integer noise an upper bound."""
    deviation = float(law.variance(scale)) ** 0.5
    if law.integers and deviation <= LARGEST_DEVIATION:
        return law.delta(scale, epsilon)
    return gaussian_delta((WIDER if law.integers else 1.0) / deviation, epsilon)


def traced_scales(law, delta, epsilons):
    scale = jax.vmap(lambda epsilon: law.single(epsilon, delta).scale)
    return jax.jit(scale)(jnp.array(epsilons, jnp.float32))


@pytest.mark.parametrize("name", APPROXIMATE)
def test_delta_at_a_small_epsilon_is_that_of_the_declaration(name):
    """Plain or traced, up to rounding. Half of the scale has a third more delta at least."""
    law = noise.LAWS[name]
    for delta in DELTAS:
        for epsilon, traced in zip(EPSILONS, traced_scales(law, delta, EPSILONS), strict=True):
            try:
                scale = float(law.single(epsilon, delta).scale)
            except ValueError:  # too many coins
                assert name == "binomial" and np.isnan(traced)
                continue
            assert float(traced) == pytest.approx(scale, rel=2.5e-7)
            ours, of_half = (delta_at(law, each, epsilon) for each in (scale, 0.5 * scale))
            assert 0.8 * delta < ours <= delta * (1.0 + 1e-4) and of_half > 1.33 * delta


@pytest.mark.parametrize("name", PURE)
def test_the_scale_of_a_tiny_pure_epsilon_is_its_reciprocal(name):
    law = noise.LAWS[name]
    plain = [float(law.single(epsilon, None).scale) for epsilon in TINY]
    np.testing.assert_allclose(plain, 1.0 / np.array(TINY), rtol=2.5e-7)
    np.testing.assert_allclose(traced_scales(law, None, TINY), plain, rtol=2.5e-7)


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian", "binomial"])
def test_wide_integer_noise_hides_as_much_as_slightly_narrower_gaussian_noise(name):
    """At a tenth of the deviation from which this replaces exact sums."""
    law, deviation = noise.LAWS[name], 0.1 * LARGEST_DEVIATION
    scale = 4.0 * deviation**2 if name == "binomial" else deviation
    for level in (0.0, 3.0, 6.5):
        bound = gaussian_delta(WIDER / deviation, level / deviation)
        assert 0.95 * bound < law.delta(scale, level / deviation) < bound


# Verdicts ---------------------------------------------------------------------------------------


def replayed(rho=0.0, gaussian=0.0, pure=0.0, integer=()):
    """A Replay of one pair that passes all checks."""
    sums = {"rho": rho, "gaussian": gaussian, "pure": pure}
    rows = np.array(integer, np.float32).reshape(1, -1, 5)
    checks = dict.fromkeys(audit.spending.CHECKS, np.array([True]))
    return audit.Replay(
        **{key: np.array([value], np.float32) for key, value in sums.items()}, **checks,
        saving=np.zeros((1, 128), np.float32), integer=rows, reached=np.ones((1, 1, 1), bool),
    )  # fmt: skip


def is_refused(found, epsilon, delta):
    return "epsilon" in judged(found, Privacy(epsilon=epsilon, delta=delta)).failed


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_the_last_bits_of_gaussian_noise_are_no_violation_but_half_of_it_is(epsilon, delta):
    scale = float(noise.gaussian.single(epsilon, delta).scale)
    rho = np.float32(0.5 / scale**2)
    for units in (-16, 0, 16):
        near = rho * np.float32(1.0 + 1.2e-7 * units)
        assert not is_refused(replayed(near, near), epsilon, delta)
    assert is_refused(replayed(4.0 * rho, 4.0 * rho), epsilon, delta)


def test_a_pure_release_beside_gaussian_noise_adds_its_epsilon():
    """The exact curve of the Gaussian noise is kept, not replaced by that of zCDP: 0.0142."""
    rho = 0.5 / float(noise.gaussian.single(0.01, 1e-3).scale) ** 2
    pure = 1e-5
    found = replayed(rho + 0.5 * pure**2, rho, pure)
    assert float(audit.spent(found, 1e-3)[0]) == pytest.approx(0.01 + pure, rel=1e-5)
    assert not np.isfinite(audit.spent(found, 0.0)[0])


@pytest.mark.parametrize("name", ["skellam", "discrete_gaussian"])
def test_integer_noise_too_wide_for_exact_sums_is_audited(name):
    epsilon, delta, law = 1e-6, 1e-12, noise.LAWS[name]
    scale = float(law.single(epsilon, delta).scale)
    for share, refused in ((1.0, False), (0.5, True)):
        row = (0.0, audit.rules.HOST_LAWS.index(law), share * scale, 1.0, 1.0)
        assert is_refused(replayed(integer=row), epsilon, delta) is refused


# Draws ------------------------------------------------------------------------------------------


def cost_of(kind, ours, theirs):
    record = [
        Record(True, None, jnp.asarray(value, jnp.float32), 1.0, (), 0) for value in (ours, theirs)
    ]
    return float(RULES[kind].cost(Site(kind, None), *record).pure)


@pytest.mark.parametrize("epsilon", TINY)
def test_a_draw_with_a_tiny_epsilon_has_a_cost(epsilon):
    """Also below the rounding unit of a probability of 1/2, if only its difference is an input."""
    lead = 0.25 * epsilon
    coins = [0.5, lead], [0.5, -lead]
    assert cost_of("coin", *coins) == pytest.approx(epsilon, rel=1e-5, abs=0)
    logits = [0.0, epsilon, 0.0], [epsilon, 0.0, 0.0]
    assert cost_of("categorical", *logits) == pytest.approx(epsilon, rel=1e-5, abs=0)


def test_rounding_of_the_inputs_of_a_draw_has_no_cost_and_more_has():
    unit = 2.0**-24
    p = np.array([0.02805144, 0.40406507, 0.5678835])
    moved = p + 8.0 * unit * np.array([1.0, 0.0, -1.0])
    assert cost_of("choice", p, moved) == 0.0 < np.log(moved[0] / p[0])
    assert cost_of("choice", p, p + 1e-5 * np.array([1.0, 0.0, -1.0])) > 1e-5
    assert cost_of("choice", [1e-7, 1.0], [2e-7, 1.0]) > 0.5  # a small change, a large ratio
    assert cost_of("coin", 0.3, 0.3 * (1.0 + unit)) == 0.0 < cost_of("coin", 0.3, 0.3001)
    assert cost_of("categorical", [3.0, 0.0], [3.0 * (1.0 + 2.0 * unit), 0.0]) == 0.0


# Learners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("semi_bandit_ftrl", {"read": "all"}),
        ("glm_sgd", {"model": "shuffle", "batch": 1, "delta": 1e-12}),
        ("glm_sgd", {}),
        ("limited_updates", {}),
    ],
)
@pytest.mark.usefixtures("quick_compilation")
def test_a_learner_spends_a_small_epsilon_and_with_half_of_the_noise_more(name, options):
    domain, epsilon = audits.domains_of(name)[-1], 1e-6
    learner, pairs = audits.subject(name, domain, epsilon, count=16, **options)
    spends_what_it_declares(learner, pairs)
    assert audits.replays(learner, pairs).spent.max() > 0.4 * epsilon
    assert "epsilon" in audits.replays(halved(learner, pairs), pairs).failed
