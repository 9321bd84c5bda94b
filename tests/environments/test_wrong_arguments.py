"""Factories of environments refuse wrong arguments by name, in one sentence."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import domains, environments
from dpjax.environments import loss_families
from tests.environments.test_dueling import CYCLE, NARROW

MEANS, BAD_MEANS = [0.6, 0.3, 0.5], [[0.5, np.nan], [0.5], 0.5, [[0.5, 0.5]]]
LAWS = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])
BALL, SIMPLEX = domains.ball(3), domains.simplex(3)
SETS = SIMPLEX, BALL, domains.cube(3)
DISTANCE = loss_families.distance(BALL)
FEATURES, LOSSES, PAIR = np.ones((4, 2, 3)), np.ones((4, 2)), [0.5, 0.5]


def spoiled(shape, row, column, value, usual=0.25):
    losses = np.full(shape, usual)
    losses[row, column] = value
    return losses


# By factory: arguments, keywords, and the beginning of the sentence. Rows and columns are counted
# from 1.
WRONG = {
    "bernoulli": [
        *((means, {}, "means") for means in [*BAD_MEANS, [0.5, 1.5], [-0.1, 0.5]]),
        (MEANS, {"regret": "expected"}, "regret"),
    ],
    "gaussian": [
        *((means, {"deviation": 1.0}, "means") for means in [*BAD_MEANS, [0.5, np.inf]]),
        *((MEANS, {"deviation": bad}, "deviation") for bad in (-0.1, np.nan, np.inf)),
    ],
    "deterministic": [(arms, {}, "arms") for arms in (2, 4.0)],
    "fully_oblivious": [
        (1, {}, "arms"), *((3, {"half_width": bad}, "half_width") for bad in (0.3, np.nan)),
    ],
    "oblivious": [
        (1, {}, "arms"), *(((3, bad), {}, "period") for bad in (0, 2.5)),
        (3, {"half_width": -0.01}, "half_width"),
    ],
    "switching_cost": [
        *(((bad, 3), {}, "horizon") for bad in (0, 1e3)), ((8, 1), {}, "arms"),
        ((8, 3), {"walk": "brownian"}, "walk"),
    ],
    "memory": [
        *((means, {"rounds": 1}, "means") for means in BAD_MEANS[:2]),
        *((MEANS, {"rounds": bad}, "rounds") for bad in (-1, np.nan, np.inf)),
    ],
    "piecewise": [
        ((PAIR, [4]), {}, "means must have shape"),
        (([[0.2, 1.5]], [4]), {}, "means: row 1, column 2 is 1.5"),
        *((([PAIR] * len(ends), ends), {}, "ends must be")
          for ends in ([8, 4], [4, 4], [0], [4.5])),
    ],
    "from_means": [
        ((lambda t: jnp.array([0.5]), 10), {},
         r"means must return the shape \(K,\) with K at least 2"),
        ((lambda t: 0.5, 10), {}, r"means must return the shape \(K,\)"),
        ((lambda t: jnp.array([0.5, t / 8]), 10), {}, ".* got 1.125 for arm 1 in round 9"),
        ((lambda t: jnp.array([jnp.nan, 0.5]), 10), {}, ".* got nan for arm 0 in round 1"),
        ((PAIR, 10), {}, "means must be a function of the round, got a list"),
    ],
    "table": [
        (losses, {}, f"losses: {message}") for losses, message in [
            (spoiled((3, 4), 1, 3, np.nan), r"row 2, column 4 is missing; losses must"),
            (spoiled((3, 4), 2, 0, 1.5),
             r"row 3, column 1 is 1\.5; losses must lie in \[0, 1\]"),
            *((np.zeros(shape), rf"must have shape \(T, K\), got {re.escape(str(shape))}")
              for shape in [(5,), (), (2, 3, 4)]),
            (np.zeros((0, 3)), r"has no rows"), (np.zeros((5, 0)), r"has 0 arm"),
            (np.zeros((5, 1)), r"has 1 arm; at least 2 are needed"),
        ]
    ],
    "gap_arms": [
        (1, {}, "dim"), (3, {"gap": 1.5}, "gap"), (3, {"arms": 1}, "arms"),
        (3, {"losses": "normal"}, "losses"),
    ],
    "glm_arms": [
        (0, {}, "dim must be"), (3, {"arms": 1}, "arms must be"),
        *((3, {"scale": bad}, "scale must be") for bad in (0.0, np.inf, np.nan)),
    ],
    "fixed_actions": [
        ((np.ones((3, 2)), [0.1, 0.1]), {}, r"actions must span R\^2"),
        (([[1.0, np.nan], [0.0, 1.0]], [0.1, 0.1]), {}, "actions"),
        ((np.eye(3), [0.1, 0.1]), {}, r"parameter .*\(3,\)"),
        ((np.eye(2), [1.5, 0.1]), {}, "parameter.* 1.5"),
    ],
    "contextual_table": [
        ((FEATURES[0], LOSSES), {}, "features"), ((FEATURES, "none"), {}, "losses"),
        ((FEATURES, LOSSES.T), {}, r"losses .*\(4, 2\)"),
        ((FEATURES * [[[1, 1, np.nan]]], LOSSES), {},
         r"features: entry \(1, 1, 3\) is missing"),
    ],
    "classification": [
        (([[1.0], [np.nan]], [0, 1]), {}, "features: row 2, column 1 is missing"),
        (([1.0, 2.0], [0, 1]), {}, r"features must have shape \(n, p\)"),
        *((([[1.0], [2.0]], labels), {}, f"labels{message}") for labels, message in [
            ([0, 1, 1], r" must have shape \(2,\), got \(3,\)"),
            ([1, 1], " must have at least two classes, got 1"),
            (np.array(["a", None]), ": row 2 is missing"),
            ([np.nan, 1.0], ": row 1 is missing"),
            (np.array(["a", 1], object), " must be of one kind"),
        ]),
    ],
    "advice": [
        (([0.5], 2), {}, r"losses must have shape \(T, K\) or \(K,\), K at least 2, got \(1,\)"),
        ((np.zeros((2, 2, 2)), 2), {}, "losses must have shape"),
        *(((bad, 2), {}, "losses") for bad in ([0.5, 1.5], [0.5, np.nan])),
        ((PAIR, 1), {}, "experts"),
        ((PAIR, np.eye(3)), {}, r"experts must be .* \(N, 2\) .* got shape \(3, 3\)"),
        *(((PAIR, bad), {}, "experts: each row")
          for bad in ([[0.5, 0.6], PAIR], [[1.5, -0.5], PAIR])),
        ((np.zeros((3, 2)), LAWS), {}, "experts must be"),
        *(((PAIR, 2), {"informative": bad}, "informative")
          for bad in ([0.5], [0.5, 1.5], [PAIR])),
        ((PAIR, LAWS), {"informative": PAIR}, ".*because the advice is given"),
    ],
    "consensus": [
        (0, {}, ".*horizon"), (8, {"pairs": 0}, ".*pairs"), (8, {"flip": 0.6}, "flip must be in"),
    ],
    "dueling": [
        (bad, {}, f"preferences.* must .*{words}") for bad, words in [
            (CYCLE, "an arm that no other one beats"), (0.5 * NARROW, "P_ij"),
            (NARROW[:3], "shape"), ([0.5], "shape"), (0.5, "shape"), ([0.5, 1.5], r"in \[0, 1\]"),
        ]
    ],
    "spiked_covariance": [
        ((2, 2), {}, "rank must be below the size"), (2, {"signal": -1.0}, "signal must be"),
    ],
    "convex_losses": [
        (("iid", DISTANCE), {}, "domain must be a Domain"),
        ((BALL, "distance"), {}, "family must be a Family or a function"),
        ((BALL, lambda p, x: 0.0), {}, "parameters must be given"),
        ((BALL, DISTANCE, "rows"), {}, "parameters must be given"),
        ((BALL, DISTANCE, "often"), {}, "kind must be one of"),
        ((BALL, DISTANCE), {"spread": 2.0}, "spread must be in"),
        ((BALL, DISTANCE), {"parameters": (jnp.ones(3), jnp.ones((2, 3)))},
         ".*common leading axis"),
        ((BALL, DISTANCE), {"parameters": np.full((2, 3), np.nan)}, ".*must be finite"),
        ((BALL, lambda p, x: p * x), {"parameters": jnp.ones((2, 3))}, ".*must return one number"),
    ],
    "linear_losses": [
        *(((domain, losses), {}, f"{message}$") for domain in SETS for losses, message in [
            (spoiled((4, 3), 2, 1, np.nan),
             "losses: row 3, column 2 is missing; losses must be finite in float32"),
            (spoiled((4, 3), 1, 0, 1.5), "losses: row 2 lies outside the loss set"),
            *((np.zeros(shape), rf"losses: must have shape \(T, 3\), got {re.escape(str(shape))}")
              for shape in [(4, 2), (3,), (1, 2, 3), (0, 3)]),
        ]),
        ((SIMPLEX, "brownian"), {}, r"losses must be an array \(T, d\), a function or one of iid, "
         "drifting, switching, alternating, adaptive$"),
        (("ball", "iid"), {}, "domain must [^\n]+$"),
        *(((SIMPLEX, "iid"), {name: bad}, f"{told} must [^\n]+$") for name, told, bad in [
            ("loss_set", "losses", "box"), ("loss_set", "losses", domains.box_losses(2)),
            ("bias", "bias", -1.0), ("bias", "bias", np.inf), ("bias", "bias", "strong"),
            ("period", "period", 0), ("period", "period", 10.0),
        ]),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given", "options", "message"),
    [(name, *case) for name, cases in WRONG.items() for case in cases],
)
def test_wrong_arguments_are_refused(name, given, options, message):
    given = given if isinstance(given, tuple) else (given,)
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        getattr(environments, name)(*given, **options)
