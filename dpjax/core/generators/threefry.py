"""Threefry2x32, the generator of jax.random, and a faster variant with fewer rounds.

Reference: Salmon, Moraes, Dror & Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from functools import partial
from typing import Any

import numpy as np

from dpjax.core.generators.base import KNOWN, Generator, defined

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry2x32(first: Any, second: Any, high: Any, low: Any, rounds: int) -> tuple[Any, Any]:
    """The block function: two random words from two words of the key and two of the counter.

    All are uint32 arrays that broadcast. The rounds are unrolled, so that compilers fuse them with
    the code that uses the words.

    Examples:
      >>> words = np.zeros((4, 1), np.uint32)  # the key and the counter
      >>> [hex(x.item()) for x in generators.threefry2x32(*words, rounds=20)]
      ['0x6b200159', '0x99ba4efe']
    """
    schedule = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    x, y = high + first, low + second
    for i in range(rounds):
        rotation = _ROTATIONS[i % 8]
        x = x + y
        y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
        y = x ^ y
        if i % 4 == 3:
            group = i // 4 + 1
            x = x + schedule[group % 3]
            y = y + schedule[(group + 1) % 3] + np.uint32(group)
    return x, y


def _block(first: Any, second: Any, counter: Any, rounds: int) -> Any:
    return threefry2x32(first, second, np.uint32(0), counter, rounds)


def _number(words):
    first, second = words
    return first ^ second


def block_text(index: int, rounds: int) -> str:
    """PTX of a block that returns the word x (index 0) or y (1).

    Without PTX, Triton reassociates the sums of a block, which takes a quarter more instructions.
    """
    lines = [
        ".reg .b32 x, y, last", "xor.b32 last, $1, $2", "xor.b32 last, last, 0x1BD11BDA",
        "mov.b32 x, $1", "add.u32 y, $3, $2",
    ]  # fmt: skip
    schedule = "$1", "$2", "last"
    for i in range(rounds):
        lines += ["add.u32 x, x, y", f"shf.l.wrap.b32 y, y, y, {_ROTATIONS[i % 8]}"]
        lines += ["xor.b32 y, x, y"]
        if i % 4 == 3:
            group = i // 4 + 1
            lines += [f"add.u32 x, x, {schedule[group % 3]}"]
            lines += [f"add.u32 y, y, {schedule[(group + 1) % 3]}", f"add.u32 y, y, {group}"]
    return "{ " + "; ".join([*lines, f"mov.b32 $0, {'xy'[index]}"]) + "; }"


def threefry(rounds: int, name: str, tag: str) -> Generator:
    """Threefry with this number of rounds."""
    block, text = (partial(function, rounds=rounds) for function in (_block, block_text))
    return defined(name, tag, block, _number, text)


# JAX has its own implementation.
KNOWN["key<fry>"] = Generator(
    "threefry2x32", partial(_block, rounds=20), _number, "threefry2x32",
    partial(block_text, rounds=20),
)  # fmt: skip
threefry13 = threefry(13, "threefry2x32_13", "fry13").impl
