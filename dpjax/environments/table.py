"""A user's own losses, replayed row by row."""

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Arms, Environment, Outcome
from dpjax.environments.arms import best_fixed_arm


def table(losses) -> Environment:
    """A user's own losses, one row a round; no randomness.

    Args:
      losses: (T, K) losses in [0, 1] with K at least 2.

    Returns:
      An Environment of T rounds; regret is against the best column in hindsight.

    Raises:
      ValueError: the shape is not (T, K), or an entry is missing, infinite or out of range; the
        message names row and column, counted from 1.
    """
    check_losses(losses)
    losses = jnp.asarray(losses, jnp.float32)

    def step(t, key, arm):
        del key
        loss = losses[t]
        return t + 1, Outcome(loss, loss[arm] - loss)

    return Environment(
        init=lambda key: jnp.zeros((), jnp.int32),
        step=step,
        regret=best_fixed_arm,
        action_set=Arms(losses.shape[1]),
        horizon=losses.shape[0],
    )


def check_losses(losses, where="losses", rows=None, arms=None) -> None:
    """Refuses a loss table that is not (T, K) numbers in [0, 1], naming the first bad entry.

    ``rows`` are the numbers that its rows have in the file ``where``, by default 1, 2, ...;
    ``arms`` the names of its columns.
    """
    if isinstance(losses, jax.core.Tracer):
        return
    try:
        array = np.asarray(losses, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: must be a table of numbers") from None
    if array.ndim != 2:
        raise ValueError(f"{where}: must have shape (T, K), got {array.shape}")
    if array.shape[0] == 0:
        raise ValueError(f"{where}: has no rows")
    if array.shape[1] < 2:
        raise ValueError(f"{where}: has {array.shape[1]} arm; at least 2 are needed")
    bad = np.argwhere(~((array >= 0.0) & (array <= 1.0)))
    if len(bad):
        row, column = bad[0]
        value = array[row, column]
        what = "is missing (not a number)" if np.isnan(value) else f"is {value:g}"
        name = f" ({arms[column]})" if arms else ""
        raise ValueError(
            f"{where}: row {rows[row] if rows else row + 1}, column {column + 1}{name} {what}; "
            "losses must lie in [0, 1]"
        )
