"""Sizes that are too large, too small or missing: accepted and right, or refused by name."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import domains, environments, learners, mechanisms
from dpjax.combinators import as_learner
from dpjax.learners.parts.prefix_sums import sampled_rounds
from dpjax.mechanisms._kary import best_branching
from tests import test_conformance as conformance
from tests.refusals import refuses

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


def test_other_sizes_are_refused_by_name():
    """Arms, dimensions and periods, for factories that take them."""
    ball = domains.ball(2)
    for argument, build in {
        "arms": lambda size: learners.exp3(8, size),
        "dim": lambda size: learners.linucb(8, size, epsilon=1.0, delta=1e-6),
        "period": lambda size: environments.linear_losses(ball, "drifting", period=size),
        "batch": lambda size: mechanisms.per_item(8, batch=size),
        "k": lambda size: mechanisms.kary(8, k=size),
    }.items():
        for size in BAD:
            if size is not None or argument not in ("batch", "k"):  # None is their default
                refuses(rf"^{argument} must be ", build, (size,))


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
