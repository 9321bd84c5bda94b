"""Means of an arm's losses, replaced after twice as many new losses."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from dpjax.core import Array
from dpjax.learners.parts.arm_sums import ArmSums, losses_of, no_losses, record
from dpjax.maths import exact_sums


class DoublingMeans(NamedTuple):
    """Each arm's mean, and the losses observed since it was replaced."""

    samples: Array  # (K,) int32, losses in each arm's mean
    means: Array  # (K,) float32
    buffer: ArmSums  # losses observed since


def no_means(arms: int) -> DoublingMeans:
    """The means before the first round."""
    buffer = no_losses(arms)
    return DoublingMeans(buffer.pulls, jnp.zeros(arms, jnp.float32), buffer)


def renewed(old: DoublingMeans, arm: Array, loss: Array, release: Callable = lambda total: total):
    """(the means after one more loss of an arm, (K,) bool: whether its mean was replaced).

    A mean of n losses is replaced when the buffer has max(2 n, 1) losses. ``release`` is applied to
    the buffer's sum in every round, and used only if the buffer is full.
    """
    buffer = record(old.buffer, arm, loss)
    size = jnp.maximum(2 * old.samples[arm], 1)
    full = (jnp.arange(len(old.samples)) == arm) & (buffer.pulls[arm] == size)
    mean = exact_sums.mean(release(losses_of(buffer, arm)), size)
    samples, means = jnp.where(full, size, old.samples), jnp.where(full, mean, old.means)
    buffer = jax.tree.map(lambda leaf: jnp.where(full, 0, leaf), buffer)
    return DoublingMeans(samples, means, buffer), full
