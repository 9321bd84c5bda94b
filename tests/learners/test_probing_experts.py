"""Probing experts: their exact law, what it reveals, estimates, and the parameters of the bound."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, learners, noise
from dpjax.feedback import contextual
from dpjax.learners.parts import dartboard, probing
from dpjax.learners.parts.probing import Setting
from dpjax.maths import exact_sums
from tests.learners.test_shrinking_dartboard import game_paths
from tests.renyi import dartboard_epsilon

pytestmark = pytest.mark.usefixtures("quick_compilation")

# E, a row for each of three experts on two arms.
ADVICE = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]], np.float32)
EXPERTS, ARMS = ADVICE.shape


def setting_of(weight=0.2, restart=0.2, budget=3, batch=1.0, mixing=1.0):
    numbers = (jnp.float32(weight), jnp.float32(restart), jnp.int32(budget))
    return Setting(*numbers, jnp.float32(batch), jnp.float32(mixing))


def fixed(monkeypatch, setting, horizon=16, **changes):
    """The learner at a setting, which declares what it costs; ``changes`` are not declared."""
    monkeypatch.setattr(probing, "best_setting", lambda *sizes: setting._replace(**changes))
    monkeypatch.setattr(probing, "throws", lambda played, own=probing.throws: own(setting))
    return learners.probing_experts(horizon, ARMS, EXPERTS, epsilon=1.0)


# The exact law ----------------------------------------------------------------------------------


def all_tables(rounds, arms):
    """All 0/1 loss tables (rounds, arms), with the last row varying fastest."""
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=arms)))
    return rows[np.array(list(itertools.product(range(len(rows)), repeat=rounds)))]


def largest_log_ratio(weight, restart, budget, rounds=3):
    """Of all sequences of experts and draws.

    A batch has one probe, which moves the sums of some of three experts by 1. A replaced loss moves
    all that its arm's advice names the same way.
    """
    paths = game_paths(all_tables(rounds, 3), -np.expm1(-weight), restart, budget)
    logs = np.log(np.stack([law for *_, law in paths if law.all()], axis=1)).reshape(
        *[8] * rounds, -1
    )
    rows = all_tables(1, 3)[:, 0]
    return max(
        np.abs(np.take(logs, i, axis) - np.take(logs, j, axis)).max()
        for axis in range(rounds)
        for i, j in np.ndindex(8, 8)
        if (rows[i] <= rows[j]).all()
    )


def declared_at(*parameters):
    return float(dartboard.pure_epsilon(probing.throws(setting_of(*parameters)), spread=1.0))


@pytest.mark.parametrize("parameters", [(0.2, 0.2, 3), (0.2, 0.2, 2), (0.7, 0.5, 3), (0.1, 0.5, 4)])
def test_all_sequences_of_a_small_game_are_within_the_declared_epsilon(parameters):
    """Half the weight is too little."""
    weight, *rest = parameters
    found = largest_log_ratio(*parameters)
    assert declared_at(weight / 2, *rest) < found <= declared_at(*parameters) * (1 + 1e-6)


# Estimates and steps ----------------------------------------------------------------------------


def test_estimates_are_unbiased_and_use_probes_alone(monkeypatch):
    """The mean of K / gamma E_ia l_a over 2^14 rounds is <E_i, l>, within 4 standard errors."""
    runs, mixing, loss = 2**14, 0.25, np.array([0.9, 0.2], np.float32)
    learner = fixed(monkeypatch, setting_of(budget=1, batch=1.0, mixing=mixing), horizon=1)

    def learned(key):
        first, second = jr.split(key)
        state, policy = learner.init(first)
        seen = contextual((jnp.asarray(ADVICE.T), jnp.asarray(loss)), policy)
        return exact_sums.to_float(learner.step(state, second, seen)[0].learned)

    found = np.asarray(jax.jit(jax.vmap(learned))(jr.split(jr.key(1), runs))) * ARMS / mixing
    error = found.std(axis=0, ddof=1) / np.sqrt(runs)
    assert (np.abs(found.mean(axis=0) - ADVICE @ loss) < 4 * error).all()
    probed = found.any(axis=1)
    assert abs(probed.mean() - mixing) < 4 * np.sqrt(mixing / runs)


def test_rounds_by_hand(monkeypatch):
    """Batches of three rounds: the arguments of coins and draws, in float64."""
    setting = setting_of(0.3, 0.1, 3, batch=3.0, mixing=0.5)
    learner, eta = fixed(monkeypatch, setting), 0.3 * 3.0 * 0.5 / ARMS
    assert float(learner.report(learner.init(jr.key(0))[0]).rate) == pytest.approx(eta)
    asked, drawn = [], []
    monkeypatch.setattr(noise, "coin", lambda key, p: asked.append(p) or jnp.bool(True))
    two = jnp.int32(2)
    monkeypatch.setattr(noise, "categorical", lambda key, logits: drawn.append(logits) or two)
    state, policy = learner.init(jr.key(3))
    assert np.all(drawn.pop() == 0.0) and state.expert == 2
    state = state._replace(expert=jnp.int32(1))
    total, batch, played = np.zeros(EXPERTS), np.zeros(EXPERTS), []
    rng = np.random.default_rng(0)
    for t in range(1, 13):
        loss = rng.uniform(size=ARMS).astype(np.float32)
        expert, probes, arm = int(state.expert), bool(state.probes), int(policy(ADVICE.T))
        mixture = policy.args[0]
        assert float(mixture.mixing) == float(probes)
        if not probes:
            assert mixture.weights[expert] == 1.0 and mixture.weights.sum() in (0.0, 1.0)
        played.append(probes)
        batch += probes * ADVICE[:, arm] * loss[arm] * ARMS / 0.5
        seen = jnp.asarray(ADVICE[:, arm]), jnp.float32(loss[arm])
        state, policy = learner.step(state, jr.key(t), seen)
        coin, logits = np.asarray(asked.pop(), np.float64), np.asarray(drawn.pop(), np.float64)
        if t % 3:
            np.testing.assert_array_equal(coin[1], 0.0)
            continue
        y, batch = batch / 3.0, np.zeros(EXPERTS)
        total += y
        np.testing.assert_allclose(coin, [0.1, 0.9 * -np.expm1(-eta * y[expert])], rtol=1e-5)
        np.testing.assert_allclose(logits, -eta * (total - total.min()), atol=1e-5)
        # Of three draws the first two are granted, the first expert among them.
        assert learner.report(state)[:2] == (min(t // 3, 2), max(t // 3 - 2, 0))
    assert 0 < sum(played) < 12


# Privacy by replays -----------------------------------------------------------------------------


def test_advice_beyond_1_is_clipped(monkeypatch):
    """The range of a probe does not depend on the environment."""
    learner = fixed(monkeypatch, setting_of(0.2, 0.5, 3))
    advice = jnp.broadcast_to(7.0 * jnp.eye(EXPERTS)[:ARMS], (16, ARMS, EXPERTS))
    losses = jnp.ones((16, ARMS))
    pair = audit.Pair((advice, losses), (advice, losses.at[0].set(0.0)))
    spent = audit.spent(audit.replay(learner, pair, jr.key(3)), learner.privacy.delta)
    assert float(spent) <= float(learner.privacy.epsilon) * (1 + 1e-6)


# Parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "epsilon", "delta"),
    [
        *itertools.product([2**14], [0.05, 1.0, np.inf], [None, 1e-6]),
        *itertools.product([1, 2, 2**31 - 1], [1e-12, 1e4], [None]),
    ],
)
def test_the_setting_is_private_and_the_largest_or_of_no_use(horizon, epsilon, delta):
    """Its epsilon in float64, which 1 % more would exceed; or else w minimizes the bound."""
    arms, experts = 4, 16
    setting = probing.best_setting(horizon, arms, experts, jnp.float32(epsilon), delta)
    w, p, budget, batch, gamma = (float(x) for x in setting)
    declared = learners.probing_experts(horizon, arms, experts, epsilon=epsilon, delta=delta)

    def exact(w):
        if budget <= 1:
            return 0.0
        leave = np.log1p((1 - p) * -np.expm1(-w) / p)
        pure = max(leave, w) + (budget - 1) * w
        if delta is None:
            return pure
        return min(pure, dartboard_epsilon(-np.expm1(-w), p, 1, budget, delta, width=1.0))

    assert float(declared.privacy.epsilon) == pytest.approx(exact(w), rel=1e-4)
    assert exact(w) <= epsilon * (1 + 1e-4)
    useful = float(probing.useful_weight(horizon, arms, experts, batch, gamma))
    assert exact(1.01 * w) > epsilon or w == pytest.approx(useful, rel=1e-5) or budget <= 1
    if horizon != 2**14:
        return
    if np.isinf(epsilon):
        assert budget == np.ceil(horizon / batch) and w == pytest.approx(useful, rel=1e-6)
    else:
        wanted = np.floor(4 * np.floor(horizon / batch) * p)
        assert budget == min(wanted, np.ceil(horizon / batch))


def test_the_bound_by_hand_and_of_no_other_point_of_the_grid_less():
    horizon, arms, experts, epsilon = 2**14, 4, 16, 0.5
    setting = probing.best_setting(horizon, arms, experts, jnp.float32(epsilon), None)
    w, p, budget, batch, gamma = (float(x) for x in setting)
    eta, n = w * batch * gamma / arms, horizon // batch
    mean = n * (p + eta)
    chernoff = np.exp(budget - mean - budget * np.log(budget / mean))
    assert stats.binom.sf(budget - 1, n, p + eta) <= chernoff < 1.0
    by_hand = batch * np.log(experts) / eta + gamma * horizon + horizon * chernoff
    by_hand += eta * horizon * (1 + arms / (gamma * batch)) / 2
    found = bounds.probing_experts(horizon, arms, experts, eta, p, batch, gamma)
    assert found == pytest.approx(by_hand, rel=1e-6)
    traced = probing.regret_bound(horizon, arms, experts, setting)
    assert float(traced) == pytest.approx(by_hand, rel=1e-3)
    for change in ({"batch": batch / 2}, {"batch": batch * 2}, {"mixing": gamma / 2},
                   {"mixing": gamma * 2}, {"restart": p / 2}, {"restart": p * 2}):  # fmt: skip
        other = setting._replace(**{name: jnp.float32(x) for name, x in change.items()})
        other = other._replace(
            budget=dartboard.switch_budget(horizon, other.restart, other.batch), weight=1.0
        )
        private = dartboard.largest_private(
            lambda w, other=other: dartboard.derived_epsilon(
                probing.throws(other._replace(weight=w)), None, spread=1.0) <= epsilon,
            jnp.float32(1e-6), jnp.float32(1.0))  # fmt: skip
        useful = probing.useful_weight(horizon, arms, experts, other.batch, other.mixing)
        other = other._replace(weight=jnp.minimum(private, useful))
        assert float(probing.regret_bound(horizon, arms, experts, other)) >= 0.999 * by_hand
