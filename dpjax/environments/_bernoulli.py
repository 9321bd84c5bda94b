"""Stochastic environments: independent Bernoulli losses."""

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Environment, Numbers, Outcome, _check
from dpjax.environments.arms import (
    Accounting,
    BernoulliLosses,
    as_means,
    best_fixed_arm,
    draw_losses,
    independent,
)
from dpjax.maths import exact_sums, laws


def bernoulli(means: Numbers, *, regret: Accounting = "realised") -> Environment:
    """I.i.d. losses, loss of arm i ~ Bernoulli(means[i]), arms independent of each other.

    Args:
      means: (K,) mean losses in [0, 1], K at least 2; may be traced.
      regret: "realised", against the best arm on the drawn losses, or "pseudo", the sum of the
        gaps means[a] - min(means) of the arms played.

    Returns:
      An Environment. With pseudo-regret it can also be played by batches.

    Reference: the stochastic adversary of Tossou & Dimitrakakis 2017 has mean losses
    (0.45, 0.5, ..., 0.5), as reconstructed.

    Examples:
      >>> environment = environments.bernoulli([0.25, 0.75], regret="pseudo")
      >>> key = jax.random.key(0)
      >>> state, outcome = environment.step(environment.init(key), key, 1)
      >>> float(outcome.tally)  # the gap of arm 1, whatever its loss was
      0.5
    """
    means = as_means(means)
    _check.one_of("realised", "pseudo", regret=regret)

    if regret == "realised":

        def step(state, key, arm):
            loss = draw_losses(key, means)
            return state, Outcome(loss, loss[arm] - loss)

        return Environment(lambda key: (), step, best_fixed_arm, Arms(means.shape[0]))

    def batch(state, key, arm, rounds, feedback):
        ones = laws.binomial(key, rounds, means[arm])
        zeros = rounds - ones

        def total(of_one, of_zero):
            return exact_sums.add(
                exact_sums.repeated(of_one, ones), exact_sums.repeated(of_zero, zeros)
            )

        # The feedback of a round has one of two values.
        seen = [feedback(jnp.full(means.shape, loss, jnp.float32), arm) for loss in (1.0, 0.0)]
        return state, jax.tree.map(total, *seen), means[arm] - jnp.min(means)

    return independent(means, lambda key: BernoulliLosses(key, means))._replace(batch=batch)
