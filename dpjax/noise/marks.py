"""Marks on noisy prefix sums, by which audits see them. A mark returns the release as it is."""

import jax


@jax.jit
def laplace_prefix(release, key, value, scale, sensitivity):
    """``release``, marked as a prefix sum with Laplace noise that includes ``value``.

    Args:
      release: noisy sum of all values so far.
      key: the key from which the noise was drawn.
      value: the latest value.
      scale: scale of each draw.
      sensitivity: largest L1 norm of a column of the encoder.
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for Gaussian noise and the largest L2 norm."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_laplace_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for discrete Laplace noise and values that are integers."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`gaussian_prefix`, for discrete Gaussian noise and values that are integers."""
    del key, value, scale, sensitivity
    return release


@jax.jit
def skellam_prefix(release, key, value, scale, nodes):
    """As :func:`gaussian_prefix`, for Skellam noise and values that are integers.

    ``nodes`` is the largest number of draws of the encoder that hide one value, each with weight 1.
    """
    del key, value, scale, nodes
    return release
