"""Estimate in a few seconds how long a study takes on this machine.

Each measured program is compiled with the number of rounds as an argument. It is timed over more
and more rounds, until the time is long enough to extrapolate. The time of play by batches often
grows with the logarithm of the number of rounds.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.engine import executables, settings
from dpjax.engine.blocks import at_once, block_shape
from dpjax.engine.compile import block_function, compile_for, platform_of
from dpjax.engine.compute import takes_turns
from dpjax.study.horizons import Horizons
from dpjax.study.simulate import batches_until, rounds_until, simulate_batches
from dpjax.study.sweep import planned

# After this many seconds, no further program is measured. The others count as the mean of the
# measured ones of their learner, in proportion to the product of their sizes.
_BUDGET = 3.0
# The number of timed rounds grows fourfold until a block takes this many seconds.
_ENOUGH, _ENOUGH_BY_BATCHES = 0.05, 0.3
_LANES = 256  # trials of a timed block that is played by batches, at least
# The time of play by batches counts as linear in the number of rounds if the last step added at
# least this share of what linear growth between the first and the last number of rounds would add.
_LINEAR = 0.9


class Cost(NamedTuple):
    """The estimated run time of a study on this machine."""

    programs: int
    rounds: float  # rounds x trials of all cells
    compiling: float  # seconds to trace and compile all programs that are not cached on disk
    playing: float  # seconds to play them

    @property
    def seconds(self) -> float:
        """Seconds to compile and to play.

        Examples:
          >>> dpjax.study.Cost(programs=1, rounds=64.0, compiling=0.5, playing=1.5).seconds
          2.0
        """
        return self.compiling + self.playing

    def __str__(self):
        return (
            f"{self.programs} programs, {self.rounds:.2g} rounds x trials, about "
            f"{duration(self.seconds)} here, of which {duration(self.compiling)} for compiling"
        )


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} seconds" if seconds < 9.95 else f"{seconds:.0f} seconds"


class _Speed(NamedTuple):
    """How fast a program is."""

    tracing: float  # seconds
    compiling: float  # seconds
    # Seconds of a block for each trial in it: of the first round, of each further round, and of
    # each doubling of the number of rounds. The first is extrapolated if the last is not 0.
    start: float
    round: float
    doubling: float

    def of_size(self, ratio: float) -> "_Speed":
        """The speed of a program whose arrays have other sizes, in this ratio."""
        return _Speed(*self[:2], *(ratio * part for part in self[2:]))

    def seconds(self, rounds: int) -> float:
        """The time of a block for each trial in it."""
        return max(0.0, self.start + self.round * (rounds - 1) + self.doubling * math.log2(rounds))


def cost(study: Any) -> Cost:
    """Estimate the run time of a study; see :meth:`dpjax.Study.cost`."""
    jax.jit(jnp.negative)(0.0)  # The first program of a process takes longer.
    begin = time.perf_counter()
    programs = study.programs
    kinds = [str(each._replace(fixed={n: i for n, i in each.fixed.items() if n != "horizon"}))
             for each in programs]  # fmt: skip
    first = dict(zip(reversed(kinds), reversed(programs), strict=True))
    # Run times differ most between learners, so the largest program of each is measured first.
    order = sorted(dict.fromkeys(kinds), key=lambda kind: -_size(first[kind]))
    names = [first[kind].learner for kind in order]
    turns = {kind: names[:i].count(names[i]) for i, kind in enumerate(order)}
    known: dict[str, _Speed] = {}
    for kind in sorted(turns, key=turns.__getitem__):
        spent = time.perf_counter() - begin
        if not known or spent * (1.0 + 1.0 / len(known)) < _BUDGET:
            known[kind] = _measured(study, first[kind])
    rounds, playing, each = 0.0, 0.0, []
    for program, kind in zip(programs, kinds, strict=True):
        size = _size(program)
        alike = [
            speed.of_size(size / _size(first[name]))
            for name, speed in known.items()
            if first[name].learner == program.learner
        ]
        speed = known.get(kind) or _Speed(*np.mean(alike or [*known.values()], axis=0).tolist())
        each.append(speed)
        horizon, (points, seeds) = program.first()[0].horizon, _block(study, program)
        blocks = -(-program.size // points) * -(-study.trials // seeds)
        of_block = points * seeds * speed.seconds(horizon)
        playing += -(-blocks // at_once(None)) * of_block
        rounds += program.size * study.trials * horizon
    threads = min(at_once(None), len(first))
    # Programs that differ only in their horizon usually share an executable.
    shared = dict(zip(kinds, each, strict=True)).values()
    compiling = sum(speed.tracing for speed in each)
    compiling += sum(speed.compiling for speed in shared) / threads
    return Cost(len(programs), rounds, compiling, playing)


def _size(program) -> float:
    """The product of a program's sizes, such as arms and dimension, without its horizon."""
    sizes = {name: size for name, size in program.values.items() if isinstance(size, int)}
    return float(np.prod([size for name, size in sizes.items() if name != "horizon"]))


def _block(study, program) -> tuple[int, int]:
    return block_shape(program.size, study.trials, None, None)


def _measured(study, program) -> _Speed:
    """Traces, compiles and times a program."""
    learner, environment = program.first()
    play = study._play(learner, environment)
    game, points, key = program.game(), program.points(), study.prng_key
    begin = time.perf_counter()
    plan = planned(game, points, study.trials, key, play, study.checkpoints, None, None)
    plan = Horizons().lifted(program, plan)
    program.about(plan, {})
    traced = time.perf_counter()
    until = batches_until if play is simulate_batches else rounds_until

    def cell(*arguments):
        *leaves, seed, key, rounds = arguments
        point = jax.tree.unflatten(jax.tree.structure(points), leaves)
        return jax.tree.leaves(until(*game(point), jr.fold_in(key, seed), rounds))

    here, size = platform_of(None), _block(study, program)
    if until is batches_until:  # With fewer trials, more rounds can be timed.
        size = size[0], min(size[1], 1 << (_LANES // size[0]).bit_length())
    rows = np.minimum(np.arange(size[0]), program.size - 1)
    of_block = [leaf[rows] for leaf in jax.tree.leaves(points)]
    seeds = np.arange(size[1], dtype=np.int32)
    count = len(plan.rounds)

    def until_round(last):
        """The same number of checkpoints, with the last one at another round."""
        return (last * np.arange(1, count + 1) // count).astype(np.int32)

    with settings.own():
        first = [leaf[0] for leaf in of_block]
        traced_cell = jax.make_jaxpr(cell)(*first, seeds[0], key, until_round(1))
        compiled = compile_for(
            here, block_function(traced_cell, here.isolate_draws),
            (of_block, seeds, (key, until_round(1))), (False, True, False),
        )  # fmt: skip
        compiling = time.perf_counter() - traced
        path = executables.path_of(plan.traced, plan.block, None)
        threads = 1 if takes_turns(plan.traced.program) else at_once(None)
        blocks = len(plan.corners)

        def run(rounds):
            with settings.own():
                jax.block_until_ready(compiled(of_block, seeds, (key, until_round(rounds))))

        with ThreadPoolExecutor(threads) as pool:

            def seconds(rounds):
                begin = time.perf_counter()
                list(pool.map(run, [rounds] * min(threads, blocks)))
                return time.perf_counter() - begin

            seconds(1)
            played, times = [1], [min(seconds(1), seconds(1))]
            enough = _ENOUGH if until is rounds_until else _ENOUGH_BY_BATCHES
            while times[-1] < enough and played[-1] < learner.horizon:
                played.append(min(4 * played[-1], learner.horizon))
                times.append(seconds(played[-1]))
            times[-1] = min(times[-1], seconds(played[-1]))
    each_trial = at_once(None) / threads / (size[0] * size[1])
    return _Speed(
        traced - begin,
        0.0 if path is not None and path.exists() else compiling,
        *(each_trial * part for part in _growth(played, times, until is rounds_until)),
    )


def _growth(rounds, times, linear) -> tuple[float, float, float]:
    """(start, round, doubling) of a :class:`_Speed`.

    Args:
      rounds, times: increasing numbers of rounds, of which the first is 1, and their seconds.
      linear: whether the time is known to grow linearly.
    """
    if not linear and len(rounds) > 2:
        grown, by_round = times[-1] - times[-2], (times[-1] - times[0]) / (rounds[-1] - rounds[0])
        if grown < _LINEAR * by_round * (rounds[-1] - rounds[-2]):
            doubling = max(0.0, grown) / np.log2(rounds[-1] / rounds[-2])
            return times[-1] - doubling * np.log2(rounds[-1]), 0.0, doubling
    by_round = max(0.0, times[-1] - times[0]) / max(1, rounds[-1] - 1)
    return times[0], by_round, 0.0
