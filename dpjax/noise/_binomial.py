"""Binomial noise: fair coins added to a sum of bits. The scale is the number of coins.

A draw is Bin(coins, 1/2) - coins / 2. For a change by 1, delta at epsilon is
F(k) - e^epsilon F(k - 1), where F is the distribution function of Bin(coins, 1/2) and
k = ceil((coins + 1) / (1 + e^epsilon)) - 1 (our derivation). Delta decreases in the number of
coins, since one more coin is post-processing. The protocol is that of Cheu, Smith, Ullman, Zeber &
Zhilyaev 2019 and Balcer & Cheu 2020. The noise is sub-Gaussian with variance coins / 4.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.core import Array, _check
from dpjax.maths.laws import binomial as binomial_draw
from dpjax.noise.integers import STEP, exact_privacy, on_integers, scale_of_one
from dpjax.noise.law import Calibration, Law
from dpjax.privacy.integer import _binomial_log_pmf


def draw(key: Array, coins: Array, shape: tuple[int, ...]):
    """A draw, for an integer number of coins from 0 to 2^31 - 1."""
    if shape:
        raise ValueError(f"binomial noise must be added to one number, got an array of {shape}")
    whole = coins.astype(jnp.int32)
    drawn = (binomial_draw(key, whole, 0.5) - (whole >> 1)).astype(jnp.float32)
    drawn = drawn - 0.5 * (whole & 1).astype(jnp.float32)
    return jnp.where(jnp.isnan(coins), jnp.nan, drawn)


def log_density(noise: Array, coins: Array):
    """ln C(coins, k + coins / 2) - coins ln 2 for k + coins / 2 in 0 .. coins; -inf elsewhere."""
    whole = jnp.floor(coins)
    ones = noise + 0.5 * whole
    return on_integers(lambda ones, _: jax.scipy.stats.binom.logpmf(ones, whole, 0.5))(ones, coins)


def _whole(coins) -> int:
    """The number of coins as an integer. A real number is rounded down, as in a draw."""
    real = isinstance(coins, float | np.floating) and math.isfinite(coins)
    return _check.size(0, coins=math.floor(coins) if real else coins)


EXACT = exact_privacy(lambda coins, shift: _binomial_log_pmf(coins, 0.0)[1], _whole)


def _grid(delta):
    few = np.arange(math.ceil(-math.log2(delta)), 256)
    many = np.geomspace(max(256, few[-1] + 1), 2**19, 1 + round(math.log(2**11, STEP)))
    return np.unique(np.concatenate([few, np.ceil(many)])).astype(int)


def of_one(epsilon: float, delta: float):
    """The least number of coins for a change by 1, or up to one percent more."""
    coins = scale_of_one(
        EXACT["epsilon"], _grid, lambda deviation: jnp.ceil(4.0 * deviation**2), epsilon, delta
    )
    most = _check.LARGEST_SIZE
    if not isinstance(coins, jax.core.Tracer) and float(coins) > most:
        raise ValueError(f"epsilon must be large enough for {most} coins, got {epsilon}")
    return Calibration(jnp.where(coins > most, jnp.nan, coins), epsilon, float("nan"))


binomial = Law(
    "binomial",
    draw,
    variance=lambda coins: 0.25 * coins,
    cumulant=lambda tilt, coins: 0.5 * (0.25 * coins) * tilt * tilt,
    norm=2,
    integers=True,
    of_one=of_one,
    **EXACT,
    log_density=log_density,
    of_rho=None,
    model="shuffle",
)
