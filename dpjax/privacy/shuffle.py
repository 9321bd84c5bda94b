"""Amplification by shuffling: the privacy of a batch of shuffled messages, and its calibration.

Each of ``users`` people sends one message of a local_epsilon-DP randomizer, and a shuffler permutes
the messages. The multiset of messages is then (epsilon, delta)-DP for a smaller epsilon. All users
of a batch share one randomizer, and neighbours differ in the input of one user.

Let R be the randomizer, x and x' the two inputs of the user who changes, and
q = e^local_epsilon / (1 + e^local_epsilon). Then R(x) = q U + (1 - q) V and
R(x') = (1 - q) U + q V for some laws U and V (Kairouz, Oh & Viswanath 2015). If
R(z) >= c (U + V) / 2 for all inputs z, then each message of another user is a clone with
probability c: a draw from U or V, with probability 1/2 each. The bound lets the observer also see
which messages are clones, and the other messages. All that is left to observe is the number of
draws from U among C + 1 messages, with C from Bin(users - 1, c). Any randomizer has
c = e^-local_epsilon (Feldman, McMillan & Talwar 2021).

These functions run on the host, in NumPy's float64, and take plain numbers only. Sums omit a mass
below 1e-40. The relative rounding error of delta is below 1e-5.
"""

import math
from collections.abc import Callable

import numpy as np
import scipy

from dpjax.core import _check
from dpjax.privacy.integer import _binomial_log_pmf

LARGEST_LOCAL_EPSILON = 700.0
LARGEST_BATCH = 10**6
# In batches of at most this size, all inputs of the other users are tried.
ALL_INPUTS = 2000


def _users(argument) -> int:
    number = _check.size(1, users=argument)
    _check.between(1, LARGEST_BATCH, users=number)
    return number


def _weights(local_epsilon, epsilon):
    """The factors a and b of the two laws that one message mixes, for epsilon < local_epsilon.

    a = q - e^epsilon (1 - q) and b = e^epsilon q - (1 - q), both positive and computed without
    cancellation.
    """
    q = float(scipy.special.expit(local_epsilon))
    a = -q * math.expm1(epsilon - local_epsilon)
    return a, q * math.expm1(epsilon) + math.tanh(0.5 * local_epsilon)


def _clones(local_epsilon, users) -> Callable[[float], float]:
    """Delta as a function of epsilon, from the number of draws from U among C + 1 messages.

    Given C, let A be from Bin(C, 1/2). For one input the count is A + 1 with probability q and
    otherwise A; for the other input these probabilities are exchanged. The likelihood ratio
    increases in the count. So the worst event is that the count is at least j, for the least j
    above (C + 1) b / (a + b), and delta = a P(A >= j - 1) - b P(A >= j).
    """
    start, law = _binomial_log_pmf(users - 1, -math.log(math.expm1(local_epsilon)))
    mass = np.exp(law)
    clones = np.arange(start, start + len(law))

    def delta_at(epsilon):
        if epsilon >= local_epsilon:
            return 0.0
        a, b = _weights(local_epsilon, epsilon)
        least = np.floor((clones + 1.0) * (b / (a + b))) + 1.0
        least = np.minimum(least, clones + 1.0)
        conditional = a * scipy.special.bdtrc(least - 2.0, clones, 0.5) - b * scipy.special.bdtrc(
            least - 1.0, clones, 0.5
        )
        return float(np.sum(mass * np.maximum(conditional, 0.0)))

    return delta_at


def _inputs(local_epsilon, users, tried) -> list[int]:
    """The tried numbers of ones among the other users. By symmetry, at most half are ones.

    In batches of at most ``tried`` users these are all numbers, otherwise the numbers near 0. Each
    further one moves the mean count by 1 - 2 / (1 + e^local_epsilon). So the distance of the mean
    from integers, and with it delta, repeats after (1 + e^local_epsilon) / 2 ones. Among these
    repetitions delta depends on the skewness, which is largest near 0.
    """
    half = (users - 1) // 2
    if users <= tried:
        return list(range(half + 1))
    period = min(1.0 + math.exp(local_epsilon), half)
    return sorted({*range(min(half, 16) + 1), *np.linspace(0, period, 65).astype(int).tolist()})


def _response(local_epsilon, users, tried=ALL_INPUTS) -> Callable[[float], float]:
    """Delta as a function of epsilon, from the number of ones that randomized response sends."""
    laws = []
    for ones in _inputs(local_epsilon, users, tried):
        kept = np.exp(_binomial_log_pmf(ones, local_epsilon)[1])
        flipped = np.exp(_binomial_log_pmf(users - 1 - ones, -local_epsilon)[1])
        laws.append(np.convolve(kept, flipped))
    # Row i has the law of the other users' count, from the second entry on. Other entries are 0.
    others = np.zeros((len(laws), max(map(len, laws)) + 2))
    for row, law in zip(others, laws, strict=True):
        row[1 : len(law) + 1] = law
    below, at = others[:, :-1], others[:, 1:]

    def delta_at(epsilon):
        if epsilon >= local_epsilon:
            return 0.0
        a, b = _weights(local_epsilon, epsilon)
        up = np.maximum(a * below - b * at, 0.0).sum(axis=1)
        down = np.maximum(a * at - b * below, 0.0).sum(axis=1)
        return float(max(up.max(), down.max()))

    return delta_at


CURVES: dict[str, Callable] = {"response": _response, "clones": _clones}


def _curve(local_epsilon, users, bound) -> Callable[[float], float]:
    """Delta as a function of epsilon."""
    _check.one_of(*CURVES, bound=bound)
    _check.inside(0.0, LARGEST_LOCAL_EPSILON, local_epsilon=local_epsilon)
    return CURVES[bound](float(local_epsilon), _users(users))


def shuffle_delta(
    local_epsilon: float, epsilon: float, users: int, *, bound: str = "response"
) -> float:
    """Delta at epsilon of the shuffled messages of a batch; 0 if epsilon >= local_epsilon.

    Args:
      local_epsilon: the epsilon of one message by itself, between 0 and 700.
      epsilon: at least 0 and finite.
      users: number of messages in the batch, from 1 to 10^6.
      bound: the randomizer and the kind of bound.
        ``"response"`` is exact for randomized response of a bit, in the larger direction and for
        the worst inputs of the other users. The number of ones is a sufficient statistic (our
        derivation). For at most 2000 users all inputs are tried. For more users about eighty
        inputs with few ones or few zeros are tried, since the worst inputs were found among these.
        ``"clones"`` is an upper bound for any randomizer (Feldman, McMillan & Talwar 2021,
        Theorem 3.1, without its last step).

    Delta decreases in ``users``, since another message is post-processing, and increases in
    local_epsilon.

    Examples:
      >>> [f"{privacy.shuffle_delta(2.0, 0.5, users):.2g}" for users in (50, 100, 200)]
      ['0.025', '0.0051', '0.00041']
    """
    _check.non_negative(epsilon=epsilon)
    return _curve(local_epsilon, users, bound)(float(epsilon))


def shuffle_epsilon(
    local_epsilon: float, delta: float, users: int, *, bound: str = "response"
) -> float:
    """The epsilon at delta of the shuffled messages of a batch, at most local_epsilon.

    Args:
      local_epsilon: the epsilon of one message by itself, between 0 and 700.
      delta: from 1e-30 to below 1.
      users: n, the number of messages in the batch, from 1 to 10^6.
      bound: as in :func:`shuffle_delta`, whose curve is inverted by bisection.

    Examples:
      >>> [round(privacy.shuffle_epsilon(2.0, 1e-6, users), 2) for users in (100, 400)]
      [1.61, 0.57]
    """
    _check.delta(delta)
    delta_at = _curve(local_epsilon, users, bound)
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, float(local_epsilon)
    while high - low > 1e-10 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def _largest_local_epsilon(epsilon, delta, users) -> float:
    """The calibration, if only inputs of the other users near an end are tried."""

    def enough(local_epsilon):
        return _response(local_epsilon, users, tried=0)(epsilon) <= delta

    low = high = epsilon
    while enough(high):
        if high >= LARGEST_LOCAL_EPSILON:
            return high
        low, high = high, min(high + 1.0, LARGEST_LOCAL_EPSILON)
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low


def shuffle_local_epsilon(epsilon: float, delta: float, users: int) -> float:
    """The largest epsilon of randomized response whose shuffled batch is (epsilon, delta)-DP.

    It is found by bisection on :func:`shuffle_delta` with ``"response"``, and delta is checked at
    the result. The result is at least epsilon, and little more if the batch is too small to hide a
    message. If the worst inputs have neither few ones nor few zeros, delta at the result can be a
    few percent below the given delta.

    Args:
      epsilon: of the shuffled messages, at most 100; inf gives inf.
      delta: from 1e-30 to below 1.
      users: number of messages in the batch, from 1 to 10^6.

    Examples:
      >>> [round(privacy.shuffle_local_epsilon(0.5, 1e-6, n), 2) for n in (50, 200)]
      [0.75, 1.39]
    """
    epsilon, users = _check.epsilon(epsilon), _users(users)
    _check.delta(delta)
    if math.isinf(epsilon):
        return math.inf
    _check.between(0.0, 100.0, epsilon=epsilon)
    target = delta
    while True:
        local = _largest_local_epsilon(float(epsilon), target, users)
        reached = _response(local, users)(epsilon)
        if reached <= delta:
            return local
        target *= delta / reached * (1.0 - 1e-9)
