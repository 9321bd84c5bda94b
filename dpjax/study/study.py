"""Studies: learners, environments and a grid, played by as few compiled programs as possible."""

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import jax
import numpy as np
import xarray

from dpjax.core import Array, BatchLearner, Environment, Learner, _check
from dpjax.engine import devices
from dpjax.engine.blocks import Plan
from dpjax.engine.compute import compiled_ahead
from dpjax.engine.progress import Bar
from dpjax.game.batches import simulate_batches
from dpjax.game.checkpoints import Checkpoints, checkpoint_rounds
from dpjax.game.play import simulate
from dpjax.store import check, is_empty
from dpjax.store.layout import arrays_of
from dpjax.study import cost as costs
from dpjax.study import grid as grids
from dpjax.study import halving, in_python, kept, spread
from dpjax.study.horizons import Horizons
from dpjax.study.labelled import Played, labelled, layout
from dpjax.study.programs import (
    TEXTS,
    Part,
    StudyProgram,
    check_taken,
    columns,
    named,
    programs_of,
)
from dpjax.study.sweep import planned, played


@dataclass(frozen=True)
class Study:
    """Learners x environments x a grid, with the same trials in each cell.

    A factory receives the values of the grid that it names as arguments. A learner that does not
    take an axis is played once, and its results are repeated at every value of that axis. Trial
    ``i`` faces the same nature in every cell, so learners and settings are compared trial by trial.

    An entry of the grid is one value or a list of values. A list of numbers that contains a float
    is traced: one compiled program serves all values. Whole numbers, strings and objects are
    static: each value is compiled separately, except that values of ``horizon`` share a compiled
    program if no array shape of the game depends on them. A dict from labels to values names
    objects, or makes floats static. A dict of float arrays of one shape is traced.

    Args:
      learners: factories of learners: a dict from names to factories, a list of functions, or one.
      environments: factories of environments, likewise, or Environments themselves.
      grid: a dict from names of arguments to values.
      trials: number of trials per cell.
      key: a PRNG key, or a seed, a whole number from 0 to 2^32 - 1.
      checkpoints: the number of rounds at which regret is recorded, or these rounds themselves. A
        number is spaced evenly, or geometrically from round 100 if the horizon is at least 10^6.
      play: ``simulate`` or ``simulate_batches``, for all games. By default a game is played by
        batches if its learner and its environment allow it, and otherwise round by round.

    Raises:
      ValueError, TypeError: no factory takes an axis, the grid lacks an argument that a factory
        requires, a learner does not fit an environment, or a value has a wrong type.

    Examples:
      >>> made = dpjax.Study(
      ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
      ...     {"horizon": [8, 16], "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
      >>> [program.size for program in made.programs]  # traced for each horizon, compiled once
      [2, 2]
    """

    learners: Any
    environments: Any
    grid: Mapping[str, Any] = field(default_factory=dict)
    trials: int = 100
    key: Array | int = 0
    checkpoints: Checkpoints = 20
    play: Callable | None = None
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self):
        _check.size(1, trials=self.trials)
        _check.key_or_seed(key=self.key)
        if not isinstance(self.grid, Mapping):
            raise TypeError(
                f"grid must be a dict from names to values, got {type(self.grid).__name__}"
            )
        summed = bool(self.parts)
        if not summed:
            learners = grids.named("learners", "learners.exp3", (Learner, BatchLearner),
                                   self.learners)  # fmt: skip
            environments = grids.named("environments", "environments.deterministic",
                                       (Environment,), self.environments)  # fmt: skip
            axes = {name: grids.axis(name, entry) for name, entry in self.grid.items()}
            object.__setattr__(self, "parts", (Part(learners, environments, axes),))
            check_taken(self.parts[0])
        if self.play is not None:
            _check.one_of("simulate", "simulate_batches",
                          play=getattr(self.play, "__name__", self.play))  # fmt: skip
        for program in () if summed else self.programs:  # Parts of a sum are checked already.
            with named(program):
                learner, environment = program.built()[0]
                checkpoint_rounds(learner, environment, self.checkpoints)
                if self.play is simulate_batches and not has_batches(learner, environment):
                    raise ValueError("play: it cannot be played by batches")
        layout(self)  # It refuses cells that belong to two parts.

    def __add__(self, other: "Study") -> "Study":
        """Join two studies. They must have equal trials, key and checkpoints, and no common cell.

        If one of them lacks an axis of the other, its results are repeated at every value of it.
        """
        if not isinstance(other, Study):
            return NotImplemented
        for name in ("trials", "checkpoints", "play"):
            mine, its = getattr(self, name), getattr(other, name)
            if not np.array_equal(mine, its):
                raise ValueError(f"{name}: the studies have {mine} and {its}, and cannot be added")
        if self.prng_key.dtype != other.prng_key.dtype or self.prng_key != other.prng_key:
            raise ValueError("key: the studies have different keys, so their trials are not paired")
        return Study(
            {**_by_name(self, "learners"), **_by_name(other, "learners")},
            {**_by_name(self, "environments"), **_by_name(other, "environments")},
            {**self.grid, **other.grid},
            self.trials, self.key, self.checkpoints, self.play, self.parts + other.parts,
        )  # fmt: skip

    @property
    def prng_key(self) -> Array:
        """The key of all sweeps.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> bool(made.prng_key == jax.random.key(0))
          True
        """
        return _check.key_or_seed(key=self.key)

    @property
    def programs(self) -> list[StudyProgram]:
        """The programs: one per learner, environment and combination of static values.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> [(str(program), program.size) for program in made.programs]
          [('exp3, coins, horizon = 8, arms = 2', 2)]
        """
        return [program for part in self.parts for program in programs_of(part)]

    def run(
        self,
        store: str | os.PathLike | None = None,
        *,
        mesh: jax.sharding.Mesh | None = None,
        chunk: int | None = None,
        progress: bool = True,
        part: tuple[int, int] = (1, 1),
        executor: object = None,
        parts: int | None = None,
    ) -> xarray.Dataset | None:
        """Play the study. While one program is played, threads compile the next ones.

        Args:
          store: a folder or an fsspec URL, in which each program has its own store. A killed run
            continues where it stopped, and stored cells are not played again. :func:`dpjax.open`
            returns the same data from the folder, in any process.
          mesh, chunk: as in :func:`dpjax.sweep`.
          progress: whether to show a bar with the remaining time. Without a terminal or a notebook,
            as in a job's log, it prints a line every 30 seconds.
          part: (i, n) plays the i-th of n parts into the store and returns None. Processes that
            play different parts need no communication. A later call without a part reads all of
            them and plays missing cells.
          executor: plays the study in other processes, which write into the store: a
            ``ProcessPoolExecutor`` that spawns, ``client.get_executor()`` of dask, an executor of
            submitit, or any other with ``submit(function, *arguments)``. If a worker dies, its part
            is submitted again. A study with closures or lambdas needs cloudpickle.
          parts: the number of parts into which an executor's work is divided; by default 16, or the
            number of programs if that is larger. There are at most as many parts as blocks of two
            points and two trials.

        Returns:
          A Dataset with the dimensions learner, environment, those of the grid, trial and round.
          ``regret`` has all of them; ``final_regret`` is the regret at the horizon of each cell.
          The fields of the tally and the report are variables too. Coordinates that begin with
          ``privacy_`` hold the declared privacy of each cell. If several processes share the work,
          it returns None: call ``run`` in one process with the same store to read the data.

        Raises:
          ValueError, OSError: as in :func:`dpjax.sweep`; or a part or an executor has no store.
          TypeError: the study cannot be sent to the workers of an executor.
          RuntimeError: workers that played the same part died four times.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> data = made.run(progress=False)
          >>> {name: data.sizes[name] for name in ("mixing", "trial", "round")}
          {'mixing': 2, 'trial': 4, 'round': 8}
        """
        _check_part(store, part, executor, mesh)
        programs = self.programs
        parts = max(16, len(programs)) if parts is None else _check.size(1, parts=parts)
        # A block has at least two points, unless there is only one, and two trials.
        blocks = sum(-(-program.size // 2) for program in programs) * -(-self.trials // 2)
        parts = min(parts, blocks)
        firsts = [program.first() for program in programs]
        players = [learner for learner, _ in firsts]
        rounds = [program.size * learner.horizon
                  for program, learner in zip(programs, players, strict=True)]  # fmt: skip
        loops = [in_python.is_python(learner) for learner in players]
        if store is not None and any(loops):
            name = programs[loops.index(True)].learner
            raise ValueError(f"store: {name} is a Python class, and a store keeps compiled "
                             "learners only; run it without a store")  # fmt: skip
        if store is not None:
            programs = kept.located(programs, store)

        horizons = Horizons()
        mine = [(program, first, loop, share, self.trials * (share[1] - share[0]) * rounds)
                for program, first, loop, share, rounds in zip(
                    programs, firsts, loops, spread.shares(rounds, part), rounds, strict=True)
                if share[0] < share[1]]  # fmt: skip
        compiled = [program for program, _, loop, *_ in mine if not loop]
        # Only the programs of this part are built at all of their points.
        plans = (
            horizons.lifted(program, self._plan(
                program, chunk, mesh, built=[first] if program.size == 1 else program.built()))
            for program, first, loop, *_ in mine if not loop
        )  # fmt: skip
        checked: list[Plan] = []
        if store is not None:
            # All refusals come before the first write. In an empty folder only the first program is
            # traced here, and the others while it is played.
            checked = [*islice(plans, 1 if is_empty(store) else None)]
            for program, plan in zip(compiled, checked, strict=False):
                check(program.url(store), plan)
            packed = b"" if executor is None else spread.pack(self)
            kept.keep(self, programs, store)
            if executor is not None:
                with Bar(self.trials * sum(rounds), progress) as bar:
                    spread.spread(packed, store, executor, parts, chunk, bar)
        results: list[Played] = []
        best_arms: dict = {}
        needed = (
            (plan, store is None or is_empty(program.url(store)))
            for program, plan in zip(compiled, chain(checked, plans), strict=True)
        )
        with (
            Bar(sum(rounds for *_, rounds in mine), progress) as bar,
            closing(compiled_ahead(needed)) as ahead,
        ):
            end = 0.0
            for program, _, loop, share, rounds_here in mine:
                end += rounds_here
                bar.say(f"{'playing' if loop else 'compiling'} {program}")
                if loop:
                    game = program, self.trials, self.prng_key, self.checkpoints
                    results.append(in_python.play(*game, bar))
                    continue
                plan = next(ahead)
                bar.say(f"playing {program}")
                about = program.about(plan, best_arms)
                result = played(
                    plan, store and program.url(store), bar, partial(dict, about), share
                )
                if result is not None:
                    results.append(Played(program, result.rounds, arrays_of(result[1:]), about))
                bar.skip_to(end)
        if devices.processes(mesh) > 1 or part[1] > 1:
            return None
        return labelled(layout(self), self.trials, results)

    def tune(self, *over: str, confidence: float = 0.95, progress: bool = True) -> xarray.Dataset:
        """Find the best setting by successive halving, without all trials for every setting.

        See :func:`dpjax.study.halving.tune`; ``over`` lists the axes of the settings.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> sorted(made.tune("mixing", progress=False).data_vars)
          ['candidate', 'chosen_mixing', 'final_regret', 'high', 'low', 'mean', 'standard_error']
        """
        return halving.tune(self, list(over), confidence, progress)

    def play_some(
        self,
        program: StudyProgram,
        some: np.ndarray,
        trials: int,
        checkpoints: Checkpoints,
        progress: bool,
    ) -> Played:
        """Play only some points of a program, and return their arrays and declared privacy.

        Args:
          program: one of :attr:`programs`.
          some: (P,) whether each point is played. The other points are NaN.
          trials: number of trials, counted from the first.
          checkpoints, progress: as in :func:`dpjax.sweep`.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> some = np.array([False, True])
          >>> found = made.play_some(made.programs[0], some, 2, [4, 8], progress=False)
          >>> regret = found.arrays["regret"]
          >>> regret.shape, np.isnan(regret).all(axis=(1, 2)).tolist()
          ((2, 2, 2), [True, False])
        """
        points = jax.tree.map(lambda leaf: leaf[some], program.points())
        arguments = {"points": points, "trials": trials, "checkpoints": checkpoints}
        plan = Horizons().lifted(program, self._plan(program, **arguments))
        result: Any = played(plan, None, progress, dict)

        def spread(leaf, empty: Any = np.nan):
            all_points = np.full((len(some), *np.shape(leaf)[1:]), empty)
            all_points[some] = leaf
            return all_points

        arrays = {name: spread(leaf) for name, leaf in arrays_of(result[1:]).items()}
        privacy = {name: spread(column, np.array("" if name in TEXTS else np.nan, object)).tolist()
                   for name, column in columns(plan.privacy).items()}  # fmt: skip
        return Played(program, result.rounds, arrays, {"privacy": privacy})

    def cost(self, seconds: float = 5.0, *, store: str | os.PathLike | None = None) -> costs.Cost:
        """Estimate the run time of this study on this machine.

        It compiles and times the largest program of each learner, as far as the time allows. If
        time is left, it measures further programs. The others are in proportion to those of their
        learner. If a learner could not be timed, it counts as the fastest of the others. The
        estimate is then usually too low, so it says "at least" and names this learner.

        Args:
          seconds: the time until the answer, at least 1. With more learners, or if compiling takes
            long, more time gives a better estimate.
          store: as in :meth:`run`. Only the trials that it lacks count.

        Raises:
          ValueError, OSError: as in :meth:`run`, if the store belongs to another study or cannot be
            read.

        Examples:
          >>> made = dpjax.Study(
          ...     learners.exp3, {"coins": environments.bernoulli([0.1, 0.9])},
          ...     {"horizon": 8, "arms": 2, "mixing": [0.1, 0.5]}, trials=4)
          >>> cost = made.cost()
          >>> cost.programs, cost.rounds  # 2 settings, 4 trials, 8 rounds
          (1, 64.0)
        """
        _check.between(1.0, 1e6, seconds=seconds)
        return costs.cost(self, seconds, store)

    def _plan(self, program, chunk=None, mesh=None, built=None, **instead) -> Plan:
        """The plan of a program's sweep; ``instead`` overrides points, trials or checkpoints.

        ``built`` are the learner and environment at each point, if they were built already.
        """
        usual = {"trials": self.trials, "checkpoints": self.checkpoints}
        values = {"points": program.points()} | usual | instead
        with named(program):
            return planned(
                program.game(), values["points"], values["trials"], self.prng_key,
                self._play(*(built[0] if built else program.first())), values["checkpoints"],
                chunk, mesh, built,
            )  # fmt: skip

    def _play(self, learner, environment) -> Callable:
        """The function that plays a game."""
        if self.play is not None:
            return self.play
        return simulate_batches if has_batches(learner, environment) else simulate


def _check_part(store, part, executor, mesh) -> None:
    """Refuse invalid parts, parts and executors without a store, and executors with a mesh."""
    if [*map(type, part)] != [int, int] or not 1 <= part[0] <= part[1]:
        raise ValueError(f"part must be (i, n), the i-th of n parts, such as (3, 16); got {part!r}")
    if store is None and (executor is not None or part[1] > 1):
        raise ValueError("store: parts and executors need one, which collects their results")
    if executor is not None and (part[1] > 1 or mesh is not None):
        raise ValueError("executor: it plays all parts, without a mesh; leave out part and mesh")
    if executor is not None:
        spread.check_executor(executor)


def has_batches(learner: Learner | BatchLearner, environment: Environment) -> bool:
    """Whether a game can be played by batches."""
    both = isinstance(learner, BatchLearner) and environment.batch is not None
    return both and learner.feedback.kind == "bandit"


def _by_name(study, kind) -> dict:
    return {name: make for part in study.parts for name, make in getattr(part, kind).items()}
