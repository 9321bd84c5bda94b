"""EXP3 and its kin: estimates, laws and rates by hand, batches, noise and declared privacy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, every_round, learners, noise
from dpjax.combinators import laplace_feedback
from dpjax.learners._batched_bandit import batch_rounds, htinf
from dpjax.learners._exp2 import arms_as_actions, derived_rates, printed_rates, vectors_as_actions
from dpjax.learners._exp3_minibatch import derived_tau, printed_tau
from dpjax.learners._tsallis_inf import probabilities
from dpjax.learners.parts.advised import Mixture, follow
from tests.play import play_table
from tests.zcdp import least_epsilon


def test_three_rounds_of_exp3_by_hand():
    """Exponents, probabilities and arms of 200 games equal a float64 loop with unshifted G."""
    arms, mixing = 3, 0.3
    losses = np.array([[0.9, 0.1, 0.5], [0.0, 1.0, 0.25], [0.6, 0.3, 0.7]])
    learner = learners.exp3(3, arms, mixing=mixing)

    def game(key):
        # The uniform number of the learner's single draw per round.
        uniform = [jr.uniform(jr.fold_in(key, t)) for t in range(4)]
        return play_table(learner, losses.astype(np.float32), key).states, jnp.stack(uniform)

    games = jax.jit(jax.vmap(game))(jr.split(jr.key(1), 200))
    states, uniforms = jax.tree.map(np.asarray, games)
    for *leaves, uniform in zip(*states, uniforms, strict=True):
        exponents, played, probability = leaves
        estimates = np.zeros(arms)
        for t in range(4):
            weights = np.exp(mixing * estimates / arms)
            p = (1 - mixing) * weights / weights.sum() + mixing / arms
            arm = int(np.searchsorted(np.cumsum(p)[:-1], uniform[t], side="right"))
            assert played[t] == arm
            # A dozen float32 operations, each within 2^-24 = 6e-8.
            assert probability[t] == pytest.approx(p[arm], rel=2e-6)
            theta = mixing * estimates / arms
            np.testing.assert_allclose(exponents[t], theta - theta.max(), atol=1e-6)
            if t < 3:
                estimates[arm] += (1 - losses[t, arm]) / p[arm]
    assert len(np.unique(states.arm, axis=0)) > 20  # many different games


def cap_by_hand(arms, mixing):
    return np.log((arms * (1 - mixing) + mixing) / mixing)


@pytest.mark.parametrize("mixing", [None, 0.0035, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("arms", [2, 4, 10])
def test_declared_epsilon_of_exp3(arms, mixing):
    """T - 1 draws of bounded range 1, or by their log-ratios, in float64; and the printed value."""
    for horizon in (1, 2, 64, 2**18, 2**20):
        derived = learners.exp3(horizon, arms, mixing=mixing).privacy
        printed = learners.exp3(horizon, arms, mixing=mixing, calibration="printed").privacy
        gamma = mixing or min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * horizon)))
        cap, delta, draws = cap_by_hand(arms, gamma), 1 / max(horizon, 2) ** 2, horizon - 1
        rho = draws * min(1, 2 * cap) ** 2 / 8
        epsilon = min(draws * min(1, cap), least_epsilon(rho, delta))
        # The logarithm of the cap cancels if gamma is close to 1: a few 2^-24 over 0.1.
        assert float(derived.epsilon) == pytest.approx(epsilon, rel=1e-5, abs=2e-6)
        assert float(derived.rho) == pytest.approx(rho, rel=1e-5)
        mixed = 2 * (1 - gamma) * horizon + np.sqrt(2 * horizon * np.log(1 / delta))
        paper = min(2 * horizon, horizon * cap, mixed)
        assert float(printed.paper_epsilon) == pytest.approx(paper, rel=1e-5)
        assert (printed.epsilon, printed.rho) == (derived.epsilon, derived.rho)
        assert derived.delta == printed.delta == delta


def test_dp_exp3_lap_is_laplace_feedback_over_exp3():
    """States and arms, bit for bit, with threshold ln T / epsilon and the null loss of gains."""
    # Calibrated for 8 rounds but played for 200, so that rounds are rejected.
    threshold, losses = jnp.log(jnp.float32(8)) / 3.0, jr.uniform(jr.key(11), (200, 3))
    plain, base = learners.dp_exp3_lap(8, 3, epsilon=3.0), learners.exp3(8, 3)
    composed = laplace_feedback(base, epsilon=3.0, threshold=threshold, null_loss=1.0)
    ours, theirs = (play_table(learner, losses, jr.key(0)) for learner in (plain, composed))
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert ours.last.rejected > 0


EPSILONS = np.float32(10.0) ** np.arange(-6, 7, dtype=np.float32)

# The published run: K = 4 arms, T = 2^18 rounds, delta = T^-2.
HORIZON, PUBLISHED_ARMS, DELTA = 2**18, 4, 2.0**-36


@pytest.mark.parametrize(("horizon", "delta"), [(64, 1e-3), (HORIZON, DELTA), (10**6, 1e-9)])
def test_tau_of_exp3_minibatch_inverts_its_epsilon(horizon, delta):
    """In float64, from 1e-6 to 1e6; tau is 0 at infinity, and the derived one is smaller."""
    printed, derived = (
        np.array([float(solve(horizon, e, delta)) for e in EPSILONS])
        for solve in (printed_tau, derived_tau)
    )
    # tau is exact to a few 2^-24, its cube to three times as much.
    np.testing.assert_allclose(printed_by_hand(horizon, printed, delta), EPSILONS, rtol=1e-5)
    exact = [least_epsilon(rho, delta) for rho in horizon / (8 * derived**3)]
    np.testing.assert_allclose(exact, EPSILONS, rtol=1e-5, atol=2e-6)
    assert printed_tau(horizon, np.inf, delta) == derived_tau(horizon, np.inf, delta) == 0.0
    assert (derived < printed).all()


def printed_by_hand(horizon, tau, delta):
    return 4 * horizon / tau**3 + np.sqrt(8 * np.log(1 / delta) * horizon / tau**3)


def declared_by_hand(horizon, arms, tau, delta):
    """(epsilon, rho) in float64 of ceil(T / tau) batches, the first of which sees no data."""
    batches = -(-horizon // tau)
    mixing = min(1.0, np.sqrt(arms * np.log(arms) / ((np.e - 1) * batches)))
    cap = np.log((arms * (1 - mixing) + mixing) / mixing)
    rho = (batches - 1) * min(1 / tau, 2 * cap) ** 2 / 8
    pure = (batches - 1) * min(1 / tau, cap)
    return min(pure, least_epsilon(rho, delta)), rho


@pytest.mark.parametrize("calibration", ["derived", "printed"])
@pytest.mark.parametrize(("horizon", "arms"), [(1, 2), (100, 3), (HORIZON, PUBLISHED_ARMS)])
def test_exp3_minibatch_declares_at_most_the_epsilon_asked_for(horizon, arms, calibration):
    """It equals float64 arithmetic at the integer tau; only a tau capped at T may exceed."""
    taus = []
    for epsilon in [1e-9, *EPSILONS.tolist(), np.inf]:
        learner = learners.exp3_minibatch(horizon, arms, epsilon=epsilon, calibration=calibration)
        tau = int(learner.init(jr.key(0))[1].rounds)
        taus.append(tau)
        declared = learner.privacy
        delta = 1 / max(horizon, 2) ** 2
        exact, rho = declared_by_hand(horizon, arms, tau, delta)
        # atol: if gamma is 1, the cap is exactly 0.
        np.testing.assert_allclose(float(declared.epsilon), exact, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(float(declared.rho), rho, rtol=1e-5, atol=1e-12)
        assert declared.delta == delta
        if tau < horizon:
            assert float(declared.epsilon) <= epsilon * (1 + 1e-6)
        if calibration == "printed":
            stated = float(declared.paper_epsilon)
            assert stated == pytest.approx(printed_by_hand(horizon, tau, delta), rel=1e-5)
            assert tau == horizon or stated <= epsilon * (1 + 1e-6)
    assert taus[0] == horizon and taus[-1] == 1
    assert (np.diff(taus) <= 0).all()


def test_a_fractional_tau_of_exp3_minibatch_is_rounded_down_and_cut_at_the_horizon():
    """tau = 18.9 plays and declares batches of 18 rounds; a tau above T plays T."""
    large = 1e12, np.inf, np.int64(2**32 + 5), 2**40
    for tau, rounds in [(18.9, 18), (1.0, 1), (99.5, 99), *((tau, 100) for tau in large)]:
        learner = learners.exp3_minibatch(100, 3, tau=tau)
        assert learner.init(jr.key(0))[1].rounds == rounds
        whole = learners.exp3_minibatch(100, 3, tau=rounds).privacy
        assert learner.privacy.epsilon == whole.epsilon


# E has one row for each of five experts on three arms.
ADVICE = [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.25, 0.5, 0.25], [0.25, 0.625, 0.125], [0, 0, 1.0]]
ADVICE = np.array(ADVICE, np.float32)
EXPERTS, ARMS = ADVICE.shape


def test_no_coin_of_exp4_draws_an_arm_of_probability_0_or_none():
    """The least and the largest float below 1, at gamma = 0."""
    one = Mixture(jnp.eye(EXPERTS, dtype=jnp.float32)[1], jnp.float32(0.0), jnp.float32(0.0))
    assert follow(one, ADVICE.T) == 1  # arm 0 has no weight
    assert follow(one._replace(level=jnp.float32(1.0 - 2.0**-24)), ADVICE.T) == 2


def derived_eta(horizon, epsilon, arms=ARMS, experts=EXPERTS):
    lam = 1 / epsilon
    price = 0.75 + 2 * lam**2 + 2 * lam * np.log(horizon)
    return np.sqrt(np.log(experts) / (horizon * arms * price))


def test_rounds_of_exp4_by_hand(monkeypatch):
    """Noise of exactly one scale: exponents -eta E_ia (f - 1/2) / p, in float64."""
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + scale)
    horizon, epsilon = 5000, 2.0
    learner = learners.exp4(horizon, ARMS, EXPERTS, epsilon=epsilon)
    eta = derived_eta(horizon, epsilon)
    gamma = eta * ARMS * (0.5 + 2 / epsilon * np.log(horizon))
    assert gamma < 0.5
    exponents = np.zeros(EXPERTS)
    state, policy = learner.init(jr.key(0))
    for t, loss in enumerate([0.2, 0.9, 0.4, 0.7]):
        q = np.exp(exponents) / np.exp(exponents).sum()
        np.testing.assert_allclose(policy.args[0].weights, q, rtol=1e-5)
        p = (1 - gamma) * q @ ADVICE + gamma / ARMS
        arm = int(policy(jnp.asarray(ADVICE.T)))
        assert np.searchsorted(np.cumsum(p), float(policy.args[0].level), side="right") == arm
        exponents = exponents - eta * ADVICE[:, arm] * (loss + 1 / epsilon - 0.5) / p[arm]
        seen = jnp.asarray(ADVICE[:, arm]), jnp.float32(loss)
        state, policy = learner.step(state, jr.key(t), seen)
        np.testing.assert_allclose(state.exponents, exponents - exponents.max(), atol=1e-6)
    assert learner.report(state) == (0, 0)


def test_a_short_game_of_exp4_is_capped_and_counts_what_the_proof_excludes():
    """gamma = 1/2 at eps = 0.01; a step above 1 is a violation, one below is not."""
    learner = learners.exp4(10, ARMS, EXPERTS, epsilon=0.01)
    state, policy = learner.init(jr.key(0))
    assert policy.args[0].mixing == 0.5 and learner.report(state).capped == 1
    plain = learners.exp4(100, ARMS, EXPERTS, epsilon=np.inf)
    state, _ = plain.init(jr.key(0))
    seen = [(jnp.asarray(ADVICE[:, 0]), jnp.float32(loss)) for loss in (0.0, -1000.0)]
    assert [int(plain.step(state, jr.key(1), x)[0].violations) for x in seen] == [0, 1]


def test_the_bound_of_exp4_by_hand_and_by_the_sum_of_its_terms():
    """ln N / eta + eta T K (M^2 + 2 lambda^2) + gamma T + 1 at the eta of the learner."""
    horizon, epsilon = 10**6, 1.0
    eta = derived_eta(horizon, epsilon, 4, 16)
    gamma = eta * 4 * (0.5 + 2 * np.log(horizon))
    terms = np.log(16) / eta + eta * horizon * 4 * (0.25 + 2) + gamma * horizon + 1
    assert bounds.exp4(horizon, 4, 16, epsilon) == pytest.approx(terms, rel=1e-9)
    _, policy = learners.exp4(horizon, 4, 16, epsilon=epsilon).init(jr.key(0))
    assert float(policy.args[0].mixing) == pytest.approx(gamma, rel=1e-5)
    assert bounds.exp4(1000, 3, 3, 0.5) == bounds.exp2(1000, 3, 0.5)
    assert bounds.exp4(900, 2, 3, np.inf) == pytest.approx(np.sqrt(900 * 2 * np.log(3) * 3) + 1)


VECTORS = np.array([[1.0, 0.2], [-0.3, 1.0], [0.0, -1.0], [0.8, 0.7], [-1.0, 0.1]])
# In R^3 but in one plane; two of them are equal.
FLAT = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
STATES = [np.zeros(5), np.array([0, -1, -2, -0.3, -4.0]), np.array([-9, 0, -9, -9, -0.1])]


def mixed(exponents, mixing, exploration):
    weights = np.exp(exponents)
    return (1 - mixing) * weights / weights.sum() + mixing * exploration


@pytest.mark.parametrize("exponents", STATES)
@pytest.mark.parametrize(
    ("actions", "features"),
    [
        (arms_as_actions(5), np.eye(5)),
        (vectors_as_actions(VECTORS), VECTORS),
        (vectors_as_actions(FLAT), FLAT),
    ],
    ids=["arms", "vectors", "flat"],
)
def test_estimates_of_exp2_are_unbiased(actions, features, exponents):
    """sum_j p_j <l, a_j> <a_i, P^+ a_j> = <l, a_i>, exactly: every draw is enumerated."""
    count = len(features)
    p = mixed(exponents[:count], 0.1, actions.exploration)
    loss = np.linspace(-1, 0.7, features.shape[1])
    seen = features @ loss
    scores = np.stack([actions.scores(jnp.asarray(p, jnp.float32), j) for j in range(count)])
    np.testing.assert_allclose((p * seen) @ scores, seen, atol=2e-5)


def test_three_rounds_of_exp2_by_hand(monkeypatch):
    """One game with noise of exactly one scale: exponents -eta (f - 1/2) / p, in float64."""
    horizon, epsilon, arms = 100, 2.0, 3
    monkeypatch.setattr(noise, "laplace", lambda key, value, scale: value + scale)
    learner = learners.exp2(horizon, arms, epsilon=epsilon)
    scale = 1 / epsilon
    reach = arms * (0.5 + 2 * scale * np.log(horizon))
    price = arms * (0.25 + 2 * scale**2) + reach
    eta = np.sqrt(np.log(arms) / (horizon * price))
    exponents = np.zeros(arms)
    state, arm = learner.init(jr.key(0))
    for t, loss in enumerate([0.2, 0.9, 0.4]):
        p = mixed(exponents, eta * reach, 1 / arms)
        exponents[arm] -= eta * (loss + scale - 0.5) / p[arm]
        state, arm = learner.step(state, jr.key(t), jnp.float32(loss))
        np.testing.assert_allclose(state.base.exponents, exponents - exponents.max(), atol=1e-6)


@pytest.mark.parametrize("horizon", [10, 1000, 10**6])
@pytest.mark.parametrize("arms", [2, 100])
def test_rates_of_exp2_keep_their_conditions(horizon, arms):
    """Derived: gamma >= eta N (M + 2 lambda ln T). Printed: scaled from losses in [-1, 1]."""
    actions = arms_as_actions(arms)
    for epsilon in (0.01, 0.3, 1.0, 10.0, np.inf):
        scale = jnp.float32(2 / epsilon)
        eta, gamma, capped = derived_rates(horizon, actions, (-1.0, 1.0), scale, 0.0)
        reach = arms * (1 + 2 * float(scale) * np.log(horizon))
        assert float(gamma) * (1 + 1e-5) >= float(eta) * reach
        assert bool(capped) == (float(gamma) == 0.5)
        eta, gamma, _ = printed_rates(horizon, actions, (-3.0, 3.0), 3.0 * scale)
        inflation = 1 + 2 * float(scale) ** 2 * np.log(arms * horizon)
        expected = np.sqrt(np.log(arms) / (2 * arms * horizon * inflation))
        assert float(eta) == pytest.approx(expected / 3, rel=1e-5)
        wanted = min(1.0, expected * arms * np.sqrt(inflation))
        assert float(gamma) == pytest.approx(wanted, rel=1e-5)


def test_derived_rates_of_exp2_give_the_bound():
    """bounds.exp2 is ln K / eta + eta T (r (M^2 + 2 lambda^2) + w g (M + B)) + w at its minimum."""
    for horizon, arms, epsilon in [(10**6, 4, 1.0), (10**5, 10, np.inf), (10**6, 3, 5.0)]:
        scale = 1 / epsilon
        eta, _, capped = derived_rates(
            horizon, arms_as_actions(arms), (0.0, 1.0), jnp.float32(scale), 0.5
        )
        assert not capped

        def sum_of_terms(eta, horizon=horizon, arms=arms, scale=scale):
            reach = arms * (0.5 + 2 * scale * np.log(horizon))
            price = arms * (0.25 + 2 * scale**2) + reach
            return np.log(arms) / eta + eta * horizon * price + 1

        best = bounds.exp2(horizon, arms, epsilon)
        assert sum_of_terms(float(eta)) == pytest.approx(best, rel=1e-5)
        assert min(sum_of_terms(0.9 * float(eta)), sum_of_terms(1.1 * float(eta))) > best


def test_violations_and_the_cap_of_exp2_are_reported(monkeypatch):
    """A draw of -50 scales violates eta l~ >= -1, a draw of 50 scales does not; T = 4 is capped."""
    for draw, broken in ((-50.0, 1), (50.0, 0), (-1.0, 0)):
        monkeypatch.setattr(noise, "laplace", lambda key, v, scale, draw=draw: v + draw * scale)
        learner = learners.exp2(1000, 3, epsilon=0.1)
        state, _ = learner.init(jr.key(0))
        report = learner.report(learner.step(state, jr.key(1), jnp.float32(0.5))[0])
        assert (report.violations, report.capped) == (broken, 0)
    learner = learners.exp2(4, 3, epsilon=0.1)
    assert learner.report(learner.init(jr.key(0))[0]).capped == 1


def by_bisection(estimates, rate):
    """(rate L_i + m)^-2 with sum 1, in float64."""
    scaled = rate * (estimates - estimates.min())
    low, high = 1.0, len(estimates) ** 0.5
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum((scaled + middle) ** -2.0) > 1 else (low, middle)
    return (scaled + low) ** -2.0


@pytest.mark.parametrize("arms", [2, 3, 50, 10_000])
def test_probabilities_of_tsallis_inf(arms):
    """Against bisection, for estimates close together, far apart and in two groups."""
    generator = np.random.default_rng(0)
    cases = [
        np.zeros(arms),
        generator.exponential(size=arms),
        10 ** generator.uniform(-3, 7, arms),
        np.where(np.arange(arms) == 1, 0.0, 2.0 * arms**0.5),
    ]
    for estimates in cases:
        estimates = (estimates - estimates.min()).astype(np.float32)
        p = probabilities(jnp.asarray(estimates), jnp.float32(0.5))
        np.testing.assert_allclose(p, by_bisection(estimates.astype(float), 0.5), rtol=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "rounds"), [(1e-9, 1000), (0.1, 10), (0.3, 4), (7.0, 1), (np.inf, 1)]
)
def test_rounds_of_a_batch_of_batched_bandit(epsilon, rounds):
    """ceil(1 / epsilon), clipped to 1 .. T before the cast to an integer."""
    assert batch_rounds(1000, epsilon) == rounds
    batch = learners.batched_bandit(1000, 3, epsilon=epsilon).init(jr.key(0))[1]
    assert batch.rounds == rounds and batch.rounds.dtype == jnp.int32


@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_batched_bandit_over_exp2_with_batches_of_one_round_is_exp2(epsilon):
    """The same arms under the same key."""
    batched = every_round(learners.batched_bandit(60, 3, epsilon=epsilon, base="exp2"))
    plain = learners.exp2(60, 3, epsilon=epsilon)
    losses = np.tile(np.float32([0.3, 0.6, 0.9]), (29, 1))
    ours, theirs = (play_table(learner, losses, jr.key(5)).actions for learner in (batched, plain))
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 1


@pytest.mark.parametrize("scale", [None, 1.5], ids=["tsallis_inf", "htinf"])
def test_three_rounds_of_tsallis_inf_and_batched_bandit_by_hand(scale):
    """100 games equal a float64 loop, with eta_t = 2 / (scale sqrt t) and l / p for the played arm.

    HTINF skips large losses, but the round counts.
    """
    table = np.array([[0.1, 0.9, -0.3], [2.5, 0.2, -2.0], [0.3, -0.1, 0.7]], np.float32)
    learner = htinf(8, 3, jnp.float32(scale)) if scale else learners.tsallis_inf(8, 3)

    def game(key):
        played = play_table(learner, table, key)
        return played.actions, played.states

    arms, states = jax.jit(jax.vmap(game))(jr.split(jr.key(2), 100))
    seen, limit = (table, 1 - 2 ** (-1 / 3)) if scale else (np.clip(table, 0.0, 1.0), np.inf)
    scale, skips = scale or 1.0, 0
    for i in range(100):
        sums = np.zeros(3)
        for t in range(1, 5):
            p, arm = by_bisection(sums, 1 / (scale * t**0.5)), int(arms[i, t - 1])
            np.testing.assert_allclose(states.probability[i, t - 1], p[arm], rtol=1e-5)
            np.testing.assert_allclose(states.estimates[i, t - 1], sums - sums.min(), atol=1e-5)
            if t < 4:
                loss = float(seen[t - 1, arm])
                used = abs(loss) <= limit * p[arm] ** 0.5 * scale * t**0.5
                sums[arm] += loss / p[arm] * used
                skips += not used
    if scale > 1.0:
        assert 0 < skips == states.skipped[:, -1].sum() < 300
