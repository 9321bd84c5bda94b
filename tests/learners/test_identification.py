"""Learners that stop: error rates, stopping times, and that they stay stopped."""

import jax
import numpy as np
import pytest
from scipy import stats

from dpjax import bounds
from tests.learners.identified import Case, played

GAINS = (0.7, 0.5, 0.3)
# Cases whose noise matters little, somewhat, and most.
INSTANCES = [
    Case(GAINS, 0.1, 0.1), Case((0.6, 0.5, 0.4), 1.0, 0.1), Case((0.95, 0.8, 0.1), 0.01, 0.1)
]  # fmt: skip


# Errors ---------------------------------------------------------------------------------------


def check_errors(found, cases):
    """At most ``failure`` errors, by Clopper-Pearson at 0.999; nearly all trials stop."""
    assert found.stopped.mean() > 0.999
    wrong = (found.stopped & (found.recommendation != 0)).sum(axis=1)
    for count, case in zip(wrong.tolist(), cases, strict=True):
        interval = stats.binomtest(count, found.stopped.shape[1]).proportion_ci(0.998, "exact")
        assert interval.high <= case.failure


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("adap_tt", {}, 0.0), ("dp_tt", {}, 0.0), ("dp_tt", {"forget": False}, 0.3),
        ("adap_tt", {"forget": False, "ratio": 1.5}, 0.3), ("adap_tt", {"rule": "printed"}, 0.3),
        ("ctb_tt", {}, 0.3), ("ttucb", {}, 0.3), ("lucb", {}, 0.3), ("track_and_stop", {}, 0.3),
    ],
)  # fmt: skip
def test_errors_are_rarer_than_failure(name, options, least):
    cases = [case._replace(epsilon=max(case.epsilon, least)) for case in INSTANCES]
    check_errors(played(name, cases, 1000, **options), cases)


# Stopping times -------------------------------------------------------------------------------


def test_stopping_times_scale_with_epsilon():
    """As 1 / epsilon if the noise is large; if it is small, epsilon does not matter.

    Another program, in NumPy, has the means below, from 60 to 200 trials. Phases double, so an
    eighth of epsilon is three phases.
    """
    known = {0.001: None, 0.008: None, 0.01: (81493, 1510), 1.0: (2970, 81), np.inf: (2616, 73)}
    found = played("dp_tt", [Case(GAINS, epsilon, 0.01) for epsilon in known], 500)
    assert found.stopped.all()
    means = found.stopping_time.mean(axis=1)
    assert 7.5 < means[0] / means[1] < 8.5
    assert means[3] == pytest.approx(means[4], rel=0.15)
    for mean, other in zip(means, known.values(), strict=True):
        if other is not None:
            assert mean == pytest.approx(other[0], abs=4.0 * (1.2 * other[1]))


# The end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adap_tt", "ttucb"])
def test_the_horizon_changes_nothing_before_the_stop(name):
    """The rest of a stopped game is one batch of any length."""
    cases = [Case(GAINS, 1.0, 0.3)]
    short, long = (played(name, cases, 200, horizon=n) for n in (10**6, 10**8))
    assert short.stopped.all()
    jax.tree.map(np.testing.assert_array_equal, short, long)


# Sequential elimination and halving -----------------------------------------------------------


def test_sequential_halving_errs_no_more_than_its_bound():
    """It errs less with a larger privacy budget."""
    gains = (0.75, 0.625, 0.5, 0.375, 0.25, 0.25, 0.25, 0.25)
    epsilons = (0.01, 0.1, 1.0, np.inf)
    cases = [Case(gains, epsilon) for epsilon in epsilons]
    found = played("sequential_halving", cases, 2000, horizon=1000)
    assert found.stopped.all()
    wrong = (found.recommendation != 0).mean(axis=1)
    # Measured in NumPy by another program.
    np.testing.assert_allclose(wrong, [0.788, 0.27, 0.0035, 0.005], atol=0.045)
    for rate, epsilon in zip(wrong, epsilons, strict=True):
        bound = bounds.sequential_halving_error(1000, 1.0 - np.array(gains), epsilon)
        assert rate <= bound
    assert wrong[0] > wrong[1] > wrong[2]


@pytest.mark.parametrize(
    ("horizon", "stopped"), [(1, False), (4, False), (14, False), (15, True), (16, True)]
)
def test_sequential_halving_plays_what_it_can(horizon, stopped):
    """Seven arms and three stages of 7, 4 and 2 * 2 rounds; 15 rounds suffice."""
    means = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    found = played("sequential_halving", [Case(1.0 - np.array(means))], 200, horizon=horizon)
    assert (found.stopped == stopped).all()
    assert (found.stopping_time == min(horizon, 15)).all()
    if stopped:
        assert (found.recommendation == 0).all()
