"""Equations on numbers that make or consume keys of threefry2x32.

Each block of random words is a call of one of two programs. XLA inlines it. One kernel of an
accelerator recognizes it by its name, and has code of its own for it.
"""

import jax
import numpy as np
from jax import lax

from dpjax.engine import walk
from dpjax.engine.number_rules import NoRule
from dpjax.engine.numbers import Key, Number, apart, compute, each, filled, from_array
from dpjax.generators import rounds_of, threefry2x32


def threefry20(first, second, counter):
    """Two random words from the two words of a key and a counter, all () uint32."""
    return threefry2x32(first, second, np.uint32(0), counter, 20)


def threefry13(first, second, counter):
    """The same with 13 rounds."""
    return threefry2x32(first, second, np.uint32(0), counter, 13)


BLOCKS = {20: jax.jit(threefry20), 13: jax.jit(threefry13)}


def _block(key: Key, counter: Number) -> list[Number]:
    numbers = key.first, key.second, counter
    if all(x.known for x in numbers):
        with jax.ensure_compile_time_eval():
            words = BLOCKS[key.rounds](*(x.value for x in numbers))
            return [Number(np.asarray(word)[()], False) for word in words]
    own = any(x.own for x in numbers)
    words = BLOCKS[key.rounds](*(x.value for x in numbers))
    return [Number(word, own) for word in words]


def _folded(key, counter) -> Key:
    """The key that a block makes."""
    first, second = _block(key, counter)
    return Key(first, second, key.rounds)


def _counters(shape) -> list[Number]:
    return [Number(np.uint32(i), False) for i in range(int(np.prod(shape, dtype=int)))]


def _random_bits(eqn, operands) -> list:
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    if width > 32:
        raise NoRule("random_bits of 64 bits")
    dtype = eqn.outvars[0].aval.dtype
    words = [
        compute(lambda a, b: lax.convert_element_type(a ^ b, dtype), *_block(key, counter))
        for key in operands[0].reshape(-1)
        for counter in _counters(shape)
    ]
    return [filled((*operands[0].shape, *shape), words)]


def _random_split(eqn, operands) -> list:
    shape = eqn.params["shape"]
    keys = [
        _folded(key, counter) for key in operands[0].reshape(-1) for counter in _counters(shape)
    ]
    return [filled((*operands[0].shape, *shape), keys)]


def _random_fold_in(eqn, operands) -> list:
    shape = eqn.outvars[0].aval.shape
    keys, data = (np.broadcast_to(apart(x), shape) for x in operands)

    def fold(key, number):
        number = compute(lambda x: lax.convert_element_type(x, np.uint32), number)
        return _folded(key, number)

    return [each(fold, keys, data)]


def _random_seed(eqn, operands) -> list:
    if not all(x.known for x in operands[0].reshape(-1)):
        raise NoRule("random_seed of a traced number")
    seeds = np.array([x.value for x in operands[0].reshape(-1)]).reshape(operands[0].shape)
    with jax.ensure_compile_time_eval():
        return [from_array(walk.bind(eqn, [seeds])[0], False)]


def _random_unwrap(eqn, operands) -> list:
    words = [word for key in operands[0].reshape(-1) for word in (key.first, key.second)]
    return [filled((*operands[0].shape, 2), words)]


def _random_wrap(eqn, operands) -> list:
    rounds = rounds_of(eqn.outvars[0].aval.dtype)
    if not rounds:
        raise NoRule("keys of another generator than threefry")
    words = apart(operands[0])
    return [filled(words.shape[:-1], [Key(a, b, rounds) for a, b in words.reshape(-1, 2)])]


RULES = {
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_seed": _random_seed,
    "random_split": _random_split,
    "random_unwrap": _random_unwrap,
    "random_wrap": _random_wrap,
}
