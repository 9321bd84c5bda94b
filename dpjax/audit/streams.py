"""The extra privacy loss of a replay if several values of one stream of prefix sums change."""

import jax.numpy as jnp

from dpjax.core import Mechanism, _check
from dpjax.noise import LAWS


def shared(prefixes):
    """The privacy loss to add to the sums of (rho, gaussian, pure), (rounds, n, 3), for one stream.

    The norms of the changes are added. So rho follows from the square of their sum, and pure from
    the sum.
    """
    prefixes = prefixes.at[..., 2].set(0.0)
    square_of_sum = jnp.square(jnp.sum(jnp.sqrt(prefixes), axis=0))
    # If only one round changed, nothing is missing except rounding. An infinite rho is complete.
    several = (jnp.sum(prefixes > 0.0, axis=0) > 1) & jnp.isfinite(square_of_sum)
    return jnp.sum(jnp.where(several, square_of_sum - jnp.sum(prefixes, axis=0), 0.0), axis=0)


def encoded(prefixes, shifts, mechanism: Mechanism):
    """As :func:`shared`, but exact, from the changes of all values and the mechanism's matrix C."""
    _check.built(Mechanism, "mechanisms.tree(horizon)", mechanism=mechanism)
    _, encoder = mechanism.matrices()
    if len(shifts) != 1 or len(shifts[0]) != encoder.shape[1]:
        raise ValueError(
            "mechanism must be that of the learner's single stream of prefix sums, one value a "
            f"round: {len(shifts)} streams were seen, and its matrix is for "
            f"{encoder.shape[1]} values"
        )
    moved = jnp.asarray(encoder, jnp.float32) @ shifts[0]
    # If no noise hides a change, the product is infinite or NaN.
    size = jnp.where(jnp.isnan(moved), jnp.inf, jnp.abs(moved))
    counted = jnp.sum(prefixes, axis=(0, 1))
    rho, pure = 0.5 * jnp.sum(jnp.square(size)), jnp.sum(size)
    if LAWS[mechanism.noise].norm == 1:
        # Each release is bounded by its largest column. Pure privacy also implies a rho.
        rho = 0.5 * jnp.square(pure)
    exact = jnp.stack([rho, jnp.where(counted[1] > 0.0, rho, 0.0), pure])
    exact = jnp.where(counted > 0.0, exact, 0.0)
    return jnp.where(jnp.isfinite(counted), exact - counted, 0.0)
