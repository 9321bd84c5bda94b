"""The shared types of the package. Authors of learners and environments start here.

Learners, environments and the streams of noise mechanisms are pure transducers with two functions::

    init: key -> (state, output)        step: (state, key, input) -> (state, output)

The types below are NamedTuples of such functions, without base classes. A factory closes over its
hyperparameters and returns one of these types.

In shapes, ``K`` is the number of arms, ``T`` the horizon and ``d`` a dimension. Rounds are
counted from 1. Losses lie in [0, 1] unless a docstring says otherwise; lower is better.
"""

import importlib
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax
import numpy as np

from dpjax.core import generators as generators

Array = jax.Array
# One real number. It may be traced; a swept parameter always is.
Number = float | np.floating | jax.Array
# An array of numbers: a NumPy or JAX array, or nested lists.
Numbers = Any
# A pytree of arrays, or one array: a state, a loss, a report.
PyTree = Any
# How neighbouring loss sequences differ in a round, and in how much of it; see :class:`Privacy`.
Neighbours = Literal["replace", "zero_out"]
Unit = Literal["round", "entry"]
# Options that learners and their bounds share; the learners explain them.
Model = Literal["central", "local"]
Read = Literal["one", "all"]
Compare = Literal["scores", "pairs"]
Selector = Literal["exponential", "permute_and_flip", "laplace"]


class Sums(NamedTuple):
    """The noisy sums that a learner releases, if its privacy comes only from their noise."""

    noise: str  # the law of the noise, as in a Mechanism
    over: str = "prefixes"  # "prefixes" if a mechanism releases prefix sums of one value a round;
    # "releases" if each loss is in one released sum
    model: str = "central"  # the mechanism's trust model
    horizon: int | None = None  # the mechanism's horizon
    sensitivity: tuple[float, float] | None = None  # the mechanism's L1 and L2 sensitivity


class Privacy(NamedTuple):
    """The declared privacy of a calibration. It is not a proof; audits and tables read it.

    The declaration: all of ``released`` together is (epsilon, delta)-differentially private.
    Neighbouring loss sequences differ in one ``unit``, in the way that ``neighbours`` names.
    ``epsilon`` follows from the noise scale, even if the paper that prints this scale states
    another epsilon. ``Privacy()`` declares nothing.

    Examples:
      >>> declared = learners.lazy_ucb(1000, 4, epsilon=1.0).privacy
      >>> declared.epsilon, declared.unit, declared.neighbours, declared.model
      (1.0, 'round', 'replace', 'central')
      >>> dpjax.Privacy().epsilon
      inf
    """

    epsilon: Number = float("inf")  # () inf if nothing is declared
    delta: Number = 0.0  # () 0 for pure differential privacy
    rho: Number = float("nan")  # () of zero-concentrated DP; nan if none is declared
    neighbours: str = "replace"  # one round's losses are replaced; "zero_out": they become 0
    unit: str = "round"  # the whole loss vector changes; "entry": one of its coordinates changes;
    # "user": the loss vectors of all rounds of one user change
    loss_range: tuple[float, float] = (0.0, 1.0)  # losses outside it are clipped before the
    # learner sees them, unless the learner has its own ``clip``; (-inf, inf) clips none
    model: str = "central"  # the trust model, by the trusted party. "central": the party that runs
    # the learner; "joint": the same, but only the user of a round sees its arm; "shuffle": the
    # party that permutes the messages of a batch; "distributed": a secure sum; "silo": the user's
    # own silo, such as a hospital, which randomizes all messages that it sends; "local": no one,
    # since each user's message is randomized by itself.
    released: str = "actions 1..T"  # the released values that the declaration covers
    reported: tuple[str, ...] = ()  # fields of the report that the declaration also covers
    calibration: str = "derived"  # or "printed", as in the paper
    accountant: str = "none"  # the theorem from which epsilon follows, in words
    sums: Sums | None = None  # the released sums, from which the privacy loss of several rounds is
    # computed; None if this loss is not known
    paper_epsilon: Number = float("nan")  # () epsilon as the paper states it for a printed
    # calibration; nan for a derived one
    rounds_per_user: int = 1  # k, the largest number of rounds of one user, if a user is the unit
    rounds_per_release: int | None = None  # the most rounds of one user in one released sum
    spacing: int | None = None  # the distance between a user's rounds, if it is fixed


class See(Protocol):
    """The feedback of one round."""

    def __call__(self, loss: PyTree, action: PyTree, /) -> Any:
        """``Outcome.loss`` and the played action -> the learner's feedback, a pytree."""


class Init(Protocol):
    """The initial state and output of a learner, or of the stream of a mechanism."""

    def __call__(self, key: Array, /) -> tuple[Any, Any]:
        """A PRNG key -> the state, and the output of round 1 (an action, a Batch, a release)."""


class Step(Protocol):
    """One step of a learner, or of the stream of a mechanism."""

    def __call__(self, state: PyTree, key: Array, seen: PyTree, /) -> tuple[Any, Any]:
        """The state, a key and the input of round t -> the state, and the output of round t + 1.

        The input is the learner's feedback, clipped to the declared range of losses. Shapes and
        dtypes of the state and of the output never change.
        """


class Report(Protocol):
    """The report of a learner at the end of a game."""

    def __call__(self, state: PyTree, /) -> Any:
        """The last state -> a NamedTuple of scalars.

        Field names are arbitrary, except three that ``data.dpjax.identification()`` reads:
        ``recommendation`` () int32, the arm that is recommended at the end; ``stopped`` () bool;
        and ``stopping_time`` () int32.
        """


class Clip(Protocol):
    """Clips the losses in a learner's feedback to the set that the learner declares."""

    def __call__(self, seen: PyTree, /) -> tuple[Any, Array]:
        """The feedback -> the clipped feedback, and how many losses were outside the set."""


Kind = Literal[
    "full", "gradient", "whole", "bandit", "value", "values", "difference", "linear", "semi_bandit",
    "contextual",
]  # fmt: skip


@dataclass(frozen=True)
class Feedback:
    """The feedback of a round. The kinds used in dpjax are in ``dpjax.feedback``.

    Calling a Feedback calls its function ``see``, whose docstring it shares. It is not a
    NamedTuple, since ``jax.jit`` crashes on a callable tuple.

    Attributes:
      name: for messages and tables.
      see: (Outcome.loss, action) -> the feedback, a pytree.
      losses: which parts of the feedback are losses, as a prefix of its pytree. Other parts, such
        as features, are not clipped to ``Privacy.loss_range``.
      kind: the name of the feedback in ``dpjax.feedback`` that this one is, possibly of transformed
        losses; None if it is none of them. Combinators and audits that need one kind of feedback
        read it.

    Examples:
      >>> first = dpjax.Feedback("first entry", lambda loss, action: loss[0])
      >>> first.name, float(first(jnp.array([0.25, 0.5]), 1))
      ('first entry', 0.25)
    """

    name: str
    see: See
    losses: PyTree = True
    kind: Kind | None = None

    def __post_init__(self):
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__doc__", self.see.__doc__)
        object.__setattr__(self, "__module__", self.see.__module__)

    def __call__(self, loss: PyTree, action: PyTree) -> Any:
        """The feedback of a round."""
        return self.see(loss, action)


def empty_report(state: PyTree) -> tuple:
    """The empty report."""
    return ()


class Arms(NamedTuple):
    """The action set of a bandit: an action is an index, 0 .. count - 1, () int32.

    Examples:
      >>> learners.exp3(1000, 4).action_set
      Arms(count=4)
    """

    count: int  # type: ignore[assignment] # K; tuples have a method of that name


class Pairs(Arms):
    """The action set of duels of K arms: an action is a pair (i, j), as i K + j, () int32.

    i is the row player and j the column player. The loss of the pair is the row player's loss.
    Losses and audits treat the pairs as K^2 arms.

    Examples:
      >>> actions = learners.dueling_elimination(1000, 4, epsilon=1.0).action_set
      >>> actions, actions.players
      (Pairs(count=16), 4)
    """

    __slots__ = ()

    @property
    def players(self) -> int:
        """K, the number of arms in the duels.

        Examples:
          >>> environments.dueling([0.1, 0.5, 0.9]).action_set.players
          3
        """
        return math.isqrt(self.count)


class Policies(NamedTuple):
    """The action set of a contextual bandit: an action maps features (K, d) to an arm, () int32.

    Examples:
      >>> environments.fixed_actions(np.eye(3), np.zeros(3)).action_set
      Policies(dim=3, arms=None)
    """

    dim: int  # d
    arms: int | None = None  # K if features (K, d) are the advice of d experts, with a law on the
    # arms in each column; None if a round may have any number of arms


class Learner(NamedTuple):
    """A learner: maps the feedback of past rounds to actions.

    Examples:
      >>> arm = jnp.zeros((), jnp.int32)
      >>> stays = dpjax.Learner(
      ...     init=lambda key: ((), arm), step=lambda state, key, loss: ((), arm),
      ...     feedback=feedback.bandit, action_set=dpjax.core.Arms(2), horizon=3,
      ...     privacy=dpjax.Privacy(),
      ... )
      >>> table = environments.table([[1.0, 0.5], [1.0, 0.5], [1.0, 0.5]])
      >>> print(dpjax.simulate(stays, table, jax.random.key(0)).regret)
      [0.5 1.  1.5]
    """

    init: Init  # key -> (state, action of round 1)
    step: Step  # (state, key, loss of round t) -> (state, action of round t + 1)
    feedback: Feedback  # the feedback of one round, before it is clipped
    action_set: Any  # its actions: Arms, Policies, or the Domain of its points; None if it plays no
    # game, as in the audit of a mechanism
    horizon: int  # T, the number of rounds that the calibration covers and that are played
    privacy: Privacy  # the declared privacy
    report: Report = empty_report  # state -> NamedTuple of scalars to report at the end
    sound: PyTree = True  # () bool, False if a traced argument of the factory is outside of its
    # domain. The regret of every game and the declared epsilon are then NaN.
    clip: Clip | None = None  # feedback -> (the clipped feedback, the number of clipped losses);
    # by default each loss is clipped to ``Privacy.loss_range``


class Batch(NamedTuple):
    """An action, and the number of consecutive rounds in which to play it."""

    action: PyTree  # as in Learner
    rounds: Array  # () int32, at least 1


class BatchLearner(NamedTuple):
    """A learner that sees only the sum of the losses of each batch of rounds.

    ``simulate`` and ``sweep`` play it round by round (:func:`dpjax.every_round`). If rounds are
    i.i.d., :func:`dpjax.simulate_batches` plays it batch by batch. An incomplete last batch is
    played, but the learner never sees its sum. The sum of a batch is exact for losses in [-1, 1]
    and any horizon below 2^31 (:mod:`dpjax.maths.exact_sums`). So the noise of
    :func:`dpjax.noise.laplace.total` hides one loss among 10^9 as well as one among ten.

    Examples:
      >>> learner = learners.explore_then_commit(1000, 4, epsilon=1.0, rounds=50)
      >>> state, batch = learner.init(jax.random.key(0))
      >>> int(batch.rounds), learner.horizon
      (50, 1000)
    """

    init: Init  # key -> (state, Batch)
    step: Step  # (state, key, total) -> (state, Batch); total is the clipped feedback, each leaf
    # summed over the batch as an ExactSum (dpjax.maths.exact_sums)
    feedback: Feedback  # as in Learner, for one round
    action_set: Any  # as in Learner
    horizon: int  # T, in rounds
    privacy: Privacy  # as in Learner
    report: Report = empty_report  # as in Learner
    sound: PyTree = True  # as in Learner
    clip: Clip | None = None  # as in Learner, for one round


class Outcome(NamedTuple):
    """The losses of one round, and its contribution to the tally.

    Examples:
      >>> outcome = dpjax.Outcome(loss=jnp.array([0.25, 1.0]), tally=jnp.array([0.75, 0.0]))
      >>> float(feedback.bandit(outcome.loss, 1))  # what a bandit sees of it
      1.0
    """

    loss: PyTree  # all losses of the round, as a function of the action. For arms: their losses
    # (K,), or a callable pytree whose vector() returns these losses
    tally: PyTree  # pytree of float32, summed over rounds; Environment.regret reads the sum


class Environment(NamedTuple):
    """An environment: maps actions to losses.

    ``Outcome.loss`` maps each action that could be played now to its loss. This map may depend on
    past actions, but not on the current one. ``regret`` is called only at checkpoints.

    Examples:
      >>> environment = environments.table([[0.5, 0.25], [1.0, 0.0]])
      >>> state, outcome = environment.step(environment.init(None), None, 0)
      >>> float(environment.regret(state, outcome.tally))  # of one round of arm 0
      0.25
    """

    init: Callable  # key -> state
    step: Callable  # (state, key, action) -> (state, Outcome)
    regret: Callable  # (state, tally summed over the rounds so far) -> regret so far, ()
    action_set: Any  # the allowed actions: Arms, Policies, or a Domain with the comparators of
    # regret. An action of a Domain is a point (d,), or points (m, d) whose mean loss is suffered
    horizon: int | None = None  # the number of rounds; None if the environment never ends
    batch: Callable | None = None  # (state, key, action, rounds, feedback) -> (state, total, tally
    # of one round); total is feedback(loss, action), each leaf summed over the rounds as an
    # ExactSum. None if rounds are not i.i.d.


class Stream(NamedTuple):
    """The noisy prefix sums of a mechanism, for a fixed shape of values and noise scale.

    Examples:
      >>> stream = mechanisms.exact(4).stream((), scale=0.0)
      >>> state, release = stream.init(jax.random.key(0))
      >>> for value in (0.5, 0.25):
      ...     state, release = stream.step(state, jax.random.key(1), jnp.float32(value))
      ...     print(float(release))
      0.5
      0.75
    """

    init: Init  # key -> (state, release of the empty prefix)
    step: Step  # (state, key, value) -> (state, release of x_1 + ... + x_t)


class Mechanism(NamedTuple):
    """A mechanism of noisy prefix sums, for a horizon and a law of the noise.

    The release is B (C x + z) for a factorization B C of the matrix of prefix sums and independent
    noise z. A mechanism has no epsilon: a learner calibrates the scale of z to its epsilon, with
    the fields below, and passes the scale to ``stream``, which returns the transducer.

    Examples:
      >>> mechanism = mechanisms.tree(4)
      >>> mechanism.sensitivity[0], mechanism.variance().tolist()
      (2.0, [0.0, 1.0, 1.0, 2.0])
    """

    horizon: int  # of the learner
    noise: str  # the law of z, "laplace" or "gaussian"
    sensitivity: tuple[float, float]  # largest (L1, L2) norm of a column of C
    variance: Callable  # (rounds, by default all) -> squared norms of these rows of B, NumPy or JAX
    matrices: Callable  # () -> B (horizon, m) and C (m, horizon - 1), NumPy, for tests and audits
    stream: Callable  # (shape of a value, *, scale of a draw) -> Stream
    model: str = "central"  # as in Privacy, if each value belongs to one round; "local" if each
    # value is randomized by itself

    @property
    def sums(self) -> Sums:
        """The Sums in the declaration of a learner with this mechanism.

        Examples:
          >>> mechanisms.tree(4).sums.sensitivity[0]
          2.0
        """
        l1, l2 = self.sensitivity
        return Sums(self.noise, "prefixes", self.model, self.horizon, (l1, l2))


class Result(NamedTuple):
    """A trajectory. After a sweep all fields but ``rounds`` have leading axes (points, seeds).

    Examples:
      >>> result = dpjax.Result(np.array([1, 10]), np.array([0.5, 2.25]), tally=3.0, report=())
      >>> result.regret[-1].item()  # after round 10
      2.25
    """

    rounds: PyTree  # (n,) int32, the rounds at which regret was recorded
    regret: PyTree  # (n,) float32
    tally: PyTree  # the environment's tally, summed over all rounds
    report: PyTree  # the learner's report at the end
    clipped: PyTree = ()  # () int32, the number of losses that were clipped to the declared ones;
    # 2^31 - 1 if it is larger

    def to_xarray(self, points: PyTree = None, learner: str | None = None) -> Any:
        """An ``xarray.Dataset`` with the axes (point, seed, round), or round for one trajectory.

        Args:
          points: the points of the sweep. Their leaves become coordinates along ``point``. If
            points are a single array, its coordinate is named "value".
          learner: name of the learner, which becomes a coordinate ``learner``.

        Returns:
          A Dataset of regret, tally, report and clipped. The fields of tally and report are named
          ``tally_<field>`` and ``report_<field>``.

        Examples:
          >>> result = dpjax.Result(np.array([1, 10]), np.zeros((3, 5, 2)), (), ())
          >>> dict(result.to_xarray().sizes)
          {'point': 3, 'seed': 5, 'round': 2}
        """
        import xarray  # imported here, so that `import dpjax` is fast

        swept = ("point", "seed")[: np.ndim(self.regret) - 1]
        arrays: dict[str, Any] = {"regret": ((*swept, "round"), np.asarray(self.regret))}
        for field in ("tally", "report", "clipped"):
            tree = getattr(self, field)
            for name, leaf in zip(leaf_names(field, tree), jax.tree.leaves(tree), strict=True):
                rest = leaf_axes(name, np.shape(leaf)[len(swept) :])
                arrays[name] = ((*swept, *rest), np.asarray(leaf))
        coordinates: dict[str, Any] = {"round": np.asarray(self.rounds)}
        for axis, length in zip(swept, np.shape(self.regret), strict=False):
            coordinates[axis] = np.arange(length, dtype=np.int32)
        for name, leaf in zip(leaf_names("", points), jax.tree.leaves(points), strict=True):
            leaf = np.asarray(leaf, np.float32)  # the value with which the sweep computed
            name = coordinate_name(name, arrays)
            coordinates[name] = (("point", *leaf_axes(name, leaf.shape[1:])), leaf)
        if learner is not None:
            coordinates["learner"] = learner
        return xarray.Dataset(arrays, coordinates)

    def to_netcdf(
        self, path: str | os.PathLike, points: PyTree = None, learner: str | None = None
    ) -> None:
        """Write :meth:`to_xarray` to a NetCDF file.

        Examples:
          >>> result = dpjax.Result(np.array([1, 10]), np.zeros((3, 5, 2)), (), ())
          >>> result.to_netcdf("result.nc", points=np.array([0.1, 1.0, 10.0]))
        """
        self.to_xarray(points, learner).to_netcdf(path)

    def to_dataframe(self, points: PyTree = None, learner: str | None = None) -> Any:
        """A long ``pandas.DataFrame`` of regret: columns point, seed, round and regret.

        Numeric points and ``learner`` get columns of their own.

        Examples:
          >>> result = dpjax.Result(np.array([1, 10]), np.zeros((3, 5, 2)), (), ())
          >>> len(result.to_dataframe(learner="exp3"))  # 3 points, 5 seeds, 2 rounds
          30
        """
        return self.to_xarray(points, learner)["regret"].to_dataframe().reset_index()


_AXES = ("point", "seed", "round", "learner", "done", "checksum")


def leaf_names(field: str, tree: PyTree) -> list[str]:
    """A name for each leaf of a pytree: the field and the leaf's path, as "report_rejected"."""
    names = []
    for path, _ in jax.tree_util.tree_leaves_with_path(tree):
        place = jax.tree_util.keystr(path, simple=True, separator="_")
        name = "_".join(part for part in (field, place) if part)
        names.append(re.sub(r"\W", "_", name) or "value")
    return names


def leaf_axes(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names for the axes of a leaf other than points and seeds."""
    return [f"{name}_{axis}" for axis in range(len(shape))]


def coordinate_name(name: str, arrays: PyTree) -> str:
    """A name for a swept parameter's coordinate that no axis or array of the Result has."""
    return f"point_{name}" if name in _AXES or name in arrays else name


def optional(module: str, extra: str = "store") -> Any:
    """Import a module that is installed only with an extra of dpjax, such as ``dpjax[store]``."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"{module} is not installed; pip install 'dpjax[{extra}]' installs it"
        ) from None
