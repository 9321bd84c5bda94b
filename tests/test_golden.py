"""Golden trajectories: a learner's play under a fixed key does not change unnoticed.

Neither does rounding change it.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr

from dpjax import learners, simulate
from dpjax.maths import laws
from tests.golden import make


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("name", learners.__all__)
def test_trajectory_is_the_golden_one(name):
    """Arms and counts exactly; points, losses and regret to 1e-5, in each environment."""
    path = make.path(name)
    if not path.exists():
        pytest.fail(
            f"{name} has no golden trajectory: make it with `python -m tests.golden.make {name}`, "
            f"look at it, and commit {path.name}"
        )
    golden, played = json.loads(path.read_text()), make.trajectories(name)
    assert played.keys() == golden.keys()
    for nature, game in played.items():
        expected = golden[nature]
        # Rounding on another platform changes an arm only if a uniform number is within some 1e-7
        # of a cumulative probability; the closest was 2.5e-4 when these files were made.
        if "arms" in expected:
            np.testing.assert_array_equal(game["arms"], expected["arms"], err_msg=nature)
        else:
            np.testing.assert_allclose(game["points"], expected["points"], rtol=0, atol=1e-5)
        # Sums of 64 float32 numbers of at most 1: a few 1e-6.
        np.testing.assert_allclose(game["losses"], expected["losses"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(game["regret"], expected["regret"], rtol=1e-5, atol=1e-5)
        assert game["report"].keys() == expected["report"].keys()
        for leaf, value in game["report"].items():
            tolerance = 0.0 if isinstance(value, int) else 1e-5
            assert value == pytest.approx(expected["report"][leaf], rel=tolerance, abs=tolerance)


def test_every_golden_file_is_of_a_learner():
    """No file of a renamed learner remains."""
    assert {path.stem for path in make.FOLDER.glob("*.json")} <= set(learners.__all__)


@pytest.mark.parametrize("name", ["exp3", "adap_ucb"])
def test_a_trajectory_is_the_game_that_simulate_plays(name):
    """The recorded arms, losses and states give its regret and its report."""
    environment = make.natures(name)["switching_cost"]
    game = make.trajectories(name)["switching_cost"]
    result = simulate(make.build(name), environment, jr.key(make.SEED), checkpoints=1)
    # Two programs, which may round differently.
    assert game["regret"] == pytest.approx(float(result.regret[-1]), abs=1e-5)
    np.testing.assert_allclose([*game["report"].values()], jax.tree.leaves(result.report))
    assert len(game["arms"]) == len(game["losses"]) == make.HORIZON
    assert set(game["arms"]) == set(range(make.ARMS))
    # This adversary charges 1 for each switch and less for staying.
    switches = np.diff(game["arms"]) != 0
    np.testing.assert_array_equal(np.array(game["losses"][1:]) == 1.0, switches)


# Ties: rounding does not choose among values that are equal as real numbers ------------------

ULP = 2.0**-23
UP_AND_DOWN = np.float32([1.0 - ULP, 1.0, 1.0 + ULP])


@pytest.mark.parametrize(
    ("values", "tied"),
    [
        ([0.3, 0.3, 0.5], [0, 1]),
        ([-0.7, 0.2, -0.7], [0, 2]),
        ([1e6, 1e6, 1e6], [0, 1, 2]),
        ([-np.inf, 0.3, -np.inf], [0, 2]),
        ([np.inf, 0.3, 0.3], [1, 2]),
        ([np.inf, np.inf, np.inf], [0, 1, 2]),
        ([0.0, 2e-6, 1.0], [0]),
    ],
)
def test_values_tie_up_to_rounding(values, tied):
    """Each tied index is drawn equally often; factors 1 - ulp, 1 and 1 + ulp change no draw."""
    keys = jr.split(jr.key(0), 300)
    draw = jax.vmap(laws.smallest, (0, None))
    exact = draw(keys, jnp.float32(values))
    rounded = draw(keys, jnp.float32(values) * UP_AND_DOWN)
    np.testing.assert_array_equal(exact, rounded)
    counts = np.bincount(exact, minlength=3)
    assert set(np.flatnonzero(counts)) == set(tied)
    assert counts[tied].min() > 0.7 * 300 / len(tied)


def test_integers_tie_only_if_they_are_equal():
    keys = jr.split(jr.key(0), 100)
    values = jnp.int32([2**30 + 1, 2**30, 2**30 + 1])
    assert (jax.vmap(lambda key: laws.smallest(key, values))(keys) == 1).all()


@pytest.mark.parametrize("dim", [3, 12, 200])
def test_arms_of_equal_length_tie_before_the_first_loss(dim):
    """All confidence bounds are equal, so the first of 50 random unit vectors is played."""
    policies = [
        learners.linucb(100, dim, epsilon=1.0, delta=1e-6).init,
        learners.adac_oful(100, dim, rho=0.5).init,
        learners.federated_linucb(100, dim, silos=2, epsilon=1.0, delta=1e-6).init,
    ]
    features = np.random.default_rng(0).normal(size=(8, 50, dim))
    units = jnp.float32(features / np.linalg.norm(features, axis=2, keepdims=True))
    for init in policies[: 3 if dim < 100 else 1]:
        _, policy = jax.jit(init)(jr.key(0))
        np.testing.assert_array_equal(jax.vmap(policy)(units), 0)
        # Shorter vectors have smaller widths, so a difference beyond rounding still decides.
        np.testing.assert_array_equal(jax.vmap(policy)(units.at[:, 0].multiply(0.9999)), 1)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize(
    "name", ["adac_oful", "federated_linucb", "linucb", "track_and_stop", "ttucb", "ucb1"]
)
def test_rounding_of_scores_leaves_the_game_as_it_is(name, monkeypatch):
    """The golden arms are played although scores are multiplied by 1 - ulp, 1 or 1 + ulp."""
    ties = laws.ties

    def of_rounded(values, size):
        return ties(values * jnp.resize(UP_AND_DOWN, values.shape), size)

    monkeypatch.setattr(laws, "ties", of_rounded)
    golden = json.loads(make.path(name).read_text())
    for nature, game in make.trajectories(name).items():
        assert game["arms"] == golden[nature]["arms"], nature
