"""A noise distribution from a user's file plays, calibrates, is audited and tabulated."""

import dataclasses

import numpy as np
import pytest
from jax import random as jr

from dpjax import Study, audit, domains, environments, learners, mechanisms, noise
from dpjax.cli.learner_files import find_factory

# Hyperbolic secant noise, of density 1 / (pi b cosh(x / b)). Its logarithm changes by at most
# |x - x'| / b, as that of Laplace noise, so both have the same calibration.
FILE = """
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import learners, noise
from dpjax.noise._laplace import calibrate, declare
from dpjax.noise.law import of_pure


def draw(key, scale, shape):
    return scale * jnp.log(jnp.tan(0.5 * np.pi * jr.uniform(key, shape, minval=1e-6, maxval=1.0)))


secant = noise.Law(
    "secant",
    draw,
    variance=lambda scale: (0.5 * np.pi * scale) ** 2,
    cumulant=lambda tilt, scale: -jnp.log(jnp.cos(0.5 * np.pi * tilt * scale)),
    pole=lambda scale: 1.0 / scale,
    calibrate=calibrate,
    declare=declare,
    cost=of_pure,
    norm=1,
    pure=True,
)


def mine(horizon, arms, *, epsilon):
    return learners.successive_elimination(horizon, arms, epsilon=epsilon, noise=secant)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(a factory, its law) of the file."""
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(FILE)
    _, factory = find_factory(f"{path}:mine")
    yield factory, factory.__globals__["secant"]
    noise.LAWS.pop("secant", None)


def on_sums(mechanism, law):
    return learners.ftrl(4, domains.simplex(3), epsilon=2.0, mechanism=mechanism, noise=law)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [mechanisms.tree, mechanisms.hybrid, mechanisms.per_item])
def test_replays_of_prefix_sums_spend_what_is_declared(found, mechanism):
    """And twice as much at half the scale."""
    learner = on_sums(mechanism, found[1])
    assert learner.privacy.sums.noise == "secant" and float(learner.privacy.epsilon) == 2.0
    pairs = audit.pairs_for(learner, 4, jr.key(0))
    spent = audit.verdict(learner, pairs, jr.key(1), paths=1).spent.max()
    assert spent == pytest.approx(2.0, rel=1e-4)
    halved = audit.mutants(learner, pairs.losses[0])["noise halved"]
    assert audit.verdict(halved, pairs, jr.key(1), paths=1).status == 1


@pytest.mark.slow
def test_a_learner_of_batches_plays_calibrates_and_is_tabulated(found):
    factory, _ = found
    learner = factory(64, 2, epsilon=1.0)
    assert (learner.privacy.epsilon, learner.privacy.released) == (1.0, "actions 1..T")
    made = Study(
        {"mine": factory}, {"coins": environments.bernoulli([0.1, 0.9])},
        {"horizon": 64, "arms": 2, "epsilon": [1.0, 10.0]}, trials=4,
    )  # fmt: skip
    table = made.run(progress=False).dpjax.table()
    assert table["privacy_epsilon"].tolist() == [1.0, 10.0] and np.isfinite(table["mean"]).all()


def test_the_name_of_a_law_of_dpjax_is_refused(found):
    other = dataclasses.replace(found[1], name="laplace")
    with pytest.raises(ValueError, match=r"^noise: laplace is a law of dpjax; give yours another"):
        on_sums(mechanisms.tree, other)
    with pytest.raises(ValueError, match=r"^noise must be one of laplace, .*; got 'secants'$"):
        on_sums(mechanisms.tree, "secants")
