"""What studies play in these tests runs for less time than it compiles."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Without most optimizations of the compiler."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
