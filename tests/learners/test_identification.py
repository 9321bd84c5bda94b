"""Learners that stop: how often they err, when they stop, and that they stay stopped."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random as jr
from scipy import stats

from dpjax import environments, learners, simulate
from dpjax.analysis import bounds
from dpjax.core import Batch
from dpjax.learners.parts import identification, top_two
from dpjax.maths import transport
from tests.learners.batches import with_pulls  # noqa: F401
from tests.learners.identified import Case, played
from tests.play import play_table

EASY, CLOSE, SKEWED = (0.7, 0.5, 0.3), (0.6, 0.5, 0.4), (0.95, 0.8, 0.1)


def error(found, failure, trials):
    """Fails where the probability of a wrong arm exceeds ``failure`` for sure, or may do so."""
    wrong = int((found.stopped & (found.recommendation != 0)).sum())
    assert found.stopped.mean() > 0.999
    assert stats.binomtest(wrong, trials).proportion_ci(0.999, "exact").high <= failure
