"""Generators of random numbers, a file for each. The key decides which one is used.

``jax.random.key(0)`` has threefry with the 20 rounds of JAX's default, and
``jax.random.key(0, impl=threefry13)`` has 13, at two thirds of the cost. Salmon et al. chose 20 to
have a margin; 13 are the fewest that they found to pass the BigCrush battery of TestU01. Words that
were drawn in the order in which trajectories draw them passed its Crush battery
(benchmarks/README.md).

A generator is a :class:`Generator`: a block function, and how keys and numbers are read off its
words. The engine asks it. So a further one is a file here that calls ``base.defined``.
"""

from dpjax.core.generators.base import Generator, is_of_the_key_alone, of
from dpjax.core.generators.threefry import threefry2x32, threefry13

__all__ = ["Generator", "is_of_the_key_alone", "of", "threefry2x32", "threefry13"]
