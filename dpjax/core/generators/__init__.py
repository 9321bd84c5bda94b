"""Random number generators, one file for each. The key determines the generator.

``jax.random.key(0)`` uses threefry with JAX's default of 20 rounds.
``jax.random.key(0, impl=threefry13)`` uses 13 rounds, at two thirds of the cost. Salmon et al.
chose 20 to have a margin; 13 are the fewest that they found to pass the BigCrush battery of
TestU01. Words drawn in the order of trajectories passed its Crush battery (benchmarks/README.md).

A :class:`Generator` has a block function, and says how keys and numbers are made from its words. To
add a generator, write a file here that calls ``base.defined``.
"""

from dpjax.core.generators.base import Generator, is_of_the_key_alone, of
from dpjax.core.generators.threefry import threefry2x32, threefry13

__all__ = ["Generator", "is_of_the_key_alone", "of", "threefry2x32", "threefry13"]
