"""A user's own losses, played row by row."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from dpjax.core import Arms, Environment, Numbers, Outcome, PyTree, _arrays
from dpjax.environments.arms import best_fixed_arm


def table(losses: Numbers) -> Environment:
    """A user's own losses, one row for each round, without randomness.

    Args:
      losses: (T, K) losses in [0, 1] with K at least 2.

    Returns:
      An Environment of T rounds; regret is against the best column in hindsight.

    Raises:
      ValueError: the shape is not (T, K), or an entry is missing, no number or out of range; the
        message names row and column, counted from 1.

    Examples:
      >>> environment = environments.table([[0.5, 0.25], [1.0, 0.0]])
      >>> environment.horizon, environment.action_set
      (2, Arms(count=2))
      >>> environments.table([[0.5, 1.5]])
      Traceback (most recent call last):
          ...
      ValueError: losses: row 1, column 2 is 1.5; losses must lie in [0, 1]
    """
    losses = jnp.asarray(check_losses(losses), jnp.float32)

    def init(key):
        return jnp.zeros((), jnp.int32)

    def step(t, key, arm):
        loss = losses[t]
        return t + 1, Outcome(loss, loss[arm] - loss)

    return Environment(init, step, best_fixed_arm, Arms(losses.shape[1]), len(losses))


def check_losses(
    losses: PyTree,
    where: str = "losses",
    rows: Sequence | None = None,
    arms: Sequence | None = None,
):
    """Check that a loss table is (T, K) numbers in [0, 1]; an error names the first bad entry.

    Args:
      losses: the table. A traced one cannot be checked and is returned unchanged.
      where: the name of the table in the message, such as its file.
      rows: the numbers of its rows in that file, by default 1, 2, ...
      arms: the names of its columns.

    Returns:
      The table in float64.
    """
    if isinstance(losses, jax.core.Tracer):
        return losses
    array = _arrays.real(where, losses, 0.0, 1.0, what="losses", rows=rows, columns=arms)
    check_shape(array.shape, where)
    return array


def check_shape(shape, where) -> None:
    """Refuse a shape other than (T, K) with at least one row and two arms."""
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"{where}: must have shape (T, K), got {str(shape)[:80]}")
    if shape[0] == 0:
        raise ValueError(f"{where}: has no rows")
    if shape[1] < 2:
        raise ValueError(f"{where}: has {shape[1]} arm; at least 2 are needed")
