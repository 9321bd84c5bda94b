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
from dpjax.store import check
from dpjax.store.opening import existing
from dpjax.study.horizons import Horizons
from dpjax.study.programs import named

# No program is compiled after the first share of the time. After the second one, no learner that is
# measured in one program is measured in another. All times are in seconds.
_COMPILING, _FURTHER = 0.85, 0.4
# The number of timed rounds grows by this factor until a block takes so long. Play by batches is
# timed up to the horizon if there is time, since a learner that stops makes its time bounded.
_STEP, _ENOUGH = 4, 0.02
_SLOW = 0.2  # A shorter run is timed twice.
_ENTRIES = 2**22  # entries of the largest array of a timed block, at most
# A guess above so many seconds is worth a measurement. It counts these seconds for each program,
# and for each entry of the learner's state, in each round of a trial or each of its batches.
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

    programs: int  # programs with trials that the store lacks
    rounds: float  # rounds x trials to play
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
            about = "at least"
            more = f" (not timed, and possibly slower: {', '.join(self.unmeasured)})"
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


def cost(study: Any, seconds: float, store: Any = None) -> Cost:
    """Estimate the run time of a study; see :meth:`dpjax.Study.cost`."""
    begin = time.perf_counter()
    jax.jit(jnp.negative)(0.0)  # The first program of a process takes longer.
    counts = {program.folder: missing(study, program, store) for program in study.programs}
    programs = [program for program in study.programs if counts[program.folder]]
    # Programs that differ only in their horizon usually share an executable.
    kinds = [str(each._replace(fixed={n: i for n, i in each.fixed.items() if n != "horizon"}))
             for each in programs]  # fmt: skip
    first = dict(zip(reversed(kinds), reversed(programs), strict=True))
    known = _measured(study, first, store, begin, seconds)
    rounds, playing, tracing, compiling = 0.0, 0.0, 0.0, {}
    for program, kind in zip(programs, kinds, strict=True):
        # A program that was not traced is in proportion to those of its learner. If there are
        # none, it counts as the fastest of the others.
        own = [known[kind]] if kind in known else [
            each for each in known.values() if each.program.learner == program.learner]  # fmt: skip
        horizon, count = program.first()[0].horizon, counts[program.folder]
        speeds = [(each.tracing, each.compiling, each.seconds(horizon) * scale)
                  for each in own or known.values()
                  for scale in [_size(program) / _size(each.program) if own else 1.0]]  # fmt: skip
        speed = np.array(speeds, np.float64)
        traced, compiling[kind], of_trial = (speed.mean(0) if own else speed.min(0)).tolist()
        of_block = math.prod(_block(study, program))
        playing += -(-count // (of_block * at_once(None))) * of_block * of_trial
        tracing += traced
        rounds += count * horizon
    threads = max(1, min(at_once(None), len(first)))
    compiled = tracing + sum(compiling.values()) / threads
    timed = {each.program.learner for each in known.values() if each.runs}
    unmeasured = {program.learner for program in programs} - timed
    return Cost(len(programs), rounds, compiled, playing, tuple(sorted(unmeasured)))


def missing(study, program, store) -> int:
    """The number of a program's trials, at all its points, that a store lacks.

    Only finished blocks count as stored. They are not searched for damage.
    """
    stored = None if store is None else existing(program.url(store))
    if stored is None:
        return program.size * study.trials
    stored = stored._replace(points=program.size, seeds=study.trials)
    return sum(
        min(stored.block[0], program.size - point) * min(stored.block[1], study.trials - seed)
        for point, seed in stored.missing(checked=False)
    )


def is_long(study, learners, store) -> bool:
    """Guess in milliseconds whether the cost of a study is worth knowing before it starts.

    Args:
      study: a Study.
      learners: the learner of each program.
      store: that of the study.
    """
    guess, entries = 0.0, {}
    for program, learner in zip(study.programs, learners, strict=True):
        count = missing(study, program, store)
        if program.learner not in entries:
            with named(program):
                state, _ = jax.eval_shape(partial(_returned.first, learner), study.prng_key)
            entries[program.learner] = sum(leaf.size for leaf in jax.tree.leaves(state))
        batches = isinstance(learner, BatchLearner)
        steps = math.log2(learner.horizon) ** 2 if batches else learner.horizon
        guess += _OF_PROGRAM * bool(count) + count * steps * entries[program.learner] * _OF_ENTRY
    return guess > _LONG


def _size(program) -> float:
    """The product of a program's sizes, such as arms and dimension, without its horizon."""
    sizes = {name: size for name, size in program.values.items() if isinstance(size, int)}
    return float(np.prod([size for name, size in sizes.items() if name != "horizon"]))


def _block(study, program) -> tuple[int, int]:
    return block_shape(program.size, study.trials, None, None)


def _measured(study, first, store, begin, seconds) -> dict[str, "_Measurement"]:
    """Measure as many kinds of programs as the seconds allow, and estimate the others.

    Run times differ most between learners, so the largest program of each learner comes first.

    Args:
      study: a Study.
      first: the kinds of its programs, and the first program of each.
      store: that of the study.
      begin: the time of the clock at the start.
      seconds: the time until the answer.
    """
    order = sorted(first, key=lambda kind: (-_size(first[kind]), kind))
    names = [first[kind].learner for kind in order]
    turns = {kind: names[:i].count(names[i]) for i, kind in enumerate(order)}
    found: dict[str, _Measurement] = {}
    jobs, last, limit = [], begin + _COMPILING * seconds, begin + 0.95 * seconds
    pool = ThreadPoolExecutor(at_once(None))
    for kind in sorted(turns, key=turns.__getitem__):
        latest = begin + _FURTHER * seconds if turns[kind] else last
        if not found or time.perf_counter() < latest:
            found[kind] = _Measurement(study, first[kind], store)
            jobs.append(pool.submit(found[kind].compile, latest))
    for job in wait(jobs, max(0.0, last - time.perf_counter())).done:
        job.result()
    pool.shutdown(wait=False, cancel_futures=True)  # A thread that still compiles is left alone.
    for i, each in enumerate(found.values()):  # Programs are timed when nothing else runs.
        now = time.perf_counter()
        each.play(now + (limit - now) / (len(found) - i))
    measured = [*found.values()]
    compiled = [(each.compiling, each.equations) for each in measured if each.compiling]
    of_equation = np.divide(*np.sum(compiled, axis=0)) if compiled else _EQUATION
    rates = [(each.of_operation, each.program.learner) for each in measured if each.runs]
    for each in measured:
        each.compiling = each.compiling or of_equation * each.equations
        if time.perf_counter() < limit and each.is_kept:
            each.compiling = 0.0
        # Most of the time of a small program is that of its start, so its rate is no lower bound.
        own = [rate for rate, learner in rates if learner == each.program.learner]
        each.assumed = min(own or [_OPERATION, *(rate for rate, _ in rates)])
    return found


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

    assumed = _OPERATION  # seconds to play an operation of a trial, if the program is not timed
    run: Callable | None = None  # plays a number of rounds, once it is compiled

    def __init__(self, study, program, store):
        self.study, self.program, key = study, program, study.prng_key
        self.compiling: float | None = None  # seconds
        self.runs: list[tuple[int, float]] = []  # (rounds, seconds for a trial of a block)
        begin = time.perf_counter()
        learner, _ = program.first()
        of_point = time.perf_counter() - begin
        points = jax.tree.map(lambda leaf: leaf[:1], program.points())
        self.plan = study._plan(program, points=points)
        if store is not None:
            every = self.plan.privacy * program.size
            whole = self.plan._replace(points=program.points(), count=program.size, privacy=every)
            check(program.url(store), whole)
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
        run = self.run
        if run is None:
            return
        by_turns = takes_turns(self.plan.traced.program)
        # A program that decomposes matrices uses all cores. The others run at once, on one each.
        of_trial = (at_once(None) if by_turns else 1) / math.prod(self.size)

        def seconds(rounds):
            with settings.own():
                begin = time.perf_counter()
                jax.block_until_ready(run(rounds))
                return time.perf_counter() - begin

        runs, rounds, taken = [], 1, 0.0
        while time.perf_counter() + _STEP * taken < deadline:
            taken = seconds(rounds)
            if taken < _SLOW:
                taken = min(taken, seconds(rounds))
            runs.append((rounds, of_trial * taken))
            enough = rounds > 1 and taken >= _ENOUGH
            if rounds == self.horizon or (enough and not self.by_batches):
                break
            rounds = min(_STEP * rounds, self.horizon)
        # Most of a shorter run is the time to start it.
        if runs and (runs[-1][0] == self.horizon or (len(runs) > 1 and taken >= _ENOUGH)):
            self.runs = runs

    @property
    def of_operation(self) -> float:
        """Seconds for each operation of a trial, of a program that was timed."""
        assumed = _extrapolated([(1, self.operations)], self.horizon, not self.by_batches)
        return self.seconds(self.horizon) / assumed

    def seconds(self, rounds) -> float:
        """Seconds of a block for each trial in it."""
        runs = self.runs or [(1, self.assumed * self.operations)]
        return _extrapolated(runs, rounds, not self.by_batches)


def _extrapolated(runs, rounds, linear) -> float:
    """The time of a number of rounds.

    Args:
      runs: (rounds, time), with an increasing number of rounds, first 1.
      rounds: the number of rounds.
      linear: whether the time is known to grow linearly.
    """
    (_, begin), (last, end) = runs[0], runs[-1]
    if len(runs) == 1:  # Nearly all of the time is that of the round.
        return begin * (rounds if linear else 1.0 + math.log2(rounds))
    slope = max(0.0, end - begin) / (last - 1)
    before, time_before = runs[-2]
    grown = end - time_before
    if linear or len(runs) == 2 or grown >= _LINEAR * slope * (last - before):
        return begin + slope * (rounds - 1)
    return max(0.0, end + max(0.0, grown) * math.log2(rounds / last) / math.log2(last / before))
