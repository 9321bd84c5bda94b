"""Estimate within five seconds how long a study takes on this machine.

Each timed program is compiled with the number of rounds as an argument. It is timed over more and
more rounds, until the time is long enough to extrapolate. The time of play by batches often grows
with the logarithm of the number of rounds.
"""

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax.engine import settings
from dpjax.engine.blocks import at_once, block_shape
from dpjax.engine.compile import block_function, compile_for, platform_of
from dpjax.engine.compute import takes_turns
from dpjax.game.batches import batches_until, simulate_batches
from dpjax.game.play import rounds_until
from dpjax.store import check
from dpjax.store.opening import existing
from dpjax.study.programs import StudyProgram

if TYPE_CHECKING:
    from dpjax.study.study import Study

# Shares of the time. After the first one, no second program of a learner is timed.
# No program is compiled after the second one, and none is timed after the third.
_FURTHER, _COMPILING, _TIMING = 0.4, 0.85, 0.95
# The number of timed rounds grows by this factor until a block takes so long. Play by batches is
# timed up to the horizon if there is time, since a learner that stops makes its time bounded.
_STEP, _ENOUGH = 4, 0.02  # seconds
_SLOW = 0.2  # seconds; a shorter run is timed twice.
# The time of play by batches counts as linear in the number of rounds if the last step added at
# least this share of what linear growth between the first and the last number of rounds would add.
_LINEAR = 0.9


class Cost(NamedTuple):
    """The estimated run time of a study on this machine."""

    programs: int  # programs with trials that the store lacks
    rounds: float  # rounds x trials to play
    compiling: float  # seconds to trace and compile all programs, if none is cached on disk
    playing: float  # seconds to play them
    # Learners that were not timed. Each counts as the fastest of the others. If there are none,
    # only the time that was spent on compiling counts.
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
        whole, compiling = (timedelta(0, math.ceil(t)) for t in (self.seconds, self.compiling))
        return (
            f"{self.programs} programs, {self.rounds:.2g} rounds x trials, {about} {whole} here, "
            f"of which {compiling} for compiling{more}"
        )


def cost(study: "Study", seconds: float, store: str | os.PathLike | None = None) -> Cost:
    """Estimate the run time of a study; see :meth:`dpjax.Study.cost`."""
    begin = time.perf_counter()
    jax.jit(jnp.negative)(0.0)  # The first program of a process takes longer.
    counts = [(program, missing(study, program, store)) for program in study.programs]
    counts = [(program, count) for program, count in counts if count]
    firsts: dict[str, StudyProgram] = {}
    for program, _ in counts:
        firsts.setdefault(_kind(program), program)
    samples = _sampled(study, firsts, store, begin, seconds)
    rounds = playing = tracing = 0.0
    compiling = {}
    for program, count in counts:
        # A program that was not timed is in proportion to those of its learner. If there are none,
        # it counts as the fastest of the others.
        kind, horizon = _kind(program), program.first()[0].horizon
        alike = [samples[kind]] if kind in samples else [
            sample for sample in samples.values() if sample.program.learner == program.learner
        ]  # fmt: skip
        estimates = [
            (sample.tracing, sample.compiling, sample.seconds(horizon) * scale)
            for sample in alike or samples.values()
            for scale in [_size(program) / _size(sample.program) if alike else 1.0]
        ]
        choose = np.mean if alike else np.min
        trace, compiling[kind], trial = choose(estimates or np.zeros((1, 3)), axis=0).tolist()
        block = math.prod(_block(study, program))
        playing += -(-count // (block * at_once(None))) * block * trial
        tracing += trace
        rounds += count * horizon
    threads = max(1, min(at_once(None), len(firsts)))
    timed = {sample.program.learner for sample in samples.values()}
    unmeasured = {program.learner for program, _ in counts} - timed
    compiled = tracing + sum(compiling.values()) / threads
    if counts and not samples:
        compiled = time.perf_counter() - begin
    return Cost(len(counts), rounds, compiled, playing, tuple(sorted(unmeasured)))


def missing(study: "Study", program: StudyProgram, store: str | os.PathLike | None) -> int:
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


def _kind(program) -> str:
    """The name of a program without its horizon: such programs usually share an executable."""
    fixed = {name: i for name, i in program.fixed.items() if name != "horizon"}
    return str(program._replace(fixed=fixed))


def _size(program) -> float:
    """The product of a program's sizes, such as arms and dimension, without its horizon."""
    return float(np.prod([size for name, size in program.values.items()
                          if isinstance(size, int) and name != "horizon"]))  # fmt: skip


def _block(study, program) -> tuple[int, int]:
    return block_shape(program.size, study.trials, None, None)


def _sampled(study, firsts, store, begin, seconds) -> dict[str, "_Sample"]:
    """Time as many kinds of programs as the seconds allow.

    Run times differ most between learners, so the largest program of each learner comes first.

    Args:
      study: a Study.
      firsts: the first program of each kind.
      store: that of the study.
      begin: the time of the clock at the start.
      seconds: the time until the answer.
    """
    order = sorted(firsts, key=lambda kind: (-_size(firsts[kind]), kind))
    names = [firsts[kind].learner for kind in order]
    turns = {kind: names[:i].count(names[i]) for i, kind in enumerate(order)}
    latest, limit = begin + _COMPILING * seconds, begin + _TIMING * seconds
    samples: dict[str, _Sample] = {}
    jobs = []
    pool = ThreadPoolExecutor(at_once(None))
    for kind in sorted(order, key=turns.__getitem__):
        share = _FURTHER if turns[kind] else _COMPILING
        if not samples or time.perf_counter() < begin + share * seconds:
            samples[kind] = _Sample(study, firsts[kind], store)
            jobs.append(pool.submit(samples[kind].compile, latest))
    for job in wait(jobs, max(0.0, latest - time.perf_counter())).done:
        job.result()
    pool.shutdown(wait=False, cancel_futures=True)  # A thread that still compiles is left alone.
    for i, sample in enumerate(samples.values()):  # Programs are timed when nothing else runs.
        now = time.perf_counter()
        sample.play(now + (limit - now) / (len(samples) - i))
    return {kind: sample for kind, sample in samples.items() if sample.runs}


class _Sample:
    """A program that is traced when the sample is made, then compiled and timed."""

    run: Callable | None = None  # plays a number of rounds, once it is compiled
    compiling = 0.0

    def __init__(self, study, program, store):
        self.study, self.program, self.block = study, program, _block(study, program)
        self.runs: list[tuple[int, float]] = []  # (rounds, seconds for a trial of a block)
        begin = time.perf_counter()
        self.horizon = program.first()[0].horizon
        building = time.perf_counter() - begin
        points = jax.tree.map(lambda leaf: leaf[:1], program.points())
        self.plan = study._plan(program, points=points)
        if store is not None:
            every = self.plan.privacy * program.size
            whole = self.plan._replace(points=program.points(), count=program.size, privacy=every)
            check(program.url(store), whole)
        # Most games are also traced at a second horizon, once for all horizons.
        self.tracing = 1.5 * (time.perf_counter() - begin) + (program.size - 1) * building
        self.by_batches = self.plan.play is simulate_batches

    def compile(self, latest) -> None:
        """Compile the program, unless it is too late."""
        begin = time.perf_counter()
        if begin > latest:
            return
        program, key, count = self.program, self.study.prng_key, len(self.plan.rounds)
        until = batches_until if self.by_batches else rounds_until
        game, every = program.game(), program.points()

        def cell(*arguments):
            *leaves, seed, key, rounds = arguments
            point = jax.tree.unflatten(jax.tree.structure(every), leaves)
            return jax.tree.leaves(until(*game(point), jr.fold_in(key, seed), rounds))

        def checkpoints(last):
            """As many checkpoints as the study has, with the last one at this round."""
            return (last * np.arange(1, count + 1) // count).astype(np.int32)

        rows = np.minimum(np.arange(self.block[0]), program.size - 1)
        points = [leaf[rows] for leaf in jax.tree.leaves(every)]
        seeds, platform = np.arange(self.block[1], dtype=np.int32), platform_of(None)
        with settings.of_sweep():
            first = [leaf[0] for leaf in points]
            traced = jax.make_jaxpr(cell)(*first, np.int32(0), key, checkpoints(1))
            compiled = compile_for(
                platform, block_function(traced, platform.isolate_draws),
                (points, seeds, (key, checkpoints(1))), (False, True, False),
            )  # fmt: skip
        self.compiling = time.perf_counter() - begin
        self.run = lambda rounds: compiled(points, seeds, (key, checkpoints(rounds)))

    def play(self, deadline) -> None:
        """Time the compiled program, without runs that would end after the deadline."""
        run = self.run
        if run is None:
            return
        by_turns = takes_turns(self.plan.traced.program)
        # A program that decomposes matrices uses all cores. The others run at once, on one each.
        of_trial = (at_once(None) if by_turns else 1) / math.prod(self.block)

        def seconds(rounds):
            with settings.of_sweep():
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

    def seconds(self, rounds) -> float:
        """Seconds of a block for each trial in it."""
        return _extrapolated(self.runs, rounds, not self.by_batches)


def _extrapolated(runs, rounds, linear) -> float:
    """The time of a number of rounds.

    Args:
      runs: (rounds, time), with an increasing number of rounds, first 1.
      rounds: the number of rounds.
      linear: whether the time is known to grow linearly.
    """
    (_, begin), (last, end) = runs[0], runs[-1]
    if len(runs) == 1:
        return begin
    slope = max(0.0, end - begin) / (last - 1)
    before, time_before = runs[-2]
    growth = end - time_before
    if linear or len(runs) == 2 or growth >= _LINEAR * slope * (last - before):
        return begin + slope * (rounds - 1)
    return max(0.0, end + max(0.0, growth) * math.log2(rounds / last) / math.log2(last / before))
