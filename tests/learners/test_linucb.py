"""LinUCB, AdaC-OFUL and private logistic SGD in NumPy; private Gram matrices and their noise."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, learners, mechanisms, noise, privacy
from dpjax.core._versions import enable_x64
from dpjax.learners import adac_oful
from dpjax.learners._glm_sgd import coin_lead, coin_message, coin_stretch
from dpjax.learners.parts import gram, gram_calibration
from dpjax.maths import ellipsoids, laws
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


def oful(features, losses):
    """OFUL in NumPy with ridge 1: (arms, leads), where leads are the least margins of an arm."""
    horizon, _, dim = features.shape
    v, u, arms, leads = np.eye(dim), np.zeros(dim), [], []
    for x, loss in zip(features.astype(np.float64), losses.astype(np.float64), strict=True):
        inverse = np.linalg.inv(v)
        beta = np.sqrt(2 * np.log(horizon) + np.linalg.slogdet(v)[1]) + 1.0
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


# The experiment of Shariff & Sheffet 2018: losses -1 and 1 and unit features, so L~^2 = 2.
AUTHORS_HORIZON, AUTHORS_DIM, AUTHORS_EPSILON, AUTHORS_DELTA = 50_000_000, 5, 1.0, 0.1
ROW = 2.0**0.5


def test_constants_of_the_authors_experiment():
    """rho_min as their notebook prints it: 92208.7, 2.22336e5 and 1.28101e7; and more digits."""
    with enable_x64(True):
        levels = gram_calibration.levels_of(AUTHORS_HORIZON, "code")
        p = gram_calibration.per_round_failure(AUTHORS_HORIZON, 1.0 / AUTHORS_HORIZON, "code")
        s = gram_calibration.printed_gaussian_scale(ROW, levels, AUTHORS_EPSILON, AUTHORS_DELTA)
        k = gram_calibration.wishart_freedom(
            AUTHORS_DIM + 1, levels, AUTHORS_EPSILON, AUTHORS_DELTA, "code"
        )
        n = float(levels * k)
        made = {
            "Gaussian": gram_calibration.gaussian_regularizer(
                s * np.sqrt(levels), AUTHORS_DIM, p, norm_bound="paper"
            ),
            "Wishart": gram_calibration.wishart_regularizer(2.0, n, AUTHORS_DIM, p),
            "Wishart, unshifted": gram_calibration.wishart_regularizer(
                2.0, n, AUTHORS_DIM, p, shifted=False
            ),
        }
        made = {name: tuple(map(float, each)) for name, each in made.items()}
        s, k = float(s), float(k)
    assert (levels, k) == (27, 239278)
    assert s == pytest.approx(153.34384, rel=1e-7)
    expected = {
        "Gaussian": (92208.71682, 276626.1505, 28.26914),
        "Wishart": (222336.3657, 444672.7314, 115.64746),
        "Wishart, unshifted": (12810082.93, 13032419.30, 15.23580),
    }
    for name, numbers in expected.items():
        assert made[name][1:] == pytest.approx(numbers, rel=3e-7), name
    # c of the paper: the mean of the noise minus the remaining offset.
    assert 2.0 * n - made["Wishart"][0] == pytest.approx(12587746.565, abs=1e-3)


@pytest.mark.parametrize("kind, horizon, epsilon, k", [
    ("printed", 10**5, 1.0, 87848), ("code", 10**5, 1.0, 140340),
    ("printed", AUTHORS_HORIZON, 0.1, 13910905), ("code", AUTHORS_HORIZON, 0.1, 23927303),
])  # fmt: skip
def test_degrees_of_freedom(kind, horizon, epsilon, k):
    with enable_x64(True):
        levels = gram_calibration.levels_of(horizon, kind)
        assert gram_calibration.wishart_freedom(6, levels, epsilon, AUTHORS_DELTA, kind) == k


# Sums


BOUNDS = gram.Bounds(1.0, 1.0, 1.0)


def noise_of(horizon, dim, law=gram.gaussian, *, bounds=BOUNDS, epsilon=1.0, **options):
    given = {"epsilon": epsilon, "delta": AUTHORS_DELTA, "failure": 0.1}
    return law(**options).noise(horizon, dim, bounds, **given)


def noise_alone(sums, horizon, dim, trials):
    """Releases of zero rows less the offset, (trials, T, packed), and the regularizers (T,)."""

    def one(key):
        state, first = sums.init(jr.fold_in(key, 0))

        def step(state, t):
            after, release = sums.step(state, jr.fold_in(key, t), jnp.zeros(dim), jnp.float32(0))
            return after, (release, sums.now(after))

        _, (rest, found) = jax.lax.scan(step, state, jnp.arange(1, horizon))
        begin = jax.tree.map(jnp.append, sums.now(state), found)
        return jnp.concatenate([first[None], rest]), begin

    made, found = jax.jit(jax.vmap(one))(jr.split(jr.key(3), trials))
    found = jax.tree.map(lambda x: np.asarray(x, np.float64)[0], found)
    rows, columns = ellipsoids.indices(dim + 1)
    return np.asarray(made, np.float64) - np.where(rows == columns, found.offset[:, None], 0), found


def test_wishart_noise_on_the_tree_has_exactly_m_nodes_in_every_release():
    """Variances m k and 2 m k with scale L~^2 = 2, equal in each release, with means 0."""
    horizon, dim, trials = 5, 2, 4000
    sums = noise_of(horizon, dim, gram.wishart, calibration="printed")
    levels = 4
    n = levels * float(gram_calibration.wishart_freedom(3, levels, 1.0, AUTHORS_DELTA, "printed"))
    made, _ = noise_alone(sums, horizon, dim, trials)
    # Centred by the mean of the noise, which the offset omits.
    rows, columns = ellipsoids.indices(dim + 1)
    variance = 4.0 * n * np.where(rows == columns, 2.0, 1.0)
    ratio = made.var(axis=0) / variance[None]
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    assert np.abs(made.mean(axis=0) / np.sqrt(variance / trials)).max() < 4.5


@pytest.mark.parametrize("batch", [1, 4])
def test_regularizers_grow_with_the_noise(batch):
    """Upsilon = s sqrt(messages) (2 sqrt d + 2 sqrt(ln(8 T / alpha))) bounds the noise's norm.

    Each bound is for one round, and fails with probability alpha / (2 T). Most matrices exceed a
    third of the norm bound.
    """
    horizon, dim, trials, alpha = 21, 2, 4000, 0.1
    sums = noise_of(horizon, dim, mechanism=partial(mechanisms.per_item, batch=batch))
    centred, found = noise_alone(sums, horizon, dim, trials)
    sent = np.arange(horizon) // batch
    s = 2.0 * float(privacy.gaussian_scale(1.0, 1.0, AUTHORS_DELTA))
    norm = s * np.sqrt(sent) * 2.0 * (np.sqrt(dim) + np.sqrt(np.log(8.0 * horizon / alpha)))
    smallest = np.maximum(norm, 1.0)
    np.testing.assert_allclose(found.smallest, smallest, rtol=1e-5)
    np.testing.assert_allclose(found.offset, smallest + norm, rtol=1e-5)
    np.testing.assert_allclose(found.largest, smallest + 2.0 * norm, rtol=1e-5)
    length = np.sqrt(dim) + np.sqrt(2.0 * np.log(4.0 * horizon / alpha))
    tilt = s * np.sqrt(sent) * length / np.sqrt(smallest)
    np.testing.assert_allclose(found.tilt, tilt, rtol=1e-5)
    rows, columns = ellipsoids.indices(dim + 1)
    deviations = s * np.sqrt(sent)[:, None] * np.where(rows == columns, 2.0**0.5, 1.0)
    np.testing.assert_array_equal(centred[:, sent == 0], 0.0)
    ratio = centred[:, sent > 0].var(axis=0) / deviations[sent > 0] ** 2
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    last = np.moveaxis(np.asarray(ellipsoids.unpack(jnp.asarray(centred[:, -1].T), dim + 1)), -1, 0)
    values = np.linalg.eigvalsh(last[:, :dim, :dim])
    values += found.offset[-1]
    assert ((values < smallest[-1]) | (values > found.largest[-1])).mean() < 0.01
    room = norm[-1] / 3.0
    assert (np.abs(values - found.offset[-1]).max(axis=1) > room).mean() > 0.2


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
    z = rng.normal(size=(20_000, AUTHORS_DIM, AUTHORS_DIM))
    norm = np.linalg.norm((z + np.swapaxes(z, 1, 2)) / ROW, ord=2, axis=(1, 2))
    bound = float(gram_calibration.gaussian_norm(AUTHORS_DIM, 0.05, norm_bound))
    assert (norm > bound).mean() <= 0.05
    assert (norm > bound * (0.5 if norm_bound == "tight" else 0.2)).mean() > 0.1
    length = np.linalg.norm(rng.normal(size=(20_000, AUTHORS_DIM)), axis=1)
    assert (length > float(gram_calibration.normal_length(AUTHORS_DIM, 0.05))).mean() <= 0.05
    assert (length > 0.5 * float(gram_calibration.normal_length(AUTHORS_DIM, 0.05))).mean() > 0.1
    # The regularizer combines them.
    made = gram_calibration.gaussian_regularizer(
        2.0, AUTHORS_DIM, 0.1, norm_bound="tight", floor=0.7
    )
    assert float(made.offset) == pytest.approx(0.7 + 2.0 * float(
        gram_calibration.gaussian_norm(AUTHORS_DIM, 0.05, "tight")), rel=1e-5)  # fmt: skip
    assert float(made.largest) == pytest.approx(2.0 * float(made.offset) - 0.7, rel=1e-5)


@pytest.mark.parametrize("kind", ["shifted", "unshifted", "lower floor"])
def test_wishart_regularizers_are_accurate_but_for_the_stated_probability(kind):
    """In 20 000 draws with p = 0.1; half of gamma fails if nothing was rounded up for it."""
    freedom, p = 4000.0, 0.1
    made = 2.0 * wishart(freedom, 6, 2)
    r = gram_calibration.wishart_regularizer(
        2.0, freedom, AUTHORS_DIM, p, shifted=kind != "unshifted",
        floor=300.0 if kind == "lower floor" else None,
    )  # fmt: skip
    r = gram_calibration.Regularizer(*map(float, r))
    h, tail = (
        made[:, :AUTHORS_DIM, :AUTHORS_DIM] + r.offset * np.eye(AUTHORS_DIM),
        made[:, :AUTHORS_DIM, AUTHORS_DIM],
    )
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
    laws = [gram.gaussian(), gram.gaussian(shifted=False), gram.gaussian(calibration="printed")]
    laws += [gram.wishart(), gram.wishart(shifted=False), gram.losses_only()]
    for law, epsilon in [*((law, np.inf) for law in laws), (EXACT, 1.0)]:
        drawn = law.noise(100, 3, BOUNDS, epsilon=epsilon, delta=AUTHORS_DELTA, failure=0.1)
        assert tuple(map(float, drawn.regularizer)) == (1.0, 1.0, 1.0, 0.0), law
        assert np.isinf(drawn.privacy.epsilon)
