"""A study for ``dpjax run examples/study.py``: regret at three privacy levels."""

import numpy as np

from dpjax import Study, environments, learners

study = Study(
    learners={"EXP3": learners.exp3, "DP-EXP3-Lap": learners.dp_exp3_lap},
    environments={
        "stochastic": environments.bernoulli([0.45, 0.5, 0.5, 0.5]),
        "switching cost": environments.switching_cost,
    },
    grid={"epsilon": [0.1, 1.0, np.inf], "horizon": 1024, "arms": 4},
    trials=50,
)
