"""Every bound at the edges of its domain: a number or inf, a limit, in order with others."""

import inspect
import warnings
from itertools import pairwise, product

import numpy as np
import pytest

from dpjax import bounds

INF = np.inf
EPSILONS = [1e-12, 1e-3, 1.0, 800.0, INF]
# Gaps of 0, 1, 1/2, a power of 2, slightly above 0 and slightly below 1.
MEANS = [
    [0.0, 1.0], [0.5, 0.5], [0.0, 0.0, 1.0], [0.5, 1.0], [0.25, 0.5, 0.5, 0.75], [0.0, 1e-9],
    [0.5, 0.5 + 1e-12], [0.5 - 2.0**-30, 0.5], [0.0, 1.0 - 2.0**-30],
]  # fmt: skip
UNEQUAL = [means for means in MEANS if sorted(means)[0] < sorted(means)[1]]
PROBABILITIES = [0.0, 0.25, 0.5, 1.0]
DOMAINS = ["simplex", "ball", "cube"]
# The values of each parameter, by name, except those of OTHERS. Parameters without values here
# keep their defaults.
AXES = {
    "horizon": [1, 2, 2**18, 2.0**31], "arms": [2, 3, 64], "dim": [1, 2, 5], "size": [1, 2, 5],
    "epsilon": EPSILONS, "delta": [1e-300, 0.5, 1 - 1e-9],
    "inverse_mu": [0.0, 1e-9, 1.0, 1e9, INF], "means": MEANS, "x": PROBABILITIES,
    "y": PROBABILITIES, "failure": [None, 1e-300, 0.999], "domain": DOMAINS,
    "model": ["central", "local"], "read": ["one", "all"], "ones": [1, 2], "rank": [1],
    "base": ["htinf", "exp2"], "compare": ["scores", "pairs"], "noise": [0.0, 1.0, INF],
    "gap": [None, 0.5, 1.0], "deviation": [0.0, 1.0],
    "smallest": [1e-6, 1.0], "largest": [1.0, 4.0], "tilt": [0.0, 1.0], "users": [1, 100],
    "tau": [1, 2, 7], "memory": [0], "rounds": [1, 2, 100], "rate": [1e-3, 0.1],
    "strength": [1e-3, 0.1], "batch": [1, 2, 7], "experts": [2, 2**20],
    "drift": [0.0, 1e-3],
    "restart": [0.1, 1.0], "mixing": [1e-3, 1.0], "rows": [2], "bound": [0.0, 0.5],
    "paths": [None, 2, 2.0**64],
}  # fmt: skip
STOPPING = {"means": UNEQUAL[::2], "epsilon": EPSILONS[::2], "failure": [1e-300, 1 / 3, 0.5]}
OTHERS = {
    "adap_ucb": {"exploration": [2.0, 3.0, 3.1]},
    "azize_basu_linear": {"epsilon": [0.0, *EPSILONS]},
    "before_bandits": {"arms": [None, 2]},
    "characteristic_time": {"means": UNEQUAL},
    "explore_then_commit_error": {"gap": [0.0, 1e-9, 0.5, 1.0], "rounds": [1, 1e9]},
    "glm_sgd": {"parameter_bound": [0.1, 5.0]},
    "glm_sgd_batched": {"batch": [None, 1, 7], "inverse_mu": [0.0, 1e-9, 1.0, 1e9]},
    "hedge": {"rate": [1e-9, 1.0, INF]},
    "probing_experts": {"restart": [2.0**-12, 0.1, 0.5]},
    "random_losses": {"domain": ["arms", *DOMAINS]},
    "scrible": {"noise": ["scalar", "vector"]},
    "semi_bandit_ftrl": {"dim": [2, 5]},
    "sequential_halving_error": {"means": UNEQUAL},
    "stopping_time_lower": STOPPING,
    "stopping_time_lower_local": STOPPING,
    "total_variation_time": {"means": UNEQUAL},
}
PARAMETERS = {name: inspect.signature(getattr(bounds, name)).parameters for name in bounds.__all__}
SETTINGS = {
    name: {key: known[key] for key in PARAMETERS[name] if key in known}
    for name in bounds.__all__
    for known in [AXES | OTHERS.get(name, {})]
}


def of(names):
    return pytest.mark.parametrize("name", [*names])


def value(name, **arguments):
    """A bound as an array; if it also returns proportions, only its time. Warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(bounds, name)(**arguments)
    return np.asarray(found[0] if isinstance(found, tuple) else found)


def settings(name, **fixed):
    axes = SETTINGS[name] | {key: [given] for key, given in fixed.items()}
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


def test_every_parameter_without_a_default_has_values():
    for name, parameters in PARAMETERS.items():
        needed = {key for key, each in parameters.items() if each.default is each.empty}
        assert needed <= set(SETTINGS[name]), name


@of(SETTINGS)
def test_no_bound_is_negative_or_not_a_number(name):
    for point in settings(name):
        found = value(name, **point)
        assert np.all(found >= 0.0), (point, found)


# Bounds that can fall by a further round: a restart is likelier, a batch longer, an error rarer.
FALLS = {
    "explore_then_commit", "ftpl_gram_perturbation", "ftrl_local_rate", "probing_experts",
    "projection_free",
    "sequential_halving_error", "shrinking_dartboard", "shrinking_dartboard_batched",
    "shrinking_dartboard_pure", "azize_basu_linear", "switching_cost_lower",
}  # fmt: skip
LONGER = [1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1023, 1024, 1025, 2.0**18, 2.0**31]


@of(name for name, axes in SETTINGS.items() if "horizon" in axes and name not in FALLS)
def test_a_longer_game_has_no_smaller_bound(name):
    points = [point for point in settings(name, horizon=0) if point.get("epsilon", 1.0) >= 1e-3]
    for point in points[:: max(len(points) // 12, 1)]:
        found = [np.sum(value(name, **point | {"horizon": horizon})) for horizon in LONGER]
        rises = [b >= a * (1 - 1e-9) for a, b in pairwise(found)]
        assert all(rises), (point, found)


@of(name for name, axes in SETTINGS.items() if "epsilon" in axes)
def test_infinite_epsilon_is_the_limit_of_large_ones(name):
    """For arms with distinct means; not for equal means, nor without a budget of switches."""
    if name in ("glm_sgd", "shrinking_dartboard_pure"):
        return  # See their docstrings: without privacy there is no coin, or no budget of switches.
    points = settings(name, epsilon=INF)
    if "horizon" in SETTINGS[name]:
        points = [point for point in points if point["horizon"] == 2**18]
    for point in points[:: max(len(points) // 12, 1)]:
        if point.get("y") in (0.0, 1.0):
            continue  # The divergence is proportional to epsilon there.
        near, limit = (value(name, **point | {"epsilon": epsilon}) for epsilon in (1e100, INF))
        np.testing.assert_allclose(near, limit, rtol=1e-2, atol=1e-9, err_msg=str(point))


@of(name for name, axes in SETTINGS.items() if "means" in axes)
def test_a_gap_of_1_and_one_of_a_half_are_limits(name):
    """From below at 1, from above at 1/2, since an arm with gap 2^-e needs e epochs."""
    for near, edge in (
        ([1e-12, 1.0 - 1e-12, 1.0 - 1e-12], [1e-12, 1.0, 1.0]),
        ([0.25, 0.75 + 1e-12], [0.25, 0.75]),
    ):
        points = settings(name, means=edge)
        points = [point for point in points if point.get("horizon", 2**18) == 2**18]
        for point in points[:: max(len(points) // 8, 1)]:
            found = value(name, **point), value(name, **point | {"means": near})
            np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-6, err_msg=str(point))


def test_a_gap_of_1_costs_an_epoch():
    """Every arm plays in the first epoch. The bound was once 1 where 6126 was lost."""
    found = bounds.successive_elimination(2**18, [0.0, 1.0, 1.0, 1.0], 1.0)
    assert found > 6126.0
    almost = bounds.successive_elimination(2**18, [0.0, 0.999, 0.999, 0.999], 1.0)
    assert found == pytest.approx(almost / 0.999, rel=1e-3)


def test_a_divergence_of_close_laws_is_that_of_their_variance():
    """(x - y)^2 / (2 y (1 - y)). As two logarithms it would lose all digits at gaps below 1e-8."""
    for gap in (1e-3, 1e-6, 1e-9, 1e-12, 1e-15):
        for y in (0.01, 0.5, 0.9):
            x = y + gap
            if x - y == 0.0:
                continue
            exact = (x - y) ** 2 / (2 * y * (1 - y))
            assert float(bounds.kl(x, y)) == pytest.approx(exact, rel=2 * gap / min(y, 1 - y))
            small = 1e-3 * (x - y)
            assert float(bounds.d_epsilon_divergence(x, y, small)) == pytest.approx(
                small * (x - y), rel=1e-2
            )


def test_an_array_of_settings_is_as_one_at_a_time():
    """Also for bounds that add over gaps, epochs or batches."""
    horizons, epsilons = np.array([[2.0], [1000.0], [2.0**18]]), np.array([0.1, 1.0, INF])
    for name, axes in SETTINGS.items():
        if {"horizon", "epsilon"} <= set(axes):
            point = settings(name, horizon=0, epsilon=0)[-1]
            found = value(name, **point | {"horizon": horizons, "epsilon": epsilons})
            for i, j in product(range(3), range(3)):
                one = value(name, **point | {"horizon": horizons[i, 0], "epsilon": epsilons[j]})
                np.testing.assert_allclose(found[i, j], one, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("arms", [2, 5, 1000])
def test_lower_bounds_of_all_instances_are_below_upper_bounds_and_the_horizon(arms):
    """The switching bound was infinite at T = 1, the private one above T at small epsilon."""
    for horizon, epsilon in product([1, 2, 3, 10, 100, 10**4, 2.0**31], EPSILONS):
        lower = value("azize_basu_minimax", horizon=horizon, arms=arms, epsilon=epsilon)
        uppers = [horizon] + [
            value(name, horizon=horizon, arms=arms, epsilon=epsilon)
            for name in ("dp_exp3_lap", "exp2")
        ]
        assert lower <= min(uppers)
        for name in ("exp3", "tsallis_inf"):
            plain = value("azize_basu_minimax", horizon=horizon, arms=arms, epsilon=INF)
            assert plain <= value(name, horizon=horizon, arms=arms)
        lower = value("switching_cost_lower", horizon=horizon, arms=arms)
        assert lower <= horizon
        for tau in (2, 10, 100):
            assert lower <= value("exp3_minibatch", horizon=horizon, arms=arms, tau=tau, memory=1)


@pytest.mark.slow
@pytest.mark.parametrize("means", UNEQUAL[:5])
def test_lower_bounds_of_an_instance_are_below_upper_bounds(means):
    """These bounds are asymptotic, so the horizon is long."""
    for epsilon in (0.1, 1.0, INF):
        point = {"horizon": 2.0**31, "means": means}
        lowers = [value("lai_robbins", **point), value("d_epsilon", **point, epsilon=epsilon)]
        uppers = [
            value(name, **point, epsilon=epsilon)
            for name in ("successive_elimination", "adap_ucb", "lazy_ucb")
        ]
        if max(np.diff(sorted(means))) > 1e-6:  # Otherwise 2^31 rounds are too few.
            assert max(lowers) <= min(uppers)
        time = {"means": means, "epsilon": epsilon, "failure": 0.05}
        local = value("stopping_time_lower_local", **time)
        assert value("stopping_time_lower", **time) <= local * (1 + 1e-5)
