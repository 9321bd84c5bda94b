"""Every bound at the edges of its domain: a number or inf, a limit, in order with others."""

import warnings
from itertools import pairwise, product

import jax
import numpy as np
import pytest
from jax import random as jr

from dpjax import bounds, environments, learners
from dpjax.study.simulate import simulate_batches

INF = np.inf
HORIZONS, ARMS, DIMS = [1, 2, 2**18, 2.0**31], [2, 3, 64], [1, 2, 5]
EPSILONS = [1e-12, 1e-3, 1.0, 800.0, INF]
# Gaps of 0, 1, 1/2, a power of 2, slightly above 0 and slightly below 1.
MEANS = [
    [0.0, 1.0], [0.5, 0.5], [0.0, 0.0, 1.0], [0.5, 1.0], [0.25, 0.5, 0.5, 0.75], [0.0, 1e-9],
    [0.5, 0.5 + 1e-12], [0.5 - 2.0**-30, 0.5], [0.0, 1.0 - 2.0**-30],
]  # fmt: skip
UNEQUAL = [means for means in MEANS if sorted(means)[0] < sorted(means)[1]]
FAILURES = [1e-300, 1 / 3, 0.5]
PROBABILITIES = [0.0, 0.25, 0.5, 1.0]
DOMAINS = ["simplex", "ball", "cube"]
GAMES = {"horizon": HORIZONS, "arms": ARMS}
PRIVATE = {**GAMES, "epsilon": EPSILONS}
POINTS = {"horizon": HORIZONS, "dim": DIMS}
PRIVATE_POINTS = {**POINTS, "epsilon": EPSILONS}
ON_DOMAINS = {**PRIVATE_POINTS, "domain": DOMAINS}
INSTANCES = {"horizon": HORIZONS, "means": MEANS}
PRIVATE_INSTANCES = {**INSTANCES, "epsilon": EPSILONS}
PRECISIONS = [0.0, 1e-9, 1.0, 1e9, INF]
LINUCB = {
    **POINTS, "smallest": [1e-6, 1.0], "largest": [1.0, 4.0], "tilt": [0.0, 1.0],
    "gap": [None, 0.5, 1.0], "deviation": [0.0, 1.0], "failure": [None, 1e-300, 0.999],
}  # fmt: skip
SETTINGS = {
    "adac_oful": {
        **POINTS, "rho": [1e-12, 0.1, INF], "deviation": [None, 0.0],
        "failure": [None, 1e-300, 0.999],
    },
    "adac_ucb": {**INSTANCES, "rho": [1e-12, 0.1, INF], "exploration": [2.0, 3.0, 3.1]},
    "adap_ucb": {**PRIVATE_INSTANCES, "exploration": [2.0, 3.0, 3.1]},
    "azize_2023_lower": {"means": UNEQUAL[::2], "epsilon": EPSILONS[::2], "failure": FAILURES},
    "azize_basu": PRIVATE_INSTANCES,
    "azize_basu_linear": {**POINTS, "epsilon": [0.0, *EPSILONS]},
    "azize_basu_minimax": PRIVATE,
    "batched_bandit": {**PRIVATE, "base": ["htinf", "exp2"]},
    "before_bandits": {"horizon": HORIZONS, "epsilon": EPSILONS, "arms": [None, 2]},
    "before_ftrl": ON_DOMAINS,
    "characteristic_time": {"means": UNEQUAL, "epsilon": EPSILONS},
    "cucb": {
        "horizon": HORIZONS, "dim": [2, 5], "ones": [1, 2], "epsilon": EPSILONS,
        "read": ["one", "all"], "model": ["central", "local"],
    },
    "d_epsilon": PRIVATE_INSTANCES,
    "d_epsilon_divergence": {"x": PROBABILITIES, "y": PROBABILITIES, "epsilon": EPSILONS},
    "d_epsilon_pulls": PRIVATE_INSTANCES,
    "dp_exp3_lap": PRIVATE,
    "dp_exp3_lap_printed": PRIVATE,
    "dueling_elimination": {
        **PRIVATE_INSTANCES, "failure": [None, 1e-300, 0.999], "compare": ["scores", "pairs"],
    },
    "exp2": PRIVATE,
    "exp2_rate": PRIVATE,
    "exp3": GAMES,
    "exp3_minibatch": {**GAMES, "tau": [1, 2, 7], "memory": [0]},
    "explore_then_commit": {**PRIVATE_INSTANCES, "rounds": [1, 2, 100]},
    "explore_then_commit_error": {
        "gap": [0.0, 1e-9, 0.5, 1.0], "rounds": [1, 1e9], "epsilon": EPSILONS,
    },
    "federated_linucb": {**LINUCB, "users": [1, 100]},
    "fixed_share": {**GAMES, "rate": [0.1, 1.0], "shifts": [0, 1, 2, 3]},
    "flaxman_printed": POINTS,
    "ftpl": POINTS,
    "ftpl_gram": {"horizon": HORIZONS, "size": DIMS, "rank": [1], "noise": [0.0, 1.0, INF]},
    "ftpl_gram_perturbation": {"horizon": HORIZONS, "size": DIMS, "rank": [1]},
    "ftpl_private": {**POINTS, "inverse_mu": PRECISIONS},
    "ftpl_rate": {**PRIVATE_POINTS, "delta": [1e-300, 0.5, 1 - 1e-9]},
    "ftrl": ON_DOMAINS,
    "ftrl_gradients": PRIVATE_POINTS,
    "ftrl_local": ON_DOMAINS,
    "ftrl_local_rate": ON_DOMAINS,
    "ftrl_printed": ON_DOMAINS,
    "hedge": {**GAMES, "rate": [1e-9, 1.0, INF]},
    "kl": {"x": PROBABILITIES, "y": PROBABILITIES},
    "lai_robbins": INSTANCES,
    "lai_robbins_local": PRIVATE_INSTANCES,
    "lazy_to_private": PRIVATE,
    "lazy_ucb": PRIVATE_INSTANCES,
    "limited_updates": {**PRIVATE, "selector": ["exponential", "laplace"]},
    "limited_updates_gaps": {
        **PRIVATE_INSTANCES, "selector": ["exponential", "permute_and_flip", "laplace"],
    },
    "glm_sgd": {**PRIVATE_POINTS, "strength": [1e-3, 0.1], "parameter_bound": [0.1, 5.0]},
    "glm_sgd_batched": {
        **POINTS, "inverse_mu": PRECISIONS[:-1], "strength": [1e-3, 0.1], "batch": [None, 1, 7],
    },
    "linear_elimination": {**PRIVATE, "dim": DIMS, "model": ["central", "local"]},
    "linear_elimination_printed": {"horizon": HORIZONS, "epsilon": EPSILONS},
    "linucb": LINUCB,
    "exp4": {**GAMES, "experts": [2, 2**20], "epsilon": EPSILONS},
    "linucb_planned": LINUCB,
    "matrix_ftrl": {"horizon": HORIZONS, "size": DIMS, "noise": [0.0, 1.0, INF]},
    "one_point_gradient": POINTS,
    "online_frank_wolfe": {**PRIVATE_POINTS, "lipschitz": [0.0, 1.0], "smoothness": [0.0, 1.0]},
    "online_gradient": {"horizon": HORIZONS},
    "private_ftal": PRIVATE_POINTS,
    "private_ftal_quadratic": PRIVATE_POINTS,
    "private_giga": {**POINTS, "inverse_mu": PRECISIONS, "drift": [0.0, 1e-3]},
    "private_one_point": PRIVATE_POINTS,
    "probing_experts": {
        **GAMES, "experts": [2, 2**20], "rate": [1e-3, 0.1], "restart": [2.0**-12, 0.1, 0.5],
        "batch": [1, 2, 7], "mixing": [1e-3, 1.0],
    },
    "projection_free": PRIVATE_POINTS,
    "projection_free_rate": PRIVATE_POINTS,
    "random_losses": {
        "horizon": HORIZONS, "size": DIMS, "domain": ["arms", *DOMAINS],
    },
    "robust_elimination": {
        **INSTANCES, "epsilon": [1e-3, INF], "model": ["central", "local"],
        "failure": [None, 0.999],
    },
    "scrible": {**ON_DOMAINS, "noise": ["scalar", "vector"]},
    "scrible_polytope": {**PRIVATE_POINTS, "rows": [2], "bound": [0.0, 0.5]},
    "semi_bandit_ftrl": {
        "horizon": HORIZONS, "dim": [2, 5], "ones": [1, 2], "epsilon": EPSILONS,
        "read": ["one", "all"], "model": ["central", "local"], "paths": [None, 2, 2.0**64],
    },
    "sequential_halving_error": {"horizon": HORIZONS, "means": UNEQUAL, "epsilon": EPSILONS},
    "shariff_sheffet": PRIVATE,
    "shariff_sheffet_pulls": PRIVATE_INSTANCES,
    "shrinking_dartboard": {
        **GAMES, "rate": [1e-3, 0.1], "restart": [0.1, 1.0], "batch": [1, 2, 7],
        "shifts": [0, 1, 3],
    },
    "shrinking_dartboard_batched": PRIVATE,
    "shrinking_dartboard_pure": PRIVATE,
    "sparse_vector_experts": PRIVATE,
    "stopping_time_lower": {"means": UNEQUAL[::2], "epsilon": EPSILONS[::2], "failure": FAILURES},
    "stopping_time_lower_local": {
        "means": UNEQUAL[::2], "epsilon": EPSILONS[::2], "failure": FAILURES,
    },
    "successive_elimination": {**PRIVATE_INSTANCES, "failure": [None, 1e-300, 0.999]},
    "switching_cost_lower": GAMES,
    "total_variation_time": {"means": UNEQUAL},
    "tsallis_inf": GAMES,
    "two_point_gradient": PRIVATE_POINTS,
    "ucb1": INSTANCES,
}  # fmt: skip
# Bounds that take more than a second with many gaps, epsilons and epochs.
LONG = {
    "characteristic_time", "robust_elimination", "stopping_time_lower", "azize_2023_lower",
    "stopping_time_lower_local", "linear_elimination",
}  # fmt: skip


def of(names):
    return pytest.mark.parametrize("name", [
        pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in names
    ])  # fmt: skip


def value(name, **arguments):
    """A bound as an array; if it also returns proportions, only its time. Warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = getattr(bounds, name)(**arguments)
    return np.asarray(found[0] if isinstance(found, tuple) else found)


def settings(name, **fixed):
    axes = SETTINGS[name] | {key: [given] for key, given in fixed.items()}
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


def test_every_bound_has_its_edges():
    assert sorted(SETTINGS) == sorted(bounds.__all__)


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
        if {"horizon", "epsilon"} <= set(axes) and name != "robust_elimination":
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
        lowers = [value("lai_robbins", **point)] + [
            value(name, **point, epsilon=epsilon) for name in ("d_epsilon", "azize_basu")
        ]
        uppers = [
            value(name, **point, epsilon=epsilon)
            for name in ("successive_elimination", "adap_ucb", "lazy_ucb")
        ]
        if max(np.diff(sorted(means))) > 1e-6:  # Otherwise 2^31 rounds are too few.
            assert max(lowers) <= min(uppers)
        time = {"means": means, "epsilon": epsilon, "failure": 0.05}
        assert (
            value("azize_2023_lower", **time)
            <= value("stopping_time_lower", **time) * (1 + 1e-6)
            <= value("stopping_time_lower_local", **time) * (1 + 1e-5)
        )


PLAYED = {
    "successive_elimination": learners.successive_elimination,
    "adap_ucb": learners.adap_ucb,
    "explore_then_commit": lambda horizon, arms, epsilon: learners.explore_then_commit(
        horizon, arms, epsilon=epsilon, rounds=100
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_no_simulated_regret_is_above_its_bound(name):
    """At gaps of 0, 1/2 and 1, also for horizons that end within the first batches."""
    instances = np.array([[0, 1, 1, 1], [0.5, 0.5, 1, 0.5], [0.5] * 4, [0.25, 0.5, 0.75, 1]])
    epsilons, keys = np.array([0.01, 1.0, INF], np.float32), jr.split(jr.key(7), 16)
    options = {"rounds": 100} if name == "explore_then_commit" else {}
    for horizon in (50, 2**18):

        def play(means, epsilon, key, horizon=horizon):
            environment = environments.bernoulli(means, regret="pseudo")
            learner = PLAYED[name](horizon, 4, epsilon=epsilon)
            return simulate_batches(learner, environment, key, checkpoints=1).regret[-1]

        of_keys = jax.vmap(
            jax.vmap(jax.vmap(play, (None, None, 0)), (None, 0, None)), (0, None, None)
        )
        regret = np.asarray(jax.jit(of_keys)(np.float32(instances), epsilons, keys)).mean(axis=-1)
        for means, found in zip(instances, regret, strict=True):
            bound = value(name, horizon=horizon, means=means, epsilon=epsilons, **options)
            assert (found <= bound * (1 + 1e-5) + 1e-3).all(), (horizon, means, found, bound)
