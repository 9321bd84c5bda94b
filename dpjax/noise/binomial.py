"""Fair coins among bits that are summed: Bin(coins, 1/2) - coins / 2. The scale is ``coins``."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import _check
from dpjax.maths.laws import binomial as binomial_draw
from dpjax.noise.law import Calibration, Law
from dpjax.privacy.integer import (
    _sensitivity,
    binomial_log_pmf,
    integer_delta,
    integer_epsilon,
)
from dpjax.privacy.integer_tables import STEP, least_amount


def draw(key, coins, shape):
    """Whole numbers of coins from 0 to 2^31 - 1."""
    if shape:
        raise ValueError("binomial noise is that of one integer, not of an array")
    whole = coins.astype(jnp.int32)
    drawn = (binomial_draw(key, whole, 0.5) - (whole >> 1)).astype(jnp.float32)
    drawn = drawn - 0.5 * (whole & 1).astype(jnp.float32)
    return jnp.where(jnp.isnan(coins), jnp.nan, drawn)


def _whole(coins) -> int:
    """Coins as an integer. A scale is a real number, which is rounded down as by a draw."""
    real = isinstance(coins, float | np.floating) and math.isfinite(coins)
    return _check.size(0, coins=math.floor(coins) if real else coins)


def exact_delta(coins: int, epsilon: float, sensitivity: int = 1) -> float:
    """Delta at epsilon of a sum released with the noise Bin(coins, 1/2) - coins / 2.

    :func:`integer_delta` of the law. For sensitivity 1 it is F(k) - e^epsilon F(k - 1), where F is
    the distribution function of Bin(coins, 1/2) and k = ceil((coins + 1) / (1 + e^epsilon)) - 1. It
    falls in ``coins``, as one more coin is post-processing. Our derivation; the protocol is that of
    Cheu, Smith, Ullman, Zeber & Zhilyaev 2019 and Balcer & Cheu 2020.

    Args:
      coins: number of fair coins in the sum, at least 0.
      epsilon: at least 0 and finite.
      sensitivity: largest change of the sum, an integer from 1 to 10 000.

    Examples:
      >>> [f"{noise.binomial.delta(coins, 1.0):.2g}" for coins in (50, 100, 200)]
      ['5.2e-05', '8e-08', '4.3e-13']
    """
    coins, shift = _whole(coins), _sensitivity(sensitivity)
    return integer_delta(binomial_log_pmf(coins, 0.0)[1], shift, epsilon)


def exact_epsilon(coins: int, delta: float, sensitivity: int = 1) -> float:
    """The least epsilon whose :func:`exact_delta` is at most delta; inf where none is.

    Examples:
      >>> [round(noise.binomial.epsilon(coins, 1e-6), 2) for coins in (100, 400, 1600)]
      [0.87, 0.4, 0.19]
    """
    coins, shift = _whole(coins), _sensitivity(sensitivity)
    return integer_epsilon(binomial_log_pmf(coins, 0.0)[1], shift, delta)


def least_coins(epsilon: float, delta: float, sensitivity: int = 1) -> int:
    """The least number of fair coins whose :func:`exact_delta` at epsilon is at most delta.

    The noise has variance coins / 4, and is sub-Gaussian with it. 0 at epsilon = inf. A number of
    coins above 2^31 - 1 is refused.

    Examples:
      >>> [noise.binomial.least_scale(epsilon, 1e-6) for epsilon in (0.5, 1.0, 2.0)]
      [268, 80, 31]
    """
    epsilon, shift = _check.epsilon(epsilon), _sensitivity(sensitivity)
    _check.delta(delta)
    if math.isinf(epsilon):
        return 0
    low, high = 0, 1
    while exact_delta(high, epsilon, shift) > delta:
        if high == _check.LARGEST_SIZE:
            raise ValueError(
                f"epsilon and delta must allow for at most {_check.LARGEST_SIZE} coins, "
                "and they need more"
            )
        low, high = high, min(2 * high, _check.LARGEST_SIZE)
    while high - low > 1:
        middle = (low + high) // 2
        enough = exact_delta(middle, epsilon, shift) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def _grid(delta):
    few = np.arange(math.ceil(-math.log2(delta)), 256)
    many = np.geomspace(max(256, few[-1] + 1), 2**19, 1 + round(math.log(2**11, STEP)))
    return np.unique(np.concatenate([few, np.ceil(many)])).astype(int)


def of_one(epsilon, delta):
    """The least number of coins for a change by 1, up to a percent, by :func:`exact_delta`."""
    coins = least_amount(
        exact_epsilon, _grid, lambda deviation: jnp.ceil(4.0 * deviation**2), epsilon, delta
    )
    most = _check.LARGEST_SIZE
    if not isinstance(coins, jax.core.Tracer) and float(coins) > most:
        raise ValueError(f"epsilon must ask for at most {most} coins, got {epsilon}")
    return Calibration(jnp.where(coins > most, jnp.nan, coins), epsilon, float("nan"))


binomial = Law(
    "binomial",
    draw,
    variance=lambda coins: 0.25 * coins,
    cumulant=lambda tilt, coins: 0.5 * (0.25 * coins) * tilt * tilt,
    pole=lambda coins: jnp.inf,
    calibrate=None,
    declare=None,
    cost=None,
    norm=2,
    integers=True,
    of_one=of_one,
    epsilon=exact_epsilon,
    delta=exact_delta,
    least_scale=least_coins,
    of_rho=None,
    model="shuffle",
)
