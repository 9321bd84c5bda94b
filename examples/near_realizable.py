"""Regret of sparse vector experts and others by the loss of the best expert (0: realizable)."""

import jax.numpy as jnp
import numpy as np

from dpjax import Study, environments, learners


def dying(horizon, arms, best):
    """At first all arms have mean loss ``best``. One by one, all but arm 0 change to mean 1/2."""
    alive = np.arange(arms)[::-1] > np.arange(arms)[:, None] - 1
    means = jnp.where(alive, best, jnp.float32(0.5))
    ends = np.linspace(0, horizon // 2, arms + 1).astype(int)[1:]
    ends[-1] = horizon
    return environments.piecewise(means, ends)


def lower(horizon, arms, *, epsilon):
    """Sparse vector experts with a lower threshold and fewer draws than the regret bound needs."""
    return learners.sparse_vector_experts(
        horizon, arms, epsilon=epsilon, threshold=20 / epsilon, draws=20
    )


def batched(horizon, arms, *, epsilon):
    return learners.shrinking_dartboard(horizon, arms, epsilon=epsilon, batch=None)


LEARNERS = {"sparse vector": learners.sparse_vector_experts, "lower": lower,
            "hedge": learners.hedge, "dartboard": batched,
            "limited updates": learners.limited_updates}  # fmt: skip


def main(horizon=2**14, trials=50, best=(0.0, 0.003, 0.01, 0.03, 0.1, 0.2), epsilons=(0.3, 1, 3)):
    study = Study(LEARNERS, {"dying": dying},
                  {"best": list(best), "epsilon": list(epsilons), "horizon": horizon, "arms": 20},
                  trials=trials, checkpoints=1)  # fmt: skip
    data = study.run()
    table = data.dpjax.mean()
    print(table["mean"].to_series().unstack("best").round().to_string())
    error = (table["high"] - table["low"]) / 3.92
    print(error.to_series().unstack("best").round().to_string())
    return data.dpjax.figure("best", color="learner", panel="epsilon"), table["mean"]


if __name__ == "__main__":
    main()[0].savefig("near_realizable.pdf")
