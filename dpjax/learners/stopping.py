"""DP-NAS: a stopping rule that samples until the mean has a given relative accuracy.

It is not a learner. It adds up a stream until the sum is so large that neither sampling error nor
the privacy noise matters.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax import random as jr

from dpjax import noise, privacy
from dpjax.core import Array, Number, Numbers, _arrays, _check
from dpjax.maths import exact_sums, laws
from dpjax.maths.clipping import within
from dpjax.maths.exact_sums import ExactSum


class Stopped(NamedTuple):
    """The time at which the rule stopped, and the private mean of the values up to it."""

    stopped: Array  # () bool, False if the stream ended first
    rounds: Array  # () int32, values read
    mean: Array  # () float32


class _State(NamedTuple):
    query: Array  # () int32
    rounds: Array  # () int32
    total: ExactSum  # () of the values divided by their bound
    stopped: Array  # () bool


def recorded(values: Numbers, bound: Number = 1.0) -> Callable:
    """The stream of given values (T,), clipped to [-bound, bound].

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> stream = stopping.recorded([0.5, -1.0, 3.0, 0.25])  # 3 is clipped
      >>> float(exact_sums.to_float(stream(jax.random.key(0), 1, 3)))
      0.25
    """
    values = jnp.asarray(_arrays.entries(values=values), jnp.float32)
    values = within(values / bound, -1.0, 1.0)
    if values.ndim != 1:
        raise ValueError(f"values must have shape (T,), got {values.shape}")
    sums = lax.associative_scan(exact_sums.add, exact_sums.of(values))
    totals = jax.tree.map(lambda leaf: jnp.pad(leaf, (1, 0)), sums)

    def stream(key, start, count):
        del key
        first = jax.tree.map(lambda leaf: leaf[start], totals)
        last = jax.tree.map(lambda leaf: leaf[start + count], totals)
        return exact_sums.add(last, exact_sums.negative(first))

    return stream


def two_valued(
    probability: Number, low: Number = -1.0, high: Number = 1.0, bound: Number = 1.0
) -> Callable:
    """The stream of independent values that are ``high`` with this probability, otherwise ``low``.

    The sum of any number of values is one draw. Both values must be in [-bound, bound].

    Examples:
      >>> from dpjax.maths import exact_sums
      >>> stream = stopping.two_valued(1.0, high=0.5)  # always 0.5
      >>> float(exact_sums.to_float(stream(jax.random.key(0), 0, 100)))
      50.0
    """
    _check.between(0.0, 1.0, probability=probability)
    _check.positive(bound=bound)
    _check.between(-1.0, 1.0, **{"low / bound": low / bound, "high / bound": high / bound})

    def stream(key, start, count):
        del start
        highs = laws.binomial(key, count, probability)
        return exact_sums.add(
            exact_sums.repeated(high / bound, highs),
            exact_sums.repeated(low / bound, count - highs),
        )

    return stream


def private_mean(
    key: Array,
    stream: Callable,
    horizon: int,
    *,
    epsilon: Number,
    accuracy: Number,
    failure: Number,
    bound: Number = 1.0,
    queries: Literal["every_round", "powers_of_two"] = "every_round",
) -> Stopped:
    """DP-NAS: stop once the sum is large, and return a mean of relative error ``accuracy``.

    Let X_t be in [-R, R], A_t and B Laplace noise, and e epsilon. The rule queries the sum at some
    rounds t. It stops at the first of them with

        |X_1 + ... + X_t| >= h_t (1 + 1 / alpha) + c_t + B + A_t,
        h_t = R sqrt(2 t ln(16 q^2 / beta)),    q the number of the query,
        c_t = s ln(4 / beta) + s ln(8 q^2 / beta) + (s / 3 alpha) ln(4 / beta),    s = 12 R / e,

    and returns (X_1 + ... + X_t + L) / t with L ~ Lap(s / 3). The function is pure and not jitted.
    Use ``jax.vmap`` for many keys or streams.

    Args:
      key: PRNG key, consumed.
      stream: (key, start, count) -> the sum of the values start + 1 .. start + count divided by
        their bound, an ExactSum, as made by :func:`recorded` and :func:`two_valued`. Values must be
        in [-bound, bound].
      horizon: the largest number of values to read.
      epsilon: privacy parameter; inf gives the rule without privacy, with 4 instead of 16 in h_t.
      accuracy: alpha > 0, relative; 1 is enough to determine the sign.
      failure: beta in (0, 1). With probability at most .911 beta the rule stops and the mean has an
        error above alpha times the true mean.
      bound: R, the same as that of the stream.
      queries: "every_round", or "powers_of_two": t = 1, 2, 4, ... and the horizon. With powers of
        two the time at most doubles, and 10^9 values need 31 steps. The union bound is then over
        fewer events (ln ln t instead of ln t).

    Returns:
      A Stopped. If the stream ended first, its mean is still private, and no accuracy is claimed.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Privacy: epsilon-DP for replacement of one value. Released values: the rounds and the mean. The
    query |sum| has sensitivity 2R. The sparse vector technique spends 2R / s + 2
    (2R) / s = epsilon / 2 for any number of queries, and the mean spends
    2R / (s / 3) = epsilon / 2.

    Reference: Sajed & Sheffet 2019, in the form of Chari's survey, whose Algorithm 2 does not
    divide the returned mean by t. The failure probabilities of h_t, B, A_t and L add up to beta
    (pi^2 / 48 + 1/4 + pi^2 / 48 + 1/4).

    Examples:
      >>> stream = stopping.two_valued(1.0, high=0.5)
      >>> rule = jax.jit(lambda epsilon: stopping.private_mean(
      ...     jax.random.key(0), stream, 10**6, epsilon=epsilon,
      ...     accuracy=1.0, failure=0.05, queries="powers_of_two"))
      >>> [int(rule(epsilon).rounds) for epsilon in (0.01, 1.0, np.inf)]
      [65536, 1024, 512]
    """
    _check.key(key=key)
    horizon = _check.size(1, horizon=horizon)
    epsilon = _check.epsilon(epsilon)
    _check.positive(accuracy=accuracy, bound=bound)
    _check.inside(0.0, 1.0, failure=failure)
    _check.one_of("every_round", "powers_of_two", queries=queries)
    # From here on values are counted in units of R.
    scale = 6.0 * privacy.laplace_scale(2.0, epsilon)
    third = 2.0 * privacy.laplace_scale(2.0, epsilon)
    union = jnp.where(jnp.isinf(jnp.asarray(epsilon, jnp.float32)), 4.0, 16.0)
    nature, coins = jr.split(key)
    threshold_key, mean_key, query_key = jr.split(coins, 3)
    threshold = noise.laplace(threshold_key, jnp.float32(0.0), scale)

    def one_query(state):
        query = state.query + 1
        if queries == "every_round":
            count = jnp.int32(1)
        else:
            count = jnp.minimum(jnp.maximum(state.rounds, 1), horizon - state.rounds)
        more = stream(jr.fold_in(nature, query), state.rounds, count)
        total = exact_sums.add(state.total, more)
        rounds = state.rounds + count

        log_query = 2.0 * jnp.log(query.astype(jnp.float32)) - jnp.log(failure)
        t = rounds.astype(jnp.float32)
        width = jnp.sqrt(2.0 * t * (jnp.log(union) + log_query))
        allowance = scale * (jnp.log(4.0 / failure) + jnp.log(8.0) + log_query)
        allowance = allowance + third / accuracy * jnp.log(4.0 / failure)
        limit = width * (1.0 + 1.0 / accuracy) + allowance + threshold
        size = exact_sums.magnitude(total)
        asked = noise.laplace.total(jr.fold_in(query_key, query), size, scale)
        return _State(query, rounds, total, exact_sums.to_float(asked) >= limit)

    zero = jnp.zeros((), jnp.int32)
    start = _State(zero, zero, exact_sums.nothing(), jnp.zeros((), bool))
    last = lax.while_loop(lambda s: ~s.stopped & (s.rounds < horizon), one_query, start)
    released = noise.laplace.total(mean_key, last.total, third)
    return Stopped(last.stopped, last.rounds, bound * exact_sums.mean(released, last.rounds))
