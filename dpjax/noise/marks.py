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

    Examples:
      >>> args = 7.5, jax.random.key(0), 1.0, 2.0, 1
      >>> float(noise.laplace_prefix(*args))  # the release as it is
      7.5
      >>> jax.make_jaxpr(noise.laplace_prefix)(*args).eqns[0].params["name"]
      'laplace_prefix'
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for Gaussian noise and the largest L2 norm.

    Examples:
      >>> args = 7.5, jax.random.key(0), 1.0, 2.0, 1
      >>> float(noise.gaussian_prefix(*args))  # the release as it is
      7.5
      >>> jax.make_jaxpr(noise.gaussian_prefix)(*args).eqns[0].params["name"]
      'gaussian_prefix'
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_laplace_prefix(release, key, value, scale, sensitivity):
    """As :func:`laplace_prefix`, for discrete Laplace noise and values that are integers.

    Examples:
      >>> args = 7.5, jax.random.key(0), 1.0, 2.0, 1
      >>> float(noise.discrete_laplace_prefix(*args))  # the release as it is
      7.5
      >>> jax.make_jaxpr(noise.discrete_laplace_prefix)(*args).eqns[0].params["name"]
      'discrete_laplace_prefix'
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def discrete_gaussian_prefix(release, key, value, scale, sensitivity):
    """As :func:`gaussian_prefix`, for discrete Gaussian noise and values that are integers.

    Examples:
      >>> args = 7.5, jax.random.key(0), 1.0, 2.0, 1
      >>> float(noise.discrete_gaussian_prefix(*args))  # the release as it is
      7.5
      >>> jax.make_jaxpr(noise.discrete_gaussian_prefix)(*args).eqns[0].params["name"]
      'discrete_gaussian_prefix'
    """
    del key, value, scale, sensitivity
    return release


@jax.jit
def skellam_prefix(release, key, value, scale, nodes):
    """As :func:`gaussian_prefix`, for Skellam noise and values that are integers.

    ``nodes`` is the largest number of draws of the encoder that hide one value, each with weight 1.

    Examples:
      >>> args = 7.5, jax.random.key(0), 1.0, 2.0, 1
      >>> float(noise.skellam_prefix(*args))  # the release as it is
      7.5
      >>> jax.make_jaxpr(noise.skellam_prefix)(*args).eqns[0].params["name"]
      'skellam_prefix'
    """
    del key, value, scale, nodes
    return release
