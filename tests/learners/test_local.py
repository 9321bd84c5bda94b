"""Learners on ``mechanisms.per_item``: each message, or each batch, is private by itself."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import learners, mechanisms, privacy
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
        rho = 0.5 / float(privacy.gaussian_inverse_mu(1.0, DELTA)) ** 2
        assert float(declared.rho) == pytest.approx(rho, rel=1e-5)
    if name == "ftrl":
        pure = [twin("ftrl", "laplace", batch=batch).privacy for batch in (1, 3)]
        assert [each.model for each in pure] == ["local", "distributed"]
        # A batch's sum that is noised as one item is central.
        assert twin("projection_free").privacy.model == "central"


# LinUCB ---------------------------------------------------------------------------------------


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
    sums = gram.gaussian(mechanism=partial(mechanisms.per_item, batch=batch)).noise(
        horizon, dim, gram.Bounds(1.0, 1.0, 1.0), epsilon=1.0, delta=DELTA, failure=alpha
    )
    made, found = noise_alone(sums, horizon, dim, trials)
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
