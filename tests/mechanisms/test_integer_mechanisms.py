"""Mechanisms with integer noise: releases are integers, and hide integer changes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import mechanisms
from dpjax.audit import Pair, mutants, replay, spent
from dpjax.domains import box_losses, simplex
from dpjax.learners import ftrl
from dpjax.learners.parts.prefix_sums import of_rounded

HORIZON = 12
FACTORIES = {
    "tree": mechanisms.tree,
    "identical": partial(mechanisms.tree, identical_law=True),
    "kary": mechanisms.kary,
    "per_item": mechanisms.per_item,
}


def released(factory, law, scale, values, keys):
    """Releases of all prefixes, (keys, HORIZON)."""
    stream = factory(HORIZON, noise=law).stream((), scale=scale)

    def run(key):
        state, first = stream.init(jr.fold_in(key, 0))

        def one(state, inputs):
            t, value = inputs
            return stream.step(state, jr.fold_in(key, t), value)

        rounds = jnp.arange(1, HORIZON)
        return jnp.append(first, jax.lax.scan(one, state, (rounds, values))[1])

    return np.asarray(jax.jit(jax.vmap(run))(keys), np.float64)


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("law", ["discrete_laplace", "discrete_gaussian", "skellam"])
def test_noise_of_prefixes_is_of_integers_and_has_its_variance(name, law):
    """Each prefix has the variance of its draws; jointly, 10 % more is rejected."""
    scale, values = 3.0, jnp.arange(HORIZON - 1, dtype=jnp.float32) % 2
    found = released(FACTORIES[name], law, scale, values, jr.split(jr.key(0), 8000))
    assert (found == np.round(found)).all()
    exact = np.append(0.0, np.cumsum(np.asarray(values)))
    noise = found - exact
    one = stats.dlaplace(1.0 / scale).var() if law == "discrete_laplace" else scale**2
    draws = np.asarray(FACTORIES[name](HORIZON, noise=law).variance())
    ratio = np.mean(noise[:, 1:] ** 2, axis=0) / (one * draws[1:])
    error = np.sqrt(np.var(noise[:, 1:] ** 2, axis=0) / 8000) / (one * draws[1:])
    assert (np.abs(ratio - 1.0) < 5.0 * error).all()
    assert abs(np.mean(ratio) - 1.0) < 0.05


def test_values_are_rounded_without_a_bias_and_not_at_all_without_noise():
    """A value of 0.3 is 1 in 30 % of runs, by a binomial test; 0.33 is rejected."""
    values = jnp.full(HORIZON - 1, 0.3)
    found = released(
        mechanisms.per_item, "discrete_laplace", 1e-9, values, jr.split(jr.key(1), 3000)
    )
    ones, count = int(found[:, -1].sum()), 3000 * (HORIZON - 1)
    assert stats.binomtest(ones, count, 0.3).pvalue > 1e-3
    assert stats.binomtest(ones, count, 0.33).pvalue < 1e-6
    exact = released(mechanisms.tree, "discrete_gaussian", 0.0, values, jr.split(jr.key(1), 3))
    np.testing.assert_allclose(exact[:, -1], 0.3 * (HORIZON - 1), rtol=1e-6)


def test_the_change_of_a_rounded_value():
    """Integer boxes keep theirs; others grow by 1 per entry, within the integers around them."""
    assert of_rounded((4.0, 2.0), (4,), (0.0, 1.0), "round") == (4.0, 2.0)
    assert of_rounded((1.0, 1.0), (4,), (0.0, 1.0), "entry") == (1.0, 1.0)
    assert of_rounded((2.0 * 3**0.5, 2.0), (3,), (-1.0, 1.0), "round") == (6.0, 3**0.5 * 2.0)
    assert of_rounded((0.5, 0.5), (9,), (0.0, 0.5), "round") == (9.0, 3.0)
    assert of_rounded((2.0, 2.0), (9,), (-5.0, 5.0), "round") == (11.0, 5.0)


def game(law, mechanism):
    delta = None if law == "discrete_laplace" else 1e-3
    return ftrl(
        8, simplex(2)._replace(losses=box_losses(2, 0.0, 1.0)), epsilon=1.0, delta=delta,
        noise=law, mechanism=mechanism,
    )  # fmt: skip


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    ("law", "mechanism"),
    [
        ("discrete_laplace", mechanisms.tree),
        ("discrete_gaussian", mechanisms.per_item),
        ("skellam", mechanisms.tree),
        ("skellam", mechanisms.per_item),
    ],
)
def test_a_replay_spends_what_is_declared(law, mechanism):
    """At losses that go from one corner to another; half the scale is found."""
    learner = game(law, mechanism)
    losses = jnp.zeros((8, 2)).at[4].set(1.0)
    others = losses.at[2].set(1.0)
    found = replay(learner, Pair(losses, others), jr.key(0))
    delta = float(learner.privacy.delta)
    assert spent(found, delta) == pytest.approx(float(learner.privacy.epsilon), rel=1e-4)
    assert found.touched == 1 or mechanism is mechanisms.tree
    halved = mutants(learner, losses)["noise halved"]
    assert spent(replay(halved, Pair(losses, others), jr.key(0)), delta) > 1.9
    # Non-integer losses are rounded equally in both worlds, or differ by one.
    between = losses.at[2].set(0.4)
    rounded = spent(replay(learner, Pair(losses, between), jr.key(0)), delta)
    assert rounded <= float(learner.privacy.epsilon) * (1.0 + 1e-4)


def test_declarations():
    batches = partial(mechanisms.per_item, batch=2)
    for law, mechanism, model, accountant in (
        ("discrete_laplace", mechanisms.per_item, "local",
         "Discrete Laplace mechanism on each item"),
        ("discrete_laplace", batches, "distributed", None),
        ("skellam", batches, "distributed", "Skellam mechanism on the sum of each batch"),
        ("discrete_gaussian", batches, "central", None),
    ):  # fmt: skip
        declared = game(law, mechanism).privacy
        assert declared.model == model and accountant in (None, declared.accountant)
        assert np.isnan(declared.rho) or law != "skellam"
