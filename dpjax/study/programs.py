"""The programs of a study: the games that it compiles, and their points."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax._garbage import rarely_collected
from dpjax.core import Arms, Pairs, Privacy, PyTree, _check
from dpjax.engine import closure_digest, settings
from dpjax.learners.factories import taken
from dpjax.store.layout import arrays_of
from dpjax.study.grid import Axis

# The fields of a Privacy that appear in the data of a study.
TEXTS = ("neighbours", "unit", "model", "released", "calibration", "accountant")
NUMBERS = ("epsilon", "delta", "rho", "paper_epsilon")


class Part(NamedTuple):
    """Learners and environments on one grid. A study has one part; a sum of studies has several."""

    learners: dict[str, Callable]
    environments: dict[str, Callable]
    axes: dict[str, Axis]


class StudyProgram(NamedTuple):
    """A learner and an environment at all values of their traced axes."""

    part: Part
    learner: str
    environment: str
    fixed: dict[str, int]  # static axis that one of the two takes -> index of its value
    swept: tuple[str, ...]  # traced axes that one of the two takes
    store: str = ""  # the name of the store that it continues, if this is not that of a new one

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each traced axis."""
        return tuple(len(self.part.axes[name].values) for name in self.swept)

    @property
    def at(self) -> dict[str, list]:
        """The labels that it fills on each axis that it takes."""
        axes = self.part.axes
        return {
            "learner": [self.learner],
            "environment": [self.environment],
            **{name: axes[name].labels[[i]].tolist() for name, i in self.fixed.items()},
            **{name: axes[name].labels.tolist() for name in self.swept},
        }

    @property
    def values(self) -> dict:
        """The values of the static axes."""
        return {name: self.part.axes[name].values[i] for name, i in self.fixed.items()}

    @property
    def size(self) -> int:
        """The number of points, P."""
        return int(np.prod(self.shape))

    def points(self):
        """The points of the sweep: a dict of arrays (P, ...), the last axis fastest."""
        if not self.swept:
            return np.zeros(1, np.float32)
        values = [np.asarray(self.part.axes[name].values, np.float32) for name in self.swept]
        places = np.indices(self.shape).reshape(len(self.shape), -1)
        return {name: leaf[at] for name, leaf, at in zip(self.swept, values, places, strict=True)}

    def game(self, **instead) -> Callable:
        """The game of the sweep; ``instead`` overrides values of static axes."""
        fixed = {**self.values, **instead}
        makers = self.part.learners[self.learner], self.part.environments[self.environment]
        names = [set(taken(make)) for make in makers]

        def game(point):
            values = {**fixed, **(point if self.swept else {})}
            return tuple(
                make(**{name: value for name, value in values.items() if name in accepted})
                for make, accepted in zip(makers, names, strict=True)
            )

        game.__name__ = self.learner
        return game

    def built(self) -> list[tuple]:
        """The learner and the environment at each point."""
        return pairs(self.game(), self.points())

    def first(self) -> tuple:
        """The learner and the environment at the first point."""
        return pairs(self.game(), jax.tree.map(lambda leaf: leaf[:1], self.points()))[0]

    def about(self, plan, known: dict) -> dict:
        """The declared privacy at each point and, if the learner recommends an arm, the best arms.

        Args:
          plan: that of the program.
          known: the best arms that were computed for other programs; those of this one are added.
        """
        recommends = "report_recommendation" in arrays_of(plan.traced.output)
        best = self.best_arms(known) if recommends else None
        description = {"privacy": columns(plan.privacy)}
        return description if best is None else description | {"best_arms": best.tolist()}

    def best_arms(self, known: dict) -> np.ndarray | None:
        """Whether each arm is optimal at each point, (P, K) bool; computed once per environment.

        None unless the rounds are i.i.d. with a mean loss for each arm, as pseudo-regret requires.
        """
        names = set(taken(self.part.environments[self.environment]))
        fixed = tuple((name, i) for name, i in self.fixed.items() if name in names)
        place = id(self.part), self.environment, fixed
        axes = [i for i, name in enumerate(self.swept) if name in names]
        size = [self.shape[i] for i in axes]
        points = np.ravel_multi_index(np.indices(self.shape).reshape(len(self.shape), -1)[axes],
                                      size) if axes else np.zeros(self.size, int)  # fmt: skip
        if place not in known:
            known[place] = self._best_arms(np.unique(points, return_index=True)[1])
        return None if known[place] is None else known[place][points]

    def _best_arms(self, some) -> np.ndarray | None:
        """The best arms at some points."""
        learner, environment = self.first()
        if environment.batch is None or not isinstance(environment.action_set, Arms):
            return None
        actions = environment.action_set
        every = jnp.arange(actions.count)
        if isinstance(actions, Pairs):
            every = jnp.arange(actions.players) * (actions.players + 1)  # each against itself

        def gaps(point):
            _, environment = self.game()(point)
            state = environment.init(jr.key(0, impl="threefry2x32"))

            def gap(arm):
                played = environment.batch(
                    state, jr.key(0, impl="threefry2x32"), arm, jnp.int32(1), learner.feedback
                )
                return environment.regret(state, played[2])

            return jax.vmap(gap)(every)

        # Compiled as one program, it draws no losses, because the gaps do not depend on them.
        points = jax.tree.map(lambda leaf: leaf[some], self.points())
        return np.asarray(jax.jit(jax.vmap(gaps))(points)) <= 0.0

    def __str__(self):
        labels = {name: self.part.axes[name].labels[i] for name, i in self.fixed.items()}
        shown = [f"{name} = {label}" for name, label in labels.items() if label != ""]
        return ", ".join([self.learner, self.environment, *shown])

    @property
    def folder(self) -> str:
        """The name of the program's store."""
        return self.store or next(self.folders())

    def folders(self) -> Iterator[str]:
        """The possible names of the program's store, one for each point; a new store has the first.

        A store is named after the first point that it had, so that points can be added to it. Parts
        of a sum never share a store, because they have no point in common.
        """
        words = str(self)
        text = re.sub(r"[^\w.]+", "-", words).strip("-")[:80]
        axes = (self.part.axes[name].values for name in self.swept)
        for point in product(*([np.asarray(value).tolist() for value in axis] for axis in axes)):
            yield f"{text}-{sha256(f'{words} {[*point]}'.encode()).hexdigest()[:6]}"

    def url(self, store) -> str:
        """The program's store in the folder or URL of a study."""
        return f"{str(store).rstrip('/')}/{self.folder}"


@contextmanager
def named(program: StudyProgram):
    """Begin the message of a TypeError or ValueError with the program."""
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{program}: {error}") from error
    except ValueError as error:
        raise ValueError(f"{program}: {error}") from error


@rarely_collected()
def pairs(game: Callable, points: PyTree) -> list[tuple]:
    """The (learner, environment) of a game at each point; ``points`` are those of a sweep.

    Here factories receive plain numbers and can refuse invalid ones. They cannot refuse traced
    ones.
    """
    count = len(jax.tree.leaves(points)[0])
    with settings.of_sweep(), closure_digest.as_now(game):
        return [_check.game(game(jax.tree.map(lambda x, i=i: x[i], points))) for i in range(count)]


def columns(declarations: list[Privacy]) -> dict[str, list]:
    """The fields of declarations in the data of a study, each with one entry per point."""
    numbers = {
        name: [float(getattr(privacy, name)) for privacy in declarations] for name in NUMBERS
    }
    return numbers | {name: [getattr(privacy, name) for privacy in declarations] for name in TEXTS}


def programs_of(part: Part) -> list[StudyProgram]:
    """One program for each learner, environment and combination of static values."""
    programs = []
    for learner, environment in product(part.learners, part.environments):
        makers = part.learners[learner], part.environments[environment]
        used = set().union(*(taken(make) for make in makers))
        static = [a for a in part.axes.values() if a.name in used and not a.traced]
        swept = tuple(a.name for a in part.axes.values() if a.name in used and a.traced)
        for place in product(*(range(len(a.values)) for a in static)):
            fixed = {a.name: i for a, i in zip(static, place, strict=True)}
            programs.append(StudyProgram(part, learner, environment, fixed, swept))
    return programs


def check_taken(part: Part) -> None:
    """Refuse axes that no factory takes, and factories whose required arguments the grid lacks."""
    used = set()
    for kind, makers in (("learner", part.learners), ("environment", part.environments)):
        for name, make in makers.items():
            arguments = taken(make)
            used |= set(arguments)
            missing = [
                word for word, needed in arguments.items() if needed and word not in part.axes
            ]
            if missing:
                raise ValueError(
                    f"grid: the {kind} {name} needs {', '.join(missing)}, which the grid lacks"
                )
    unused = [word for word in part.axes if word not in used]
    if unused:
        near = _check.nearest(unused[0], used)
        raise ValueError(f"grid: no learner or environment takes {unused[0]}{near}")
