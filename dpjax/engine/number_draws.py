"""Equations on numbers that make or consume keys.

Each block of random words is a call of a program of its own for each generator. XLA inlines it. One
kernel of an accelerator recognizes it by its name, and may have code of its own for it.
"""

from functools import cache, partial

import jax
import numpy as np
from jax import lax

from dpjax.engine import walk
from dpjax.engine.number_rules import NoRule
from dpjax.engine.numbers import Key, Number, apart, compute, each, filled, from_array
from dpjax.generators import Generator, of
from dpjax.generators.base import KNOWN

_BLOCK = "block of "


@cache
def block_of(generator: Generator):
    """The block function of () uint32, as a program that :func:`drawn_by` recognizes."""

    def block(first, second, counter):
        return generator.block(first, second, counter)

    block.__name__ = f"{_BLOCK}{generator.name}"
    return jax.jit(block)


def drawn_by(eqn) -> Generator | None:
    """The generator of whose block an equation is a call."""
    name = eqn.params.get("name", "")
    return next((each for each in KNOWN.values() if name == f"{_BLOCK}{each.name}"), None)


def _block(key: Key, counter: Number) -> list[Number]:
    numbers = key.first, key.second, counter
    if all(x.known for x in numbers):
        with jax.ensure_compile_time_eval():
            words = block_of(key.generator)(*(x.value for x in numbers))
            return [Number(np.asarray(word)[()], False) for word in words]
    own = any(x.own for x in numbers)
    words = block_of(key.generator)(*(x.value for x in numbers))
    return [Number(word, own) for word in words]


def _folded(key, counter) -> Key:
    """The key that a block makes."""
    first, second, *_ = _block(key, counter)
    return Key(first, second, key.generator)


def _number(generator, i, dtype, *words):
    """Number i of a block."""
    return lax.convert_element_type(generator.numbers(words)[i], dtype)


def _counters(shape) -> list[Number]:
    return [Number(np.uint32(i), False) for i in range(int(np.prod(shape, dtype=int)))]


def _random_bits(eqn, operands) -> list:
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    if width > 32:
        raise NoRule("random_bits of 64 bits")
    dtype = eqn.outvars[0].aval.dtype
    numbers: list[Number] = []
    for key in operands[0].reshape(-1):
        drawn: list[Number] = []
        for counter in _counters((-(-np.prod(shape, dtype=int) // key.generator.size),)):
            words = _block(key, counter)
            drawn += [compute(partial(_number, key.generator, i, dtype), *words)
                      for i in range(key.generator.size)]  # fmt: skip
        numbers += drawn[: np.prod(shape, dtype=int)]
    return [filled((*operands[0].shape, *shape), numbers)]


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
    generator = of(eqn.outvars[0].aval.dtype)
    if not generator:
        raise NoRule("keys of another generator")
    words = apart(operands[0])
    return [filled(words.shape[:-1], [Key(a, b, generator) for a, b in words.reshape(-1, 2)])]


RULES = {
    "random_bits": _random_bits,
    "random_fold_in": _random_fold_in,
    "random_seed": _random_seed,
    "random_split": _random_split,
    "random_unwrap": _random_unwrap,
    "random_wrap": _random_wrap,
}
