"""What learners over arms share: sums of each arm's losses, a report and a declaration."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax import _check
from dpjax.core import Array, Privacy
from dpjax.maths import exact_sums, laws
from dpjax.maths.exact_sums import ExactSum


class ArmSums(NamedTuple):
    """Pulls and sums of losses of each arm."""

    pulls: Array  # (K,) int32
    losses: ExactSum  # (K,)


class ClippedReport(NamedTuple):
    clipped: Array  # () int32, losses that were outside [0, 1] and were clipped


def no_losses(arms) -> ArmSums:
    """Before the first round."""
    return ArmSums(jnp.zeros(arms, jnp.int32), exact_sums.nothing((arms,)))


def record(sums, arm, loss) -> ArmSums:
    """One more loss in [0, 1] of an arm."""
    losses = exact_sums.add_at(sums.losses, arm, exact_sums.of(loss))
    return ArmSums(sums.pulls.at[arm].add(1), losses)


def losses_of(sums, arm) -> ExactSum:
    """The sum of the losses of one arm, ()."""
    return jax.tree.map(lambda leaf: leaf[arm], sums.losses)


def totals(sums):
    """Sums of the losses, (K,) float32."""
    return exact_sums.to_float(sums.losses)


def means(sums):
    """Mean losses, (K,) float32; 0 for an arm that was not pulled."""
    return totals(sums) / jnp.maximum(sums.pulls, 1).astype(jnp.float32)


def posterior_draws(key, losses, gains):
    """ln(theta / (1 - theta)) for theta ~ Beta(losses + 1, gains + 1), (K,).

    A Beta variable is a Gamma variable over the sum of two; one call for both is cheaper, and the
    logarithm keeps what lies close to 0 or 1 apart.
    """
    one, other = laws.log_gamma(key, jnp.stack([losses, gains]) + 1.0)
    return one - other


def check_arms(horizon, arms) -> tuple[int, int]:
    """Horizon and number of arms as Python integers."""
    return _check.size(1, horizon=horizon), _check.arms(arms)


def one_release(epsilon, accountant="parallel composition of Laplace mechanisms") -> Privacy:
    """The declaration where each loss is in exactly one release, which is epsilon-DP.

    Fix the releases so far: they decide which batch a round belongs to, in both worlds alike. A
    replaced loss then changes one released sum, by at most 1.
    """
    return Privacy(
        epsilon=epsilon,
        accountant=accountant,
    )
