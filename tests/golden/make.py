"""Write the golden trajectories of tests/test_golden.py.

    python -m tests.golden.make              # every learner
    python -m tests.golden.make exp3 ...     # these

A golden file records a learner's behaviour when a person last checked it. Rewrite it only after a
change that is meant to change trajectories, and say so in CHANGELOG.md.
"""

import inspect
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import domains, environments, learners, simulate
from dpjax.core import Pairs, Policies
from dpjax.domains import Domain
from dpjax.feedback import bandit, mean_value

FOLDER = Path(__file__).parent
HORIZON, ARMS, EPSILON, SEED = 64, 3, 1.0, 2017
DOMAIN = domains.simplex(ARMS)
KNOWN = {
    "horizon": HORIZON, "arms": ARMS, "actions": [[1.0, 0.0], [-1.0, 0.5], [-1.0, -0.5]],
    "domain": DOMAIN, "dim": ARMS, "experts": ARMS, "epsilon": EPSILON, "delta": 1e-6,
    "rho": 0.5,
}  # fmt: skip


def build(name):
    """The learner of that name, with the parameters that its factory takes."""
    sizes, keywords = [], {}
    for parameter in inspect.signature(getattr(learners, name)).parameters.values():
        optional = parameter.name == "delta" and parameter.default is None
        if parameter.name in KNOWN and not optional:
            value = KNOWN[parameter.name]
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            else:
                sizes.append(value)
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"tests/golden/make.py: {name} needs a value for {parameter.name}; add it to KNOWN"
            )
    return getattr(learners, name)(*sizes, **keywords)


def takes_points(name):
    """Whether the learner plays points of a domain instead of arms."""
    return isinstance(build(name).action_set, Domain)


def plays_policies(name):
    """Whether the learner plays policies, which are functions of features."""
    return isinstance(build(name).action_set, Policies)


def natures(name):
    """An oblivious adversary and some that remember the actions."""
    if takes_points(name):
        kinds = ("switching", "adaptive")
        return {kind: environments.linear_losses(DOMAIN, kind, period=16) for kind in kinds}
    if plays_policies(name) and build(name).action_set.arms:
        return {"advice": environments.advice([0.2, 0.5, 0.6], ARMS)}
    if plays_policies(name):
        return {
            "gap_arms": environments.gap_arms(ARMS),
            "fixed_actions": environments.fixed_actions(np.eye(ARMS), [-0.6, 0.0, 0.2]),
        }
    means = [0.2, 0.5, 0.6]
    if isinstance(build(name).action_set, Pairs):
        cycle = [[0.5, 0.8, 0.3], [0.2, 0.5, 0.8], [0.7, 0.2, 0.5]]
        return {
            "dueling": environments.dueling(means),
            "borda": environments.dueling(cycle, regret="borda"),
        }
    return {
        "bernoulli": environments.bernoulli(means),
        "memory": environments.memory(means, rounds=2),
        "switching_cost": environments.switching_cost(HORIZON, ARMS),
    }


def recorded(environment):
    """The same game; its tally also records the action and the suffered loss of each round."""

    def init(key):
        return environment.init(key), jnp.zeros((), jnp.int32)

    def step(state, key, action):
        inner, t = state
        inner, outcome = environment.step(inner, key, action)
        loss = outcome.loss
        if callable(action):
            features, loss = loss
            action = action(features)
        points = action.ndim > 0
        suffered = mean_value(loss, action) if points else bandit(loss, action)
        now = jnp.arange(HORIZON) == t
        losses = jnp.where(now, suffered, 0.0)
        here = jnp.expand_dims(now, range(1, 1 + action.ndim))
        actions = jnp.where(here, action[None] if points else action, 0)
        return (inner, t + 1), outcome._replace(tally=(outcome.tally, actions, losses))

    def regret(state, tally):
        return environment.regret(state[0], tally[0])

    return environment._replace(init=init, step=step, regret=regret, batch=None)


def plain(value):
    """A JSON number; nine digits distinguish all float32 numbers."""
    number = np.asarray(value).item()
    return float(f"{number:.9g}") if isinstance(number, float) else number


def trajectories(name):
    """{environment: arms or points, losses, regret and report} for one game of each kind."""
    learner = build(name)

    @jax.jit
    def play(key):
        return {
            nature: simulate(learner, recorded(environment), key, checkpoints=1)
            for nature, environment in natures(name).items()
        }

    games = {}
    for nature, result in play(jr.key(SEED)).items():
        _, actions, losses = result.tally
        leaves = jax.tree_util.tree_leaves_with_path(result.report)
        games[nature] = {
            **recorded_actions(name, actions),
            "losses": [plain(loss) for loss in losses],
            "regret": plain(result.regret[-1]),
            "report": {jax.tree_util.keystr(path): plain(leaf) for path, leaf in leaves},
        }
    return games


def recorded_actions(name, actions):
    if takes_points(name):
        return {"points": [[plain(entry) for entry in np.ravel(point)] for point in actions]}
    return {"arms": np.asarray(actions).tolist()}


def path(name):
    return FOLDER / f"{name}.json"


def write(name):
    """One line per quantity, so that a diff is readable."""
    games = []
    for nature, game in trajectories(name).items():
        lines = ",\n".join(f'    "{key}": {json.dumps(value)}' for key, value in game.items())
        games.append(f'  "{nature}": {{\n{lines}\n  }}')
    path(name).write_text("{\n" + ",\n".join(games) + "\n}\n")


if __name__ == "__main__":
    for name in sys.argv[1:] or learners.__all__:
        write(name)
        print(f"wrote {path(name)}")
