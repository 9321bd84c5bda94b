"""LinUCB: the algorithm against NumPy, its privacy, and the cost of its constants."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from jax.extend.core import jaxpr_as_fun

from dpjax import audit, environments, learners, mechanisms, simulate, sweep
from dpjax.core import Environment, Outcome, Policies
from dpjax.engine import one_kernel
from dpjax.engine.batch_last import batch_last
from dpjax.engine.evaluate import equations
from dpjax.learners.parts import gram
from dpjax.maths import ellipsoids
from tests.engine.games import traced
from tests.play import play_table

DELTA = 0.1


def table(horizon, arms, dim, seed=0):
    """Random features of length at most 1 and losses -1 and 1 with linear means."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(horizon, arms, dim))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    features *= rng.uniform(0.5, 1.0, (horizon, arms, 1))
    theta = rng.normal(size=dim)
    theta *= 0.9 / np.linalg.norm(theta)
    losses = np.where(rng.random((horizon, arms)) < 0.5 * (1 + features @ theta), 1.0, -1.0)
    return features.astype(np.float32), losses.astype(np.float32)


@partial(jax.jit, static_argnames="learner_of")
def _trajectory(learner_of, features, losses, key):
    learner = learner_of()
    game = play_table(learner, (features, losses), key)
    policies = jax.tree.map(lambda leaf: leaf[:-1], game.actions)
    arms = jax.lax.map(lambda pair: pair[0](pair[1]), (policies, features))
    return arms, policies.args[0], learner.report(game.last), game.clipped


def trajectory(learner_of, features, losses, key=0):
    """Arms (T,), beliefs, report and clipped losses of one game on a table."""
    made = _trajectory(learner_of, jnp.asarray(features), jnp.asarray(losses), jr.key(key))
    return jax.tree.map(np.asarray, made)


def oful(features, losses, bound=1.0, alpha=None):
    """OFUL in NumPy with ridge 1: (arms, leads), where leads are the least margins of an arm."""
    horizon, _, dim = features.shape
    alpha = 1.0 / horizon if alpha is None else alpha
    v, u, arms, leads = np.eye(dim), np.zeros(dim), [], []
    for x, loss in zip(features.astype(np.float64), losses.astype(np.float64), strict=True):
        inverse = np.linalg.inv(v)
        beta = bound * np.sqrt(2 * np.log(1 / alpha) + np.linalg.slogdet(v)[1]) + 1.0
        index = x @ inverse @ u - beta * np.sqrt(np.einsum("ki,ij,kj->k", x, inverse, x))
        arm = int(np.argmin(index))
        arms.append(arm)
        leads.append(np.diff(np.sort(index))[0])
        v, u = v + np.outer(x[arm], x[arm]), u + loss[arm] * x[arm]
    return np.array(arms), np.array(leads)


def without_privacy(dim):
    return learners.linucb(300, dim, epsilon=jnp.inf, delta=DELTA)


EXACT = gram.gaussian(mechanism=mechanisms.exact)


def on_exact_sums(dim):
    return learners.linucb(300, dim, epsilon=1.0, delta=DELTA, gram=EXACT)


@pytest.mark.parametrize("dim", [3, 10])
@pytest.mark.parametrize("make", [without_privacy, on_exact_sums])
def test_without_noise_it_is_oful(make, dim):
    """Arm for arm as in NumPy; the closest margin is far above rounding."""
    features, losses = table(300, 6, dim)
    expected, leads = oful(features, losses)
    assert leads.min() > 2e-5
    arms, _, report, clipped = trajectory(partial(make, dim), features, losses)
    np.testing.assert_array_equal(arms, expected)
    assert (clipped, report.indefinite) == (0, 0)
    assert np.isinf(make(dim).privacy.epsilon)


def test_on_unit_vectors_it_is_a_bandit():
    """theta~_i = S_i / (n_i + 1), width beta / sqrt(n_i + 1), ln det = sum ln(n_i + 1)."""
    horizon, dim = 300, 4
    rng = np.random.default_rng(1)
    losses = np.where(rng.random((horizon, dim)) < [0.2, 0.5, 0.6, 0.7], 1.0, -1.0)
    features = np.broadcast_to(np.eye(dim, dtype=np.float32), (horizon, dim, dim))
    arms, *_ = trajectory(partial(without_privacy, dim), features, losses)
    n, total = np.ones(dim), np.zeros(dim)
    for t in range(horizon):
        beta = np.sqrt(2 * np.log(horizon) + np.log(n).sum()) + 1.0
        index = total / n - beta / np.sqrt(n)
        # Equal counts and sums tie, but rounding may separate them.
        assert index[arms[t]] <= index.min() + 1e-6
        n[arms[t]] += 1
        total[arms[t]] += losses[t, arms[t]]


VARIANTS = {
    "gaussian": gram.gaussian(),
    "printed, with a floor": gram.gaussian(calibration="printed", norm_bound="paper", floor=5000.0),
    "wishart": gram.wishart(),
    "reward only": gram.losses_only(),
    "local": gram.gaussian(mechanism=mechanisms.per_item),
    "shuffled": gram.gaussian(mechanism=partial(mechanisms.per_item, batch=10)),
}
# Number of events, if not 1, that share the failure of the losses' noise bound: one per
# regularizer.
EVENTS = {"local": 64, "shuffled": 64}


def gram_sums_of(variant, horizon, dim):
    """The private Gram matrices of a learner of that variant."""
    bounds = gram.Bounds(1.0, 1.0, 1.0)
    given = {"epsilon": 1.0, "delta": DELTA, "failure": 1.0 / horizon}
    return VARIANTS[variant].noise(horizon, dim, bounds, **given)


def private(dim, horizon=64, epsilon=1.0, **changed):
    return learners.linucb(horizon, dim, epsilon=epsilon, delta=DELTA, **changed)


@cache
def two_games(variant):
    """One game, and the same with round 20 replaced: beliefs, releases, regularizers, report."""
    dim, horizon = 3, 64
    learner = private(dim, gram=VARIANTS[variant])
    sums = gram_sums_of(variant, horizon, dim)
    features, losses = table(horizon, 5, dim)
    other_features, other_losses = features.copy(), losses.copy()
    other_features[19], other_losses[19] = -features[19][::-1], -losses[19]

    def play(table):
        features, losses = table
        key = jr.key(0)

        def step(carry, row):
            (state, policy), (beside, release) = carry
            t, x, loss = row
            seen = learner.feedback((x, loss), policy)
            now = jr.fold_in(key, t)
            made = learner.step(state, now, seen), sums.step(beside, now, *seen)
            return made, (policy.args[0], release, sums.now(beside))

        start = learner.init(jr.fold_in(key, 0)), sums.init(jr.fold_in(key, 0))
        rows = (jnp.arange(1, horizon + 1), features, losses)
        (last, _), seen = jax.lax.scan(step, start, rows)
        return *seen, learner.report(last[0])

    # One after the other, since in a batch sums may be rounded in different orders.
    tables = np.stack([features, other_features]), np.stack([losses, other_losses])
    made = jax.jit(lambda both: jax.lax.map(play, both))(tables)
    return jax.tree.map(np.asarray, made)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("variant", VARIANTS)
def test_beliefs_follow_from_the_releases(variant):
    """theta~ and beta W from the release and the regularizer, in float64."""
    dim, horizon = 3, 64
    beliefs, releases, regularizers, report = two_games(variant)
    for t in (0, 1, 7, 40, 63):
        r = jax.tree.map(lambda leaf, t=t: float(leaf[0, t]), regularizers)
        matrix = np.asarray(ellipsoids.unpack(releases[0, t], dim + 1), np.float64)
        v, u = matrix[:dim, :dim], matrix[dim, :dim]
        assert np.linalg.eigvalsh(v)[0] > 0
        estimate = beliefs.estimate[0, t]
        np.testing.assert_allclose(estimate, np.linalg.solve(v, u), rtol=2e-3, atol=2e-5)
        growth = np.linalg.slogdet(v)[1] - dim * np.log(r.smallest)
        log_failure = np.log(2 * horizon * EVENTS.get(variant, 1))
        beta = np.sqrt(max(2 * log_failure + growth, 0.0)) + np.sqrt(r.largest) + r.tilt
        w = np.zeros((dim, dim))
        w[np.tril_indices(dim)] = beliefs.spread[0, t]
        np.testing.assert_allclose(w.T @ w, beta**2 * np.linalg.inv(v), rtol=2e-3, atol=1e-3)
    assert report.indefinite.sum() == 0


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("variant", VARIANTS)
def test_policies_do_not_depend_on_later_rounds_nor_on_the_rounds_own_data(variant):
    """With round 20 replaced, policies 1 .. 20 agree bit for bit, and a later one differs."""
    beliefs, _, _, _ = two_games(variant)
    for one, other in beliefs:
        np.testing.assert_array_equal(one[:20], other[:20])
    assert (beliefs.estimate[0, 20] != beliefs.estimate[1, 20]).any()


@pytest.mark.usefixtures("quick_compilation")
def test_declared_privacy_is_joint():
    declared = private(3).privacy
    assert (declared.model, declared.released, declared.unit) == ("joint", "policies 1..T", "round")
    assert (declared.epsilon, declared.delta, declared.neighbours) == (1.0, DELTA, "replace")
    assert declared.rho > 0 and declared.calibration == "derived"
    code = private(3, gram=gram.gaussian(calibration="code")).privacy
    assert code.calibration == "code" and code.paper_epsilon == 1.0
    assert 0.0 <= float(code.epsilon) < 0.1 and float(code.rho) < 0.002  # (0, 0.1) is enough
    assert private(3, gram=gram.losses_only()).privacy.unit == "entry"


# Many dimensions


@pytest.mark.parametrize("mechanism", [mechanisms.tree, mechanisms.exact])
def test_a_game_in_many_dimensions_can_be_one_kernel_of_the_same_size(mechanism):
    """It calls no matrix library, because calls from several programs may block each other."""

    def operations(dim):
        def game(epsilon):
            law = gram.gaussian(mechanism=mechanism)
            learner = learners.linucb(8, dim, epsilon=epsilon, delta=DELTA, gram=law)
            return learner, environments.gap_arms(dim, arms=3)

        function = batch_last(jaxpr_as_fun(traced(game, [4, 8]).program), (False, True, False))
        batched = jax.make_jaxpr(function)(jnp.float32(1.0), jnp.arange(8), jr.key(0)).jaxpr
        assert one_kernel._not_in_a_kernel(batched) is None
        return sum(1 for _ in equations(batched))

    assert operations(16) == operations(60)


@pytest.mark.usefixtures("quick_compilation")
def test_trials_of_many_dimensions_do_not_depend_on_each_other():
    """Without a shift, V_t of 16 rows is indefinite in some rounds of some trials."""
    rows = table(8, 3, 16)

    def game(epsilon):
        unshifted = gram.gaussian(shifted=False)
        learner = learners.linucb(8, 16, epsilon=epsilon, delta=DELTA, gram=unshifted)
        return learner, environments.contextual_table(*rows)

    many, few = (
        sweep(game, np.array([200.0]), seeds, jr.key(0), checkpoints=2, progress=False)
        for seeds in (24, 1)
    )
    counted = many.report.indefinite
    assert counted.max() > counted.min() >= 0
    np.testing.assert_array_equal(counted[:, :1], few.report.indefinite)
    np.testing.assert_array_equal(many.regret[:, :1], few.regret)


# The cost of standard differential privacy


def two_contexts():
    """Context c is 0 or 1 by a coin, arm a has features e_(2c + a), and arm c is right.

    Losses are -1 for the arm of the context, and 1 for the other.
    """
    means = jnp.array([-1.0, 1.0, 1.0, -1.0])

    def step(state, key, policy):
        context = jr.bernoulli(key).astype(jnp.int32)
        features = jnp.where(context == 0, jnp.eye(4)[:2], jnp.eye(4)[2:])
        losses = jnp.sum(features * means[None], axis=1)
        arm = policy(features)
        return state, Outcome((features, losses), 0.5 * (1.0 + losses[arm]))

    return Environment(lambda key: (), step, lambda state, tally: tally, Policies(4))


def answer_by_randomized_response(learner, epsilon):
    """The same learner, with each round's arm epsilon-DP in that round's context."""

    def rule(policy, key, features):
        lie = jr.bernoulli(key, 1.0 / (1.0 + jnp.exp(epsilon)))
        return jnp.where(lie, 1 - policy(features), policy(features))

    def shown(key, made):
        state, policy = made
        return state, jax.tree_util.Partial(rule, policy, jr.fold_in(key, 1))

    return learner._replace(
        init=lambda key: shown(key, learner.init(jr.fold_in(key, 0))),
        step=lambda state, key, seen: shown(key, learner.step(state, jr.fold_in(key, 0), seen)),
    )


@pytest.mark.slow
def test_standard_privacy_costs_linear_regret():
    """Claim 13: at least T / 4 for epsilon < ln 2, here even without noise on the statistics."""
    epsilon, horizon, early = 0.69, 2**14, 2**11
    joint = learners.linucb(horizon, 4, epsilon=epsilon, delta=0.1, parameter_bound=2.0)
    known = learners.linucb(horizon, 4, epsilon=jnp.inf, delta=0.1, parameter_bound=2.0)

    def share(learner):
        """Regret over rounds, after the first rounds and after all."""
        play = jax.vmap(
            lambda key: simulate(learner, two_contexts(), key, checkpoints=(early, horizon))
        )
        regret = jax.jit(play)(jr.split(jr.key(0), 16)).regret.mean(axis=0)
        return float(regret[0]) / early, float(regret[1]) / horizon

    standard = share(answer_by_randomized_response(known, epsilon))
    assert min(standard) > 0.25
    assert standard[1] == pytest.approx(1 / (1 + np.exp(epsilon)), abs=0.01)
    first, whole = share(joint)
    assert whole < 0.6 * first and whole < 0.1


# The cost of the constants


@cache
def final_regret(law=gram.gaussian, horizon=2**12, seeds=32, **options):
    def game(epsilon):
        learner = learners.linucb(horizon, 5, epsilon=epsilon, delta=DELTA, gram=law(**options))
        return learner, environments.gap_arms(5, gap=0.1, arms=10)

    swept = sweep(game, np.array([1.0, np.inf]), seeds, jr.key(0), checkpoints=1, progress=False)
    return swept


@pytest.mark.slow
def test_tight_constants_have_several_times_less_regret_at_the_same_level():
    """With uniform play at 0.83 per round."""
    printed = final_regret(calibration="printed", norm_bound="paper").regret[:, :, -1]
    tight = final_regret().regret[:, :, -1]
    np.testing.assert_allclose(printed[1], tight[1], rtol=1e-5)
    error = printed[0].std() / 32**0.5
    assert printed[0].mean() > 5.0 * tight[0].mean() + 5.0 * error
    assert tight[0].mean() > 3.0 * tight[1].mean()


@pytest.mark.slow
def test_noise_that_is_not_shifted_leaves_indefinite_matrices_and_they_are_counted():
    swept = final_regret(shifted=False)
    assert (swept.report.indefinite[0] > 100).all() and (swept.report.indefinite[1] == 0).all()
    assert np.isfinite(swept.regret).all()
    assert (final_regret().report.indefinite == 0).all()


@pytest.mark.slow
def test_protecting_losses_alone_costs_less():
    losses = final_regret(gram.losses_only).regret[0, :, -1]
    rows = final_regret().regret[0, :, -1]
    assert losses.mean() + 5.0 * losses.std() / 32**0.5 < rows.mean()


# Rows out of range


def test_rows_beyond_the_bounds_are_clipped_and_counted():
    features, losses = table(50, 1, 2)
    wild_features, wild_losses = features.copy(), losses.copy()
    wild_features[3] *= 100.0
    wild_losses[10] *= 7.0
    clipped = wild_features / np.maximum(1.0, np.linalg.norm(wild_features, axis=2, keepdims=True))
    make = partial(private, 2)
    _, beliefs, _, outside = trajectory(make, wild_features, wild_losses)
    _, expected, _, none = trajectory(make, clipped, losses)
    assert (outside, none) == (2, 0)
    np.testing.assert_allclose(beliefs.estimate, expected.estimate, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("law, options, message", [
    (gram.gaussian, {"floor": -1.0}, "floor must be greater than 0"),
    (gram.gaussian, {"floor": 2.0, "shifted": False}, "floor must be left out if shifted"),
    (gram.wishart, {"floor": 2.0, "shifted": False}, "floor must be left out if shifted"),
    (gram.losses_only, {"floor": 0.0}, "floor must be greater than 0"),
    (gram.gaussian, {"calibration": "zcdp"}, "calibration must be one of derived, printed, code"),
    (gram.wishart, {"calibration": "zcdp"}, "calibration must be one of derived, printed, code"),
    (gram.gaussian, {"norm_bound": "none"}, "norm_bound must be one of tight, paper"),
    (gram.gaussian, {"mechanism": mechanisms.kary, "calibration": "printed"},
     "mechanism: only derived Gaussian noise accepts one"),
    (gram.gaussian, {"mechanism": "tree"}, "mechanism must be a factory"),
    (gram.losses_only, {"mechanism": mechanisms.tree(9)}, "mechanism must be a factory"),
    (gram.gaussian, {"failure": 1.0}, "failure must be strictly between 0 and 1"),
])  # fmt: skip
def test_bad_laws_are_refused_by_name(law, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        law(**options)


SHORT = {"gram": gram.gaussian(mechanism=lambda _, **law: mechanisms.tree(9, **law))}
OF_ANOTHER_LAW = {"gram": gram.gaussian(mechanism=lambda horizon, noise: mechanisms.tree(horizon))}


@pytest.mark.parametrize("changed, message", [
    ({"delta": None}, "delta must be given"),
    ({"delta": 1.5}, "delta"),
    ({"gram": gram.gaussian}, r"gram must be a Gram, such as gram.gaussian\(\)"),
    ({"gram": "wishart"}, "gram must be a Gram"),
    ({"gram": gram.gaussian(floor=2.0), "ridge": 1.0}, "ridge must be left out if gram has a"),
    (SHORT, "mechanism covers 9 rounds"),
    (OF_ANOTHER_LAW, "mechanism has laplace noise"),
    ({"feature_bound": 0.0}, "feature_bound"),
    ({"loss_bound": -1.0}, "loss_bound"),
    ({"parameter_bound": 0.0}, "parameter_bound"),
    ({"deviation": 0.0}, "deviation"),
])  # fmt: skip
def test_bad_arguments_are_refused_by_name(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        learners.linucb(10, 2, **{"epsilon": 1.0, "delta": DELTA, **changed})


@pytest.mark.parametrize(
    "make",
    [
        partial(learners.linucb, epsilon=jnp.inf, delta=DELTA),
        partial(learners.federated_linucb, epsilon=jnp.inf, delta=DELTA),
        partial(learners.adac_oful, rho=jnp.inf),
    ],
)
def test_the_width_grows_linearly_with_the_deviation(make):
    """By default the deviation is the bound on losses. Two learners once had no other."""

    def spread(**deviation):
        _, policy = jax.jit(make(64, 2, loss_bound=4.0, **deviation).init)(jr.key(0))
        return np.asarray(policy.args[0].spread)

    one, two, four = (spread(deviation=deviation) for deviation in (1.0, 2.0, 4.0))
    np.testing.assert_allclose(four - two, 2.0 * (two - one), rtol=1e-5)
    assert two[0] > 1.2 * one[0]
    np.testing.assert_array_equal(spread(), four)
    with pytest.raises(ValueError, match="^deviation must be"):
        make(64, 2, deviation=0.0)


OLD = [
    ({"noise": "wishart", "floor": 9.0}, gram.wishart(floor=9.0), "gram.wishart(floor=...)"),
    ({"noise": "wishart", "norm_bound": "paper"}, gram.wishart(), "gram.wishart()"),
    ({"protected": "losses"}, gram.losses_only(), "gram.losses_only()"),
    ({"shifted": False, "failure": 0.3}, gram.gaussian(shifted=False, failure=0.3),
     "gram.gaussian(shifted=..., failure=...)"),
    ({"calibration": "code", "norm_bound": "paper"},
     gram.gaussian(calibration="code", norm_bound="paper"),
     "gram.gaussian(calibration=..., norm_bound=...)"),
    ({"mechanism": mechanisms.kary}, gram.gaussian(mechanism=mechanisms.kary),
     "gram.gaussian(mechanism=...)"),
]  # fmt: skip


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("old, law, spelling", OLD, ids=[case[2] for case in OLD])
def test_keywords_before_gram_work_and_name_the_new_spelling(old, law, spelling):
    with pytest.warns(DeprecationWarning) as seen:
        before = learners.linucb(16, 2, epsilon=1.0, delta=DELTA, **old)
    (warning,) = seen
    assert warning.filename == __file__
    assert str(warning.message) == (
        f"linucb: {', '.join(old)} will be removed in version 0.2; write gram={spelling}"
    )
    after = learners.linucb(16, 2, epsilon=1.0, delta=DELTA, gram=law)
    assert str(before.privacy) == str(after.privacy)
    beliefs = [learner.init(jr.key(0))[1].args[0] for learner in (before, after)]
    jax.tree.map(np.testing.assert_array_equal, *beliefs)


@pytest.mark.parametrize("old, message", [
    ({"noise": "laplace"}, "noise must be one of gaussian, wishart"),
    ({"noise": "wishart", "norm_bound": "none"}, "norm_bound must be one of tight, paper"),
    ({"protected": "contexts"}, "protected must be one of rows, losses"),
    ({"protected": "losses", "noise": "wishart"}, "protected: losses requires derived and"),
    ({"protected": "losses", "shifted": False}, "shifted: gram.losses_only has no such argument"),
    ({"noise": "wishart", "mechanism": mechanisms.kary}, "mechanism: gram.wishart has no such"),
    ({"floor": 1.0, "gram": gram.wishart()}, "floor must be an argument of gram's factory"),
])  # fmt: skip
def test_keywords_before_gram_are_refused_as_before(old, message):
    with pytest.raises((ValueError, TypeError), match=message):
        learners.linucb(16, 2, epsilon=1.0, delta=DELTA, **old)


def test_a_traced_floor_outside_of_its_domain_makes_the_declared_epsilon_nan():
    def declared(floor):
        law = gram.gaussian(floor=floor)
        return learners.linucb(16, 2, epsilon=1.0, delta=DELTA, gram=law).privacy.epsilon

    np.testing.assert_array_equal(jax.jit(jax.vmap(declared))(jnp.array([-1.0, 2.0])), [jnp.nan, 1])


def test_a_missing_delta_is_named():
    with pytest.raises(TypeError, match="delta"):
        learners.linucb(10, 2, epsilon=1.0)


def test_features_of_another_dimension_are_refused():
    """Also by the policy itself, if no environment has given its dimension."""
    _, policy = private(3).init(jr.key(0))
    with pytest.raises(
        ValueError, match=r"features must have shape \(K, 3\) for dim = 3.*\(9, 4\)"
    ):
        policy(jnp.zeros((9, 4)))


@pytest.mark.slow
def test_public_features_have_no_noise_and_need_none():
    """Entries without noise are not reported as missing noise. A changed feature is charged."""
    learner = learners.linucb(16, 3, epsilon=1.0, delta=1e-3, gram=gram.losses_only())
    pairs = audit.pairs_for(learner, 8, jr.key(0))
    verdict = audit.verdict(learner, pairs, jr.key(1))
    assert verdict.failed == () and 0.5 < verdict.spent.max() <= 1.0 + 1e-5
    features, losses = pairs.losses
    moved = pairs._replace(losses=(features.at[:, 0].multiply(0.5), losses))
    assert np.isinf(audit.verdict(learner, moved, jr.key(1)).spent).any()
