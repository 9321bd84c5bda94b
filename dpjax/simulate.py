"""One trajectory: a learner plugged into an environment, as a pure function of a key."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax import random as jr

from dpjax import _check
from dpjax.batches import as_learner, checkpoint_rounds
from dpjax.core import Environment, Result
from dpjax.settings import in_float32

# A float32 sum of n like terms is off by up to n / 2^25 of itself: more than a tenth at 4
# million. Summed over pieces first, n is the rounds in a piece plus the number of pieces: 2e-4.
_PIECE = 1024


@in_float32
def simulate(learner, environment: Environment, key, *, checkpoints=100) -> Result:
    """Plays ``learner.horizon`` rounds and records the regret.

    The environment steps once a round, the learner after each; the learner's last action is
    never played. Nature and the learner's coins are separate keys, folded with the round
    (0 for init), so every learner and every hyperparameter faces the same nature under one key.

    Pure, and not jitted: wrap it in ``jax.jit`` or ``jax.vmap``, or use :func:`dpjax.sweep`.

    Args:
      learner: a Learner or BatchLearner (which is then played round by round).
      environment: an Environment at least as long as the learner's horizon.
      key: PRNG key, consumed.
      checkpoints: at how many evenly spaced rounds regret is recorded, at most one a round; or
        these rounds themselves, the last one the horizon.

    Returns:
      A Result, with regret (n,). Tallies are summed over pieces of 1024 rounds and then across,
      which keeps float32 sums accurate over millions of rounds.

    Raises:
      ValueError: the environment has fewer rounds than the learner plays.
      TypeError: the learner, the environment or the key is something else.
    """
    _check.players(learner, environment)
    _check.key(key=key)
    rounds = checkpoint_rounds(learner, environment, checkpoints)
    learner = as_learner(learner)
    nature, coins = jr.split(key)
    learner_state, action = learner.init(jr.fold_in(coins, 0))
    environment_state = environment.init(jr.fold_in(nature, 0))

    def one_round(t, carry):
        learner_state, action, environment_state, tally = carry
        environment_state, outcome = environment.step(
            environment_state, jr.fold_in(nature, t), action
        )
        loss = learner.feedback(outcome.loss, action)
        learner_state, action = learner.step(learner_state, jr.fold_in(coins, t), loss)
        tally = jax.tree.map(jnp.add, tally, outcome.tally)
        return learner_state, action, environment_state, tally

    # A function of this call: JAX keeps shapes under the function, whatever that reads elsewhere.
    outcome = jax.eval_shape(
        lambda *now: environment.step(*now), environment_state, nature, action
    )[1]
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), outcome.tally)

    def one_segment(carry, bounds):
        first, end = bounds

        def one_piece(i, carry):
            *states, total = carry
            start = first + i * _PIECE
            stop = jnp.minimum(start + _PIECE, end)
            *states, tally = lax.fori_loop(start, stop, one_round, (*states, zero))
            return *states, jax.tree.map(jnp.add, total, tally)

        pieces = (end - first + _PIECE - 1) // _PIECE
        carry = lax.fori_loop(0, pieces, one_piece, carry)
        _, _, environment_state, total = carry
        return carry, environment.regret(environment_state, total)

    ends = rounds + 1
    firsts = np.concatenate([[1], ends[:-1]]).astype(np.int32)
    carry = (learner_state, action, environment_state, zero)
    carry, regret = lax.scan(one_segment, carry, (jnp.asarray(firsts), jnp.asarray(ends)))
    learner_state, _, _, total = carry
    return Result(jnp.asarray(rounds), regret, total, learner.report(learner_state))
