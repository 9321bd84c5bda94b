"""Environments whose actions are policies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments
from dpjax.core import Policies
from dpjax.environments._classification import standardised


def always(arm):
    return jax.tree_util.Partial(lambda arm, features: arm, jnp.int32(arm))


def rounds(environment, policy, count, key=0, games=1):
    """Features (games, count, K, d), losses and tallies of one policy."""

    def one(key):
        state = environment.init(jr.fold_in(key, 0))

        def step(state, t):
            return environment.step(state, jr.fold_in(key, t), policy)

        state, outcomes = jax.lax.scan(step, state, jnp.arange(1, count + 1))
        return state, outcomes

    states, outcomes = jax.jit(jax.vmap(one))(jr.split(jr.key(key), games))
    return states, jax.tree.map(np.asarray, outcomes)


@pytest.mark.parametrize("dim, gap", [(2, 0.1), (3, 0.0), (5, 0.1), (12, 0.3)])
def test_gap_arms_are_unit_vectors_with_the_law_of_the_paper(dim, gap):
    """One mean is 0.75; the others are uniform points of the sphere within [-0.75, 0.75 - gap]."""
    count = 400
    environment = environments.gap_arms(dim, gap=gap, arms=16)
    states, outcomes = rounds(environment, always(0), count, games=8)
    features, _ = outcomes.loss
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1.0, atol=2e-6)
    theta = np.asarray(states.parameter)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 1.0, atol=1e-6)
    reward = -np.einsum("gtkd,gd->gtk", features, theta)
    best = np.sort(reward, axis=-1)
    np.testing.assert_allclose(best[..., -1], 0.75, atol=1e-5)
    assert best[..., -2].max() <= 0.75 - gap + 1e-5 and best.min() >= -0.75 - 1e-5
    # The best arm's position is uniform.
    places = np.bincount(np.argmax(reward, axis=-1).ravel(), minlength=16)
    assert stats.chisquare(places).pvalue > 1e-3
    law = stats.beta(0.5 * (dim - 1), 0.5 * (dim - 1))
    low, high = law.cdf(0.125), law.cdf(0.5 * (1.75 - gap))

    def cut(x):
        return (law.cdf(0.5 * (1.0 + x)) - low) / (high - low)

    others = np.delete(best, -1, axis=-1)
    # Sorted within a round, all of them together are still a sample.
    assert stats.kstest(others.ravel(), cut).pvalue > 1e-3
    if dim > 2:
        wrong = stats.beta(0.5 * dim, 0.5 * dim)
        assert stats.kstest(others.ravel(), lambda x: wrong.cdf(0.5 * (1.0 + x))).pvalue < 1e-6
    # Orthogonal to theta, directions are uniform: all other coordinates have mean 0.
    across = features + reward[..., None] * theta[:, None, None]
    error = across.std(axis=(1, 2)) / (count * 16) ** 0.5
    assert np.abs(across.mean(axis=(1, 2)) / error).max() < 5.0


@pytest.mark.parametrize("dim", [2, 5, 12])
def test_a_traced_gap_or_scale_has_the_arms_of_a_plain_one(dim):
    """Up to rounding, since a traced gap uses a series in the gap."""
    key = jr.key(3)

    def shown(environment):
        return environment.step(environment.init(key), key, always(0))[1].loss[0]

    def features(gap):
        return shown(environments.gap_arms(dim, gap=gap, arms=64))

    traced = jax.jit(features)
    for gap in (0.0, 0.1, 0.8, 1.4):
        np.testing.assert_allclose(traced(jnp.float32(gap)), features(gap), atol=2e-5)
    assert np.abs(np.asarray(traced(jnp.float32(0.1)) - features(0.11))).max() > 1e-3
    traced = jax.jit(lambda scale: shown(environments.glm_arms(dim, scale=scale)))(jnp.float32(2.0))
    np.testing.assert_allclose(traced, shown(environments.glm_arms(dim, scale=2.0)), atol=1e-6)


def assert_unbiased(losses, means):
    """Losses (games, T) minus their means are 0 on average, also as a function of the mean."""
    residual = (losses - means).ravel()
    error = 4.0 / residual.size**0.5
    assert abs(residual.mean()) < error * residual.std()
    assert abs(np.corrcoef(residual, means.ravel())[0, 1]) < error


@pytest.mark.parametrize("losses", ["bernoulli", "gaussian"])
def test_losses_of_gap_arms_have_their_means_and_the_tally_is_the_gap(losses):
    environment = environments.gap_arms(3, gap=0.1, losses=losses)
    states, outcomes = rounds(environment, always(4), 4000, games=4)
    features, loss = outcomes.loss
    assert features.shape[2:] == (9, 3)  # as many arms as the square of the dimension
    mean = np.einsum("gtkd,gd->gtk", features, np.asarray(states.parameter))
    if losses == "bernoulli":
        assert set(np.unique(loss)) == {-1.0, 1.0}
    assert_unbiased(loss[..., 4], mean[..., 4])
    np.testing.assert_allclose(outcomes.tally, mean[..., 4] + 0.75, atol=1e-5)


def test_fixed_actions():
    """Their features, means and gaps; with unit vectors it is a bandit."""
    actions, theta = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]]), np.array([0.5, -0.25])
    environment = environments.fixed_actions(actions, theta)
    _, outcomes = rounds(environment, always(1), 20_000)
    features, losses = outcomes.loss
    np.testing.assert_array_equal(features[0, 7], actions.astype(np.float32))
    means = actions @ theta
    assert np.abs(losses[0].mean(axis=0) - means).max() < 4.0 / 20_000**0.5
    np.testing.assert_allclose(outcomes.tally, means[1] - means.min(), atol=1e-6)


def test_contextual_table_replays_and_compares_with_least_squares():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 3, 2))
    losses = features @ np.array([1.0, -0.5]) + 0.01 * rng.normal(size=(50, 3))
    environment = environments.contextual_table(features, losses)
    assert environment.horizon == 50
    fit = np.linalg.lstsq(features.reshape(-1, 2), losses.ravel(), rcond=None)[0]
    _, outcomes = rounds(environment, always(2), 50)
    np.testing.assert_allclose(outcomes.loss[0][0], features, rtol=1e-6)
    np.testing.assert_allclose(outcomes.loss[1][0], losses, rtol=1e-6)
    picked = np.argmin(features @ fit, axis=1)
    expected = losses[:, 2] - losses[np.arange(50), picked]
    regret = environment.regret((), jax.tree.map(lambda x: x[0].sum(), outcomes.tally))
    assert float(regret) == pytest.approx(expected.sum(), rel=1e-4)
    oracle = jax.tree_util.Partial(
        lambda fit, x: jnp.argmin(jnp.sum(x * fit[None], axis=1)), jnp.asarray(fit, jnp.float32)
    )
    _, outcomes = rounds(environment, oracle, 50)
    np.testing.assert_allclose(outcomes.tally.suffered, outcomes.tally.compared)


CASES = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [9.0, 5.0]]), np.array(["b", "a", "b", "c"])


def test_a_data_set_is_drawn_case_by_case_with_one_arm_for_each_label():
    """Cases occur with equal probability, and only the arm of a case's label has loss -1."""
    environment, count = environments.classification(*CASES), 4000
    assert environment.action_set.dim == 9
    _, outcomes = rounds(environment, always(1), count)
    features, losses = (each[0] for each in outcomes.loss)
    contexts, case = np.unique(features[:, 0, :3], axis=0, return_inverse=True)
    assert contexts.shape == (4, 3) and stats.chisquare(np.bincount(case.ravel())).pvalue > 1e-3
    assert np.linalg.norm(contexts, axis=1).max() == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(contexts[:, 0]) > 0).all() and (contexts[:, 1] == 0).all()  # 5, 5, 5, 5
    label = np.array([1, 0, 1, 2])[case.ravel()]
    np.testing.assert_array_equal(losses, np.where(np.arange(3) == label[:, None], -1, 1))
    for arm in range(3):  # the context is in the block of the arm
        blocks = features[:, arm].reshape(count, 3, 3)
        np.testing.assert_array_equal(blocks[:, arm], contexts[case.ravel()])
        assert (np.delete(blocks, arm, axis=1) == 0).all()
    np.testing.assert_array_equal(outcomes.tally.suffered[0], losses[:, 1])


def test_the_comparator_of_a_data_set_is_its_least_squares_fit():
    """On linearly separable classes it is always right; on random labels it is not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 2))
    for labels, low, high in [(x[:, 0] > 0, -1.0, -0.9), (rng.integers(2, size=200), -0.4, 0.4)]:
        _, outcomes = rounds(environments.classification(x, labels), always(0), 2000)
        assert low <= outcomes.tally.compared.mean() <= high


@pytest.mark.parametrize("constant", [
    np.full(1000, 14.62), np.full(1000, 0.001), np.full(1000, 1e6 + 0.1),
    np.where(np.arange(1000) % 3, 0.3, 0.1 + 0.2),
])  # fmt: skip
def test_a_constant_column_changes_nothing(constant):
    """Its mean is rounded, so its deviation is not 0. It becomes 0, as a column of zeros does."""
    other = np.random.default_rng(0).normal(size=1000)
    contexts = standardised(np.stack([other, constant], axis=1))
    np.testing.assert_array_equal(contexts[:, 1], 0.0)
    np.testing.assert_array_equal(contexts, standardised(np.stack([other, 0.0 * other], axis=1)))


# --- logistic arms ---


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_features_are_uniform_on_the_sphere_and_theta_is_drawn_once(dim):
    states, outcomes = rounds(environments.glm_arms(dim, 5, scale=2.0), always(0), 400, games=8)
    features, _ = outcomes.loss
    np.testing.assert_allclose(np.linalg.norm(features, axis=-1), 1.0, atol=2e-6)
    theta = np.asarray(states)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 2.0, atol=1e-5)
    assert len(np.unique(theta[:, 0].round(4))) == (8 if dim > 1 else 2)
    points = features.reshape(-1, dim)
    error = len(points) ** -0.5
    assert np.abs(points.mean(axis=0)).max() < 5.0 * error
    moments = points.T @ points / len(points)
    assert np.abs(moments - np.eye(dim) / dim).max() < 5.0 * error


def test_losses_have_logistic_means_and_the_tally_is_the_gap():
    """Losses of half the log-odds are rejected."""
    states, outcomes = rounds(environments.glm_arms(3, 4, scale=3.0), always(2), 4000, games=4)
    features, losses = outcomes.loss
    mean = 1.0 / (1.0 + np.exp(-np.einsum("gtkd,gd->gtk", features, np.asarray(states))))
    assert set(np.unique(losses)) == {0.0, 1.0}
    assert_unbiased(losses[..., 2], mean[..., 2])
    other = 1.0 / (1.0 + np.sqrt(1.0 / mean - 1.0))
    with pytest.raises(AssertionError):
        assert_unbiased(losses[..., 2], other[..., 2])
    np.testing.assert_allclose(outcomes.tally, mean[..., 2] - mean.min(axis=-1), atol=1e-5)


# --- advice ---

LAWS = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])


def test_advice_is_of_laws_that_follow_the_losses():
    """Expert i loses (1 - w_i) <uniform, l> + w_i min l in each round; losses are 0 or 1."""
    weights = np.array([0.0, 0.5, 1.0])
    environment = environments.advice([0.3, 0.5, 0.6, 0.9], 3, informative=weights)
    assert environment.action_set == Policies(3, 4)
    _, outcomes = rounds(environment, always(0), 4000)
    (advice, losses), tally = jax.tree.map(lambda leaf: leaf[0], outcomes[:2])
    assert advice.shape == (4000, 4, 3)
    np.testing.assert_allclose(advice.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(advice[:, :, 0], 0.25)
    expected = (1 - weights) * losses.mean(axis=1)[:, None] + weights * losses.min(axis=1)[:, None]
    np.testing.assert_allclose(tally, losses[:, :1] - expected, atol=1e-6)
    assert np.abs(losses.mean(axis=0) - [0.3, 0.5, 0.6, 0.9]).max() < 4 * 0.5 / 4000**0.5


def test_noise_breaks_ties_and_hides_small_differences():
    """For losses 0.5 and 0.75, P(U + 0.5 < V + 0.75) = 1 - 0.75^2 / 2 = 0.71875."""
    environment = environments.advice(np.array([[0.5, 0.75]]), 2, informative=[1.0, 1.0])
    advice = rounds(environment, always(0), 1, games=20_000)[1].loss[0][:, 0]
    share = advice[:, 0, :].mean(axis=0)
    assert np.abs(share - (1 - 0.75**2 / 2)).max() < 4 * 0.45 / 20_000**0.5
    assert 0.5 < np.mean(advice[:, 0, 0] == advice[:, 0, 1]) < 0.7  # experts draw independently


def test_tables_are_replayed():
    losses = np.array([[0.0, 1.0], [0.5, 0.25]])
    environment = environments.advice(losses, LAWS)
    assert environment.horizon == 2
    for t in range(2):
        state, outcome = environment.step(jnp.int32(t), jr.key(0), always(0))
        assert state == t + 1
        np.testing.assert_allclose(outcome.loss[0], LAWS[t].T)
        np.testing.assert_allclose(outcome.loss[1], losses[t])
        np.testing.assert_allclose(outcome.tally, losses[t, 0] - LAWS[t] @ losses[t])
    assert environments.advice([0.5, 0.5], LAWS).horizon == 2
    assert environments.advice([0.5, 0.5], LAWS[0]).horizon is None
    assert float(environment.regret((), jnp.array([2.0, 3.0]))) == 3.0
