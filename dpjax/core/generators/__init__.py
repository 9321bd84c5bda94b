"""Random number generators, one file for each. The key determines the generator.

``jax.random.key(0)`` uses threefry with JAX's default of 20 rounds.
``jax.random.key(0, impl=threefry13)`` uses 13 rounds, at two thirds of the cost. Salmon et al.
chose 20 to have a margin; 13 are the fewest that they found to pass the BigCrush battery of
TestU01. Words of ``threefry13``, in the order in which trajectories draw them, passed TestU01's
Crush battery (benchmarks/README.md).

A :class:`Generator` has a block function, and functions that make keys and numbers from the words
of a block. To add a generator, write a file here that calls ``base.defined``.
"""

from dpjax.core.generators.base import KNOWN, Generator, of
from dpjax.core.generators.threefry import threefry2x32, threefry13

# The dtypes of keys of the generators in this package.
OWN = frozenset(KNOWN)

__all__ = ["Generator", "of", "threefry2x32", "threefry13"]
