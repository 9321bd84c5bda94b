"""Keys that break the contract are refused everywhere; the setting that changes draws."""

import ast
import inspect
from contextlib import nullcontext
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from jax.extend.random import define_prng_impl

import dpjax
from dpjax import audit, combinators, domains, environments, learners, noise, simulate, sweep
from dpjax.cli import run
from dpjax.core import generators
from dpjax.engine import compile, programs
from dpjax.environments import families
from dpjax.game.batches import simulate_batches
from dpjax.learners import stopping
from tests import ROOT
from tests.refusals import refuses
from tests.test_laws import DRAWS

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


PAIR = audit.Pair(np.zeros((8, 3), np.float32), np.eye(24, dtype=np.float32)[0].reshape(8, 3))
BOTH = jax.tree.map(lambda x: np.stack([x, x]), PAIR)


def study(key, factory=learners.ucb1):
    coins = {"coins": environments.bernoulli([0.1, 0.9])}
    return dpjax.Study(factory, coins, {"horizon": 8, "arms": 2}, trials=2, key=key)


def worst(key):
    small = {"trials": 2, "final": 2, "population": 2, "generations": 1}
    factory = partial(learners.ucb1, arms=2)
    return dpjax.worst_case(factory, families.means(2), horizon=4, key=key, **small)


WORDS = jnp.zeros(2, jnp.uint32)

# They draw in different ways: with jax.random, by a law, or not at all.
MADE = {
    "cucb": lambda: learners.cucb(8, domains.capped_simplex(3, 2), epsilon=1.0),
    "exp3_minibatch": lambda: learners.exp3_minibatch(8, 3, epsilon=1.0),
    "exp4": lambda: learners.exp4(8, 3, 2, epsilon=1.0),
    "online_gradient": lambda: learners.online_gradient(8, domains.simplex(3), epsilon=np.inf),
    "sample_arms": lambda: combinators.sample_arms(
        learners.online_gradient(8, domains.simplex(3), epsilon=np.inf)
    ),
    "thompson": lambda: learners.thompson(8, 3),
    "ucb1": lambda: learners.ucb1(8, 3),
}


def own_loop(made):
    return {
        "init": lambda key: made().init(key),
        "step": lambda key: made().step(None, key, None),
        "step, by name": lambda key: made().step(state=None, key=key, seen=None),
    }


ENTRIES = {
    "simulate": lambda key: simulate(*game(1.0), key),
    "trajectory": lambda key: dpjax.trajectory(
        *game(1.0), key, record=lambda played: played.action
    ),
    "simulate_batches": by_batches,
    "sweep": swept,
    "pairs": lambda key: audit.pairs(key, 8, LOSSES, 2),
    "replay": lambda key: audit.replay(game(1.0)[0], PAIR, key),
    "most_visible": lambda key: audit.most_visible(game(1.0)[0], BOTH, key),
    "epsilon": lambda key: audit.epsilon(game(1.0)[0], PAIR, key, runs=8),
    "private_mean": lambda key: stopping.private_mean(
        key, stopping.two_valued(0.5), 8, epsilon=1.0, accuracy=1.0, failure=0.1
    ),
    **{f"draw: {name}": lambda key, draw=draw: draw(key, 0.0) for name, draw in DRAWS.items()},
    **{
        f"{name}.{part}": call
        for name, made in MADE.items()
        for part, call in own_loop(made).items()
    },
}


def of_default(impl):
    with jax.default_prng_impl(impl):
        return jr.key(0)


OWN = define_prng_impl(
    key_shape=(2,), seed=lambda seed: WORDS, split=lambda key, shape: jnp.zeros((*shape, 2)),
    random_bits=lambda key, width, shape: WORDS, fold_in=lambda key, data: key, name="own",
    tag="own",
)  # fmt: skip
THREEFRY = "must use threefry2x32, .* got "
SINGLE = "key must be one key, such as jax.random.key"
HOSTILE = {
    "rbg": (lambda: jr.key(0, impl="rbg"), f"{THREEFRY}key<rbg>$"),
    "unsafe_rbg": (lambda: jr.key(0, impl="unsafe_rbg"), f"{THREEFRY}key<urbg>$"),
    "rbg by default": (lambda: of_default("rbg"), THREEFRY),
    "another": (lambda: jr.key(0, impl=OWN), f"{THREEFRY}key<own>$"),
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
    print(f"{entry}: {len(HOSTILE)} keys refused in a sentence")


def test_every_public_draw_is_tried():
    draws = {*noise.__all__} - {"name_of"}
    public = {name for name in draws if name.islower() and callable(getattr(noise, name))}
    assert public <= set(DRAWS)
    for room in (learners, environments, combinators):
        assert all(hasattr(getattr(room, name), "__wrapped__") for name in room.__all__
                   if inspect.isfunction(getattr(room, name)))  # fmt: skip


def test_environments_refuse_them_too_but_need_none_if_they_draw_nothing():
    bernoulli = environments.bernoulli([0.5] * 2)
    pseudo = environments.bernoulli([0.5] * 2, regret="pseudo")
    for call in (
        environments.oblivious(3, 8).init, environments.consensus(4, 2).init,
        lambda key: bernoulli.step((), key, 0),
        lambda key: pseudo.batch((), key, 0, 3, None),
        lambda key: environments.glm_arms(2, 3).step((), key=key, action=0),
    ):  # fmt: skip
        refuses(THREEFRY, call, (jr.key(0, impl="rbg"),))
        refuses(r"^key must be one key, such as jax.random.key\(0\)", call, (None,))
    environment = environments.table([[0.5, 1.0]])
    assert environment.step(environment.init(None), None, 1)[1].loss[1] == 1.0


@pytest.mark.parametrize("around", [jax.jit, jax.vmap])
def test_traced_keys_are_refused(around):
    keys = jr.split(jr.key(0, impl="rbg"), 2)
    names = [f"draw: {name}" for name in ("laplace", "level", "wishart")]
    for draw in (*(ENTRIES[name] for name in names), MADE["thompson"]().init):
        with pytest.raises(TypeError, match=THREEFRY):
            around(draw)(keys if around is jax.vmap else keys[0])


SEEDS = "a whole number from 0 to 4294967295"
SEEDED = {
    "Study": study,
    "worst_case": worst,
    "dpjax run": lambda key: run.study_of(np.zeros((8, 3)), "ucb1", seed=key),
}


@pytest.mark.parametrize("entry", SEEDED)
def test_two_seeds_never_play_the_same_trials(entry):
    """jax.random.key keeps the last 32 bits of a seed."""
    for seed in (-1, -(2**32), 2**32, 2**40, 2**63, np.uint64(2**63), -(2**63) - 1):
        with pytest.raises(ValueError, match=f"must be {SEEDS}, got {seed}$"):
            SEEDED[entry](seed)
    raw, rbg = jr.PRNGKey(0), jr.key(0, impl="rbg")
    for other in (True, 1.5, "0", None, jnp.int32(0), raw, jr.split(jr.key(0)), rbg):
        with pytest.raises(TypeError, match=f"{THREEFRY}|or {SEEDS}, got"):
            SEEDED[entry](other)


def test_the_key_of_a_seed_is_one_of_threefry():
    with jax.default_prng_impl("rbg"):
        for seed in (0, 2**31, np.uint32(2**32 - 1)):
            key = study(seed).prng_key
            assert key.dtype == jr.key(0, impl="threefry2x32").dtype
            assert jr.key_data(key).tolist() == [0, seed]
    with pytest.raises(ValueError, match="different keys"):
        study(0) + study(jr.key(0, impl=generators.threefry13), learners.thompson)


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


@pytest.mark.slow
@pytest.mark.parametrize("how", ["context", "update"])
def test_what_is_compiled_follows_the_setting(how):
    """In both directions, repeatedly: for a sweep, and for simulate in one compiled function."""
    key, usual, found = jr.key(0), jax.config.jax_threefry_partitionable, {}
    compiled = jax.jit(lambda key: simulate(*game(POINTS[0]), key, checkpoints=2).regret)
    for value in (True, False, False, True, False):
        with jax.threefry_partitionable(value) if how == "context" else nullcontext():
            try:
                if how == "update":
                    jax.config.update("jax_threefry_partitionable", value)
                here = swept(key), compiled(jr.fold_in(key, 0)), ENTRIES["simulate"](key).regret
            finally:
                if how == "update":
                    jax.config.update("jax_threefry_partitionable", usual)
        np.testing.assert_allclose(here[0][0, 0], here[1], rtol=1e-5)
        jax.tree.map(np.testing.assert_array_equal, here, found.setdefault(value, here))
    for one, other in zip(found[True], found[False], strict=True):
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
    monkeypatch.setitem(compile.PLATFORMS, "cpu", compile.CPU._replace(threads=lambda: 1))
    with jax.threefry_partitionable(False), pytest.warns(RuntimeWarning, match="did not fit"):
        found = swept(key, 16)
    assert failed
    np.testing.assert_array_equal(found, expected)


def split_and_folded(source):
    """(function, key) of each key that a function splits and folds numbers into."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            calls: dict[str, set] = {}
            for call in ast.walk(node):
                if (
                    isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Attribute)
                    and call.args
                ):
                    calls.setdefault(ast.unparse(call.args[0]), set()).add(call.func.attr)
            yield from ((node.name, key) for key, names in calls.items()
                        if {"split", "fold_in"} <= names)  # fmt: skip


def test_no_function_splits_a_key_and_folds_numbers_into_it():
    """Key i of ``split(key, n)`` is ``fold_in(key, i)``."""
    keys = jr.split(jr.key(0), 3)
    np.testing.assert_array_equal(
        jr.key_data(keys), [jr.key_data(jr.fold_in(jr.key(0), i)) for i in range(3)]
    )
    source = "def draw(key):\n    return jr.split(key), jr.fold_in(key, 1)"
    assert [*split_and_folded(source)] == [("draw", "key")]
    files = (ROOT / "dpjax").rglob("*.py")
    assert [row for path in files for row in split_and_folded(path.read_text())] == []
