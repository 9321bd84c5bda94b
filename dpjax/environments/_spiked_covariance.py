"""Online PCA: directions drawn from a covariance with a few heavy directions."""

import jax.numpy as jnp

from dpjax.core import Environment, Number, Outcome, _check
from dpjax.domains import fantope
from dpjax.domains._vectors import unit_vector
from dpjax.environments._linear_losses import LinearTally, against_best_point
from dpjax.feedback import mean_value
from dpjax.maths import laws


def spiked_covariance(size: int, rank: int = 1, *, signal: Number = 1.0) -> Environment:
    """Online PCA: losses -<X, v_t v_t'> with larger variance of v_t on the first k axes.

    v_t is the unit vector along a normal draw with variance 1 + ``signal`` on the first k axes and
    1 on the others. Axes are as good as other heavy directions, because the points and Gaussian
    noise are rotation invariant.

    Args:
      size: n, at least 2.
      rank: k, from 1 to n - 1: the number of heavy directions, and the rank of the projections.
      signal: at least 0; with 0 all directions have the same variance.

    Returns:
      An Environment whose actions are points (n^2,) of :func:`dpjax.domains.fantope`. Regret is
      against the best projection on k directions, from the eigenvalues of the sum of all v_t v_t'.

    Raises:
      ValueError, TypeError: bad arguments, by name.

    Reference: Johnstone 2001, "On the distribution of the largest eigenvalue in principal
    components analysis"; Dwork, Talwar, Thakurta & Zhang 2014, "Analyze Gauss", for the game.

    Examples:
      >>> environment = environments.spiked_covariance(4, rank=2)
      >>> print(environment.action_set.centre.reshape(4, 4)[0])  # of the matrices of trace 2
      [0.5 0.  0.  0. ]
    """
    domain = fantope(size, rank)
    _check.non_negative(signal=signal)
    heavy = jnp.where(jnp.arange(size) < rank, jnp.sqrt(1.0 + jnp.float32(signal)), 1.0)

    def step(state, key, action):
        v = unit_vector(heavy * laws.normal(key, (size,)))
        loss = -(v[:, None] * v[None]).reshape(size * size)
        return state, Outcome(loss, LinearTally(mean_value(loss, action), loss))

    return Environment(lambda key: (), step, against_best_point(domain), domain)
