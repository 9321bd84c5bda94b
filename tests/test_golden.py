"""Golden trajectories: a learner's play under a fixed key does not change unnoticed."""

import json

import numpy as np
import pytest
from jax import random as jr

from dpjax import learners, simulate
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


def test_recording_leaves_the_game_as_it_is():
    """The recorded game is simulate's, and its arms and losses give the regret."""
    environment, game = (
        make.natures("exp3")["switching_cost"],
        make.trajectories("exp3")["switching_cost"],
    )
    result = simulate(make.build("exp3"), environment, jr.key(make.SEED), checkpoints=1)
    # Two programs, which may round differently.
    assert game["regret"] == pytest.approx(float(result.regret[-1]), abs=1e-5)
    assert len(game["arms"]) == len(game["losses"]) == make.HORIZON
    assert set(game["arms"]) == set(range(make.ARMS))
    # This adversary charges 1 for each switch and less for staying.
    switches = np.diff(game["arms"]) != 0
    np.testing.assert_array_equal(np.array(game["losses"][1:]) == 1.0, switches)
