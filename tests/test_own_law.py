"""A noise distribution from a user's file plays, calibrates, is audited and tabulated."""

import dataclasses

import numpy as np
import pytest
from jax import random as jr

from dpjax import Study, audit, domains, environments, learners, mechanisms, noise
from dpjax.cli.learner_files import find_factory
from tests import ROOT
from tests.test_docs import programs

(PROGRAM,) = programs(ROOT / "docs" / "adding" / "law.md")
FACTORY = """
from dpjax import learners

def mine(horizon, arms, *, epsilon):
    return learners.successive_elimination(horizon, arms, epsilon=epsilon, noise=logistic)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(a factory, its law), from the file on the page under another name."""
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text(PROGRAM.replace('"logistic"', '"own"') + FACTORY)
    _, factory = find_factory(f"{path}:mine")
    yield factory, factory.__globals__["logistic"]
    noise.LAWS.pop("own", None)


def on_sums(mechanism, law):
    return learners.ftrl(4, domains.simplex(3), epsilon=2.0, mechanism=mechanism, noise=law)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [mechanisms.tree, mechanisms.hybrid, mechanisms.per_item])
def test_replays_of_prefix_sums_spend_what_is_declared(found, mechanism):
    """And twice as much at half the scale."""
    learner = on_sums(mechanism, found[1])
    assert learner.privacy.sums.noise == "own" and float(learner.privacy.epsilon) == 2.0
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
    with pytest.raises(ValueError, match=r"^noise must be one of laplace, .*; got 'owns'$"):
        on_sums(mechanisms.tree, "owns")
