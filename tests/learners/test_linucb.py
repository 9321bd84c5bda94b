"""LinUCB, AdaC-OFUL and private logistic SGD: the algorithms against NumPy, and their noise."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, bounds, learners, mechanisms, noise
from dpjax.learners import adac_oful
from dpjax.learners._glm_sgd import coin_lead, coin_message, coin_stretch
from dpjax.learners.parts import gram
from dpjax.maths import ellipsoids
from dpjax.maths.logistic import gradient_ball
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


EXACT = gram.gaussian(mechanism=mechanisms.exact)


@pytest.mark.parametrize(
    ("dim", "changed"),
    [(3, {"epsilon": jnp.inf}), (10, {"epsilon": jnp.inf}), (3, {"gram": EXACT})],
)
def test_without_noise_it_is_oful(dim, changed):
    """Arm for arm as in NumPy; the closest margin is far above rounding."""
    features, losses = table(300, 6, dim)
    expected, leads = oful(features, losses)
    assert leads.min() > 2e-5
    make = partial(private, dim, 300, **changed)
    arms, _, report, clipped = trajectory(make, features, losses)
    np.testing.assert_array_equal(arms, expected)
    assert (clipped, report.indefinite) == (0, 0)
    assert np.isinf(make().privacy.epsilon)


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


def private(dim, horizon=64, epsilon=1.0, **changed):
    return learners.linucb(horizon, dim, epsilon=epsilon, delta=DELTA, **changed)


def played_with_releases(variant, horizon, dim):
    """The beliefs, releases and regularizers of each round of a game, and its report."""
    learner, key = private(dim, gram=VARIANTS[variant]), jr.key(0)
    bounds = gram.Bounds(1.0, 1.0, 1.0)
    given = {"epsilon": 1.0, "delta": DELTA, "failure": 1.0 / horizon}
    sums = VARIANTS[variant].noise(horizon, dim, bounds, **given)

    def step(carry, row):
        (state, policy), (beside, release) = carry
        t, x, loss = row
        seen = learner.feedback((x, loss), policy)
        now = jr.fold_in(key, t)
        made = learner.step(state, now, seen), sums.step(beside, now, *seen)
        return made, (policy.args[0], release, sums.now(beside))

    def play(features, losses):
        start = learner.init(jr.fold_in(key, 0)), sums.init(jr.fold_in(key, 0))
        rows = (jnp.arange(1, horizon + 1), features, losses)
        (last, _), seen = jax.lax.scan(step, start, rows)
        return *seen, learner.report(last[0])

    return jax.tree.map(np.asarray, jax.jit(play)(*table(horizon, 5, dim)))


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("variant", VARIANTS)
def test_beliefs_follow_from_the_releases(variant):
    """theta~ and beta W from the release and the regularizer, in float64."""
    dim, horizon = 3, 64
    beliefs, releases, regularizers, report = played_with_releases(variant, horizon, dim)
    for t in (0, 1, 7, 40, 63):
        r = jax.tree.map(lambda leaf, t=t: float(leaf[t]), regularizers)
        matrix = np.asarray(ellipsoids.unpack(releases[t], dim + 1), np.float64)
        v, u = matrix[:dim, :dim], matrix[dim, :dim]
        assert np.linalg.eigvalsh(v)[0] > 0
        estimate = beliefs.estimate[t]
        np.testing.assert_allclose(estimate, np.linalg.solve(v, u), rtol=2e-3, atol=2e-5)
        growth = np.linalg.slogdet(v)[1] - dim * np.log(r.smallest)
        log_failure = np.log(2 * horizon * EVENTS.get(variant, 1))
        beta = np.sqrt(max(2 * log_failure + growth, 0.0)) + np.sqrt(r.largest) + r.tilt
        w = np.zeros((dim, dim))
        w[np.tril_indices(dim)] = beliefs.spread[t]
        np.testing.assert_allclose(w.T @ w, beta**2 * np.linalg.inv(v), rtol=2e-3, atol=1e-3)
    assert report.indefinite == 0


# Many dimensions


# Rows out of range, and arguments


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


def test_a_traced_floor_outside_of_its_domain_makes_the_declared_epsilon_nan():
    def declared(floor):
        law = gram.gaussian(floor=floor)
        return learners.linucb(16, 2, epsilon=1.0, delta=DELTA, gram=law).privacy.epsilon

    np.testing.assert_array_equal(jax.jit(jax.vmap(declared))(jnp.array([-1.0, 2.0])), [jnp.nan, 1])


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


ROUNDS, DIM, RHO = 300, 3, 0.5


def in_numpy(features, losses, drawn):
    """The same game in float64, with a given draw of scale 1 for each release.

    Returns:
      (arms, leads, batches): leads are the margins of the chosen arm in each round.
    """
    alpha, ridge, growth, scale = 0.01, 0.7, 0.5, 2.0 / np.sqrt(2.0 * RHO)
    volume = DIM * np.log1p(ROUNDS / (DIM * ridge))
    most = volume / (0.999 * np.log1p(growth))
    length = scale * (np.sqrt(DIM) + np.sqrt(2.0 * np.log(2.0 * most / alpha)))
    gram, moment, released = ridge * np.eye(DIM), np.zeros(DIM), np.zeros(DIM)
    last, batches, arms, leads = DIM * np.log(ridge), 0, [], []
    inverse, beta, theta = np.linalg.inv(gram), 0.0, np.zeros(DIM)
    for x, loss in zip(features.astype(np.float64), losses.astype(np.float64), strict=True):
        if not batches:
            beta = np.sqrt(2.0 * np.log(2.0 / alpha)) + np.sqrt(ridge)
        index = x @ theta - beta * np.sqrt(np.einsum("ki,ij,kj->k", x, inverse, x))
        arm = int(np.argmin(index))
        arms.append(arm)
        leads.append(np.diff(np.sort(index))[0])
        gram, moment = gram + np.outer(x[arm], x[arm]), moment + loss[arm] * x[arm]
        determinant = np.linalg.slogdet(gram)[1]
        if determinant - last > 0.999 * np.log1p(growth):
            batches, last = batches + 1, determinant
            released, moment = released + moment + scale * drawn, np.zeros(DIM)
            inverse = np.linalg.inv(gram)
            largest = min(np.abs(inverse).sum(axis=1).max(), 1.0 / ridge)
            beta = np.sqrt(2.0 * np.log(2.0 / alpha) + determinant - DIM * np.log(ridge))
            beta += np.sqrt(ridge) + length * np.sqrt(batches * largest)
            theta = inverse @ released
    return np.array(arms), np.array(leads), batches


def test_adac_oful_with_given_noise_plays_as_in_numpy(monkeypatch):
    drawn = np.array([0.4, -0.7, 1.1])
    monkeypatch.setattr(
        noise, "gaussian", lambda key, value, scale: value + scale * jnp.float32(drawn)
    )
    features, losses = table(ROUNDS, 6, DIM, seed=3)
    arms, leads, batches = in_numpy(features, losses, drawn)
    assert leads.min() > 2e-5
    make = partial(adac_oful, ROUNDS, DIM, rho=RHO, ridge=0.7, growth=0.5, failure=0.01)
    played, _, report, _ = trajectory(make, features, losses)
    np.testing.assert_array_equal(played, arms)
    assert 10 < batches < 40 and report.batches == batches


def logistic(x):
    return 1.0 / (1.0 + np.exp(-x))


# Gradients


@pytest.mark.parametrize("length", [0.0, 1.0, 5.0, 40.0])
def test_the_ball_of_glm_sgd_holds_all_gradients_and_no_smaller_one_does(length):
    """By brute force over features of any length up to 1, in the plane of theta and x."""
    centre, radius = map(float, gradient_ball(length))
    angle, size = np.meshgrid(np.linspace(0.0, np.pi, 1001), np.linspace(0.0, 1.0, 101))
    along, across = size * np.cos(angle), size * np.sin(angle)
    gradients = [
        (logistic(length * along) - loss)[..., None] * np.stack([along, across], -1)
        for loss in (0.0, 1.0)
    ]
    gradients = np.concatenate([each.reshape(-1, 2) for each in gradients])
    gradients = np.concatenate([gradients, gradients * [1.0, -1.0]])
    distances = np.linalg.norm(gradients - [centre, 0.0], axis=1)
    assert distances.max() <= radius + 1e-6
    # Two gradients are a diameter apart, so a smaller ball holds only one of them.
    farthest = gradients[np.argmax(np.abs(gradients[:, 1]))]
    assert 2.0 * abs(farthest[1]) == pytest.approx(2.0 * radius, abs=1e-5)
    if 1.0 <= length <= 5.0:  # A ball of this radius around 0 misses some gradients.
        assert np.linalg.norm(gradients, axis=1).max() > radius + 0.1


# The local message


@pytest.mark.parametrize("offset", [[0.2, -0.1, 0.4], [0.0, 0.0, 0.0], [0.55, 0.0], [-0.3]])
def test_messages_of_glm_sgd_are_unbiased_and_have_one_length(offset):
    radius, epsilon, count = 0.55, 1.5, 2**17
    lead = coin_lead(jnp.float32(epsilon))
    draw = jax.jit(jax.vmap(lambda key: coin_message(key, jnp.float32(offset), radius, lead)))
    drawn = np.asarray(draw(jr.split(jr.key(0), count)), np.float64)
    errors = drawn.std(axis=0) / count**0.5
    assert (np.abs(drawn.mean(axis=0) - offset) < 4.0 * errors).all()
    expected = radius * float(coin_stretch(len(offset))) / np.tanh(0.5 * epsilon)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), expected, rtol=1e-5)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 10.0, 20.0])
def test_the_coin_of_glm_sgd_has_its_epsilon(epsilon):
    """In float32 the ratio of its probabilities is at most e^epsilon, and close to it up to 15."""
    half, lead = np.float64(0.5), np.float64(coin_lead(jnp.float32(epsilon)))
    ratio = np.log((half + lead) / (half - lead))
    assert ratio <= epsilon * (1.0 + 1e-6)
    assert ratio >= epsilon * (1.0 - 1e-4) or epsilon > 15.0


# Privacy


# The algorithm


def logistic_table(horizon, arms, dim, seed=0):
    """Random features of length at most 1, and losses 0 or 1 with logistic means."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(horizon, arms, dim))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    features *= rng.uniform(0.5, 1.0, (horizon, arms, 1))
    means = logistic(features @ np.array([1.5, -1.0, 0.5])[:dim])
    losses = rng.random((horizon, arms)) < means
    return features.astype(np.float32), losses.astype(np.float32)


def sgd_in_numpy(features, losses, batch, m, bound):
    """Greedily played SGD: theta (T + 1, d) per round, and the number of clipped steps."""
    theta, total, waiting, j, cut = np.zeros(features.shape[2]), 0.0, 0, 0, 0
    thetas = [theta]
    for x, y in zip(features.astype(np.float64), losses, strict=True):
        arm = int(np.argmin(x @ theta))
        total = total + (logistic(x[arm] @ theta) - y[arm]) * x[arm]
        waiting += 1
        if waiting == batch:
            theta = theta - total / batch / (m * (j + 1.0 + 0.25 / m))
            length = np.linalg.norm(theta)
            if length > bound:
                theta, cut = theta * bound / length, cut + 1
            total, waiting, j = 0.0, 0, j + 1
        thetas.append(theta)
    return np.array(thetas), j, cut


@pytest.mark.parametrize(("batch", "model"), [(7, "shuffle"), (None, "local")])
def test_glm_sgd_without_privacy_is_greedy(batch, model):
    features, losses = logistic_table(200, 5, 3)
    learner = learners.glm_sgd(
        200, 3, epsilon=np.inf, model=model, batch=batch, strength=0.05, parameter_bound=0.9
    )
    game = play_table(learner, (features, losses), jr.key(0))
    thetas, updates, cut = sgd_in_numpy(features, losses, batch or 1, 0.05, 0.9)
    np.testing.assert_allclose(game.actions.args[0], thetas, atol=1e-4)
    report = learner.report(game.last)
    assert (report.updates, report.cut) == (updates, cut) and cut > 0


# Regret


def test_the_bounds_of_glm_sgd_by_hand():
    """T = 1000, d = 3, S = 1, m = 0.05: R = 0.5495, B_3 = 2."""
    start = 0.5 * (1.0 + np.log(1.0 + 0.2 * 999) / 0.2)
    roots = np.sqrt(1005.0) - np.sqrt(6.0)
    local = start + 0.54955 * 2.0 / np.tanh(0.5) / 0.05 * roots
    assert bounds.glm_sgd(1000, 3, 1.0, 0.05) == pytest.approx(local, rel=1e-4)
    plain = start + 0.54955 / 0.05 * roots
    assert bounds.glm_sgd(1000, 3, np.inf, 0.05) == pytest.approx(plain, rel=1e-4)
    assert bounds.glm_sgd_batched(1000, 3, 0.0, 0.05) == pytest.approx(plain, rel=1e-4)
    start = 0.5 * 10.0 * (1.0 + np.log(1.0 + 0.2 * 99) / 0.2)
    variance = 0.54955**2 * (1.0 + 12.0 * 4.0 / 10.0)
    noise = np.sqrt(10.0 * variance) / 0.05 * (np.sqrt(105.0) - np.sqrt(6.0))
    batched = bounds.glm_sgd_batched(1000, 3, 2.0, 0.05, batch=10)
    assert batched == pytest.approx(start + noise, rel=1e-4)
