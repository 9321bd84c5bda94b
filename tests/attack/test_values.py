"""Numbers that are NaN, infinite or extreme, sizes out of range, and arms that do not exist.

They are accepted and right, or refused by name.
"""

import re
import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, gram, learners, mechanisms
from dpjax.cli import audits
from dpjax.combinators import as_learner
from dpjax.core import Pairs
from dpjax.feedback import seen_inside
from dpjax.learners.parts.prefix_sums import sampled_rounds
from dpjax.maths import laws
from dpjax.mechanisms._kary import best_branching
from tests import combinations
from tests import test_conformance as conformance
from tests.environments.test_environments import ADAPTIVE, CASES, EXAMPLES

PRIVATE = [name for name in learners.__all__ if "epsilon" in conformance.parameters(name)]


@pytest.mark.parametrize("name", PRIVATE)
def test_an_epsilon_that_float32_cannot_serve_is_refused_by_name(name):
    """1e-38 and 1e-45 are 0 in float32 on most devices; below 1e-12 squared scales overflow."""
    for value in (1e-38, 1e-45, 1e-30, 1e-20):
        with pytest.raises((TypeError, ValueError), match="epsilon"):
            conformance.make(name, epsilon=value)


EPSILONS = np.array([1e-38, 1e-45, 1e-30, 1e-20, 1e-9, 1e-3, 1, 1e9, 3e38, np.inf], np.float32)
DELTAS = np.array([1e-30, 1e-9, 0.5, 1.0 - 1e-7], np.float32)
ARMS = conformance.ARMS


def tables(horizon):
    """Losses of 0, 1, any size, NaN and infinity, in all places, in some, and in one."""
    shape = horizon, ARMS
    plain, where = np.asarray(jr.uniform(jr.key(3), (2, *shape)))
    wild = [np.nan, np.inf, -np.inf, 3e38, -3e38]
    mixed = np.select([where < 0.1 * (i + 1) for i in range(5)], wild, plain)
    games = [np.full(shape, value) for value in (0.0, 1.0, *wild)] + [plain, mixed]
    rows = np.arange(horizon)
    once = [np.where(rows[:, None] == t, value, plain) for value in wild[:3] for t in rows]
    return np.array(games, np.float32), np.array(once, np.float32)


def options(name):
    """The words that its privacy options accept, one changed at a time, read from its refusals."""
    if name == "linucb":
        yield from ({"gram": gram.gaussian(calibration=word)} for word in ("printed", "code"))
    for argument in ("calibration", "split", "base"):
        parameter = conformance.parameters(name).get(argument)
        if parameter is not None:
            words = combinations.words(partial(conformance.make, name), argument, {})
            yield from ({argument: word} for word in words if word != parameter.default)


def grid(name, horizon):
    """Every epsilon with every delta and table; at epsilon = 1, one odd loss in each round."""
    taken = conformance.parameters(name)
    # If only Gaussian noise, or another trust model, takes a delta, the default has none.
    local = "model" in taken and taken["model"].default == "local"
    takes_delta = "delta" in taken and "noise" not in taken and not local
    games, once = tables(horizon)
    lanes = [
        (epsilon, delta, game)
        for epsilon in (EPSILONS if "epsilon" in taken else [1.0])
        for delta in (DELTAS if takes_delta else [0.5])
        for game in games
    ] + [(1.0, 1e-6, game) for game in once]
    return takes_delta, [
        jnp.asarray(np.array(column), jnp.float32) for column in zip(*lanes, strict=True)
    ]


def campaign(name, horizon, **option):
    """The number of games played, and of those with a NaN or an invalid action."""
    takes_delta, lanes = grid(name, horizon)

    def one(epsilon, delta, losses):
        changes = {"epsilon": epsilon, **option}
        if takes_delta:
            changes["delta"] = delta
        learner = as_learner(conformance.make(name, horizon, **changes))

        def step(carry, t):
            state, action = carry
            revealed = conformance.revealed(name, losses[t])
            seen, _ = seen_inside(learner, revealed, action)
            after = learner.step(state, jr.fold_in(jr.key(1), t), seen)
            return after, conformance.played(action, revealed)

        (state, _), actions = jax.lax.scan(step, learner.init(jr.key(0)), jnp.arange(horizon))
        declared = jnp.asarray(learner.privacy.epsilon, jnp.float32)
        report = learner.report(state)
        return jax.tree.leaves(state), actions, declared, getattr(report, "reach", jnp.float32(0))

    states, actions, declared, reach = jax.jit(jax.vmap(one))(*lanes)
    # An epsilon that rounds to 0 when compiled is declared as NaN.
    epsilons, deltas, _ = (np.asarray(column) for column in lanes)
    declares = np.isfinite(float(conformance.make(name, horizon, **option).privacy.epsilon))
    allowed = (epsilons >= np.finfo(np.float32).tiny) & (deltas > 0.0) & (deltas < 1.0)
    bad = np.isnan(np.asarray(declared)) != (~allowed & declares)
    for leaf in states:
        leaf = np.asarray(leaf, np.float64).reshape(len(bad), -1)
        # Values that are infinite by definition may be, such as the least of an empty set.
        bad |= np.isnan(leaf).any(axis=1) | (np.isinf(leaf) & ~np.isinf(leaf[-1])).any(axis=1)
    actions = np.asarray(actions)
    if conformance.plays(name, domains.Domain):
        points = actions.reshape(-1, ARMS)  # one or several points per round
        near = jax.vmap(conformance.ARGUMENTS["domain"].project)(points)
        outside = np.linalg.norm(np.asarray(near) - points, axis=-1)
        outside = outside.reshape(len(bad), -1).max(axis=1)
        bad |= ~(outside <= np.asarray(reach) + 1e-4)
    else:
        count = ARMS**2 if conformance.plays(name, Pairs) else ARMS
        bad |= ((actions < 0) | (actions >= count)).any(axis=1)
    return len(bad), int(bad.sum())


@pytest.mark.slow
def test_every_learner_ends_with_numbers_whatever_epsilon_and_losses_are(capsys, quick_compilation):
    """With traced epsilons, which cannot be refused, and losses that are NaN or infinite."""
    games, faults = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in learners.__all__:
            for horizon, option in [(64, {}), *((2, option) for option in options(name))]:
                if "calibration" in option:
                    option = {**option, **audits.PRINTED.get(name, {})}
                played, bad = campaign(name, horizon, **option)
                games += played
                if bad:
                    faults.append(f"{name}({horizon}, {option}): {bad} of {played}")
    with capsys.disabled():
        print(f"\n{games} games, {len(faults)} learners with NaN, infinity or an invalid action")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", ["lazy_thompson", "tsallis_inf", "exp2"])
def test_learners_that_hung_or_held_nan_end_with_numbers(name, quick_compilation):
    played, bad = campaign(name, 8)
    assert played and not bad


def test_rejection_ends_where_nothing_can_be_accepted(quick_compilation):
    """Gamma draws with an invalid shape, and binomial draws with an invalid probability."""
    gamma, binomial = jax.jit(laws.log_gamma), jax.jit(laws.binomial)
    for shape in (np.nan, np.inf, -np.inf, -1.0, 0.0):
        drawn = gamma(jr.key(0), jnp.array([2.0, shape], jnp.float32))
        assert np.isfinite(drawn[0])
    usual = gamma(jr.key(0), jnp.array([2.0, 3.0]))
    assert usual[0] == drawn[0]
    for probability in (np.nan, -1.0, 2.0):
        count = binomial(jr.key(0), 10**6, jnp.float32(probability))
        assert count == (10**6 if probability == 2.0 else 0)


@pytest.mark.parametrize(("name", "example"), [case for case in CASES if case not in ADAPTIVE])
def test_an_arm_out_of_range_is_charged_as_the_nearest_one(name, example):
    """As in NumPy, -1 is the last arm. A loss of 0 would make a non-existent arm the best one."""
    environment = EXAMPLES[name][example]()
    state = environment.init(jr.key(0))

    def tally(arm):
        return environment.step(state, jr.key(1), arm)[1].tally

    played = jnp.array([ARMS, 70, 2**31 - 1, -1, -ARMS - 1, -(2**31)], jnp.int32)
    nearest = jnp.array([ARMS - 1] * 4 + [0] * 2, jnp.int32)
    np.testing.assert_array_equal(jax.vmap(tally)(played), jax.vmap(tally)(nearest))


# Sizes -----------------------------------------------------------------------------------------

LONGEST = 2**31 - 1
GOOD = [1, 2, 3, 2**24 - 1, 2**24, 2**24 + 1, 2**30, LONGEST, np.int64(8), jnp.int32(8)]
BAD = [2**31, 2**40, 10**30, -1, 0, 1.5, True, "8", None]
# Factories whose docstring states a limit.
LIMITED = {"private_giga", "smooth", "square_root", "stationary", "unbounded", "buffered"}


def learner(name, horizon):
    """Builds it and traces its first round (two for the longest horizon); allocates no array."""
    built = as_learner(conformance.make(name, horizon))
    started = state, action = jax.eval_shape(built.init, jr.key(0))
    epsilon = float(built.privacy.epsilon)
    if "epsilon" in conformance.parameters(name):
        assert 0.0 <= epsilon <= 1.00001, f"{name}({horizon}) declares {epsilon}"
    if horizon != LONGEST:  # tracing the longest is slow
        return started
    losses = conformance.revealed(name, jnp.zeros(conformance.ARMS))
    seen = jax.eval_shape(built.feedback, losses, action)
    jax.eval_shape(built.step, state, jr.key(0), seen)
    return started


def mechanism(name, horizon):
    built = getattr(mechanisms, name)(horizon).stream((2,), scale=1.0)
    started = state, _ = jax.eval_shape(built.init, jr.key(0))
    jax.eval_shape(built.step, state, jr.key(0), jnp.zeros(2))
    return started


def switching_cost(_, horizon):
    return jax.eval_shape(environments.switching_cost(horizon, 3).init, jr.key(0))


FACTORIES = {
    **dict.fromkeys(learners.__all__, learner),
    **dict.fromkeys(mechanisms.__all__, mechanism),
    "switching_cost": switching_cost,
}


def entries(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def fault(name, horizon):
    """The mistake in how a factory handles a horizon, or None."""
    what = f"{name}({horizon!r})"
    good = any(horizon is value for value in GOOD)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about wide smoothing in short games
            state = FACTORIES[name](name, horizon)
    except (TypeError, ValueError) as error:
        text = str(error)
        if "\n" in text or not text.startswith("horizon"):
            return f"{what}: {text!r} is no sentence that names the horizon"
        limit = re.search(r"at most (\d+)|up to (\d+)", text)
        if good and (name not in LIMITED or not limit or int(max(limit.groups(""))) >= horizon):
            return f"{what} is refused: {text}"
        return None
    except Exception as error:
        return f"{what}: {type(error).__name__} {error}"
    if not good:
        return f"{what} is accepted"
    # At most a few hundred rows, except for mechanisms that keep the noise of all rounds.
    if entries(state) > 2000 and name not in ("square_root", "stationary", "unbounded"):
        return f"{what} has a state of {entries(state)} numbers"
    return None


@pytest.mark.slow
def test_every_horizon_is_right_or_refused_by_name(capsys):
    cases = [(name, horizon) for name in FACTORIES for horizon in GOOD + BAD]
    faults = [line for case in cases if (line := fault(*case))]
    with capsys.disabled():
        print(f"\n{len(cases)} horizons of {len(FACTORIES)} factories, {len(faults)} faults")
    assert not faults, "\n".join(faults)


# They raised raw OverflowErrors or MemoryErrors of 16 GB, or refused a valid horizon.
FAILED = ["dp_ucb", "exp3_minibatch", "hedge", "shrinking_dartboard", "batched_bandit", "ftpl"]


@pytest.mark.parametrize("name", [*FAILED, *sorted(set(FACTORIES) - set(learners.__all__))])
def test_long_horizons_are_right_or_refused_by_name(name):
    for horizon in (2**31, 10**30, *((2**24 + 1, LONGEST) if name in FAILED else ())):
        assert fault(name, horizon) is None


@pytest.mark.parametrize("name", ["tree", "honaker", "hybrid", "kary", "smooth", "exact"])
def test_a_traced_round_has_the_variance_of_its_row(name):
    """Round by round in JAX, all at once in NumPy."""
    built = getattr(mechanisms, name)(100)
    found = jax.jit(jax.vmap(built.variance))(jnp.arange(100))
    np.testing.assert_allclose(found, built.variance(), rtol=1e-6)


def test_the_rounds_of_a_mean_are_spread():
    """All rounds up to 2^20; beyond, a mean of popcounts is within 1e-4 of the exact one."""
    np.testing.assert_array_equal(sampled_rounds(1000), np.arange(1000))
    for horizon, exact in [(2**30, 15.0), (2**25, 12.5)]:
        rounds = sampled_rounds(horizon)
        assert rounds.min() >= 0 and rounds.max() < horizon
        mean = mechanisms.tree(horizon).variance(rounds).mean()
        assert mean == pytest.approx(exact, rel=1e-4)


def test_a_wide_tree_is_never_the_best():
    """Of the arities not tried, even the lowest digits cost more than the best tree."""
    for count in (70_000, 10**6, 2**30, LONGEST - 1):
        for norm in (1, 2):
            k = best_branching(count, norm)
            built = mechanisms.kary(count + 1, k=k)
            levels = built.sensitivity[0]
            mean = built.variance(sampled_rounds(count + 1)).mean()
            assert mean * levels**2 < 2**17 / 9


def test_a_k_ary_tree_walks_on_beyond_2_to_the_30():
    """Its digits there agree with those from NumPy's int64."""
    built = mechanisms.kary(LONGEST, k=3)
    rounds = np.array([2**30, 2**30 + 12345, 3**19 + (3**19 - 1) // 2, LONGEST - 1])
    found = jax.vmap(built.variance)(jnp.asarray(rounds, jnp.int32))
    np.testing.assert_allclose(found, built.variance(rounds), rtol=1e-6)
