"""The deterministic adversary, a fixed sequence of losses."""

import jax.numpy as jnp

from dpjax.core import Arms, Environment, Outcome, _check
from dpjax.environments.arms import best_fixed_arm


def deterministic(arms: int = 4) -> Environment:
    """A fixed sequence that lures a learner away from the best arm.

    Arm 1 has gain 0.38 in each round t. Arm 2, the best with mean 1/2, has gain 1 if t is even and
    0 otherwise. Arm 3 has gain 1 if t is a multiple of 3 and 0 otherwise. The others have gain 0.
    (The number 0.38 is missing from the text and is reconstructed.)

    Args:
      arms: K, at least 3.

    Returns:
      An Environment; regret is against the best arm on the rounds so far.

    Reference: Tossou & Dimitrakakis, "Achieving privacy in the adversarial multi-armed bandit",
    2017, deterministic adversary.

    Examples:
      >>> environment = environments.deterministic(3)
      >>> state = environment.init(None)
      >>> for _ in range(3):
      ...     state, outcome = environment.step(state, None, 0)
      ...     print(outcome.loss)
      [0.62 1.   1.  ]
      [0.62 0.   1.  ]
      [0.62 1.   0.  ]
    """
    arms = _check.arms(arms, 3)

    def step(t, key, arm):
        third = jnp.where(t % 3 == 0, 0.0, 1.0)
        first_three = jnp.stack([jnp.float32(0.62), jnp.where(t % 2 == 0, 0.0, 1.0), third])
        loss = jnp.concatenate([first_three, jnp.ones(arms - 3, jnp.float32)])
        return t + 1, Outcome(loss, loss[arm] - loss)

    return Environment(lambda key: jnp.ones((), jnp.int32), step, best_fixed_arm, Arms(arms))
