"""Audits of known mechanisms, learners on worst pairs and faulty learners; wrong arguments."""

import inspect
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import audit, domains, environments, gram, learners, mechanisms, noise, privacy, simulate
from dpjax.audit import Pair
from dpjax.audit.audited import examined
from dpjax.cli import audits
from dpjax.core import Arms, Learner, Privacy
from dpjax.feedback import full, unclipped
from dpjax.learners.parts.sum_noise import LOCAL
from tests.audit.test_releases import CHANGED, learner_of
from tests.refusals import refuses

# Many of these learners have mistakes that audits must find.
pytestmark = pytest.mark.filterwarnings("ignore:spent is infinite")

RUNS = 2**17
attack = partial(audit.epsilon, progress=False)


def declared(epsilon, delta=0.0):
    return Privacy()._replace(epsilon=epsilon, delta=delta)


# Mechanisms whose epsilon is known ------------------------------------------------------------


def tree_and_pair(height, law, epsilon=1.0, delta=0.0):
    """A tree of that height as a learner, and its worst pair."""
    horizon = 2 ** (height - 1) + 1
    norm = {"laplace": 0, "gaussian": 1}[law]
    mechanism = mechanisms.tree(horizon, noise=law)
    scale = mechanism.sensitivity[norm] / epsilon
    learner = audit.releases(mechanism, (), scale=scale, privacy=declared(epsilon, delta))
    pair = Pair(jnp.zeros(horizon).at[0].set(1.0), jnp.zeros(horizon))
    return learner, pair


@pytest.mark.parametrize(
    ("height", "law", "factor"), [(2, "laplace", 1.0), (2, "laplace", 2.0), (3, "gaussian", 1.0)]
)
def test_an_attack_finds_nearly_what_a_tree_spends_and_never_more(height, law, factor):
    """With half the noise, a factor of 2; for Gaussian noise, epsilon at delta."""
    delta = 1e-2 if law == "gaussian" else 0.0
    learner, pair = tree_and_pair(height, law, 1.0, delta)
    if factor == 2.0:
        learner = audit.mutants(learner, pair.losses)["noise halved"]
    bound = attack(learner, pair, jr.key(0), runs=RUNS, delta=delta)
    true = factor if law == "laplace" else float(privacy.gaussian_epsilon(1.0, delta))
    assert 0.75 * true < bound.epsilon <= true


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


def test_the_sensitivity_is_that_of_the_matrices():
    """Up to rounding, since a fitted factorization is normalized to 1."""
    for make in (mechanisms.tree, mechanisms.smooth):
        mechanism = make(33)
        exact = audit.sensitivity(mechanism)
        assert exact.error < 1e-6
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


def on_items(batch):
    return partial(mechanisms.per_item, batch=batch)


AT = {"delta": 1e-3}
# Options with which the worst pair spends all that is declared, too.
OPTIONS = [
    ("cucb", {"read": "all"}),
    ("cucb", {"read": "all", "model": "local"}),
    ("cucb", {"read": "one", "model": "local"}),
    ("semi_bandit_ftrl", {"read": "all"}),
    ("semi_bandit_ftrl", {"model": "central"}),
    ("semi_bandit_ftrl", {"read": "all", "model": "central", **AT}),
    ("federated_linucb", {"model": "distributed"}),
    ("glm_sgd", {"model": "joint", "batch": 4, **AT}),
    ("glm_sgd", {"model": "shuffle", "batch": 4, **AT}),
    ("linucb", {"gram": gram.gaussian(mechanism=mechanisms.per_item)}),
    ("limited_updates", {"selector": "laplace"}),
    # Under replacement it spends twice its epsilon (see test_declarations.py).
    ("ftrl", {"calibration": "printed", "neighbours": "zero_out"}),
]
# In honaker, kary and smooth, noise is drawn in a loop and added to zeros; the sums are releases.
ON_STREAMS = [on_items(1), on_items(3), mechanisms.honaker, mechanisms.kary, mechanisms.smooth]
OPTIONS += [("ftrl", {"mechanism": mechanism}) for mechanism in ON_STREAMS]
PURE = [*LOCAL, *(name for name, law in noise.LAWS.items() if law.pure)]
OPTIONS += [("sequential_halving", {"noise": name}) for name in PURE]
OPTIONS += [
    ("sequential_halving", {"noise": name, **AT}) for name in noise.LAWS if name not in PURE
]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_options_use_all_that_is_declared(name, options):
    """One percent less for integer noise, whose amount is a whole number."""
    learner, pairs = subject(name, ONCE[name], **options)
    verdict = audits.replays(learner, pairs)
    assert verdict.failed == ()
    assert verdict.spent.max() == pytest.approx(float(learner.privacy.epsilon), rel=0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(("name", "domain"), ONCE.items())
def test_every_mutant_is_caught(name, domain):
    subject_ = subject(name, domain)
    if not np.isfinite(float(subject_[0].privacy.epsilon)):
        pytest.skip("declares nothing")
    found = audit.replayed_mutants(*subject_, audits.keys()[1])
    assert len(found) >= 3
    assert [mistake for mistake, verdict in found.items() if not verdict.failed] == []


# Losses out of range ---------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("clip", [None, unclipped])
def test_the_frame_clips_for_a_learner_that_does_not(clip):
    """Without clipping it spends 40 times its declaration, since losses are far out of range."""

    def step(state, key, loss):
        return state, (noise.laplace(key, loss, 1.0) > 0.5).astype(jnp.int32)

    learner = learner_of(step, first=jnp.int32(0))._replace(action_set=Arms(2), clip=clip)
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
    refuses("there is no 'exp33'", audits.run, (["exp33"], tmp_path))
    refuses("epsilon must be finite, since", audits.run, (["ftrl"], tmp_path), epsilon=np.inf)


ROUNDS, ARMS = 4, 3
NOUNS = ("learner", "pair", "pairs", "key", "choice")
FUNCTIONS = [name for name in audit.__all__ if inspect.isfunction(getattr(audit, name))]
SHARED = [(function, noun) for function in FUNCTIONS for noun in NOUNS
          if noun in inspect.signature(getattr(audit, function)).parameters]  # fmt: skip


def right() -> dict:
    learner = learners.hedge(ROUNDS, ARMS, epsilon=1.0)
    pair = audit.Pair(jnp.zeros((ROUNDS, ARMS)).at[0].set(1.0), jnp.zeros((ROUNDS, ARMS)))
    pairs = jax.tree.map(lambda leaf: leaf[None], pair)
    return {"learner": learner, "pair": pair, "pairs": pairs, "key": jr.key(0), "choice": jr.key(1)}


def call(function, values):
    """The function with these values for the arguments that it takes, and None for the others."""
    taken = {
        name: values.get(name)
        for name, parameter in inspect.signature(function).parameters.items()
        if name in values or (parameter.default is parameter.empty and name != "limits")
    }
    return function(**taken)


@pytest.mark.parametrize(("function", "noun"), SHARED)
def test_a_wrong_argument_is_named(function, noun):
    for value in (1, learners.hedge, jr.split(jr.key(0), 2), right()):
        with pytest.raises(TypeError, match=rf"^{noun} must be (a|one) "):
            call(getattr(audit, function), right() | {noun: value})


@pytest.mark.parametrize("entry", [np.nan, np.inf, None, "a"])
def test_losses_of_a_pair_that_are_not_finite_numbers_are_refused(entry):
    losses, others = map(np.array, right()["pair"])
    others = others.astype(object)
    others.flat[0] = entry
    with pytest.raises(ValueError, match="^pair: others: row 1.* must be finite in float32"):
        call(audit.epsilon, right() | {"pair": audit.Pair(losses, others)})


def from_one(horizon) -> Learner:
    """Arms are numbered from 1 by mistake."""

    def init(key):
        del key
        return jnp.zeros(ARMS), jnp.int32(0)

    def step(sums, key, loss):
        sums = sums + loss
        return sums, noise.least(key, sums, 2.0 * (horizon - 1)) + 1

    return Learner(init, step, full, Arms(ARMS), horizon, Privacy(epsilon=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [*sorted({name for name, noun in SHARED if noun in ("pair", "pairs")} - {"black_box"}), "all"],
)
def test_an_arm_outside_of_the_action_set_is_refused(function):
    values = right() | {"learner": from_one(ROUNDS)}
    with pytest.raises(ValueError, match=r"^learner: its action in round \d is not in .* to 2$"):
        if function == "all":
            examined(from_one, [ROUNDS], [jr.key(i) for i in range(4)], {}, count=16)
        else:
            call(getattr(audit, function), values)
