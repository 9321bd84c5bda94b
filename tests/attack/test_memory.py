"""Memory that a process keeps: programs up to a number of bytes.

pytest -m slow tests/attack/test_memory.py -n 0 -s  # prints what was measured
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's own count"),
]

PROGRAM = """
import ctypes, gc, json, warnings
import jax, numpy as np
from jax import random as jr
from dpjax import clear_caches, environments, learners, sweep
from dpjax.engine import programs

warnings.simplefilter("ignore")

def megabytes():
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

def game_of(number):
    def game(epsilon):
        return learners.exp3(8, 3), environments.bernoulli([0.001 * number, 0.5, 0.5])
    return game

def play(number):
    sweep(game_of(number), np.ones(2), 2, jr.key(0), checkpoints=1, progress=False)

for number in range(3):
    play(number)
clear_caches()
begin = megabytes()
for number in range(10):
    play(number)
free, estimate = megabytes() - begin, sum(p.bytes_held for p in programs._kept.values()) / 2**20
programs._BYTES = 2**24
for number in range(10, 16):
    play(number)
bounded, kept = megabytes() - begin, sum(p.bytes_held for p in programs._kept.values()) / 2**20
clear_caches()
print(json.dumps([free, estimate, bounded, kept, megabytes() - begin]))
"""


def test_the_bytes_of_programs_are_those_of_the_process():
    command = [sys.executable, "-c", PROGRAM]
    out = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    free, estimate, bounded, kept, left = json.loads(out.stdout.splitlines()[-1])
    print(
        f"programs: 10 games {free:.0f} MB, estimated {estimate:.0f}; 6 more within a bound of 16 "
        f"MB: {bounded:.0f} MB, estimated {kept:.0f}; after clear_caches {left:.0f} MB"
    )
    assert 0.5 < estimate / free < 2.0
    assert kept <= 16.0 and bounded < 0.9 * free
    assert left < 0.3 * free
