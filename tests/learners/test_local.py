"""Learners on ``mechanisms.per_item``: each message, or each batch, is private by itself."""

import inspect
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, bounds, domains, environments, learners, mechanisms, privacy, sweep
from dpjax.cli import audits
from dpjax.learners.parts import gram
from dpjax.maths import ellipsoids

DELTA = 1e-3
# The learners that take a mechanism, and those of them that sum one value per round.
TAKE = [
    name
    for name in learners.__all__
    if {"mechanism", "gram"} & set(inspect.signature(getattr(learners, name)).parameters)
]
TWINS = [name for name in TAKE if name != "projection_free"]


def twin(name, noise="gaussian", mechanism=mechanisms.per_item, **options):
    """The learner on a mechanism with these options, with the size used in audits."""
    law = {"noise": noise} if name not in ("ftpl", "linucb") else {}
    law |= {"delta": DELTA if noise == "gaussian" else None}
    domain, mechanism = audits.domains_of(name)[-1], partial(mechanism, **options)
    law |= {"mechanism": mechanism, "gram": gram.gaussian(mechanism=mechanism)}
    return audits.build(name, domain, audits.HORIZON, 1.0, **law)


def halved(horizon, noise, **options):
    """Noise on each item at half the requested scale."""
    built = mechanisms.per_item(horizon, noise=noise, **options)
    return built._replace(stream=lambda shape, *, scale: built.stream(shape, scale=0.5 * scale))


def test_these_learners_take_a_mechanism():
    assert TAKE == [
        "ftpl", "ftrl", "linucb", "online_frank_wolfe", "online_gradient", "private_ftal",
        "private_one_point", "projection_free", "two_point_gradient",
    ]  # fmt: skip


LAWS = [("gaussian", name) for name in TWINS]
LAWS += [("laplace", name) for name in TWINS if name not in ("ftpl", "linucb")]
FEW = [("laplace", "ftrl"), ("gaussian", "linucb")]


@pytest.mark.parametrize(
    ("noise", "name"),
    [pytest.param(*case, marks=() if case in FEW else pytest.mark.slow) for case in LAWS],
)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.usefixtures("quick_compilation")
def test_one_changed_round_touches_one_message_and_costs_what_is_declared(name, noise, batch):
    """The worst pair spends exactly epsilon = 1, and half the scale spends more.

    Estimates from one or two points have random directions, whose L1 norm is seldom maximal.
    """
    learner = twin(name, noise, batch=batch)
    pairs = audit.pairs_for(learner, 16, audits.keys()[0])
    verdict = audits.replays(learner, pairs)
    assert verdict.failed == () and verdict.touched == 1
    if noise == "laplace" and name in ("private_one_point", "two_point_gradient"):
        assert 0.6 < verdict.spent.max() < 1.0
    else:
        assert verdict.spent.max() == pytest.approx(1.0, rel=1e-3)
    wrong = twin(name, noise, halved, batch=batch)
    assert "epsilon" in audits.replays(wrong, pairs).failed


@pytest.mark.parametrize("name", TWINS)
def test_declarations(name):
    """The model follows from the mechanism, and epsilon is the requested one."""
    local, shuffled = (twin(name, batch=batch).privacy for batch in (1, 3))
    assert (local.model, local.released) == ("local", "messages 1..T")
    assert shuffled.model == "shuffle" and "shuffled messages" in shuffled.released
    assert local.accountant == "Gaussian mechanism on each item"
    assert "idealises" in shuffled.accountant and float(shuffled.delta) > 0.0
    for declared in (local, shuffled):
        assert (float(declared.epsilon), declared.unit) == (1.0, "round")
        assert float(declared.rho) == pytest.approx(
            0.5 / float(privacy.gaussian_inverse_mu(1.0, DELTA)) ** 2, rel=1e-5
        )


def test_pure_declarations():
    local, opened = (twin("ftrl", "laplace", batch=batch).privacy for batch in (1, 3))
    assert (local.model, opened.model) == ("local", "distributed")
    assert local.accountant == "Laplace mechanism on each item"
    assert float(local.delta) == float(opened.delta) == 0.0


def test_sums_of_a_batch_that_are_noised_as_one_item_are_central():
    declared = twin("projection_free").privacy
    assert (declared.model, declared.released) == ("central", "actions 1..T")


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", ["ftrl", pytest.param("linucb", marks=pytest.mark.slow)])
def test_every_mutant_of_a_twin_is_caught(name):
    learner = twin(name)
    pairs = audit.pairs_for(learner, 16, audits.keys()[0])
    found = audit.replayed_mutants(learner, pairs, jr.key(audits.SEED))
    assert len(found) >= 3
    assert all(verdict.failed for verdict in found.values()), found


# Cost -----------------------------------------------------------------------------------------


def final_regrets(mechanism, horizon, name="ball", kind="iid", rate=None, trials=400):
    domain = getattr(domains, name)(4)
    if name == "simplex":
        domain = domain._replace(losses=domains.box_losses(4))

    def game(epsilon):
        learner = learners.ftrl(horizon, domain, epsilon=epsilon, mechanism=mechanism, rate=rate)
        return learner, environments.linear_losses(domain, kind, period=32)

    swept = sweep(game, np.array([2.0]), trials, jr.key(0), checkpoints=1, progress=False)
    return swept.regret[0, :, -1]


@pytest.mark.slow
def test_noise_on_each_item_beats_the_plain_tree_in_short_games_only():
    """FTRL on the ball. The k-ary tree, which needs a trusted server, is better than both."""

    def means(horizon, trials):
        found = (
            final_regrets(mechanism, horizon, trials=trials)
            for mechanism in (mechanisms.kary, mechanisms.per_item, mechanisms.tree)
        )
        return [(regret.mean(), stats.sem(regret)) for regret in found]

    (trusted, a), (local, b), (tree, c) = means(256, 800)
    assert trusted + 4.0 * np.hypot(a, b) < local < tree - 4.0 * np.hypot(b, c)
    _, (local, b), (tree, c) = means(4096, 200)
    assert tree + 4.0 * np.hypot(b, c) < local


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simplex", "ball", "cube"])
def test_the_bound_of_local_ftrl(name):
    """At its rate, against three adversaries; one of them exceeds a fifth of it."""
    horizon = 256
    rate = float(bounds.ftrl_local_rate(horizon, 4, 2.0, domain=name))
    bound = bounds.ftrl_local(horizon, 4, 2.0, domain=name)
    worst = 0.0
    for kind in ("iid", "switching", "alternating"):
        regret = final_regrets(mechanisms.per_item, horizon, name, kind, rate, trials=200)
        assert regret.mean() + 4.0 * stats.sem(regret) < bound
        worst = max(worst, regret.mean())
    assert worst > bound / 10.0


# LinUCB ---------------------------------------------------------------------------------------

BOUNDS = gram.Bounds(1.0, 1.0, 1.0)


def private_sums(horizon, dim, batch, **changed):
    given = {"epsilon": 1.0, "delta": DELTA, "failure": 0.1, **changed}
    mechanism = partial(mechanisms.per_item, batch=batch)
    return gram.gaussian(mechanism=mechanism).noise(horizon, dim, BOUNDS, **given)


def noise_alone(sums, horizon, dim, trials):
    """Releases of zero rows, (trials, T, packed), and the regularizers (T,)."""

    def one(key):
        state, first = sums.init(jr.fold_in(key, 0))

        def step(state, t):
            after, release = sums.step(state, jr.fold_in(key, t), jnp.zeros(dim), jnp.float32(0))
            return after, (release, sums.now(after))

        _, (rest, found) = jax.lax.scan(step, state, jnp.arange(1, horizon))
        begin = jax.tree.map(lambda a, b: jnp.append(a, b), sums.now(state), found)
        return jnp.concatenate([first[None], rest]), begin

    made, found = jax.jit(jax.vmap(one))(jr.split(jr.key(3), trials))
    return np.asarray(made, np.float64), jax.tree.map(lambda x: np.asarray(x, np.float64)[0], found)


@pytest.mark.parametrize("batch", [1, 4])
def test_regularizers_grow_with_the_noise(batch):
    """Upsilon = s sqrt(messages) (2 sqrt d + 2 sqrt(ln(8 T / alpha))) bounds the noise's norm.

    Each bound is for one round, and fails with probability alpha / (2 T). Most matrices exceed a
    third of the norm bound.
    """
    horizon, dim, trials, alpha = 21, 2, 4000, 0.1
    made, found = noise_alone(private_sums(horizon, dim, batch), horizon, dim, trials)
    sent = np.arange(horizon) // batch
    s = 2.0 * float(privacy.gaussian_scale(1.0, 1.0, DELTA))
    norm = s * np.sqrt(sent) * 2.0 * (np.sqrt(dim) + np.sqrt(np.log(8.0 * horizon / alpha)))
    smallest = np.maximum(norm, 1.0)
    np.testing.assert_allclose(found.smallest, smallest, rtol=1e-5)
    np.testing.assert_allclose(found.offset, smallest + norm, rtol=1e-5)
    np.testing.assert_allclose(found.largest, smallest + 2.0 * norm, rtol=1e-5)
    length = np.sqrt(dim) + np.sqrt(2.0 * np.log(4.0 * horizon / alpha))
    tilt = s * np.sqrt(sent) * length / np.sqrt(smallest)
    np.testing.assert_allclose(found.tilt, tilt, rtol=1e-5)
    rows, columns = ellipsoids.indices(dim + 1)
    centred = made - np.where(rows == columns, found.offset[:, None], 0.0)[None]
    deviations = s * np.sqrt(sent)[:, None] * np.where(rows == columns, 2.0**0.5, 1.0)
    np.testing.assert_array_equal(centred[:, sent == 0], 0.0)
    ratio = centred[:, sent > 0].var(axis=0) / deviations[sent > 0] ** 2
    np.testing.assert_allclose(ratio, 1.0, atol=5.0 * (2.0 / trials) ** 0.5)
    last = np.moveaxis(np.asarray(ellipsoids.unpack(jnp.asarray(made[:, -1].T), dim + 1)), -1, 0)
    values = np.linalg.eigvalsh(last[:, :dim, :dim])
    assert ((values < smallest[-1]) | (values > found.largest[-1])).mean() < 0.01
    room = norm[-1] / 3.0
    assert (np.abs(values - found.offset[-1]).max(axis=1) > room).mean() > 0.2


@pytest.mark.parametrize("batch", [1, 4])
def test_policies_change_where_a_message_was_sent(batch):
    """Within a batch the policy does not change, bit for bit."""
    law = gram.gaussian(mechanism=partial(mechanisms.per_item, batch=batch))
    learner = learners.linucb(17, 2, epsilon=1.0, delta=DELTA, gram=law)
    rng = np.random.default_rng(0)
    features = jnp.asarray(rng.normal(size=(17, 3, 2)) / 3.0, jnp.float32)
    losses = jnp.asarray(rng.uniform(-1, 1, size=(17, 3)), jnp.float32)

    @jax.jit
    def play():
        def step(carry, row):
            state, policy = carry
            t, x, loss = row
            seen = learner.feedback((x, loss), policy)
            made = learner.step(state, jr.fold_in(jr.key(0), t), seen)
            return made, made[1].args[0]

        start = learner.init(jr.key(0))
        return start[1].args[0], jax.lax.scan(step, start, (jnp.arange(17), features, losses))[1]

    first, later = play()
    estimates = np.concatenate([first.estimate[None], later.estimate])
    spreads = np.concatenate([first.spread[None], later.spread])
    sent = np.arange(1, 18) % batch == 0
    for beliefs in (estimates, spreads):
        changed = (beliefs[1:] != beliefs[:-1]).any(axis=1)
        np.testing.assert_array_equal(changed, sent)


def test_one_confidence_bound_for_all_rounds_fails_where_the_regularizer_grows():
    """Why beta has ln(2 T / alpha): without T, the bound of OFUL holds for one regularizer only.

    With features 1 and a regularizer sqrt(t), the sum of normal noise leaves the ellipsoid of alpha
    = 0.05 in some round of 20 000 with probability 0.067.
    """
    rounds, trials, alpha = 20_000, 3000, 0.05
    t, rng = np.arange(1.0, rounds + 1), np.random.default_rng(1)
    left = {"fixed": 0, "growing": 0, "growing, each round": 0}
    for _ in range(trials):
        squares = np.cumsum(rng.normal(size=rounds)) ** 2
        for name, ridge in (("fixed", 1.0), ("growing", np.sqrt(t))):
            excess = (squares / (t + ridge) - np.log1p(t / ridge)).max()
            left[name] += excess > 2.0 * np.log(1.0 / alpha)
        left["growing, each round"] += excess > 2.0 * np.log(rounds / alpha)
    assert stats.binomtest(left["fixed"], trials, alpha, alternative="less").pvalue < 0.01
    assert stats.binomtest(left["growing"], trials, alpha, alternative="greater").pvalue < 0.01
    assert left["growing, each round"] == 0


def test_losses_alone_take_a_central_mechanism():
    with pytest.raises(ValueError, match="^mechanism: losses_only requires one for the central"):
        law = gram.losses_only(mechanism=mechanisms.per_item)
        learners.linucb(8, 2, epsilon=1.0, delta=DELTA, gram=law)


@pytest.mark.slow
def test_who_is_trusted_with_contexts_decides_the_regret():
    """LinUCB at epsilon = 10: joint, shuffled batches of T^(3/5) and local, in this order."""
    horizon, seeds = 2**14, 32
    made = {}
    for name, mechanism in {
        "joint": mechanisms.tree,
        "shuffle": partial(mechanisms.per_item, batch=int(np.ceil(horizon**0.6))),
        "local": mechanisms.per_item,
    }.items():

        def game(epsilon, mechanism=mechanism):
            law = gram.gaussian(mechanism=mechanism)
            learner = learners.linucb(horizon, 5, epsilon=epsilon, delta=0.1, gram=law)
            return learner, environments.gap_arms(5, gap=0.1, arms=10)

        swept = sweep(game, np.array([10.0]), seeds, jr.key(0), checkpoints=1, progress=False)
        assert (swept.report.indefinite == 0).all()
        regret = swept.regret[0, :, -1]
        made[name] = regret.mean(), stats.sem(regret)
    order = [made[name] for name in ("joint", "shuffle", "local")]
    for (less, a), (more, b) in itertools.pairwise(order):
        assert less + 4.0 * np.hypot(a, b) < more, made
