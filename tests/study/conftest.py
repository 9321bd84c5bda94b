"""Games in these tests take longer to compile than to run."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Switches off most compiler optimizations."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
