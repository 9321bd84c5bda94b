"""Write the golden trajectories of tests/test_golden.py.

    python -m tests.golden.make              # every learner
    python -m tests.golden.make exp3 ...     # these

A golden file records a learner's behaviour when a person last checked it. Rewrite it only after a
change that is meant to change trajectories, and say so in CHANGELOG.md.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import random as jr

from dpjax import environments, learners, trajectory
from dpjax.combinators import as_learner
from dpjax.core import Pairs, Policies
from dpjax.domains import Domain
from dpjax.feedback import bandit, mean_value
from tests import test_conformance as conformance
from tests.test_conformance import ARMS, plays

FOLDER = Path(__file__).parent
HORIZON, SEED = 64, 2017


def build(name):
    """The learner of that name, with the parameters that its factory takes."""
    return conformance.make(name, HORIZON)


def natures(name):
    """An oblivious adversary and some that remember the actions."""
    if plays(name, Domain):
        kinds, domain = ("switching", "adaptive"), conformance.ARGUMENTS["domain"]
        return {kind: environments.linear_losses(domain, kind, period=16) for kind in kinds}
    means = [0.2, 0.5, 0.6]
    if plays(name, Policies) and build(name).action_set.arms:
        return {"advice": environments.advice(means, ARMS)}
    if plays(name, Policies):
        return {
            "gap_arms": environments.gap_arms(ARMS),
            "fixed_actions": environments.fixed_actions(np.eye(ARMS), [-0.6, 0.0, 0.2]),
        }
    if plays(name, Pairs):
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


def action_and_loss(played):
    """The arm, or the entries of a point, of a round; and the suffered loss."""
    loss = played.outcome.loss
    action = conformance.played(played.action, loss)
    loss = loss[1] if callable(played.action) else loss
    if action.ndim:
        return jnp.ravel(action), mean_value(loss, action)
    return action, bandit(loss, action)


def plain(value):
    """JSON numbers, in a list for each axis; nine digits distinguish all float32 numbers."""
    if np.ndim(value):
        return [plain(entry) for entry in np.asarray(value)]
    number = np.asarray(value).item()
    return float(f"{number:.9g}") if isinstance(number, float) else number


def trajectories(name):
    """{environment: arms or points, losses, regret and report} for one game of each kind."""
    learner = as_learner(build(name))

    def record(played):
        return action_and_loss(played), played.outcome.tally, (played.environment, played.learner)

    @jax.jit
    def play(key):
        games = {}
        for nature, environment in natures(name).items():
            rounds, tallies, states = trajectory(learner, environment, key, record=record)
            tally = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), tallies)
            at_end, state = jax.tree.map(lambda leaf: leaf[-1], states)
            games[nature] = rounds, environment.regret(at_end, tally), learner.report(state)
        return games

    games = {}
    for nature, ((actions, losses), regret, report) in play(jr.key(SEED)).items():
        leaves = jax.tree_util.tree_leaves_with_path(report)
        games[nature] = {
            "points" if plays(name, Domain) else "arms": plain(actions),
            "losses": plain(losses),
            "regret": plain(regret),
            "report": {jax.tree_util.keystr(path): plain(leaf) for path, leaf in leaves},
        }
    return games


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
