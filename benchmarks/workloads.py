"""Workloads of the speed benchmarks: games of dpjax by name."""

from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import (
    audit,
    domains,
    environments,
    gram,
    learners,
    mechanisms,
    simulate,
    simulate_batches,
    sweep,
)
from dpjax.core import Arms, Environment, Learner, Outcome, Privacy
from dpjax.feedback import full

W1_MEANS = (0.45, 0.5, 0.5, 0.5)
ARMS_MEANS = (0.25, 0.375, 0.5, 0.625, 0.75)
EXPERTS = 10  # N in W5, and the dimension in W4
BIAS = 0.2  # by which the losses of W5 favour one expert
CONTEXT = 5, 10, 0.1  # d, arms and gap in W3
LARGER = {20: 2**11, 60: 2**8, 120: 2**7}  # d = arms, and T, in W3 beside LAPACK
POINTS_DIM = 5  # the dimension of the convex bandits
ACTIONS = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)], axis=1)


class Workload(NamedTuple):
    """A game with its full horizon, the shorter default horizon, and its trials."""

    title: str
    horizon: int
    short: int
    trials: int
    game: Any  # T -> (point -> (learner, environment))
    points: Any = np.ones(1)
    play: Any = simulate
    value: Any = lambda result: result.regret[..., -1]


class SumsState(NamedTuple):
    sums: Any  # the state of the mechanism
    total: Any  # (d,) sum of all releases


def releases_summed(horizon, dim) -> Learner:
    """Runs the tree and plays nothing; reports the mean square of the sum of all releases."""
    stream = mechanisms.tree(horizon).stream((dim,), scale=1.0)

    def init(key):
        return SumsState(*stream.init(key)), jnp.zeros((), jnp.int32)

    def step(state, key, loss):
        sums, release = stream.step(state.sums, key, loss)
        return SumsState(sums, state.total + release), jnp.zeros((), jnp.int32)

    def report(state):
        return jnp.mean(jnp.square(state.total))

    return Learner(init, step, full, Arms(dim), horizon, Privacy(), report)


def zeros(dim) -> Environment:
    """Losses of 0, hidden from the compiler, which would otherwise omit the sums."""
    return Environment(
        init=lambda key: 0.0 * jr.uniform(key, (dim,)),
        step=lambda state, key, action: (state, Outcome(state, jnp.zeros((), jnp.float32))),
        regret=lambda state, tally: tally,
        action_set=Arms(dim),
    )


def mean_square(horizon) -> float:
    """The expected value of W4. If t is 2^i times an odd number, 2^i releases contain its node."""
    rounds = np.arange(1, horizon + 1)
    lengths = np.minimum(rounds & -rounds, horizon - rounds + 1)
    return 2.0 * float(np.sum(lengths.astype(np.float64) ** 2))


@lru_cache
def expert_losses(horizon):
    """A table (T, N) of zeros and ones for W5, common to all trials."""
    return (np.random.default_rng(0).uniform(size=(horizon, EXPERTS)) < 0.5).astype(np.float32)


def _exp3(regret):
    def of_horizon(horizon):
        def game(point):
            del point
            return learners.exp3(horizon, 4), environments.bernoulli(W1_MEANS, regret=regret)

        return game

    return of_horizon


def _exp3_mixings(horizon):
    def game(mixing):
        learner = learners.exp3(horizon, 4, mixing=mixing)
        return learner, environments.bernoulli(W1_MEANS, regret="pseudo")

    return game


def _ftrl(nature):
    def of_horizon(horizon):
        def game(epsilon):
            domain = domains.simplex(EXPERTS)
            losses = "iid" if nature == "drawn" else expert_losses(horizon)
            learner = learners.ftrl(horizon, domain, epsilon=epsilon)
            return learner, environments.linear_losses(domain, losses, bias=BIAS)

        return game

    return of_horizon


def _tree(horizon):
    def game(point):
        del point
        return releases_summed(horizon, EXPERTS), zeros(EXPERTS)

    return game


def _arms(name):
    factory = getattr(learners, name)
    private = name not in ("ucb1", "kl_ucb", "thompson")

    def of_horizon(horizon):
        def game(epsilon):
            arguments = {"epsilon": epsilon} if private else {}
            learner = factory(horizon, len(ARMS_MEANS), **arguments)
            return learner, environments.bernoulli(ARMS_MEANS, regret="pseudo")

        return game

    return of_horizon


def _linucb(mechanism, context=CONTEXT):
    def of_horizon(horizon):
        def game(epsilon):
            dim, arms, gap = context
            law = gram.gaussian(mechanism=mechanism)
            learner = learners.linucb(horizon, dim, epsilon=epsilon, delta=0.1, gram=law)
            return learner, environments.gap_arms(dim, gap=gap, arms=arms)

        return game

    return of_horizon


def means_of_actions():
    """The mean losses of ACTIONS: 1/2 plus a linear function of the action."""
    return 0.5 + 0.25 * ACTIONS[:, 0]


def _linear_elimination(horizon):
    def game(epsilon):
        learner = learners.linear_elimination(horizon, ACTIONS, epsilon=epsilon)
        return learner, environments.bernoulli(means_of_actions(), regret="pseudo")

    return game


def _scrible(horizon):
    def game(epsilon):
        domain = domains.cube(POINTS_DIM)
        learner = learners.scrible(horizon, domain, epsilon=epsilon)
        return learner, environments.linear_losses(domain, "iid", bias=BIAS)

    return game


def _projection_free(horizon):
    def game(epsilon):
        domain = domains.ball(POINTS_DIM)
        learner = learners.projection_free(
            horizon, domain, epsilon=epsilon, delta=0.01, noise="gaussian"
        )
        return learner, environments.linear_losses(domain, "iid", bias=BIAS)

    return game


AUDIT, AUDIT_EPSILON = (16, 4), 4.0  # T and N of the pair, and FTRL's declared epsilon
AUDIT_PAIR = audit.Pair(
    *(np.pad(np.eye(AUDIT[1], dtype=np.float32)[[k]], ((0, AUDIT[0] - 1), (0, 0))) for k in (0, 1))
)


def audited(runs, seed):
    """A lower bound on the epsilon of FTRL from ``runs`` runs on each of two sequences."""
    horizon, dim = AUDIT
    learner = learners.ftrl(horizon, domains.simplex(dim), epsilon=AUDIT_EPSILON)
    return audit.epsilon(
        learner,
        AUDIT_PAIR,
        jr.key(seed),
        runs=runs - audit.SELECTION,
        progress=False,
        statistic=lambda actions: jnp.sum(actions[:, 0]),
    ).epsilon


MIXINGS = 2.0 ** np.arange(-5.0, -1.0, 0.5)

WORKLOADS = {
    "W1": Workload("W1 EXP3, K = 4", 2**14, 2**14, 1024, _exp3("pseudo")),
    "W1-drawn": Workload(
        "W1, all losses drawn", 2**14, 2**12, 1024, _exp3("realised")
    ),
    "W1-8": Workload("W1, 8 points", 2**14, 2**12, 256, _exp3_mixings, MIXINGS),
    "W2-rounds": Workload(
        "W2 DP-SE, K = 5, round by round", 10**5, 10**4, 1024, _arms("successive_elimination")
    ),
    "W2-batches": Workload(
        "W2 DP-SE, K = 5, by batches", 10**5, 10**5, 2**14, _arms("successive_elimination"),
        play=simulate_batches,
    ),
    "W2-bound": Workload("W2 DP-UCB-Bound, K = 5", 10**5, 2**12, 1024, _arms("dp_ucb_bound")),
    "W3": Workload("W3 LinUCB, d = 5, 10 fresh arms", 2**11, 2**9, 1024, _linucb(mechanisms.exact)),
    "W3-tree": Workload("W3 with a Gaussian tree", 2**11, 2**9, 1024, _linucb(mechanisms.tree)),
    **{
        f"W3-{dim}": Workload(
            f"W3, d = {dim}, {dim} fresh arms", horizon, horizon, 64,
            _linucb(mechanisms.exact, (dim, dim, 0.1)),
        )
        for dim, horizon in LARGER.items()
    },
    "W4": Workload(
        "W4 binary tree, 10 Laplace dims", 2**16, 2**12, 1024, _tree,
        value=lambda result: result.report,
    ),
    "W5": Workload("W5 entropic FTRL, N = 10, tree", 2**14, 2**11, 1024, _ftrl("drawn")),
    "W5-given": Workload("W5, losses given", 2**14, 2**11, 1024, _ftrl("given")),
    "projection-free": Workload(
        "PRIVATEBANDIT, ball, d = 5", 2**14, 2**12, 1024, _projection_free
    ),
    "scrible": Workload("SCRiBLE, cube, d = 5", 2**14, 2**12, 1024, _scrible),
    "elimination": Workload(
        "linear elimination, 8 arms in R^2, by batches", 10**7, 10**7, 2**12, _linear_elimination,
        play=simulate_batches,
    ),
    "audit": Workload("audit of FTRL, N = 4", AUDIT[0], AUDIT[0], 2**19, None),
}  # fmt: skip


def _more(name):
    title = f"{name}, K = 5, round by round"
    return Workload(title, 2**12, 2**12, 1024, _arms(name))


def _more_by_batches(name):
    title = f"{name}, K = 5, by batches"
    return Workload(title, 5 * 10**7, 5 * 10**7, 1024, _arms(name), play=simulate_batches)


# These are measured only if requested, by name or all together as "arms".
MORE = {
    **{
        name: _more(name)
        for name in (
            "ucb1", "kl_ucb", "thompson", "lazy_ucb", "lazy_thompson", "dp_ucb", "dp_ucb_int",
            "adap_ucb", "adap_klucb", "dp_klucb", "dp_imed",
        )
    },
    **{
        f"{name}-batches": _more_by_batches(name)
        for name in ("adap_ucb", "adap_klucb", "dp_klucb", "dp_imed")
    },
}  # fmt: skip


def workload_of(name) -> Workload:
    """Returns the workload of that name, from either list."""
    return WORKLOADS[name] if name in WORKLOADS else MORE[name]


@lru_cache
def game_of(name, horizon):
    """Returns the same function for the same name and horizon, since sweeps are cached by it."""
    return workload_of(name).game(horizon)


def play(name, horizon, trials, seed, generator=None, **options):
    """Plays through the public functions, and returns each trial's mean over points.

    Points share the randomness of a trial, so their mean is one independent number.
    """
    workload = workload_of(name)
    key = jr.key(seed, impl=generator)
    result = sweep(
        game_of(name, horizon), workload.points, trials, key, play=workload.play,
        checkpoints=1, progress=False, **options,
    )  # fmt: skip
    return np.mean(workload.value(result), axis=0)
