"""Keys whose draws depend on the batch are refused everywhere; the setting that changes draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import audit, domains, environments, learners, simulate, sweep
from dpjax.core import generators
from dpjax.engine import compile, programs
from dpjax.study.simulate import simulate_batches

pytestmark = pytest.mark.usefixtures("quick_compilation")

POINTS = np.array([0.5, 1.0])
LOSSES = domains.simplex(3).losses


def game(epsilon):
    return learners.dp_exp3_lap(8, 3, epsilon=epsilon), environments.bernoulli([0.1, 0.5, 0.5])


def swept(key, seeds=3, play=game, **options):
    return sweep(play, POINTS, seeds, key, checkpoints=2, progress=False, **options).regret


def by_batches(key):
    environment = environments.bernoulli([0.1, 0.5, 0.5], regret="pseudo")
    return simulate_batches(learners.exp3_minibatch(8, 3, epsilon=1.0), environment, key)


def two_sequences(count=None):
    losses = np.zeros((8, 3), np.float32)
    others = losses.copy()
    others[0, 0] = 1.0
    pair = audit.Pair(losses, others)
    return pair if count is None else jax.tree.map(lambda x: np.stack([x] * count), pair)


ENTRIES = {
    "simulate": lambda key: simulate(*game(1.0), key),
    "simulate_batches": by_batches,
    "sweep": swept,
    "pairs": lambda key: audit.pairs(key, 8, LOSSES, 2),
    "replay": lambda key: audit.replay(game(1.0)[0], two_sequences(), key),
    "most_visible": lambda key: audit.most_visible(game(1.0)[0], two_sequences(2), key),
    "epsilon": lambda key: audit.epsilon(game(1.0)[0], two_sequences(), key, runs=8),
}


def of_default(impl):
    with jax.default_prng_impl(impl):
        return jr.key(0)


BATCHED = "key must use threefry2x32, .* whose draws depend on the batch"
SINGLE = "key must be one key, such as jax.random.key"
HOSTILE = {
    "rbg": (lambda: jr.key(0, impl="rbg"), BATCHED),
    "unsafe_rbg": (lambda: jr.key(0, impl="unsafe_rbg"), BATCHED),
    "rbg by default": (lambda: of_default("rbg"), BATCHED),
    "raw": (lambda: jr.PRNGKey(0), SINGLE),
    "raw words of rbg": (lambda: jr.key_data(jr.key(0, impl="rbg")), SINGLE),
    "several": (lambda: jr.split(jr.key(0), 2), SINGLE),
    "a seed": (lambda: 0, SINGLE),
    "nothing": (lambda: None, SINGLE),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_keys_that_break_the_contract_are_refused(entry):
    for make, message in HOSTILE.values():
        with pytest.raises(TypeError, match=message) as refused:
            ENTRIES[entry](make())
        assert "\n" not in str(refused.value)
    print(f"keys, {entry}: {len(HOSTILE)} tried, {len(HOSTILE)} refused in a sentence, 0 silent")


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_why(impl):
    """Under vmap their draws for the first of two keys differ from those for the first of 3."""
    keys = jr.wrap_key_data(jnp.arange(12, dtype=jnp.uint32).reshape(3, 4), impl=impl)
    draw = jax.vmap(lambda key: jr.uniform(jr.split(key)[0], (3,)))
    assert (draw(keys)[:2] != draw(keys[:2])).any() or (draw(keys)[1] != draw(keys[1:])[0]).any()


@pytest.mark.attack
@pytest.mark.parametrize("impl", ["threefry2x32", generators.threefry13])
def test_keys_that_keep_the_contract_are_taken(impl):
    key = jr.key(0, impl=impl)
    whole = swept(key, 5)
    np.testing.assert_array_equal(swept(key, 5, chunk=4), whole)
    np.testing.assert_array_equal(swept(key, 2), whole[:, :2])


def test_a_game_may_not_draw_from_such_keys_either():
    def inner(epsilon):
        learner, environment = game(epsilon)

        def step(state, key, arm):
            other = jr.wrap_key_data(jnp.tile(jr.key_data(key), 2), impl="rbg")
            state, outcome = environment.step(state, key, arm)
            return state, outcome._replace(loss=jr.uniform(other, (3,)))

        return learner, environment._replace(step=step)

    with pytest.raises(TypeError, match="game must use threefry2x32, .*key<rbg>"):
        swept(jr.key(0), play=inner)


def test_a_default_of_jax_that_is_not_used_changes_nothing():
    key = jr.key(0)
    usual = swept(key)
    with jax.default_prng_impl("rbg"):
        np.testing.assert_array_equal(swept(key), usual)


@pytest.mark.attack
@pytest.mark.parametrize("how", ["context", "update"])
def test_what_is_compiled_follows_the_setting(how):
    """In both directions, repeatedly: for a sweep, and for simulate in one compiled function."""
    key = jr.key(0)
    compiled = jax.jit(lambda key: simulate(*game(POINTS[0]), key, checkpoints=2).regret)
    usual, found = jax.config.jax_threefry_partitionable, {True: [], False: []}
    for value in (True, False, False, True, False):
        if how == "context":
            with jax.threefry_partitionable(value):
                here = swept(key), compiled(jr.fold_in(key, 0)), ENTRIES["simulate"](key).regret
        else:
            try:
                jax.config.update("jax_threefry_partitionable", value)
                here = swept(key), compiled(jr.fold_in(key, 0)), ENTRIES["simulate"](key).regret
            finally:
                jax.config.update("jax_threefry_partitionable", usual)
        np.testing.assert_allclose(here[0][0, 0], here[1], rtol=1e-5)
        found[value].append(here)
    for same in found.values():
        for other in same[1:]:
            jax.tree.map(np.testing.assert_array_equal, other, same[0])
    for one, other in zip(found[True][0], found[False][0], strict=True):
        assert (one != other).any()


def test_a_block_that_is_compiled_late_follows_the_setting(monkeypatch):
    """In a thread, after a block that did not fit; the caller's contexts do not apply there."""
    key, real, failed = jr.key(0), programs.compiled, []
    with jax.threefry_partitionable(False):
        expected = swept(key, 16)

    def fussy(traced, size, mesh):
        program = real(traced, size, mesh)

        def run(*arguments):
            if size[1] == 16:
                failed.append(size)
                raise MemoryError("too much")
            return program.run(*arguments)

        return program._replace(run=run)

    monkeypatch.setattr(programs, "compiled", fussy)
    monkeypatch.setattr(compile, "CPU", compile.CPU._replace(threads=lambda: 1))
    with jax.threefry_partitionable(False), pytest.warns(RuntimeWarning, match="did not fit"):
        found = swept(key, 16)
    assert failed
    np.testing.assert_array_equal(found, expected)
