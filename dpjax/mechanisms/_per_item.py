"""Noise on each item, or on the sum of each batch, without a trusted server."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from dpjax.core import Array, Mechanism, Stream, _check
from dpjax.maths.two_words import add_compensated
from dpjax.mechanisms import prefix
from dpjax.noise import LawName


class NoisySum(NamedTuple):
    total: Array  # (*shape) sum of the messages so far
    error: Array  # (*shape) its rounding error (Kahan)


class BatchState(NamedTuple):
    sums: NoisySum  # of the messages so far
    waiting: NoisySum  # of the items of the incomplete batch, without noise
    items: Array  # () int32, how many are waiting


def per_item(horizon: int, *, noise: LawName = "laplace", batch: int = 1) -> Mechanism:
    """Prefix sums of individually randomized items, for the local model.

    An item with its noise is a message. Each message is private by itself, so no trusted party is
    needed, and nothing composes over rounds. The price is that prefix t has t draws of noise. At
    equal epsilon and with Laplace noise, this is still less than in the plain tree up to T = 2^9.

    With ``batch`` > 1 a message is the sum of so many consecutive items with one draw of noise.
    Prefixes change only when a batch is complete. So all rounds of a batch read the same release,
    and an incomplete last batch is never released. B C then differs from the matrix of prefix sums,
    since prefix t omits the waiting items. No trusted party is needed if a protocol computes these
    sums, which is idealised here:

        gaussian  model "shuffle": users send bits to a shuffler, and the binomial noise of their
                  sum is replaced by its Gaussian limit
        laplace   model "distributed": users send integers to a secure sum, and its discrete Laplace
                  noise is replaced by the continuous law; "discrete_laplace" has that law itself

    Integer noise has the model of its law (:class:`dpjax.noise.Law`): "distributed" if users can
    each add a part of it to their messages, otherwise "central".

    Args:
      horizon: T, rounds of the learner.
      noise: as for :func:`tree`.
      batch: the number of items in a message.

    Returns:
      A Mechanism for the local model, or for the models above, of (L1, L2) sensitivity (1, 1). The
      scale of its streams is that of each message's noise. The empty prefix has no noise.

    Raises:
      ValueError, TypeError: an argument is invalid.

    Reference: Kasiviswanathan, Lee, Nissim, Raskhodnikova & Smith 2011 for the local model;
    Chowdhury & Zhou 2022 for batches.

    Examples:
      >>> local, batched = mechanisms.per_item(8), mechanisms.per_item(8, noise="gaussian", batch=4)
      >>> print(local.model, local.variance())
      local [0. 1. 2. 3. 4. 5. 6. 7.]
      >>> print(batched.model, batched.variance())
      shuffle [0. 0. 0. 0. 1. 1. 1. 1.]
    """
    horizon, law = prefix.check(horizon, noise, integers=True)
    batch = _check.size(1, batch=batch)
    count = (horizon - 1) // batch  # messages

    def stream(shape, *, scale):
        shape = prefix.check_shape(shape)
        _check.non_negative(scale=scale)
        zero = jnp.zeros(shape, jnp.float32)
        nothing = NoisySum(zero, zero)

        def add(sums, item):
            return NoisySum(*add_compensated(sums.total, sums.error, item))

        def send(sums, key, item):
            return add(sums, law(key, item, scale))

        def init(key):
            del key
            waiting = BatchState(nothing, nothing, jnp.zeros((), jnp.int32))
            return nothing if batch == 1 else waiting, zero

        def step(state, key, value):
            value, key = prefix.as_integers(law, key, value, scale)
            if batch == 1:
                sums = send(state, key, value)
                return sums, sums.total
            waiting, items = add(state.waiting, value), state.items + 1
            state = lax.cond(
                items == batch,
                lambda: BatchState(
                    send(state.sums, key, waiting.total), nothing, jnp.zeros_like(items)
                ),
                lambda: BatchState(state.sums, waiting, items),
            )
            return state, state.sums.total

        return Stream(init, step)

    def variance(rounds=None):
        return prefix.as_floats((np.arange(horizon) if rounds is None else rounds) // batch)

    def matrices():
        complete = np.arange(horizon)[:, None] // batch > np.arange(count)
        members = np.arange(horizon - 1) // batch == np.arange(count)[:, None]
        return complete.astype(np.float64), members.astype(np.float64)

    model = law.limit or law.model
    return Mechanism(
        horizon, law.name, prefix.in_nodes(min(count, 1)), variance, matrices, stream,
        model="local" if batch == 1 else model,
    )  # fmt: skip
