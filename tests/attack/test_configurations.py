"""JAX settings of the caller: the results are right, or one sentence refuses."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import mechanisms, simulate, sweep
from dpjax.core._versions import enable_x64
from dpjax.engine import settings
from dpjax.study.traces import trace
from tests.attack.test_keys import ENTRIES, POINTS, game
from tests.test_conformance import every_learner, make, on_table

pytestmark = pytest.mark.usefixtures("quick_compilation")


def swept(game=game, points=POINTS, key=None, **options):
    key = jr.key(0) if key is None else key
    return sweep(game, points, 2, key, checkpoints=2, progress=False, **options).regret


def played():
    return simulate(*game(1.0), jr.key(0), checkpoints=2).regret


@cache
def usual():
    return swept(), np.asarray(played())


def mesh():
    return jax.make_mesh((1,), ("devices",))


# All but the last work for simulate too; the last ones forbid code that is not compiled.
CONTEXTS = {
    "64 bits": lambda: enable_x64(True),
    "nothing is compiled": jax.disable_jit,
    "NaN stops": lambda: jax.debug_nans(True),
    "infinity stops": lambda: jax.debug_infs(True),
    "strict ranks": lambda: jax.numpy_rank_promotion("raise"),
    "a device": lambda: jax.default_device(jax.devices()[0]),
    "bfloat16": lambda: jax.default_matmul_precision("bfloat16"),
    "compilations are told": jax.log_compiles,
    "leaks are looked for": jax.checking_leaks,
    "an ambient mesh": lambda: jax.set_mesh(mesh()),
    "no transfers": lambda: jax.transfer_guard("disallow"),
}
UPDATES = {
    "jax_enable_x64": True,
    "jax_disable_jit": True,
    "jax_explain_cache_misses": True,
    "jax_enable_checks": True,
    "jax_transfer_guard": "disallow",
    "jax_legacy_prng_key": "error",
    "jax_debug_key_reuse": True,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_changes_nothing(name):
    key, expected = jr.key(0), usual()
    # Under 64 bits, factories return mixed types, as the caller's own code does.
    with CONTEXTS[name](), jax.numpy_dtype_promotion("standard"):
        np.testing.assert_array_equal(swept(key=key), expected[0])
        if name != "no transfers":  # jax.random.key is itself a transfer
            np.testing.assert_allclose(played(), expected[1], rtol=1e-6)


@pytest.mark.parametrize("name", UPDATES)
def test_an_option_changes_nothing_in_threads_either(name):
    key, before, expected = jr.key(0), getattr(jax.config, name), usual()
    jax.config.update(name, UPDATES[name])
    try:
        found = swept(key=key)
    finally:
        jax.config.update(name, before)
    np.testing.assert_array_equal(found, expected[0])


def traced(name):
    """The digest of a learner's traced sweep: equal digests compute equal numbers."""

    def game(point):
        del point
        learner = make(name, 8)
        return learner, on_table(name, np.linspace(0.0, 1.0, 24, dtype=np.float32).reshape(8, 3))

    with settings.of_sweep():
        return trace(game, simulate, np.array([4, 8]), POINTS, jr.key(0).dtype)


def under_64_bits(play):
    with enable_x64(True), jax.numpy_dtype_promotion("standard"):
        return play()


@every_learner
def test_learners_under_64_bits(name):
    assert under_64_bits(lambda: traced(name).digest) == traced(name).digest


def sums(name):
    """The noisy sums of a mechanism."""
    law = "gaussian" if name == "unbounded" else "laplace"
    stream = getattr(mechanisms, name)(6, noise=law).stream((2,), scale=1.0)
    state, seen = stream.init(jr.key(0))
    for t in range(1, 6):
        state, seen = stream.step(state, jr.fold_in(jr.key(0), t), jnp.ones(2, jnp.float32))
    return np.asarray(seen)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["simulate", "simulate_batches", "pairs", "replay", "most_visible", "epsilon",
             *sorted(set(mechanisms.__all__) - {"exact", "stationary", "per_item"})]
)  # fmt: skip
def test_games_audits_and_mechanisms_under_64_bits(name):
    """The caller's own code runs under these settings, too."""
    play = partial(ENTRIES[name], KEY()) if name in ENTRIES else partial(sums, name)
    expected = play()
    found = under_64_bits(play)
    jax.tree.map(partial(np.testing.assert_array_equal, strict=True), found, expected)


def of_rate(epsilon):
    return swept(lambda point: (game(epsilon)[0], game(point)[1])).sum()


KEY = cache(lambda: jr.key(0))
WITHIN = {
    "jit": lambda: jax.jit(lambda key: swept(key=key))(KEY()),
    "jit, of nothing": lambda: jax.jit(swept)(),
    "vmap": lambda: jax.vmap(lambda key: swept(key=key))(jr.split(KEY(), 3)),
    "vmap, of points": lambda: jax.vmap(lambda x: swept(points=x, key=KEY()))(jnp.ones((3, 2))),
    "vmap, of the game": lambda: jax.vmap(of_rate)(jnp.ones(3)),
    "grad": lambda: jax.grad(of_rate)(1.0),
    "grad, of points": lambda: jax.grad(lambda x: swept(points=x * jnp.ones(2)).sum())(1.0),
    "jit, of the game": lambda: jax.jit(of_rate)(1.0),
    "a loop": lambda: jax.lax.map(lambda key: swept(key=key), jr.split(KEY(), 3)),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_sweep_within_a_transformation(name):
    with pytest.raises(TypeError, match="sweep must be called outside of jit, vmap, grad") as error:
        WITHIN[name]()
    assert "\n" not in str(error.value)


@dataclass
class Equal:
    """An object without a hash."""

    play: Callable

    def __call__(self, *arguments, **keywords):
        return self.play(*arguments, **keywords)


@pytest.mark.slow
def test_games_and_ways_to_play_need_no_hash():
    expected = usual()[0]
    np.testing.assert_array_equal(swept(Equal(game)), expected)
    np.testing.assert_array_equal(swept(play=Equal(simulate)), expected)
    with_lists = partial(lambda table, point: game(point), [1, {2: 3}])
    np.testing.assert_array_equal(swept(with_lists), expected)
