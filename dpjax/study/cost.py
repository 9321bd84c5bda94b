"""Estimate within five seconds how long a study takes on this machine.

Each measured program is compiled with the number of rounds as an argument. It is timed over more
and more rounds, until the time is long enough to extrapolate. The time of play by batches often
grows with the logarithm of the number of rounds. The time of a program that could not be compiled
in time is bounded from below by the number of its operations.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.combinators import _returned
from dpjax.core import BatchLearner
from dpjax.core._versions import jaxprs_in_params
from dpjax.engine import executables, settings
from dpjax.engine.blocks import at_once, block_shape, halved
from dpjax.engine.compile import block_function, compile_for, platform_of
from dpjax.engine.compute import takes_turns
from dpjax.engine.evaluate import equations
from dpjax.game.batches import batches_until, simulate_batches
from dpjax.game.play import rounds_until
from dpjax.study.horizons import Horizons
from dpjax.study.programs import named

# No program is compiled after the first share of the time. After the second one, no learner that is
# measured in one program is measured in another.
_COMPILING, _FURTHER = 0.85, 0.4
# The number of timed rounds grows by this factor until a block takes this many seconds.
_STEP, _ENOUGH, _ENOUGH_BY_BATCHES = 4, 0.02, 0.3
# A first run that takes this many seconds counts, although it is slower than the others.
_SLOW = 0.2
_LANES = 256  # trials of a timed block that is played by batches, at least
_ENTRIES = 2**22  # entries of the largest array of a timed block, at most
# A guess above so many seconds is worth a measurement. It counts these seconds for each program,
# and for each round of a trial these seconds for each entry of the learner's state.
_LONG, _OF_PROGRAM, _OF_ENTRY = 15.0, 0.4, 1e-9
# Seconds to compile an equation of a traced program, and to play an operation of a trial, if no
# program could be measured in time. Measured programs took 2e-3 to 2e-2, and 6e-12 to 8e-10.
_EQUATION, _OPERATION = 4e-3, 1e-10
# Operations for each number that a primitive returns, if the work is not that of one operation.
_DRAW, _DECOMPOSITIONS = 100, {"cholesky": 1, "triangular_solve": 1, "lu": 1, "eigh": 10, "svd": 20}
# The time of play by batches counts as linear in the number of rounds if the last step added at
# least this share of what linear growth between the first and the last number of rounds would add.
_LINEAR = 0.9


class Cost(NamedTuple):
    """The estimated run time of a study on this machine."""

    programs: int
    rounds: float  # rounds x trials of all cells
    compiling: float  # seconds to trace and compile all programs that are not cached on disk
    playing: float  # seconds to play them
    # Learners that were not timed. Their operations were counted, and they may take longer.
    unmeasured: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds to compile and to play.

        Examples:
          >>> dpjax.study.Cost(programs=1, rounds=64.0, compiling=0.5, playing=1.5).seconds
          2.0
        """
        return self.compiling + self.playing

    def __str__(self):
        about, more = "about", ""
        if self.unmeasured:
            names = ", ".join(self.unmeasured)
            about, more = "at least", f" (not timed, and possibly slower: {names})"
        return (
            f"{self.programs} programs, {self.rounds:.2g} rounds x trials, {about} "
            f"{duration(self.seconds)} here, of which {duration(self.compiling)} for "
            f"compiling{more}"
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


def cost(study: Any, seconds: float) -> Cost:
    """Estimate the run time of a study; see :meth:`dpjax.Study.cost`."""
    begin = time.perf_counter()
    jax.jit(jnp.negative)(0.0)  # The first program of a process takes longer.
    programs = study.programs
    kinds = [str(each._replace(fixed={n: i for n, i in each.fixed.items() if n != "horizon"}))
             for each in programs]  # fmt: skip
    first = dict(zip(reversed(kinds), reversed(programs), strict=True))
    known, timed = _speeds(study, first, begin, seconds)
    unmeasured = {each.learner for each in programs} - timed
    rounds, playing, speeds = 0.0, 0.0, []
    for program, kind in zip(programs, kinds, strict=True):
        speed = known.get(kind)
        if speed is None:
            size = _size(program)
            alike = [
                other.of_size(size / _size(first[name]))
                for name, other in known.items()
                if first[name].learner == program.learner
            ]
            # If no program of the learner was traced, it counts as the fastest of the others.
            speed = np.mean(alike, axis=0) if alike else np.min([*known.values()], axis=0)
            speed = _Speed(*speed.tolist())
        speeds.append(speed)
        horizon, (points, seeds) = program.first()[0].horizon, _block(study, program)
        blocks = -(-program.size // points) * -(-study.trials // seeds)
        of_block = points * seeds * speed.seconds(horizon)
        playing += -(-blocks // at_once(None)) * of_block
        rounds += program.size * study.trials * horizon
    threads = min(at_once(None), len(first))
    # Programs that differ only in their horizon usually share an executable.
    shared = dict(zip(kinds, speeds, strict=True)).values()
    compiling = sum(speed.tracing for speed in speeds)
    compiling += sum(speed.compiling for speed in shared) / threads
    return Cost(len(programs), rounds, compiling, playing, tuple(sorted(unmeasured)))


def is_long(study, learners) -> bool:
    """Guess in milliseconds whether the cost of a study is worth knowing before it starts.

    Args:
      study: a Study.
      learners: the learner of each program.
    """
    guess, entries = _OF_PROGRAM * len(learners), {}
    for program, learner in zip(study.programs, learners, strict=True):
        if program.learner not in entries:
            with named(program):
                state, _ = jax.eval_shape(partial(_returned.first, learner), study.prng_key)
            entries[program.learner] = sum(leaf.size for leaf in jax.tree.leaves(state))
        batches = isinstance(learner, BatchLearner)
        rounds = math.log2(learner.horizon) ** 2 if batches else learner.horizon
        guess += program.size * study.trials * rounds * entries[program.learner] * _OF_ENTRY
    return guess > _LONG


def _size(program) -> float:
    """The product of a program's sizes, such as arms and dimension, without its horizon."""
    sizes = {name: size for name, size in program.values.items() if isinstance(size, int)}
    return float(np.prod([size for name, size in sizes.items() if name != "horizon"]))


def _block(study, program) -> tuple[int, int]:
    return block_shape(program.size, study.trials, None, None)


def _speeds(study, first, begin, seconds) -> tuple[dict[str, _Speed], set[str]]:
    """Measure as many kinds of programs as possible as the seconds allow.

    Run times differ most between learners, so the largest program of each learner comes first.

    Args:
      study: a Study.
      first: the kinds of its programs, and the first program of each.
      begin: the time of the clock at the start.
      seconds: the time until the answer.

    Returns:
      The speeds of the kinds that could be traced in time, and the learners that were timed. The
      speed of a program that was not timed is in proportion to its equations and operations.
    """
    order = sorted(first, key=lambda kind: (-_size(first[kind]), kind))
    names = [first[kind].learner for kind in order]
    turns = {kind: names[:i].count(names[i]) for i, kind in enumerate(order)}
    found: dict[str, _Measurement] = {}
    jobs, last, limit = [], begin + _COMPILING * seconds, begin + 0.95 * seconds
    pool = ThreadPoolExecutor(at_once(None))
    for kind in sorted(turns, key=turns.__getitem__):
        latest = begin + _FURTHER * seconds if turns[kind] else last
        if time.perf_counter() < latest:
            found[kind] = _Measurement(study, first[kind])
            jobs.append(pool.submit(found[kind].compile, latest))
    for job in wait(jobs, max(0.0, last - time.perf_counter())).done:
        job.result()
    pool.shutdown(wait=False, cancel_futures=True)  # A thread that still compiles is left alone.
    for each in found.values():  # Programs are timed when nothing else runs.
        each.play(limit)
    kept = {kind for kind, each in found.items()
            if time.perf_counter() < limit and each.is_kept}  # fmt: skip
    compiled = [(each.compiling, each.equations) for each in found.values() if each.compiling]
    of_equation = np.divide(*np.sum(compiled, axis=0)) if compiled else _EQUATION
    rates: dict[str, list[float]] = {}
    for kind, each in found.items():
        if each.runs:
            rates.setdefault(first[kind].learner, []).append(each.of_operation)
    # Most of the time of a small program is that of its start, so its rate is no lower bound.
    other = min([_OPERATION, *(min(own) for own in rates.values())])
    speeds = {
        kind: each.speed(of_equation, min(rates.get(first[kind].learner, [other])), kind in kept)
        for kind, each in found.items()
    }
    return speeds, set(rates)


def _operations(jaxpr) -> float:
    """The least number of operations of a traced program.

    The body of a loop that may end at any time counts once, and of branches the cheapest.
    """
    total = 0.0
    for eqn in jaxpr.eqns:
        name, inner = eqn.primitive.name, [*map(_operations, jaxprs_in_params(eqn.params))]
        sizes = [getattr(atom.aval, "size", 1) for atom in (*eqn.invars, *eqn.outvars)]
        if inner:
            total += min(inner) if name == "cond" else eqn.params.get("length", 1) * sum(inner)
        elif name == "dot_general":
            summed = eqn.params["dimension_numbers"][0][0]
            total += sizes[-1] * math.prod(eqn.invars[0].aval.shape[i] for i in summed)
        elif name in _DECOMPOSITIONS:
            rows = max(eqn.invars[0].aval.shape)
            total += _DECOMPOSITIONS[name] * rows * max(sizes)
        else:
            total += (_DRAW if name.startswith("random") else 1) * max(sizes)
    return total


class _Measurement:
    """The measurement of a program, which is traced when it is made."""

    of_trial: float  # seconds of the machine for a trial, of one second of a block

    def __init__(self, study, program):
        self.study, self.program, key = study, program, study.prng_key
        self.compiling: float | None = None  # seconds
        self.run: Callable | None = None  # plays a number of rounds, once it is compiled
        self.runs: list[tuple[int, float]] = []  # (rounds, seconds) of a block
        begin = time.perf_counter()
        learner, _ = program.first()
        of_point = time.perf_counter() - begin
        points = jax.tree.map(lambda leaf: leaf[:1], program.points())
        self.plan = study._plan(program, points=points)
        # Most games are also traced at a second horizon, once for all horizons.
        self.tracing = 1.5 * (time.perf_counter() - begin) + (program.size - 1) * of_point
        self.horizon, self.size, game = learner.horizon, _block(study, program), program.game()
        self.by_batches = self.plan.play is simulate_batches
        until = batches_until if self.by_batches else rounds_until

        def cell(*arguments):
            *leaves, seed, key, rounds = arguments
            point = jax.tree.unflatten(jax.tree.structure(points), leaves)
            return jax.tree.leaves(until(*game(point), jr.fold_in(key, seed), rounds))

        with settings.own():
            point = [leaf[0] for leaf in jax.tree.leaves(points)]
            self.cell = jax.make_jaxpr(cell)(*point, np.int32(0), key, self._until(1))
        outputs = [atom.aval for eqn in equations(self.cell.jaxpr) for atom in eqn.outvars]
        self.equations = len(outputs)
        # Operations of a round; or of all batches of a trial, if rounds were their doublings.
        self.operations = _operations(self.cell.jaxpr)
        self.operations *= (
            math.log2(self.horizon) if self.by_batches else 1.0 / len(self.plan.rounds)
        )
        most = _ENTRIES // max(getattr(aval, "size", 1) for aval in outputs)
        if self.by_batches:  # With fewer trials, more rounds can be timed.
            most = min(most, _LANES)
        while math.prod(self.size) > most and (smaller := halved(self.size, program.size)):
            self.size = smaller

    def _until(self, last):
        """As many checkpoints as the study has, with the last one at this round."""
        count = len(self.plan.rounds)
        return (last * np.arange(1, count + 1) // count).astype(np.int32)

    @property
    def is_kept(self) -> bool:
        """Whether the executable of the study is on disk."""
        plan = Horizons().lifted(self.program, self.plan)
        path = executables.path_of(plan.traced, _block(self.study, self.program), None)
        return path is not None and path.exists()

    def compile(self, latest) -> None:
        """Compile the program, unless it is too late."""
        begin = time.perf_counter()
        if begin > latest:
            return
        here, key = platform_of(None), self.study.prng_key
        rows = np.minimum(np.arange(self.size[0]), self.program.size - 1)
        points = [leaf[rows] for leaf in jax.tree.leaves(self.program.points())]
        seeds = np.arange(self.size[1], dtype=np.int32)
        with settings.own():
            compiled = compile_for(
                here, block_function(self.cell, here.isolate_draws),
                (points, seeds, (key, self._until(1))), (False, True, False),
            )  # fmt: skip
        self.compiling = time.perf_counter() - begin
        self.run = lambda rounds: compiled(points, seeds, (key, self._until(rounds)))

    def play(self, deadline) -> None:
        """Time the compiled program, without runs that would end after the deadline."""
        if self.run is None or time.perf_counter() > deadline:
            return
        by_turns = takes_turns(self.plan.traced.program)
        # A program that decomposes matrices uses all cores. The others run at once, on one each.
        self.of_trial = (at_once(None) if by_turns else 1) / math.prod(self.size)

        def seconds(rounds):
            with settings.own():
                begin = time.perf_counter()
                jax.block_until_ready(self.run(rounds))
                return time.perf_counter() - begin

        rounds, taken = 1, seconds(1)
        if taken < _SLOW:
            taken = min(seconds(1), seconds(1))
        runs = [(1, taken)]
        enough = _ENOUGH_BY_BATCHES if self.by_batches else _ENOUGH
        while rounds < self.horizon and (rounds == 1 or taken < enough):
            if time.perf_counter() + _STEP * taken > deadline:
                if taken < enough or rounds == 1:
                    return  # Most of so short a run is the time to start it.
                break
            rounds = min(_STEP * rounds, self.horizon)
            taken = seconds(rounds)
            if taken < _SLOW and (taken >= enough or rounds == self.horizon):
                taken = min(taken, seconds(rounds))
            runs.append((rounds, taken))
        self.runs = runs

    @property
    def of_operation(self) -> float:
        """Seconds for each operation of a trial, of a program that was timed."""
        assumed = _Speed(0.0, 0.0, *self._growth([(1, self.operations)]))
        timed = self.speed(0.0, 0.0, True)
        return timed.seconds(self.horizon) / assumed.seconds(self.horizon)

    def _growth(self, runs):
        return _growth(*zip(*runs, strict=True), not self.by_batches)

    def speed(self, of_equation, of_operation, is_kept) -> _Speed:
        """The speed of the program.

        Args:
          of_equation: seconds to compile an equation, if the program is not compiled yet.
          of_operation: seconds to play an operation of a trial, if the program was not timed.
          is_kept: whether the executable of the study is on disk.
        """
        compiling = self.compiling or of_equation * self.equations
        if self.runs:
            parts = [self.of_trial * part for part in self._growth(self.runs)]
        else:
            parts = self._growth([(1, of_operation * self.operations)])
        return _Speed(self.tracing, 0.0 if is_kept else compiling, *parts)


def _growth(rounds, times, linear) -> tuple[float, float, float]:
    """(start, round, doubling) of a :class:`_Speed`.

    Args:
      rounds, times: increasing numbers of rounds, of which the first is 1, and their seconds.
      linear: whether the time is known to grow linearly.
    """
    if len(rounds) == 1:  # Nearly all of the time is that of the round.
        return times[0], *((times[0], 0.0) if linear else (0.0, times[0]))
    if not linear and len(rounds) > 2:
        grown, by_round = times[-1] - times[-2], (times[-1] - times[0]) / (rounds[-1] - rounds[0])
        if grown < _LINEAR * by_round * (rounds[-1] - rounds[-2]):
            doubling = max(0.0, grown) / np.log2(rounds[-1] / rounds[-2])
            return times[-1] - doubling * np.log2(rounds[-1]), 0.0, doubling
    by_round = max(0.0, times[-1] - times[0]) / max(1, rounds[-1] - 1)
    return times[0], by_round, 0.0
