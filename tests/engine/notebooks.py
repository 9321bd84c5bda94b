"""Games in notebook cells that change while their names stay the same."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import sweep
from dpjax.core import Arms, Environment, Outcome
from tests.play import idle

POINTS = np.array([1.0, 3.0])


def game_of(loss):
    """Two rounds with the given loss each, whatever is played."""
    environment = Environment(
        init=lambda key: (),
        step=lambda state, key, arm: (state, Outcome(jnp.zeros(2), jnp.asarray(loss, jnp.float32))),
        regret=lambda state, tally: tally,
        action_set=Arms(2),
    )
    return idle(2), environment


def play(game, **options):
    """The regret of each point."""
    options = {"checkpoints": 1, "progress": False, **options}
    return sweep(game, POINTS, 2, jr.key(0), **options).regret[:, 0, -1].tolist()


class Notebook:
    """Cells that share a namespace, as in a notebook."""

    def __init__(self, *cells):
        self.names = {
            "__name__": "notebook",
            "np": np,
            "jnp": jnp,
            "jax": jax,
            "lax": lax,
            "game_of": game_of,
        }
        for cell in cells:
            self.run(cell)

    def run(self, cell):
        exec(cell, self.names)

    @property
    def game(self):
        return self.names["game"]


# Functions of JAX that keep what they trace under the function passed to them.
KEPT = {
    "jit": "jax.jit(cost)(point)",
    "cond": "lax.cond(point > 0.0, cost, cost, point)",
    "switch": "lax.switch(1, [cost, cost], point)",
    "scan": "lax.scan(step, point, None, length=1)[0]",
    "fori_loop": "lax.fori_loop(0, 1, body, point)",
    "while_loop": "lax.while_loop(below, grow, jnp.stack([point, 0.0 * point]))[0]",
    "checkpoint": "jax.checkpoint(cost)(point)",
}
CALLED = [
    "factor = 1.0",
    "def cost(point): return factor * point",
    "def step(point, x): return cost(point), x",
    "def body(i, point): return cost(point)",
    "def below(x): return x[1] < 0.5",
    "def grow(x): return jnp.stack([cost(x[0]), x[1] + 1.0])",
]
CELLS = [
    "factor = 1.25",
    "table = np.arange(5000.0, dtype=np.float32)",
    "def cost(point): return factor * point + jnp.min(jnp.asarray(table))",
    "def game(point): return game_of(cost(point))",
]
