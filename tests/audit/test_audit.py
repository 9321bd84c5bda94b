"""Audits of mechanisms with a known epsilon, of learners on worst pairs, and of faulty learners."""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, environments, learners, mechanisms, noise, privacy, simulate
from dpjax.audit import Pair
from dpjax.cli import audits
from dpjax.core import Arms, Batch, BatchLearner, Feedback, Learner, Policies, Privacy, empty_report
from dpjax.feedback import bandit, contextual, full, unclipped
from dpjax.maths import exact_sums

# Many of these learners have mistakes that audits must find.
pytestmark = pytest.mark.filterwarnings("ignore:spent is infinite")

RUNS = 2**17


def declared(epsilon, delta=0.0):
    return Privacy()._replace(epsilon=epsilon, delta=delta)


# Mechanisms whose epsilon is known ------------------------------------------------------------


def randomized_response(epsilon):
    """Its second action is the first loss, 0 or 1, reported truthfully with odds e^epsilon."""

    def step(state, key, loss):
        truth = noise.coin(key, jnp.where(loss[0] > 0.5, 1.0, jnp.exp(epsilon)) /
                           (1.0 + jnp.exp(epsilon)))  # fmt: skip
        return state, truth.astype(jnp.int32)

    # A coin of probability e^epsilon / (1 + e^epsilon) or 1 / (1 + e^epsilon).
    zero = jnp.zeros((), jnp.int32)
    return Learner(lambda key: ((), zero), step, full, None, 2, declared(epsilon), empty_report)


BITS = Pair(jnp.zeros((2, 1)), jnp.zeros((2, 1)).at[0].set(1.0))


def tree_and_pair(height, law, epsilon=1.0, delta=0.0):
    """A tree of that height as a learner, its worst pair, and the optimal statistic."""
    horizon = 2 ** (height - 1) + 1
    norm = {"laplace": 0, "gaussian": 1}[law]
    mechanism = mechanisms.tree(horizon, noise=law)
    scale = mechanism.sensitivity[norm] / epsilon
    learner = audit.releases(mechanism, (), scale=scale, privacy=declared(epsilon, delta))
    pair = Pair(jnp.zeros(horizon).at[0].set(1.0), jnp.zeros(horizon))
    return learner, pair, audit.prefix_statistic(mechanism, scale, 1.0)


@pytest.mark.parametrize(
    ("height", "law", "factor", "trained", "least"),
    [
        (1, "laplace", 1.0, False, 0.8), (2, "laplace", 1.0, False, 0.8),
        (4, "laplace", 1.0, False, 0.8), (2, "laplace", 1.0, True, 0.75),
        (2, "laplace", 2.0, False, 0.75), (3, "gaussian", 1.0, False, 0.8),
    ],
)  # fmt: skip
def test_an_attack_finds_nearly_what_a_tree_spends_and_never_more(
    height, law, factor, trained, least
):
    """With half the noise, a factor of 2; for Gaussian noise both epsilon at delta and mu = 1."""
    delta = 1e-2 if law == "gaussian" else 0.0
    learner, pair, statistic = tree_and_pair(height, law, 1.0, delta)
    if factor == 2.0:
        learner = audit.mutants(learner, pair.losses)["noise halved"]
    options = {} if trained else {"statistic": statistic}
    bound = audit.epsilon(learner, pair, jr.key(0), runs=RUNS, delta=delta, progress=False,
                          **options)  # fmt: skip
    true = factor if law == "laplace" else float(privacy.gaussian_epsilon(1.0, delta))
    assert least * true < bound.epsilon <= true
    if law == "gaussian":
        assert 0.8 < audit.gaussian_from_counts(bound.hits, bound.misses, bound.runs) <= 1.0


def test_randomized_response_in_replay_and_attack():
    learner = randomized_response(1.0)
    replayed = audit.replay(learner, BITS, jr.key(0))
    assert float(replayed.pure) == pytest.approx(1.0, abs=1e-5)
    assert int(replayed.touched) == 1
    bound = audit.epsilon(learner, BITS, jr.key(0), runs=RUNS, progress=False)
    assert 0.9 < bound.epsilon <= 1.0


def test_coverage_of_the_bound_over_repeated_audits():
    """At most 1 in 10 bounds at confidence 0.9 exceeds 1, on an event with odds of exactly e."""
    p, rng, runs, count = np.e / (1.0 + np.e), np.random.default_rng(0), 2000, 4000
    hits, misses = (rng.binomial(runs, chance, count) for chance in (p, 1 - p))
    bounds = audit.bound_from_counts(hits, misses, runs, confidence=0.9)
    wrong = int((bounds > 1.0).sum())
    assert stats.binomtest(wrong, count, 0.1, alternative="greater").pvalue > 1e-3
    assert bounds.mean() > 0.85


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.99])
def test_the_bound_from_counts_by_hand(delta):
    """ln((low - delta) / high) of the two limits, and 0 if low is below delta."""
    (low, _), (_, high) = (audit.clopper_pearson(count, 100, 0.025) for count in (90, 10))
    expected = np.log((low - delta) / high) if low > delta else 0.0
    assert audit.bound_from_counts(90, 10, 100, delta=delta) == pytest.approx(expected)


def test_clopper_pearson_against_its_definition():
    low, high = audit.clopper_pearson(7, 20, 0.05)
    assert stats.binom.sf(6, 20, low) == pytest.approx(0.05)
    assert stats.binom.cdf(7, 20, high) == pytest.approx(0.05)
    assert audit.clopper_pearson(0, 20, 0.05)[0] == 0.0
    assert audit.clopper_pearson(20, 20, 0.05)[1] == 1.0


# Mechanisms, exactly ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in mechanisms.__all__ if n != "exact"])
def test_declared_sensitivity_is_that_of_the_matrices(name):
    """Up to rounding, since a fitted factorization is normalized to 1."""
    for horizon in (2, 9, 33):
        mechanism = getattr(mechanisms, name)(horizon)
        exact = audit.sensitivity(mechanism)
        assert exact.error < 1e-6
        assert exact.l1 <= mechanism.sensitivity[0] * (1 + 1e-6)
        assert exact.l2 <= mechanism.sensitivity[1] * (1 + 1e-6)
    if name == "tree":
        assert mechanism.sensitivity == pytest.approx((exact.l1, exact.l2))


# Learners --------------------------------------------------------------------------------------


CASES = [(name, domain) for name in learners.__all__ for domain in audits.domains_of(name)]
# One domain per learner; the others take as long and add little.
ONCE = dict(CASES)
# The worst pair spends all that is declared, so any smaller scale would be found.
TIGHT = [
    "dp_exp3_lap", "successive_elimination", "dp_ucb", "lazy_ucb", "ftrl",
    "ftpl", "exp2", "adac_oful", "adac_ucb", "dp_ts_ucb",
]  # fmt: skip
FEW = 32


@cache
def subject(name, domain, **keywords):
    return audits.subject(name, domain, 1.0, count=FEW, **keywords)


@cache
def verdict(name, domain):
    return audits.replays(*subject(name, domain))


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        case if case in ONCE.items() else pytest.param(*case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
@pytest.mark.usefixtures("quick_compilation")
def test_no_learner_spends_more_than_it_declares(name, domain):
    if not np.isfinite(float(subject(name, domain)[0].privacy.epsilon)):
        pytest.skip("declares nothing")
    assert not verdict(name, domain).failed


@pytest.mark.parametrize("name", TIGHT)
def test_the_worst_pair_uses_all_that_is_declared(name):
    declared = float(subject(name, ONCE[name])[0].privacy.epsilon)
    assert verdict(name, ONCE[name]).spent.max() == pytest.approx(declared, rel=1e-3)


def survivors(name, domain):
    """The mutants that no replay catches, and the number of all."""
    found = audit.replayed_mutants(*subject(name, domain), audits.keys()[1])
    return [mistake for mistake, verdict in found.items() if not verdict.failed], len(found)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("case", [("ftrl", "ball"), ("hedge", "")])
def test_every_mutant_is_caught(case):
    left, count = survivors(*case)
    assert count >= 3
    assert left == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "domain"), CASES)
def test_every_mutant_of_every_learner_is_caught(name, domain):
    learner, _ = subject(name, domain)
    if not np.isfinite(float(learner.privacy.epsilon)):
        pytest.skip("declares nothing")
    left, count = survivors(name, domain)
    assert count >= 3
    assert left == []


@pytest.mark.slow
def test_the_printed_scale_of_agarwal_and_singh_is_right_if_a_round_becomes_zero():
    """Under replacement it spends twice its epsilon (see test_declarations.py)."""
    options = {"neighbours": "zero_out"}
    learner = audits.build("ftrl", "ball", audits.HORIZON, 1.0, calibration="printed", **options)
    losses = domains.ball(audits.ARMS).losses
    pairs = audit.pairs(jr.key(0), audits.HORIZON, losses, FEW, **options)
    assert not audits.replays(learner, pairs).failed
    assert float(learner.privacy.epsilon) == pytest.approx(1.0)


# Leaks that replay finds -----------------------------------------------------------------------


def learner_of(step, horizon=4, state=0.0, epsilon=1.0):
    start = jnp.asarray(state, jnp.float32), jnp.zeros((), jnp.float32)
    return Learner(lambda key: start, step, bandit_of_first, None, horizon, declared(epsilon),
                   empty_report)  # fmt: skip


@partial(Feedback, "first arm")
def bandit_of_first(loss, action):
    del action
    return bandit(loss, jnp.int32(0))


CHANGED = Pair(jnp.zeros((4, 2)), jnp.zeros((4, 2)).at[1].set(1.0))


@pytest.mark.parametrize(("leak", "passes"), [(0.0, True), (1e-8, True), (1e-4, False)])
def test_the_last_bits_of_an_action_are_rounding(leak, passes):
    """Beside an entry of 1, an entry of 0.01 may be off by the last bits of 1 and no more."""

    def step(state, key, loss):
        release = noise.laplace(key, loss, 1.0)
        return state, jnp.stack([0.0 * release + 1.0, 0.01 + leak * loss])

    start = jnp.float32(0.0), jnp.zeros(2, jnp.float32)
    learner = learner_of(step)._replace(init=lambda key: start)
    assert bool(audit.replay(learner, CHANGED, jr.key(0)).same_actions) == passes


def test_noise_that_is_not_used_costs_nothing_and_all_uses_add_up():
    def masked(state, key, loss):
        release = noise.laplace(key, state + loss, 1.0)
        due = loss < -1.0
        return state + loss, jnp.where(due, release, 0.0)

    def every_round(state, key, loss):
        return state + loss, noise.laplace(key, state + loss, 1.0)

    replayed = audit.replay(learner_of(masked), CHANGED, jr.key(0))
    assert float(replayed.pure) == 0.0 and int(replayed.touched) == 0
    # The sum differs after rounds 2 and 3; the action after round 4 is never played.
    replayed = audit.replay(learner_of(every_round), CHANGED, jr.key(0))
    assert float(replayed.pure) == 2.0 and int(replayed.touched) == 2
    assert float(replayed.rho) == 1.0


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("used", "cost"), [((0, 0, 0), 0.0), ((0, 0, 1), 1.0), ((1, 0, 0), 0.0)])
def test_a_prefix_costs_from_the_first_round_that_uses_it(used, cost):
    """The value of round 2 is in the sums of rounds 2 and 3."""
    stream = mechanisms.tree(4).stream((), scale=2.0)

    def init(key):
        state, release = stream.init(key)
        return (state, jnp.int32(0)), release * 0.0

    def step(state, key, loss):
        inner, t = state
        inner, release = stream.step(inner, key, loss)
        return (inner, t + 1), jnp.where(jnp.array(used)[t] > 0, release, 0.0)

    learner = learner_of(step)._replace(init=init)
    found = audit.replay(learner, CHANGED, jr.key(0))
    assert float(found.pure) == pytest.approx(cost) and bool(found.same_actions)


@pytest.mark.usefixtures("quick_compilation")
def test_an_index_is_exchanged_for_every_other_one():
    """Only the index 4 is used, and it is no neighbour of the drawn index."""

    def step(state, key, loss):
        rates = jnp.full(8, 1.0).at[4].set(1.0 + loss).at[1].set(1e9)
        index = noise.choose(key, rates / jnp.sum(rates))
        return state, (index == 4).astype(jnp.float32)

    found = audit.replay(learner_of(step), CHANGED, jr.key(0))
    assert float(found.pure) == pytest.approx(np.log(2.0), rel=1e-4)


# Losses out of range ---------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("clip", [None, unclipped])
def test_the_frame_clips_for_a_learner_that_does_not(clip):
    """Without clipping it spends 40 times its declaration, since losses are far out of range."""

    def step(state, key, loss):
        return state, (noise.laplace(key, loss, 1.0) > 0.5).astype(jnp.int32)

    start = jnp.float32(0.0), jnp.int32(0)
    learner = learner_of(step)._replace(init=lambda key: start, action_set=Arms(2), clip=clip)
    verdict = audit.verdict(learner, audit.pairs_for(learner, 16, jr.key(0)), jr.key(1))
    assert verdict.failed == (() if clip is None else ("epsilon",))
    far = Pair(CHANGED.losses, jnp.where(CHANGED.losses != CHANGED.others, 40.0, CHANGED.losses))
    replayed = jax.jit(lambda: audit.replay(learner, far, jr.key(0)))()
    assert float(audit.spent(replayed, 0.0)) == pytest.approx(1.0 if clip is None else 40.0)
    wild = environments.gaussian([40.0, 40.0], deviation=0.0)
    found = simulate(learner, wild, jr.key(0), checkpoints=1).clipped
    assert found == (0 if clip else 4)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("unit", ["round", "entry"])
def test_a_vector_that_becomes_zero_stays_zero_out_of_range(unit):
    declared = Privacy(epsilon=1.0, neighbours="zero_out", unit=unit)
    learner = learner_of(lambda state, key, loss: (state, noise.laplace(key, loss, 1.0)))
    learner = learner._replace(privacy=declared, action_set=Arms(2))
    ours, theirs = audit.pairs_for(learner, 40, jr.key(0))
    rows = np.asarray((ours != theirs).any(axis=-1))
    assert (rows.sum(axis=1) <= 1).all() and rows.any(axis=1).mean() > 0.8
    changed = np.asarray(theirs)[rows] if unit == "round" else np.asarray(theirs)[ours != theirs]
    np.testing.assert_array_equal(changed, 0.0)
    assert np.abs(ours).max() > 40.0


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("kept", [False, True])
def test_noise_that_goes_into_other_noise_costs_where_that_is_used(kept):
    """Only the second release is used. If its noise alone changed, the first would be free."""

    def twice(state, key, loss):
        first_key, second_key, other_key = jr.split(key, 3)
        first = noise.laplace(first_key, loss, 0.5)
        second = noise.laplace(second_key, first, 1e-3)
        other = noise.laplace(other_key, loss, 4.0)
        return state, other + jnp.where(kept, second, 0.0)

    replayed = audit.replay(learner_of(twice), CHANGED, jr.key(0))
    assert float(replayed.pure) == pytest.approx(2.25 if kept else 0.25)


# Steps without privacy -------------------------------------------------------------------------


def replay_of(step):
    """Replays a learner with this step; the losses of round 2 change by 1."""
    return jax.jit(lambda: audit.replay(learner_of(step), CHANGED, jr.key(0)))()


def only(action):
    """A step that keeps its state, and plays ``action(key, loss)``."""
    return lambda state, key, loss: (state, action(key, loss))


honest = only(lambda key, loss: noise.laplace(key, loss, 1.0))
noise_of_jax = only(lambda key, loss: loss + 0.0 * jr.laplace(key))
leaking = only(lambda key, loss: noise.laplace(key, loss, 1.0) + 1e-4 * loss)


def scaled_by(scale):
    return only(lambda key, loss: noise.laplace(key, loss, jnp.float32(scale)))


def a_leak_in_the_last_round(state, key, loss):
    """After three rounds the state is 24, and the action shows the excess over 24."""
    state = state + 8.0 + 0.01 * loss
    leak = jnp.where(state >= 24.0, state, 0.0)
    return state, noise.laplace(key, loss, 1.0) + leak


def no_draws(state, key, loss):
    total = noise.laplace.sum(key, exact_sums.of(loss), 1.0, jnp.int32(0))
    return state, exact_sums.to_float(total)


def one_name_alike(state, key, loss):
    @jax.jit
    def laplace(key, value, scale):
        return value + 0.0 * jr.laplace(key) * scale

    return state, laplace(key, loss, 1.0)


def one_draw_for_all_rows(state, key, loss):
    rows = jnp.stack([loss, 0.0 * loss])
    noisy = jax.vmap(lambda value: noise.laplace(key, value, 1.0))(rows)
    return state, noisy[0] - noisy[1]


def weights_from_data(state, key, loss):
    weights = jnp.stack([jnp.float32(1.0), 1.0 - loss])
    return state, noise.laplace.along(key, loss, 1.0, weights)


def a_constant_key(state, key, loss):
    """The key differs between rounds, but is the same in each run."""
    del key
    return state + 1.0, noise.laplace(jr.fold_in(jr.key(5), state.astype(jnp.int32)), loss, 1.0)


def a_probability_that_is_no_number(state, key, loss):
    chosen = noise.choose(key, jnp.stack([loss, jnp.float32(0.5)]) - loss * jnp.nan)
    return state, chosen.astype(jnp.float32)


def with_a_derivative_of_its_own(state, key, loss):
    release = jax.custom_jvp(lambda value: noise.laplace(key, value, 1.0))
    release.defjvp(lambda primals, tangents: (release(*primals), *tangents))
    return state, release(loss)


NO_PRIVACY = {
    "noise of JAX without weight": noise_of_jax,
    "noise of JAX": only(lambda key, loss: loss + jr.laplace(key)),
    "a leak beside a release": leaking,
    "a release times zero": only(lambda key, loss: 0.0 * noise.laplace(key, loss, 1.0) + loss),
    "a leak in the last round": a_leak_in_the_last_round,
    "memory without release": lambda state, key, loss: (state + loss, jnp.float32(0.0)),
    "no draws": no_draws,
    "integer noise": only(
        lambda key, loss: noise.laplace(key, loss.astype(jnp.int32), 1.0).astype(jnp.float32)
    ),
    "a function of the same name": one_name_alike,
    "one draw for all rows": one_draw_for_all_rows,
    "a key from data": only(
        lambda key, loss: noise.laplace(jr.fold_in(key, (loss > 0.5).astype(jnp.int32)), loss, 1.0)
    ),
    "a scale from data": only(lambda key, loss: noise.laplace(key, loss, 1.0 + 1e-5 * loss)),
    "weights from data": weights_from_data,
    "one key for two": only(
        lambda key, loss: noise.laplace(key, loss, 1.0) - noise.laplace(key, 0.0 * loss, 1.0)
    ),
    "one key for two releases of data": lambda state, key, loss: (
        loss, noise.laplace(key, loss, 1.0) + noise.laplace(key, state, 1.0)
    ),
    "a key that draws something else": only(
        lambda key, loss: noise.laplace(key, loss, 1.0) + jr.uniform(key)
    ),
    "a constant key": a_constant_key,
    "a mechanism without noise": lambda state, key, loss: (
        state + loss, noise.laplace.prefix(key, state + loss, loss, 1.0, (1.0, 1.0))
    ),
    "a probability that is no number": a_probability_that_is_no_number,
    "a scale of 0": scaled_by(0.0),
    "a scale of -0": scaled_by(-0.0),
    "a scale that is no number": scaled_by(np.nan),
}  # fmt: skip
PRIVATE = {
    "honest": (honest, 1.0),
    "a memory that only the report tells": (
        lambda state, key, loss: (state + loss, noise.laplace(key, loss, 1.0)), 1.0,
    ),
    "a derivative of its own": (with_a_derivative_of_its_own, 1.0),
    "a negative scale": (scaled_by(-0.5), 2.0),
    "another scale": (scaled_by(2.0), 0.5),
    # A change near the resolution of float32, and noise no larger than it.
    "a scale of rounding": (
        only(lambda key, loss: noise.laplace(key, 2.0**22 + loss, 0.01)), 100.0
    ),
}  # fmt: skip


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("case", [*NO_PRIVACY, *PRIVATE])
def test_a_step_spends_what_it_is_worth_or_all(case):
    replayed = replay_of(NO_PRIVACY[case] if case in NO_PRIVACY else PRIVATE[case][0])
    assert float(audit.spent(replayed, 0.0)) == PRIVATE.get(case, (None, np.inf))[1]
    assert bool(audit.explain(replayed)) == (case in NO_PRIVACY)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("again", [False, True])
def test_a_key_of_init_that_draws_again_is_found(again):
    def init(key):
        own, kept = (key, key) if again else jr.split(key)
        return (kept, noise.laplace(own, jnp.float32(0.0), 1.0)), jnp.float32(0.0)

    def step(state, key, loss):
        del key
        kept, drawn = state
        return state, noise.laplace(kept, loss, 1.0) - drawn

    learner = Learner(init, step, bandit_of_first, None, 2, declared(1.0), empty_report)
    pair = Pair(jnp.zeros((2, 2)), jnp.zeros((2, 2)).at[0].set(1.0))
    replayed = jax.jit(lambda: audit.replay(learner, pair, jr.key(0)))()
    assert bool(replayed.fresh_keys) is not again


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
def test_noise_that_is_zero_by_chance_is_not_missed(law):
    """Small integers are often drawn twice. Sums without noise are still found."""
    rounds, own = 16, noise.LAWS[law]

    def fresh(scale, drawn):
        def step(state, key, loss):
            state += loss + drawn * own(key, jnp.float32(0.0), scale)
            return state, own.prefix(key, state, loss, scale, (1.0, 1.0))

        def init(key):
            del key
            return jnp.float32(0.0), jnp.float32(0.0)

        learner = Learner(init, step, bandit_of_first, None, rounds, declared(1.0), empty_report)
        pair = Pair(jnp.zeros((rounds, 2)), jnp.zeros((rounds, 2)).at[3].set(1.0))
        return bool(audit.replay(learner, pair, jr.key(0)).fresh_keys)

    assert fresh(0.05, 1.0) and fresh(5.0, 1.0)
    assert not fresh(5.0, 0.0)


class Threshold(NamedTuple):
    level: Any

    def __call__(self, features):
        return jnp.sum(features[:, 0] > self.level, dtype=jnp.int32)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("leak", [0.0, 1e-4])
def test_a_policy_that_leaks_is_found_by_its_leaves(leak):
    def step(state, key, seen):
        _, loss = seen
        return state, Threshold(noise.laplace(key, loss, 1.0) + leak * loss)

    start = (), Threshold(jnp.float32(0.0))
    learner = Learner(
        lambda key: start, step, contextual, Policies(1), 4, declared(1.0), empty_report
    )
    features = jnp.ones((4, 2, 1))
    pair = Pair((features, CHANGED.losses), (features, CHANGED.others))
    replayed = jax.jit(lambda: audit.replay(learner, pair, jr.key(0)))()
    assert float(audit.spent(replayed, 0.0)) == (np.inf if leak else 1.0)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("leaks", [False, True])
def test_a_batch_learner_that_leaks_is_found(leaks):
    def init(key):
        return (), Batch(jnp.int32(0), jnp.int32(2))

    def step(state, key, total):
        first = exact_sums.to_float(noise.laplace.total(key, total, 1.0)) > 0.5
        leak = leaks & (exact_sums.to_float(total) > 0.5)
        return state, Batch((first ^ leak).astype(jnp.int32), jnp.int32(2))

    learner = BatchLearner(init, step, bandit_of_first, Arms(2), 4, declared(1.0), empty_report)
    replayed = jax.jit(lambda: audit.replay(learner, CHANGED, jr.key(0)))()
    assert float(audit.spent(replayed, 0.0)) == (np.inf if leaks else 1.0)


@pytest.mark.usefixtures("quick_compilation")
def test_infinite_is_said_in_a_sentence():
    one = replay_of(noise_of_jax)
    with pytest.warns(UserWarning, match="noise must come from dpjax.noise to be seen"):
        assert float(audit.spent(one, 0.0)) == np.inf
    for bad in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="delta must be in"):
            audit.spent(one, bad)
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), one)
    assert "in 2 of 2 replays" in audit.explain(two)[0]
    assert "the noise scale is 0 or NaN" in audit.explain(replay_of(scaled_by(0.0)))[0]


def test_mutants_of_what_has_no_release_are_refused():
    with pytest.raises(ValueError, match="no release was seen in its steps"):
        audit.mutants(learner_of(noise_of_jax), CHANGED.losses)
    assert audit.mutants(learner_of(leaking), CHANGED.losses)


# Pairs and bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace", "zero_out"])
@pytest.mark.parametrize("unit", ["round", "entry"])
@pytest.mark.parametrize("name", ["simplex", "ball"])
def test_pairs_are_neighbours_within_the_set_and_reach_its_diameters(neighbours, unit, name):
    losses = audits.domain_of(name).losses
    pairs = audit.pairs(jr.key(0), 8, losses, 64, neighbours=neighbours, unit=unit)
    change = np.asarray(pairs.losses - pairs.others)
    assert (np.any(change != 0.0, axis=2).sum(axis=1) <= 1).all()
    assert not change[:, -1].any()
    within = jax.vmap(jax.vmap(losses.clip))(pairs.losses)
    np.testing.assert_allclose(within, pairs.losses, atol=1e-6)
    sizes = np.abs(change).sum(axis=(1, 2)), np.sqrt(np.square(change).sum(axis=(1, 2)))
    largest = domains.sensitivity(losses, neighbours, unit)
    for size, bound in zip(sizes, largest, strict=True):
        assert size.max() <= bound * (1 + 1e-5)
        if unit == "round":
            assert size.max() == pytest.approx(bound, rel=1e-5)


LEARNER, PAIR, _ = tree_and_pair(2, "laplace")
ZEROS = jnp.zeros(3)
attack = partial(audit.epsilon, progress=False)


def other_pair(rounds):
    return Pair(jnp.zeros(rounds), jnp.zeros(rounds).at[0].set(1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: audit.replay(LEARNER, Pair(ZEROS, ZEROS), jr.key(0)),
         "neighbours differ in one round, these in 0"),
        (lambda: attack(LEARNER, Pair(ZEROS, ZEROS + 1.0), jr.key(0)), "these in 3"),
        (lambda: audit.replay(LEARNER, Pair(ZEROS, jnp.zeros(2)), jr.key(0)), "alike in shape"),
        *((lambda bad=bad: audit.replay(LEARNER, Pair(ZEROS, ZEROS.at[0].set(bad)), jr.key(0)),
           "must be finite") for bad in (jnp.nan, jnp.inf)),
        *((lambda of=of, n=n: of(LEARNER, other_pair(n), jr.key(0)),
           rf"horizon is 3 rounds, .* \({n},\)") for n in (2, 9) for of in (audit.replay, attack)),
        *((lambda bad=bad: attack(LEARNER, PAIR, jr.key(0), **bad), message) for bad, message in [
            ({"delta": 1e-3}, "delta must be 0"), ({"delta": -1.0}, "delta must be in"),
            ({"confidence": 1.0}, "confidence"), ({"runs": 0}, "runs"),
        ]),
        (lambda: audit.prefix_statistic(mechanisms.tree(4), 1.0, 1.0, round=2), "round must be 1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize(
    ("name", "plays"), [("exp3", "3 arms"), ("adap_ucb", "3 arms"), ("ftrl", "points of R\\^3")]
)
def test_losses_of_another_number_of_arms_are_refused(name, plays, arms):
    learner = audits.build(name, ONCE[name], 16, 1.0)
    wrong = Pair(jnp.zeros((16, arms)), jnp.zeros((16, arms)).at[0].set(1.0))
    several = jax.tree.map(lambda leaf: leaf[None], wrong)
    message = rf"losses of shape \({arms},\) a round do not fit the learner: it plays {plays}"
    for call in (
        lambda: audit.replay(learner, wrong, jr.key(0)),
        lambda: jax.vmap(lambda pair: audit.replay(learner, pair, jr.key(0)))(several),
        lambda: audit.epsilon(learner, wrong, jr.key(0), progress=False),
        lambda: audit.most_visible(learner, several, jr.key(0)),
        lambda: audit.mutants(learner, wrong.losses),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_losses_of_other_features_are_refused():
    learner = audits.build("linucb", "", 16, 1.0)
    features, losses = jnp.zeros((16, 2, 3)), jnp.zeros((16, 2))
    assert audit.mutants(learner, (features, losses))
    for wrong in ((features[..., :2], losses), (features, losses[..., :1]), losses):
        with pytest.raises(ValueError, match=r"do not fit .* policies over features in R\^3"):
            audit.mutants(learner, wrong)


@pytest.mark.slow
def test_the_table_of_audits(tmp_path):
    options = {"runs": 1000, "count": 8, "progress": False}
    printed, *outcome = audits.run(["hedge", "ucb1"], tmp_path, **options)
    passed = "no violation was found on 8 pairs of 16 rounds"
    assert outcome == [0, f"{passed}; later rounds are not audited (--horizon)"]
    assert "3 of 3 caught" in printed and "nothing declared" in printed
    assert {path.name for path in tmp_path.iterdir()} == {
        "audit.csv", "audit_mutants.csv", "parameters.json",
    }  # fmt: skip
    with pytest.raises(ValueError, match="there is no 'exp33'"):
        audits.run(["exp33"], tmp_path)
    with pytest.raises(ValueError, match="epsilon must be finite, since"):
        audits.run(["ftrl"], tmp_path, epsilon=float("inf"))
